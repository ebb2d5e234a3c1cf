"""A test's session with a runtime, including a shared directory, the runtime's events and all created entities.

Everything that a session creates has a label that identifies the test run. A session begins by removing what killed
runs have left behind, and ends by removing what it has created, including entities whose ids were lost with a reply.
At the end, it also searches again for leftovers of killed runs, because a runtime may complete a creation long after
its caller was killed.
"""

import atexit
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from shutil import rmtree
from threading import Event, Lock, Thread
from time import time_ns
from typing import Any, Final

from fsm.conformance.oracle import ToldEvents
from fsm.errors import InputError, refused
from fsm.runtimes.live.call_keeper import CallKeeper
from fsm.runtimes.live.call_recording import end_of_events, event_line, joined, lines
from fsm.runtimes.live.workload import archive, import_images
from fsm.runtimes.recordings.container_events import KINDS, MISSING
from fsm.runtimes.recordings.cri_calls import CriCallReader
from fsm.runtimes.recordings.event_findings import violation_of
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import TIMEOUT, CallAnswer, CriClient, EventStream, connected
from fsm.runtimes.sockets.unix_sockets import path
from fsm.scratch import ScratchFolder
from fsm.sut import BrokenError
from fsm.trace import Line, Observation

KEY: Final = "io.container-fsm.run"  # key of the label that identifies the test run
NAMESPACE: Final = "container-fsm"  # Kubernetes namespace of all test pods
_STARTED: Final = 19  # index of the start time in /proc/PID/stat, counted from the field after the command name


def own() -> str:
    """Return the label of this run, made of the boot id, PID namespace, process id, and start time in clock ticks."""
    return f"{_boot_id()}.{_pid_namespace()}.{os.getpid()}.{_process_start_time(os.getpid()) or 0}"


def ended(label: str) -> bool:
    """Check whether the run with the given *label* has certainly ended: its process is gone, or the machine rebooted.

    A process in another PID namespace cannot be seen, so its run does not count as ended.
    """
    match label.split("."):
        case [boot, namespace, process, started] if process.isdecimal() and started.isdecimal():
            gone = namespace == _pid_namespace() and _process_start_time(int(process)) != int(started)
            return gone or boot != _boot_id()
        case _:
            return False


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")


def _pid_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)  # noqa: PTH116  (the target of the link is no path)


def _process_start_time(process: int) -> int | None:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[_STARTED])


def shims() -> set[int]:
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            program, *words = file.read_bytes().decode(errors="replace").split("\0")
            if Path(program).name.startswith("containerd-shim") and "-id" in words[:-1]:
                found.add(int(file.parent.name))
    return found


_LONG: Final = 86_400.0  # number of seconds after which a new event stream replaces the previous one
_AGAIN: Final = 0.05  # number of seconds to wait before opening a new stream after the previous one has ended
_ENDING: Final = 5.0  # number of seconds to wait for a closed stream to end


class EventWatch:
    """Checks the container events of the runtime at *address*, if it supports GetContainerEvents.

    If the runtime sends each event to only one of its clients (*shared*), missing events are not reported.
    """

    def __init__(self, address: str, *, timeout: float, shared: bool) -> None:
        self._count, self._shared = 0, shared
        self._reader = CriCallReader()
        self._found: list[Observation] = []
        self._lock = Lock()
        self._client = CriClient(address, timeout=timeout)
        self._stream: EventStream | None = None
        self._over = Event()
        self._thread = Thread(target=self._follow, name="events", daemon=True)
        self._thread.start()

    def take(self, answer: CallAnswer) -> None:
        self._read(lines(answer))

    def interrupted(self) -> None:
        now = time_ns()
        self._read([end_of_events(now, now, "UNAVAILABLE", "")])

    def close(self) -> None:
        self._over.set()
        if self._stream is not None:
            self._stream.close()
        self._thread.join(_ENDING)
        self._client.close()

    def told(self, machine: str) -> ToldEvents:
        self.close()
        with self._lock:
            self._keep(self._reader.rest())
        found = [each for each in self._found if not (self._shared and each.event == MISSING)]
        return ToldEvents(count=self._count, violations=[violation_of(each, machine, Line("", 0)) for each in found])

    def _follow(self) -> None:
        while not self._over.wait(_AGAIN if self._stream else 0):
            self._stream, began = self._client.events(timeout=_LONG), time_ns()
            if self._over.is_set():
                self._stream.close()
            for message in self._stream:
                self._count += 1
                self._read([event_line(began, time_ns(), message)])
            self._read([end_of_events(began, time_ns(), self._stream.code, self._stream.detail)])
            if self._stream.code == "UNIMPLEMENTED":
                return

    def _read(self, found: Iterable[Mapping[str, int | str]]) -> None:
        with self._lock:
            for line in joined(found).splitlines():
                self._keep(self._reader.observations(line, 0))

    def _keep(self, found: Iterable[tuple[int | Line, Observation]]) -> None:
        self._found += (seen for _, seen in found if seen.of in KINDS)


