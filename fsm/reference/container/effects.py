"""What the events of a container do to its data and to the world: the effects that its lifecycle leaves to others.

Nothing here knows the state that the container is in.  An effect is told the
names of the outcomes that the machine offers, does what there is to do, and
says which of them that was.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fsm.reference.container.record import Resources, Status
from fsm.reference.container.recovery import LOST_CODE
from fsm.reference.container.storage import StatusStorage, store
from fsm.reference.container.world import Exit, LateError, NoRecordError, NoTaskError, WorldError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import TypeAlias

    from fsm.reference.container.world import World

    Effect: TypeAlias = Callable[[str, set[str]], str]

START_ERROR_CODE: Final = 128
START_ERROR: Final = "StartError"
OOM_KILLED: Final = "OOMKilled"


class Effects:
    """The effects on the container whose folder is *root*, in its *world*.

    ``kept`` is its record, if it has one; ``resources`` and ``exit`` are
    what the event at hand is about, ``why`` is why it fails if it does.
    """

    def __init__(self, root: Path, world: World) -> None:
        self.root = root
        self.world = world
        self.kept: StatusStorage | None = None
        self.resources: Resources | None = None
        self.exit = Exit(0, 0)
        self.why = ""

    @property
    def beginnings(self) -> Mapping[str, Effect]:
        """What is done when an event begins, or happens."""
        return {
            "create": self._created,
            "start": self._starting,
            "stop": self._stopped,
            "remove": self._removing,
            "exit": self._exited,
            "update-resources": self._updated,
        }

    @property
    def endings(self) -> Mapping[str, Effect]:
        """What is done when a call goes on."""
        return {"start": self._started, "remove": self._removed}

    def _created(self, _event: str, _names: set[str]) -> str:
        # The file comes first: without containerd's record it is cleared away by a restart.
        self.root.mkdir(exist_ok=True)
        try:
            kept = store(self.root, Status(created_at=self.world.now(), resources=self.resources))
            self.world.make()
        except (OSError, WorldError) as error:
            self.why = str(error)
            self.clear()
            return "failed"
        self.kept = kept
        return "created"

    def _starting(self, _event: str, _names: set[str]) -> str:
        try:
            self.world.look()
        except WorldError as error:
            self.why = str(error)
            return "no-info"
        self._note(starting=True)
        return "begins"

    def _started(self, _event: str, names: set[str]) -> str:
        if "started" not in names:
            self._note(starting=False)
            return ""
        try:
            return self._ran()
        except OSError as error:
            self.why = str(error)
            with suppress(WorldError):
                self.world.kill()
            self._note(starting=False)
            return "not-recorded"

    def _ran(self) -> str:
        try:
            pid = self.world.run()
        except WorldError as error:
            self.why = str(error)
            failure = {"exit_code": START_ERROR_CODE, "reason": START_ERROR, "message": self.why}
            self.write(pid=0, finished_at=self.world.now(), **failure)
            return "failed"
        self.write(pid=pid, started_at=self.world.now(), starting=False)
        return "started"

    def _stopped(self, _event: str, names: set[str]) -> str:
        if "no-record" in names:
            return self._asked("ignored")
        killed = self._killed(told="gone-already" in names)
        meant = {"killed": "stopped", "killed-only": "stopped-late"}.get(killed, killed)
        return _first(names, meant, "cut-short", "failed")

    def _removing(self, _event: str, names: set[str]) -> str:
        asked = self._asked(_first(names, "begins", "killed", "refused"))
        if asked == "no-record":
            self.clear()
            self.kept = None
        if asked == "killed":
            asked = self._killed()
        if asked in {"begins", "killed"}:
            self._note(removing=True)
        return _first(names, asked, "not-killed", "refused")

    def _killed(self, *, told: bool = False) -> str:
        """End the process, and write that down; *told* if somebody will tell of an exit that has been."""
        late = False
        try:
            try:
                ended = self.world.kill()
            except NoTaskError:
                if told:
                    return "gone-already"
                ended = Exit(LOST_CODE, self.world.now())
            except LateError as error:
                self.why = str(error)
                ended, late = error.exit, True
            self._ended(ended)
        except (WorldError, OSError) as error:
            self.why = str(error)
            return "not-killed"
        return "killed-only" if late else "killed"

    def _removed(self, _event: str, _names: set[str]) -> str:
        status = self.status()
        try:
            self.world.forget()
            self.clear()
        except (WorldError, OSError) as error:
            self.why = str(error)
            # What was deleted cannot be changed: the record goes on in memory.
            self.kept = StatusStorage(self.root, status.model_copy(update={"removing": False}))
            return "failed"
        self.kept = None
        return "removed"

    def _exited(self, _event: str, names: set[str]) -> str:
        self._ended(self.exit)
        return next(iter(names))

    def _updated(self, event: str, _names: set[str]) -> str:
        try:
            self.world.use(event, self.resources)
            self.write(resources=self.resources)
        except (WorldError, OSError) as error:
            self.why = str(error)
            return "failed"
        return "updated"

    def marked(self) -> None:
        """Note, of whatever there is, that it was killed for want of memory."""
        if self.kept:
            self.write(reason=OOM_KILLED)

    def used(self, event: str, names: set[str]) -> str:
        """Have the world do what *event* is for."""
        try:
            self.world.use(event)
        except WorldError as error:
            self.why = str(error)
            return "failed"
        return next(iter(names - {"failed"}))

    # -- the record --------------------------------------------------------

    def _asked(self, found: str) -> str:
        """*found*, if containerd has its record of the container."""
        try:
            self.world.look()
        except NoRecordError as error:
            self.why = str(error)
            return "no-record"
        except WorldError as error:
            self.why = str(error)
            return "no-info"
        return found

    def _storage(self) -> StatusStorage:
        if self.kept is None:
            message = f"{self.root}: no record"
            raise AssertionError(message)
        return self.kept

    def status(self) -> Status:
        """A copy of the record."""
        return self._storage().get()

    def _note(self, **fields: bool) -> None:
        """Change *fields* in memory."""
        self._storage().update(lambda status: status.model_copy(update=fields))

    def write(self, **fields: object) -> None:
        """Change *fields*, in the file too."""
        self._storage().update_sync(lambda status: status.model_copy(update=fields))

    def _ended(self, exit: Exit) -> None:  # noqa: A002  (what it is)
        """Write *exit* down, unless an earlier one is there."""
        first = {"pid": 0, "finished_at": exit.at, "exit_code": exit.code}
        self.write(unknown=False, **({} if self.status().finished_at else first))

    def clear(self) -> None:
        """Remove the file, and the folder if nothing else is in it."""
        StatusStorage(self.root, Status()).delete()
        with suppress(OSError):
            self.root.rmdir()


def _first(names: set[str], *wanted: str) -> str:
    """The first of *wanted* that is among *names*."""
    return next(each for each in wanted if each in names)
