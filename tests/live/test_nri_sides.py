"""The runtime's side and the plugin's side of NRI work together over real sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fsm.runtimes.names import EVENTS, POD_EVENTS
from fsm.runtimes.reference.nri.messages import NRIError
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.nri_link import NUMBERS, PLUGIN, NriError, NriLink, PluginChanges, RelayedEvent
from fsm.runtimes.sockets.nri_plugin import NriPlugin, RefusedError
from fsm.runtimes.sockets.nri_runtime import NriRuntime, PluginLost, synchronisation
from fsm.runtimes.sockets.ttrpc import RpcError
from fsm.runtimes.sockets.unix_sockets import accept_streams, bound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

POD = nri.PodSandbox(id="p1", name="pod")
CONTAINER = nri.Container(id="c1", pod_sandbox_id="p1", state=nri.CONTAINER_RUNNING)


class Told:
    def __init__(self, events: Collection[str] = EVENTS) -> None:
        self.events = events
        self.told: list[str] = []
        self.answers: dict[str, PluginChanges | Exception] = {}
        self.hangs: set[str] = set()
        self.listed: list[str] = []

    async def configure(self, request: nri.ConfigureRequest) -> Collection[str]:
        self.told.append(f"configured by {request.runtime_name} {request.runtime_version}")
        await self._hang("Configure")
        return self.events

    async def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Sequence[nri.ContainerUpdate]:
        self.told.append("synchronised")
        self.listed = [*(each.id for each in pods), *(each.id for each in containers)]
        await self._hang("Synchronize")
        return [nri.ContainerUpdate(container_id="c1")]

    async def relay(self, event: RelayedEvent) -> PluginChanges | None:
        self.told.append(event.sent)
        await self._hang(event.name)
        answer = self.answers.get(event.name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _hang(self, where: str) -> None:
        if where in self.hangs:
            await asyncio.Event().wait()


class Domain:
    """A runtime with a pod and a container. Every update succeeds, except updates of the container id ``lost``."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, str]] = []
        self.pods = [POD]
        self.containers = [CONTAINER]

    def listed(self) -> tuple[list[nri.PodSandbox], list[nri.Container]]:
        return self.pods, self.containers

    async def update(self, plugin: str, updates: Sequence[nri.ContainerUpdate]) -> list[nri.ContainerUpdate]:
        self.updates += [(plugin, each.container_id) for each in updates]
        return [each for each in updates if each.container_id == "lost"]


def event(name: str) -> RelayedEvent:
    return RelayedEvent(name=name, pod=POD, container=None if name in POD_EVENTS else CONTAINER)


async def relayed(runtime: NriRuntime, event: RelayedEvent) -> list[tuple[str, PluginChanges]]:
    answers: list[tuple[str, PluginChanges]] = []
    await runtime.relay(event, lambda name, changes: answers.append((name, changes)))
    return answers


@asynccontextmanager
async def connected(
    runtime: NriRuntime, *plugins: tuple[str, str, Told], wait: bool = True
) -> AsyncIterator[list[NriPlugin]]:
    tasks = []
    made = []
    for number, (name, index, handlers) in enumerate(plugins, 1):
        left, right = socket.socketpair()
        made.append(NriPlugin(name, index, handlers))
        tasks.append(asyncio.create_task(runtime.serve(await asyncio.open_connection(sock=left))))
        tasks.append(asyncio.create_task(made[-1].serve(*await asyncio.open_connection(sock=right))))
        assert not wait or await runtime.joined(number, 5)
    try:
        yield made
    finally:
        for each in made:
            await each.leave()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_plugin_is_configured_synchronised_and_told_everything() -> None:
    domain, told = Domain(), Told()
    runtime = NriRuntime(domain, name="containerd", version="2.1.9")
    async with connected(runtime, ("fsm", "10", told)):
        for name in EVENTS:
            assert await relayed(runtime, event(name)) == [("10-fsm", PluginChanges())]

    assert ["configured by containerd 2.1.9", "synchronised", *EVENTS] == told.told
    assert ["p1", "c1"] == told.listed
    assert [("10-fsm", "c1")] == domain.updates, "what it asked for when it was synchronised"
    assert (PluginLost(plugin="10-fsm", why=""),) == runtime.lost
    assert () == runtime.plugins


