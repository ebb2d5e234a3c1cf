"""A proxy between clients and a runtime: it forwards bytes unchanged, and reports every call when it has ended.

Each client connection has its own connection to the runtime.  Whatever the runtime does to that connection therefore
happens to the client connection too, and a client notices the absence of a runtime as it would without the proxy.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from fsm.errors import reason
from fsm.runtimes.live.accepting import Acceptor
from fsm.runtimes.live.call_lines import identity, of_events, of_lifecycle
from fsm.runtimes.live.faults import StreamFaults
from fsm.runtimes.live.passing_calls import PassedCall, PassingCalls
from fsm.runtimes.live.relay import Relay

if TYPE_CHECKING:
    from fsm.runtimes.live.fault_rules import FaultRules

GRACE: Final = 5.0
"""Number of seconds within which calls in progress may end when the proxy stops."""

_TICK: Final = 0.01
"""Number of seconds between two checks for calls in progress."""

_LAST: Final = 1.0
"""Number of seconds within which aborted connections are closed."""

_STEPS: Final = 8
"""Number of event loop iterations for refusing a connection that was just accepted, which takes four."""


class Proxy:
    """Forwards the data received at *listener* to the socket at *path*, and back.

    *ended* is called with each call, and with a call without a method for each connection that found no runtime or lost
    it.  It must not block.  *say* is called with messages for the user, once for each change.
    """

    def __init__(
        self,
        listener: socket.socket,
        path: str,
        *,
        ended: Callable[[PassedCall], None] = lambda _: None,
        rules: FaultRules | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.calls = 0
        self.unread = 0
        self.ending = False
        self.injected: Counter[str] = Counter()
        self._listener, self._path = listener, path
        self._tell, self._rules, self._say = ended, rules, say
        self._relays: set[Relay] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._away = False
        self._over = False

    async def run(self, stop: asyncio.Event, *, grace: float = GRACE) -> None:
        """Forward data until *stop* is set.  Then accept nothing more, and give calls in progress *grace* seconds."""
        acceptor = Acceptor(self._listener, self._accepted, self._say)
        try:
            await stop.wait()
        finally:
            acceptor.close()
            self.ending = True
        for _ in range(round(grace / _TICK)):
            for relay in tuple(self._relays):
                relay.leave()
            if not self._relays:
                break
            await asyncio.sleep(_TICK)
        self._over = True
        for _ in range(round(_LAST / _TICK)):
            for relay in tuple(self._relays):
                relay.abort()
            await asyncio.sleep(_TICK)  # the event loop ends each of them
            if not self._relays and not self._connecting:
                break
        for _ in range(_STEPS):
            await asyncio.sleep(0)

    def _accepted(self, client: socket.socket) -> None:
        relay = Relay(
            PassingCalls(self._ended, of_lifecycle, of_events),
            unreadable=self._unreadable,
            gone=self._gone,
            interference=partial(self._faults, self._rules) if self._rules else None,
        )
        self._relays.add(relay)
        task = asyncio.get_running_loop().create_task(self._connect(relay, client))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _faults(self, rules: FaultRules, relay: Relay) -> StreamFaults:
        return StreamFaults(
            calls=relay.calls,
            rules=rules,
            loop=asyncio.get_running_loop(),
            to_client=relay.client.write,
            to_server=relay.server.write,
            identity=identity,
        )

    async def _connect(self, relay: Relay, client: socket.socket) -> None:
        start = time.time_ns()
        await asyncio.get_running_loop().connect_accepted_socket(lambda: relay.client, client)
        try:
            await relay.connect(self._path)
        except OSError as error:
            self._lost(start, f"the runtime cannot be reached: {reason(error)}")
            relay.abort()
            return
        if self._away:
            self._away = False
            self._say("the runtime can be reached again")

    def _lost(self, start: int, why: str) -> None:
        self._tell(
            PassedCall(
                method="",
                request=None,
                reply=None,
                start=start,
                end=time.time_ns(),
                code="UNAVAILABLE",
                detail=why,
                reached=False,
            )
        )
        if not self._away:
            self._away = True
            self._say(why)

    def _ended(self, call: PassedCall) -> None:
        self.calls += bool(call.code)
        if call.injected:
            self.injected[call.injected] += 1
        self._tell(call)

    def _unreadable(self) -> None:
        self.unread += 1
        if self.unread == 1:
            self._say("a connection passes that cannot be read: its calls are not known")

    def _gone(self, relay: Relay, *, by_runtime: bool) -> None:
        self._relays.discard(relay)
        if by_runtime:
            now = time.time_ns()
            self._lost(now, "the runtime has closed a connection")