HOST: Final = cri.NamespaceOption(network=cri.NODE, pid=cri.CONTAINER)
"""Namespaces of test pods. The host network needs no setup, and the PID namespaces are separate, as in Kubernetes."""

LOOK: Final = 0.002  # number of seconds between two checks of a condition that a test waits for
_IMAGES: Final = "localhost/container-fsm-run:"
"""Prefix of the names of imported images. The rest of the name is the label of the run."""

_LISTED: Final = 20.0  # number of seconds to wait for CRI to list an imported image
_ROUNDS: Final = 5  # maximum number of attempts to remove leftovers
_SETTLING: Final = 0.2  # number of seconds between two attempts at removal
_NUMBERS: Final = count()  # makes names unique, because a runtime accepts each name only once


def wait(done: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= until:
            return False
        time.sleep(LOOK)
    return True


@contextmanager
def away(folder: Path, *, blocked: bool = False) -> Iterator[None]:
    """Move *folder* away within the context. If *blocked* is true, no new folder can be created in its place."""
    elsewhere = folder.with_name(f"{folder.name}.away")
    folder.rename(elsewhere)
    try:
        if blocked:
            folder.touch()
        yield
    finally:
        folder.unlink() if folder.is_file() else rmtree(folder, ignore_errors=True)  # the runtime may have created it
        elsewhere.rename(folder)


class RuntimeSession:
    """A test's session with the runtime at *address*, with a limit of *timeout* seconds for each call.

    Containers use *image*. The default is a busybox image, which is imported if the runtime lacks one. ``seen``
    is called with the answer to each call.

    The attributes ``restart``, ``kill`` and ``damage`` may be set to functions that restart the runtime. ``kill`` kills
    the runtime first. ``damage`` damages the data that the runtime keeps about the entity with a given id. Raise
    :class:`InputError` if no runtime listens at *address*, or if there is no image.
    """

    def __init__(
        self,
        address: str,
        *,
        image: str = "",
        timeout: float | None = None,
        seen: Callable[[CallAnswer], object] | None = None,
    ) -> None:
        self.address = address
        self.timeout = timeout or TIMEOUT
        self.seen = seen
        self.restart: Callable[[], None] | None = None
        self.kill: Callable[[], None] | None = None
        self.damage: Callable[[str], None] | None = None
        self._label = own()
        client, version = connected(address, timeout=self.timeout, seen=seen)
        self.runtime = version.runtime_name
        with client:
            _remove_labelled(client, ended)
            self.image = image or self._default_image(client)
        self._scratch = ScratchFolder()
        self._keeper = CallKeeper(self.folder, Path(path(address)))
        self.client = CriClient(self._keeper.address, timeout=self.timeout, seen=self._take_answer)
        # containerd 1.x sends each event to only one client.
        shared = self.runtime == "containerd" and version.runtime_version.removeprefix("v").startswith("1.")
        self.events = EventWatch(address, timeout=self.timeout, shared=shared)
        atexit.register(self.close)  # closes the session if the caller does not

    def _take_answer(self, answer: CallAnswer) -> None:
        self.events.take(answer)
        if self.seen is not None:
            self.seen(answer)

    @property
    def folder(self) -> Path:
        return Path(self._scratch.name)

    def name(self) -> str:
        return f"fsm-{os.getpid()}-{next(_NUMBERS)}"

    def pod(self) -> cri.PodSandboxConfig:
        name = self.name()
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        return cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=name, uid=f"{name}-{self._label}", namespace=NAMESPACE),
            log_directory=str(logs),
            labels={KEY: self._label},
            linux=cri.LinuxPodSandboxConfig(security_context=cri.LinuxSandboxSecurityContext(namespace_options=HOST)),
        )

    def container(self, name: str, *, image: str = "", **config: Any) -> cri.ContainerConfig:  # noqa: ANN401
        return cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=name),
            image=cri.ImageSpec(image=image or self.image),
            labels={KEY: self._label},
            linux=cri.LinuxContainerConfig(security_context=cri.LinuxContainerSecurityContext(namespace_options=HOST)),
            **config,
        )

    def run(self, pod: cri.PodSandboxConfig, *, handler: str = "") -> CallAnswer:
        return self.client.call("RunPodSandbox", cri.RunPodSandboxRequest(config=pod, runtime_handler=handler))

    def ready(self) -> tuple[cri.PodSandboxConfig, str]:
        pod = self.pod()
        answer = self.run(pod)
        if answer.code != "OK":
            what = f"the runtime cannot run pods: {answer.code}: {answer.detail}"
            hint = "read the log of the runtime; often the sandbox image is missing"
            raise refused(self.address, "FSM606", what, hint)
        return pod, answer.message.pod_sandbox_id

    def answered(self, answer: CallAnswer) -> CallAnswer:
        """Return *answer*, or raise :class:`BrokenError` if the runtime was unavailable or timed out."""
        seconds = (answer.end - answer.start) / 1e9
        if answer.code == "UNAVAILABLE" or (answer.code == "DEADLINE_EXCEEDED" and seconds >= self.timeout):
            raise BrokenError(f"{answer.op} was answered {answer.code} after {seconds:.1f} s: {answer.detail}")
        return answer

    def close(self) -> None:
        self.events.close()
        self.client.close()
        self._keeper.close()
        try:
            with CriClient(self.address, timeout=self.timeout) as client:
                _remove_labelled(client, lambda label: label == self._label or ended(label))
        finally:
            atexit.unregister(self.close)
            self._scratch.cleanup()

    def _default_image(self, client: CriClient) -> str:
        if known := next((name for name in _images(client) if "busybox" in name), ""):
            return known
        name = f"{_IMAGES}{self._label}"
        try:
            import_images(Path(path(self.address)), archive(names=(name,)))
            wait(lambda: name in _images(client), _LISTED)  # otherwise, the runtime would try to pull it
        except InputError as error:
            what = f"the runtime has no busybox image, and none could be imported: {error.problems[0].what}"
            raise refused(self.address, "FSM606", what, "name an image that contains sh with --image") from error
        return name


