"""Messages of CRI from and to what the reference node has: plans of pods and containers, and their states."""

from collections.abc import Mapping
from typing import Final

from fsm.live import cri_pb2 as cri
from fsm.reference.container.record import ContainerState, Status
from fsm.reference.node.images import StoredImage
from fsm.reference.node.node_containers import ContainerPlan, NodeContainer
from fsm.reference.node.node_service import NodeEvent, PodPlan
from fsm.reference.node.workloads import Command
from fsm.reference.pods.metadata import Metadata, PodStatus

COMPLETED: Final = "Completed"
FAILED: Final = "Error"

EVENTS: Final[Mapping[str, cri.ContainerEventType]] = {
    "created": cri.CONTAINER_CREATED_EVENT,
    "started": cri.CONTAINER_STARTED_EVENT,
    "stopped": cri.CONTAINER_STOPPED_EVENT,
    "deleted": cri.CONTAINER_DELETED_EVENT,
}


def pod_plan(config: cri.PodSandboxConfig, runtime_handler: str) -> PodPlan:
    """What *config* wants of a pod."""
    metadata = config.metadata
    return PodPlan(
        name=metadata.name,
        uid=metadata.uid,
        namespace=metadata.namespace,
        attempt=metadata.attempt,
        labels=dict(config.labels),
        annotations=dict(config.annotations),
        runtime_handler=runtime_handler,
        log_folder=config.log_directory,
        host_network=config.linux.security_context.namespace_options.network == cri.NODE,
    )


def pod_metadata(plan: PodPlan) -> cri.PodSandboxMetadata:
    """The name of a pod, in its parts."""
    return cri.PodSandboxMetadata(name=plan.name, uid=plan.uid, namespace=plan.namespace, attempt=plan.attempt)


def pod_status(plan: PodPlan, status: PodStatus) -> cri.PodSandboxStatus:
    """What PodSandboxStatus shows of a pod."""
    address = "" if plan.host_network or not status.addresses else status.addresses[0]
    return cri.PodSandboxStatus(
        id=status.id,
        metadata=pod_metadata(plan),
        state=status.state,
        created_at=status.created_at,
        network=cri.PodSandboxNetworkStatus(ip=address),
        labels=plan.labels,
        annotations=plan.annotations,
        runtime_handler=plan.runtime_handler,
    )


def listed_pod(plan: PodPlan, status: Metadata) -> cri.PodSandbox:
    """What ListPodSandbox shows of a pod."""
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
    """What *config* wants of a container."""
    return ContainerPlan(
        name=config.metadata.name,
        attempt=config.metadata.attempt,
        image=config.image.image,
        command=Command(
            words=(*config.command, *config.args),
            environment=tuple((each.key, each.value) for each in config.envs),
            folder=config.working_dir,
            mounts=tuple((each.container_path, each.host_path) for each in config.mounts),
        ),
        labels=dict(config.labels),
        annotations=dict(config.annotations),
        log_path=config.log_path,
        limits=limits(config.linux.resources),
    )


def limits(resources: cri.LinuxContainerResources) -> dict[str, int]:
    """The limits that are set, by the names of their fields."""
    return {field.name: value for field, value in resources.ListFields() if isinstance(value, int)}


def container_status(found: NodeContainer, status: Status) -> cri.ContainerStatus:
    """What ContainerStatus shows of a container whose record is *status*."""
    exited = status.state() == ContainerState.EXITED
    usual = (FAILED if status.exit_code else COMPLETED) if exited else ""
    return cri.ContainerStatus(
        id=found.id,
        metadata=container_metadata(found),
        state=status.state().value,
        created_at=status.created_at,
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
        image=cri.ImageSpec(image=found.plan.image),
        image_ref=found.plan.image_id,
        reason=status.reason or usual,
        message=status.message,
        labels=found.plan.labels,
        annotations=found.plan.annotations,
        log_path=found.plan.command.log,
    )


def container_metadata(found: NodeContainer) -> cri.ContainerMetadata:
    """The name of a container, in its parts."""
    return cri.ContainerMetadata(name=found.plan.name, attempt=found.plan.attempt)


def listed_container(found: NodeContainer) -> cri.Container:
    """What ListContainers shows of a container."""
    return cri.Container(
        id=found.id,
        pod_sandbox_id=found.pod.id,
        metadata=container_metadata(found),
        image=cri.ImageSpec(image=found.plan.image),
        image_ref=found.plan.image_id,
        state=found.shows,
        created_at=found.status().created_at,
        labels=found.plan.labels,
        annotations=found.plan.annotations,
    )


def stats(found: NodeContainer, now: int) -> cri.ContainerStats:
    """What a simulated container has used: a thousandth of the time that it runs, and a fixed amount of memory."""
    used = max(0, now - found.status().started_at) // 1_000
    return cri.ContainerStats(
        attributes=cri.ContainerAttributes(
            id=found.id,
            metadata=container_metadata(found),
            labels=found.plan.labels,
            annotations=found.plan.annotations,
        ),
        cpu=cri.CpuUsage(timestamp=now, usage_core_nano_seconds=cri.UInt64Value(value=used)),
        memory=cri.MemoryUsage(timestamp=now, working_set_bytes=cri.UInt64Value(value=1 << 20)),
    )


def image(stored: StoredImage) -> cri.Image:
    """What ListImages shows of an image."""
    return cri.Image(
        id=stored.id,
        repo_tags=[] if "@" in stored.name else [stored.name],
        repo_digests=[stored.digest],
        size=stored.size,
        spec=cri.ImageSpec(image=stored.id),
    )


def event(seen: NodeEvent) -> cri.ContainerEventResponse:
    """The message of the event *seen*."""
    return cri.ContainerEventResponse(
        container_id=seen.id,
        container_event_type=EVENTS[seen.what],
        created_at=seen.at,
        pod_sandbox_status=pod_status(*seen.pod) if seen.pod else None,
        containers_statuses=[container_status(*each) for each in seen.containers],
    )


def selected(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether *labels* have all that *selector* asks for.

    >>> selected({"a": "1", "b": "2"}, {"a": "1"}), selected({}, {"a": "1"})
    (True, False)
    """
    return all(labels.get(key) == value for key, value in selector.items())
