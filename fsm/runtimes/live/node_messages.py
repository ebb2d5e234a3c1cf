"""Conversion between CRI messages and the reference node's data: plans and states of pods and containers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fsm.runtimes.live import cri_pb2 as cri
from fsm.runtimes.reference.container.record import ContainerState, Status
from fsm.runtimes.reference.node.command import Command, Mount
from fsm.runtimes.reference.node.images import StoredImage
from fsm.runtimes.reference.node.node_containers import NodeContainer, limits_of
from fsm.runtimes.reference.node.node_service import NodeEvent
from fsm.runtimes.reference.node.plans import ContainerPlan, Limits, PodPlan
from fsm.runtimes.reference.pods.metadata import Metadata, PodStatus

COMPLETED: Final = "Completed"
FAILED: Final = "Error"

MEMORY: Final = 1 << 20
"""Number of bytes of memory that each process of a simulated container uses."""
WRITTEN: Final = 1 << 12
"""Number of bytes that a simulated container has written."""

EVENTS: Final[Mapping[str, cri.ContainerEventType]] = {
    "created": cri.CONTAINER_CREATED_EVENT,
    "started": cri.CONTAINER_STARTED_EVENT,
    "stopped": cri.CONTAINER_STOPPED_EVENT,
    "deleted": cri.CONTAINER_DELETED_EVENT,
}


def pod_plan(config: cri.PodSandboxConfig, runtime_handler: str) -> PodPlan:
    """Return the plan of the pod that *config* requests."""
    metadata, spaces = config.metadata, config.linux.security_context.namespace_options
    return PodPlan(
        name=metadata.name,
        uid=metadata.uid,
        namespace=metadata.namespace,
        attempt=metadata.attempt,
        labels=dict(config.labels),
        annotations=dict(config.annotations),
        runtime_handler=runtime_handler,
        log_folder=config.log_directory,
        namespaces=(spaces.network, spaces.pid, spaces.ipc),
        files=tuple(_files(config)),
    )


def _files(config: cri.PodSandboxConfig) -> Iterator[tuple[str, str]]:
    yield "/etc/hostname", f"{config.hostname or config.metadata.name}\n"
    dns = config.dns_config
    lines = [f"nameserver {each}" for each in dns.servers]
    lines += [f"search {' '.join(dns.searches)}"] if dns.searches else []
    lines += [f"options {' '.join(dns.options)}"] if dns.options else []
    yield "/etc/resolv.conf", "".join(f"{each}\n" for each in lines)
    for name, value in config.linux.sysctls.items():
        yield f"/proc/sys/{name.replace('.', '/')}", f"{value}\n"


def pod_metadata(plan: PodPlan) -> cri.PodSandboxMetadata:
    """Return the parts of a pod's name."""
    return cri.PodSandboxMetadata(name=plan.name, uid=plan.uid, namespace=plan.namespace, attempt=plan.attempt)


def pod_status(plan: PodPlan, status: PodStatus) -> cri.PodSandboxStatus:
    """Return the status of a pod for PodSandboxStatus."""
    network, pid, ipc = map(cri.NamespaceMode.Name, plan.namespaces)
    address = "" if network == "NODE" or not status.addresses else status.addresses[0]
    options = cri.NamespaceOption(network=network, pid=pid, ipc=ipc)
    return cri.PodSandboxStatus(
        id=status.id,
        metadata=pod_metadata(plan),
        state=status.state,
        created_at=status.created_at,
        network=cri.PodSandboxNetworkStatus(ip=address),
        linux=cri.LinuxPodSandboxStatus(namespaces=cri.Namespace(options=options)),
        labels=plan.labels,
        annotations=plan.annotations,
        runtime_handler=plan.runtime_handler,
    )


def listed_pod(plan: PodPlan, status: Metadata) -> cri.PodSandbox:
    """Return the entry of a pod for ListPodSandbox."""
    return cri.PodSandbox(
        id=status.id,
        metadata=pod_metadata(plan),
        state=status.state,
        created_at=status.created_at,
        labels=plan.labels,
        annotations=plan.annotations,
        runtime_handler=plan.runtime_handler,
    )


def container_plan(config: cri.ContainerConfig) -> ContainerPlan:
    """Return the plan of the container that *config* requests."""
    return ContainerPlan(
        name=config.metadata.name,
        attempt=config.metadata.attempt,
        image=config.image.image,
        command=Command(
            words=(*config.command, *config.args),
            environment=tuple((each.key, each.value) for each in config.envs),
            folder=config.working_dir,
            mounts=tuple(
                Mount(inside=each.container_path, own=each.host_path, readonly=each.readonly) for each in config.mounts
            ),
            listens=config.stdin,
            once=config.stdin_once,
            terminal=config.tty,
        ),
        labels=dict(config.labels),
        annotations=dict(config.annotations),
        log_path=config.log_path,
        limits=limits(config.linux.resources),
    )


def limits(resources: cri.LinuxContainerResources) -> Limits:
    """Return the fields that are set in *resources*, as a mapping from name to value."""
    return {field.name: value for field, value in resources.ListFields() if isinstance(value, int | str)}