async def test_an_old_runtime_relays_by_state_change() -> None:
    told = Told()
    runtime = NriRuntime(Domain(), state_changes=True)
    async with connected(runtime, ("fsm", "10", told)):
        for name in ("RunPodSandbox", "CreateContainer", "PostCreateContainer", "StopContainer"):
            await runtime.relay(event(name))

    assert ["RUN_POD_SANDBOX", "CreateContainer", "POST_CREATE_CONTAINER", "StopContainer"] == told.told[2:]


async def test_an_old_plugin_is_told_by_state_change() -> None:
    """A plugin that answers Unimplemented to the call for an event is notified by a StateChange call instead."""
    calls: list[str] = []

    class Old(Told):
        async def relay(self, event: RelayedEvent) -> PluginChanges | None:
            calls.append(event.sent)
            if event.sent in {"RunPodSandbox", "CreateContainer"}:
                raise RpcError(12, f"method {event.sent}")
            return None

    runtime = NriRuntime(Domain())
    async with connected(runtime, ("old", "00", Old())):
        await runtime.relay(event("RunPodSandbox"))
        await runtime.relay(event("RunPodSandbox"))
        with pytest.raises(NRIError, match="method CreateContainer"):
            await runtime.relay(event("CreateContainer"))

    assert ["RunPodSandbox", "RUN_POD_SANDBOX", "RUN_POD_SANDBOX", "CreateContainer"] == calls


async def test_plugins_are_told_what_they_subscribed_to_in_the_order_of_their_indices() -> None:
    order: list[str] = []

    class Ordered(Told):
        async def relay(self, event: RelayedEvent) -> PluginChanges | None:
            order.append(f"{event.name} {id(self)}")
            return None

    late, early, other = Ordered(), Ordered(), Ordered(["StopContainer"])
    runtime = NriRuntime(Domain())
    async with connected(runtime, ("b", "20", late), ("a", "10", early), ("c", "15", other)):
        assert ("10-a", "15-c", "20-b") == runtime.plugins
        await runtime.relay(event("CreateContainer"))
        await runtime.relay(event("StopContainer"))

    assert [f"CreateContainer {id(each)}" for each in (early, late)] == order[:2]
    assert [f"StopContainer {id(each)}" for each in (early, other, late)] == order[2:]


async def test_changes_come_back() -> None:
    told = Told()
    update = nri.ContainerUpdate(container_id="c2")
    adjustment = nri.ContainerAdjustment(annotations={"a": "b"})
    told.answers = {
        "CreateContainer": PluginChanges(adjustment=adjustment, updates=(update,)),
        "UpdateContainer": PluginChanges(updates=(update,)),
        "StopContainer": PluginChanges(updates=(update, update)),
        "RunPodSandbox": PluginChanges(updates=(update,)),  # the runtime allows no updates
    }
    runtime = NriRuntime(Domain())
    async with connected(runtime, ("fsm", "10", told)):
        got = [(await relayed(runtime, event(name)))[0][1] for name in told.answers]

    assert [*list(told.answers.values())[:3], PluginChanges()] == got


async def test_a_refusal_keeps_later_plugins_from_being_told() -> None:
    first, second = Told(), Told()
    first.answers["CreateContainer"] = ValueError("not here")
    runtime = NriRuntime(Domain())
    async with connected(runtime, ("a", "10", first), ("b", "20", second)):
        with pytest.raises(NRIError, match="plugin 10-a: ValueError: not here"):
            await runtime.relay(event("CreateContainer"))
        assert 2 == len(runtime.plugins)

    assert "CreateContainer" not in second.told


