"""The report on a comparison of two machines shows whether they are equivalent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from machines import DOOR, JOB, SAFE, counter, door, edited, job, machine_of
from nearly_alike import EARLY, LATE, NO_WARP, undecided

from fsm.checker.equivalence import compare
from fsm.machine.table import tabulate
from fsm.report import ExitCode, diff_report
from fsm.report.layout import Layout

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.machine.evidence import EquivalenceResult


def compared(first: Machine, second: Machine, limit: int = 100_000) -> EquivalenceResult:
    return compare(tabulate(first), tabulate(second), limit=limit)


def text(found: EquivalenceResult, names: tuple[str, str] = ("one", "other")) -> str:
    return diff_report.behaviour_text(found, names, Layout(width=80))


SAID = [
    # Two machines, and the complete report about them.
    (door(), door(), "one and other: equal\n  the two machines are equivalent: no observation distinguishes them\n"),
    (
        door(),
        machine_of(edited(DOOR, 'gone = "NOT_FOUND"', 'gone = "error"')),
        (
            "one and other: different\n"
            "  a shortest trace that only other has:\n"
            "    starts shut\n"
            "     1 remove replies ok   shut → gone\n"
            "     2 push replies STUCK  gone\n"
            "  one, then in gone, can only have push replying NOT_FOUND\n"
        ),
    ),
    (
        door(),
        machine_of(edited(DOOR, 'shows = "OPEN"', 'shows = "OPENED"')),
        (
            "one and other: different\n"
            "  a shortest trace that only one has:\n"
            "    starts shut\n"
            "     1 push replies ok emits Creak  shut → open\n"
            "     2 state observed               open\n"
            "  and OPEN is shown\n"
            "  other, then in open, can only have OPENED shown\n"
        ),
    ),
    (
        job(),
        machine_of(edited(JOB, "interrupts = true", "interrupts = false")),
        (
            "one and other: different\n"
            "  a shortest trace that only other has:\n"
            "    starts absent\n"
            "     1 make replies ok              absent → waiting\n"
            "     2 start (begins)               waiting → starting\n"
            "     3 crash (done)                 starting → waiting\n"
            "     4 start goes on (unspecified)  waiting\n"
            "  one, then in waiting, cannot have start continue\n"
        ),
    ),
    (
        door(),
        machine_of(NO_WARP),
        (
            "one and other: different\n"
            "  the two machines have the same traces, but choose at different moments:\n"
            "    one starts shut\n"
            "    other starts shut\n"
            "     1 something unobservable: one is in ajar, other in shut\n"
            "  now other can have slam, and one cannot\n"
        ),
    ),
    (
        machine_of(EARLY),
        machine_of(LATE),
        (
            "one and other: different\n"
            "  the two machines have the same traces, but choose at different moments:\n"
            "    one starts held\n"
            "    other starts held\n"
            "     1 toss: one is in one, other in one\n"
            "  now other can have tail, and one cannot\n"
        ),
    ),
]


@pytest.mark.parametrize(("first", "second", "said"), SAID, ids=range(len(SAID)))
def test_what_people_read(first: Machine, second: Machine, said: str) -> None:
    assert said == text(compared(first, second))


def test_all_that_could_be_instead() -> None:
    other = machine_of(edited(DOOR, 'gone = "NOT_FOUND"', 'gone = ["NOT_FOUND", "LATE", "BUSY"]'))
    found = compared(machine_of(edited(DOOR, 'gone = "NOT_FOUND"', 'gone = "STUCK"')), other)
    (said,) = [line.strip() for line in text(found).splitlines() if "can only" in line]

    assert "other, then in gone, can only have push replying NOT_FOUND, LATE or BUSY" == said


def test_machines_of_the_same_name() -> None:
    found = compared(counter(to=1), counter(to=2))

    assert text(found, ("counter", "counter")).startswith("counter (1) and counter (2): different\n")


def test_machines_with_data() -> None:
    same, wrong = machine_of(SAFE), machine_of(edited(SAFE, "failures < 2", "failures < 1"))
    found = compared(same, same)

    assert "no observation distinguishes them for code from 0 to 3" in " ".join(text(found).split())
    assert json.loads(diff_report.behaviour_json(found, ("one", "other")))["scope"] == ["code from 0 to 3"]
    said = " ".join(text(compared(same, wrong)).split())
    assert "1 enter (code = 0) replies WRONG locked, failures = 1" in said
    assert "other, then in locked, failures = 1, can only have enter (code = 0) replying BLOCKED" in said


def test_what_a_limit_leaves_open() -> None:
    one, other = machine_of(undecided(9)), machine_of(undecided(10))

    assert "one and other: unknown\n  the machines have more than 5 moments\n" == text(compared(one, other, 5))
    assert "no trace that does so was found within the limit" in " ".join(text(compared(one, other, 50)).split())


@pytest.mark.parametrize(
    ("second", "limit", "answer"),
    [(door(), 100, ExitCode.HOLDS), (machine_of(NO_WARP), 100, ExitCode.FAILS), (job(), 100, ExitCode.FAILS), (job(), 2, ExitCode.UNKNOWN)],
    ids=["same", "branching", "distinguished", "unknown"],
)  # fmt: skip
def test_what_programs_read(second: Machine, limit: int, answer: ExitCode) -> None:
    found = compared(door(), second, limit)
    document: Any = json.loads(diff_report.behaviour_json(found, ("one", "other")))
    given = {key for key, value in document.items() if value is not None}

    assert diff_report.behaviour_answer(found) is answer
    assert {
        ExitCode.HOLDS: ("equal", set()),
        ExitCode.UNKNOWN: ("unknown", {"why"}),
        ExitCode.FAILS: ("different", {"only", "trace", "run", "states", "instead"})
        if document["trace"]
        else ("different", {"only", "start", "rounds", "option", "every_trace"}),
    }[answer] == (document["verdict"], given - {"verdict", "first", "second"})
    assert 13 == len(document)
