"""The plugin side of NRI. A plugin registers, is configured and synchronised, and then receives events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from google.protobuf.message import Message

from fsm.runtimes.names import EVENTS, POD_EVENTS, REGISTRATION, REQUEST
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets import unix_sockets
from fsm.runtimes.sockets.nri_link import NUMBERS, PLUGIN, VERSION, NriError, NriLink, PluginChanges, RelayedEvent
from fsm.runtimes.sockets.ttrpc import ClosedError, Handler, RpcError, method

ALWAYS: Final = frozenset(EVENTS[: EVENTS.index("RemoveContainer") + 1])  # the events of the first version of NRI
BY_NUMBER: Final = {number: name for name, number in NUMBERS.items()}
AGAIN: Final = (0.01, 0.5)
"""The first and the longest delay between attempts to connect, in seconds. The delay doubles with each attempt."""
LISTED: Final = 100_000  # maximum number of pods and containers that a plugin accepts when it is synchronised


class NriHandlers(Protocol):
    """Handles the requests that a plugin receives. A handler must return within the runtime's time limit."""

    async def configure(self, request: nri.ConfigureRequest) -> Collection[str]:
        """Return the names of the events to subscribe to. This is the first request on a connection."""

    async def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Sequence[nri.ContainerUpdate]:
        """Handle the pods and containers that exist when the plugin connects. Return the updates to request."""

    async def relay(self, event: RelayedEvent) -> PluginChanges | None:
        """Handle *event*, and return the changes to request, if the event allows any."""


def offered(request: nri.ConfigureRequest) -> frozenset[str]:
    """Return the events that the runtime can relay, according to its Configure *request*.

    A runtime that reports no NRI version may not support pod updates; it then refuses plugins that subscribe to them.

    >>> "UpdatePodSandbox" in offered(nri.ConfigureRequest(NRI_version="v0.12.2")), len(offered(nri.ConfigureRequest()))
    (True, 11)
    """
    return frozenset(EVENTS) if request.NRI_version else ALWAYS


def mask(events: Collection[str]) -> int:
    """Return the bit mask of *events*.

    >>> hex(mask(["RunPodSandbox", "RemoveContainer"]))
    '0x401'
    """
    return sum(1 << (NUMBERS[event] - 1) for event in set(events))


class RefusedError(NriError):
    """The runtime has refused to register the plugin. The plugin does not try again."""


