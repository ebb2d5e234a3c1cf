"""Results of ``fsm check`` and ``fsm test`` as cases with file locations, for JUnit, SARIF and GitHub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fsm.conformance.failure import Failure
from fsm.conformance.race_runs import Race
from fsm.conformance.tested import Tested
from fsm.machine import Clause, Level, Machine
from fsm.machine.property import evidence
from fsm.machine.property.claims import Property
from fsm.report import ExitCode, check_report, conformance_report, failures, words
from fsm.report.check_report import PropertyStatus
from fsm.report.lanes import raced
from fsm.report.layout import PLAIN
from fsm.report.property_report import PropertyTestReport, why

CaseStatus: TypeAlias = Literal["passed", "failed", "surprise", "known", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A clause or property and its location.  If it did not pass, ``what`` says why and ``detail`` is the evidence."""

    suite: str
    name: str
    clause: Clause
    file: str
    line: int
    status: CaseStatus
    what: str = ""
    detail: str = ""

    @property
    def title(self) -> str:
        return f"{self.clause.name} ({self.clause.level})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """All cases of one run of *command*, and the overall answer."""

    command: str
    found: tuple[Case, ...]
    answer: ExitCode


_STATUS: dict[PropertyStatus, CaseStatus] = {
    PropertyStatus.HOLDS: "passed",
    PropertyStatus.KNOWN: "known",
    PropertyStatus.FAILS: "failed",
    PropertyStatus.MENDED: "failed",
    PropertyStatus.SURPRISE: "surprise",
}
"""Maps property statuses to case statuses.  A status that is not listed is ``skipped``."""


def of_check(examined: Sequence[evidence.Examined]) -> Cases:
    """Return a case for each property under each profile, and one for each machine of unexpected size."""
    found = []
    for each in examined:
        suite = f"{each.machine.name}, {each.profile}" if each.profile else each.machine.name
        file = near(each.path or each.machine.path)
        if each.resized and each.expected is not None:
            what = f"expect has {check_report.sized(each.expected)}; it is {check_report.sized(each.counts)}"
            clause = Clause(name="expect", says="It has the size that is expected.", level="MUST", source=file)
            found.append(
                Case(suite=suite, name=each.machine.name, clause=clause, file=file, line=1, status="failed", what=what)
            )
        for one in each.checked:
            status = check_report.status(one)
            detail = "\n".join(line.removeprefix("    ") for line in check_report.lines(one, PLAIN))
            found.append(_of_property(one.of, suite, each.machine.name, file, status, detail))
    return Cases(command="check", found=tuple(found), answer=check_report.answer(examined))


def _of_property(stated: Property, suite: str, machine: str, file: str, status: PropertyStatus, detail: str) -> Case:
    come = _STATUS.get(status, "skipped")
    what = "" if come == "passed" else f"{status.word.lower()}: {stated.says}"
    return Case(
        suite=suite,
        name=machine,
        clause=stated.clause,
        file=file,
        line=max(stated.line, 1),
        status=come,
        what=what,
        detail="" if come == "passed" else detail,
    )


def of_property_tests(report: PropertyTestReport, file: str) -> Cases:
    """Return a case for each property of the property file *file* that was tested."""
    found = []
    for each in report.results:
        status = report.status(each)
        detail = "\n".join([each.of.says, *failures.evidence(each.failure, PLAIN)]) if each.failure else why(each)
        found.append(_of_property(each.of, report.sut, report.of.name, near(file), status, detail))
    return Cases(command="test", found=tuple(found), answer=report.answer())


def of_test(tested: Tested, least: Level, at_least: float = 0) -> Cases:
    """Return a case for each failure, and one for each clause of the machine that no failure breaks."""
    machine = tested.oracle.plan.table.machine
    races: tuple[Race, ...] = tested.races.found if tested.races else ()
    every: tuple[Failure | Race, ...] = (*tested.failures, *races)
    broken = [_of_failure(tested, each, machine, least) for each in every]
    named = {each.clause for each in broken}
    clauses: dict[Clause, tuple[int, bool]] = {}
    for row, state in tested.reachable:
        met = tested.cover.cells[row, state] > 0
        event = tested.oracle.plan.table.rows[row]
        cells = event.event.ends if event.ends else event.event.cells
        cell = cells[tested.oracle.plan.table.states[state]]
        line, before = clauses.get(cell.clause, (cell.line, False))
        clauses[cell.clause] = (line, before or met)
    kept = [
        Case(
            suite=tested.sut or machine.name,
            name=machine.name,
            clause=clause,
            file=near(machine.path),
            line=max(line, 1),
            status="passed" if met else "skipped",
            what="" if met else "not exercised: no test met one of its cells",
        )
        for clause, (line, met) in clauses.items()
        if clause not in named
    ]
    return Cases(command="test", found=(*broken, *kept), answer=conformance_report.answer(tested, least, at_least))


def _of_failure(tested: Tested, found: Failure | Race, machine: Machine, least: Level) -> Case:
    violation = found.violation
    clause = violation.clause if violation else found.clause if isinstance(found, Failure) else None
    if isinstance(found, Race):
        what, detail = "what several threads see at once is not legal", "\n".join(raced(found))
    else:
        what = words.what(violation) if violation else found.broken
        detail = failures.text(found)
    event = machine.events.get(violation.observation.event) if violation else None
    cells = (
        [event.cells[state].line for state in violation.before if state in event.cells] if violation and event else []
    )
    unnamed = Clause(name="answers", says="It answers what can be judged.", level="MUST", source=machine.source)
    return Case(
        suite=tested.sut or machine.name,
        name=machine.name,
        clause=clause or unnamed,
        file=near(machine.path),
        line=max(1, *cells[:1]),
        status="failed" if conformance_report.fails(found, least) else "surprise",
        what=what,
        detail=detail,
    )


def near(path: str) -> str:
    """Return *path* relative to the current directory if it is below it, as readers of repository files expect."""
    below = os.path.relpath(path) if os.path.isabs(path) else path  # noqa: PTH117  (the path is text)
    return path if below.startswith(os.pardir) else below
