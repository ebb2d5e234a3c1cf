"""The runtime side of NRI: it accepts and synchronises plugins, and relays to each the events it subscribes to.

The caller provides an :class:`NriDomain`, which lists the pods and containers and applies the updates that plugins
request.  Each plugin's answers are returned unchanged.  They are neither merged nor checked for conflicts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from google.protobuf.message import Message

from fsm.runtimes.live import nri_pb2 as nri
from fsm.runtimes.live.accepting import Acceptor, accept_streams
from fsm.runtimes.live.listening import bound
from fsm.runtimes.live.nri_link import (
    ANSWERED,
    NUMBERS,
    POD_EVENTS,
    REGISTRATION,
    REQUEST,
    RUNTIME,
    VERSION,
    NriError,
    NriLink,
    PluginChanges,
    RelayedEvent,
    subscribed,
)
from fsm.runtimes.live.ttrpc import (
    DEADLINE_EXCEEDED,
    INVALID_ARGUMENT,
    UNIMPLEMENTED,
    ClosedError,
    ProtocolError,
    RpcError,
    method,
)
from fsm.runtimes.live.ttrpc_messages import LONGEST

BATCH: Final = LONGEST - (64 << 10)
"""Maximum size of the pods and containers in one synchronisation message, with room for the rest of the message."""

_NOBODY: Final = "-"
"""Name used for a plugin that has not registered."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX: Final = re.compile(r"[0-9]{2}")
_REPLIES: Final[Mapping[str, type[Message]]] = {
    "CreateContainer": nri.CreateContainerResponse,
    "UpdateContainer": nri.UpdateContainerResponse,
    "StopContainer": nri.StopContainerResponse,
}


class NriDomain(Protocol):
    """The pods and containers of a runtime, and what it does for plugins."""

    def listed(self) -> tuple[Sequence[nri.PodSandbox], Sequence[nri.Container]]:
        """Return the pods and containers that a plugin is synchronised with."""

    async def update(self, plugin: str, updates: Sequence[nri.ContainerUpdate]) -> Sequence[nri.ContainerUpdate]:
        """Apply the *updates* that *plugin* requests, and return those that failed."""


class PluginRefusedError(Exception):
    """A plugin answered an event with an error, so the event is not relayed to later plugins."""

    def __init__(self, plugin: str, error: RpcError) -> None:
        super().__init__(f"plugin {plugin}: {error.message}")
        self.plugin = plugin
        self.message = error.message
        self.code = error.code


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginLost:
    """A plugin that is no longer connected.  ``why`` is empty if it just closed its connection."""

    plugin: str
    why: str


