"""The pods and containers of a runtime while a plugin is tested, and the check of updates that it requests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fsm.runtimes.sockets import nri_pb2 as nri


@dataclass(slots=True)
class Inventory:
    """Pods and containers by id.

    ``shown`` holds the ids listed when a plugin is synchronised, and ``stopped`` the ids of stopped pods. ``gone`` maps
    the ids of removed containers to their names. ``wrong`` is the plugin's first invalid request, if any. ``asked``
    holds the unsolicited updates that the plugin requested.
    """

    pods: dict[str, nri.PodSandbox] = field(default_factory=dict)
    containers: dict[str, nri.Container] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    gone: dict[str, str] = field(default_factory=dict)
    wrong: str = ""
    asked: list[nri.ContainerUpdate] = field(default_factory=list)

    def copy(self) -> Inventory:
        """Return a copy for :meth:`restore`."""
        made = Inventory()
        made.restore(self)
        return made

    def restore(self, other: Inventory) -> None:
        """Replace the contents with those of *other*."""
        self.pods, self.containers = dict(other.pods), dict(other.containers)
        self.shown, self.stopped = set(other.shown), set(other.stopped)
        self.gone, self.wrong = dict(other.gone), other.wrong

    def add(self, container: nri.Container) -> None:
        self.containers[container.id] = container
        self.gone.pop(container.id, None)

    def remove(self, container: nri.Container) -> None:
        self.containers.pop(container.id, None)
        self.gone[container.id] = container.name

    def listed(self) -> tuple[Sequence[nri.PodSandbox], Sequence[nri.Container]]:
        pods = tuple(each for each in self.pods.values() if each.id in self.shown)
        return pods, tuple(each for each in self.containers.values() if each.id in self.shown)

    async def update(self, plugin: str, updates: Sequence[nri.ContainerUpdate]) -> Sequence[nri.ContainerUpdate]:
        del plugin  # there is only one plugin
        self.asked += updates
        return self.refused(updates)

    def refused(self, updates: Iterable[nri.ContainerUpdate], *, creating: str = "") -> list[nri.ContainerUpdate]:
        """Return the *updates* of containers that do not exist or are being created. Store the first in ``wrong``."""
        failed = []
        for update in updates:
            identity = update.container_id
            if identity in self.gone:
                wrong = f"has asked for an update of {self.gone[identity]}, which was removed"
            elif identity == creating:
                wrong = "has asked for an update of the container that is being created"
            elif identity not in self.containers:
                wrong = f"has asked for an update of a container that never was: {identity[:80]!r}"
            else:
                continue
            self.wrong = self.wrong or wrong
            failed.append(update)
        return failed


def pod(number: int) -> nri.PodSandbox:
    """Return a pod as runtimes describe it, different for each *number*."""
    return nri.PodSandbox(
        id=_id(f"pod {number}"),
        name=f"pod-{number}",
        uid=_id(f"uid {number}")[:36],
        namespace="fsm-test",
        labels={"io.kubernetes.pod.name": f"pod-{number}"},
        linux=nri.LinuxPodSandbox(cgroup_parent=f"/fsm-test/pod-{number}"),
    )


def container(number: int, name: str, pod_id: str) -> nri.Container:
    """Return a container called *name* as runtimes describe it, different for each *number*."""
    resources = nri.LinuxResources(
        memory=nri.LinuxMemory(limit=nri.OptionalInt64(value=64 << 20)),
        cpu=nri.LinuxCPU(
            shares=nri.OptionalUInt64(value=1024),
            quota=nri.OptionalInt64(value=100_000),
            period=nri.OptionalUInt64(value=100_000),
        ),
    )
    return nri.Container(
        id=_id(f"container {number}"),
        pod_sandbox_id=pod_id,
        name=name,
        labels={"io.kubernetes.container.name": name},
        args=["sleep", "1000"],
        env=["PATH=/bin"],
        linux=nri.LinuxContainer(resources=resources, cgroups_path=f"/fsm-test/{number}"),
    )


def _id(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