async def test_a_late_plugin_is_disconnected_and_the_others_are_told() -> None:
    slow, quick = Told(), Told()
    slow.hangs.add("StartContainer")
    runtime = NriRuntime(Domain(), request=0.05)
    async with connected(runtime, ("slow", "10", slow), ("quick", "20", quick)):
        assert [("20-quick", PluginChanges())] == await relayed(runtime, event("StartContainer"))
        assert ("20-quick",) == runtime.plugins

    assert PluginLost(plugin="10-slow", why="has not answered StartContainer within 0.05 s") in runtime.lost


@pytest.mark.parametrize("step", ["Configure", "Synchronize"])
async def test_a_plugin_that_does_not_join_in_time_is_not_connected(step: str) -> None:
    told = Told()
    told.hangs.add(step)
    runtime = NriRuntime(Domain(), request=0.05)
    async with connected(runtime, ("slow", "10", told), wait=False):
        assert not await runtime.joined(1, 5)
        (lost,) = runtime.lost

    assert f"{step} " in lost.why
    assert "0.05 s" in lost.why


async def test_a_plugin_that_never_registers_is_dropped() -> None:
    runtime = NriRuntime(Domain(), registration=0.05)
    left, right = socket.socketpair()
    await runtime.serve(await asyncio.open_connection(sock=left))
    right.close()

    assert (PluginLost(plugin="-", why="has not registered within 0.05 s"),) == runtime.lost


@pytest.mark.parametrize(("name", "index", "what"), [("a,b", "10", "name"), ("", "10", "name"), ("a", "1", "index")])
async def test_a_wrong_name_is_refused(name: str, index: str, what: str, tmp_path: Path) -> None:
    runtime = NriRuntime(Domain(), registration=0.1)
    with closing(accept_streams(bound(str(tmp_path / "nri.sock")), runtime.accept)):
        with pytest.raises(RefusedError, match=f"invalid plugin {what}"):
            await NriPlugin(name, index, Told()).run(f"unix://{tmp_path}/nri.sock")
        await runtime.close()


async def test_unknown_events_end_the_connection() -> None:
    class Hostile(NriLink):
        pass

    left, right = socket.socketpair()
    runtime = NriRuntime(Domain())
    serving = asyncio.create_task(runtime.serve(await asyncio.open_connection(sock=left)))

    async def configure(_payload: bytes) -> bytes:
        return nri.ConfigureResponse(events=1 << 20).SerializeToString()

    reader, writer = await asyncio.open_connection(sock=right)
    link = Hostile(reader, writer, served="nri.pkg.api.v1alpha1.Plugin", methods={"Configure": configure})
    running = asyncio.create_task(link.run())
    await link.call("RegisterPlugin", nri.RegisterPluginRequest(plugin_name="a", plugin_idx="10"), nri.Empty, 5)
    await serving
    await running

    assert ["at Configure: plugin events 0x100000: the mask of all events is 0x3fff"] == [
        each.why for each in runtime.lost
    ]


async def test_a_long_synchronisation_comes_in_several_messages() -> None:
    domain, told = Domain(), Told()
    domain.containers = [nri.Container(id=f"c{number}", annotations={"a": "x" * 1_000_000}) for number in range(10)]
    assert 3 == len(synchronisation(*domain.listed()))
    runtime = NriRuntime(domain)
    async with connected(runtime, ("fsm", "10", told)):
        pass

    assert ["p1", *(f"c{number}" for number in range(10))] == told.listed
    assert 1 == told.told.count("synchronised")


async def test_updates_that_nobody_asked_for() -> None:
    domain = Domain()
    runtime = NriRuntime(domain)
    async with connected(runtime, ("fsm", "10", Told())) as (plugin,):
        failed = await plugin.update_containers([nri.ContainerUpdate(container_id=each) for each in ("c1", "lost")])
    with pytest.raises(NriError, match="not connected"):
        await plugin.update_containers([])

    assert ["lost"] == [each.container_id for each in failed]
    assert [("10-fsm", "c1"), ("10-fsm", "lost")] == domain.updates[1:]


