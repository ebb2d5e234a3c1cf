"""The event monitor of the reference CRI service under test."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from fsm.machine.driver import CannotHappenError
from fsm.reference.criservice.event_monitor import EventMonitor
from fsm.reference.criservice.faults import Feed
from fsm.reference.criservice.service import nothing
from fsm.reference.harness import LoopSUT
from fsm.sut import BrokenError

SHOWS: Final = {"off": "idle", "on": "running", "closed": "stopped", "ended": "stopped", "failed": "failed"}
"""What the machine of the monitor shows, by the state of the component."""


class MonitorSUT(LoopSUT[EventMonitor]):
    """An :class:`~fsm.reference.criservice.event_monitor.EventMonitor` under test."""

    machine = "event-monitor"
    turns = 20
    kinds = (EventMonitor,)

    def reset(self) -> None:
        super().reset()
        self._feed = Feed()
        self.monitor = self._kind(lambda: self._feed, nothing)

    def shows(self) -> str:
        """Its state; it must have a task exactly while it runs or has an error."""
        shown = SHOWS[self.monitor.state]
        if self.monitor.has_task != (shown in {"running", "failed"}):
            raise BrokenError(f"it is {shown}, and has {'a' if self.monitor.has_task else 'no'} task")
        return shown

    def _actions(self) -> Mapping[str, Callable[[], object]]:
        return {
            "subscribe": self.monitor.subscribe,
            "start": self._start,
            "stop": self.monitor.stop,
            "stream-ends": lambda: self._feed.put(OSError("the stream is broken")),
        }

    def _start(self) -> None:
        with suppress(CannotHappenError):  # the machine is silent on a second start
            self.monitor.start()

    async def _settle(self, act: Callable[[], object]) -> None:
        before = self.monitor.state
        await super()._settle(act)
        if before != self.monitor.state == "failed":
            self._outputs.append("error")
