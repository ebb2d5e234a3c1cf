"""A plugin's connection over a socket passes the same conformance test as a plugin in this process."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.runtimes.names import EVENTS, POD_EVENTS
from fsm.runtimes.reference.driven import LoopSUT, driver
from fsm.runtimes.reference.nri.messages import NRIError, RegistrationError
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.nri_link import PLUGIN, NriLink, PluginChanges, RelayedEvent
from fsm.runtimes.sockets.nri_plugin import mask
from fsm.runtimes.sockets.nri_runtime import NriRuntime, PluginSession
from fsm.runtimes.sockets.ttrpc import Code, Handler, RpcError, method

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from google.protobuf.message import Message

POD = nri.PodSandbox(id="pod")
SOON, LATER = 0.02, 30.0


class Heard(PluginSession):
    def __init__(
        self,
        stream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        runtime: NriRuntime,
        heard: list[str] | None = None,
    ) -> None:
        super().__init__(stream, runtime)
        self.heard = heard if heard is not None else []

    def _close(self) -> None:
        self.heard.append("closed")
        super()._close()


class KeepsTheLate(Heard):
    async def _ask(self, request: RelayedEvent, until: float) -> PluginChanges:
        with suppress(Exception):
            return await super()._ask(request, until)
        return PluginChanges()


class AnyPart(Heard):
    async def _ask_part(self, part: nri.SynchronizeRequest, until: float) -> bool:
        await super()._ask_part(part, until)
        return True


class SessionSUT(LoopSUT[Heard]):
    """A SUT for the runtime's end of a connection, whose other end performs the steps."""

    machine = "nri-plugin"
    kinds = (Heard,)

    def reset(self) -> None:
        super().reset()
        self._outcome = ""
        self._links: list[NriLink] = []
        self._runner.run(self._begin())
        self._scope.callback(lambda: self._runner.run(self._end()))

    async def _end(self) -> None:
        for each in self._links:
            await each.close()
        await asyncio.sleep(0.01)

    async def _begin(self) -> None:
        self.runtime = NriRuntime(self, registration=SOON, request=LATER)
        await self._open()

    async def _open(self) -> None:
        left, right = socket.socketpair()
        self.session = self._kind(await asyncio.open_connection(sock=left), self.runtime, self._outputs)
        services = {"Configure": self._configured, "Synchronize": self._synchronised}
        methods = {name: self._scripted(each) for name, each in services.items()}
        methods |= {name: self._scripted(self._asked) for name in EVENTS}
        self.plugin = NriLink(*await asyncio.open_connection(sock=right), served=PLUGIN, methods=methods)
        self._running = asyncio.create_task(self.plugin.run())
        self._links += self.session.link, self.plugin

    def _scripted(self, answer: Callable[[], Message]) -> Handler:
        async def answered(_: nri.Empty) -> Message:
            message = answer()
            match self._outcome:
                case "error":
                    raise RpcError(Code.INTERNAL, "no")
                case "lost":
                    self._closing = asyncio.create_task(self.plugin.close())
                case _:
                    pass
            if self._outcome in {"timeout", "lost"}:
                await asyncio.Event().wait()
            return message

        return method(nri.Empty, answered)

    def _configured(self) -> Message:
        self._outputs.append("Configure")
        return nri.ConfigureResponse(events=1 << 20 if self._outcome == "bad-events" else mask(EVENTS))

    def _synchronised(self) -> Message:
        self._outputs.append("Synchronize")
        return nri.SynchronizeResponse(more=self._outcome == "part")

    def _asked(self) -> Message:
        self._outputs.append("request")
        return nri.Empty()

    def listed(self) -> tuple[Sequence[nri.PodSandbox], Sequence[nri.Container]]:
        return (), ()

    async def update(self, plugin: str, updates: Sequence[nri.ContainerUpdate]) -> Sequence[nri.ContainerUpdate]:
        del plugin
        if self._outcome == "failed":
            raise NRIError("as arranged", code="INTERNAL")
        self._outputs += ["updated"] * (self._outcome != "nothing-known")
        return updates

    def shows(self) -> str:
        return self.session.state

    def arrange(self, event: str, outcome: str) -> bool:
        self._outcome = outcome
        request = SOON if outcome == "timeout" else LATER
        self.runtime.terms.config = replace(self.runtime.terms.config, plugin_request_timeout=request)
        ways = driver(self.machine).offered(event, self.session.state)
        return (event, outcome) != ("launch", "failed") and any(way.name == outcome for way in ways)

    def _actions(self) -> Mapping[str, Callable[[], object]]:
        return {
            "connect": self._connect,
            "launch": self._launch,
            "register": self._register,
            "no-registration": self.session.await_registration,
            "configure": self.session.configure,
            "synchronise": self._synchronise,
            "relay": self._relay,
            "update-containers": self._update_containers,
            "hang-up": self._hang_up,
            "stop": self._stop,
        }

    async def _connect(self) -> None:
        await self._open()
        self.session.connect()

    async def _launch(self) -> None:
        await self._open()
        built_in = self._outcome == "built-in"
        self.session.launch(("built-in", "10") if built_in else None, built_in=built_in)

    async def _register(self) -> None:
        name = "a b" if self._outcome == "bad-name" else "plugin"
        index = "1" if self._outcome == "bad-index" else "10"
        waits = self.session.state == "registering"
        request = nri.RegisterPluginRequest(plugin_name=name, plugin_idx=index)
        try:
            await self._called("RegisterPlugin", request, nri.Empty)
        finally:
            with suppress(RegistrationError):
                await (self.session.await_registration() if waits else asyncio.sleep(0))

    async def _called(self, name: str, request: Message, answer: type[Message]) -> None:
        """Call the runtime over the connection, or directly if there is none."""
        handlers: dict[str, Callable[..., Awaitable[Message]]] = {
            "RegisterPlugin": self.session.registering,
            "UpdateContainers": self.session.updating,
        }
        try:
            if self.session.state in {"absent", "lost"}:
                await handlers[name](request)
            else:
                await self.plugin.call(name, request, answer, LATER)
        except RpcError as error:
            raise NRIError(error.message, code=Code(error.code).name) from error

    async def _synchronise(self) -> None:
        if self._outcome in {"part", "not-split"}:
            await self.session.synchronise_part(nri.SynchronizeRequest(more=True))
            return
        await self.session.synchronise_last(nri.SynchronizeRequest())
        self.runtime.plugin_list.join(self.session)

    async def _relay(self) -> None:
        event = "ValidateContainerAdjustment" if self._outcome == "not-subscribed" else "RunPodSandbox"
        assert event in {*POD_EVENTS, "ValidateContainerAdjustment"}
        await self.runtime.relay(RelayedEvent(name=event, pod=POD))

    async def _update_containers(self) -> None:
        await self._called("UpdateContainers", nri.UpdateContainersRequest(), nri.UpdateContainersResponse)

    async def _hang_up(self) -> None:
        await self.plugin.close()
        await asyncio.wait({self.session.running})
        self.session.hang_up()

    async def _stop(self) -> None:
        self.runtime.plugin_list.close()
        self.session.stop()


