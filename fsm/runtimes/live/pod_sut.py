"""One pod of a real runtime as a system under test. All calls go through CRI.

To make the pod exit by itself, the test kills its process, whose id is in the verbose status.
"""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from msgspec.json import Decoder

from fsm.recordings.line_reader import decode
from fsm.runtimes.live.entity_sut import CPU_SHARES, PATIENCE, EntitySUT, KilledSUT
from fsm.runtimes.live.runtime_session import wait
from fsm.runtimes.names import POD_CALLS
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import CallAnswer
from fsm.sut import UnsupportedError

_NO_HANDLER: Final = "container-fsm-no-such-handler"

_INFO: Final = Decoder(object)


class RuntimePodSUT(EntitySUT):
    """A pod that uses the host network."""

    states: ClassVar = cri.PodSandboxState
    key: ClassVar = "pod_sandbox_id"
    status_call: ClassVar = "PodSandboxStatus"
    removal: ClassVar = "RemovePodSandbox"
    listing: ClassVar = "ListPodSandbox"
    calls: ClassVar = POD_CALLS
    certain: ClassVar = {
        ("RunPodSandbox", "ready"): "",
        ("RunPodSandbox", "undone"): "",
        ("StopPodSandbox", "stopped"): "",
        ("RemovePodSandbox", "removed"): "",
        ("PodSandboxStatus", "read"): "",
    }

    def _begin(self) -> None:
        super()._begin()
        self.renew()

    @property
    def place(self) -> tuple[cri.PodSandboxConfig, str]:
        """Configuration and id of the pod in which containers are created."""
        return self._pod, self._id

    def renew(self) -> str:
        """Choose a new name for the next pod and return it. The old name may still be taken after a failed run."""
        self._pod = self._session.pod()
        self._name = self._pod.metadata.name
        return self._name

    def _call(self, op: str) -> CallAnswer:
        match op:
            case "RunPodSandbox":
                answer = self._session.run(self._pod, handler=_NO_HANDLER if self._wants("undone") else "")
                return self._new(answer, answer.message.pod_sandbox_id if answer.message else "")
            case "CreateContainer":
                config = self._session.container(self._session.name())
                return self._ask(op, config=config, sandbox_config=self._pod)
            case "PortForward":
                return self._ask(op, port=[8080])
            case "UpdatePodSandboxResources":
                return self._ask(op, resources=CPU_SHARES)
            case _:
                return self._ask(op)

    def _exit(self) -> None:
        if not self._is(cri.SANDBOX_READY):
            raise UnsupportedError("no process holds it up that could end")
        status = self._session.answered(self._ask("PodSandboxStatus", verbose=True))
        process = _process(status.message.info)
        if process is None:
            raise UnsupportedError("the runtime does not report its process id")
        if not _killed(process, self._id):
            raise UnsupportedError(
                "the process that the runtime reports is not visible from here, or may not be killed"
            )
        wait(lambda: not self._is(cri.SANDBOX_READY), PATIENCE)


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
