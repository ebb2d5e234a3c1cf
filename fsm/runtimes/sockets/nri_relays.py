"""Relay the events of the served reference node to NRI plugins, and apply the changes that they request."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

from fsm.runtimes.reference.driven import CallError
from fsm.runtimes.reference.node import ServedNode
from fsm.runtimes.reference.node.node_containers import NodeContainer
from fsm.runtimes.reference.nri.lifecycle import MergedAnswers, relay_merged
from fsm.runtimes.reference.nri.messages import Answer, Container, ContainerState, Fields, Pod, Request, Update
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.nri_link import PluginChanges, RelayedEvent
from fsm.runtimes.sockets.nri_runtime import NriRuntime
from fsm.runtimes.sockets.unix_sockets import accept_streams, listening

NUMBERS: Final[Mapping[str, tuple[str, str]]] = {
    "cpu_shares": ("cpu", "shares"),
    "cpu_quota": ("cpu", "quota"),
    "cpu_period": ("cpu", "period"),
    "memory_limit_in_bytes": ("memory", "limit"),
}


class NodePlugins:
    """The plugins of a served node. If *older* is true, events are relayed as NRI relayed them before v0.11."""

    def __init__(self, *, older: bool = False) -> None:
        self.node: ServedNode  # set before any plugin can connect
        self.runtime = NriRuntime(
            self,
            name="fsm",
            version=version("container-fsm"),
            state_changes=older,
            joining=lambda: self.node.relays.joining(),  # noqa: PLW0108  (the node is set later)
        )

    async def send(self, request: Request) -> MergedAnswers:
        event = RelayedEvent(
            name=request.event,
            pod=self._pod(request.pod),
            container=self._container(request.container) if request.container else None,
            resources=_resources(request.resources) if request.event == "UpdateContainer" else None,
        )
        merged = await relay_merged(
            request, lambda _, add: self.runtime.relay(event, lambda name, changes: add(name, _answer(name, changes)))
        )
        for each in () if merged.error else merged.others:
            self._try_change(each.container_id, each.resources)
        return merged

    def listed(self) -> tuple[Sequence[nri.PodSandbox], Sequence[nri.Container]]:
        """Return the pods and containers for synchronising a plugin. The container states then count as relayed."""
        told = self.node.containers_for_plugins()
        self.node.relays.containers.synchronise(told)
        containers = [_container_message(self.node.containers.store[each.id], each.state) for each in told]
        return [self._pod(each) for each in self.node.pods_for_plugins()], containers

    async def update(self, plugin: str, updates: Sequence[nri.ContainerUpdate]) -> Sequence[nri.ContainerUpdate]:
        """Apply updates requested outside of any event. Return failed updates, except those with ``ignore_failure``."""
        del plugin
        return [
            update
            for update in updates
            if not self._try_change(update.container_id, limits(update.linux.resources)) and not update.ignore_failure
        ]

    def _try_change(self, identity: str, fields: Fields) -> bool:
        containers = self.node.containers
        try:
            if identity in containers.store:
                containers.change(identity, fields)
        except CallError:
            return False
        return True

    def _pod(self, pod: Pod) -> nri.PodSandbox:
        plan = self.node.plans.get(pod.id, cri.RunPodSandboxRequest())
        return nri.PodSandbox(
            id=pod.id,
            name=pod.name,
            namespace=pod.namespace,
            uid=plan.config.metadata.uid,
            labels=plan.config.labels,
            annotations=plan.config.annotations,
            runtime_handler=plan.runtime_handler,
        )

    def _container(self, told: Container) -> nri.Container:
        known = self.node.containers.known(told.id)
        if known is None:
            return nri.Container(id=told.id, pod_sandbox_id=told.pod_id, name=told.name, state=told.state.value)
        return _container_message(known, told.state)


@asynccontextmanager
async def with_plugins(address: str, plugins: NodePlugins, node: ServedNode) -> AsyncIterator[None]:
    plugins.node = node
    with listening(address) as made:
        server = accept_streams(made, plugins.runtime.accept)
        try:
            yield
        finally:
            server.close()
            await plugins.runtime.close()


def _container_message(found: NodeContainer, state: ContainerState) -> nri.Container:
    status, config = found.snapshot(), found.config
    return nri.Container(
        id=found.id,
        pod_sandbox_id=found.pod.id,
        name=config.metadata.name,
        state=state.value,
        labels=config.labels,
        annotations=config.annotations,
        args=[*config.command, *config.args],
        env=[f"{env.key}={env.value}" for env in config.envs],
        mounts=[
            nri.Mount(destination=each.container_path, source=each.host_path, type="bind") for each in config.mounts
        ],
        linux=nri.LinuxContainer(resources=_resources(found.limits())),
        pid=status.pid,
        created_at=status.created_at,
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
    )


def limits(resources: nri.LinuxResources) -> dict[str, int]:
    """Return the limits in *resources*, with their names in CRI.

    >>> limits(nri.LinuxResources(cpu=nri.LinuxCPU(shares=nri.OptionalUInt64(value=512))))
    {'cpu_shares': 512}
    """
    parts: Any = resources
    return {
        name: getattr(getattr(parts, part), field).value
        for name, (part, field) in NUMBERS.items()
        if getattr(parts, part).HasField(field)
    }


def _resources(fields: Fields) -> nri.LinuxResources:
    resources: Any = nri.LinuxResources()
    for name, (part, field) in NUMBERS.items():
        if value := fields.get(name):
            getattr(getattr(resources, part), field).value = value
    return resources  # type: ignore[no-any-return]  # its fields are accessed by name


def _answer(plugin: str, changes: PluginChanges) -> Answer:
    updates = [
        Update(
            container_id=each.container_id, resources=limits(each.linux.resources), ignore_failure=each.ignore_failure
        )
        for each in changes.updates
    ]
    adjusted = dict(_adjusted_fields(plugin, changes.adjustment)) if changes.adjustment else {}
    return Answer(adjust=adjusted, updates=tuple(updates))


def _adjusted_fields(plugin: str, adjustment: nri.ContainerAdjustment) -> Iterator[tuple[str, object]]:
    """Yield the name and value of each field that *adjustment* sets. For ``args``, the value is *plugin*."""
    yield from limits(adjustment.linux.resources).items()
    for key, value in adjustment.annotations.items():
        yield f"annotation.{key}", value
    for env in adjustment.env:
        yield f"env.{env.key}", env.value
    for mount in adjustment.mounts:
        yield f"mount.{mount.destination}", mount.source
    if adjustment.args:
        yield "args", plugin
