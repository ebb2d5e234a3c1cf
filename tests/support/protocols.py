"""Generate descriptors and types with protoc from the protocols in ``fsm/runtimes/sockets``.

``python tests/support/protocols.py --write`` generates the files again; ``tests/live/test_protocols.py`` fails if
they are out of date.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Final

from grpc_tools import protoc

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PROTOCOLS: Final = tuple(sorted((ROOT / "fsm" / "runtimes" / "sockets").glob("*.proto")))
# What protoc writes into each class, although no code reads numbers of fields, and slots are not types.
UNUSED: Final = re.compile(rb"^ +(?:__slots__ = .*|\w+_FIELD_NUMBER: .*)\n", re.MULTILINE)


def made(protocol: Path) -> dict[Path, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        name = protocol.relative_to(ROOT)
        descriptors = Path(folder, name).with_suffix(".binpb")
        descriptors.parent.mkdir(parents=True)
        if protoc.main(
            ["protoc", f"-I{ROOT}", f"--descriptor_set_out={descriptors}", f"--pyi_out={folder}", str(name)]
        ):
            raise SystemExit(f"protoc refuses {name}")
        found = {path.relative_to(folder): path.read_bytes() for path in sorted(descriptors.parent.iterdir())}
        return {ROOT / at: UNUSED.sub(b"", data) if at.suffix == ".pyi" else data for at, data in found.items()}


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    for each in PROTOCOLS:
        for path, data in made(each).items():
            path.write_bytes(data)
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")
