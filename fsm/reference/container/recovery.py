"""What becomes of a container after a restart: its checkpoint, and what its process is found to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fsm.reference.container.checkpoint import CheckpointError
from fsm.reference.container.record import ContainerState, Status
from fsm.reference.container.storage import StatusStorage, load
from fsm.reference.container.world import Exit, Task, WorldError

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.reference.container.world import World

LOST_CODE: Final = 255
LOST_REASON: Final = "Unknown"
"""Stand for the code and the reason of an exit that nobody saw."""


def recovered(root: Path, world: World) -> tuple[str, StatusStorage]:
    """The state in which a container was stopped, as far as that can be told, and its record now.

    What cannot be read is left as it is: somebody may mend it.  A process
    that cannot be asked about leaves the record unknown, and whole.
    """
    try:
        task, asked = world.task(), True
    except WorldError:
        task, asked = None, False
    try:
        kept = load(root)
    except (CheckpointError, OSError):
        lost = Status(unknown=True, exit_code=LOST_CODE, reason=LOST_REASON)
        return "unknown-running" if task else "unknown-created", StatusStorage(root, lost)
    before = kept.get()
    now = _now(before, task, world) if asked else None
    if now is None:
        now = before.model_copy(update={"unknown": True})
    if now != before:
        _keep(kept, now)
    return _stood(before, task), kept


def _now(status: Status, task: Task | None, world: World) -> Status | None:
    """*status* in the light of *task*; ``None`` where they do not go together."""
    if task is not None and (not task.started or task.exit is not None) and not _dropped(world):
        return None
    match status.state(), task:
        case ContainerState.CREATED | ContainerState.EXITED, None:
            return status
        case ContainerState.RUNNING, None:
            return _over(status, Exit(LOST_CODE, world.now())).model_copy(update={"reason": LOST_REASON})
        case ContainerState.CREATED, Task(started=False):
            return status
        case ContainerState.CREATED, Task(pid=pid, exit=None):
            return status.model_copy(update={"pid": pid, "started_at": world.now()})
        case ContainerState.RUNNING, Task(started=True, exit=None):
            return status
        case ContainerState.CREATED | ContainerState.RUNNING, Task(started=True, exit=Exit() as ended):
            return _over(status, ended)
        case ContainerState.EXITED, Task(started=True, exit=Exit()):
            return status  # the first exit is believed
        case _:
            return None


def _over(status: Status, exit: Exit) -> Status:  # noqa: A002  (what it is)
    return status.model_copy(update={"pid": 0, "finished_at": exit.at, "exit_code": exit.code})


def _dropped(world: World) -> bool:
    try:
        world.drop()
    except WorldError:
        return False
    return True


def _keep(kept: StatusStorage, now: Status) -> None:
    try:
        kept.update_sync(lambda _: now)
    except OSError:  # the next restart finds out anew
        kept.update(lambda _: now)


def _stood(status: Status, task: Task | None) -> str:
    """The machine's name for where *status*, which was written down, and *task* stood."""
    if status.state() == ContainerState.CREATED:
        return "starting" if task else "created"
    names = {ContainerState.RUNNING: "running", ContainerState.EXITED: "exited"}
    return names.get(status.state(), "unknown-running" if task else "unknown-created")
