"""A container driven by the machine ``container-status``, which always shows the same state as the record."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self, TypeAlias

from fsm.machine.driver import CannotHappenError
from fsm.runtimes.reference.container import durable_files
from fsm.runtimes.reference.container.record import CheckpointError, ContainerState, Resources, Status
from fsm.runtimes.reference.container.storage import StatusStorage, load, store
from fsm.runtimes.reference.container.world import (
    LOST_CODE,
    LOST_REASON,
    Exit,
    LateError,
    NoRecordError,
    NoTaskError,
    SimulatedWorld,
    Task,
)
from fsm.runtimes.reference.driven import ABSENT, Driven, WorldError, driver, first_of, raise_reply

MACHINE: Final = "container-status"

Effect: TypeAlias = Callable[[set[str]], str]

START_ERROR_CODE: Final = 128
START_ERROR: Final = "StartError"
OOM_KILLED: Final = "OOMKilled"


class Container(Driven):
    """A container whose record is in the directory *root* and whose process is in *world*. Thread-safe.

    If *profile* is not empty, the machine behaves as under that profile. Each stage of a call is atomic. ``storage`` is
    ``None`` while there is no record.

    ``_beginnings`` maps events to the methods that carry them out, and ``_endings`` maps calls that take time to the
    methods that complete them. All other events only need :meth:`use`. Each method receives the names of the
    possible outcomes and returns the outcome that occurred. After a failure, the reason is in ``_why``.

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
        super().__init__(driver(MACHINE, profile).position())
        self.root = root
        self.world = world
        self.storage: StatusStorage | None = None
        self.resources: Resources | None = None
        self._exited = Exit(0, 0)
        self._why = ""
        self._lock = threading.RLock()
        self._beginnings: Mapping[str, Effect] = {
            "create": self._create,
            "start": self._begin_start,
            "stop": self._stop,
            "remove": self._begin_removal,
            "exit": self._exit,
            "update-resources": self._update,
        }
        self._endings: Mapping[str, Effect] = {"start": self._end_start, "remove": self._end_removal}

    @classmethod
    def recovered(cls, root: Path, world: SimulatedWorld, profile: str = "") -> Self:
        """Return the container after a restart.

        If containerd has no record of the container, its directory is deleted. If containerd's record cannot be read,
        the container is skipped until a later restart can read the record. In both cases, the container is absent.
        """
        self = cls(root, world, profile)
        before, outcome = ABSENT, ""
        try:
            world.look()
            before, self.storage = _recover_record(root, world)
            outcome = self.storage.state().name.lower()
        except NoRecordError:
            self.clear()
        except WorldError:
            if root.exists():
                storage, task, _ = _read_remains(root, world)
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
        """Return a copy of the record, or ``None`` if there is no record. This never waits for a call."""
        return self.storage.get() if self.storage else None

    def peek(self) -> Status | None:
        return self.storage.peek() if self.storage else None

    def status(self) -> Status:
        with self._step():
            self._begin("status")
            return self._status()

    def call(self, event: str, resources: Resources | None = None) -> None:
        """Make the call *event* from beginning to end. Only a creation or an update uses *resources*."""
        in_progress = self.begin(event, resources)
        while in_progress:
            in_progress = self.end(event)

    def begin(self, event: str, resources: Resources | None = None) -> bool:
        with self._step():
            self.resources = resources
            return self._begin(event)

    def end(self, event: str) -> bool:
        """Perform the next stage of the call *event*. Return whether the call is still in progress."""
        with self._step():
            try:
                names = {way.name for way in self.choices(event, ends=True)}
            except CannotHappenError:
                return self._begin(event)  # another call has already done this work
            return self._finish(event, self._endings[event](names), ends=True)

    def exited(self, exit: Exit) -> None:  # noqa: A002  (the domain's word)
        """Record *exit* unless an exit is already recorded. After an :class:`OSError`, call this again with *exit*."""
        with self._step():
            self._exited = exit
            self._begin("exit")

    def oom(self) -> None:
        with self._step():
            self.position.outcomes("oom")
            if self.storage:
                self.write(reason=OOM_KILLED)
            self.position.take("oom")

    @contextmanager
    def _step(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            finally:
                self._check()

    def _begin(self, event: str) -> bool:
        self._why = f"a container in state {self.state}"
        outcome = "" if self.is_noop(event) else self._beginnings.get(event, self.use)(self.offered(event))
        return self._finish(event, outcome)

    def _finish(self, event: str, outcome: str, *, ends: bool = False) -> bool:
        way = self.take(event, outcome, ends=ends)
        raise_reply(event, way, self._why)
        return way.begins

    def _check(self) -> None:
        if self.storage and not self.storage.known:
            return
        shows = self.storage.state().value if self.storage else ABSENT
        if shows != self.position.shows:
            raise AssertionError(f"{self.root}: the record shows {shows} in state {self.state}")

    def _failure(self, outcome: str, error: Exception) -> str:
        self._why = str(error)
        return outcome

    def _create(self, _names: set[str]) -> str:
        # Write the file first: if containerd's record is missing, a restart deletes the file.
        try:
            durable_files.make_folder(self.root, exist_ok=True)
            storage = store(self.root, Status(created_at=self.world.now(), resources=self.resources))
            self.world.make()
        except (OSError, WorldError) as error:
            self.clear()
            return self._failure("failed", error)
        self.storage = storage
        return "created"

    def _begin_start(self, names: set[str]) -> str:
        outcome = first_of(names, self._look("begins"), "no-info")
        if outcome == "begins":
            self._flag(starting=True)
        return outcome

    def _end_start(self, names: set[str]) -> str:
        if "started" not in names:
            self._flag(starting=False)
            return ""
        try:
            return self._run()
        except OSError as error:
            with suppress(WorldError):
                self.world.kill()
            self._flag(starting=False)
            return self._failure("not-recorded", error)

    def _run(self) -> str:
        try:
            pid = self.world.run()
        except WorldError as error:
            failure = {"exit_code": START_ERROR_CODE, "reason": START_ERROR, "message": str(error)}
            self.write(pid=0, finished_at=self.world.now(), **failure)
            return self._failure("failed", error)
        self.write(pid=pid, started_at=self.world.now(), starting=False)
        return "started"

    def _stop(self, names: set[str]) -> str:
        if "no-record" in names:
            return self._look("ignored")
        killed = self._kill(exit_follows="gone-already" in names)
        outcome = {"killed": "stopped", "killed-only": "stopped-late"}.get(killed, killed)
        return first_of(names, outcome, "cut-short", "failed")

    def _begin_removal(self, names: set[str]) -> str:
        if self.storage is None:  # a restart has skipped the container
            self.world.forget()
            self.clear()
            return ""
        outcome = self._look(first_of(names, "begins", "killed", "refused"))
        if outcome == "no-record":
            self.clear()
            self.storage = None
        if outcome == "killed":
            outcome = self._kill()
        if outcome in {"begins", "killed"}:
            self._flag(removing=True)
        return first_of(names, outcome, "not-killed", "refused")

    def _kill(self, *, exit_follows: bool = False) -> str:
        """Kill the process and record its exit. If *exit_follows*, record nothing if the process is already gone."""
        late = False
        try:
            try:
                ended = self.world.kill()
            except NoTaskError:
                if exit_follows:
                    return "gone-already"
                ended = Exit(LOST_CODE, self.world.now())
            except LateError as error:
                self._why = str(error)
                ended, late = error.exit, True
            self._record_exit(ended)
        except (WorldError, OSError) as error:
            return self._failure("not-killed", error)
        return "killed-only" if late else "killed"

    def _end_removal(self, _names: set[str]) -> str:
        status = self._status()
        try:
            self.world.forget()
            self.clear()
        except (WorldError, OSError) as error:
            # A deleted record cannot be changed, so continue with a copy in memory.
            self.storage = StatusStorage(self.root, status.model_copy(update={"removing": False}))
            return self._failure("failed", error)
        self.storage = None
        return "removed"

    def _exit(self, names: set[str]) -> str:
        self._record_exit(self._exited)
        return next(iter(names))

    def _update(self, _names: set[str]) -> str:
        try:
            self.world.use()
            self.write(resources=self.resources)
        except (WorldError, OSError) as error:
            return self._failure("failed", error)
        return "updated"

    def use(self, names: set[str]) -> str:
        try:
            self.world.use()
        except WorldError as error:
            return self._failure("failed", error)
        return next(iter(names - {"failed"}))

    def _look(self, outcome: str) -> str:
        try:
            self.world.look()
        except WorldError as error:
            return self._failure("no-record" if isinstance(error, NoRecordError) else "no-info", error)
        return outcome

    def _require_storage(self) -> StatusStorage:
        if self.storage is None:
            raise AssertionError(f"{self.root}: no record")
        return self.storage

    def _status(self) -> Status:
        return self._require_storage().get()

    def _flag(self, **fields: bool) -> None:
        self._require_storage().update(lambda status: status.model_copy(update=fields))

    def write(self, **fields: object) -> None:
        self._require_storage().update_sync(lambda status: status.model_copy(update=fields))

    def _record_exit(self, exit: Exit) -> None:  # noqa: A002  (the domain's word)
        self.write(unknown=False, **({} if self._status().finished_at else _exit_fields(exit)))

    def clear(self) -> None:
        StatusStorage(self.root, Status()).delete()
        with suppress(OSError):
            self.root.rmdir()


def _recover_record(root: Path, world: SimulatedWorld) -> tuple[str, StatusStorage]:
    """Return the state before a restart, and the stored record after it. An unreadable file is not overwritten."""
    storage, task, looked_up = _read_remains(root, world)
    before = storage.get()
    after = _reconcile(before, task, world) if looked_up else None
    after = after or before.model_copy(update={"unknown": True})
    if after != before:
        try:
            storage.update_sync(lambda _: after)
        except OSError:  # the next restart tries again
            storage.update(lambda _: after)
    return _state(before, task), storage


def _read_remains(root: Path, world: SimulatedWorld) -> tuple[StatusStorage, Task | None, bool]:
    task, looked_up = None, False
    with suppress(WorldError):
        task, looked_up = world.task(), True
    try:
        return load(root), task, looked_up
    except (CheckpointError, OSError):
        return StatusStorage(root, Status(unknown=True, exit_code=LOST_CODE, reason=LOST_REASON)), task, looked_up


def _reconcile(status: Status, task: Task | None, world: SimulatedWorld) -> Status | None:
    """Return a record that matches *task*, or ``None`` if *status* and *task* contradict each other.

    If *task* was not started or has ended, first drop the task from *world*; return ``None`` if this fails.
    """
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
            return status.model_copy(update=_exit_fields(Exit(LOST_CODE, world.now())) | {"reason": LOST_REASON})
        case ContainerState.CREATED, Task(pid=pid, exit=None):
            return status.model_copy(update={"pid": pid, "started_at": world.now()})
        case ContainerState.CREATED | ContainerState.RUNNING, Task(started=True, exit=Exit() as ended):
            return status.model_copy(update=_exit_fields(ended))
        case _:
            return None


def _exit_fields(exit: Exit) -> dict[str, object]:  # noqa: A002  (the domain's word)
    return {"pid": 0, "finished_at": exit.at, "exit_code": exit.code}


def _state(status: Status, task: Task | None) -> str:
    if status.state() == ContainerState.CREATED:
        return "starting" if task else "created"
    names = {ContainerState.RUNNING: "running", ContainerState.EXITED: "exited"}
    return names.get(status.state(), "unknown-running" if task else "unknown-created")
