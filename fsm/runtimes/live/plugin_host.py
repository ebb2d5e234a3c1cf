"""Run one NRI plugin under test against a simulated runtime, step by step.

The plugin is either started as a command, as runtimes do, or connects to a socket by itself. Any violation by the
plugin raises :class:`~fsm.sut.BrokenError`. A checker written by the user can also judge the plugin's answers. The
checker receives pods, containers and answers as plain data with the field names of NRI messages.
"""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from fsm.conformance.exec import EndedError, Process, TalkError
from fsm.runtimes.names import REGISTRATION
from fsm.runtimes.reference.clock import LoopThread
from fsm.runtimes.reference.nri.messages import NRIError
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets import unix_sockets
from fsm.runtimes.sockets.nri_link import PluginChanges, RelayedEvent
from fsm.runtimes.sockets.nri_runtime import NriRuntime
from fsm.runtimes.sockets.unix_sockets import Acceptor, accept_streams, bound
from fsm.sut import BrokenError


@dataclass(slots=True)
class Inventory:
    """The pods and containers of the simulated runtime, by id.

    ``shown`` holds the ids of the pods and containers that a synchronisation lists, and ``stopped`` holds the ids of
    stopped pods. ``gone`` maps the ids of removed containers to their names. ``asked`` holds the updates that the
    plugin has requested outside of an event. ``wrong`` describes the plugin's first invalid request, if any.
    """

    pods: dict[str, nri.PodSandbox] = field(default_factory=dict)
    containers: dict[str, nri.Container] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    gone: dict[str, str] = field(default_factory=dict)
    wrong: str = ""
    asked: list[nri.ContainerUpdate] = field(default_factory=list)

    def restore(self, other: Inventory) -> None:
        self.pods, self.containers = dict(other.pods), dict(other.containers)
        self.shown, self.stopped = set(other.shown), set(other.stopped)
        self.gone, self.wrong = dict(other.gone), other.wrong

    def add(self, container: nri.Container) -> None:
        self.containers[container.id] = container
        self.gone.pop(container.id, None)

    def remove(self, container: nri.Container) -> None:
        self.containers.pop(container.id, None)
        self.gone[container.id] = container.name

    def listed(self) -> tuple[Sequence[nri.PodSandbox], Sequence[nri.Container]]:
        pods = tuple(each for each in self.pods.values() if each.id in self.shown)
        return pods, tuple(each for each in self.containers.values() if each.id in self.shown)

    async def update(self, plugin: str, updates: Sequence[nri.ContainerUpdate]) -> Sequence[nri.ContainerUpdate]:
        del plugin  # unused, because there is only one plugin
        self.asked += updates
        return self.refused(updates)

    def refused(self, updates: Iterable[nri.ContainerUpdate], *, creating: str = "") -> list[nri.ContainerUpdate]:
        """Return those *updates* that are invalid, and describe the first invalid update in ``wrong``.

        *creating* is the id of the container that is being created, which cannot be updated yet.
        """
        failed = []
        for update in updates:
            identity = update.container_id
            if identity in self.gone:
                wrong = f"has asked for an update of {self.gone[identity]}, which was removed"
            elif identity == creating:
                wrong = "has asked for an update of the container that is being created"
            elif identity not in self.containers:
                wrong = f"has asked for an update of a container that never was: {identity[:80]!r}"
            else:
                continue
            self.wrong = self.wrong or wrong
            failed.append(update)
        return failed


def pod(number: int) -> nri.PodSandbox:
    return nri.PodSandbox(
        id=_id(f"pod {number}"),
        name=f"pod-{number}",
        uid=_id(f"uid {number}")[:36],
        namespace="fsm-test",
        labels={"io.kubernetes.pod.name": f"pod-{number}"},
        linux=nri.LinuxPodSandbox(cgroup_parent=f"/fsm-test/pod-{number}"),
    )


def container(number: int, name: str, pod_id: str) -> nri.Container:
    resources = nri.LinuxResources(
        memory=nri.LinuxMemory(limit=nri.OptionalInt64(value=64 << 20)),
        cpu=nri.LinuxCPU(
            shares=nri.OptionalUInt64(value=1024),
            quota=nri.OptionalInt64(value=100_000),
            period=nri.OptionalUInt64(value=100_000),
        ),
    )
    return nri.Container(
        id=_id(f"container {number}"),
        pod_sandbox_id=pod_id,
        name=name,
        labels={"io.kubernetes.container.name": name},
        args=["sleep", "1000"],
        env=["PATH=/bin"],
        linux=nri.LinuxContainer(resources=resources, cgroups_path=f"/fsm-test/{number}"),
    )