class _Connected:
    def __init__(
        self,
        stream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        domain: NriDomain,
        timeouts: tuple[float, float],
        launched_as: tuple[str, str],
    ) -> None:
        self.name, self.index = launched_as
        self.events: frozenset[str] = frozenset()
        self.registered = asyncio.Event()
        self.there = True
        self._launched = bool(self.name)
        self._domain = domain
        self._registration, self._request = timeouts
        self._old: set[str] = set()
        methods = {
            "RegisterPlugin": method(nri.RegisterPluginRequest, self._register),
            "UpdateContainers": method(nri.UpdateContainersRequest, self._update),
        }
        self.link = NriLink(*stream, served=RUNTIME, methods=methods)

    def __str__(self) -> str:
        return f"{self.index}-{self.name}" if self.name else _NOBODY

    async def _register(self, request: nri.RegisterPluginRequest) -> Message:
        if self.registered.is_set():
            raise RpcError(INVALID_ARGUMENT, "the plugin is registered already")
        if not self._launched:  # a plugin started by the runtime keeps the name that the runtime gave it
            if not _NAME.fullmatch(request.plugin_name):
                raise RpcError(INVALID_ARGUMENT, f"invalid plugin name: {request.plugin_name[:100]!r}")
            if not _INDEX.fullmatch(request.plugin_idx):
                raise RpcError(INVALID_ARGUMENT, f"invalid plugin index: {request.plugin_idx[:100]!r}")
            self.name, self.index = request.plugin_name, request.plugin_idx
        self.registered.set()
        return nri.Empty()

    async def _update(self, request: nri.UpdateContainersRequest) -> Message:
        return nri.UpdateContainersResponse(failed=await self._domain.update(str(self), request.update))

    async def configure(self, runtime: tuple[str, str]) -> None:
        request = nri.ConfigureRequest(
            runtime_name=runtime[0],
            runtime_version=runtime[1],
            registration_timeout=int(self._registration * 1000),
            request_timeout=int(self._request * 1000),
            NRI_version=VERSION,
        )
        answer = await self.link.call("Configure", request, nri.ConfigureResponse, self._request)
        self.events = subscribed(answer.events)

    async def synchronize(self) -> None:
        """Send the pods and containers within the time of one request, in several messages if needed."""
        async with asyncio.timeout(self._request):
            for request in batches(*self._domain.listed()):
                answer = await self.link.call("Synchronize", request, nri.SynchronizeResponse, self._request)
                if request.more and (answer.update or not answer.more):
                    raise NriError("does not take a synchronisation in several messages")
        if answer.update:
            await self._domain.update(str(self), answer.update)

    async def relay(self, event: RelayedEvent, *, state_changes: bool) -> PluginChanges:
        if event.name not in ANSWERED and (state_changes or event.name in self._old):
            await self._state_change(event)
            return PluginChanges()
        kind = _REPLIES.get(event.name, nri.Empty)
        try:
            answer = await self.link.call(event.name, _request(event), kind, self._request)
        except RpcError as error:
            if error.code != UNIMPLEMENTED or event.name in ANSWERED:
                raise
            self._old.add(event.name)
            await self._state_change(event)
            return PluginChanges()
        match answer:
            case nri.CreateContainerResponse():
                adjustment = answer.adjust if answer.HasField("adjust") else None
                return PluginChanges(adjustment=adjustment, updates=tuple(answer.update))
            case nri.UpdateContainerResponse() | nri.StopContainerResponse():
                return PluginChanges(updates=tuple(answer.update))
            case _:
                return PluginChanges()

    async def _state_change(self, event: RelayedEvent) -> None:
        number = nri.Event.Name(NUMBERS[event.name])
        request = nri.StateChangeEvent(event=number, pod=event.pod, container=event.container)
        await self.link.call("StateChange", request, nri.Empty, self._request)


