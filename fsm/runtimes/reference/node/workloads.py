"""Workloads of containers, which are simulated commands or processes of this machine.

A workload executes the command that a client has requested, including its variables, mounts, log and limits.
"""

import asyncio
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from signal import SIGKILL
from typing import Final, Self, TypeAlias

from fsm.errors import reason
from fsm.runtimes.reference.container.world import KILLED, Exit, NoTaskError, Processes, SimulatedWorld, Task
from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.node.records import Records, StoredImage
from fsm.runtimes.reference.nri.messages import Fields
from fsm.runtimes.sockets import cri_pb2 as cri

LONGEST_LINE: Final = 16_384
"""Maximum number of bytes in a log line. A longer line is written in several parts, as in containerd."""

Limits: TypeAlias = Mapping[str, int | str]


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command to run in a container. ``log`` is the path of its log, or empty if there is none.

    ``files`` maps paths in the container to the contents of files that depend on the pod.
    """

    config: cri.ContainerConfig
    pod: cri.PodSandboxConfig = field(default_factory=cri.PodSandboxConfig)
    words: tuple[str, ...] = ()

    @classmethod
    def requested(cls, request: cri.CreateContainerRequest) -> Self:
        config = request.config
        return cls(config=config, pod=request.sandbox_config, words=(*config.command, *config.args))

    @property
    def variables(self) -> Mapping[str, str]:
        return {variable.key: variable.value for variable in self.config.envs}

    @property
    def log(self) -> str:
        folder, path = self.pod.log_directory, self.config.log_path
        return f"{folder}/{path}" if folder and path else ""

    @cached_property
    def files(self) -> Mapping[str, str]:
        return dict(_files(self.pod))

    def here(self, inside: str) -> str:
        """Replace the container's paths in *inside* with the corresponding paths on this machine.

        >>> mounts = [cri.Mount(container_path="/in", host_path="/tmp/out")]
        >>> Command(config=cri.ContainerConfig(mounts=mounts)).here("read a < /in/pipe")
        'read a < /tmp/out/pipe'
        """
        for mount in self.config.mounts:
            if mount.container_path and mount.host_path:
                pattern = rf"(?<![\w/.-]){re.escape(mount.container_path)}(?![\w.-])"
                inside = re.sub(pattern, mount.host_path.replace("\\", r"\\"), inside)
        return inside

    def text(self, path: str) -> bytes | None:
        if (content := self.files.get(path)) is not None:
            return content.encode()
        with suppress(OSError, ValueError):
            if (mounted := self._mounted_path(path)) and mounted.is_file():
                return mounted.read_bytes()
        return None

    def names(self, path: str) -> Collection[str] | None:
        with suppress(OSError, ValueError):
            if (mounted := self._mounted_path(path)) and mounted.is_dir():
                return [file.name for file in mounted.iterdir()]
        return None

    def prepare(self) -> None:
        """Create the log. Raise :class:`WorldError` if this fails, or if a mounted path does not exist."""
        for mount in self.config.mounts:
            if mount.host_path and not Path(mount.host_path).exists():
                why = f"error mounting {mount.host_path!r}: no such file or directory"
                raise WorldError(f"failed to create shim task: {why}")
        self.begin_log()

    def begin_log(self) -> None:
        try:
            if self.log:
                with Path(self.log).open("ab"):
                    pass
        except OSError as error:
            raise WorldError(f"failed to open log file {self.log!r}: {reason(error)}") from error

    def write(self, data: bytes, *, error: bool) -> None:
        """Append the lines of *data* to the log, ignoring failures. An unterminated last line counts as complete."""
        if not self.log:
            return
        stamp = f"{datetime.now(UTC).isoformat(timespec='microseconds')[:-6]}Z {'stderr' if error else 'stdout'} "
        lines = list[bytes]()
        for line in data.splitlines():
            parts = [line[at : at + LONGEST_LINE] for at in range(0, max(len(line), 1), LONGEST_LINE)]
            tags = [b"P"] * (len(parts) - 1) + [b"F"]
            lines += [stamp.encode() + tag + b" " + part + b"\n" for tag, part in zip(tags, parts, strict=True)]
        with suppress(OSError), Path(self.log).open("ab") as file:
            file.write(b"".join(lines))

    def _mounted_path(self, path: str) -> Path | None:
        inside = PurePosixPath(path)
        for mount in self.config.mounts:
            if mount.host_path and mount.container_path and inside.is_relative_to(mount.container_path):
                return Path(mount.host_path, inside.relative_to(mount.container_path))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRecord:
    """The record of a container that a client has requested.

    ``reserved`` is the full name of the container. ``pid`` is the id of its first process, or 0 if it has none, and
    ``started_at`` is the time at which that process was started. Times are in nanoseconds since the epoch.
    """

    request: cri.CreateContainerRequest
    reserved: str = ""
    image: StoredImage | None = None
    made_at: int = 0
    pid: int = 0
    started_at: int = 0


def _files(pod: cri.PodSandboxConfig) -> Iterator[tuple[str, str]]:
    yield "/etc/hostname", f"{pod.hostname or pod.metadata.name}\n"
    dns = pod.dns_config
    lines = [f"nameserver {server}" for server in dns.servers]
    lines += [f"search {' '.join(dns.searches)}"] if dns.searches else []
    lines += [f"options {' '.join(dns.options)}"] if dns.options else []
    yield "/etc/resolv.conf", "".join(f"{line}\n" for line in lines)
    for name, value in pod.linux.sysctls.items():
        yield f"/proc/sys/{name.replace('.', '/')}", f"{value}\n"


def limits(resources: cri.LinuxContainerResources) -> Limits:
    return {field.name: value for field, value in resources.ListFields() if isinstance(value, int | str)}


def adjust(config: cri.ContainerConfig, wanted: Fields) -> None:
    """Apply the limits, annotations and variables that plugins requested to *config*.

    Raise :class:`~fsm.runtimes.reference.driven.WorldError` for a limit that CRI cannot express.
    """
    variables = {variable.key: variable.value for variable in config.envs}
    for name, value in wanted.items():
        kind, _, key = name.partition(".")
        if isinstance(value, int):
            try:
                setattr(config.linux.resources, name, value)
            except ValueError as error:
                raise WorldError(f"plugins want a {name} of {value}: {error}") from error
        elif kind == "annotation":
            config.annotations[key] = str(value)
        elif kind == "env":
            variables[key] = str(value)
    del config.envs[:]
    config.envs.extend(cri.KeyValue(key=key, value=value) for key, value in variables.items())


Write: TypeAlias = Callable[[bytes, bool], object]
"""A function ``write(data, error)`` that receives the output of a command. *error* is true for standard error."""

KEPT: Final = 16 << 20

BUFFER: Final = 1 << 20
"""Maximum number of bytes to read at once, and of standard input to keep until a command reads it."""


class Workload(ABC):
    """The first process of a container, which runs *command*. It passes its output to the functions in ``readers``."""

    def __init__(self, command: Command, pid: int) -> None:
        self.pid = pid
        self.exit: Exit | None = None
        self.readers: set[Write] = set()
        self._command = command
        self._input = asyncio.StreamReader(limit=BUFFER) if command.config.stdin else None
        self._input_ended = False

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send the signal *number* to the process, unless it has ended."""

    @abstractmethod
    async def ended(self) -> Exit:
        """Wait until the process has ended, and return its exit."""

    @abstractmethod
    async def execute(self, command: Command, write: Write, given: asyncio.StreamReader | None = None) -> int:
        """Run another command in the same container and return its exit code.

        *given* is the standard input of the command. Raise :class:`~fsm.runtimes.reference.driven.WorldError` if there
        is no such command.
        """

    def feed(self, data: bytes) -> None:
        """Write *data* to the standard input of the process, if it has one. Empty *data* closes the input."""
        if self._input is None or self._input_ended or self.exit:
            return
        if data:
            self._input.feed_data(data)
        else:
            self._input_ended = True
            self._input.feed_eof()

    def _show(self, data: bytes, *, error: bool) -> None:
        for write in [*self.readers]:
            write(data, error)


