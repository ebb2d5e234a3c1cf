"""What is concluded of one profile is taken for another only where both move alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fsm.checker import alike, examine
from fsm.checker.alike import Alike
from fsm.checker.cones import Cones
from fsm.library import claims, load, load_system
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    from fsm.property.evidence import Examined

NAMES = ["cri-pod", "nri-pod", "nri-container", "plugin-sync", "shared-ids", "late-updates"]


def examined(name: str, known: Alike | None) -> list[Examined]:
    """The conclusions on all profiles."""
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


def test_what_the_limit_stopped_is_not_known() -> None:
    known = Alike()
    few = examine(claims("cri-pod"), limit=1, alike=known)
    assert examine(claims("cri-pod"), alike=known) == examine(claims("cri-pod"))
    assert few != examine(claims("cri-pod"))


def test_a_drawing_is_compared_with_each_machine() -> None:
    """It shows what a profile changes beside the steps."""
    drawn = [each.claim for each in claims("pod-sandbox").properties if each.name == "as-it-is-drawn"]
    assert [None] == [alike.asked(each, None, 1) for each in drawn]
