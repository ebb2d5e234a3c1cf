"""Silent cells that erase the monitor's knowledge are reported, and no recording of a runtime reaches one."""

from __future__ import annotations

from json import loads

import pytest

from fsm.checker import examine, washed_out
from fsm.language.build import build
from fsm.language.library import load, names
from fsm.language.machine_file import Written
from fsm.language.read import parse
from fsm.machine import Machine
from fsm.machine.property.claims import Specification
from fsm.report.check_report import json, text
from fsm.runtimes.recordings.runtime_forms import CALLS, EVENTS, LOG

DOOR = """\
[machine]
name    = "door"
title   = "A door"
about   = "Opens."
source  = "none"
initial = "shut"

[states]
shut   = {{ about = "Closed." }}
open   = {{ about = "Open." }}
broken = {{ about = "Out of order." }}

[event.push]
kind    = "call"
about   = "Open it."
clause  = "pushed"
says    = "It opens."
{level} = "none"
moves   = {{ shut = "open" }}
ignores = ["open"]
silent  = ["broken"]

[event.{breaks}]
kind   = "{kind}"
about  = "It breaks."
cannot = ["broken"]
moves  = {{ shut = "open", open = "broken" }}
"""

SHOWN = {
    "cri-container": CALLS.shown or (),
    "cri-pod": CALLS.shown or (),
    "container-status": LOG.shown or (),
    "pod-sandbox": LOG.shown or (),
    "plugin-container": EVENTS.shown or (),
    "plugin-pod": EVENTS.shown or (),
}
"""The signals that recordings show, by the machines that judge them; the plugin's own events are outputs."""


def door(*, level: str = "MUST", kind: str = "hidden") -> Specification[Machine]:
    written = DOOR.format(level=level, kind=kind, breaks="wear")
    return Specification(machine=build(parse(written.encode(), Written, path="door.toml")), properties=())


def test_a_silent_cell_behind_a_hidden_event_is_reported() -> None:
    """The report has a path to it, as text and as data."""
    examined = examine(door())

    assert examined.washed_out == (("push", "broken", "wear"),)
    assert "silent on push in broken, where wear may lead unobserved: anything may follow" in " ".join(
        text([examined]).split()
    )
    assert loads(json([examined]))["machines"][0]["washed_out"] == [
        {"event": "push", "state": "broken", "leads": "wear"}
    ]


@pytest.mark.parametrize("specification", [door(level="MAY"), door(kind="signal")], ids=["left open", "observed"])
def test_one_that_is_meant_or_seen_is_not(specification: Specification[Machine]) -> None:
    """A cell that the contract leaves open on purpose is not reported, and neither is one behind an observed event."""
    assert examine(specification).washed_out == ()
    assert "silent on" not in text([examine(specification)])


def test_an_unobserved_event_that_is_silent_washes_out_by_itself() -> None:
    """It is reported in every state in which it may happen."""
    found = washed_out(load("stats-collector"), ["start"])

    assert found
    assert {(event, leads) for event, _, leads in found} == {("start", "start")}


@pytest.mark.parametrize("name", names())
def test_no_hidden_event_washes_out_what_is_known(name: str) -> None:
    """This is checked for every shipped model under every profile."""
    machine = load(name)

    assert [washed_out(machine.under(profile)) for profile in (None, *machine.profiles)] == [
        () for _ in (None, *machine.profiles)
    ]


@pytest.mark.parametrize("name", SHOWN)
def test_nothing_that_a_recording_leaves_out_does(name: str) -> None:
    """This includes signals that a client, a log or a plugin does not see, in the models for these recordings."""
    machine = load(name)
    unseen = [event.name for event in machine.events.values() if event.kind != "call" and event.name not in SHOWN[name]]

    assert unseen
    for profile in (None, *machine.profiles):
        assert washed_out(machine.under(profile), unseen) == ()
