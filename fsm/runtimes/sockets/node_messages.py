"""Build the CRI messages about the pods, containers, images and events of the reference node."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fsm.runtimes.reference.container.record import ContainerState, Status
from fsm.runtimes.reference.node import NodeEvent
from fsm.runtimes.reference.node.node_containers import NodeContainer, limits_of
from fsm.runtimes.reference.node.records import StoredImage
from fsm.runtimes.reference.pods.surroundings import Metadata, PodStatus
from fsm.runtimes.sockets import cri_pb2 as cri

MEMORY: Final = 1 << 20  # number of bytes of memory that each simulated process uses
WRITTEN: Final = 1 << 12  # number of bytes that a simulated container has written

EVENTS: Final[Mapping[str, cri.ContainerEventType]] = {
    "created": cri.CONTAINER_CREATED_EVENT,
    "started": cri.CONTAINER_STARTED_EVENT,
    "stopped": cri.CONTAINER_STOPPED_EVENT,
    "deleted": cri.CONTAINER_DELETED_EVENT,
}


def pod_status(plan: cri.RunPodSandboxRequest, status: PodStatus) -> cri.PodSandboxStatus:
    options = plan.config.linux.security_context.namespace_options
    address = "" if options.network == cri.NODE or not status.addresses else status.addresses[0]
    return cri.PodSandboxStatus(
        **_common_fields(status.id, plan.config),
        state=status.state,
        created_at=status.created_at,
        network=cri.PodSandboxNetworkStatus(ip=address),
        linux=cri.LinuxPodSandboxStatus(namespaces=cri.Namespace(options=options)),
        runtime_handler=plan.runtime_handler,
    )


def _common_fields(identity: str, config: cri.PodSandboxConfig | cri.ContainerConfig) -> dict[str, Any]:
    return {"id": identity, "metadata": config.metadata, "labels": config.labels, "annotations": config.annotations}


def listed_pod(plan: cri.RunPodSandboxRequest, status: Metadata) -> cri.PodSandbox:
    return cri.PodSandbox(
        **_common_fields(status.id, plan.config),
        state=status.state,
        created_at=status.created_at,
        runtime_handler=plan.runtime_handler,
    )


def container_status(found: NodeContainer, status: Status) -> cri.ContainerStatus:
    exited = status.state() == ContainerState.EXITED
    image = found.world.record.image
    usual = ("Error" if status.exit_code else "Completed") if exited else ""
    return cri.ContainerStatus(
        **_common_fields(found.id, found.config),
        state=status.state().value,
        created_at=found.created_at(),
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
        image=cri.ImageSpec(image=image.tag or image.id) if image else None,
        image_ref=image.digest if image else "",
        image_id=image.id if image else "",
        reason=status.reason or usual,
        message=status.message,
        mounts=found.config.mounts,
        log_path=found.command.log,
        resources=cri.ContainerResources(linux=_resources(status)),
    )


def _resources(status: Status) -> cri.LinuxContainerResources:
    known = cri.LinuxContainerResources.DESCRIPTOR.fields_by_name
    shown: Any = {name: value for name, value in limits_of(status).items() if name in known}
    return cri.LinuxContainerResources(**shown)


def listed_container(found: NodeContainer) -> cri.Container:
    image = found.world.record.image
    image_id = image.id if image else ""
    return cri.Container(
        **_common_fields(found.id, found.config),
        pod_sandbox_id=found.pod.id,
        image=cri.ImageSpec(image=found.config.image.image),
        image_ref=image_id,
        image_id=image_id,
        state=found.shows,
        created_at=found.created_at(),
    )


def stats(found: NodeContainer, now: int) -> cri.ContainerStats:
    """Invent statistics for a simulated container. Its CPU time is 1/1000 of its running time."""
    used = max(0, now - found.snapshot().started_at) // 1_000
    return cri.ContainerStats(
        attributes=cri.ContainerAttributes(**_common_fields(found.id, found.config)),
        cpu=_cpu(used, now),
        memory=_memory(1, now),
        writable_layer=disk_usage(WRITTEN, 1, now),
    )


def disk_usage(size: int, inodes: int, now: int) -> cri.FilesystemUsage:
    where, used = cri.FilesystemIdentifier(mountpoint="/"), cri.UInt64Value(value=size)
    return cri.FilesystemUsage(timestamp=now, fs_id=where, used_bytes=used, inodes_used=cri.UInt64Value(value=inodes))


def pod_stats(
    plan: cri.RunPodSandboxRequest, status: Metadata, running: Sequence[NodeContainer], now: int
) -> cri.PodSandboxStats:
    containers = [stats(container, now) for container in running]
    return cri.PodSandboxStats(
        attributes=cri.PodSandboxAttributes(**_common_fields(status.id, plan.config)),
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
    return cri.Image(
        id=stored.id,
        repo_tags=[stored.tag] if stored.tag else [],
        repo_digests=[stored.digest],
        size=stored.size,
        spec=cri.ImageSpec(image=stored.id),
    )


def event(seen: NodeEvent) -> cri.ContainerEventResponse:
    return cri.ContainerEventResponse(
        container_id=seen.id,
        container_event_type=EVENTS[seen.what],
        created_at=seen.at,
        pod_sandbox_status=pod_status(*seen.pod) if seen.pod else None,
        containers_statuses=[container_status(*container) for container in seen.containers],
    )