class Executed:
    """The result of a command, with its output.

    It is itself a :data:`Write` function, which keeps up to :data:`KEPT` bytes of each stream.
    """

    def __init__(self) -> None:
        self.code = 0
        self.output, self.errors = bytearray(), bytearray()

    def __call__(self, data: bytes, error: bool) -> None:  # noqa: FBT001  (the signature of Write)
        kept = self.errors if error else self.output
        kept += data[: KEPT - len(kept)]


@dataclass(kw_only=True, eq=False)
class ContainerWorld(SimulatedWorld):
    """The environment of a container on a node.

    ``launch`` starts the workload, or continues the process in ``record``. The record is saved in ``kept`` as long as
    containerd also has a record of the container. If ``refusal`` is not empty, :meth:`run` and :meth:`use` fail
    for that reason.
    """

    record: ContainerRecord
    launch: Callable[[ContainerRecord], Workload]
    kept: Records[ContainerRecord]
    workload: Workload | None = None
    refusal: str = ""

    def now(self) -> int:
        return time.time_ns()

    def make(self) -> None:
        super().make()
        self._save(replace(self.record, made_at=self.now()))

    def forget(self) -> None:
        super().forget()
        self._save(self.record)

    def run(self) -> int:
        self.use()
        self.workload = self.launch(self.record)
        self.process = Task(self.workload.pid)
        self._save(replace(self.record, pid=self.workload.pid, started_at=self.now()))
        return self.workload.pid

    def resume(self) -> None:
        self.workload = self.launch(self.record)
        self.process = Task(self.workload.pid, exit=self.workload.exit)

    def kill(self) -> Exit:
        if self.process is None or self.workload is None:
            raise NoTaskError("no such process")
        self.workload.signal(SIGKILL)
        self.drop()
        return self.workload.exit or Exit(KILLED, self.now())

    def drop(self) -> None:
        self.process = None
        self._save(replace(self.record, pid=0))

    def _save(self, record: ContainerRecord) -> None:
        self.record = record
        if self.known:
            self.kept.save(self.root.name, record)
        else:
            self.kept.delete(self.root.name)

    def use(self) -> None:
        if self.refusal:
            raise WorldError(self.refusal)


class SimulatedPause(Processes):
    """The environment of a pod with a simulated pause process.

    A file records the state of the process, so that the state survives a restart.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._task, self._over = root / "task", asyncio.Event()
        with suppress(OSError, ValueError):
            code, at = self._task.read_text(encoding="ascii").split()
            self._exit = Exit(int(code), int(at))
            self._over.set()

    def run(self) -> int:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._task.touch()
        except OSError as error:
            raise WorldError(str(error)) from error
        return os.getpid()

    def pid(self) -> int:
        return os.getpid()

    def task(self) -> bool:
        return self._task.exists()

    async def _wait(self) -> Exit:
        await self._over.wait()
        return self._exit or Exit(KILLED, self.now())

    def kill(self) -> None:
        if self.runs():
            self._exit = Exit(KILLED, self.now())
            with suppress(OSError):
                self._task.write_text(f"{self._exit.code} {self._exit.at}", encoding="ascii")
            self._over.set()

    def delete(self) -> None:
        if not self.task():
            raise NoTaskError("no task")
        self.kill()
        self._task.unlink(missing_ok=True)

    def die(self) -> None:
        self.kill()

    def runs(self) -> bool:
        return self.task() and self._exit is None
