"""A container as containerd keeps it; its record always shows what the machine ``container-status`` shows."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from fsm.machine.driver import CannotHappenError
from fsm.reference.container.effects import Effects
from fsm.reference.container.faults import SimulatedWorld
from fsm.reference.container.record import Resources, Status
from fsm.reference.container.recovery import recovered, state_before
from fsm.reference.container.world import Exit, NoRecordError, WorldError
from fsm.reference.driven import ABSENT, Driven, driver, is_noop, offered, raise_reply

MACHINE: Final = "container-status"


class Container(Effects, Driven):
    """One container with the folder *root*, in its *world*.

    Thread-safe; each stage of a call is one step.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     container = Container(Path(folder, "c1"), SimulatedWorld(Path(folder, "c1")))
    ...     container.call("create")
    ...     container.call("start")
    ...     container.call("stop")
    ...     container.state, container.status().exit_code
    ('exited', 137)
    """

    def __init__(self, root: Path, world: SimulatedWorld) -> None:
        super().__init__(root, world)
        self._lock = threading.RLock()
        self.position = driver(MACHINE).position()

    @classmethod
    def recovered(cls, root: Path, world: SimulatedWorld) -> Self:
        """The container with the folder *root* after a restart.

        It is absent without containerd's record, which clears its folder; if that record cannot be read, until it can be.
        """
        self = cls(root, world)
        before, outcome = ABSENT, ""
        try:
            world.look()
            before, self.storage = recovered(root, world)
            outcome = self.storage.state().name.lower()
        except NoRecordError:
            self.clear()
        except WorldError:
            if root.exists():
                before, outcome = state_before(root, world), "skipped"
        self.position = driver(MACHINE).position(before)
        self.position.take("restart", outcome)
        self._check()
        return self

    @property
    def shows(self) -> str:
        with self._lock:
            return self.position.shows

    def record(self) -> Status | None:
        """A copy of the record, or ``None`` if there is none; never waits for a call."""
        return self.storage.get() if self.storage else None

    def status(self) -> Status:
        with self._step():
            self._begin("status")
            return self._status()

    def call(self, event: str, resources: Resources | None = None) -> None:
        """The call *event*, by the machine's name, from beginning to end; some calls set *resources*."""
        in_progress = self.begin(event, resources)
        while in_progress:
            in_progress = self.end(event)

    def begin(self, event: str, resources: Resources | None = None) -> bool:
        """Begin the call *event*; whether it is still in progress."""
        with self._step():
            self.resources = resources
            return self._begin(event)

    def end(self, event: str) -> bool:
        """Continue the call *event*, which has begun, by one stage; whether it is still in progress."""
        with self._step():
            try:
                ways = self.position.outcomes(event, ends=True)
            except CannotHappenError:
                # Another call has done what this one was to do.
                return self._begin(event)
            return self._take(event, self.endings[event]({way.name for way in ways}), ends=True)

    def exited(self, exit: Exit) -> None:  # noqa: A002  (the domain's word)
        """Record that its process ended with *exit*, unless an earlier exit is recorded.

        Raises :class:`OSError` if it cannot be written; it has to be reported again then.
        """
        with self._step():
            self.exit = exit
            self._begin("exit")

    def oom(self) -> None:
        """Record that a process of it was killed for lack of memory; raises :class:`OSError` as :meth:`exited` does."""
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
        outcome = ""
        if not is_noop(self.position, event):
            effect = self.beginnings.get(event, self.use)
            outcome = effect(offered(self.position, event))
        return self._take(event, outcome)

    def _take(self, event: str, outcome: str, *, ends: bool = False) -> bool:
        """Take *outcome* of *event*, and raise its reply if that is an error; whether the call is in progress now."""
        way = self.position.take(event, outcome, ends=ends)
        raise_reply(event, way, self.why)
        return way.begins

    def _check(self) -> None:
        shows = self.storage.state().value if self.storage else ABSENT
        if shows != self.position.shows:
            raise AssertionError(f"{self.root}: the record shows {shows} in state {self.state}")