def _id(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


Plain: TypeAlias = Mapping[str, Any]


class Answers(Protocol):
    """A checker, written by the user, for a plugin's answers on one connection.

    The factory that :option:`--answers` names creates the checker from the pods and containers with which the plugin
    was synchronised.
    """

    def on(self, event: str, pod: Plain, container: Plain | None, answer: Plain) -> str | None:
        """Check *answer*, which has the keys ``adjust`` and ``update``. If it is wrong, return or raise an error."""


class AnswerCheck:
    def __init__(self, factory: Callable[..., Any] | None) -> None:
        self._factory = factory
        self._answers: Answers | None = None

    def connected(self, pods: Iterable[Message], containers: Iterable[Message], updates: Iterable[Message]) -> str:
        if self._factory is None:
            return ""
        try:
            answers = self._answers = self._factory([*map(_message_dict, pods)], [*map(_message_dict, containers)])
        except (Exception, SystemExit) as error:  # noqa: BLE001  (a user's code may raise anything)
            return f"cannot be judged, because the checker of answers failed: {_error_text(error)}"
        answer = {"update": [*map(_message_dict, updates)]}
        return _verdict(answers, "Synchronize", {}, None, answer) if answers is not None else ""

    def told(self, event: RelayedEvent, changes: PluginChanges) -> str:
        if self._answers is None:
            return ""
        answer: dict[str, Any] = {"update": [*map(_message_dict, changes.updates)]}
        if changes.adjustment is not None:
            answer["adjust"] = _message_dict(changes.adjustment)
        container = _message_dict(event.container) if event.container is not None else None
        return _verdict(self._answers, event.name, _message_dict(event.pod), container, answer)


def _verdict(answers: Answers, event: str, pod: Plain, container: Plain | None, answer: Plain) -> str:
    try:
        said = answers.on(event, pod, container, answer)
    except (Exception, SystemExit) as error:  # noqa: BLE001
        said = _error_text(error)
    return f"has answered {event} wrongly: {said}" if said else ""


def _message_dict(message: Message) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


def _error_text(error: BaseException) -> str:
    text = next(iter(str(error).splitlines()), "")
    return text if isinstance(error, AssertionError) and text else f"{type(error).__name__}: {text}"


AS: Final = ("fsm-test", "10")  # name and index of a plugin that is started as a command
PATIENCE: Final = 30.0  # number of seconds to wait for a plugin's first connection to the socket
GRACE: Final = 0.5  # number of seconds to wait for a plugin's process to exit after its runtime has stopped
IMPATIENCE: Final = 0.5  # number of seconds to wait for a plugin if the previous attempt to connect failed
_LAUNCH: Final = """
import os, sys
descriptor, name, index, *command = sys.argv[1:]
os.dup2(int(descriptor), 3)
os.environ.update(NRI_PLUGIN_NAME=name, NRI_PLUGIN_IDX=index, NRI_PLUGIN_SOCKET="3")
os.execvp(command[0], command)
"""
"""A Python program that replaces itself with the plugin.

A shell is not used, because some shells support only ten file descriptors.
"""


class PluginHost:
    """Runs a plugin under test and connects it to a simulated runtime.

    *where* is the command that starts the plugin, or the address of the socket to which it connects. The plugin must
    answer within *request* seconds. *answers* creates the user's checker for these answers (see :class:`Answers`).
    """

    def __init__(self, where: str, *, request: float, answers: Callable[..., object] | None = None) -> None:
        self.inventory = Inventory()
        self._check = AnswerCheck(answers)
        self._path = unix_sockets.path(where) if where.startswith("unix:") else ""
        self._command = () if self._path else tuple(shlex.split(where))
        self._request = request
        self._thread = LoopThread("plugin host")
        self._runtime: NriRuntime | None = None
        self._server: Acceptor | None = None
        self._process: _Launched | None = None
        self._met = self._failed = False

    def connect(self) -> None:
        self.disconnect()
        self.inventory.wrong, self.inventory.asked = "", []
        if wrong := self._thread.run(self._connect_plugin()):
            ended = f"; {self._process.how()}" if self._process and self._process.how() else ""
            self.disconnect()
            raise BrokenError(f"the plugin {wrong}{ended}")

    def relay(self, event: RelayedEvent) -> None:
        if wrong := self._thread.run(self._relay_event(event)):
            said = " / ".join(map(repr, self._process.errors())) if self._process else ""
            self.disconnect()
            ends = f"; its standard error ends with {said}" if said else ""
            raise BrokenError(f"the plugin {wrong}{ends}")

    @property
    def connected(self) -> bool:
        return self._runtime is not None and bool(self._runtime.plugins)

    def disconnect(self) -> None:
        if self._runtime is not None:
            self._thread.run(self._disconnect_plugin())
        if self._process is not None:
            self._process.end(gently=False)
            self._process = None

    def close(self) -> None:
        if self._thread.closed:
            return
        self.disconnect()
        if self._server is not None:
            self._thread.loop.call_soon_threadsafe(self._server.close)
            Path(self._path).unlink(missing_ok=True)
        self._thread.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._runtime is None:
            writer.close()
        else:
            self._runtime.accept(reader, writer)

    async def _connect_plugin(self) -> str:
        runtime = self._runtime = NriRuntime(self.inventory, request=self._request)
        seconds = REGISTRATION + 2 * self._request
        if self._path:
            if self._server is None:
                self._server = accept_streams(bound(self._path), self._accept)
            seconds = IMPATIENCE if self._failed else seconds if self._met else PATIENCE
        else:
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = _Launched(self._command, theirs.fileno())
            stream = await asyncio.open_unix_connection(sock=ours)
            runtime.accept(*stream, AS)
        if await runtime.joined(1, seconds):
            self._met, self._failed = True, False
            wrong = self._check.connected(*self.inventory.listed(), self.inventory.asked)
            return self.inventory.wrong or wrong
        self._failed = True
        lost = [plugin.why or "has closed its connection" for plugin in runtime.lost]
        again = " again after the runtime was restarted" if self._met else ""
        return lost[0] if lost else f"has not connected{again} within {seconds:g} s"

    async def _relay_event(self, event: RelayedEvent) -> str:
        runtime = self._runtime
        if runtime is None or not runtime.plugins:
            return self._why_plugin_left(runtime)
        answers: list[PluginChanges] = []
        try:
            await runtime.relay(event, lambda _, changes: answers.append(changes))
        except NRIError as error:
            return f"has answered {event.name} with an error: {error.__cause__}"
        changes = answers[0] if answers else PluginChanges()
        creating = event.container if event.name == "CreateContainer" else None
        self.inventory.refused(changes.updates, creating=creating.id if creating else "")
        # The plugin's next request is checked against the state after this event, even if this answer was wrong.
        if creating is not None:
            self.inventory.add(creating)
        elif event.container is not None and event.name == "RemoveContainer":
            self.inventory.remove(event.container)
        if not runtime.plugins:
            return self._why_plugin_left(runtime)
        return self.inventory.wrong or self._check.told(event, changes)

    def _why_plugin_left(self, runtime: NriRuntime | None) -> str:
        why = next((plugin.why for plugin in runtime.lost if plugin.why), "") if runtime else ""
        ended = self._process.how() if self._process and "within" not in why else ""
        return f"{why or 'has closed its connection'}{f'; {ended}' if ended else ''}"

    async def _disconnect_plugin(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.close()


class _Launched(Process):
    """A plugin started as a command, with its connection as file descriptor 3. A thread drains its output."""

    def __init__(self, command: Sequence[str], descriptor: int) -> None:
        launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(descriptor), *AS]
        super().__init__([*launch, *command], grace=GRACE, passed=(descriptor,))
        self._ending = threading.Event()
        self._how = ""
        self._reader = threading.Thread(target=self._drain, name="output of the plugin", daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        while not self._ending.is_set():
            try:
                self.read(timeout=0.05)
            except EndedError as ended:
                self._how = str(ended)
                return
            except TalkError:
                continue

    def how(self) -> str:
        """Return how the process ended, or an empty string if it is still running."""
        self._reader.join(0.2)
        return self._how

    def end(self, *, gently: bool) -> None:
        self._ending.set()
        self._reader.join()
        with suppress(OSError):
            super().end(gently=gently)
