"""The effects of a container's events on its data and its world."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from fsm.runtimes.reference.container import durable_files
from fsm.runtimes.reference.container.record import Resources, Status
from fsm.runtimes.reference.container.storage import StatusStorage, store
from fsm.runtimes.reference.container.world import (
    LOST_CODE,
    Exit,
    LateError,
    NoRecordError,
    NoTaskError,
    SimulatedWorld,
)
from fsm.runtimes.reference.driven import WorldError, first_of

Effect: TypeAlias = Callable[[set[str]], str]

START_ERROR_CODE: Final = 128
START_ERROR: Final = "StartError"
OOM_KILLED: Final = "OOMKilled"


class Effects:
    """Effects on the container with the directory *root*, in its *world*. ``storage`` has its record, if any.

    ``beginnings`` maps each event to its effect when it begins. All other events have the effect :meth:`use`.
    ``endings`` maps each call to its effect when it continues. ``resources`` and ``exit`` are arguments of the current
    event. ``why`` is the reason if the event fails.
    """

    def __init__(self, root: Path, world: SimulatedWorld) -> None:
        self.root = root
        self.world = world
        self.storage: StatusStorage | None = None
        self.resources: Resources | None = None
        self.exit = Exit(0, 0)
        self.why = ""
        self.beginnings: Mapping[str, Effect] = {
            "create": self._create,
            "start": self._begin_start,
            "stop": self._stop,
            "remove": self._begin_removal,
            "exit": self._exit,
            "update-resources": self._update,
        }
        self.endings: Mapping[str, Effect] = {"start": self._end_start, "remove": self._end_removal}

    def _failure(self, outcome: str, error: Exception) -> str:
        self.why = str(error)
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
        """Kill the process and record that. If *exit_follows*, leave a past exit for the exit event to record."""
        late = False
        try:
            try:
                ended = self.world.kill()
            except NoTaskError:
                if exit_follows:
                    return "gone-already"
                ended = Exit(LOST_CODE, self.world.now())
            except LateError as error:
                self.why = str(error)
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
        self._record_exit(self.exit)
        return next(iter(names))

    def _update(self, _names: set[str]) -> str:
        try:
            self.world.use()
            self.write(resources=self.resources)
        except (WorldError, OSError) as error:
            return self._failure("failed", error)
        return "updated"

    def mark_oom(self) -> None:
        if self.storage:
            self.write(reason=OOM_KILLED)

    def use(self, names: set[str]) -> str:
        try:
            self.world.use()
        except WorldError as error:
            return self._failure("failed", error)
        return next(iter(names - {"failed"}))

    def _look(self, outcome: str) -> str:
        """Return *outcome* if containerd has a record of the container, or the outcome of the failure."""
        try:
            self.world.look()
        except WorldError as error:
            return self._failure("no-record" if isinstance(error, NoRecordError) else "no-info", error)
        return outcome

    def _existing(self) -> StatusStorage:
        if self.storage is None:
            raise AssertionError(f"{self.root}: no record")
        return self.storage

    def _status(self) -> Status:
        return self._existing().get()

    def _flag(self, **fields: bool) -> None:
        """Change *fields* only in memory."""
        self._existing().update(lambda status: status.model_copy(update=fields))

    def write(self, **fields: object) -> None:
        """Change *fields* in memory and in the file."""
        self._existing().update_sync(lambda status: status.model_copy(update=fields))

    def _record_exit(self, exit: Exit) -> None:  # noqa: A002  (the domain's word)
        first = {"pid": 0, "finished_at": exit.at, "exit_code": exit.code}
        self.write(unknown=False, **({} if self._status().finished_at else first))

    def clear(self) -> None:
        StatusStorage(self.root, Status()).delete()
        with suppress(OSError):
            self.root.rmdir()
