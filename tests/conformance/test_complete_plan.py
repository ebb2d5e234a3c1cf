"""If a machine with data has few configurations, each event is tested in each, so defects in single ones are found."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from data_machines import Draft, Implementation, defective, differs, drafts
from machines import machine_of

from fsm.conformance.complete_plan import CompletePlan
from fsm.conformance.lookup import Simulated
from fsm.conformance.plan import Plan
from fsm.conformance.suite import conform
from fsm.machine.table import tabulate
from fsm.report.conformance_report import text

if TYPE_CHECKING:
    from fsm.machine import Machine


def upload(parts: int = 3, more: str = "scope = true") -> Machine:
    return machine_of(f"""
[machine]
name = "upload"
title = "U"
about = "U."
source = "s"
initial = "live"
[states]
live = {{ about = "Parts are sent." }}
paused = {{ about = "Nothing is sent." }}
joined = {{ about = "The object exists." }}
[data]
parts = {{ from = 0, to = {parts}, {more}, about = "Parts that have arrived." }}
[event.part]
kind = "call"
about = "Send a part."
moves = {{ live = {{ stays = true, set = {{ parts = "parts + 1" }} }} }}
refuses = {{ "*" = "NOT_LIVE" }}
[event.pause]
kind = "call"
about = "Pause."
moves = {{ live = "paused", paused = "live" }}
refuses = {{ joined = "NOT_LIVE" }}
[event.join]
kind = "call"
about = "Join the parts."
refuses = {{ "*" = "NOT_LIVE" }}
moves.live = [
  {{ name = "joined", to = "joined", when = "parts > 0" }},
  {{ name = "empty", stays = true, when = "otherwise", reply = "EMPTY" }},
]
""")


class Upload:
    """A correct upload."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.state, self.parts = "live", 0

    def do(self, event: str) -> str:
        if self.state == "joined" or (self.state == "paused" and event != "pause"):
            return "NOT_LIVE"
        if event == "pause":
            self.state = "live" if self.state == "paused" else "paused"
        elif event == "part":
            self.parts += 1
        elif not self.parts:
            return "EMPTY"
        else:
            self.state = "joined"
        return "ok"

    def shows(self) -> str:
        return self.state

    def close(self) -> None: ...


class JoinsWhilePaused(Upload):
    """The defect needs a state and a value that no guard names."""

    def do(self, event: str) -> str:
        if (self.state, event) == ("paused", "join") and self.parts == 2:
            self.state = "joined"
            return "ok"
        return super().do(event)


class RefusesTheSixth(Upload):
    """The defect is beyond the scope."""

    def do(self, event: str) -> str:
        return "FULL" if event == "part" and self.parts == 5 and self.state == "live" else super().do(event)


def test_defects_at_a_state_with_a_value_and_beyond_a_scope_are_found() -> None:
    machine = upload()
    right, *wrong = (conform(machine, sut, examples=0) for sut in (Upload, JoinsWhilePaused, RefusesTheSixth))

    assert not right.failures
    assert right.configurations == (12 - 1, 12 - 1)  # nothing is joined without parts
    assert [["part", "part", "pause", "join"], ["part"] * 6] == [
        [step.event for step in tested.failures[0].steps] for tested in wrong
    ]


def test_the_report_counts_configurations() -> None:
    right = conform(upload(), Upload, examples=0)
    few = conform(upload(), Upload, examples=0, aimed=lambda edge: edge.step.event == "part")

    assert "tested every event in 11 of 11 configurations within the scopes" in text(right)
    assert few.configurations[0] < 11


@pytest.mark.parametrize(("parts", "configurations"), [(150, 452), (166, 500), (167, 0)])
def test_many_configurations_are_not_planned(parts: int, configurations: int) -> None:
    plan = CompletePlan(Plan(tabulate(upload(parts, "saturates = true"))))

    assert len({edge.source for edge in plan.edges}) == configurations


def test_values_beyond_a_scope_are_left_out_first() -> None:
    plan = CompletePlan(Plan(tabulate(upload(165))))

    assert len({edge.source for edge in plan.edges}) == 497


def test_machines_without_data_have_no_complete_plan() -> None:
    door = machine_of(
        '[machine]\nname = "door"\ntitle = "D"\nabout = "D."\nsource = "s"\ninitial = "open"\n[states]\n'
        'open = { about = "A." }\n[event.push]\nkind = "call"\nabout = "A."\nignores = ["open"]\n'
    )

    assert CompletePlan(Plan(tabulate(door))).edges == ()
    assert conform(door, lambda: Simulated(door), examples=0).configurations == (0, 0)


@dataclass
class Defective(Draft):
    """A draft with a wrong reply, a wrong state or a wrong value after one event in one configuration."""

    at: tuple[str, tuple[int, ...], str] = ("", (), "")
    wrong: str = ""
    instead: Any = None

    def step(
        self, state: str, values: dict[str, int], event: str, given: dict[str, Any]
    ) -> tuple[str, str, dict[str, int]]:
        reply, to, after = super().step(state, values, event, given)
        if (state, tuple(values.values()), event) != self.at:
            return reply, to, after
        if self.wrong == "reply":
            return {"ok": "NO", "NO": "ok"}[reply], to, after
        return (reply, self.instead, after) if self.wrong == "to" else (reply, to, {**after, self.wrong: self.instead})


def configurations(draft: Draft) -> list[tuple[str, tuple[int, ...]]]:
    met = {("s0", tuple(draft.first.values())): None}
    queue = [*met]
    for state, values in queue:  # the list grows
        for event in draft.arguments:
            for given in draft.given(event):
                _, to, after = draft.step(state, dict(zip(draft.first, values, strict=True)), event, given)
                if (node := (to, tuple(after.values()))) not in met:
                    met[node] = None
                    queue.append(node)
    return queue


def with_defect(chance: random.Random, draft: Draft) -> Defective:
    at = (*chance.choice(configurations(draft)), chance.choice([*draft.arguments]))
    wrong = chance.choice(["reply", "to", *draft.first])
    instead = chance.choice(draft.states) if wrong == "to" else chance.randint(0, draft.highest.get(wrong, 0))
    same = {each.name: getattr(draft, each.name) for each in fields(draft)}
    return Defective(**same, at=at, wrong=wrong, instead=instead)


@pytest.mark.parametrize(("seed", "machines"), [(4, 12), pytest.param(5, 120, marks=pytest.mark.slow)])
def test_each_defect_in_one_configuration_or_cell_is_found(
    seed: int, machines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = []
    for number, (draft, machine) in enumerate(islice(drafts(random.Random(seed)), machines)):
        right = conform(machine, partial(Implementation, draft), examples=0)
        assert not right.failures, draft.text()
        assert right.configurations == (len(configurations(draft)),) * 2
        for again in range(4):
            chance = random.Random(f"{number} {again}")
            made = [with_defect(chance, draft), defective(chance, draft)]
            wrong += [(machine, each) for each in made if differs(draft, each)]

    missed = [each for machine, each in wrong if not found(machine, each)]
    assert not missed, missed[0].text()
    assert len(wrong) > 2 * machines
    monkeypatch.setattr(CompletePlan, "edges", ())
    assert not all(found(*each) for each in wrong)


def found(machine: Machine, made: Draft) -> bool:
    return bool(conform(machine, partial(Implementation, made), examples=0, most=1).failures)
