"""The example services are valid for systemd and Kubernetes, and run the documented commands."""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import kubernetes_validate
import pytest
import yaml
from commands import FAILING, FSM
from real_parts import program

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES: Final = Path(__file__).resolve().parent.parent.parent / "examples"
UNIT: Final = EXAMPLES / "fsm-judge.service"
KUBERNETES: Final = ("1.31", "1.37")


def _daemon_set() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / "daemonset.yaml").read_text(encoding="utf-8"))
    return found


def _verified(unit: Path) -> str:
    done = subprocess.run([program("systemd-analyze"), "verify", unit], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_systemd_takes_the_unit() -> None:
    assert _verified(UNIT) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("KillMode=mixed", "KillMode=mixt"), ("ExecStart=/bin/bash", "ExecStart=/bin/bsh"), ("RestartSec", "RestartSecs")],
)
def test_systemd_refuses_another(right: str, wrong: str, tmp_path: Path) -> None:
    """Systemd complains about a damaged unit, which shows that the previous test can fail."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text(encoding="utf-8").replace(right, wrong), encoding="utf-8")

    assert UNIT.name in _verified(unit)


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_the_daemon_set(version: str) -> None:
    found = _daemon_set()
    kubernetes_validate.validate(found, version, strict=True)
    pod, labels = found["spec"]["template"], found["spec"]["selector"]["matchLabels"]
    (container,) = pod["spec"]["containers"]

    assert labels.items() <= pod["metadata"]["labels"].items()
    assert [each["name"] for each in container["volumeMounts"]] == [each["name"] for each in pod["spec"]["volumes"]]
    assert [container["livenessProbe"]["httpGet"]["port"]] == [each["name"] for each in container["ports"]]
    assert [pod["metadata"]["annotations"]["prometheus.io/port"]] == [
        str(each["containerPort"]) for each in container["ports"]
    ]
    assert f"--metrics 0.0.0.0:{container['ports'][0]['containerPort']} " in container["command"][-1]


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "replicas": lambda found: found["spec"].update(replicas=3),
    "volumeMount": lambda found: found["spec"]["template"]["spec"]["containers"][0].update(volumeMount=[]),
    "selector": lambda found: found["spec"].pop("selector"),
}


@pytest.mark.parametrize("field", CHANGES)
def test_kubernetes_refuses_another(field: str) -> None:
    found = copy.deepcopy(_daemon_set())
    CHANGES[field](found)

    with pytest.raises(kubernetes_validate.ValidationError, match=field):
        kubernetes_validate.validate(found, KUBERNETES[-1], strict=True)


def _commands() -> dict[str, list[str]]:
    unit = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        "systemd": shlex.split(unit[0]),
        "kubernetes": _daemon_set()["spec"]["template"]["spec"]["containers"][0]["command"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("service", ["systemd", "kubernetes"])
@pytest.mark.parametrize(("year", "code"), [("2026", 3), ("2999", 1)])
def test_what_the_services_run(service: str, year: str, code: int, tmp_path: Path) -> None:
    """The services report a violation only if its journal entry was written after the service started."""
    journal = tmp_path / "journal"
    lines = Path(FAILING).read_text(encoding="utf-8").replace('time="2026-', f'time="{year}-').splitlines()
    journal.write_text("".join(json.dumps({"MESSAGE": line}) + "\n" for line in lines), encoding="utf-8")
    journalctl = tmp_path / "journalctl"
    journalctl.write_text(f"#!/bin/sh\nexec cat {journal}\n", encoding="utf-8")
    journalctl.chmod(journalctl.stat().st_mode | stat.S_IXUSR)
    command = [each.replace("9470", "0") for each in _commands()[service]]
    path = f"{tmp_path}:{Path(FSM).parent}:{os.environ['PATH']}"

    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)

    assert (code, "metrics at http://") == (done.returncode, done.stderr[:18]), done.stderr
    assert ("violation: " in done.stdout) == (code == 1)
    assert "306 lines read" in done.stdout