def test_it_passes_the_test_of_its_machine() -> None:
    """Everything is covered except a process that fails to start, since no process is started here."""
    found = conform(load("nri-plugin"), SessionSUT, examples=2)

    assert ((), ()) == (found.failures, found.missed)
    assert {("launch", "failed")} == {*found.unarranged}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "event"), [(KeepsTheLate, "relay"), (AnyPart, "synchronise")])
def test_a_bug_is_found(kind: type[Heard], event: str) -> None:
    found = conform(load("nri-plugin"), lambda: SessionSUT(kind=kind), examples=0)

    assert event in {each.steps[-1].event for each in found.failures}


class Nothing:
    def listed(self) -> tuple[Sequence[nri.PodSandbox], Sequence[nri.Container]]:
        return (), ()

    async def update(self, plugin: str, updates: Sequence[nri.ContainerUpdate]) -> Sequence[nri.ContainerUpdate]:
        del plugin
        return updates


async def test_a_plugin_that_is_stopped_while_it_answers_does_not_join() -> None:
    left, right = socket.socketpair()
    asked, go = asyncio.Event(), asyncio.Event()

    async def configure(_: bytes) -> bytes:
        asked.set()
        await go.wait()
        return b""

    link = NriLink(*await asyncio.open_connection(sock=right), served=PLUGIN, methods={"Configure": configure})
    running = asyncio.create_task(link.run())
    session = Heard(await asyncio.open_connection(sock=left), NriRuntime(Nothing()))
    session.launch(("built-in", "10"), built_in=True)
    configuring = asyncio.create_task(session.configure())
    await asked.wait()
    session.hang_up()
    go.set()

    with pytest.raises(RegistrationError, match="could not be configured: was disconnected"):
        await configuring
    assert ("absent", []) == (session.state, session.heard)
    await session.link.close()
    await link.close()
    await asyncio.wait({running, session.running})
