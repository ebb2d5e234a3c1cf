"""One pod of a real runtime as a system under test.  All calls go through CRI.

To make the pod exit by itself, the test kills its process, whose id is in the verbose status.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from msgspec.json import Decoder

from fsm.recordings.line_reader import decode
from fsm.runtimes.live.entity_sut import PATIENCE, EntitySUT, KilledSUT
from fsm.runtimes.live.runtime_session import HOST, wait
from fsm.runtimes.sockets.cri_client import CallAnswer
from fsm.runtimes.sockets.cri_pb2 import (
    ContainerConfig,
    ContainerMetadata,
    CreateContainerRequest,
    ImageSpec,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxContainerSecurityContext,
    ListPodSandboxRequest,
    PodSandboxConfig,
    PodSandboxState,
    PodSandboxStatusRequest,
    PortForwardRequest,
    RemovePodSandboxRequest,
    StopPodSandboxRequest,
    UpdatePodSandboxResourcesRequest,
)
from fsm.sut import UnsupportedError

_NO_HANDLER: Final = "container-fsm-no-such-handler"

_CPU_SHARES: Final = 512

_INFO: Final = Decoder(object)


class RuntimePodSUT(EntitySUT):
    """A pod that uses the host network."""

    states: ClassVar = PodSandboxState
    certain: ClassVar = {
        ("RunPodSandbox", "ready"): "",
        ("RunPodSandbox", "undone"): "",
        ("StopPodSandbox", "stopped"): "",
        ("RemovePodSandbox", "removed"): "",
        ("PodSandboxStatus", "read"): "",
    }

    def _of_client(self) -> Mapping[str, Callable[[], CallAnswer]]:
        return {
            "RunPodSandbox": self._run,
            "StopPodSandbox": lambda: self._called("StopPodSandbox", StopPodSandboxRequest(pod_sandbox_id=self._id)),
            "RemovePodSandbox": lambda: self._removed(self._id),
            "PodSandboxStatus": self._status,
            "CreateContainer": self._create_container,
            "PortForward": lambda: self._called(
                "PortForward", PortForwardRequest(pod_sandbox_id=self._id, port=[8080])
            ),
            "UpdatePodSandboxResources": self._update,
        }

    def _begin(self) -> None:
        super()._begin()
        self._pod = self._session.pod()

    @property
    def place(self) -> tuple[PodSandboxConfig, str]:
        """Configuration and id of the pod in which containers are created."""
        return self._pod, self._id

    def renew(self) -> str:
        """Choose a new name for the next pod and return it.  The old name may still be taken after a failed run."""
        self._pod = self._session.pod()
        return self._pod.metadata.name

    def _run(self) -> CallAnswer:
        answer = self._session.run(self._pod, handler=_NO_HANDLER if "undone" in self._wanted else "")
        return self._new(answer, answer.message.pod_sandbox_id if answer.message else "")

    def _removed(self, identity: str) -> CallAnswer:
        return self._called("RemovePodSandbox", RemovePodSandboxRequest(pod_sandbox_id=identity))

    def _there(self) -> Iterator[str]:
        answer = self._session.answered(self._called("ListPodSandbox", ListPodSandboxRequest()))
        found = answer.message.items if answer.message else ()
        return (each.id for each in found if each.metadata.name == self._pod.metadata.name)

    def _status(self, *, verbose: bool = False) -> CallAnswer:
        return self._called("PodSandboxStatus", PodSandboxStatusRequest(pod_sandbox_id=self._id, verbose=verbose))

    def _create_container(self) -> CallAnswer:
        config = ContainerConfig(
            metadata=ContainerMetadata(name=self._session.name()),
            image=ImageSpec(image=self._session.image),
            labels=self._session.labels,
            linux=LinuxContainerConfig(security_context=LinuxContainerSecurityContext(namespace_options=HOST)),
        )
        request = CreateContainerRequest(pod_sandbox_id=self._id, config=config, sandbox_config=self._pod)
        return self._called("CreateContainer", request)

    def _update(self) -> CallAnswer:
        request = UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=self._id, resources=LinuxContainerResources(cpu_shares=_CPU_SHARES)
        )
        return self._called("UpdatePodSandboxResources", request)

    def _ready(self) -> bool:
        return self._is(PodSandboxState.SANDBOX_READY)

    def _exit(self) -> None:
        if not self._ready():
            raise UnsupportedError("no process holds it up that could end")
        process = _process(self._session.answered(self._status(verbose=True)).message.info)
        if process is None:
            raise UnsupportedError("the runtime does not tell the number of its process")
        if not _killed(process, self._id):
            raise UnsupportedError("the process that the runtime names is not seen from here, or is not to be killed")
        wait(lambda: not self._ready(), PATIENCE)


class KilledPodSUT(KilledSUT, RuntimePodSUT):
    """A pod whose runtime is killed in the middle of a call."""


def _process(info: Mapping[str, str]) -> int | None:
    """Return the process id of the pod from the verbose *info* of its status, as containerd and CRI-O write it."""
    for text in info.values():
        with suppress(ValueError):
            found = decode(text, _INFO)
            if isinstance(found, dict) and isinstance(number := found.get("pid"), int) and number > 1:
                return number
    return None


def _killed(process: int, pod: str) -> bool:
    try:
        handle = os.pidfd_open(process)
    except OSError:
        return False
    try:
        if not any(pod in _text(process, name) for name in ("cgroup", "mountinfo", "environ")):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _text(process: int, name: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/{name}").read_text(encoding="utf-8", errors="replace")
    return ""
