"""Events from GetContainerEvents while a runtime is tested, checked against the calls of the tests."""

from collections.abc import Iterable
from threading import Event, Lock, Thread
from time import time_ns
from typing import Final

from fsm.conformance.other_judges import ToldEvents
from fsm.runtimes.live.call_lines import end_of_events, event_line
from fsm.runtimes.live.call_recording import encoded, joined
from fsm.runtimes.live.cri_client import CallAnswer, CriClient, EventStream
from fsm.runtimes.recordings.container_events import KINDS, MISSING
from fsm.runtimes.recordings.cri_calls import CriCallReader
from fsm.runtimes.recordings.event_findings import broken_by
from fsm.trace import Line, Observation

_LONG: Final = 86_400.0
"""Number of seconds after which a stream is replaced by a new one."""

_AGAIN: Final = 0.05
"""Number of seconds between the end of a stream, such as at a restart, and the next stream."""

_ENDING: Final = 5.0
"""Number of seconds within which a closed stream ends."""


class EventWatch:
    """Follows all events of the runtime at *address*, if it has GetContainerEvents.

    If events are *shared* between clients, no event counts as missing, because it may have gone to another client, even
    to one that has left.
    """

    def __init__(self, address: str, *, timeout: float, shared: bool) -> None:
        self._count = 0
        self._shared = shared
        self._reader = CriCallReader()
        self._found: list[Observation] = []
        self._lock = Lock()
        self._client = CriClient(address, timeout=timeout)
        self._stream: EventStream | None = None
        self._over = Event()
        self._thread = Thread(target=self._follow, name="events", daemon=True)
        self._thread.start()

    def take(self, answer: CallAnswer) -> None:
        """Record the *answer* to a call of a test."""
        self._read(encoded(answer))

    def interrupted(self) -> None:
        """Record that the runtime was just restarted.  The end of its stream may be noticed only later."""
        now = time_ns()
        self._read(joined([end_of_events(now, now, "UNAVAILABLE", "")]))

    def close(self) -> None:
        """End the stream.  May be called again."""
        self._over.set()
        if self._stream is not None:
            self._stream.close()
        self._thread.join(_ENDING)
        self._client.close()

    def told(self, machine: str) -> ToldEvents:
        """Stop watching.  Return the number of events and their violations, reported for a test of *machine*."""
        self.close()
        with self._lock:
            self._keep(self._reader.rest())
        found = [each for each in self._found if not (self._shared and each.event == MISSING)]
        return ToldEvents(count=self._count, violations=[broken_by(each, machine, Line("", 0)) for each in found])

    def _follow(self) -> None:
        while not self._over.wait(_AGAIN if self._stream else 0):
            self._stream, began = self._client.events(timeout=_LONG), time_ns()
            if self._over.is_set():
                self._stream.close()
            for message in self._stream:
                self._count += 1
                self._read(joined([event_line(began, time_ns(), message)]))
            self._read(joined([end_of_events(began, time_ns(), self._stream.code, self._stream.detail)]))
            if self._stream.code == "UNIMPLEMENTED":
                return

    def _read(self, lines: bytes) -> None:
        with self._lock:
            for line in lines.splitlines():
                self._keep(self._reader.observations(line, 0))

    def _keep(self, found: Iterable[tuple[int | Line, Observation]]) -> None:
        self._found += (seen for _, seen in found if seen.of in KINDS)