class NriPlugin:
    """A plugin called *name*. Runtimes order their plugins by *index*, a string of two digits."""

    def __init__(self, name: str, index: str, handlers: NriHandlers) -> None:
        self.name = name
        self.index = index
        self._handlers = handlers
        self._link: NriLink | None = None
        self._left = asyncio.Event()
        self._begin()

    def _begin(self) -> None:
        self._configured = asyncio.Event()
        self._pods: list[nri.PodSandbox] = []
        self._containers: list[nri.Container] = []

    async def run(
        self, address: str, *, patient: bool = False, lost: Callable[[Exception | None], None] = lambda _why: None
    ) -> None:
        """Connect to the runtime at the socket *address*, and reconnect after each disconnection until :meth:`leave`.

        *lost* is called after each disconnection, with the error or ``None``. Raise :class:`NriError` if the runtime
        refuses the plugin, or :class:`OSError` if the first attempt to connect fails, unless *patient* is true.
        """
        path = unix_sockets.path(address)
        wait, most = AGAIN
        while not self._left.is_set():
            try:
                stream = await asyncio.open_unix_connection(path)
            except OSError:
                if not patient:
                    raise
            else:
                patient, why = True, None
                try:
                    await self.serve(*stream)
                except RefusedError:
                    raise
                except NriError as error:
                    why = error
                if not self._left.is_set():
                    lost(why)
                if self._configured.is_set():
                    wait = AGAIN[0]
            with suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), wait)
            wait = min(2 * wait, most)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Register, and serve one connection until it ends. Raise :class:`NriError` if the runtime violates NRI."""
        self._begin()
        self._link = link = NriLink(reader, writer, served=PLUGIN, methods=self._methods())
        running = asyncio.create_task(link.run())
        try:
            await self._register(link)
            configured = asyncio.create_task(self._configured.wait())
            await asyncio.wait({running, configured}, timeout=REGISTRATION, return_when=asyncio.FIRST_COMPLETED)
            configured.cancel()
            if not self._configured.is_set() and not running.done():
                raise NriError(f"the runtime has not configured the plugin within {REGISTRATION:g} s")
            await running
        finally:
            self._link = None
            await link.close()
            await asyncio.wait({running})
            with suppress(NriError):
                await running

    async def _register(self, link: NriLink) -> None:
        request = nri.RegisterPluginRequest(plugin_name=self.name, plugin_idx=self.index, NRI_version=VERSION)
        try:
            await link.call("RegisterPlugin", request, nri.Empty, REGISTRATION)
        except RpcError as error:
            raise RefusedError(f"the runtime has not registered the plugin: {error.message}") from error
        except ClosedError:
            return  # the runtime has disconnected, which the reading task reports

    async def update_containers(
        self, updates: Sequence[nri.ContainerUpdate], *, seconds: float = REQUEST
    ) -> tuple[nri.ContainerUpdate, ...]:
        """Request *updates* of containers outside of an event, and return the updates that failed.

        Raise :class:`NriError` if the plugin is not connected or the runtime does not answer.
        """
        if self._link is None:
            raise NriError("the plugin is not connected")
        request = nri.UpdateContainersRequest(update=updates)
        try:
            answer = await self._link.call("UpdateContainers", request, nri.UpdateContainersResponse, seconds)
        except (RpcError, ClosedError) as error:
            raise NriError(f"the runtime has not updated containers: {error}") from error
        return tuple(answer.failed)

    async def leave(self) -> None:
        """Finish the answers in progress and disconnect permanently. Any task may call this method."""
        self._left.set()
        if self._link is not None:
            await self._link.leave()

    def _methods(self) -> dict[str, Handler]:
        return {
            "Configure": method(nri.ConfigureRequest, self._configure),
            "Synchronize": method(nri.SynchronizeRequest, self._synchronize),
            "Shutdown": method(nri.Empty, self._shutdown),
            "StateChange": method(nri.StateChangeEvent, self._state_change),
            "ValidateContainerAdjustment": method(nri.ValidationRequest, self._validate),
            **{
                name: method(nri.PodRequest, partial(self._event, name))
                if name in POD_EVENTS
                else method(nri.ContainerRequest, partial(self._event, name))
                for name in EVENTS
            },
        }

    async def _configure(self, request: nri.ConfigureRequest) -> Message:
        events = await self._handlers.configure(request)
        self._configured.set()
        return nri.ConfigureResponse(events=mask(events))

    async def _synchronize(self, request: nri.SynchronizeRequest) -> Message:
        self._pods += request.pods
        self._containers += request.containers
        if len(self._pods) + len(self._containers) > LISTED:
            raise NriError(f"more than {LISTED:,} pods and containers")
        if request.more:
            return nri.SynchronizeResponse(more=True)
        pods, containers = self._pods, self._containers
        self._pods, self._containers = [], []
        return nri.SynchronizeResponse(update=await self._handlers.synchronize(pods, containers))

    async def _shutdown(self, _request: nri.Empty) -> Message:
        return nri.Empty()

    async def _state_change(self, request: nri.StateChangeEvent) -> Message:
        name = BY_NUMBER.get(request.event)
        if name is None:  # an event of a later NRI version, to which this plugin has not subscribed
            return nri.Empty()
        container = request.container if request.HasField("container") else None
        sent = nri.Event.Name(request.event)
        return await self._answer_relay(RelayedEvent(name=name, pod=request.pod, container=container, sent=sent))

    async def _validate(self, _request: nri.ValidationRequest) -> Message:
        return nri.ValidationResponse()

    async def _event(self, name: str, request: nri.PodRequest | nri.ContainerRequest) -> Message:
        container = request.container if isinstance(request, nri.ContainerRequest) else None
        resources = request.linux_resources if container is None or name == "UpdateContainer" else None
        event = RelayedEvent(name=name, pod=request.pod, container=container, resources=resources, sent=name)
        return await self._answer_relay(event)

    async def _answer_relay(self, event: RelayedEvent) -> Message:
        changes = await self._handlers.relay(event) or PluginChanges()
        match event.name:
            case "CreateContainer":
                return nri.CreateContainerResponse(adjust=changes.adjustment, update=changes.updates)
            case "UpdateContainer":
                return nri.UpdateContainerResponse(update=changes.updates)
            case "StopContainer":
                return nri.StopContainerResponse(update=changes.updates)
            case _:
                return nri.Empty()
