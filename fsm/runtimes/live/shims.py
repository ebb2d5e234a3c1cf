"""containerd shims on this machine. containerd leaves some running when a start fails or when it is killed."""

from contextlib import suppress
from pathlib import Path


def shims() -> dict[int, str]:
    """Return, by process id, the id for which each running shim was started.  Empty without ``/proc``."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            program, *words = file.read_bytes().decode(errors="replace").split("\0")
            if Path(program).name.startswith("containerd-shim") and "-id" in words[:-1]:
                found[int(file.parent.name)] = words[words.index("-id") + 1]
    return found


def left(before: dict[int, str]) -> str:
    """Return the command that kills the shims started since *before*, or an empty string if there are none."""
    new = sorted(set(shims()) - set(before))
    return f"kill {' '.join(map(str, new))}" if new else ""