def container_status(found: NodeContainer, status: Status) -> cri.ContainerStatus:
    """Return the status for ContainerStatus of a container whose record is *status*."""
    exited = status.state() == ContainerState.EXITED
    usual = (FAILED if status.exit_code else COMPLETED) if exited else ""
    return cri.ContainerStatus(
        id=found.id,
        metadata=container_metadata(found),
        state=status.state().value,
        created_at=found.created_at(),
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
        image=cri.ImageSpec(image=found.plan.image_name),
        image_ref=found.plan.image_digest,
        image_id=found.plan.image_id,
        reason=status.reason or usual,
        message=status.message,
        labels=found.plan.labels,
        annotations=found.plan.annotations,
        mounts=[
            cri.Mount(container_path=each.inside, host_path=each.own, readonly=each.readonly)
            for each in found.plan.command.mounts
        ],
        log_path=found.plan.command.log,
        resources=cri.ContainerResources(linux=_resources(status)),
    )


def _resources(status: Status) -> cri.LinuxContainerResources:
    known = cri.LinuxContainerResources.DESCRIPTOR.fields_by_name
    shown: Any = {name: value for name, value in limits_of(status).items() if name in known}
    return cri.LinuxContainerResources(**shown)


def container_metadata(found: NodeContainer) -> cri.ContainerMetadata:
    """Return the parts of a container's name."""
    return cri.ContainerMetadata(name=found.plan.name, attempt=found.plan.attempt)


def listed_container(found: NodeContainer) -> cri.Container:
    """Return the entry of a container for ListContainers."""
    return cri.Container(
        id=found.id,
        pod_sandbox_id=found.pod.id,
        metadata=container_metadata(found),
        image=cri.ImageSpec(image=found.plan.image),
        image_ref=found.plan.image_id,
        image_id=found.plan.image_id,
        state=found.shows,
        created_at=found.created_at(),
        labels=found.plan.labels,
        annotations=found.plan.annotations,
    )


def stats(found: NodeContainer, now: int) -> cri.ContainerStats:
    """Return statistics of a simulated container: 1/1000 of its running time as CPU time, and fixed memory."""
    used = max(0, now - found.status().started_at) // 1_000
    return cri.ContainerStats(
        attributes=cri.ContainerAttributes(
            id=found.id,
            metadata=container_metadata(found),
            labels=found.plan.labels,
            annotations=found.plan.annotations,
        ),
        cpu=_cpu(used, now),
        memory=_memory(1, now),
        writable_layer=cri.FilesystemUsage(
            timestamp=now,
            fs_id=cri.FilesystemIdentifier(mountpoint="/"),
            used_bytes=cri.UInt64Value(value=WRITTEN),
            inodes_used=cri.UInt64Value(value=1),
        ),
    )


def pod_stats(plan: PodPlan, status: Metadata, running: Sequence[NodeContainer], now: int) -> cri.PodSandboxStats:
    """Return statistics of a pod with its *running* containers.  See :func:`stats`."""
    containers = [stats(each, now) for each in running]
    return cri.PodSandboxStats(
        attributes=cri.PodSandboxAttributes(
            id=status.id, metadata=pod_metadata(plan), labels=plan.labels, annotations=plan.annotations
        ),
        linux=cri.LinuxPodSandboxStats(
            cpu=_cpu(sum(each.cpu.usage_core_nano_seconds.value for each in containers), now),
            memory=_memory(len(containers) + 1, now),
            network=cri.NetworkUsage(timestamp=now, default_interface=cri.NetworkInterfaceUsage(name="eth0")),
            process=cri.ProcessUsage(timestamp=now, process_count=cri.UInt64Value(value=len(containers) + 1)),
            containers=containers,
        ),
    )


def _cpu(used: int, now: int) -> cri.CpuUsage:
    return cri.CpuUsage(
        timestamp=now,
        usage_core_nano_seconds=cri.UInt64Value(value=used),
        usage_nano_cores=cri.UInt64Value(value=10**6),
    )


def _memory(processes: int, now: int) -> cri.MemoryUsage:
    used = cri.UInt64Value(value=processes * MEMORY)
    return cri.MemoryUsage(timestamp=now, working_set_bytes=used, usage_bytes=used)


def image(stored: StoredImage) -> cri.Image:
    """Return the entry of an image for ListImages."""
    return cri.Image(
        id=stored.id,
        repo_tags=[stored.tag] if stored.tag else [],
        repo_digests=[stored.digest],
        size=stored.size,
        spec=cri.ImageSpec(image=stored.id),
    )


def event(seen: NodeEvent) -> cri.ContainerEventResponse:
    """Return the GetContainerEvents message for the event *seen*."""
    return cri.ContainerEventResponse(
        container_id=seen.id,
        container_event_type=EVENTS[seen.what],
        created_at=seen.at,
        pod_sandbox_status=pod_status(*seen.pod) if seen.pod else None,
        containers_statuses=[container_status(*each) for each in seen.containers],
    )


def selected(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Check whether *labels* contain every pair of *selector*.

    >>> selected({"a": "1", "b": "2"}, {"a": "1"}), selected({}, {"a": "1"})
    (True, False)
    """
    return all(labels.get(key) == value for key, value in selector.items())
