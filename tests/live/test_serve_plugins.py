"""The served reference works with plugins over real sockets, in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from served import ServedClient, served

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.runtimes.live.nri_recorder import LineWriter, record
from fsm.runtimes.names import EVENTS
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.nri_link import PluginChanges, RelayedEvent
from fsm.runtimes.sockets.nri_plugin import NriPlugin
from fsm.runtimes.sockets.nri_relays import NodePlugins
from fsm.runtimes.sockets.ttrpc import Code, RpcError
from fsm.verdict import Holds


class Listener:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.listed: list[str] = []
        self.last: RelayedEvent | None = None
        self.answers: dict[str, PluginChanges | Exception] = {}
        self.there = asyncio.Event()

    async def configure(self, _request: nri.ConfigureRequest) -> Collection[str]:
        return EVENTS

    async def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Sequence[nri.ContainerUpdate]:
        self.listed = [*(each.id for each in pods), *(each.id for each in containers)]
        self.there.set()
        return []

    async def relay(self, event: RelayedEvent) -> PluginChanges | None:
        self.told.append(event.sent)
        self.last = event
        answer = self.answers.get(event.name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def heard(self) -> list[str]:
        """Return the events that have arrived since the last call."""
        told = [*self.told]
        self.told.clear()
        return told


@asynccontextmanager
async def joined(folder: Path, listener: Listener, index: str = "10") -> AsyncIterator[NriPlugin]:
    plugin = NriPlugin("listener", index, listener)
    running = asyncio.create_task(plugin.run(f"unix://{folder / 'nri.sock'}"))
    await asyncio.wait_for(listener.there.wait(), 10)
    await asyncio.sleep(0.05)  # now the runtime has received the plugin's answer
    try:
        yield plugin
    finally:
        await plugin.leave()
        await running


async def _eventually(listener: Listener, *told: str) -> None:
    for _ in range(500):
        if listener.told == [*told]:
            break
        await asyncio.sleep(0.005)
    assert [*told] == listener.heard()


@pytest.mark.parametrize(("profile", "stop_of_created"), [("", []), ("containerd-2.1", ["StopContainer"])])
async def test_plugins_are_told_of_whole_lives(profile: str, stop_of_created: list[str], tmp_path: Path) -> None:
    """Plugins are notified of every event, in the order in which containerd notifies them.

    With the profile, the reference also relays a stop of a container that was only created and may still be started.
    Containerd does so although the contract forbids it.
    """
    listener = Listener()
    plugins = NodePlugins()
    with served(tmp_path, profile=profile, plugins=plugins) as address, ServedClient(address) as client:
        async with joined(tmp_path, listener):
            pod = await asyncio.to_thread(client.pod, labels={"app": "one"})
            assert ["RunPodSandbox"] == listener.heard()
            assert listener.last
            assert {"app": "one"} == dict(listener.last.pod.labels)
            container = await asyncio.to_thread(client.container, pod, "sleep", "60")
            assert ["CreateContainer", "PostCreateContainer"] == listener.heard()
            for op, told in (
                ("StopContainer", stop_of_created),
                ("StartContainer", ["StartContainer", "PostStartContainer"]),
                ("UpdateContainerResources", ["UpdateContainer", "PostUpdateContainer"]),
                ("StopContainer", ["StopContainer"]),
                ("StopContainer", []),
                ("RemoveContainer", ["RemoveContainer"]),
                ("RemoveContainer", []),
            ):
                await asyncio.to_thread(client.call, op, container_id=container)
                assert told == listener.heard(), op
            short = await asyncio.to_thread(client.container, pod, "true", started=True)
            await _eventually(
                listener,
                "CreateContainer",
                "PostCreateContainer",
                "StartContainer",
                "PostStartContainer",
                "StopContainer",
            )
            await asyncio.to_thread(client.call, "StopPodSandbox", pod_sandbox_id=pod)
            assert ["StopPodSandbox"] == listener.heard()
            await asyncio.to_thread(client.call, "RemovePodSandbox", pod_sandbox_id=pod)
            assert ["RemoveContainer", "RemovePodSandbox"] == listener.heard()
            assert listener.last.container is None or listener.last.container.id == short


@pytest.mark.parametrize("profile", ["", "containerd-2.1"])
async def test_what_plugins_are_told_is_legal(profile: str, tmp_path: Path) -> None:
    """Plugins receive only events that are legal under the profile, which may allow a start after a stop."""
    events, calls = tmp_path / "events.jsonl", [tmp_path / f"calls{turn}.jsonl" for turn in range(2)]
    pods, containers = list[str](), list[str]()
    with events.open("wb") as file:
        writer = LineWriter(file)
        for turn, path in enumerate(calls):
            plugins, ended = NodePlugins(older=bool(profile)), asyncio.Event()
            with (
                served(tmp_path, profile=profile, plugins=plugins, kept=True) as address,
                ServedClient(address, path) as client,
            ):
                recording = asyncio.create_task(
                    record(f"unix://{tmp_path / 'nri.sock'}", writer, ended=ended, told=lambda _: None)
                )
                for _ in range(2_000):
                    if events.read_bytes().count(b"Synchronize") > turn:
                        break
                    await asyncio.sleep(0.005)
                await asyncio.to_thread(client.wander, 80, turn, pods, containers)
                again = await asyncio.to_thread(client.container, await asyncio.to_thread(client.pod), "sleep", "60")
                for op in ("StopContainer", "StartContainer", "RemoveContainer"):
                    await asyncio.to_thread(client.call, op, container_id=again)
                ended.set()
                await recording
        writer.close()
    (tmp_path / "calls.jsonl").write_bytes(b"".join(path.read_bytes() for path in calls))

    told = judge(events, models=("plugin-pod", "plugin-container"), profile=profile or None)
    bare = judge(events, models=("plugin-container",))
    called = judge(tmp_path / "calls.jsonl", models=("cri-pod", "cri-container"), profile=profile or None)

    assert [Holds] * 4 == [type(each.verdict) for each in (*told.judgements, *called.judgements)]
    assert [Illegal if profile else Holds] == [type(each.verdict) for each in bare.judgements]


@pytest.mark.parametrize(("profile", "forgets"), [("", []), ("containerd-2.1", ["pod", "over"])])
async def test_after_a_restart_ends_are_told(profile: str, forgets: list[str], tmp_path: Path) -> None:
    """After a restart, plugins are notified when an entity ends, unless the entity is forgotten under the profile."""
    listener, told = Listener(), list[str]()
    with served(tmp_path, profile=profile, kept=True) as address, ServedClient(address) as client:
        pod = client.pod()
        over, running = (client.container(pod, *each, started=True) for each in (("true",), ("sleep", "60")))
        client.exited(over)
    with (
        served(tmp_path, profile=profile, kept=True, plugins=NodePlugins()) as address,
        ServedClient(address) as client,
    ):
        async with joined(tmp_path, listener):
            calls: tuple[tuple[str, str, dict[str, Any]], ...] = (
                ("over", "RemoveContainer", {"container_id": over}),
                ("running", "StopContainer", {"container_id": running}),
                ("pod", "StopPodSandbox", {"pod_sandbox_id": pod}),
            )
            for what, op, fields in calls:
                await asyncio.to_thread(partial(client.call, op, **fields))
                told += [what] if op in listener.heard() else []

    assert [each for each in ("over", "running", "pod") if each not in forgets] == told


async def test_plugins_may_refuse(tmp_path: Path) -> None:
    """A refused run or creation is undone, and a container whose start is refused exits.

    Plugins that come after the refusing plugin are notified of the end, but not of the refused event.
    """
    first, second = Listener(), Listener()
    refusal = RpcError(Code.UNKNOWN, "not here")
    with served(tmp_path, plugins=NodePlugins()) as address, ServedClient(address) as client:
        async with joined(tmp_path, first), joined(tmp_path, second, "20"):
            pod = await asyncio.to_thread(client.pod)
            container = await asyncio.to_thread(client.container, pod, "true")
            first.heard(), second.heard()
            first.answers = dict.fromkeys(["RunPodSandbox", "CreateContainer", "StartContainer"], refusal)

            run = await asyncio.to_thread(client.run, "refused")
            told = [first.heard()]
            created = await asyncio.to_thread(client.create, pod, "true")
            told.append(first.heard())
            started = await asyncio.to_thread(client.call, "StartContainer", container_id=container)
            told.append(first.heard())
            status = await asyncio.to_thread(client.status, container)
            pods = await asyncio.to_thread(client.call, "ListPodSandbox")

    assert [
        ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"],
        ["CreateContainer", "StopContainer", "RemoveContainer"],
        ["StartContainer", "StopContainer"],
    ] == told
    assert ["StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer", "StopContainer"] == second.heard()
    assert ["UNKNOWN"] * 3 == [each.code for each in (run, created, started)]
    assert all("not here" in each.detail for each in (run, created, started))
    assert (cri.CONTAINER_EXITED, 128, [pod]) == (
        status.state,
        status.exit_code,
        [each.id for each in pods.message.items],
    )


async def test_plugins_that_join_are_given_what_is_there(tmp_path: Path) -> None:
    listener = Listener()
    with served(tmp_path, plugins=NodePlugins()) as address, ServedClient(address) as client:
        pod = await asyncio.to_thread(client.pod)
        running = await asyncio.to_thread(client.container, pod, "sleep", "60", started=True)
        created = await asyncio.to_thread(client.container, pod, "sleep", "60")
        over = await asyncio.to_thread(client.container, pod, "true", started=True)
        await asyncio.to_thread(client.exited, over)
        async with joined(tmp_path, listener):
            for each in (running, created, over):
                await asyncio.to_thread(client.call, "StopContainer", container_id=each)

    assert [pod, running, created] == listener.listed
    assert ["StopContainer"] == listener.heard()


async def test_plugins_change_what_is_created_and_what_runs(tmp_path: Path) -> None:
    """Plugins may change limits of existing containers, and the annotations of new ones.

    A creation fails if two plugins set the same field.
    """
    first, second = Listener(), Listener()
    adjusted = PluginChanges(adjustment=nri.ContainerAdjustment(annotations={"by": "plugin"}))
    with served(tmp_path, plugins=NodePlugins()) as address, ServedClient(address) as client:
        async with joined(tmp_path, first) as plugin, joined(tmp_path, second, "20"):
            pod = await asyncio.to_thread(client.pod)
            first.answers["CreateContainer"] = adjusted
            container = await asyncio.to_thread(client.container, pod, "sleep", "60")
            status = await asyncio.to_thread(client.status, container)
            cpu = nri.LinuxCPU(shares=nri.OptionalUInt64(value=99))
            linux = nri.LinuxContainerUpdate(resources=nri.LinuxResources(cpu=cpu))
            failed = await plugin.update_containers(
                [nri.ContainerUpdate(container_id=each, linux=linux) for each in (container, "gone")]
            )
            await asyncio.to_thread(client.call, "StartContainer", container_id=container)
            assert second.last
            assert second.last.container
            shares = second.last.container.linux.resources.cpu.shares.value
            second.answers["CreateContainer"] = adjusted
            conflict = await asyncio.to_thread(client.create, pod, "true")

    assert {"by": "plugin"} == dict(status.annotations)
    assert ((), "UNKNOWN", True) == (failed, conflict.code, "both set annotation.by" in conflict.detail)
    assert shares == 99


async def test_older_runtimes_relay_by_state_change(tmp_path: Path) -> None:
    listener = Listener()
    plugins = NodePlugins(older=True)
    with served(tmp_path, profile="containerd-2.1", plugins=plugins) as address, ServedClient(address) as client:
        async with joined(tmp_path, listener):
            await asyncio.to_thread(client.container, await asyncio.to_thread(client.pod), "true")

    assert ["RUN_POD_SANDBOX", "CreateContainer", "POST_CREATE_CONTAINER"] == listener.heard()


async def test_a_limit_that_cri_cannot_express_is_refused(tmp_path: Path) -> None:
    """CPU shares are unsigned in NRI, but signed in CRI."""
    listener = Listener()
    cpu = nri.LinuxCPU(shares=nri.OptionalUInt64(value=1 << 63))
    linux = nri.LinuxContainerAdjustment(resources=nri.LinuxResources(cpu=cpu))
    listener.answers["CreateContainer"] = PluginChanges(adjustment=nri.ContainerAdjustment(linux=linux))
    with served(tmp_path, plugins=NodePlugins()) as address, ServedClient(address) as client:
        async with joined(tmp_path, listener):
            pod = await asyncio.to_thread(client.pod)
            refused = await asyncio.to_thread(client.create, pod, "true")

    assert ("UNKNOWN", True) == (refused.code, "plugins want a cpu_shares of 9223372036854775808" in refused.detail)
