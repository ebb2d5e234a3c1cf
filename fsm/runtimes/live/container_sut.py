"""Test one container or pod of a real runtime, making all calls through CRI.

The container's process reads its exit code from a pipe in a directory that the test shares with the container. To
make a start fail, the test moves this directory away. The process ignores SIGTERM, so that a stop may time out.
"""

import errno
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext, suppress
from itertools import cycle
from pathlib import Path
from shutil import rmtree
from typing import ClassVar, Final

from msgspec.json import Decoder

from fsm.machine import Machine
from fsm.recordings.line_reader import decode
from fsm.runtimes.live.entity_sut import CPU_SHARES, PATIENCE, EntitySUT
from fsm.runtimes.live.runtime_session import RuntimeSession, away, wait
from fsm.runtimes.names import CONTAINER_CALLS, POD_CALLS, status_fields
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import CallAnswer
from fsm.sut import UnsupportedError

_INSIDE: Final = "/fsm"  # mount point of the shared directory in the container
_PIPE: Final = "end"
_PROCESS: Final = f"read code < {_INSIDE}/{_PIPE}; exit $code"
_CODES: Final = (0, 3)  # exit codes, used in turn by the processes of the containers

_OPENING: Final = 5.0  # number of seconds that a process may take to open its pipe after its start
_GIVING_UP: Final = 0.1  # timeout in seconds of a StopContainer call that the test wants to fail
_GRACE: Final = 60
_NO_IMAGE: Final = "localhost/container-fsm/no-such-image:0"
_NO_HANDLER: Final = "container-fsm-no-such-handler"


