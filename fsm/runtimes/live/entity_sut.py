"""Shared base of the SUTs for a container and a pod of a real runtime, which may be killed in the middle of a call.

All their calls go through CRI. Crash points are times. Effect number *n* of :class:`~fsm.sut.Crashing` is *n* time
steps after the first one, which is shortly after the call began.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, ClassVar, Final

from fsm.conformance.oracle import ToldEvents
from fsm.machine import Machine
from fsm.runtimes.live.call_recording import named
from fsm.runtimes.live.runtime_session import RuntimeSession, wait
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import METHODS, CallAnswer
from fsm.sut import BrokenError, UnsupportedError
from fsm.trace import ABSENT

PATIENCE: Final = 20.0
"""Number of seconds within which the runtime shows an exit or completes a removal. containerd may take ten seconds."""


CPU_SHARES: Final = cri.LinuxContainerResources(cpu_shares=512)  # resources that tests assign to an entity in an update

DAMAGED: Final = frozenset({"unknown", "unreadable", "skipped", "lost"})
"""Outcomes of a restart in the shipped models that occur only if the stored data of an entity is damaged."""


class EntitySUT(ABC):
    """An entity of *machine* in the runtime of *session*. The SUT closes the session.

    If given, *restart* restarts the runtime, and *damage* restarts it with the stored data of a given entity damaged.
    ``states`` is the CRI enum of the entity's states, and ``key`` the field of requests that has its id. ``calls``
    holds the CRI names of the calls that a client can make. ``certain`` maps a call and an outcome, as named in the
    shipped models, to the only runtime that can promise the outcome, or to an empty string if every runtime can.
    """

    states: ClassVar[Any]
    key: ClassVar[str]
    calls: ClassVar[frozenset[str]]
    status_call: ClassVar[str]
    removal: ClassVar[str]
    listing: ClassVar[str]
    certain: ClassVar[Mapping[tuple[str, str], str]]

    def __init__(
        self,
        machine: Machine,
        session: RuntimeSession,
        restart: Callable[[], None] | None = None,
        *,
        damage: Callable[[str], None] | None = None,
    ) -> None:
        self._machine = machine.name
        self._rpc = {name: event.rpc for name, event in machine.events.items()}
        self._session = session
        self._restart = restart
        self._damage = damage
        self._wanted: set[str] = set()
        self._made: list[str] = []
        self._seen: Any = None
        self._name = ""
        self._begin()

    @abstractmethod
    def _call(self, op: str) -> CallAnswer:
        """Make the call *op* so that the arranged outcomes occur."""

    @abstractmethod
    def _exit(self) -> None:
        """Make the process exit, and wait until the runtime shows the exit."""

    def events(self) -> ToldEvents:
        return self._session.events.told(self._machine)

    def close(self) -> None:
        self._session.close()

    def reset(self) -> None:
        for identity in self._made:
            if not wait(partial(self._is_removed, identity), PATIENCE):
                raise BrokenError(f"{identity} cannot be removed")
        self._begin()

    def _is_removed(self, identity: str) -> bool:
        return self._ask(self.removal, identity).reply in {"ok", "NOT_FOUND"}

    def remove(self) -> None:
        """Request the removal of all that this SUT made. Raise :class:`BrokenError` if the runtime does not answer."""
        for identity in self._made:
            self._session.answered(self._ask(self.removal, identity))

    def _begin(self) -> None:
        self._made.clear()
        # Start with an id that the runtime has never assigned.
        self._id = secrets.token_hex(32)
        self._wanted.clear()

    def _wants(self, *outcomes: str) -> bool:
        """Check whether one of *outcomes* is arranged for the next call."""
        return not self._wanted.isdisjoint(outcomes)

    def _new(self, answer: CallAnswer, identity: str) -> CallAnswer:
        if answer.code == "OK":
            self._id = identity
            self._made.append(identity)
        return answer

    def find(self) -> None:
        """Continue with the entity of this name that the runtime lists, although no reply has returned its id."""
        answer = self._session.answered(self._session.client.call(self.listing))
        entries = (entry for _, listed in answer.message.ListFields() for entry in listed) if answer.message else ()
        for identity in [entry.id for entry in entries if entry.metadata.name == self._name]:
            if identity not in self._made:
                self._id = identity
                self._made.append(identity)

    def arrange(self, event: str, outcome: str) -> bool:
        self._wanted.add(outcome)
        return self.certain.get((self._rpc[event], outcome)) in {"", self._session.runtime}

    def do(self, event: str) -> str:
        try:
            if self._rpc[event] in self.calls:
                return self._session.answered(self._call(self._rpc[event])).reply
            if event == "exit":
                self._exit()
            elif event == "restart" and self._damage is not None and self._seen and self._wanted & DAMAGED:
                self._damage(self._id)
            elif event == "restart" and self._restart is not None:
                self._restart()
            elif event == "restart":
                raise UnsupportedError("--restart-command says how")
            else:
                raise UnsupportedError("no client of CRI can make it happen")
            return ""
        finally:
            self._wanted.clear()

    def shows(self) -> str:
        answer = self._session.answered(self._ask(self.status_call))
        self._seen = answer.message.status if answer.code == "OK" else None
        if self._seen is None:
            return ABSENT if answer.code == "NOT_FOUND" else ""
        return named(self.states, self._seen.state)

    def _is(self, state: int) -> bool:
        answer = self._session.answered(self._ask(self.status_call))
        return answer.code == "OK" and bool(answer.message.status.state == state)

    def _ask(self, op: str, identity: str = "", *, seconds: float | None = None, **fields: object) -> CallAnswer:
        """Call *op* on *identity* (default: the current entity), with more *fields* and within *seconds* if given."""
        request = METHODS[op].request(**{self.key: identity or self._id}, **fields)
        return self._session.client.call(op, request, timeout=seconds)


BEGINNING: Final = 0.003
"""Number of seconds from the start of a call to the earliest kill. A shorter call is not cut off."""

STEP: Final = 0.015  # number of seconds between successive kill times


class KilledSUT(EntitySUT):
    """An entity whose runtime *kill* kills and restarts."""

    def __init__(
        self,
        machine: Machine,
        session: RuntimeSession,
        restart: Callable[[], None] | None,
        *,
        kill: Callable[[], None],
        damage: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(machine, session, restart, damage=damage)
        self._kill = kill

    def crash(self, event: str, point: int) -> bool:
        """Like :class:`~fsm.sut.Crashing`, except that a call that is not cut off needs no restart."""
        if self._rpc[event] not in self.calls:
            raise UnsupportedError("only calls are cut off")
        call = Thread(target=self._attempted, args=(event,), daemon=True)
        call.start()
        call.join(BEGINNING + STEP * point)
        if not call.is_alive():
            return False
        self._kill()
        call.join()
        self.find()  # the reply with the entity's id is lost
        return True

    def _attempted(self, event: str) -> None:
        with suppress(BrokenError):  # the killed runtime does not answer
            self.do(event)
