"""The base class for testing a container or pod of a real runtime through CRI."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, ClassVar, Final

from fsm.conformance.oracle import ToldEvents
from fsm.machine import Machine
from fsm.runtimes.live.call_recording import named
from fsm.runtimes.live.passing_calls import id_in
from fsm.runtimes.live.runtime_session import RuntimeSession, listed, wait
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import METHODS, CallAnswer
from fsm.sut import BrokenError, UnsupportedError
from fsm.trace import ABSENT

PATIENCE: Final = 20.0
"""Number of seconds to wait for an exit to become visible or a removal to succeed. containerd may need ten."""

BEGINNING: Final = 0.003  # number of seconds from the start of a call to the first crash point
STEP: Final = 0.015  # number of seconds between successive crash points
CPU_SHARES: Final = cri.LinuxContainerResources(cpu_shares=512)  # resources that tests request in an update
DAMAGED: Final = frozenset({"unknown", "unreadable", "skipped", "lost"})
"""The shipped models' names for outcomes of a restart that only damaged data can cause."""


class EntitySUT(ABC):
    """A SUT for one container or pod of a real runtime, tested against *machine*. The SUT closes its *session*.

    Subclasses set ``kind`` to the entity's name in CRI, ``states`` to the CRI enum of its states, ``key`` to the
    request field for its id, and ``calls`` to the CRI names of the calls that a client can make. ``certain`` maps each
    call to the outcomes that certainly occur if :meth:`arrange` has been called for them. Outcomes have the names of
    the shipped models. An outcome that is certain on only one runtime has a suffix, as in ``failed on containerd``.
    """

    kind: ClassVar[str]
    states: ClassVar[Any]
    key: ClassVar[str]
    calls: ClassVar[frozenset[str]]
    listing: ClassVar[str]
    certain: ClassVar[Mapping[str, Collection[str]]]

    def __init__(self, machine: Machine, session: RuntimeSession) -> None:
        self._machine = machine.name
        self._rpc = {name: event.rpc for name, event in machine.events.items()}
        self._session = session
        if session.kill is not None:  # a SUT without this attribute counts as unable to crash
            self.crash = partial(self._crash, session.kill)
        self._wanted: set[str] = set()
        self._made: list[str] = []
        self._seen: Any = None
        self._name = ""
        self._begin()

    @abstractmethod
    def _call(self, op: str) -> CallAnswer:
        """Make the call *op* in a way that causes the arranged outcomes."""

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
        return self._ask(f"Remove{self.kind}", identity).reply in {"ok", "NOT_FOUND"}

    def remove(self) -> None:
        for identity in self._made:
            self._session.answered(self._ask(f"Remove{self.kind}", identity))

    def _begin(self) -> None:
        self._made.clear()
        self._id = secrets.token_hex(32)  # until an entity is created, the runtime does not know this id
        self._wanted.clear()

    def _wants(self, *outcomes: str) -> bool:
        return not self._wanted.isdisjoint(outcomes)

    def _new(self, answer: CallAnswer) -> CallAnswer:
        if answer.code == "OK":
            self._keep(id_in(answer.message))
        return answer

    def _keep(self, identity: str) -> None:
        self._id = identity
        self._made.append(identity)

    def find(self) -> None:
        answer = self._session.answered(self._session.client.call(self.listing))
        for entry in listed(answer):
            if entry.metadata.name == self._name and entry.id not in self._made:
                self._keep(entry.id)

    def arrange(self, event: str, outcome: str) -> bool:
        self._wanted.add(outcome)
        certain = self.certain.get(self._rpc[event], ())
        return outcome in certain or f"{outcome} on {self._session.runtime}" in certain

    def do(self, event: str) -> str:
        try:
            if self._rpc[event] in self.calls:
                return self._session.answered(self._call(self._rpc[event])).reply
            if event == "exit":
                self._exit()
            elif event != "restart":
                raise UnsupportedError("no CRI client can cause this event")
            elif self._session.damage and self._seen and self._wanted & DAMAGED:
                self._session.damage(self._id)
            elif self._session.restart:
                self._session.restart()
            else:
                raise UnsupportedError("restarts are tested only with --restart-command")
            return ""
        finally:
            self._wanted.clear()

    def shows(self) -> str:
        answer = self._status()
        self._seen = answer.message.status if answer.code == "OK" else None
        if self._seen is None:
            return ABSENT if answer.code == "NOT_FOUND" else ""
        return named(self.states, self._seen.state)

    def _is(self, state: int) -> bool:
        answer = self._status()
        return answer.code == "OK" and bool(answer.message.status.state == state)

    def _status(self, *, verbose: bool = False) -> CallAnswer:
        return self._session.answered(self._ask(f"{self.kind}Status", verbose=verbose))

    def _ask(self, op: str, identity: str = "", *, seconds: float | None = None, **fields: object) -> CallAnswer:
        request = METHODS[op].request(**{self.key: identity or self._id}, **fields)
        return self._session.client.call(op, request, timeout=seconds)

    def _crash(self, kill: Callable[[], None], event: str, point: int) -> bool:
        """Perform *event*, but kill and restart the runtime at the crash point *point*.

        If the call ends before the crash point is reached, kill nothing and return ``False``.
        """
        if self._rpc[event] not in self.calls:
            raise UnsupportedError("only calls can be cut off")
        call = Thread(target=self._try_event, args=(event,), daemon=True)
        call.start()
        call.join(BEGINNING + STEP * point)
        if not call.is_alive():
            return False
        kill()
        call.join()
        self.find()  # the reply is lost, and with it the id of a new entity
        return True

    def _try_event(self, event: str) -> None:
        with suppress(BrokenError):  # the killed runtime does not answer
            self.do(event)
