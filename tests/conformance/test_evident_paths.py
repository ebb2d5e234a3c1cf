"""A recording of the steps that ``EvidentPaths`` finds proves that they exercised the given (event, state) pair."""

from __future__ import annotations

import pytest

from fsm.conformance.client_paths import EvidentPaths, client_paths
from fsm.language.library import load

CALLS = frozenset({"restart"})
"""The signals that a recording of calls shows."""


def shown(name: str, event: str, state: str, seen: frozenset[str] | None = CALLS) -> str:
    machine = load(name)
    steps = client_paths(machine)[event, state].steps
    return " ".join(step.event for step in EvidentPaths(machine, seen=seen).of((event, state), steps))


@pytest.mark.parametrize(
    ("name", "cell", "steps"),
    [
        ("cri-container", ("exec", "created"), "create exec"),
        ("cri-container", ("exec", "absent"), "create remove exec"),
        ("cri-container", ("exec", "exited"), "create start stop status exec"),
        ("cri-container", ("status", "running"), "create start status"),
        ("cri-container", ("exec", "running"), ""),
        ("cri-pod", ("stop", "ready"), ""),
        ("cri-pod", ("create-container", "absent"), "run remove create-container"),
        ("cri-pod", ("create-container", "stopped"), "run stop create-container"),
    ],
)
def test_what_a_recording_shows(name: str, cell: tuple[str, str], steps: str) -> None:
    """A recording of the steps proves the state of the container or pod before the last call.

    To prove that the container or pod is absent, the steps create and remove it first. If a call does not show the
    state, no recording proves that the container is running when the call begins, because it may exit unobserved.
    """
    assert shown(name, *cell) == steps


def test_what_shows_every_exit_shows_more() -> None:
    assert shown("container-status", "stop", "running") == ""
    assert shown("container-status", "stop", "running", seen=None) == "create start stop"
