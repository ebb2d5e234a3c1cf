"""Calls and events are judged together when real daemons run a pod and a container with fsm's own plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fsm.conformance import suite
from fsm.conformance.lookup import find
from fsm.conformance.plan import steps
from fsm.runtimes.node_model import node
from fsm.verdict import Holds

if TYPE_CHECKING:
    from collections.abc import Callable

    from containerds import Containerd

    from fsm.conformance.tested import Tested
    from fsm.sut import SUT

pytestmark = [
    pytest.mark.live,
    pytest.mark.parametrize(
        "containerd",
        [pytest.param(each, marks=pytest.mark.xdist_group(each)) for each in ("1.7.24", "2.1.9")],
        indirect=True,
    ),
]
"""containerd 1.6 has a version of NRI that is not supported."""

FORGOTTEN = {
    "plugin-pod": "run-pod=ready; restart; plugin-joins; remove-pod",
    "plugin-container": "plugin-joins; run-pod=ready; create-container=created; start-container=started; exit-container; "
    "relay-exit; restart; plugin-joins; remove-container",
}
"""For each model, steps after which containerd fails to notify a plugin because it has forgotten an entity."""


def made(
    daemon: Containerd, judge: str = "", profile: str | None = None, *, restarts: bool = True
) -> Callable[[], SUT]:
    restart = daemon.restart_command if restarts else ""
    options = {
        "nri": f"unix://{daemon.nri}",
        "restart_command": restart,
        "damage_command": daemon.damage_command if restarts else "",
    }
    return find(f"cri:unix://{daemon.endpoint}", node(None), options=options, model=judge, profile=profile)


def profile_of(daemon: Containerd) -> str:
    return f"containerd-{daemon.version}"


def clauses(found: Tested) -> list[str]:
    return [each.violation.clause.name for each in found.failures if each.violation]


@pytest.mark.slow  # the comparison with the conformance matrix also finds this
def test_a_stopped_container_that_is_started_is_found(containerd: Containerd) -> None:
    """The shortest violation of the plugins' contract is a start after a stop, which the profile tolerates."""
    machine = node(None)
    found = suite.conform(machine, made(containerd, "plugin-container", restarts=False), examples=0, most=1)

    [failure] = found.failures
    assert clauses(found) == ["no-start-after-stop"]
    assert sorted(step.event for step in failure.steps) == [
        "create-container",
        "plugin-joins",
        "run-pod",
        "start-container",
        "stop-container",
    ]
    tolerating = made(containerd, "nri-plugin-contract", profile_of(containerd))
    assert not suite.replay(machine, tolerating, failure.steps).failures


@pytest.mark.parametrize("judge", FORGOTTEN)
def test_what_a_restart_forgets_is_not_told(containerd: Containerd, judge: str) -> None:
    """The removal of a forgotten entity is not relayed, which is a violation unless the profile tolerates it."""
    life = steps(FORGOTTEN[judge])
    found = suite.replay(node(None), made(containerd, judge), life)
    tolerated = suite.replay(node(None), made(containerd, judge, profile_of(containerd)), life)

    assert clauses(found) == ["removal-is-relayed"]
    assert not tolerated.failures


@pytest.mark.slow  # this takes as long as the comparison with the conformance matrix
def test_a_pod_whose_run_was_refused_comes_back(containerd: Containerd) -> None:
    """In 2.1, a restart recovers the pod because its pause process keeps running."""
    life = steps("plugin-joins; run-pod=refused-by-plugin; restart; plugin-joins; run-pod=ready")
    found = suite.replay(node(None), made(containerd), life)

    assert clauses(found) == ["memory-is-lost"] * (containerd.version == "2.1.9")
    assert (3 if found.failures else 5) == found.cover.steps


def test_what_ended_before_the_plugin_joined_is_not_told(containerd: Containerd) -> None:
    life = "run-pod=ready; create-container=created; start-container=started; exit-container; plugin-joins; relay-exit"
    found = suite.replay(node(None), made(containerd), steps(life))

    assert not found.failures


def test_a_container_is_unknown_after_damage(containerd: Containerd) -> None:
    """A damaged checkpoint makes the container unknown, but its calls and events are still judged."""
    life = (
        "run-pod=ready; create-container=created; plugin-joins; start-container=started; "
        "restart=done: pod ready, container unknown; plugin-joins; stop-container; remove-container; remove-pod"
    )
    found = suite.replay(node(None), made(containerd), steps(life))
    names = {found.oracle.plan.table.ways[way].name for way in found.cover.ways}

    assert not found.failures
    assert "done: pod ready, container unknown" in names


def test_the_system_holds(containerd: Containerd) -> None:
    """The conditions of the system hold in every situation that calls and a plugin can reach."""
    found = suite.conform(node(None), made(containerd, restarts=False), examples=0)

    assert isinstance(found.verdict, Holds), found.failures
    assert () == found.missed
