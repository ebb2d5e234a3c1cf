"""CRI calls that create and remove a pod and a container."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fsm.runtimes.live.workload import WORKLOAD
from fsm.runtimes.sockets.cri_client import CallAnswer, CriClient
from fsm.runtimes.sockets.cri_pb2 import (
    CONTAINER,
    NODE,
    ContainerConfig,
    ContainerMetadata,
    CreateContainerRequest,
    ImageSpec,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxContainerSecurityContext,
    LinuxPodSandboxConfig,
    LinuxSandboxSecurityContext,
    NamespaceOption,
    PodSandboxConfig,
    PodSandboxMetadata,
    RemoveContainerRequest,
    RemovePodSandboxRequest,
    RunPodSandboxRequest,
    StartContainerRequest,
    StopContainerRequest,
    StopPodSandboxRequest,
    UpdateContainerResourcesRequest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

POD: Final = PodSandboxConfig(
    metadata=PodSandboxMetadata(name="pod", uid="test-cri-on-containerd", namespace="test"),
    linux=LinuxPodSandboxConfig(
        security_context=LinuxSandboxSecurityContext(namespace_options=NamespaceOption(network=NODE))
    ),
)
SLEEPS: Final = ContainerConfig(
    metadata=ContainerMetadata(name="sleeps"),
    image=ImageSpec(image=WORKLOAD),
    command=["sleep", "1000"],
    linux=LinuxContainerConfig(
        security_context=LinuxContainerSecurityContext(namespace_options=NamespaceOption(network=NODE, pid=CONTAINER))
    ),
)
"""The command of a container that ignores SIGTERM.

The kernel does not deliver SIGTERM to the first process of a PID namespace unless it has a handler.
"""


def done(answer: CallAnswer) -> CallAnswer:
    assert ("OK", "") == (answer.code, answer.detail), f"{answer.op}: {answer.code} {answer.detail}"
    return answer


@contextmanager
def running_pod(client: CriClient) -> Iterator[str]:
    number: str = done(client.call("RunPodSandbox", RunPodSandboxRequest(config=POD))).message.pod_sandbox_id
    try:
        yield number
    finally:
        done(client.call("StopPodSandbox", StopPodSandboxRequest(pod_sandbox_id=number)))
        done(client.call("RemovePodSandbox", RemovePodSandboxRequest(pod_sandbox_id=number)))


def started(client: CriClient, pod: str) -> str:
    request = CreateContainerRequest(pod_sandbox_id=pod, config=SLEEPS, sandbox_config=POD)
    number: str = done(client.call("CreateContainer", request)).message.container_id
    done(client.call("StartContainer", StartContainerRequest(container_id=number)))
    return number


def updated(client: CriClient, number: str) -> None:
    resources = LinuxContainerResources(cpu_shares=512)
    request = UpdateContainerResourcesRequest(container_id=number, linux=resources)
    done(client.call("UpdateContainerResources", request))


def ended(client: CriClient, number: str) -> None:
    done(client.call("StopContainer", StopContainerRequest(container_id=number)))
    done(client.call("RemoveContainer", RemoveContainerRequest(container_id=number)))
