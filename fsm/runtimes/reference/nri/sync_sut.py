"""The lock of the reference NRI layer under test, with two blocking calls and a joining plugin on threads.

A waiting thread continues only after an event for it, so that each step can be observed.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from queue import SimpleQueue
from typing import Final

from fsm.language.library import load_system
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.driven import driver
from fsm.runtimes.reference.harness import ReferenceSUT
from fsm.runtimes.reference.nri.sync_lock import SyncLock, UpstreamSyncLock
from fsm.sut import BrokenError, UnsupportedError

REGISTRATION: Final = 5.0
"""A plugin's timeout in seconds, by a clock that does not advance."""

SYSTEM: Final = load_system("plugin-sync")

ORDERS: Final = {
    **dict.fromkeys(("begins", "begins-within", "registers"), "enter"),
    **dict.fromkeys(("goes-on", "is-synchronised"), "go"),
    **dict.fromkeys(("ends", "has-joined"), "leave"),
}
"""Maps each joint event to the order that it gives to its process."""


class _Process(threading.Thread):
    """A call or a plugin. Puts each step into ``steps``. If ``gated``, it takes the lock only when it ``may_go``."""

    gated, may_go, waits = True, True, False

    def __init__(self, name: str, machine: str, enter: Callable[[], AbstractContextManager[object]]) -> None:
        super().__init__(name=name, daemon=True)
        self.position = driver(machine).position()
        self.steps: SimpleQueue[str] = SimpleQueue()
        self.orders: SimpleQueue[str] = SimpleQueue()
        self._enter = enter

    def run(self) -> None:
        while (order := self.orders.get()) == "enter":
            with self._enter():
                self.run()
        if order == "end":  # leave the outer contexts too
            self.orders.put(order)


class PluginSyncSUT(ReferenceSUT[SyncLock]):
    """The lock under test: containerd's or, under the profile ``calls-first``, that of the reference NRI layer.

    >>> sut = PluginSyncSUT()
    >>> [sut.do(event) for event in ("begins.1", "registers", "begins-within.1")]
    ['', '', '']
    >>> sut.shows()
    'plugin waiting, call.1 waiting-within'
    >>> sut.close()
    """

    machine = "plugin-sync"
    kinds = (UpstreamSyncLock, SyncLock)
    profiles = ("calls-first",)

    def reset(self) -> None:
        super().reset()
        self._lock = self._gated()
        join = partial(self._lock.joining, timeout=REGISTRATION)
        self._processes = {"plugin": _Process("plugin", "sync-writer", join)}
        self._processes |= {name: _Process(name, "sync-reader", self._lock.block) for name in ("call.1", "call.2")}
        for process in self._processes.values():
            process.start()
        self._scope.callback(self._end)

    def _end(self) -> None:
        for process in self._processes.values():
            process.gated = False
            process.orders.put("end")
        self._wake()
        for process in self._processes.values():
            process.join()

    def shows(self) -> str:
        return SYSTEM.shows({name: process.position.state for name, process in self._processes.items()})

    def do(self, event: str) -> str:
        """Give the process of *event* its order, and wait until it has followed the order or waits."""
        name, _, number = event.partition(".")
        if name not in ORDERS:
            raise UnsupportedError(f"the reference of plugin-sync has no event {event!r}")
        process = self._processes[f"call.{number}" if number else "plugin"]
        if ORDERS[name] == "go":
            process.may_go = True
            self._wake()
        else:
            process.orders.put(ORDERS[name])
        step = process.steps.get()
        if step == "stays":
            raise BrokenError(f"{process.name} continues to wait")
        process.position.take(step)
        return ""

    def _observe(self, _process: str, step: str) -> None:
        process = threading.current_thread()
        if isinstance(process, _Process):
            process.waits = step == "waits"
            process.may_go = not process.waits
            process.steps.put(step)

    def _wake(self) -> None:
        with self._lock._changed:  # noqa: SLF001  (usually only the lock wakes them)
            self._lock._changed.notify_all()  # noqa: SLF001

    def _gated(self) -> SyncLock:

        class Gated(self._kind):  # type: ignore[misc,name-defined]  # any kind of lock
            def _may_block(self) -> bool:
                return _may_go(super()._may_block)

            def _may_join(self) -> bool:
                return _may_go(super()._may_join)

        return Gated(TurnedClock(), self._observe)


def _may_go(free: Callable[[], bool]) -> bool:
    """Check whether the lock is *free* for this thread and the thread may go. Report a thread that cannot go yet."""
    process = threading.current_thread()
    if not isinstance(process, _Process):
        return free()
    if not process.gated:
        return True
    if not process.may_go or free():
        return process.may_go
    if process.waits:
        process.may_go = False
        process.steps.put("stays")
    return False
