"""One container of a real runtime as a system under test, all of whose calls go through CRI.

Its process waits at a pipe in a folder that it shares with the test, and ends when it is told how.  A start is made to
fail by taking that folder away.  A process that is told to terminate does not; so a stop with a grace period goes on until
the caller gives up.
"""

import errno
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from itertools import cycle
from pathlib import Path
from shutil import rmtree
from typing import Final

from google.protobuf.message import Message

from fsm.live.cri_client import CallAnswer
from fsm.live.cri_pb2 import (
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
    Mount,
    RemoveContainerRequest,
    ReopenContainerLogRequest,
    StartContainerRequest,
    StopContainerRequest,
    UpdateContainerResourcesRequest,
)
from fsm.live.runtime_session import HOST, RuntimeSession, away, state_name, wait
from fsm.machine import Machine
from fsm.sut import BrokenError, UnsupportedError
from fsm.trace import ABSENT

_INSIDE: Final = "/fsm"
"""Where the container has the shared folder."""

_PIPE: Final = "end"

_PROCESS: Final = f"read code < {_INSIDE}/{_PIPE}; exit $code"

_PATIENCE: Final = 20.0
"""Seconds in which an exit is to be shown: containerd may take ten."""

_OPENING: Final = 5.0
"""Seconds that a process may take to open its pipe after it was started."""

_GIVING_UP: Final = 0.1
"""Seconds after which a stop is given up that is to fail."""

_GRACE: Final = 60

_CODES: Final = (0, 3)
"""The exit codes of processes, in turn."""

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
"""Outcomes that can be promised, by call and by their names in the shipped models; with the only runtime, if not of all.

What else a call may come to, such as a removal that fails, a client cannot arrange.
"""


class RuntimeContainerSUT:
    """A container of *machine* in a pod of its own, in the runtime of *session*, which it closes.

    *restart* restarts the runtime, where that is possible.
    """

    def __init__(self, machine: Machine, session: RuntimeSession, restart: Callable[[], None] | None = None) -> None:
        self._rpc = {name: event.rpc for name, event in machine.events.items()}
        self._session = session
        self._restart = restart
        self._calls: Mapping[str, Callable[[], CallAnswer]] = {
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
            "ContainerStats": self._stats,
            "CheckpointContainer": self._checkpoint,
        }
        self._wanted: set[str] = set()
        self._fields: dict[str, int | str] = {}
        self._codes = cycle(_CODES)
        self._made: list[str] = []
        try:
            self._pod, self._pod_id = session.ready()
        except BaseException:
            session.close()
            raise
        self._begin()

    def close(self) -> None:
        self._session.close()

    def reset(self) -> None:
        for each in self._made:
            if not wait(lambda each=each: self._removed(each).reply in {"ok", "NOT_FOUND"}, _PATIENCE):  # type: ignore[misc]
                raise BrokenError(f"RemoveContainer does not succeed for {each}")
        rmtree(self._folder, ignore_errors=True)
        self._begin()

    def _begin(self) -> None:
        """Begin with an id that was never given."""
        self._made.clear()
        self._id = secrets.token_hex(32)
        self._name = self._session.name()
        self._wanted.clear()

    def arrange(self, event: str, outcome: str) -> bool:
        self._wanted.add(outcome)
        only = _CERTAIN.get((self._rpc[event], outcome))
        return only is not None and only in {"", self._session.runtime}

    def do(self, event: str) -> str:
        try:
            if (call := self._calls.get(self._rpc[event])) is not None:
                return self._session.answered(call()).reply
            if event == "exit":
                self._exit()
            elif event == "restart" and self._restart is not None:
                self._restart()
            elif event == "restart":
                raise UnsupportedError("--restart-command says how")
            else:
                raise UnsupportedError("no client of CRI can make it happen")
            return ""
        finally:
            self._wanted.clear()

    def shows(self) -> str:
        answer = self._session.answered(self._status())
        self._fields = {}
        if answer.code != "OK":
            return ABSENT if answer.code == "NOT_FOUND" else ""
        status = answer.message.status
        self._fields = {
            "created": status.created_at,
            "started": status.started_at,
            "finished": status.finished_at,
            "exit-code": status.exit_code,
            "reason": status.reason,
            "message": status.message,
        }
        return state_name(ContainerState, status.state)

    def fields(self) -> Mapping[str, int | str]:
        return self._fields

    @property
    def _folder(self) -> Path:
        return self._session.folder / self._name

    def _create(self) -> CallAnswer:
        pipe = self._folder / _PIPE
        if not pipe.exists():
            self._folder.mkdir(exist_ok=True)
            with suppress(FileExistsError):  # another thread
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
        request = CreateContainerRequest(pod_sandbox_id=self._pod_id, config=config, sandbox_config=self._pod)
        answer = self._session.client.call("CreateContainer", request)
        if answer.code == "OK":
            self._id = answer.message.container_id
            self._made.append(self._id)
        return answer

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

    def _status(self) -> CallAnswer:
        return self._called("ContainerStatus", ContainerStatusRequest(container_id=self._id))

    def _exec(self) -> CallAnswer:
        streams = "failed" not in self._wanted
        return self._called("Exec", ExecRequest(container_id=self._id, cmd=["true"], stdout=streams))

    def _exec_sync(self) -> CallAnswer:
        command = "/no/such/command" if "failed" in self._wanted else "true"
        request = ExecSyncRequest(container_id=self._id, cmd=[command], timeout=int(_PATIENCE))
        return self._called("ExecSync", request)

    def _attach(self) -> CallAnswer:
        streams = "failed" not in self._wanted
        return self._called("Attach", AttachRequest(container_id=self._id, stdout=streams))

    def _reopen_log(self) -> CallAnswer:
        logs = Path(self._pod.log_directory)
        with away(logs, blocked=True) if "failed" in self._wanted else nullcontext():
            return self._called("ReopenContainerLog", ReopenContainerLogRequest(container_id=self._id))

    def _update(self) -> CallAnswer:
        request = UpdateContainerResourcesRequest(
            container_id=self._id, linux=LinuxContainerResources(cpu_shares=_CPU_SHARES)
        )
        return self._called("UpdateContainerResources", request)

    def _stats(self) -> CallAnswer:
        return self._called("ContainerStats", ContainerStatsRequest(container_id=self._id))

    def _checkpoint(self) -> CallAnswer:
        location = str(self._session.folder / f"{self._name}.tar")
        return self._called("CheckpointContainer", CheckpointContainerRequest(container_id=self._id, location=location))

    def _called(self, op: str, request: Message) -> CallAnswer:
        return self._session.client.call(op, request)

    def _runs(self) -> bool:
        answer = self._session.answered(self._status())
        return answer.code == "OK" and answer.message.status.state == ContainerState.CONTAINER_RUNNING

    def _exit(self) -> None:
        """Let the process end, and wait until the runtime shows that."""
        if not self._runs():
            raise UnsupportedError("no process runs that could end")
        if not wait(self._told, _OPENING):
            raise UnsupportedError("its process does not read from the folder that it shares with the test")
        wait(lambda: not self._runs(), _PATIENCE)

    def _told(self) -> bool:
        """Whether the process was told to end; it may not listen yet."""
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
