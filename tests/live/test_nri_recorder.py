"""The events that the plugin records are judged correctly, even if the runtime or the disk fails."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import signal
import socket
import subprocess
import threading
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import pytest
from commands import FSM, fsm

from fsm.runtimes.live.nri_recorder import LineWriter, opened, record
from fsm.runtimes.names import POD_EVENTS
from fsm.runtimes.sockets import nri_pb2 as nri
from fsm.runtimes.sockets.nri_link import CONNECTIONS, PLUGIN, RelayedEvent, frames
from fsm.runtimes.sockets.nri_runtime import NriRuntime
from fsm.runtimes.sockets.ttrpc import MessageKind, encoded
from fsm.runtimes.sockets.ttrpc_pb2 import Request
from fsm.runtimes.sockets.unix_sockets import accept_streams, bound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from typing_extensions import Buffer

POD = nri.PodSandbox(id="pod1")
LIFE = [
    "RunPodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
]
CONFIGURE = encoded(
    1, MessageKind.REQUEST, Request(service=PLUGIN, method="Configure", timeout_nano=10**9).SerializeToString()
)
STARTED_TWICE = [*LIFE[:5], "StartContainer", *LIFE[5:]]


class Domain:
    def __init__(self, *containers: nri.Container) -> None:
        self.containers = containers

    def listed(self) -> tuple[Sequence[nri.PodSandbox], Sequence[nri.Container]]:
        return [POD] if self.containers else [], self.containers

    async def update(self, _plugin: str, updates: Sequence[nri.ContainerUpdate]) -> Sequence[nri.ContainerUpdate]:
        raise AssertionError(updates)


def event(name: str, identity: str = "c1") -> RelayedEvent:
    container = nri.Container(id=identity, pod_sandbox_id="pod1", state=nri.CONTAINER_RUNNING)
    return RelayedEvent(name=name, pod=POD, container=None if name in POD_EVENTS else container)


@asynccontextmanager
async def runtime(
    socket: Path, domain: Domain | None = None, *, request: float = 2.0, old: bool = False
) -> AsyncIterator[NriRuntime]:
    there = NriRuntime(domain or Domain(), name="containerd", version="2.1.9", request=request, state_changes=old)
    with closing(accept_streams(bound(str(socket)), there.accept)):
        yield there
        await there.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  (a thread sets no event of asyncio)
        await asyncio.sleep(0.01)


def recorded(path: Path) -> list[dict[str, Any]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz"])
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
async def test_the_command_records_until_a_signal(tmp_path: Path, name: str, end: signal.Signals) -> None:
    socket, path = tmp_path / "nri.sock", tmp_path / name
    async with runtime(socket) as there:
        process = await asyncio.create_subprocess_exec(
            FSM, "record", "--nri", f"unix://{socket}", "-o", str(path), stderr=subprocess.PIPE
        )
        assert await there.joined(1, 20)
        for each in LIFE:
            await there.relay(event(each))
        process.send_signal(end)
        _, errors = await process.communicate()

        assert (0, "recorded 11 events on 1 connection\n") == (process.returncode, errors.decode())
        assert [""] == [each.why for each in there.lost]
    lines = recorded(path)
    assert ["Configure", "Synchronize", *LIFE] == [each["event"] for each in lines]
    assert {"ts", "event", "pod", "container", "state"} == lines[3].keys()
    judged = fsm("judge", str(path), "--fail-on", "observed")
    assert judged.returncode == 0, judged.stdout


async def recording(socket: Path, lives: Sequence[Sequence[str]], path: Path, *, old: bool = False) -> list[str]:
    """Record the events of several runtimes that appear at *socket* one after another.

    Return the messages of the recorder.
    """
    ended, said = asyncio.Event(), list[str]()
    with path.open("wb") as file:
        writer = LineWriter(file)
        running = None
        for number, life in enumerate(lives):
            container = nri.Container(id="c0", pod_sandbox_id="pod1", state=nri.CONTAINER_RUNNING)
            async with runtime(socket, Domain(container) if number else None, old=old) as there:
                running = running or asyncio.create_task(record(str(socket), writer, ended=ended, told=said.append))
                assert await there.joined(1, 5)
                for each in life:
                    await there.relay(event(each))
                if number == len(lives) - 1:
                    ended.set()
                    await running
        writer.close()
    return said


@pytest.mark.parametrize(("life", "code"), [(LIFE, 0), (STARTED_TWICE, 1)])
async def test_what_is_recorded_is_judged_as_it_was(life: list[str], code: int, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    await recording(tmp_path / "nri.sock", [life], path)

    judged = fsm("judge", str(path))

    assert judged.returncode == code, judged.stdout


async def test_it_connects_again_when_the_runtime_restarts(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    said = await recording(tmp_path / "nri.sock", [LIFE[:3], ["StopContainer"]], path)

    lines = recorded(path)
    assert ["Configure", "Synchronize", *LIFE[:3], "Configure", "Synchronize", "StopContainer"] == [
        each["event"] for each in lines
    ]
    assert lines[6]["pods"] == [{"id": "pod1"}]
    assert lines[6]["containers"] == [{"id": "c0", "pod": "pod1", "state": "CONTAINER_RUNNING"}]
    assert ["the runtime has closed the connection"] == said
    assert fsm("judge", str(path)).returncode == 0


async def test_old_runtimes_are_recorded_by_the_names_of_the_enum(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    await recording(tmp_path / "nri.sock", [LIFE], path, old=True)

    assert ["RUN_POD_SANDBOX", "CreateContainer", "POST_CREATE_CONTAINER"] == [
        each["event"] for each in recorded(path)[2:5]
    ]
    assert fsm("judge", str(path)).returncode == 0


class Stuck(io.BytesIO):
    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def write(self, data: Buffer) -> int:
        self.released.wait()
        return super().write(data)


async def test_it_answers_while_the_disk_hangs_and_loses_nothing_unseen(tmp_path: Path) -> None:
    """The plugin answers even while the disk hangs.

    If too many events wait for the disk, the plugin disconnects for a while.
    """
    file, ended, said = Stuck(), asyncio.Event(), list[str]()
    writer = LineWriter(file, most=20)
    async with runtime(tmp_path / "nri.sock", request=0.5) as there:
        running = asyncio.create_task(record(str(tmp_path / "nri.sock"), writer, ended=ended, told=said.append))
        assert await there.joined(1, 5)
        for _ in range(30):
            await there.relay(event("UpdateContainer"))
        await until(lambda: not there.plugins)
        file.released.set()
        assert await there.joined(1, 5) or await there.joined(1, 5)
        await there.relay(event("StopContainer"))
        ended.set()
        recorder = await running
        assert not [each.why for each in there.lost if "within" in each.why], "it was never late"
    writer.close()

    events = [json.loads(line)["event"] for line in file.getvalue().splitlines()]
    assert ["Configure", "Synchronize", *18 * ["UpdateContainer"]] == events[:20]
    assert ["Configure", "Synchronize", "StopContainer"] == events[20:]
    assert 2 == recorder.connections
    assert said[0].startswith("the output is too slow")


async def test_a_full_disk_ends_it(tmp_path: Path) -> None:
    with open("/dev/full", "wb", buffering=0) as file:  # noqa: PTH123, ASYNC230  (a device)
        writer = LineWriter(file)
        async with runtime(tmp_path / "nri.sock") as there:
            task = asyncio.create_task(
                record(str(tmp_path / "nri.sock"), writer, ended=asyncio.Event(), told=lambda _: None)
            )
            assert await there.joined(1, 5)
            await until(lambda: writer.error is not None)
            await there.relay(event("StopContainer"))
            with pytest.raises(OSError, match="No space left"):
                await task
        with pytest.raises(OSError, match="No space left"):
            writer.close()


def test_a_runtime_that_is_not_there(tmp_path: Path) -> None:
    ran = fsm("record", "--nri", f"unix://{tmp_path}/nri.sock")

    assert 2 == ran.returncode
    assert f"unix://{tmp_path}/nri.sock: there is no such socket [FSM603]" in ran.stderr


async def test_a_runtime_that_refuses(tmp_path: Path) -> None:
    """A server without NRI is treated like a restarting runtime, but a refusal ends the command."""
    async with runtime(tmp_path / "nri.sock"):
        with pytest.raises(Exception, match="has not registered the plugin: invalid plugin name"):
            await record(
                str(tmp_path / "nri.sock"),
                LineWriter(io.BytesIO()),
                name="a b",
                ended=asyncio.Event(),
                told=lambda _: None,
            )


def test_a_recording_goes_on_after_one_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "Conf', encoding="utf-8")
    with opened(path) as file:
        file.write(b"{}\n")

    assert b'{"event": "Conf\n{}\n' == path.read_bytes()

    path = tmp_path / "events.jsonl.gz"
    path.touch()
    ran = fsm("record", "--nri", "unix:///nowhere", "-o", str(path))
    assert (2, f"Error: Could not open file '{path}': file exists\n") == (ran.returncode, ran.stderr)


def test_a_runtime_that_goes_before_it_is_answered_does_not_end_the_command(tmp_path: Path) -> None:
    address, path = tmp_path / "nri.sock", tmp_path / "events.jsonl"
    told: list[str] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.settimeout(20)
        listener.bind(str(address))
        listener.listen()
        with subprocess.Popen(
            [FSM, "record", "--nri", f"unix://{address}", "-o", str(path)], stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)  # receive the registration
                    connection.shutdown(socket.SHUT_RD)  # nobody reads data that is written from now on
                    connection.sendall(frames(CONNECTIONS[PLUGIN], CONFIGURE))
                    told.append(process.stderr.readline())
            process.send_signal(signal.SIGTERM)
            _, last = process.communicate()
    assert process.returncode == 0
    assert told == ["fsm record: the runtime has closed the connection\n"] * 2
    assert last == "recorded 0 events on 2 connections\n"
