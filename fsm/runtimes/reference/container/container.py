"""A container as containerd keeps it. Its record always shows what the machine ``container-status`` shows."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from fsm.machine.driver import CannotHappenError
from fsm.runtimes.reference.container.checkpoint import CheckpointError
from fsm.runtimes.reference.container.effects import Effects
from fsm.runtimes.reference.container.record import ContainerState, Resources, Status
from fsm.runtimes.reference.container.storage import StatusStorage, load
from fsm.runtimes.reference.container.world import LOST_CODE, LOST_REASON, Exit, NoRecordError, SimulatedWorld, Task
from fsm.runtimes.reference.driven import ABSENT, Driven, WorldError, driver, raise_reply

MACHINE: Final = "container-status"


class Container(Effects, Driven):
    """A container with the directory *root*, in its *world*, under *profile* if one is named.

    Thread-safe. Each stage of a call is one step.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     container = Container(Path(folder, "c1"), SimulatedWorld(Path(folder, "c1")))
    ...     container.call("create")
    ...     container.call("start")
    ...     container.call("stop")
    ...     container.state, container.status().exit_code
    ('exited', 137)
    """

    def __init__(self, root: Path, world: SimulatedWorld, profile: str = "") -> None:
        super().__init__(root, world)
        self._lock = threading.RLock()
        self.position = driver(MACHINE, profile).position()

    @classmethod
    def recovered(cls, root: Path, world: SimulatedWorld, profile: str = "") -> Self:
        """Return the container after a restart.

        If containerd has no record of the container, it is absent and its directory is deleted. If containerd's record
        cannot be read, the container is absent until a restart can read it.
        """
        self = cls(root, world, profile)
        before, outcome = ABSENT, ""
        try:
            world.look()
            before, self.storage = _recovered(root, world)
            outcome = self.storage.state().name.lower()
        except NoRecordError:
            self.clear()
        except WorldError:
            if root.exists():
                storage, task, _ = _left(root, world)
                before, outcome = _state(storage.get(), task), "skipped"
        self.position = driver(MACHINE, profile).position(before)
        self.position.take("restart", outcome)
        self._check()
        return self

    @property
    def shows(self) -> str:
        with self._lock:
            return self.position.shows

    def record(self) -> Status | None:
        """Return a copy of the record, or ``None`` if there is none. Never wait for a call."""
        return self.storage.get() if self.storage else None

    def peek(self) -> Status | None:
        """Return the record itself, which must not be changed, or ``None`` if there is none."""
        return self.storage.peek() if self.storage else None

    def status(self) -> Status:
        with self._step():
            self._begin("status")
            return self._status()

    def call(self, event: str, resources: Resources | None = None) -> None:
        """Make the complete call *event*, named as in the machine. Some calls set *resources*."""
        in_progress = self.begin(event, resources)
        while in_progress:
            in_progress = self.end(event)

    def begin(self, event: str, resources: Resources | None = None) -> bool:
        """Begin the call *event*. Return whether it is still in progress."""
        with self._step():
            self.resources = resources
            return self._begin(event)

    def end(self, event: str) -> bool:
        """Continue the call *event*, which has begun, by one stage. Return whether it is still in progress."""
        with self._step():
            try:
                names = {way.name for way in self.choices(event, ends=True)}
            except CannotHappenError:
                return self._begin(event)  # another call has already done the work of this one
            return self._finish(event, self.endings[event](names), ends=True)

    def exited(self, exit: Exit) -> None:  # noqa: A002  (the domain's word)
        """Record *exit*, unless an earlier one is recorded. After an :class:`OSError`, it must be reported again."""
        with self._step():
            self.exit = exit
            self._begin("exit")

    def oom(self) -> None:
        """Record an OOM kill of one of its processes. Raise :class:`OSError` like :meth:`exited`."""
        with self._step():
            self.position.outcomes("oom")
            self.mark_oom()
            self.position.take("oom")

    @contextmanager
    def _step(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            finally:
                self._check()

    def _begin(self, event: str) -> bool:
        self.why = f"a container in state {self.state}"
        outcome = "" if self.is_noop(event) else self.beginnings.get(event, self.use)(self.offered(event))
        return self._finish(event, outcome)

    def _finish(self, event: str, outcome: str, *, ends: bool = False) -> bool:
        way = self.take(event, outcome, ends=ends)
        raise_reply(event, way, self.why)
        return way.begins

    def _check(self) -> None:
        if self.storage and not self.storage.known:
            return
        shows = self.storage.state().value if self.storage else ABSENT
        if shows != self.position.shows:
            raise AssertionError(f"{self.root}: the record shows {shows} in state {self.state}")


def _recovered(root: Path, world: SimulatedWorld) -> tuple[str, StatusStorage]:
    """Return the state before the restart, and the record after it. Leave an unreadable file as it is, for repair."""
    storage, task, looked_up = _left(root, world)
    before = storage.get()
    after = _reconciled(before, task, world) if looked_up else None
    after = after or before.model_copy(update={"unknown": True})
    if after != before:
        try:
            storage.update_sync(lambda _: after)
        except OSError:  # the next restart does the same again
            storage.update(lambda _: after)
    return _state(before, task), storage


def _left(root: Path, world: SimulatedWorld) -> tuple[StatusStorage, Task | None, bool]:
    """Return the record (unknown if unreadable), the process, and whether the process could be looked up."""
    task, looked_up = None, False
    with suppress(WorldError):
        task, looked_up = world.task(), True
    try:
        return load(root), task, looked_up
    except (CheckpointError, OSError):
        lost = Status(unknown=True, exit_code=LOST_CODE, reason=LOST_REASON)
        return StatusStorage(root, lost), task, looked_up


def _reconciled(status: Status, task: Task | None, world: SimulatedWorld) -> Status | None:
    """Return *status*, updated to match *task*, or ``None`` if the two contradict each other."""
    if task and (not task.started or task.exit):
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
    if status.state() == ContainerState.CREATED:
        return "starting" if task else "created"
    names = {ContainerState.RUNNING: "running", ContainerState.EXITED: "exited"}
    return names.get(status.state(), "unknown-running" if task else "unknown-created")
