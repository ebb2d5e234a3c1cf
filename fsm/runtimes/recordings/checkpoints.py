"""Read checkpoints, the status files that containerd keeps of its containers, each at one point in time.

Everything that containerd reads and writes is in ``fsm.runtimes.reference.container.checkpoint``. This module reads
only what judging needs: the state and the status fields.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fsm.errors import InputError, Problem
from fsm.recordings.line_reader import LONGEST, decode
from fsm.trace import Line, Observation

_PATTERNS: Final = (
    "status",
    "*.status.json",
    "*/status",
    "containers/*/status",
    "io.containerd.grpc.v1.cri/containers/*/status",
)
"""Glob patterns for the checkpoints in the directory of a container, a directory of copies, or containerd's root."""

_SUFFIX: Final = ".status.json"

_ANYTHING: Final = msgspec.json.Decoder(dict[str, object])


class _Status(
    msgspec.Struct,
    rename={"created": "createdat", "started": "startedat", "finished": "finishedat", "exit_code": "exitcode"},
):
    version: str = ""
    created: int = 0
    started: int = 0
    finished: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""

    def shows(self) -> str:
        if self.finished:
            return "CONTAINER_EXITED"
        if self.started:
            return "CONTAINER_RUNNING"
        return "CONTAINER_CREATED" if self.created else "CONTAINER_UNKNOWN"


def files(name: str) -> list[Path]:
    """Return the checkpoint file *name*, or the checkpoints in the directory *name*, or an empty list."""
    path = Path(name)
    try:
        if path.is_file():
            return [path] if path.name == "status" or path.name.endswith(_SUFFIX) else []
        found = {each for pattern in _PATTERNS for each in path.glob(pattern) if each.is_file()}
    except OSError:  # opening it will report the error
        return []
    return sorted(found) if name != "-" else []


def observations(found: Sequence[Path]) -> Iterator[tuple[Line, Observation]]:
    """Yield the state shown by each of the files *found*. Its container is named after the file or its directory.

    Raise :class:`InputError` listing all files that containerd could not read.
    """
    problems = []
    for path in found:
        name = path.name.removesuffix(_SUFFIX) if path.name != "status" else path.resolve().parent.name
        try:
            status = _read(path)
        except (OSError, ValueError) as error:
            hint = "containerd shows such a container as CONTAINER_UNKNOWN; move the file away to judge the others"
            problems.append(
                Problem(path=str(path), line=0, code="FSM213", what=f"is no checkpoint: {error}", hint=hint)
            )
            continue
        fields = {each.replace("_", "-"): value for each, value in msgspec.structs.asdict(status).items()}
        del fields["version"]
        yield Line(str(path), 1), Observation(entity=name, of="container", shows=status.shows(), fields=fields)
    if problems:
        raise InputError(problems)


def _read(path: Path) -> _Status:
    with path.open("rb") as file:
        data = file.read(LONGEST + 1)
    if not data.strip() or len(data) > LONGEST:
        raise ValueError(f"it has {len(data):,} bytes{'' if data.strip() else ', and no record in them'}")
    raw = decode(data, _ANYTHING)
    # Go ignores the case of keys, and treats null like a missing key.
    status = msgspec.convert({key.casefold(): value for key, value in raw.items() if value is not None}, _Status)
    if status.version != "v1":
        version = f"of version {status.version!r}" if status.version else "without a version"
        raise ValueError(f"it is {version}, and only 'v1' can be read")
    return status
