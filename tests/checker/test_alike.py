"""A conclusion for one profile is reused for another only if the machine behaves identically under both."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from machines import job
from msgspec import structs

from fsm.checker import alike, examine
from fsm.checker.alike import Alike
from fsm.checker.cones import Cones
from fsm.language.library import claims, load, load_system
from fsm.machine import Clause, Deviation, Event
from fsm.machine.claims import Refines
from fsm.machine.conditions import At
from fsm.machine.in_progress import in_progress
from fsm.machine.table import Table, Way, tabulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.machine.evidence import Examined
    from fsm.machine.product.system import Part

NAMES = ["cri-pod", "nri-pod", "nri-container", "plugin-sync", "shared-ids", "late-updates"]


def examined(name: str, known: Alike | None) -> list[Examined]:
    of = claims(name)
    return [examine(of, profile, alike=known) for profile in (None, *of.machine.profiles)]


@pytest.mark.parametrize("name", NAMES)
def test_profiles_are_concluded_on_as_if_alone(name: str) -> None:
    assert examined(name, None) == examined(name, Alike())


@pytest.mark.parametrize("name", ["cri-pod", "plugin-sync"])
def test_it_is_noticed_if_what_differs_is_taken_for_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alike, "of", lambda self, _table: self._known[0])
    assert examined(name, None) != examined(name, Alike())


def test_profiles_that_differ_in_clauses_only_share_conclusions() -> None:
    known = Alike()
    first, second, other = (
        known.of(tabulate(load("cri-pod").under(profile)))
        for profile in ("containerd-2.0", "containerd-2.3", "containerd-1.6")
    )
    assert first is second
    assert first is not other


def test_cones_share_conclusions_unless_an_event_or_a_beginning_differs() -> None:
    system = load_system("shared-ids")
    claim, known = claims("shared-ids").properties[0].claim, Alike()
    name, part = next(iter(system.parts.items()))
    state = next(each for each in part.machine.states if each != part.initial)
    beginning = replace(system, parts={**system.parts, name: replace(part, initial=state)})
    events = replace(system, events={each: replace(event) for each, event in system.events.items()})

    found = [Cones(system=each, alike=known).stepping(claim).concluded for each in (system, replace(system))]
    others = [Cones(system=each, alike=known).stepping(claim).concluded for each in (beginning, events)]

    assert found[0] is found[1]
    assert all(each is not found[0] for each in others)


def changed(table: Table, change: Callable[[Event], Event]) -> Table:
    first, *rest = table.machine.events.values()
    events = {each.name: each for each in (change(first), *rest)}
    return replace(table, machine=replace(table.machine, events=events))


def otherwise(table: Table, change: Callable[[Way], Way]) -> Table:
    at = next(number for number, ways in enumerate(table.cells) if ways)
    ways = table.cells[at] or ()
    cells = [*table.cells]
    cells[at] = (change(ways[0]), *ways[1:])
    return replace(table, cells=tuple(cells))


CLAUSE = Clause(name="c", says="It is so.", level="MUST", source="none")
ODD = Deviation(name="odd", event="make", clause=CLAUSE, about="Odd.", profile="old")
MOVING: dict[str, Callable[[Table], Table]] = {
    "the machine's name": lambda it: replace(it, machine=replace(it.machine, name="other")),
    "names of states": lambda it: replace(it, states=[*it.states[:-1], "other"]),
    "what states show": lambda it: replace(it, shows=[*it.shows[:-1], "OTHER"]),
    "the initial state": lambda it: replace(it, initial=1),
    "an indefinite reply": lambda it: replace(it, machine=replace(it.machine, indefinite=("OTHER",))),
    "how many calls may be in progress": lambda it: in_progress(it, 2),
    "silence": lambda it: replace(it, cells=(None, *it.cells[1:])),
    "an event's name": lambda it: changed(it, partial(replace, name="other")),
    "an event's kind": lambda it: changed(it, partial(replace, kind="hidden")),
    "a call's name": lambda it: changed(it, partial(replace, rpc="Other")),
    "an interruption": lambda it: changed(it, partial(replace, interrupts=True)),
    "an outcome's name": lambda it: otherwise(it, partial(structs.replace, name="other")),
    "where it leads": lambda it: otherwise(it, partial(structs.replace, to=2)),
    "its reply": lambda it: otherwise(it, partial(structs.replace, reply=("OTHER",))),
    "its outputs": lambda it: otherwise(it, partial(structs.replace, emits=("Other",))),
    "its beginning": lambda it: otherwise(it, partial(structs.replace, begins=True)),
    "its deadline": lambda it: otherwise(it, partial(structs.replace, within=7)),
}
STANDING: dict[str, Callable[[Table], Table]] = {
    "nothing": replace,
    "what is said of an event": lambda it: changed(it, partial(replace, about="Something else.")),
    "what is said of the machine": lambda it: replace(it, machine=replace(it.machine, title="Another", clauses={})),
    "a deviation": lambda it: otherwise(it, partial(structs.replace, deviation=ODD)),
}


@pytest.mark.parametrize("what", [*MOVING, *STANDING])
def test_tables_share_conclusions_unless_they_move_otherwise(what: str) -> None:
    table, known = tabulate(job()), Alike()
    other = (MOVING | STANDING)[what](table)
    assert (known.of(table) is known.of(other)) == (what in STANDING)


def test_cones_share_conclusions_unless_a_part_in_them_is_another() -> None:
    system = load_system("shared-ids")
    claim, known = claims("shared-ids").properties[0].claim, Alike()
    name, part = next(iter(system.parts.items()))

    def concluded(other: Part) -> object:
        return Cones(system=replace(system, parts={**system.parts, name: other}), alike=known).stepping(claim).concluded

    own = concluded(part)
    assert concluded(replace(part, about="Something else.")) is own
    assert concluded(replace(part, heard=At(part=name, copies=(0,), states=frozenset({part.initial})))) is not own
    assert concluded(replace(part, without=frozenset({"other"}))) is not own


def test_what_a_refinement_is_compared_with_is_a_part_of_the_question() -> None:
    claim = next(each.claim for each in claims("container-status").properties if isinstance(each.claim, Refines))
    events = {name: replace(each, rpc="Other") for name, each in claim.other.events.items()}
    other = replace(claim, other=replace(claim.other, events=events))
    assert alike.conclusion_key(claim, None, 1) == alike.conclusion_key(replace(claim), None, 1)
    assert alike.conclusion_key(claim, None, 1) != alike.conclusion_key(other, None, 1)


def test_what_the_limit_stopped_is_not_known() -> None:
    known = Alike()
    few = examine(claims("cri-pod"), limit=1, alike=known)
    assert examine(claims("cri-pod"), alike=known) == examine(claims("cri-pod"))
    assert few != examine(claims("cri-pod"))


def test_a_drawing_is_compared_with_each_machine() -> None:
    """A comparison with a drawing is never reused, because a drawing also shows what profiles change."""
    drawn = [each.claim for each in claims("pod-sandbox").properties if each.name == "as-it-is-drawn"]
    assert [None] == [alike.conclusion_key(each, None, 1) for each in drawn]
