"""A recording of an evident path proves that its cell was reached."""

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

    To prove that it is absent, the steps create and remove it first. No recording proves that a container is running
    when a call that does not show its state begins, because the container may exit unobserved.
    """
    assert shown(name, *cell) == steps


def test_what_shows_every_exit_shows_more() -> None:
    assert shown("container-status", "stop", "running") == ""
    assert shown("container-status", "stop", "running", seen=None) == "create start stop"
