"""NRI's own sample plugin ``template`` passes the tests, and a plugin that crashes on an event fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import go_programs
import pytest
from commands import fsm

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.slow]

LIBRARIES = (
    *go_programs.LIBRARIES,
    "golang-github-containerd-nri-dev",
    "golang-github-containerd-ttrpc-dev",
    "golang-github-opencontainers-specs-dev",
    "golang-github-sirupsen-logrus-dev",
    "golang-k8s-sigs-yaml-dev",
)

LIFE = """\
run-pod-sandbox; create-container.1; start-container.1; stop-container.1; remove-container.1;
create-container.2; connects; pod-listed; container-listed.2; start-container.2; stop-container.2; remove-container.2"""


def held(plugin: Path) -> tuple[int, str]:
    ran = fsm("test", "nri-plugin-contract", "--against", f"nri-plugin:{plugin}", "--replay", LIFE.replace("\n", " "))
    return ran.returncode, " ".join(ran.stdout.split())


def test_a_sample_of_nri_is_a_good_plugin(tmp_path: Path) -> None:
    """The sample plugin passes. A variant of it fails, because it dies when a container starts."""
    target = "github.com/containerd/nri/plugins/template"
    template = go_programs.built("nri-template", target, LIBRARIES, package="golang-github-containerd-nri")
    twin = tmp_path / "twin"
    twin.write_text(f"#!/bin/sh\n{template} 2>&1 | grep -q 'Starting container'\n", encoding="utf-8")
    twin.chmod(0o755)

    code, said = held(template)
    failed, why = held(twin)

    assert (3, 1) == (code, failed), said + why
    assert "the plugin has closed its connection instead of answering StopContainer" in why
