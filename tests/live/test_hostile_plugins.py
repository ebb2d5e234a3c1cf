"""A plugin that breaks the protocol or never ends is reported, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.plan import steps
from fsm.conformance.suite import replay
from fsm.errors import InputError
from fsm.language.library import load_system
from fsm.machine.product.flatten import flatten
from fsm.runtimes.live.plugin_test import PluginSUT

if TYPE_CHECKING:
    from fsm.machine import Machine

PLUGIN = Path(__file__).resolve().parent.parent / "suts" / "nri_hostile.py"
LIFE = "run-pod-sandbox; create-container.1; stop-container.1; remove-container.1"


@pytest.fixture(scope="module")
def contract() -> Machine:
    return flatten(load_system("nri-plugin-contract"))


def marked(mark: str) -> list[int]:
    found = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdecimal() and f"FSM_MARK={mark}".encode() in (each / "environ").read_bytes().split(b"\0"):
                found.append(int(each.name))
        except OSError:
            continue
    return [each for each in found if each != os.getpid()]


def nothing_left(mark: str) -> bool:
    until = time.monotonic() + 10
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.05)
    return not marked(mark)


@pytest.mark.parametrize(
    ("way", "found"),
    [
        pytest.param("keeps-to-it", "", marks=pytest.mark.slow),
        pytest.param(
            "garbage", "has not answered RunPodSandbox within 1 s", marks=pytest.mark.slow
        ),  # the garbage begins with a header that announces 4 GiB
        ("nonsense", "at RunPodSandbox: "),
        ("asks", "has asked for an update of a container that never was"),
        ("huge", "has answered RunPodSandbox with an error: a response of 5,242,880 bytes, more than"),
        pytest.param("twice", "", marks=pytest.mark.slow),  # the second answer belongs to no request and is dropped
        pytest.param("deaf", "has not answered RunPodSandbox within 1 s", marks=pytest.mark.slow),
        pytest.param("registers-twice", "", marks=pytest.mark.slow),  # the registration is refused
        ("forks", ""),
        pytest.param("babbles", "", marks=pytest.mark.slow),
        pytest.param("stays", "", marks=pytest.mark.slow),
    ],
)
def test_it_is_said_what_is_wrong_and_nothing_is_left(
    contract: Machine, way: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FSM_MARK", way)
    tested = replay(contract, lambda: PluginSUT(contract, f"{sys.executable} {PLUGIN} {way}", 1.0), steps(LIFE))

    broken = "".join(each.broken for each in tested.failures)
    assert found in broken
    assert bool(found) == bool(broken), broken
    assert nothing_left(way)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (f"{sys.executable} {PLUGIN} wants", "has asked for an update of a container that never was"),
        ("true", "has closed its connection before it registered; the process ended with exit code 0"),
        ("echo no NRI", "has closed its connection before it registered; the process ended with exit code 0"),
        (f"{sys.executable} -c \"import os; os.write(3, b'GET / HTTP/1.1\\r\\n' * 9)\"", "sent data that is not NRI"),
    ],
)
def test_what_does_not_connect(contract: Machine, command: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FSM_MARK", "unconnected")
    with pytest.raises(InputError, match="cannot be tested") as refused:
        PluginSUT(contract, command, 1.0)

    assert found in str(refused.value)
    assert nothing_left("unconnected")


def test_an_interruption_leaves_no_socket_to_which_nothing_has_connected(tmp_path: Path) -> None:
    fsm = Path(sys.executable).with_name("fsm")
    socket = tmp_path / "nri.sock"
    command = [str(fsm), "test", "nri-plugin-contract", "--against", f"nri-plugin:unix://{socket}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tested:
        while not socket.exists() and tested.poll() is None:
            time.sleep(0.01)
        tested.send_signal(signal.SIGINT)

    assert (tested.returncode, socket.exists()) == (130, False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["command", "socket"])
def test_an_interruption_leaves_nothing(kind: str, tmp_path: Path) -> None:
    fsm = Path(sys.executable).with_name("fsm")
    plugin = Path(__file__).resolve().parent.parent / "suts" / "nri_plugin.py"
    socket = tmp_path / "nri.sock"
    command = f"{sys.executable} {plugin}"
    where = command if kind == "command" else f"unix://{socket}"
    environment = {**os.environ, "NRI_SOCKET": str(socket)}
    other = None if kind == "command" else subprocess.Popen([*command.split()], env=environment)
    try:
        tested = subprocess.Popen(
            [str(fsm), "test", "nri-plugin-contract", "--against", f"nri-plugin:{where}"],
            env=environment | {"FSM_MARK": kind},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        until = time.monotonic() + 60
        while len(marked(kind)) < (4 if kind == "command" else 1) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(1)
        tested.send_signal(signal.SIGINT)
        tested.communicate(timeout=60)
    finally:
        if other is not None:
            other.kill()
            other.wait()

    assert tested.returncode == 130
    assert nothing_left(kind)
    assert not socket.exists()
