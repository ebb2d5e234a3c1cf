"""The plugin's side of NRI works with real daemons."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from called import POD, SLEEPS, done, ended, running_pod, started, updated

from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.cri_client import CriClient, connected
from fsm.runtimes.sockets.cri_pb2 import CreateContainerRequest, RemoveContainerRequest
from fsm.runtimes.sockets.nri_link import PluginChanges, RelayedEvent
from fsm.runtimes.sockets.nri_plugin import NriPlugin, RefusedError, offered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    from containerds import Containerd

pytestmark = pytest.mark.live

SECONDS = 60
"""The maximum number of seconds to wait for a runtime."""


class Listening:
    """A plugin that keeps its events, refuses some requests, and answers the first request too late."""

    def __init__(self, *, refuses: str = "", late: str = "") -> None:
        self.told: list[str] = []
        self.containers: dict[str, int] = {}
        self.pods: list[str] = []
        self.ready = asyncio.Event()
        self._refuses, self._late = refuses, late

    async def configure(self, request: nri.ConfigureRequest) -> Collection[str]:
        assert request.runtime_name == "containerd"
        return offered(request)

    async def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Sequence[nri.ContainerUpdate]:
        self.pods = [each.id for each in pods]
        self.containers = {each.id: each.state for each in containers}
        self.ready.set()
        return ()

    async def relay(self, event: RelayedEvent) -> PluginChanges | None:
        self.told.append(event.name)
        if event.name == self._refuses:
            raise PermissionError("not this one")
        if event.name == self._late:
            self._late = ""
            await asyncio.sleep(3)
        return None


@asynccontextmanager
async def plugin(containerd: Containerd, handlers: Listening) -> AsyncIterator[tuple[NriPlugin, list[object]]]:
    """Yield a synchronised plugin and the list of reasons for its disconnections."""
    made, lost = NriPlugin("fsm-test", "10", handlers), list[object]()
    running = asyncio.create_task(made.run(f"unix://{containerd.nri}", lost=lost.append))
    await asyncio.wait_for(handlers.ready.wait(), SECONDS)
    yield made, lost
    await made.leave()
    await running


async def until(holds: Callable[[], bool]) -> None:
    late = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < late
        await asyncio.sleep(0.02)


async def told_of_updates(client: CriClient, number: str, handlers: Listening) -> None:
    """Update the container repeatedly until the plugin is notified, which takes a while after its synchronisation."""
    late = time.monotonic() + SECONDS
    while "UpdateContainer" not in handlers.told:
        assert time.monotonic() < late
        await asyncio.to_thread(updated, client, number)
    handlers.told.clear()


def has_nri(containerd: Containerd) -> bool:
    assert (containerd.nri is None) == containerd.version.startswith("1.6.")
    return containerd.nri is not None


async def test_a_plugin_that_joins_late_is_given_what_is_there(containerd: Containerd) -> None:
    if not has_nri(containerd):
        return
    with connected(f"unix://{containerd.endpoint}")[0] as client, running_pod(client) as pod:
        running = started(client, pod)
        config = type(SLEEPS)()
        config.CopyFrom(SLEEPS)
        config.metadata.name = "waits"
        created = client.call(
            "CreateContainer", CreateContainerRequest(pod_sandbox_id=pod, config=config, sandbox_config=POD)
        ).message.container_id
        handlers = Listening()
        async with plugin(containerd, handlers) as (joined, lost):
            assert pod in handlers.pods
            assert {running: nri.CONTAINER_RUNNING, created: nri.CONTAINER_CREATED} == handlers.containers
            shares = nri.LinuxResources(cpu=nri.LinuxCPU(shares=nri.OptionalUInt64(value=512)))
            update = nri.ContainerUpdate(container_id=running, linux=nri.LinuxContainerUpdate(resources=shares))
            assert () == await joined.update_containers([update])
            await told_of_updates(client, running, handlers)
            await asyncio.to_thread(ended, client, running)
            await asyncio.to_thread(client.call, "RemoveContainer", RemoveContainerRequest(container_id=created))
            assert {"StopContainer", "RemoveContainer"} == set(handlers.told)
            assert [] == lost


async def test_what_a_plugin_refuses_fails(containerd: Containerd) -> None:
    if not has_nri(containerd):
        return
    handlers = Listening(refuses="CreateContainer")
    with connected(f"unix://{containerd.endpoint}")[0] as client, running_pod(client) as pod:
        async with plugin(containerd, handlers) as (_, lost):
            request = CreateContainerRequest(pod_sandbox_id=pod, config=SLEEPS, sandbox_config=POD)
            late = time.monotonic() + SECONDS
            while (answer := await asyncio.to_thread(client.call, "CreateContainer", request)).code == "OK":
                assert time.monotonic() < late  # the plugin may be notified late
                done(client.call("RemoveContainer", RemoveContainerRequest(container_id=answer.message.container_id)))
            assert [] == lost

    assert "PermissionError: not this one" in answer.detail


async def test_a_plugin_that_answers_late_is_disconnected_and_connects_again(containerd: Containerd) -> None:
    if not has_nri(containerd):
        return
    handlers = Listening(late="UpdateContainer")
    with connected(f"unix://{containerd.endpoint}")[0] as client, running_pod(client) as pod:
        async with plugin(containerd, handlers) as (_, lost):
            number = await asyncio.to_thread(started, client, pod)
            await told_of_updates(client, number, handlers)
            await until(lambda: {number: nri.CONTAINER_RUNNING} == handlers.containers)
            assert [None] == lost
            await told_of_updates(client, number, handlers)
            await asyncio.to_thread(ended, client, number)

    assert ["StopContainer", "RemoveContainer"] == handlers.told[-2:]


async def test_a_wrong_index_is_refused(containerd: Containerd) -> None:
    if not has_nri(containerd):
        return
    with pytest.raises(RefusedError, match="invalid plugin index"):
        await NriPlugin("a", "1", Listening()).run(f"unix://{containerd.nri}")
