"""An NRI plugin that gives each container a CPU of its own, and takes it back: ``nri_plugin.py [BUG]``.

It is started by a runtime, or connects to the socket in ``NRI_SOCKET``, and again when that has gone.  ``slow`` answers a
stop too late; ``crashes`` when a container is created in a pod in which one was removed; ``leaves`` after a pod's removal;
``refuses`` updates; ``asks-for-the-gone`` counts what was removed when the next container is created; ``asks-late`` asks
for it unasked; ``forgets`` what it was synchronised with, and crashes at its end.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from fsm.live import nri_pb2 as nri
from fsm.live.nri_link import PluginChanges
from fsm.live.nri_plugin import NriPlugin, offered

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fsm.live.nri_link import RelayedEvent

BUG = sys.argv[1] if len(sys.argv) > 1 else ""


class Pinning:
    """Which container has which CPU."""

    def __init__(self) -> None:
        self.cpus: dict[str, int] = {}
        self.reused: set[str] = set()
        self.plugin = NriPlugin("pinning", "10", self)

    def update(self, identity: str) -> nri.ContainerUpdate:
        cpus = nri.LinuxCPU(cpus=str(self.cpus.get(identity, 0)))
        resources = nri.LinuxResources(cpu=cpus)
        return nri.ContainerUpdate(container_id=identity, linux=nri.LinuxContainerUpdate(resources=resources))

    def pin(self, identity: str) -> None:
        self.cpus[identity] = min(set(range(len(self.cpus) + 1)) - set(self.cpus.values()))

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
        match event.name:
            case "CreateContainer":
                if BUG == "crashes" and event.pod.id in self.reused:
                    sys.stderr.write("panic: this pod had one already\n")
                    os._exit(2)
                others = tuple(self.update(each) for each in self.cpus)
                self.pin(identity)
                return PluginChanges(updates=others)
            case "StopContainer" if BUG == "slow":
                await asyncio.sleep(1)
            case "StopContainer" if BUG == "forgets":
                del self.cpus[identity]
                return None
            case "UpdateContainer" if BUG == "refuses":
                raise ValueError("no")
            case "RemoveContainer":
                self.reused.add(event.pod.id)
                if BUG == "asks-late":
                    self.later = asyncio.create_task(self.ask(identity))
                if BUG != "asks-for-the-gone":
                    self.cpus.pop(identity, None)
            case "RemovePodSandbox" if BUG == "leaves":
                sys.exit()
        return None

    async def ask(self, identity: str) -> None:
        await self.plugin.update_containers([self.update(identity)])

    async def shut_down(self) -> None:
        """Nothing is kept."""


if __name__ == "__main__":
    pinning = Pinning()
    if "NRI_PLUGIN_SOCKET" in os.environ:
        asyncio.run(pinning.plugin.run_launched())
    else:
        asyncio.run(pinning.plugin.run(os.environ["NRI_SOCKET"], patient=True))
