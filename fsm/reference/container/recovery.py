"""What a restart makes of a container: its checkpoint, together with the process that is found."""

from pathlib import Path
from typing import Final

from fsm.reference.container.checkpoint import CheckpointError
from fsm.reference.container.faults import SimulatedWorld
from fsm.reference.container.record import ContainerState, Status
from fsm.reference.container.storage import StatusStorage, load
from fsm.reference.container.world import Exit, Task, WorldError

LOST_CODE: Final = 255
LOST_REASON: Final = "Unknown"
"""Code and reason of an exit that was not observed."""


def recovered(root: Path, world: SimulatedWorld) -> tuple[str, StatusStorage]:
    """The machine's state before the restart, as far as it can be known, and the record after it.

    A file that cannot be read stays as it is, so that it can be repaired.  If
    the process cannot be looked up, the record becomes unknown and keeps its data.
    """
    storage, task, looked_up = _left(root, world)
    before = storage.get()
    after = _reconciled(before, task, world) if looked_up else None
    if after is None:
        after = before.model_copy(update={"unknown": True})
    if after != before:
        try:
            storage.update_sync(lambda _: after)
        except OSError:  # the next restart does the same again
            storage.update(lambda _: after)
    return _state(before, task), storage


def state_before(root: Path, world: SimulatedWorld) -> str:
    """The machine's state before a restart that leaves everything as it is, as far as it can be known."""
    storage, task, _ = _left(root, world)
    return _state(storage.get(), task)


def _left(root: Path, world: SimulatedWorld) -> tuple[StatusStorage, Task | None, bool]:
    """The record, unknown if it cannot be read, and the process, if that could be looked up."""
    try:
        task, looked_up = world.task(), True
    except WorldError:
        task, looked_up = None, False
    try:
        return load(root), task, looked_up
    except (CheckpointError, OSError):
        lost = Status(unknown=True, exit_code=LOST_CODE, reason=LOST_REASON)
        return StatusStorage(root, lost), task, looked_up


def _reconciled(status: Status, task: Task | None, world: SimulatedWorld) -> Status | None:
    """*status* brought up to date with *task*; ``None`` if the two contradict each other."""
    if task is not None and (not task.started or task.exit is not None):
        try:
            world.drop()
        except WorldError:
            return None
    match status.state(), task:
        case (
            (ContainerState.CREATED | ContainerState.EXITED, None)
            | (ContainerState.CREATED, Task(started=False))
            | (ContainerState.RUNNING, Task(started=True, exit=None))
            | (ContainerState.EXITED, Task(started=True, exit=Exit()))  # the first exit counts
        ):
            return status
        case ContainerState.RUNNING, None:
            return _exited(status, Exit(LOST_CODE, world.now())).model_copy(update={"reason": LOST_REASON})
        case ContainerState.CREATED, Task(pid=pid, exit=None):
            return status.model_copy(update={"pid": pid, "started_at": world.now()})
        case ContainerState.CREATED | ContainerState.RUNNING, Task(started=True, exit=Exit() as ended):
            return _exited(status, ended)
        case _:
            return None


def _exited(status: Status, exit: Exit) -> Status:  # noqa: A002  (the domain's word)
    return status.model_copy(update={"pid": 0, "finished_at": exit.at, "exit_code": exit.code})


def _state(status: Status, task: Task | None) -> str:
    """The machine's name for the state in which *status* was written while *task* was there."""
    if status.state() == ContainerState.CREATED:
        return "starting" if task else "created"
    names = {ContainerState.RUNNING: "running", ContainerState.EXITED: "exited"}
    return names.get(status.state(), "unknown-running" if task else "unknown-created")
