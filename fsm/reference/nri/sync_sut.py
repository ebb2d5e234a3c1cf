"""The lock of the reference NRI layer under test: two calls that block, and a plugin that joins, each on a thread of its own.

Who waits goes on only when it is told to, so that each step can be looked at.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from fsm.library import load, load_system
from fsm.machine.driver import Driver
from fsm.product.flatten import shown
from fsm.reference.clock import TurnedClock
from fsm.reference.nri.syncing import AsWritten, SyncLock
from fsm.sut import BrokenError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

REGISTRATION: Final = 5.0
"""Seconds for which a plugin waits, by a clock that stands still."""

NAMES: Final = ("plugin", "call.1", "call.2")

DOES: Final = {
    "begins": "enter",
    "begins-within": "enter",
    "goes-on": "go",
    "ends": "leave",
    "registers": "enter",
    "is-synchronised": "go",
    "has-joined": "leave",
}
"""What a joint event is for whoever it happens to."""


class _Actor(threading.Thread):
    """A call or a plugin: does what it is told, one thing after the other."""

    def __init__(self, name: str, enters: Callable[[ExitStack], None]) -> None:
        super().__init__(name=name, daemon=True)
        self.gated = True
        self.may_go = True
        self.waits = False
        self.told: SimpleQueue[str] = SimpleQueue()
        self._enters = enters
        self._orders: SimpleQueue[str] = SimpleQueue()
        self._inside: list[ExitStack] = []

    def order(self, what: str) -> None:
        """*what* is next."""
        self._orders.put(what)

    def run(self) -> None:
        """Until it is told to end; then nothing is held."""
        while (order := self._orders.get()) != "end":
            if order == "enter":
                stack = ExitStack()
                self._enters(stack)
                self._inside.append(stack)
            else:
                self._inside.pop().close()
        while self._inside:
            self._inside.pop().close()


class PluginSyncSUT:
    """A lock under test: containerd's, or the layer's where calls go first; of another *kind* for those who try what is noticed.

    >>> sut = PluginSyncSUT()
    >>> [sut.do(event) for event in ("begins.1", "registers", "begins-within.1")]
    ['', '', '']
    >>> sut.shows()
    'plugin waiting, call.1 waiting-within'
    >>> sut.close()
    """

    def __init__(self, profile: str = "", *, kind: type[SyncLock] | None = None) -> None:
        self._kind: Final = kind or (SyncLock if profile == "calls-first" else AsWritten)
        self._system: Final = load_system("plugin-sync")
        self._readers: Final = Driver(load("sync-reader"))
        self._writers: Final = Driver(load("sync-writer"))
        self._begin()

    def _begin(self) -> None:
        self._lock = self._gated()
        self._stand = {name: (self._writers if name == "plugin" else self._readers).position() for name in NAMES}
        self._actors = {name: _Actor(name, self._joins if name == "plugin" else self._blocks) for name in NAMES}
        for actor in self._actors.values():
            actor.start()

    def reset(self) -> None:
        """A new lock, at which is nobody."""
        self.close()
        self._begin()

    def close(self) -> None:
        """All come to their end, whoever waits."""
        for actor in self._actors.values():
            actor.gated = False
            actor.order("end")
        self._wake()
        for actor in self._actors.values():
            actor.join()

    def shows(self) -> str:
        """Where each of them stands."""
        return shown(self._system, {name: position.state for name, position in self._stand.items()})

    def do(self, event: str) -> str:
        """Whoever it happens to does it, and waits, or does not."""
        name, _, number = event.partition(".")
        if name not in DOES:
            message = f"the reference of plugin-sync has no event {event!r}"
            raise UnsupportedError(message)
        actor = self._actors[f"call.{number}" if number else "plugin"]
        if DOES[name] == "go":
            actor.may_go = True
            self._wake()
        else:
            actor.order(DOES[name])
        what = actor.told.get()
        if what == "stays":
            message = f"{actor.name} goes on waiting"
            raise BrokenError(message)
        self._stand[actor.name].take(what)
        return ""

    # -- what the threads do -----------------------------------------------

    def _blocks(self, stack: ExitStack) -> None:
        stack.enter_context(self._lock.block())

    def _joins(self, stack: ExitStack) -> None:
        stack.enter_context(self._lock.joining(timeout=REGISTRATION))

    def _told(self, _who: str, what: str) -> None:
        actor = threading.current_thread()
        if isinstance(actor, _Actor):
            actor.waits = what == "waits"
            actor.may_go = not actor.waits
            actor.told.put(what)

    def _wake(self) -> None:
        with self._lock._changed:  # noqa: SLF001  (what wakes them is none of theirs)
            self._lock._changed.notify_all()  # noqa: SLF001

    def _gated(self) -> SyncLock:
        """One at which whoever has to wait goes on when it is told to."""

        class Gated(self._kind):  # type: ignore[misc,name-defined]  # whichever it is
            def _may_block(self) -> bool:
                return _goes(super()._may_block)

            def _may_join(self) -> bool:
                return _goes(super()._may_join)

        return Gated(TurnedClock(), self._told)


def _goes(free: Callable[[], bool]) -> bool:
    """Whether it is *free* for this thread, and that may go; who was told to go, and cannot, says so."""
    actor = threading.current_thread()
    if not isinstance(actor, _Actor):
        return free()
    if not actor.gated:
        return True
    if not actor.may_go or free():
        return actor.may_go
    if actor.waits:
        actor.may_go = False
        actor.told.put("stays")
    return False
