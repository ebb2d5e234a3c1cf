"""Test cases with locations in files, for JUnit, SARIF and GitHub. The cases of ``fsm judge`` are made here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from fsm.errors import Problem
from fsm.machine import Clause
from fsm.machine.findings import Illegal, Judgement, Violation
from fsm.report import ExitCode, Report, why, words
from fsm.report.lanes import message
from fsm.trace import Line

if TYPE_CHECKING:
    from fsm.monitor.judgement import Judged

# *known* is a tolerated deviation or a documented failure. *skipped* cases were not decided. *untried* cases were not
# exercised, and are listed only in JUnit.
CaseStatus: TypeAlias = Literal["passed", "failed", "surprise", "known", "skipped", "untried"]

RemarkStatus: TypeAlias = Literal["assumed", "unknown", "idle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    suite: str  # the recording, or the subject of the test
    name: str  # the machine; for properties of a recording, followed by /properties
    clause: Clause
    at: Line
    status: CaseStatus
    what: str = ""  # why the case did not pass, in one line
    detail: str = ""  # the evidence, below a line that states the finding
    excuse: str = "known failure, which is documented with the property"  # why this is not a failure
    facts: tuple[str, ...] = ()  # further labelled lines
    entity: str = ""
    others: tuple[Line, ...] = ()  # other places that are part of the evidence
    count: int = 0  # 0 if the number is unknown
    again: bool = False  # whether the previous case has the same cause

    @property
    def title(self) -> str:
        return f"{self.clause.name} ({self.clause.level})"

    @property
    def text(self) -> str:
        return f"{self.title}: {self.what}"

    @property
    def rule(self) -> str:
        return f"{self.name}/{self.clause.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """An assumed event, or the reason for an unknown verdict. ``name`` is the machine."""

    suite: str
    name: str
    at: Line
    status: RemarkStatus  # idle: the recording does not concern the machine
    what: str

    @property
    def title(self) -> str:
        return f"{self.name} {'assumes an event' if self.status == 'assumed' else 'unknown'}"

    @property
    def text(self) -> str:
        return f"{self.name} {'assumes' if self.status == 'assumed' else 'unknown,'} {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    command: str
    found: tuple[Case | Remark, ...]
    answer: ExitCode
    problems: tuple[Problem, ...] = ()  # why some recordings could not be judged at all
    every: bool = False  # show all cases instead of one per cause


def cases(report: Report) -> Cases:
    found = tuple(case for each in report.judgements() for case in _judgement(report, *each))
    return Cases(command="judge", found=found, answer=report.total(), problems=report.problems, every=report.every)


def _judgement(report: Report, judged: Judged, judgement: Judgement) -> Iterator[Case | Remark]:
    machine, reason = judgement.machine, why(judgement)
    suite = f"{words.file(judged.name)} {machine.name}"
    remark = partial(Remark, suite=suite, name=machine.name)
    if reason:
        unknown = report.answer(judgement) is report.of(judged) is ExitCode.UNKNOWN
        yield remark(at=Line(judged.name, 0), status="unknown" if unknown else "idle", what=reason)
    for event in judgement.assumed:
        yield remark(at=Line(event.file, event.line), status="assumed", what=words.assumed(event))
    watched = {prop.clause: prop for prop in judgement.properties}

    def case(clause: Clause) -> Callable[..., Case]:
        name = f"{machine.name}/properties" if clause in watched else machine.name
        return partial(Case, suite=suite, clause=clause, name=name)

    undecided = reason if reason not in {each.why for each in judgement.properties} else ""
    for clause, exercised in _clauses(judgement).items():
        seen = watched.get(clause)
        skipped = (f"{seen.status}: {seen.why}" if seen.why else "") if seen else undecided and f"unknown: {undecided}"
        unmet = "" if exercised or seen else "not exercised: the recording reached no cell of the clause"
        what = skipped or unmet
        yield case(clause)(at=Line(judged.name, 0), status="untried" if what else "passed", what=what)
    for finding in report.findings(judgement):
        for number, each in enumerate(finding.first, 1):
            at, entity = words.moment(each.observation.at), each.observation.entity
            yield case(each.clause)(
                at=Line(each.file, each.line),
                status="failed" if report.fails(finding) else "surprise",
                what=f"{words.what(each)} ({words.times(finding, machine.entity)})",
                detail=message(finding, each, machine.entity),
                facts=(*([f"at: {at}"] if at else []), f"{machine.entity}: {entity}"),
                entity=entity,
                others=_other_lines(each),
                # The last reported violation also counts those that were not reported.
                count=finding.count - number + 1 if number == len(finding.first) else 1,
                again=number > 1,
            )
    for met in judgement.tolerated:
        first, deviation = met.first, met.first.deviation
        what = f"tolerated deviation {words.tolerated(first)} of {deviation.profile}"
        yield case(deviation.clause)(
            at=Line(first.file, first.line),
            status="known",
            what=what,
            detail=f"{what}: {words.done(first)} ({words.often(met.count)})",
            excuse=f"declared in profile {deviation.profile}",
            entity=first.observation.entity,
            count=met.count,
        )


def _clauses(judgement: Judgement) -> dict[Clause, bool]:
    covered = judgement.covered
    found: dict[Clause, bool] = {}
    for event in judgement.machine.events.values():
        for state, cell in event.cells.items():
            found[cell.clause] = found.get(cell.clause, False) or covered.cells.get((event.name, state), 0) > 0
    found |= {judgement.machine.requires[name].clause: count > 0 for name, count in covered.fields.items()}
    findings = judgement.verdict.findings if isinstance(judgement.verdict, Illegal) else ()
    broken = (each.first[0].clause for each in findings)
    return found | dict.fromkeys((*broken, *(each.clause for each in judgement.properties)), True)


def _other_lines(violation: Violation) -> tuple[Line, ...]:
    first, stretch = Line(violation.file, violation.line), violation.stretch
    lines = [*violation.lines, *(Line(violation.file, each.line) for each in (stretch.operations if stretch else ()))]
    return tuple(each for each in dict.fromkeys(lines) if each != first)


def near(path: str, line: int) -> Line:
    """Make *path* relative to the current directory if it is inside. Some tools expect paths within a repository."""
    below = os.path.relpath(path) if os.path.isabs(path) else path  # noqa: PTH117  (the path is text)
    return Line(path if below.startswith(os.pardir) else below, max(line, 1))
