"""The shell commands for test steps make the calls that the steps name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fsm.conformance.client_paths import ClientPath, client_paths
from fsm.conformance.plan import Plan, steps
from fsm.conformance.scheme import ClientRun, script
from fsm.language.library import load
from fsm.machine.table import tabulate
from fsm.runtimes.crictl import CRICTL, lines, takes
from fsm.sut import Stimulus

MACHINES = ("cri-container", "cri-pod", "container-status", "pod-sandbox")
CALLED = {
    "runp": "RunPodSandbox",
    "stopp": "StopPodSandbox",
    "inspectp": "PodSandboxStatus",
    "port-forward": "PortForward",
    "create": "CreateContainer",
    "start": "StartContainer",
    "stop": "StopContainer",
    "inspect": "ContainerStatus",
    "update": "UpdateContainerResources",
    "logs": "ReopenContainerLog",
    "attach": "Attach",
    "checkpoint": "CheckpointContainer",
}
"""The call that each crictl command makes, except for commands that make several calls."""


def _called(words: list[str]) -> list[str]:
    """Return the calls that a command makes if the container was never started and its pod is stopped."""
    match words:
        case ["crictl", "rm", _]:
            return ["RemoveContainer"]
        case ["crictl", "rmp", "--force", _]:
            return []
        case ["crictl", "rmp", _]:
            return ["RemovePodSandbox"]
        case ["crictl", "exec", *options]:
            return ["ExecSync" if "--sync" in options else "Exec"]
        case ["crictl", command, *_]:
            return [CALLED[command]]
        case ["grpcurl", *_, method]:
            return [method.rpartition("/")[2]]
        case _:
            return []


def _run(text: str, folder: Path) -> list[list[str]]:
    for name in ("crictl", "grpcurl", "sleep", "timeout"):
        program = folder / name
        then = 'shift; exec "$@"' if name == "timeout" else f'echo "{name} $*" >> "$LOG"; echo id-of-{name}'
        program.write_text(f"#!/bin/sh\n{then}\n")
        program.chmod(0o755)
    log = folder / "log"
    log.touch()
    done = subprocess.run(
        ["sh", "-u"],  # noqa: S607  (any shell will do)
        input=text,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(log), "RESTART": "true", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split() for line in log.read_text().splitlines()]


@pytest.mark.parametrize("name", MACHINES)
def test_the_shell_makes_the_calls(name: str, tmp_path: Path) -> None:
    """A script that covers every cell that a client can reach makes the calls of its steps in order."""
    machine = load(name)
    plan = Plan(tabulate(machine))
    paths = {cell: path for cell, path in client_paths(machine).items() if path.alone}
    runs = [ClientRun(" ".join(cell), plan, path.steps) for cell, path in paths.items()]

    called = [call for words in _run(script(CRICTL, runs), tmp_path) for call in _called(words)]

    assert called == [call for path in paths.values() for call in _meant(name, path)]


def _meant(name: str, path: ClientPath) -> list[str]:
    machine = load(name)
    rpcs = [rpc for step in path.steps if (rpc := machine.events[step.event].rpc)]
    return ["RunPodSandbox", *rpcs] if "CreateContainer" in rpcs and machine.entity == "container" else rpcs


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("create=created; start=failed", 'CONTAINER=$(crictl create "$POD" broken.json pod.json)'),
        ("create=failed", 'CONTAINER=$(crictl create "$POD" missing.json pod.json) # expected: failed'),
        ("create; create", 'crictl create "$POD" container.json pod.json # the name is taken'),
        ("create; start; exit", 'CONTAINER=$(crictl create "$POD" ends.json pod.json)'),
        ("create; start; stop; restart", 'CONTAINER=$(crictl create "$POD" container.json pod.json)'),
        ("create; start; begin stop", 'crictl stop --timeout 10 "$CONTAINER" &'),
        ("create; begin remove=begins; end remove=removed", "wait"),
        ("create; start; remove", 'call RemoveContainer container_id "$CONTAINER"'),
        ("create; start; stop; remove", 'crictl rm "$CONTAINER"'),
        ("remove", 'call RemoveContainer container_id "$CONTAINER"'),
        ("create; remove; remove", 'call RemoveContainer container_id "$CONTAINER"'),
        ("create; restart", "$RESTART"),
        ("create; crash@1 start", 'crictl start "$CONTAINER" & $RESTART # meant to be killed in start'),
    ],
)
def test_what_a_step_takes(text: str, line: str) -> None:
    """The command for a step depends on later steps, which may need a container that ends or fails to start.

    Calls for which crictl has no command are made with another program.
    """
    assert line in lines(Plan(tabulate(load("cri-container"))), steps(text))


def test_what_was_not_made_is_not_removed() -> None:
    assert lines(Plan(tabulate(load("cri-pod"))), [Stimulus("stop")]) == ("POD=$NOBODY", 'crictl stopp "$POD"')


def test_what_no_client_calls() -> None:
    assert [takes(load(name)) for name in (*MACHINES, "nri-container", "runtime-handlers")] == [True] * 4 + [False] * 2
    with pytest.raises(ValueError, match="nri-container has calls that a CRI client does not make"):
        lines(Plan(tabulate(load("nri-container"))), [Stimulus("create")])
