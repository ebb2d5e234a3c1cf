"""One container of a real runtime as a system under test.  All calls go through CRI.

Its process reads its exit code from a pipe in a directory shared with the test, and then exits.  To make a start fail,
the test moves that directory away.  The process ignores SIGTERM, so a stop with a grace period lasts until the caller
gives up.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from itertools import cycle
from pathlib import Path
from shutil import rmtree
from typing import ClassVar, Final

from fsm.machine import Machine
from fsm.runtimes.live.entity_sut import PATIENCE, EntitySUT, KilledSUT
from fsm.runtimes.live.runtime_session import HOST, RuntimeSession, away, wait
from fsm.runtimes.sockets.cri_client import CallAnswer
from fsm.runtimes.sockets.cri_pb2 import (
    AttachRequest,
    CheckpointContainerRequest,
    ContainerConfig,
    ContainerMetadata,
    ContainerState,
    ContainerStatsRequest,
    ContainerStatusRequest,
    CreateContainerRequest,
    ExecRequest,
    ExecSyncRequest,
    ImageSpec,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxContainerSecurityContext,
    ListContainersRequest,
    Mount,
    PodSandboxConfig,
    RemoveContainerRequest,
    ReopenContainerLogRequest,
    StartContainerRequest,
    StopContainerRequest,
    UpdateContainerResourcesRequest,
)
from fsm.sut import UnsupportedError

_INSIDE: Final = "/fsm"
"""Mount point of the shared directory in the container."""

_PIPE: Final = "end"

_PROCESS: Final = f"read code < {_INSIDE}/{_PIPE}; exit $code"

_OPENING: Final = 5.0
"""Number of seconds that a process may take to open its pipe after its start."""

_GIVING_UP: Final = 0.1
"""Timeout in seconds of a stop that is meant to fail."""

_GRACE: Final = 60

_CODES: Final = (0, 3)
"""Exit codes of the processes, used in turn."""

_NO_IMAGE: Final = "localhost/container-fsm/no-such-image:0"

_CPU_SHARES: Final = 512

_CERTAIN: Final[Mapping[tuple[str, str], str]] = {
    ("CreateContainer", "created"): "",
    ("CreateContainer", "failed"): "",
    ("StartContainer", "begins"): "",
    ("StartContainer", "started"): "",
    ("StartContainer", "failed"): "containerd",
    ("StartContainer", "discarded"): "cri-o",
    ("RemoveContainer", "begins"): "",
    ("RemoveContainer", "killed"): "",
    ("RemoveContainer", "removed"): "",
    ("ContainerStatus", "read"): "",
    ("Exec", "prepared"): "",
    ("Exec", "failed"): "",
    ("ExecSync", "ran"): "",
    ("ExecSync", "failed"): "",
    ("Attach", "prepared"): "",
    ("Attach", "failed"): "",
    ("ReopenContainerLog", "reopened"): "",
    ("ReopenContainerLog", "failed"): "",
}
"""Outcomes that a client can arrange, mapped to the only runtime that promises them (empty for all)."""


class RuntimeContainerSUT(EntitySUT):
    """A container in the pod whose configuration and id *place* returns.  By default, it has a pod of its own."""

    states: ClassVar = ContainerState
    certain: ClassVar = _CERTAIN

    def __init__(
        self,
        machine: Machine,
        session: RuntimeSession,
        restart: Callable[[], None] | None = None,
        *,
        damage: Callable[[str], None] | None = None,
        place: Callable[[], tuple[PodSandboxConfig, str]] | None = None,
    ) -> None:
        self._codes = cycle(_CODES)
        self._name = ""
        if place is None:
            try:
                own = session.ready()
            except BaseException:
                session.close()
                raise
        self._place = place or (lambda: own)
        super().__init__(machine, session, restart, damage=damage)

    def _of_client(self) -> Mapping[str, Callable[[], CallAnswer]]:
        return {
            "CreateContainer": self._create,
            "StartContainer": self._start,
            "StopContainer": self._stop,
            "RemoveContainer": lambda: self._removed(self._id),
            "ContainerStatus": self._status,
            "Exec": self._exec,
            "ExecSync": self._exec_sync,
            "Attach": self._attach,
            "ReopenContainerLog": self._reopen_log,
            "UpdateContainerResources": self._update,
            "ContainerStats": lambda: self._called("ContainerStats", ContainerStatsRequest(container_id=self._id)),
            "CheckpointContainer": self._checkpoint,
        }

    def _begin(self) -> None:
        super()._begin()
        if self._name:
            rmtree(self._folder, ignore_errors=True)
        self._name = self._session.name()

    def fields(self) -> Mapping[str, int | str]:
        if (status := self._seen) is None:
            return {}
        return {
            "created": status.created_at,
            "started": status.started_at,
            "finished": status.finished_at,
            "exit-code": status.exit_code,
            "reason": status.reason,
            "message": status.message,
        }

    @property
    def _folder(self) -> Path:
        return self._session.folder / self._name

    def _create(self) -> CallAnswer:
        pipe = self._folder / _PIPE
        if not pipe.exists():
            self._folder.mkdir(exist_ok=True)
            with suppress(FileExistsError):  # another thread made it
                os.mkfifo(pipe)
        config = ContainerConfig(
            metadata=ContainerMetadata(name=self._name),
            image=ImageSpec(image=_NO_IMAGE if "failed" in self._wanted else self._session.image),
            command=["/bin/sh", "-c", _PROCESS],
            mounts=[Mount(container_path=_INSIDE, host_path=str(self._folder))],
            log_path=f"{self._name}.log",
            labels=self._session.labels,
            linux=LinuxContainerConfig(security_context=LinuxContainerSecurityContext(namespace_options=HOST)),
        )
        pod, identity = self._place()
        request = CreateContainerRequest(pod_sandbox_id=identity, config=config, sandbox_config=pod)
        answer = self._called("CreateContainer", request)
        return self._new(answer, answer.message.container_id if answer.message else "")

    def _start(self) -> CallAnswer:
        fails = not self._wanted.isdisjoint({"failed", "discarded"})
        with away(self._folder) if fails and self._folder.exists() else nullcontext():
            return self._called("StartContainer", StartContainerRequest(container_id=self._id))

    def _stop(self) -> CallAnswer:
        if self._wanted.isdisjoint({"not-stopped", "cut-short"}):
            return self._called("StopContainer", StopContainerRequest(container_id=self._id))
        request = StopContainerRequest(container_id=self._id, timeout=_GRACE)
        return self._session.client.call("StopContainer", request, timeout=_GIVING_UP)

    def _removed(self, identity: str) -> CallAnswer:
        return self._called("RemoveContainer", RemoveContainerRequest(container_id=identity))

    def _there(self) -> Iterator[str]:
        answer = self._session.answered(self._called("ListContainers", ListContainersRequest()))
        found = answer.message.containers if answer.message else ()
        return (each.id for each in found if each.metadata.name == self._name)

    def _status(self) -> CallAnswer:
        return self._called("ContainerStatus", ContainerStatusRequest(container_id=self._id))

    def _exec(self) -> CallAnswer:
        streams = "failed" not in self._wanted
        return self._called("Exec", ExecRequest(container_id=self._id, cmd=["true"], stdout=streams))

    def _exec_sync(self) -> CallAnswer:
        command = "/no/such/command" if "failed" in self._wanted else "true"
        request = ExecSyncRequest(container_id=self._id, cmd=[command], timeout=int(PATIENCE))
        return self._called("ExecSync", request)

    def _attach(self) -> CallAnswer:
        streams = "failed" not in self._wanted
        return self._called("Attach", AttachRequest(container_id=self._id, stdout=streams))

    def _reopen_log(self) -> CallAnswer:
        logs = Path(self._place()[0].log_directory)
        with away(logs, blocked=True) if "failed" in self._wanted else nullcontext():
            return self._called("ReopenContainerLog", ReopenContainerLogRequest(container_id=self._id))

    def _update(self) -> CallAnswer:
        request = UpdateContainerResourcesRequest(
            container_id=self._id, linux=LinuxContainerResources(cpu_shares=_CPU_SHARES)
        )
        return self._called("UpdateContainerResources", request)

    def _checkpoint(self) -> CallAnswer:
        location = str(self._session.folder / f"{self._name}.tar")
        return self._called("CheckpointContainer", CheckpointContainerRequest(container_id=self._id, location=location))

    def _runs(self) -> bool:
        return self._is(ContainerState.CONTAINER_RUNNING)

    def _exit(self) -> None:
        if not self._runs():
            raise UnsupportedError("no process runs that could end")
        if not wait(self._told, _OPENING):
            raise UnsupportedError("its process does not read from the folder that it shares with the test")
        wait(lambda: not self._runs(), PATIENCE)

    def _told(self) -> bool:
        """Tell the process to exit if it listens already.  Return whether it was told or no longer runs."""
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


class KilledContainerSUT(KilledSUT, RuntimeContainerSUT):
    """A container whose runtime is killed in the middle of a call."""
