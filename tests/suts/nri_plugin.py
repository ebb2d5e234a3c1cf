"""An NRI plugin that assigns its only CPU to a container, and takes it back: ``nri_plugin.py [BUG]``.

The plugin is started by a runtime, or connects to the socket in ``NRI_SOCKET``, and connects again if that connection
is lost. BUG is one of these words:

``slow`` answers a stop too late. ``crashes`` fails when a container is created in a pod from which another container
was removed. ``leaves`` exits after the removal of a pod. ``refuses`` rejects updates. ``asks-for-the-gone`` requests
an update of removed containers when the next container is created; ``asks-late`` requests such an update without
being asked. ``forgets`` ignores the containers of the synchronisation, and crashes when they end. ``leaks`` keeps the
CPU of removed containers; ``shares`` assigns the CPU repeatedly. ``minds`` fails at the end of an unknown container,
and at a removal without a stop.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import TYPE_CHECKING

from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.nri_link import PluginChanges
from fsm.runtimes.sockets.nri_plugin import NriPlugin, offered

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fsm.runtimes.sockets.nri_link import RelayedEvent

CPUS = 1
BUG = sys.argv[1] if len(sys.argv) > 1 else ""


class Pinning:
    def __init__(self) -> None:
        self.cpus: dict[str, int] = {}
        self.reused: set[str] = set()
        self.known: set[str] = set()
        self.plugin = NriPlugin("pinning", "10", self)

    def update(self, identity: str) -> nri.ContainerUpdate:
        cpus = nri.LinuxCPU(cpus=str(self.cpus.get(identity, 0)))
        resources = nri.LinuxResources(cpu=cpus)
        return nri.ContainerUpdate(container_id=identity, linux=nri.LinuxContainerUpdate(resources=resources))

    def pin(self, identity: str) -> None:
        free = set(range(CPUS)) - (set() if BUG == "shares" else set(self.cpus.values()))
        if free:
            self.cpus[identity] = min(free)

    async def configure(self, request: nri.ConfigureRequest) -> Collection[str]:
        return offered(request)

    async def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Sequence[nri.ContainerUpdate]:
        del pods
        self.cpus.clear()
        if BUG != "forgets":
            for each in containers:
                self.pin(each.id)
        return [self.update(each.id) for each in containers if each.state == nri.CONTAINER_RUNNING]

    async def relay(self, event: RelayedEvent) -> PluginChanges | None:
        identity = event.container.id if event.container is not None else ""
        if BUG == "minds":
            self.mind(event.name, identity or event.pod.id)
        match event.name:
            case "CreateContainer":
                return self.create(event.pod.id, identity)
            case "StopContainer" if BUG == "slow":
                await asyncio.sleep(1)
            case "StopContainer" if BUG == "forgets":
                del self.cpus[identity]
                return None
            case "UpdateContainer" if BUG == "refuses":
                raise ValueError("no")
            case "RemoveContainer" if BUG != "leaks":
                self.reused.add(event.pod.id)
                if BUG == "asks-late":
                    self.later = asyncio.create_task(self.ask(identity))
                if BUG != "asks-for-the-gone":
                    self.cpus.pop(identity, None)
            case "RemovePodSandbox" if BUG == "leaves":
                sys.exit()
        return None

    def mind(self, event: str, identity: str) -> None:
        if event in {"RunPodSandbox", "CreateContainer"}:
            self.known.add(identity)
        elif event.startswith("Stop"):
            self.known.remove(identity)
        elif event.startswith("Remove") and identity in self.known:
            raise ValueError("it has not stopped")

    def create(self, pod: str, identity: str) -> PluginChanges:
        if BUG == "crashes" and pod in self.reused:
            sys.stderr.write("panic: this pod had one already\n")
            os._exit(2)
        others = () if BUG == "leaks" else tuple(self.update(each) for each in self.cpus)
        self.pin(identity)
        mine = nri.LinuxCPU(cpus=str(self.cpus.get(identity, "")))
        linux = nri.LinuxContainerAdjustment(resources=nri.LinuxResources(cpu=mine))
        return PluginChanges(adjustment=nri.ContainerAdjustment(linux=linux), updates=others)

    async def ask(self, identity: str) -> None:
        await self.plugin.update_containers([self.update(identity)])


async def launched(plugin: NriPlugin) -> None:
    """Serve the connection that the runtime has left open for this process."""
    connection = socket.socket(fileno=int(os.environ["NRI_PLUGIN_SOCKET"]))
    await plugin.serve(*await asyncio.open_unix_connection(sock=connection))


if __name__ == "__main__":
    pinning = Pinning()
    if "NRI_PLUGIN_SOCKET" in os.environ:
        asyncio.run(launched(pinning.plugin))
    else:
        asyncio.run(pinning.plugin.run(os.environ["NRI_SOCKET"], patient=True))