def _images(client: CriClient) -> tuple[str, ...]:
    found = listed(client.call("ListImages"))
    return tuple(name for each in found for name in (*each.repo_tags, *each.repo_digests))


def _remove_labelled(client: CriClient, chosen: Callable[[str], bool]) -> None:
    for again in range(_ROUNDS):
        if again:
            time.sleep(_SETTLING)
        pods = _labelled(client, "ListPodSandbox", chosen)
        for pod in pods:
            client.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=pod))
            client.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=pod))
        # If a container was still being created when its pod was removed, the container remains without a pod.
        containers = _labelled(client, "ListContainers", chosen)
        for container in containers:
            client.call("RemoveContainer", cri.RemoveContainerRequest(container_id=container))
        if not pods and not containers:
            break
    for name in _images(client):
        if name.startswith(_IMAGES) and chosen(name.removeprefix(_IMAGES)):
            client.call("RemoveImage", cri.RemoveImageRequest(image=cri.ImageSpec(image=name)))


def _labelled(client: CriClient, listing: str, chosen: Callable[[str], bool]) -> list[str]:
    return [each.id for each in listed(client.call(listing)) if chosen(each.labels.get(KEY, ""))]


def listed(answer: CallAnswer) -> list[Any]:
    """Return the entries of the only list in *answer*, or an empty list if the call has failed."""
    return [entry for _, entries in answer.message.ListFields() for entry in entries] if answer.message else []
