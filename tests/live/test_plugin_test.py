"""A plugin is the system under test: a correct plugin passes every test, and each planted bug is found."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import fsm, process

from fsm.conformance.plan import steps
from fsm.conformance.suite import replay
from fsm.language.library import load_system
from fsm.machine.product.flatten import flatten
from fsm.runtimes.live.plugin_host import Inventory, container, pod
from fsm.runtimes.live.plugin_test import PluginSUT
from fsm.runtimes.sockets.nri_pb2 import ContainerUpdate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.machine import Machine

ROOT = Path(__file__).resolve().parent.parent.parent
CONTRACT = ROOT / "models" / "systems" / "nri-plugin-contract.toml"
PLUGIN = ROOT / "tests" / "suts" / "nri_plugin.py"
LAUNCHED = f"nri-plugin:{sys.executable} {PLUGIN}"
LIFE = "; ".join(
    f"{kind}-container.{number}"
    for number in (1, 2)
    for kind in ("create", "post-create", "start", "post-start", "update", "stop", "remove")
)
LIFE = f"run-pod-sandbox; {LIFE}; stop-pod-sandbox; remove-pod-sandbox; connects; run-pod-sandbox"
JOINS_LATE = (
    "pod-listed=done: pod runs; container-listed.1=as-created: container.1 created; "
    "container-listed.2=as-running: container.2 running; stop-container.2; connects; pod-listed; "
    "container-listed.2=as-stopped; remove-container.1; remove-container.2; stop-pod-sandbox"
)


@pytest.fixture
def small(tmp_path: Path) -> str:
    """Return a contract for pods with a single container instead of two, which has a tenth of the states."""
    text = CONTRACT.read_text(encoding="utf-8").replace("count = 2, ", "").replace(CONTRACT.stem, "one-container")
    path = tmp_path / "one-container.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture
def listening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Run the plugin, with a bug if requested, and yield the name by which the test kit finds it."""
    socket = tmp_path / "nri.sock"
    bug = getattr(request, "param", "")
    running = subprocess.Popen(
        [sys.executable, str(PLUGIN), bug], env={**os.environ, "NRI_SOCKET": str(socket)}, stderr=subprocess.DEVNULL
    )
    yield f"nri-plugin:unix://{socket}"
    running.kill()
    running.wait()


@pytest.mark.slow
def test_a_good_plugin_holds_in_every_life(listening: str, small: str) -> None:
    tested = fsm("test", small, "--against", listening, "--examples", "3", "--steps", "10")

    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "reached 285 of 285 reachable (event, state) pairs" in tested.stdout
    assert not Path(listening.removeprefix("nri-plugin:unix://")).exists()


@pytest.mark.slow
def test_a_good_plugin_holds_in_every_life_of_two_containers(listening: str) -> None:
    tested = fsm("test", "nri-plugin-contract", "--against", listening, "--examples", "10")

    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "reached 3,718 of 3,718 reachable (event, state) pairs" in tested.stdout


@pytest.fixture(scope="module")
def contract() -> Machine:
    return flatten(load_system("nri-plugin-contract"))


def taken(machine: Machine, text: str, *bug: str) -> tuple[int, str]:
    where = " ".join([sys.executable, str(PLUGIN), *bug])
    tested = replay(machine, lambda: PluginSUT(machine, where, 0.5 if bug else 5.0), steps(text))
    broken = [each.broken for each in tested.failures]
    return tested.cover.steps, "".join(broken)


@pytest.mark.parametrize("text", [LIFE, JOINS_LATE])
def test_a_plugin_that_is_started_by_the_runtime_holds(contract: Machine, text: str) -> None:
    assert (len(steps(text)), "") == taken(contract, text)


@pytest.mark.parametrize(
    ("bug", "text", "found"),
    [
        ("slow", LIFE, "the plugin has not answered StopContainer within 0.5 s"),
        (
            "crashes",
            LIFE,
            "the plugin has closed its connection instead of answering CreateContainer; the process ended with exit code 2; its standard error ends with 'panic: this pod had one already'",
        ),
        (
            "leaves",
            LIFE,
            "the plugin has closed its connection instead of answering RemovePodSandbox; the process ended",
        ),
        ("refuses", LIFE, "the plugin has answered UpdateContainer with an error: ValueError: no"),
        ("asks-for-the-gone", LIFE, "the plugin has asked for an update of container.1, which was removed"),
        ("asks-late", LIFE, "the plugin has asked for an update of container.1, which was removed"),
        ("forgets", JOINS_LATE, "the plugin has answered StopContainer with an error: KeyError"),
    ],
)
def test_each_bug_is_found(contract: Machine, bug: str, text: str, found: str) -> None:
    count, broken = taken(contract, text, bug)

    assert found in broken
    assert 0 < count < len(steps(text))


ANSWERS = ("--answers", "python:tests.suts.gives_back:GivesBack")
AGAIN = "run-pod-sandbox; create-container.1; stop-container.1; remove-container.1; create-container.2"


@pytest.mark.parametrize(
    ("bug", "found"),
    [
        ("", ""),
        ("leaks", "has answered CreateContainer wrongly: container.2 got no CPU, though one is free"),
        ("shares", "has answered CreateContainer wrongly: CPU 0 is another container's"),
    ],
)
def test_answers_are_held_to_a_property(bug: str, found: str) -> None:
    both = AGAIN.replace("stop-container.1; remove-container.1; ", "")
    replay = both if bug == "shares" else AGAIN
    where = f"{LAUNCHED} {bug}"
    tested = fsm("test", "nri-plugin-contract", "--against", where, *ANSWERS, "--replay", replay, cwd=ROOT)

    assert tested.returncode == (1 if found else 3), tested.stdout + tested.stderr
    assert found in re.sub(r"\s+", " ", tested.stdout)


