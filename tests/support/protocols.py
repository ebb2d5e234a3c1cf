"""Generate modules with protoc from the protocols in ``fsm/runtimes/sockets``.

``python tests/support/protocols.py --write`` generates the modules again; ``tests/live/test_protocols.py`` fails if
they are out of date.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from grpc_tools import protoc

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PROTOCOLS: Final = tuple(sorted((ROOT / "fsm" / "runtimes" / "sockets").glob("*.proto")))


def made(protocol: Path) -> dict[Path, str]:
    with tempfile.TemporaryDirectory() as folder:
        name = str(protocol.relative_to(ROOT))
        if protoc.main(["protoc", f"-I{ROOT}", f"--python_out={folder}", f"--pyi_out={folder}", name]):
            raise SystemExit(f"protoc refuses {name}")
        return {
            ROOT / path.relative_to(folder): path.read_text(encoding="utf-8")
            for path in sorted(Path(folder).rglob("*.py*"))
        }


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    for each in PROTOCOLS:
        for path, text in made(each).items():
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")
