"""Merged coverage counts each recording once, and keeps machines apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from commands import RECORDINGS

from fsm.monitor.judgement import Judged, judge
from fsm.monitor.judgement.coverage import MachineCoverage, merged

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture(scope="module")
def calls() -> Judged:
    return judge(RECORDINGS / "cri-calls-2.1.9.jsonl")


def counts(found: tuple[MachineCoverage, ...]) -> list[Mapping[tuple[str, str], Mapping[str, int]]]:
    return [{cell: by for cell, by in each.cells.items() if by} for each in found]


def test_one_is_as_it_was(calls: Judged) -> None:
    own = [
        {cell: {calls.name: count} for cell, count in judgement.covered.cells.items() if count}
        for judgement in calls.judgements
    ]

    assert counts(merged([calls])) == counts(merged([calls, calls])) == own
    assert [each.covered for each in merged([calls])] == [frozenset(each) for each in own]


def test_two_are_added(calls: Judged) -> None:
    other = replace(calls, name="other", judgements=calls.judgements[::-1])

    both = counts(merged([calls, other]))

    assert all(by == {calls.name: by["other"], "other": by["other"]} for of in both for by in of.values())
    assert both == counts(merged([other, calls]))[::-1]


def test_machines_of_one_name_and_other_cells_stay_apart(calls: Judged) -> None:
    first, *_ = calls.judgements
    fewer = dict([*first.covered.cells.items()][:-1])
    other = replace(calls, name="other", judgements=(replace(first, covered=replace(first.covered, cells=fewer)),))

    found = merged([calls, other])

    assert [each.machine.name for each in found] == ["cri-container", "cri-pod", "cri-container"]
    assert not found[0].same(found[2])
    assert {name for of in counts(found)[:2] for by in of.values() for name in by} == {calls.name}


def test_what_a_log_adds_to_calls(calls: Judged) -> None:
    log = judge(RECORDINGS / "containerd-2.1.9.log", models=["cri-container"])

    ((alone, _), (beside, _)) = merged([calls]), merged([calls, log])

    assert ("exit" in alone.unseen, "exit" in beside.unseen) == (True, False)
    assert alone.seen == beside.seen == frozenset({"restart"})