async def test_a_plugin_is_registered_once() -> None:
    runtime = NriRuntime(Domain())
    async with connected(runtime, ("fsm", "10", Told())) as (plugin,):
        assert plugin._link is not None  # noqa: SLF001  (no plugin of ours registers twice)
        with pytest.raises(RpcError, match="10-fsm is active already"):
            await plugin._link.call("RegisterPlugin", nri.RegisterPluginRequest(), nri.Empty, 5)  # noqa: SLF001


async def test_a_plugin_connects_again_when_the_runtime_restarts(tmp_path: Path) -> None:
    path, told = str(tmp_path / "nri.sock"), Told()
    plugin = NriPlugin("fsm", "10", told)
    lost: list[Exception | None] = []
    for restart in range(2):
        runtime = NriRuntime(Domain())
        with closing(accept_streams(bound(path), runtime.accept)):
            if not restart:
                running = asyncio.create_task(plugin.run(path, lost=lost.append))
            assert await runtime.joined(1, 5)
            if restart:
                await plugin.leave()
                await running
            await runtime.close()

    assert ["configured by fsm 0", "synchronised"] * 2 == told.told
    assert [None] == lost


async def test_a_plugin_that_is_never_configured_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsm.runtimes.sockets.nri_plugin.REGISTRATION", 0.05)
    left, right = socket.socketpair()

    async def register(_payload: bytes) -> bytes:
        return b""

    reader, writer = await asyncio.open_connection(sock=left)
    link = NriLink(reader, writer, served="nri.pkg.api.v1alpha1.Runtime", methods={"RegisterPlugin": register})
    running = asyncio.create_task(link.run())

    with pytest.raises(NriError, match="has not configured the plugin within"):
        await NriPlugin("fsm", "10", Told()).serve(*await asyncio.open_connection(sock=right))
    await running


async def test_nonsense_ends_the_connection_with_its_reason() -> None:
    runtime = NriRuntime(Domain())
    left, right = socket.socketpair()
    right.sendall(b"GET / HTTP/1.1\r\n\r\n")
    await runtime.serve(await asyncio.open_connection(sock=left))
    right.close()

    assert "sent data that is not NRI: a frame of 790,644,820 bytes" in runtime.lost[0].why


async def test_nonsense_is_noticed_before_its_frame_ends() -> None:
    """A response in place of a request is reported immediately, even if the rest of its frame never arrives."""
    left, right = socket.socketpair()
    right.sendall(struct.pack(">II", 2, 1_000) + struct.pack(">IIBB", 4, 1, 2, 0) + b"1234")
    link = NriLink(*await asyncio.open_connection(sock=left), served="nri.pkg.api.v1alpha1.Runtime", methods={})

    with pytest.raises(NriError, match="a message of kind 2, but requests are expected"):
        await asyncio.wait_for(link.run(), 5)
    right.close()
    await link.close()


def test_a_socket_that_is_in_use_is_not_taken(tmp_path: Path) -> None:
    path = str(tmp_path / "nri.sock")
    with bound(path) as first:
        first.listen()
        with pytest.raises(OSError, match="another process listens there"):
            bound(path)
    bound(path).close()
    assert 0o600 == Path(path).stat().st_mode & 0o777


def test_every_event_has_its_number() -> None:
    assert {nri.Event.Value(nri.Event.Name(number)) for number in NUMBERS.values()} == set(range(1, 15))
    assert set(EVENTS) == set(NUMBERS) - {"ValidateContainerAdjustment"}


async def test_updates_before_the_synchronisation_are_refused() -> None:
    domain = Domain()
    left, right = socket.socketpair()
    runtime = NriRuntime(domain)
    serving = asyncio.create_task(runtime.serve(await asyncio.open_connection(sock=left)))
    link = NriLink(*await asyncio.open_connection(sock=right), served=PLUGIN, methods={})
    running = asyncio.create_task(link.run())

    with pytest.raises(RpcError, match="update-containers: plugin is registering already"):
        await link.call("UpdateContainers", nri.UpdateContainersRequest(), nri.UpdateContainersResponse, 5)
    await link.close()
    await asyncio.gather(serving, running)

    assert [] == domain.updates
