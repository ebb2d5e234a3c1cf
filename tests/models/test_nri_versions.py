"""``fsm diff`` of two profiles reports the changes to the NRI interface since containerd 1.7."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from fsm.cli.diff_command import command
from fsm.language.library import claims, load

OLD, LATER, NEW = "containerd-1.7", "containerd-2.1", "containerd-main"
FIRST, SECOND = 1, 2
"""The older and the newer version, as the side of a comparison that has a changed line."""

DIFFERENCES = [
    # NRI is off by default in the older version, and on by default in the newer version.
    ("nri-api", OLD, LATER, FIRST, "new-default: none → disabled, replying ok (disabled)"),
    ("nri-api", OLD, LATER, SECOND, "new-default: none → created, replying ok, emitting timeouts (created)"),
    # Installed plugins are synchronised only in the newer version.
    ("nri-api", OLD, LATER, FIRST, "start: created → started, replying ok (unsynchronised)"),
    ("nri-api", OLD, LATER, SECOND, "start: created → started, replying ok, emitting synchronised (started)"),
    ("nri-plugin", OLD, LATER, FIRST, "synchronise: synchronising → active (unsynchronised)"),
    # In the older version, a plugin whose synchronisation fails remains in the state synchronising.
    ("nri-plugin", OLD, LATER, FIRST, "synchronise: synchronising → synchronising (unlisted)"),
    # If a plugin has a wrong name, the older version closes its connection, and the newer version leaves it open.
    ("nri-plugin", OLD, LATER, FIRST, "register: registering → absent, replying UNKNOWN, emitting closed"),
    ("nri-plugin", OLD, LATER, SECOND, "register: active → active, replying ok (relabelled)"),
    ("nri-plugin", OLD, LATER, SECOND, "stop: active → active, replying ok (left)"),
    # Synchronisation can be blocked only in the newer version.
    ("nri-api", OLD, LATER, FIRST, "block: started → started, replying UNIMPLEMENTED (refused)"),
    ("nri-api", OLD, LATER, SECOND, "block: started → blocked, replying ok (blocked)"),
    ("nri-api", OLD, LATER, SECOND, "block: created → held, replying ok (blocked)"),
    # Updates of pods exist only in the newer version.
    ("nri-api", LATER, NEW, FIRST, "relay-pod-update: started → started, replying UNIMPLEMENTED (refused)"),
    ("nri-api", LATER, NEW, SECOND, "relay-pod-update: started → started, replying ok, emitting relayed (ok)"),
    ("nri-pod", LATER, NEW, FIRST, "update-pod-sandbox: running → running, replying UNIMPLEMENTED (refused)"),
    (
        "nri-pod",
        LATER,
        NEW,
        SECOND,
        "update-pod-sandbox: running → running, replying ok, emitting UpdatePodSandbox (ok, lost)",
    ),
    ("nri-pod", LATER, NEW, FIRST, "post-update-pod-sandbox: absent → absent, replying UNIMPLEMENTED (refused)"),
    (
        "nri-pod",
        LATER,
        NEW,
        SECOND,
        "post-update-pod-sandbox: running → running, replying ok, emitting PostUpdatePodSandbox (ok, lost)",
    ),
]


def told(name: str, first: str, second: str) -> tuple[int, list[str]]:
    """Return the exit code of ``fsm diff`` and its output in three parts.

    The first part is about both versions, the second only about *first*, and the third only about *second*.
    """
    ran = CliRunner().invoke(command, [name, "-p", first, "-p", second], standalone_mode=False)
    parts = ran.output.split(f"\nonly in {name} as ")
    by = {part.splitlines()[0]: "".join(map(arrows, re.split(r"\n  (?! )", part)[1:])) for part in parts[1:]}
    return ran.return_value, [parts[0], by.get(first, ""), by.get(second, "")]


def arrows(line: str) -> str:
    """Split a line into a separate line for each of its arrows."""
    found = re.fullmatch(r"(\S+): ((?:\S+ → [^\s,]+, )*\S+ → [^\s,]+)(.*)", " ".join(line.split()))
    assert found is not None
    return "".join(f" {found[1]}: {each}{found[3]}\n" for each in found[2].split(", "))


@pytest.mark.parametrize(
    ("name", "first", "second", "which", "line"), DIFFERENCES, ids=lambda each: str(each).partition(",")[0]
)
def test_what_has_changed(name: str, first: str, second: str, which: int, line: str) -> None:
    code, parts = told(name, first, second)

    assert code == 1
    assert [line in part for part in parts] == [False, which == FIRST, which == SECOND]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("nri-container", OLD, LATER), ("nri-pod", OLD, LATER)],
)
def test_what_has_not_changed(name: str, first: str, second: str) -> None:
    assert told(name, first, second)[0] == 0


def test_nothing_else_has_changed() -> None:
    for name, first, second in {row[:3] for row in DIFFERENCES}:
        _, (_, *only) = told(name, first, second)
        events = {event for event in load(name).events for part in only if f" {event}: " in f" {part} "}
        expected = {row[4].partition(":")[0] for row in DIFFERENCES if row[:3] == (name, first, second)}
        assert events == expected


def test_a_registration_and_a_call_wait_for_each_other_in_the_oldest() -> None:
    """Only the oldest version may fail the property ``registrations-end``."""
    [stated] = [each for each in claims("nri-locks").properties if each.name == "registrations-end"]

    assert [stated.expected(each) is not None for each in (OLD, None, "nri-0.12.1")] == [True, False, False]
