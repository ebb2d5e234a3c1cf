"""The life of the interface, from its making to its stop: what it takes when, by the machine ``nri-api``."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fsm.reference.nri.entities import driver
from fsm.reference.nri.nri_errors import NRIError, NRIStoppedError, ReentrantError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fsm.machine import Outcome

AS: Final = {
    "update-pod-sandbox": "relay-pod-update",
    "post-update-pod-sandbox": "relay-pod-update",
    "stop-pod-sandbox": "relay-end",
    "remove-pod-sandbox": "relay-end",
    "stop-container": "relay-end",
    "remove-container": "relay-end",
    "notify-exit": "notify-exit",
}
"""What ``nri-api`` calls what happens to a pod or container; all else is ``relay``."""

IDLE: Final = frozenset({"ignored", "nothing"})
"""The outcomes at which there is nothing to do."""


class Lifecycle:
    """Where one interface stands; the lock that is held while somebody is asked.

    >>> life = Lifecycle("", disabled=False, asked=lambda: False)
    >>> life.state, life.move("start", "started"), life.state
    ('created', None, 'started')
    >>> with life.entered("stop") as acts:
    ...     life.move("stop", "stopped")
    >>> acts, life.state
    (True, 'stopped')
    """

    def __init__(self, release: str, *, disabled: bool, asked: Callable[[], bool]) -> None:
        """One of *release* that was just made; *asked* says whether a plugin is being asked on this thread."""
        self._driver: Final = driver("nri-api", release)
        self._position: Final = self._driver.position()
        self._position.take("new", "disabled" if disabled else "created")
        self._asked: Final = asked
        self._moving: Final = threading.Lock()
        self._blocks = 0
        self.lock = threading.Lock()
        self._holder = 0

    @property
    def state(self) -> str:
        """The machine's name for it."""
        return self._position.state

    def ways(self, event: str) -> tuple[Outcome, ...]:
        """Every way in which *event* may go now; none where the machine is silent."""
        return self._driver.offered(event, self.state)

    def move(self, event: str, outcome: str) -> None:
        """*event* has gone the way that *outcome* names."""
        with self._moving:
            self._position.take(event, outcome)

    def acts(self, event: str) -> bool:
        """Whether there is anything to do at *event*; raises the error that the machine replies."""
        ways = self.ways(event)
        if not ways or ways[0].name in IDLE:
            return False
        if ways[0].name == "refused":
            raise _refusal(event, self.state, ways[0].reply[0])
        return True

    def asked(self, event: str) -> bool:
        """The same, but for :class:`ReentrantError` where whoever is being asked asks."""
        busy = self._holder == threading.get_ident() or self._asked()
        try:
            acts = self.acts(event)
        except NRIError:
            if busy:
                raise ReentrantError from None
            raise
        if acts and busy:
            raise ReentrantError
        return acts

    @contextmanager
    def entered(self, event: str) -> Iterator[bool]:
        """Nobody else is asked, or asks; whether there is anything to do at *event*."""
        if not self.asked(event):
            yield False
            return
        with self.lock:
            self._holder = threading.get_ident()
            try:
                yield self.acts(event)
            finally:
                self._holder = 0

    def block(self) -> None:
        """Somebody keeps plugins from joining; raises the error that the machine replies."""
        with self._moving:
            self.acts("block")
            self._position.take("block", "blocked")
            self._blocks += 1

    def unblock(self) -> None:
        """One of those does so no more."""
        with self._moving:
            self._blocks -= 1
            self._position.take("unblock", "another" if self._blocks else "last")


def _refusal(event: str, state: str, code: str) -> NRIError:
    """What is raised where the machine replies *code*, and does nothing."""
    match code:
        case "UNAVAILABLE":
            return NRIStoppedError()
        case "UNIMPLEMENTED":
            return UnimplementedError(f"{event}: there is no such method in this release")
        case _:
            return NRIError(f"{event}: not of an NRI interface that is {state} already", code=code)