class NriRuntime:
    """A runtime called *name*, to which plugins connect.  ``plugins`` receive events in their order.

    *joining* is a context manager entered around each plugin's synchronisation.  If *state_changes*, events are relayed
    as by runtimes before NRI v0.11: as StateChange, unless their answers may contain changes.
    """

    def __init__(
        self,
        domain: NriDomain,
        *,
        name: str = "fsm",
        version: str = "0",
        registration: float = REGISTRATION,
        request: float = REQUEST,
        state_changes: bool = False,
        joining: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self._domain = domain
        self._joining = joining
        self._identity = (name, version)
        self._timeouts = (registration, request)
        self._state_changes = state_changes
        self._plugins: list[_Connected] = []
        self._lost: list[PluginLost] = []
        self._turn = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def plugins(self) -> tuple[str, ...]:
        return tuple(map(str, self._plugins))

    @property
    def lost(self) -> tuple[PluginLost, ...]:
        """The plugins that were connected, or tried to connect, and no longer are."""
        return tuple(self._lost)

    async def listen(self, path: str) -> Acceptor:
        """Accept plugins at the socket at *path*, which :func:`bound` makes."""
        return accept_streams(bound(path), self.accept)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connected plugin in a separate task."""
        task = asyncio.create_task(self.serve((reader, writer)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def serve(
        self, stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], launched_as: tuple[str, str] = ("", "")
    ) -> None:
        """Serve one plugin until its connection ends.  *launched_as* is the name and index of a started plugin."""
        plugin = _Connected(stream, self._domain, self._timeouts, launched_as)
        running = asyncio.create_task(plugin.link.run())
        try:
            why = await self._joined(plugin, running)
            if why:
                await self._drop(plugin, why)
            await running
        except NriError as error:
            await self._drop(plugin, str(error))
        finally:
            await self._drop(plugin, "")
            await asyncio.gather(running, return_exceptions=True)

    async def _joined(self, plugin: _Connected, running: asyncio.Task[None]) -> str:
        """Register, configure and synchronise *plugin*.  Return why that failed, or an empty string."""
        registered = asyncio.create_task(plugin.registered.wait())
        try:
            limit = self._timeouts[0]
            await asyncio.wait({registered, running}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            registered.cancel()
        if running.done():
            await running  # raises the error that ended it
            return "has closed its connection before it registered"
        if not plugin.registered.is_set():
            return f"has not registered within {limit:g} s"
        step = "Configure"
        try:
            await plugin.configure(self._identity)
            step = "Synchronize"
            async with self._joining(), self._turn:  # no event is relayed between the listing and the subscription
                await plugin.synchronize()
                self._plugins.append(plugin)
                self._plugins.sort(key=lambda each: each.index)
        except TimeoutError:
            return f"has not answered {step} within {self._timeouts[1]:g} s"
        except (RpcError, ClosedError, ProtocolError, NriError) as error:
            return f"at {step}: {error}"
        async with self._changed:
            self._changed.notify_all()
        return ""

    async def joined(self, plugins: int, seconds: float) -> bool:
        """Wait until *plugins* plugins are connected, for at most *seconds*.  Return whether they are.

        Stop waiting when a registered plugin is lost.
        """
        before = len(self._lost)

        def known() -> bool:
            gone = any(each.plugin != _NOBODY for each in self._lost[before:])
            return gone or len(self._plugins) >= plugins

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(known)
        return len(self._plugins) >= plugins

    async def relay(self, event: RelayedEvent) -> list[tuple[str, PluginChanges]]:
        """Relay *event* to its subscribers and return each plugin's changes.

        Raise :class:`PluginRefusedError` if a plugin refuses it.  A plugin that has gone, or does not answer in time,
        is disconnected, and the others still receive the event.
        """
        answers = []
        async with self._turn:
            for plugin in tuple(self._plugins):
                if event.name not in plugin.events:
                    continue
                try:
                    changes = await plugin.relay(event, state_changes=self._state_changes)
                except RpcError as error:
                    if error.code != DEADLINE_EXCEEDED:
                        raise PluginRefusedError(str(plugin), error) from error
                    await self._drop(plugin, f"has not answered {event.name} within {self._timeouts[1]:g} s")
                except ClosedError:
                    await self._drop(plugin, f"has closed its connection instead of answering {event.name}")
                except ProtocolError as error:
                    await self._drop(plugin, f"at {event.name}: {error}")
                else:
                    answers.append((str(plugin), changes))
        return answers

    async def _drop(self, plugin: _Connected, why: str) -> None:
        if plugin.there:
            plugin.there = False
            if plugin in self._plugins:
                self._plugins.remove(plugin)
            self._lost.append(PluginLost(plugin=str(plugin), why=why))
            async with self._changed:
                self._changed.notify_all()
        await plugin.link.close()

    async def close(self) -> None:
        """Close every connection and end the tasks of :meth:`accept`.  Calls of :meth:`serve` return too."""
        for each in tuple(self._plugins):
            await each.link.close()
        for task in tuple(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)


def batches(pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]) -> Iterator[nri.SynchronizeRequest]:
    """Yield messages that list all pods and containers, none too long to send.  All but the last set ``more``.

    >>> [(len(each.pods), len(each.containers), each.more) for each in batches([nri.PodSandbox(id="a")], [])]
    [(1, 0, False)]
    """
    request, size = nri.SynchronizeRequest(), 0
    for kind, those in (("pods", pods), ("containers", containers)):
        for each in those:
            length = each.ByteSize() + 8
            if size and size + length > BATCH:
                request.more = True
                yield request
                request, size = nri.SynchronizeRequest(), 0
            getattr(request, kind).append(each)
            size += length
    yield request


def _request(event: RelayedEvent) -> Message:
    if event.name in POD_EVENTS:
        return nri.PodRequest(pod=event.pod, linux_resources=event.resources)
    return nri.ContainerRequest(pod=event.pod, container=event.container, linux_resources=event.resources)
