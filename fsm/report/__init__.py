"""Reports about recordings that were judged, and their exit codes.

A *violation* breaks a clause of the level asked for or above; what breaks a
weaker one is a *surprise*.  The formats stand in modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from fsm.errors import UNDECIDED, WRONG_INPUT, Problem
from fsm.machine import LEVELS, Level
from fsm.machine.findings import Finding, Illegal, Judgement, idle
from fsm.verdict import Holds, Unknown

if TYPE_CHECKING:
    from fsm.monitor.judgement import Judged  # other commands than judge need no recordings


class ExitCode(Enum):
    """The result of a report; its value is the exit code of the command."""

    HOLDS = 0
    FAILS = 1
    UNKNOWN = UNDECIDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Judged recordings, and the weakest level of which a breach is a failure.

    ``problems`` are those of recordings that could not be judged at all.  With ``every`` all violations are wanted
    where otherwise one of each cause is.
    """

    judged: tuple[Judged, ...]
    fail_on: Level = "MUST"
    problems: tuple[Problem, ...] = ()
    every: bool = False

    def fails(self, finding: Finding) -> bool:
        """Whether *finding* is a violation, and not a mere surprise."""
        return counts(finding.first[0].clause.level, self.fail_on)

    def findings(self, judgement: Judgement) -> tuple[Finding, ...]:
        """What was found, violations first, strongest clause first."""
        verdict = judgement.verdict
        found = verdict.findings if isinstance(verdict, Illegal) else ()
        return tuple(sorted(found, key=lambda each: -LEVELS.index(each.first[0].clause.level)))

    def answer(self, judgement: Judgement) -> ExitCode:
        match judgement.verdict:
            case Illegal(findings=findings, incomplete=incomplete):
                if any(self.fails(each) for each in findings):
                    return ExitCode.FAILS
                return ExitCode.UNKNOWN if incomplete else ExitCode.HOLDS
            case Unknown():
                return ExitCode.UNKNOWN
            case Holds():
                return ExitCode.HOLDS

    def of(self, judged: Judged) -> ExitCode:
        """The worst answer on one recording; machines that it does not concern count only if it concerns none."""
        concerned = [each for each in judged.judgements if each.entities or why(each) not in idle(each.machine.entity)]
        return worst([self.answer(each) for each in concerned or judged.judgements])

    def total(self) -> ExitCode:
        return worst([self.of(each) for each in self.judged] + [ExitCode.UNKNOWN for _ in self.problems])

    def code(self) -> int:
        """The exit code: a recording that cannot be judged outweighs whatever was found in others."""
        return WRONG_INPUT if self.problems else self.total().value

    def number(self, judged: Judged) -> int:
        """How many violations there are in one recording."""
        return sum(found.count for each in judged.judgements for found in self.findings(each) if self.fails(found))

    def each(self) -> Iterator[tuple[Judged, Judgement]]:
        for judged in self.judged:
            for judgement in judged.judgements:
                yield judged, judgement


def counts(level: Level, least: Level) -> bool:
    """Whether what breaks a clause of *level* is a violation, and not a surprise, where *least* is asked for."""
    return LEVELS.index(level) >= LEVELS.index(least)


def why(judgement: Judgement) -> str:
    """Why the machine could not answer, or not answer in full; empty where it could."""
    match judgement.verdict:
        case Unknown(why=reason) | Illegal(incomplete=reason):
            return reason
        case Holds():
            return ""


def worst(answers: Sequence[ExitCode | None]) -> ExitCode:
    """Failing beats not knowing, which beats holding; ``None`` does not count, and nothing at all is not known.

    >>> worst([ExitCode.HOLDS, ExitCode.UNKNOWN])
    <ExitCode.UNKNOWN: 3>
    """
    for answer in (ExitCode.FAILS, ExitCode.UNKNOWN):
        if answer in answers:
            return answer
    return ExitCode.HOLDS if ExitCode.HOLDS in answers else ExitCode.UNKNOWN
