"""Test results become clauses of the matrix. Simulated machines are tested in place of real versions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from commands import RECORDINGS
from conformance_matrix import AT_TIMES, differences, failed_again, failing_at_times, page
from matrix_cells import Cell, Column, Holds, NotCovered, Violated, changed, column, meets
from matrix_relays import told

from fsm.conformance.lookup import Simulated
from fsm.conformance.plan import steps as read_steps
from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.monitor.judgement import judge
from fsm.sut import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "1.6.20"
PROFILE = f"containerd-{VERSION}"


class Playing(Simulated):
    """A pod that follows its profile, except that *gone* is its answer to a ``stop`` of a removed pod."""

    def __init__(self, gone: str = "ok", lacks: str = "") -> None:
        super().__init__(load("cri-pod").under(PROFILE))
        self._gone, self._lacks = gone, lacks

    def arrange(self, event: str, outcome: str) -> bool:
        """Refuse every request. Otherwise, the test kit would ask for the deviations of the profile."""
        del event, outcome
        return False

    def do(self, event: str) -> str:
        if event == self._lacks:
            raise UnsupportedError("not here")
        was = self.shows()
        reply = super().do(event)
        return self._gone if (event, was) == ("stop", "absent") else reply


def measured(factory: Callable[[], Playing]) -> Column:
    machine = load("cri-pod")
    places = changed(machine, PROFILE)
    plain = conform(machine, factory, examples=0, aimed=lambda edge: meets(edge, machine, places))
    profiled = conform(machine, factory, profile=PROFILE, examples=2)
    return column(machine, VERSION, plain, profiled, fields=False)


def cell(found: Column, clause: str) -> Cell:
    return found.cells[clause]


def test_a_clause_that_is_kept_holds() -> None:
    found = measured(Playing)

    kept = cell(found, "stop-is-idempotent")
    assert isinstance(kept, Holds)
    assert kept.met == kept.cells
    assert () == found.differences


def test_what_the_profile_says_is_tolerated() -> None:
    """The result includes the shortest test that fails without the profile."""
    found = measured(lambda: Playing("NOT_FOUND"))

    broken = cell(found, "stop-is-idempotent")
    assert isinstance(broken, Violated)
    assert (("stop-of-removed",), True) == (broken.tolerated, broken.known)
    assert "1. stop  NOT_FOUND; shows absent" in broken.traces[0]
    assert "2. " not in broken.traces[0]
    assert () == found.differences


def test_what_the_profile_does_not_say_is_a_difference() -> None:
    found = measured(lambda: Playing("INTERNAL"))

    broken = cell(found, "stop-is-idempotent")
    assert isinstance(broken, Violated)
    assert ((), False) == (broken.tolerated, broken.known)
    assert broken.traces[-1:] == found.differences


def test_what_is_not_covered_has_a_reason() -> None:
    found = measured(lambda: Playing(lacks="run"))

    assert NotCovered(missed=("run is not supported (not here)",)) == cell(found, "run-makes-ready")


@pytest.mark.parametrize(
    ("gone", "shown"),
    [
        ("ok", "holds"),
        (
            "NOT_FOUND",
            f"tolerated: `stop-of-removed` ([trace](#cri-pod-stop-is-idempotent-{VERSION.replace('.', '')}))",
        ),
        ("INTERNAL", f"**violated** ([trace](#cri-pod-stop-is-idempotent-{VERSION.replace('.', '')}))"),
    ],
)
def test_the_page_shows_it(gone: str, shown: str) -> None:
    text = page([measured(lambda: Playing(gone))])

    assert f"| `stop-is-idempotent` | MUST | {shown} |" in text
    assert ("### cri-pod stop-is-idempotent 1.6.20" in text) == ("trace" in shown)


def test_what_matters_of_a_page_is_no_number_and_no_trace() -> None:
    one, other = page([measured(Playing)]), page([measured(lambda: Playing("NOT_FOUND"))])

    assert [] == list(differences(one, one.replace("holds |", "holds in 1 of 2 |")))
    ((line, by_chance),) = differences(other, one)
    assert "`stop-is-idempotent` has 'tolerated: `stop-of-removed`', and the page has 'holds'" in line
    assert not by_chance


def test_a_clause_that_a_page_has_not_is_a_difference() -> None:
    text = page([measured(Playing)])

    assert list(differences(text, text.replace("`stop-is-idempotent`", "`something-else`")))


@pytest.mark.parametrize(
    ("now", "then", "found"),
    [("holds", AT_TIMES, []), (AT_TIMES, "holds", [True]), (AT_TIMES, "not covered", [False])],
)
def test_what_fails_at_times_need_not_fail(now: str, then: str, found: list[bool]) -> None:
    """A flaky failure on the page need not happen again in a new run.

    A new flaky failure is reported as a difference that may be accidental.
    """
    new, kept = (f"## A pod\n\n| `a` | MUST | {each} |\n" for each in (now, then))

    assert found == [by_chance for _, by_chance in differences(new, kept)]


def test_what_a_plugin_was_told_need_not_show_the_state() -> None:
    """The clauses that plugin events cover may differ by chance, because the events need not show the state.

    The clauses that calls cover do not differ by chance.
    """
    title = load("nri-pod").title
    new = f"## {title}\n\n| `a` | MUST | holds |\n\n## A pod\n\n| `a` | MUST | holds |\n"

    found = differences(new, new.replace("holds", "not covered"))

    assert [(title, True), ("A pod", False)] == [(line.partition(":")[0], by_chance) for line, by_chance in found]


@pytest.mark.parametrize("profile", ["containerd-2.1.9", None])
def test_what_plugins_were_told_is_judged_with_and_without_the_profile(profile: str | None) -> None:
    """A start event after a stop is a violation, which the profile tolerates."""
    recording, machine = str(RECORDINGS / "2.1.9-nri.nri.jsonl.gz"), load("plugin-container")
    plain = judge(recording, models=[machine.name]).judgements
    profiled = judge(recording, models=[machine.name], profile=profile).judgements

    found = told(machine, "2.1.9", plain, profiled)

    broken = cell(found, "no-start-after-stop")
    assert isinstance(broken, Violated)
    tolerated = ("started-after-stop",) if profile else ()
    assert (tolerated, bool(profile)) == (broken.tolerated, broken.known)
    assert bool(profile) == (not found.differences)
    assert isinstance(cell(found, "stopped-once"), Holds)


class SeldomGone(Playing):
    """A pod that, in every seventh test, answers NOT_FOUND when it is stopped while absent."""

    _tests = 0

    def reset(self) -> None:
        super().reset()
        self._tests += 1
        self._gone = "ok" if self._tests % 7 else "NOT_FOUND"


def test_what_a_page_has_at_times_is_looked_for_again() -> None:
    """A flaky failure is reproduced, and its shortened test is written to the page and read back."""
    machine = load("cri-pod")
    steps = read_steps("run=ready; stop=stopped; remove; stop")

    failure = failed_again(machine, SeldomGone, steps)

    assert failure
    assert failure.repeated
    assert ("stop=stopped", 20) == ("; ".join(map(str, failure.steps)), failure.repeated[1])
    assert failed_again(machine, Playing, steps) is None
    tested = conform(machine, Playing, examples=0)
    found = column(machine, VERSION, replace(tested, failures=(failure,)), tested, fields=False)
    text = page([found])
    assert f"| `stop-is-idempotent` | MUST | {AT_TIMES} ([trace]" in text
    ((where, (kept,)),) = failing_at_times(text).items()
    assert (("cri-pod", VERSION), "stop-is-idempotent", failure.steps) == (where, kept.clause, kept.steps)
    assert f"```text\n{kept.trace}\n```" in text
    assert {} == failing_at_times(page([measured(lambda: Playing("NOT_FOUND"))]))
