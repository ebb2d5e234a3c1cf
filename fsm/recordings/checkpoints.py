"""Checkpoints: the file that containerd keeps of each container, as it stands at one time.

The reference has what containerd reads and writes (``fsm.runtimes.reference.container.checkpoint``); here it is what judging
needs of that: the state, and the fields of a status.
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
"""Where checkpoints stand in a directory: that of one container, copies, and those of containerd's root."""

_SUFFIX: Final = ".status.json"

_ANYTHING: Final = msgspec.json.Decoder(dict[str, object])


class _Status(
    msgspec.Struct,
    rename={"created": "createdat", "started": "startedat", "finished": "finishedat", "exit_code": "exitcode"},
):
    """What is read of a checkpoint, its keys without case."""

    version: str = ""
    created: int = 0
    started: int = 0
    finished: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""

    def shows(self) -> str:
        """The state that containerd derives from it."""
        if self.finished:
            return "CONTAINER_EXITED"
        if self.started:
            return "CONTAINER_RUNNING"
        return "CONTAINER_CREATED" if self.created else "CONTAINER_UNKNOWN"


def files(name: str) -> list[Path]:
    """The checkpoints that *name* stands for: those in the directory, or the one that it is; none if it is neither."""
    path = Path(name)
    try:
        if path.is_file():
            return [path] if path.name == "status" or path.name.endswith(_SUFFIX) else []
        found = {each for pattern in _PATTERNS for each in path.glob(pattern) if each.is_file()}
    except OSError:  # which opening it will say
        return []
    return sorted(found) if name != "-" else []


def observations(found: Sequence[Path]) -> Iterator[tuple[Line, Observation]]:
    """What each of the files *found* shows of its container, which is called as the file or its directory.

    Raises :class:`InputError` for all that containerd could not read.
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
    # Go compares keys without case, and takes null for what is not there.
    status = msgspec.convert({key.casefold(): value for key, value in raw.items() if value is not None}, _Status)
    if status.version != "v1":
        version = f"of version {status.version!r}" if status.version else "without a version"
        raise ValueError(f"it is {version}, and only 'v1' can be read")
    return status
