"""A container as containerd keeps it: its life is the machine ``container-status``, its data are a record and a file.

Whether a call may happen, what follows it and what is replied is the
machine's; what is done to data, and which of the machine's outcomes that was,
is :mod:`fsm.reference.container.effects`' concern.  What the record shows is what the
machine's state shows, always.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from fsm.library import load as machine
from fsm.machine import ANY_ERROR
from fsm.machine.driver import Driver, NoWayError
from fsm.reference.container.effects import Effects
from fsm.reference.container.recovery import recovered
from fsm.reference.container.world import NoRecordError, WorldError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fsm.machine import Outcome
    from fsm.reference.container.record import Resources, Status
    from fsm.reference.container.world import Exit, World

ABSENT: Final = "absent"
PLAIN_ERROR: Final = "UNKNOWN"
"""The code of an error of which containerd says nothing more."""


class CallError(Exception):
    """A call was answered with the error ``code``."""

    def __init__(self, event: str, code: str, why: str) -> None:
        """*event* was refused or failed: *why*."""
        super().__init__(f"{event}: {code}: {why}")
        self.event = event
        self.code = code


class ShutError(Exception):
    """The process that had this container has ended."""


class Container:
    """One container, in the folder *root*, and the *world* it lives in.

    Methods for calls raise :class:`CallError` for an error reply; all raise
    :class:`~fsm.machine.driver.NoWayError` for what cannot happen.  Calls that take
    time can be taken in stages, by :meth:`begin` and :meth:`end`, and others
    meet the container meanwhile.  Threads may share it; each stage is one
    step.  *effects* is what events do to data.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from fsm.reference.container.sut import SimulatedWorld
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     container = Container(Path(folder, "c1"), SimulatedWorld(Path(folder, "c1")))
    ...     container.create()
    ...     container.start()
    ...     container.stop()
    ...     container.state, container.status().exit_code
    ('exited', 137)
    """

    def __init__(self, root: Path, world: World, *, effects: type[Effects] = Effects) -> None:
        self.root = root
        self.world = world
        self._lock = threading.RLock()
        self._shut = False
        self._position = _driver().position()
        self._effects = effects(root, world)

    @classmethod
    def recovered(cls, root: Path, world: World, *, effects: type[Effects] = Effects) -> Container:
        """The container whose folder is *root*, after a restart.

        Without containerd's record there is none, and what is left in the
        folder goes; if that record cannot be read it is passed over.
        """
        self = cls(root, world, effects=effects)
        stood, now = ABSENT, ""
        try:
            world.look()
            stood, self._effects.kept = recovered(root, world)
            now = self._effects.kept.state().name.lower()
        except NoRecordError:
            self._effects.clear()
        except WorldError:
            pass
        self._position = _driver().position(stood)
        self._position.take("restart", now)
        self._agree()
        return self

    # -- what is seen ------------------------------------------------------

    @property
    def state(self) -> str:
        """The machine's name for where it is."""
        return self._position.state

    @property
    def shows(self) -> str:
        """What a client is told."""
        with self._lock:
            return self._position.shows

    def record(self) -> Status | None:
        """A copy of the record, if there is one; never waits for a call."""
        kept = self._effects.kept
        return kept.get() if kept else None

    # -- calls -------------------------------------------------------------

    def create(self, resources: Resources | None = None) -> None:
        """Make it, with the limits *resources*."""
        with self._step():
            self._effects.resources = resources
            self._replied("create", self._begin("create"))

    def start(self) -> None:
        """Run its process."""
        self._whole("start")

    def stop(self) -> None:
        """End its process, if it has one."""
        self._whole("stop")

    def remove(self) -> None:
        """Delete it, and end its process before if need be."""
        self._whole("remove")

    def status(self) -> Status:
        """Its record."""
        with self._step():
            self._replied("status", self._begin("status"))
            return self._effects.status()

    def update_resources(self, resources: Resources) -> None:
        """Change its limits to *resources*."""
        with self._step():
            self._effects.resources = resources
            self._replied("update-resources", self._begin("update-resources"))

    def call(self, event: str) -> None:
        """The call *event*, by the machine's name, from beginning to end."""
        self._whole(event)

    def begin(self, event: str) -> bool:
        """Let the call *event* begin; whether it is in progress now."""
        with self._step():
            way = self._begin(event)
            self._replied(event, way)
            return way.begins

    def end(self, event: str) -> bool:
        """Let the call *event*, which has begun, go on by one stage; whether it is still in progress."""
        with self._step():
            way = self._end(event)
            self._replied(event, way)
            return way.begins

    # -- what happens to it ------------------------------------------------

    def exited(self, exit: Exit) -> None:  # noqa: A002  (what it is)
        """Its process has ended, as *exit* says; the first to say so is believed.

        Raises :class:`OSError` if that cannot be written down, and has then
        not happened: it is to be said again.
        """
        with self._step():
            self._effects.exit = exit
            self._begin("exit")

    def oom(self) -> None:
        """A process of it was killed for want of memory; raises :class:`OSError` as :meth:`exited` does."""
        with self._step():
            self._position.ways("oom")
            self._effects.marked()
            self._position.take("oom")

    def shut(self) -> None:
        """As if the process that has it ended: whatever is asked of it afterwards raises :class:`ShutError`."""
        with self._lock:
            self._shut = True

    # -- steps -------------------------------------------------------------

    @contextmanager
    def _step(self) -> Iterator[None]:
        with self._lock:
            if self._shut:
                message = f"{self.root}: the process that had this container has ended"
                raise ShutError(message)
            try:
                yield
            finally:
                self._agree()

    def _whole(self, event: str) -> None:
        going = self.begin(event)
        while going:
            going = self.end(event)

    def _begin(self, event: str) -> Outcome:
        ways = self._position.ways(event)
        self._effects.why = f"a container in state {self.state}"
        effect = self._effects.beginnings.get(event, self._effects.used)
        # What is ignored or refused has no effect that could choose.
        idle = len(ways) == 1 and ways[0].to == self.state
        return self._position.take(event, "" if idle else effect(event, {way.name for way in ways}))

    def _end(self, event: str) -> Outcome:
        try:
            ways = self._position.ways(event, ends=True)
        except NoWayError:
            # Another call has done what this one was about.
            return self._begin(event)
        names = {way.name for way in ways}
        return self._position.take(event, self._effects.endings[event](event, names), ends=True)

    def _replied(self, event: str, way: Outcome) -> None:
        if not way.begins and not way.replies("ok"):
            code = PLAIN_ERROR if way.reply[0] == ANY_ERROR else way.reply[0]
            raise CallError(event, code, self._effects.why)

    def _agree(self) -> None:
        """That the record shows what the machine does."""
        shows = self._effects.kept.state().value if self._effects.kept else ABSENT
        if shows != self._position.shows:
            message = f"{self.root}: the record shows {shows} in state {self.state}"
            raise AssertionError(message)


@cache
def _driver() -> Driver:
    return Driver(machine("container-status"))
