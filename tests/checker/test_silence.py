"""Silent cells that unobserved events can reach are reported, and shipped machines have none."""

from __future__ import annotations

from json import loads

import pytest

from fsm.checker import examine, washed_out
from fsm.language.build import build
from fsm.language.library import load, names
from fsm.language.machine_file import Written
from fsm.language.read import parse
from fsm.machine import Machine
from fsm.machine.claims import Specification
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
"""The signals that recordings show for each machine.

The events of a plugin are outputs.
"""


def door(*, level: str = "MUST", kind: str = "hidden") -> Specification[Machine]:
    written = DOOR.format(level=level, kind=kind, breaks="wear")
    return Specification(machine=build(parse(written.encode(), Written, path="door.toml")), properties=())


def test_a_silent_cell_behind_a_hidden_event_is_reported() -> None:
    examined = examine(door())

    assert examined.washed_out == (("push", "broken", "wear"),)
    assert (
        "nothing is specified about push in broken, which wear may reach unobserved: anything may follow"
        in " ".join(text([examined]).split())
    )
    assert loads(json([examined]))["machines"][0]["washed_out"] == [
        {"event": "push", "state": "broken", "leads": "wear"}
    ]


@pytest.mark.parametrize("specification", [door(level="MAY"), door(kind="signal")], ids=["left open", "observed"])
def test_one_that_is_meant_or_seen_is_not(specification: Specification[Machine]) -> None:
    assert examine(specification).washed_out == ()
    assert "nothing is specified" not in text([examine(specification)])


def test_an_unobserved_event_that_is_silent_washes_out_by_itself() -> None:
    found = washed_out(load("stats-collector"), ["start"])

    assert found
    assert {(event, leads) for event, _, leads in found} == {("start", "start")}


@pytest.mark.parametrize("name", names())
def test_no_hidden_event_washes_out_what_is_known(name: str) -> None:
    machine = load(name)

    assert [washed_out(machine.under(profile)) for profile in (None, *machine.profiles)] == [
        () for _ in (None, *machine.profiles)
    ]


@pytest.mark.parametrize("name", SHOWN)
def test_nothing_that_a_recording_leaves_out_does(name: str) -> None:
    machine = load(name)
    unseen = [event.name for event in machine.events.values() if event.kind != "call" and event.name not in SHOWN[name]]

    assert unseen
    for profile in (None, *machine.profiles):
        assert washed_out(machine.under(profile), unseen) == ()