class RuntimeContainerSUT(EntitySUT):
    """A container under test. *place* returns the configuration and id of its pod, which is a new pod by default."""

    kind: ClassVar = "Container"
    states: ClassVar = cri.ContainerState
    key: ClassVar = "container_id"
    listing: ClassVar = "ListContainers"
    calls: ClassVar = CONTAINER_CALLS | {"CreateContainer"}
    certain: ClassVar = {
        "CreateContainer": {"created", "failed"},
        "StartContainer": {"begins", "started", "failed on containerd", "discarded on cri-o"},
        "RemoveContainer": {"begins", "killed", "removed"},
        "ContainerStatus": {"read"},
        "Exec": {"prepared", "failed"},
        "ExecSync": {"ran", "failed"},
        "Attach": {"prepared", "failed"},
        "ReopenContainerLog": {"reopened", "failed"},
    }

    def __init__(
        self,
        machine: Machine,
        session: RuntimeSession,
        *,
        place: Callable[[], tuple[cri.PodSandboxConfig, str]] | None = None,
    ) -> None:
        self._codes = cycle(_CODES)
        if place is None:
            try:
                own = session.ready()
            except BaseException:
                session.close()
                raise
        self._place = place or (lambda: own)
        super().__init__(machine, session)

    def _begin(self) -> None:
        super()._begin()
        if self._name:
            rmtree(self._folder, ignore_errors=True)
        self._name = self._session.name()

    def fields(self) -> Mapping[str, int | str]:
        return status_fields(self._seen) if self._seen else {}

    @property
    def _folder(self) -> Path:
        return self._session.folder / self._name

    def _call(self, op: str) -> CallAnswer:
        failing = self._wants("failed")
        match op:
            case "CreateContainer":
                return self._create(image=_NO_IMAGE if failing else "")
            case "StartContainer":
                fails = self._wants("failed", "discarded") and self._folder.exists()
                with away(self._folder) if fails else nullcontext():
                    return self._ask(op)
            case "StopContainer" if self._wants("not-stopped", "cut-short"):
                return self._ask(op, seconds=_GIVING_UP, timeout=_GRACE)
            case "Exec":
                return self._ask(op, cmd=["true"], stdout=not failing)
            case "ExecSync":
                return self._ask(op, cmd=["/no/such/command" if failing else "true"], timeout=int(PATIENCE))
            case "Attach":
                return self._ask(op, stdout=not failing)
            case "ReopenContainerLog":
                logs = Path(self._place()[0].log_directory)
                with away(logs, blocked=True) if failing else nullcontext():
                    return self._ask(op)
            case "UpdateContainerResources":
                return self._ask(op, linux=CPU_SHARES)
            case "CheckpointContainer":
                return self._ask(op, location=str(self._session.folder / f"{self._name}.tar"))
            case _:
                return self._ask(op)

    def _create(self, image: str) -> CallAnswer:
        pipe = self._folder / _PIPE
        if not pipe.exists():
            self._folder.mkdir(exist_ok=True)
            with suppress(FileExistsError):  # another thread has created it
                os.mkfifo(pipe)
        config = self._session.container(
            self._name,
            image=image,
            command=["/bin/sh", "-c", _PROCESS],
            mounts=[cri.Mount(container_path=_INSIDE, host_path=str(self._folder))],
            log_path=f"{self._name}.log",
        )
        pod, identity = self._place()
        request = cri.CreateContainerRequest(pod_sandbox_id=identity, config=config, sandbox_config=pod)
        return self._new(self._session.client.call("CreateContainer", request))

    def _runs(self) -> bool:
        return self._is(cri.CONTAINER_RUNNING)

    def _exit(self) -> None:
        if not self._runs():
            raise UnsupportedError("no process is running that could end")
        if not wait(self._tell_to_exit, _OPENING):
            what = "the process of the container does not read from the folder that it shares with the test"
            raise UnsupportedError(what)
        wait(lambda: not self._runs(), PATIENCE)

    def _tell_to_exit(self) -> bool:
        try:
            pipe = os.open(self._folder / _PIPE, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in {errno.ENXIO, errno.ENOENT}:
                return not self._runs()
            raise
        try:
            os.write(pipe, f"{next(self._codes)}\n".encode())
        except BrokenPipeError:
            return not self._runs()
        finally:
            os.close(pipe)
        return True


class RuntimePodSUT(EntitySUT):
    kind: ClassVar = "PodSandbox"
    states: ClassVar = cri.PodSandboxState
    key: ClassVar = "pod_sandbox_id"
    listing: ClassVar = "ListPodSandbox"
    calls: ClassVar = POD_CALLS
    certain: ClassVar = {
        "RunPodSandbox": {"ready", "undone"},
        "StopPodSandbox": {"stopped"},
        "RemovePodSandbox": {"removed"},
        "PodSandboxStatus": {"read"},
    }

    def _begin(self) -> None:
        super()._begin()
        self.renew()

    @property
    def place(self) -> tuple[cri.PodSandboxConfig, str]:
        return self._pod, self._id

    def renew(self) -> str:
        """Choose a new name for the next pod, because the previous name may still be in use after a failed run."""
        self._pod = self._session.pod()
        self._name = self._pod.metadata.name
        return self._name

    def _call(self, op: str) -> CallAnswer:
        match op:
            case "RunPodSandbox":
                return self._new(self._session.run(self._pod, handler=_NO_HANDLER if self._wants("undone") else ""))
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
            raise UnsupportedError("the pod has no process that could end")
        process = _process(self._status(verbose=True).message.info)
        if process is None:
            raise UnsupportedError("the runtime does not report the id of the process of the pod")
        if not _kill_pod_process(process, self._id):
            raise UnsupportedError(
                "the process that the runtime reports is not visible from here, or may not be killed"
            )
        wait(lambda: not self._is(cri.SANDBOX_READY), PATIENCE)


def _process(info: Mapping[str, str]) -> int | None:
    for text in info.values():
        with suppress(ValueError):
            found = decode(text, Decoder(object))
            if isinstance(found, dict) and isinstance(number := found.get("pid"), int) and number > 1:
                return number
    return None


def _kill_pod_process(process: int, pod: str) -> bool:
    with suppress(OSError), ExitStack() as stack:
        handle = os.pidfd_open(process)
        stack.callback(os.close, handle)
        if any(pod in _text(process, name) for name in ("cgroup", "mountinfo", "environ")):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return True
    return False


def _text(process: int, name: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/{name}").read_text(encoding="utf-8", errors="replace")
    return ""