@pytest.mark.nightly
@pytest.mark.parametrize("listening", ["leaks"], indirect=True)
def test_a_leak_is_found_by_generation(listening: str) -> None:
    """A leak is found even if it shows only in a later test, because the plugin keeps running."""
    tested = fsm("test", "nri-plugin-contract", "--against", listening, *ANSWERS, "--examples", "0", cwd=ROOT)

    assert tested.returncode == 1, tested.stderr
    assert "got no CPU, though one is free" in re.sub(r"\s+", " ", tested.stdout)
    assert shlex.join(ANSWERS) in tested.stdout


class Wrong:
    def __init__(self, pods: list[object], containers: list[object]) -> None: ...

    def on(self, event: str, *_: object) -> str | None:
        assert event != "StopContainer", "no stops, please"
        return {"RunPodSandbox": "", "CreateContainer": None, "Synchronize": None}[event]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "run-pod-sandbox; create-container.1; stop-container.1",
            "has answered StopContainer wrongly: no stops, please",
        ),
        ("run-pod-sandbox; update-pod-sandbox", "has answered UpdatePodSandbox wrongly: KeyError: 'UpdatePodSandbox'"),
    ],
)
def test_a_property_may_raise(contract: Machine, text: str, found: str) -> None:
    where = f"{sys.executable} {PLUGIN}"
    tested = replay(contract, lambda: PluginSUT(contract, where, answers=Wrong), steps(text))

    assert [f"the plugin {found}"] == [each.broken for each in tested.failures]


@pytest.mark.slow
@pytest.mark.parametrize("listening", ["asks-for-the-gone"], indirect=True)
def test_a_bug_is_shrunk_to_the_events_that_it_needs(listening: str, small: str) -> None:
    tested = fsm("test", small, "--against", listening, "--examples", "0")

    assert tested.returncode == 1, tested.stderr
    assert "which was removed" in re.sub(r"\s+", " ", tested.stdout)
    replays = re.findall(r"--replay '([^']*)'", tested.stdout)
    assert min(len(each.split(";")) for each in replays) <= 6


def test_a_plugin_that_does_not_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsm.runtimes.live.plugin_host.PATIENCE", 0.1)
    tested = fsm("test", "nri-plugin-contract", "--against", f"nri-plugin:unix://{tmp_path}/nri.sock")

    assert tested.returncode == 2
    assert "cannot be tested: the plugin has not connected within 0.1 s" in tested.stderr


def test_a_command_that_ends_at_once() -> None:
    tested = fsm("test", "nri-plugin-contract", "--against", "nri-plugin:false")

    assert tested.returncode == 2
    assert (
        "the plugin has closed its connection before it registered; the process ended with exit code 1" in tested.stderr
    )


@pytest.mark.parametrize(
    ("model", "against", "found"),
    [
        ("cri-pod", LAUNCHED, "a plugin cannot be tested against cri-pod, in which no plugin connects"),
        ("nri-plugin-contract", "nri-plugin:/no/such/plugin", "there is no such command"),
        ("nri-plugin-contract", "nri-plugin:", "this does not name a system under test"),
        ("nri-plugin-contract", f"{LAUNCHED} --answers door", "this does not name a class that checks answers"),
        ("nri-plugin-contract", f"{LAUNCHED} --answers python:no.such:Thing", "cannot be imported"),
        (
            "cri-pod",
            "reference --answers python:door:Door",
            "--answers can be used only with --against nri-plugin:COMMAND",
        ),
    ],
)
def test_what_cannot_be_tested(model: str, against: str, found: str) -> None:
    sut, _, answers = against.partition(" --answers ")
    tested = fsm("test", model, "--against", sut, *(["--answers", answers] if answers else []))

    assert tested.returncode == 2
    assert found in tested.stderr


def test_several_threads_are_refused() -> None:
    tested = process("test", "nri-plugin-contract", "--against", LAUNCHED, "--threads", "2")

    assert tested.returncode == 2, tested.stdout
    assert "nri-plugin:" in tested.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "run-pod-sandbox; stop-container.1; remove-container.1; stop-pod-sandbox; remove-pod-sandbox",
        "run-pod-sandbox; create-container.1; remove-container.1; create-container.2; stop-container.2; remove-container.2",
        "stop-pod-sandbox; remove-pod-sandbox",
    ],
)
def test_what_follows_a_refusal_by_a_plugin_that_is_asked_before(text: str) -> None:
    """If a plugin refuses, plugins asked later may see removals without stops, and ends of unknown containers."""
    as_it_is = flatten(load_system("nri-plugin-contract").under("containerd-2.1"))

    assert (len(steps(text)), "") == taken(as_it_is, text)
    assert "has answered" in taken(as_it_is, text, "minds")[1]


def test_what_may_be_updated() -> None:
    there = Inventory()
    kept, removed, new = (container(number, f"container.{number}", pod(0).id) for number in (1, 2, 3))
    there.add(kept)
    there.remove(removed)
    updates = [each.id for each in (kept, removed, new)]

    def refused(*ids: str) -> str:
        there.wrong = ""
        there.refused((ContainerUpdate(container_id=each) for each in ids), creating=new.id)
        return there.wrong

    assert "" == refused(updates[0])
    assert "container.2, which was removed" in refused(*updates)
    assert "being created" in refused(updates[2])
    assert "never was: 'foreign'" in refused("foreign")
