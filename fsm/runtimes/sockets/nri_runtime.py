"""The runtime side of NRI. It accepts and synchronises plugins and relays events to them, but merges no answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Final, NamedTuple, Protocol, TypeVar

from google.protobuf.message import Message

from fsm.runtimes.names import POD_EVENTS, REGISTRATION, REQUEST
from fsm.runtimes.reference.clock import Tasks
from fsm.runtimes.reference.nri.lifecycle import Plugins
from fsm.runtimes.reference.nri.messages import NRIError, PluginLateError, PluginLostError, RegistrationError
from fsm.runtimes.reference.nri.session import Config, Session, Terms, parts
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.nri_link import NUMBERS, RUNTIME, VERSION, NriError, NriLink, PluginChanges, RelayedEvent
from fsm.runtimes.sockets.ttrpc import LONGEST, ClosedError, Code, ProtocolError, RpcError, method

M = TypeVar("M", bound=Message)

BATCH: Final = LONGEST - (64 << 10)
"""Maximum number of bytes of pods and containers in a Synchronize message. The rest is left for other fields."""

_REPLIES: Final[Mapping[str, type[Message]]] = {
    "CreateContainer": nri.CreateContainerResponse,
    "UpdateContainer": nri.UpdateContainerResponse,
    "StopContainer": nri.StopContainerResponse,
}
"""The answers that may contain changes. Their events are never relayed as StateChange."""


class NriDomain(Protocol):
    """Provides the pods and containers of a runtime, and applies the updates that plugins request."""

    def listed(self) -> tuple[Sequence[nri.PodSandbox], Sequence[nri.Container]]:
        """Return the pods and containers for synchronising a plugin."""

    async def update(self, plugin: str, updates: Sequence[nri.ContainerUpdate]) -> Sequence[nri.ContainerUpdate]:
        """Apply the *updates* that *plugin* requests, and return the updates that failed."""


class PluginLost(NamedTuple):
    """A plugin that is no longer connected. If it never registered, its name is ``-``. ``why`` is the error, if any."""

    plugin: str
    why: str


class PluginSession(Session[RelayedEvent, PluginChanges, nri.SynchronizeRequest, Sequence[nri.ContainerUpdate]]):
    """A plugin's session with *runtime* on *stream*. If the plugin did something wrong, ``why`` describes it."""

    def __init__(self, stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], runtime: NriRuntime) -> None:
        super().__init__(runtime.terms)
        self.why, self._runtime = "", runtime
        self._registered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._old: set[str] = set()
        methods = {
            "RegisterPlugin": method(nri.RegisterPluginRequest, self.registering),
            "UpdateContainers": method(nri.UpdateContainersRequest, self.updating),
        }
        self.link = NriLink(*stream, served=RUNTIME, methods=methods)
        self.running = asyncio.create_task(self.link.run())

    async def registering(self, request: nri.RegisterPluginRequest) -> Message:
        try:
            self.register(request.plugin_name, request.plugin_idx)
        except NRIError as error:
            if isinstance(error, RegistrationError):
                self._registered.set_exception(error)
            raise _rpc_error(error) from error
        self._registered.set_result(None)
        return nri.Empty()

    async def updating(self, request: nri.UpdateContainersRequest) -> Message:
        try:
            failed = await self.request_updates(lambda: self._runtime.domain.update(self.name, request.update))
        except NRIError as error:
            raise _rpc_error(error) from error
        return nri.UpdateContainersResponse(failed=failed)

    async def _ask_registration(self, until: float) -> None:
        seconds = until - self._terms.clock.now()
        await asyncio.wait({self._registered, self.running}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._registered.done():
            return self._registered.result()
        if not self.running.done():
            raise self._late_error("registered", self._terms.config.registration_timeout)
        raise PluginLostError(str(self.running.exception() or "has closed its connection before it registered"))

    async def _ask_events(self, until: float) -> int:
        request = nri.ConfigureRequest(
            runtime_name=self._runtime.name,
            runtime_version=self._runtime.version,
            registration_timeout=int(self._terms.config.registration_timeout * 1000),
            request_timeout=int(self._terms.config.request_timeout * 1000),
            NRI_version=VERSION,
        )
        return (await self._call_in_time("Configure", request, nri.ConfigureResponse, until)).events

    async def _ask_part(self, part: nri.SynchronizeRequest, until: float) -> bool:
        answer = await self._call_in_time("Synchronize", part, nri.SynchronizeResponse, until)
        return answer.more and not answer.update

    async def _ask_last(self, part: nri.SynchronizeRequest, until: float) -> Sequence[nri.ContainerUpdate]:
        return (await self._call_in_time("Synchronize", part, nri.SynchronizeResponse, until)).update

    async def _ask(self, request: RelayedEvent, until: float) -> PluginChanges:
        name = request.name
        if name not in _REPLIES and (self._runtime.state_changes or name in self._old):
            return await self._state_change(request, until)
        try:
            answer = await self._call_in_time(name, _request(request), _REPLIES.get(name, nri.Empty), until)
        except NRIError as error:
            if error.code != "UNIMPLEMENTED" or name in _REPLIES:
                raise
            self._old.add(name)
            return await self._state_change(request, until)
        match answer:
            case nri.CreateContainerResponse():
                adjustment = answer.adjust if answer.HasField("adjust") else None
                return PluginChanges(adjustment=adjustment, updates=tuple(answer.update))
            case nri.UpdateContainerResponse() | nri.StopContainerResponse():
                return PluginChanges(updates=tuple(answer.update))
            case _:
                return PluginChanges()

    async def _state_change(self, event: RelayedEvent, until: float) -> PluginChanges:
        number = nri.Event.Name(NUMBERS[event.name])
        request = nri.StateChangeEvent(event=number, pod=event.pod, container=event.container)
        await self._call_in_time("StateChange", request, nri.Empty, until, event.name)
        return PluginChanges()

    async def _call_in_time(self, method: str, request: Message, kind: type[M], until: float, step: str = "") -> M:
        step = step or method
        try:
            return await self.link.call(method, request, kind, max(0.0, until - self._terms.clock.now()))
        except RpcError as error:
            if error.code == Code.DEADLINE_EXCEEDED:
                raise self._late_error(f"answered {step}", self._terms.config.request_timeout) from error
            raise NRIError(error.message, code=next((each.name for each in Code if each == error.code), "")) from error
        except ClosedError as error:
            raise self._lost(f"has closed its connection instead of answering {step}") from error
        except ProtocolError as error:
            raise self._lost(f"at {step}: {error}") from error

    def _late_error(self, what: str, seconds: float) -> PluginLateError:
        self.why = f"has not {what} within {seconds:g} s"
        return PluginLateError(self.why)

    def _lost(self, why: str) -> PluginLostError:
        self.why = why
        return PluginLostError(why)

    def _close(self) -> None:
        self._runtime.lose(self)


class NriRuntime:
    """A runtime called *name*, to which plugins connect. It relays each event to plugins in the order of ``plugins``.

    Plugins are synchronised within the context of *joining*. If *state_changes* is true, the runtime behaves as before
    NRI v0.11 and uses StateChange for every event whose answer cannot contain changes.
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
        self.domain, self.name, self.version, self.state_changes = domain, name, version, state_changes
        self.terms = Terms(config=Config(plugin_registration_timeout=registration, plugin_request_timeout=request))
        self._joining = joining
        self.plugin_list = Plugins[RelayedEvent, PluginChanges, PluginSession]()
        self._lost: list[PluginSession] = []
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._serving, self._closing = Tasks(), Tasks()

    @property
    def plugins(self) -> tuple[str, ...]:
        return self.plugin_list.names

    @property
    def lost(self) -> tuple[PluginLost, ...]:
        return tuple(PluginLost(plugin=each.name if each.index else "-", why=each.why) for each in self._lost)

    def accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, launched_as: tuple[str, str] | None = None
    ) -> None:
        self._serving.start(self.serve((reader, writer), launched_as))

    async def serve(
        self, stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], launched_as: tuple[str, str] | None = None
    ) -> None:
        """Serve one plugin until it disconnects. If the runtime started it, *launched_as* is its name and index."""
        plugin = PluginSession(stream, self)
        if launched_as:
            plugin.launch(launched_as)
        else:
            plugin.connect()
        try:
            await self._join(plugin)
            await plugin.running
        except (NRIError, NriError) as error:
            plugin.why = plugin.why or str(error)
        finally:
            plugin.hang_up()
            self.lose(plugin)
            await asyncio.gather(plugin.running, return_exceptions=True)

    async def _join(self, plugin: PluginSession) -> None:
        step = "RegisterPlugin"
        try:
            await plugin.await_registration()
            step = "Configure"
            await plugin.configure()
            step = "Synchronize"
            async with self._joining(), self._turn:  # relay no event before the plugin is added
                updates = await plugin.synchronise(synchronisation(*self.domain.listed()))
                self.plugin_list.join(plugin)
                if updates:
                    await self.domain.update(plugin.name, updates)
        except NRIError as error:
            lost = isinstance(error.__cause__, PluginLostError)
            plugin.why = plugin.why or (str(error.__cause__) if lost else f"at {step}: {error.__cause__ or error}")
            raise
        self._changed.set()

    async def joined(self, plugins: int, seconds: float) -> bool:
        """Wait until the number of connected plugins is at least *plugins*, and return whether it is.

        The wait ends after *seconds*, or when a plugin leaves.
        """
        before = len(self._lost)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self.plugins) < plugins and not any(plugin.index for plugin in self._lost[before:]):
                    self._changed.clear()
                    await self._changed.wait()
        return len(self.plugins) >= plugins

    async def relay(
        self, event: RelayedEvent, add: Callable[[str, PluginChanges], object] = lambda _plugin, _changes: None
    ) -> bool:
        """Relay *event* to its subscribers, and call *add* with the name and the changes of each plugin.

        Return true if a plugin was lost because it disconnected or did not answer in time. The other plugins still
        receive the event. Raise :class:`NRIError` if a plugin refuses the event, or if *add* refuses the changes.
        """
        async with self._turn:
            return await self.plugin_list.relay(event.name, lambda: event, add)

    def lose(self, plugin: PluginSession) -> None:
        if plugin not in self._lost:
            self._lost.append(plugin)
            self._closing.start(plugin.link.leave())
            self._changed.set()

    async def close(self) -> None:
        self.plugin_list.close()
        await self._serving.cancel()
        await asyncio.gather(*self._closing)


def synchronisation(
    pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
) -> list[nri.SynchronizeRequest]:
    """Split the list of pods and containers into messages of limited size. All but the last message set ``more``.

    >>> [(len(each.pods), len(each.containers), each.more) for each in synchronisation([nri.PodSandbox(id="a")], [])]
    [(1, 0, False)]
    """
    *before, last = parts(pods, containers, BATCH, lambda each: each.ByteSize() + 8)
    found = [nri.SynchronizeRequest(pods=part[0], containers=part[1], more=True) for part in before]
    return [*found, nri.SynchronizeRequest(pods=last[0], containers=last[1])]


def _request(event: RelayedEvent) -> Message:
    if event.name in POD_EVENTS:
        return nri.PodRequest(pod=event.pod, linux_resources=event.resources)
    return nri.ContainerRequest(pod=event.pod, container=event.container, linux_resources=event.resources)


def _rpc_error(error: NRIError) -> RpcError:
    return RpcError(Code.__members__.get(error.code, Code.UNKNOWN), str(error))
