"""The event monitor of the reference CRI service under test."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fsm.machine.driver import NoWayError
from fsm.reference.criservice.event_monitor import EventMonitor
from fsm.reference.criservice.faults import Feed, cancelled
from fsm.sut import BrokenError, UnsupportedError, drained

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWS: Final[Mapping[str, str]] = {
    "off": "idle",
    "on": "running",
    "closed": "stopped",
    "ended": "stopped",
    "failed": "failed",
}
"""What a component shows as a monitor."""

TURNS: Final = 20


class MonitorSUT:
    """An :class:`~fsm.reference.criservice.event_monitor.EventMonitor` under test; of another *kind* for those who try what is noticed.

    >>> sut = MonitorSUT()
    >>> [sut.do(event) for event in ("subscribe", "start", "stream-ends")], sut.shows(), sut.outputs()
    (['', '', ''], 'failed', ['error'])
    >>> sut.close()
    """

    def __init__(self, profile: str = "", *, kind: type[EventMonitor] | None = None) -> None:
        del profile  # as it is written it panics
        self._kind = kind or EventMonitor
        self._runner = asyncio.Runner()
        self._monitor: EventMonitor | None = None
        self.reset()

    def reset(self) -> None:
        """A new monitor."""
        self._runner.run(self._rest())
        self._runner.run(self._made())

    async def _made(self) -> None:
        self._feed = Feed()
        self._monitor = self._kind(lambda: self._feed, self._handled)
        self._outputs: list[str] = []

    def close(self) -> None:
        """Nothing is left of the event loop."""
        self._runner.run(self._rest())
        self._runner.close()

    @property
    def monitor(self) -> EventMonitor:
        """What is tested."""
        if self._monitor is None:
            raise AssertionError
        return self._monitor

    def shows(self) -> str:
        """Where it is; it has a task as long as it runs, or has an error."""
        shown = SHOWS[self.monitor.state]
        if self.monitor.left != (shown in {"running", "failed"}):
            raise BrokenError(f"it is {shown}, and its task is {'there' if self.monitor.left else 'not there'}")
        return shown

    def outputs(self) -> list[str]:
        """Its error, when it has ended."""
        return drained(self._outputs)

    def do(self, event: str) -> str:
        """*event*, and a few turns of the event loop."""
        self._runner.run(self._happens(event))
        return ""

    async def _happens(self, event: str) -> None:
        before = self.monitor.state
        match event:
            case "subscribe":
                self.monitor.subscribe()
            case "start":
                with suppress(NoWayError):  # nobody says what a second start does
                    self.monitor.start()
            case "stop":
                self.monitor.stop()
            case "stream-ends":
                self._feed.put(OSError("the stream is broken"))
            case _:
                raise UnsupportedError(event)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if before != self.monitor.state == "failed":
            self._outputs.append("error")

    async def _handled(self, event: str) -> None:
        """Nothing."""

    async def _rest(self) -> None:
        if self._monitor is not None:
            self._monitor.release()
        await cancelled()
