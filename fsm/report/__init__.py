"""Reports on judged recordings, and their exit codes.

A *violation* breaks a clause of the requested level or a stronger one. A *surprise* breaks a weaker clause. Each
output format has its own module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from fsm.errors import UNDECIDED, WRONG_INPUT, Problem
from fsm.machine import LEVELS, Level
from fsm.machine.findings import Finding, Judgement, Violation, idle

if TYPE_CHECKING:
    from fsm.monitor.judgement import Judged  # Only the judge command needs this.


class ExitCode(Enum):
    HOLDS = 0
    FAILS = 1
    UNKNOWN = UNDECIDED

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    judged: tuple[Judged, ...]
    fail_on: Level = "MUST"  # the weakest level whose violations count as failures
    problems: tuple[Problem, ...] = ()  # why some recordings could not be judged at all
    every: bool = False  # show all violations instead of one per cause

    def word(self, finding: Finding) -> str:
        return severity(fails=self.fails(finding))

    def fails(self, finding: Finding) -> bool:
        return counts(finding.first[0].clause.level, self.fail_on)

    def findings(self, judgement: Judgement) -> tuple[Finding, ...]:
        """Return the findings by the level of their clauses, strongest first. Violations come before surprises."""
        return tuple(sorted(judgement.findings, key=lambda each: -LEVELS.index(each.first[0].clause.level)))

    def answer(self, judgement: Judgement) -> ExitCode:
        if any(map(self.fails, judgement.findings)):
            return ExitCode.FAILS
        return ExitCode.UNKNOWN if judgement.why else ExitCode.HOLDS

    def of(self, judged: Judged) -> ExitCode:
        """Return the worst result for a recording. Irrelevant machines count only if all machines are irrelevant."""
        concerned = [each for each in judged.judgements if each.entities or each.why not in idle(each.machine.entity)]
        return worst([self.answer(judgement) for judgement in concerned or judged.judgements])

    def total(self) -> ExitCode:
        return worst([self.of(each) for each in self.judged] + [ExitCode.UNKNOWN for _ in self.problems])

    def code(self) -> int:
        """Return the exit code. A recording that cannot be judged takes precedence over all findings."""
        return WRONG_INPUT if self.problems else self.total().value

    def number(self, judged: Judged) -> int:
        return sum(found.count for each in judged.judgements for found in self.findings(each) if self.fails(found))

    def judgements(self) -> Iterator[tuple[Judged, Judgement]]:
        for judged in self.judged:
            for judgement in judged.judgements:
                yield judged, judgement


def single(violation: Violation) -> Finding:
    return Finding(first=(violation,), count=1, entities=1)


def counts(level: Level, least: Level) -> bool:
    return LEVELS.index(level) >= LEVELS.index(least)


def severity(*, fails: bool) -> str:
    return "violation" if fails else "surprise"


def worst(answers: Sequence[ExitCode | None]) -> ExitCode:
    """Return the worst exit code: fails, then unknown, then holds.

    ``None`` is ignored. If there are no other values, the result is unknown.

    >>> worst([ExitCode.HOLDS, ExitCode.UNKNOWN])
    <ExitCode.UNKNOWN: 3>
    """
    for answer in (ExitCode.FAILS, ExitCode.UNKNOWN):
        if answer in answers:
            return answer
    return ExitCode.HOLDS if ExitCode.HOLDS in answers else ExitCode.UNKNOWN
