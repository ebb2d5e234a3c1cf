"""Report the test results for the properties of a machine, with reasons."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from fsm.conformance.suite import PropertyTestResult
from fsm.errors import visible
from fsm.machine import Level, Machine
from fsm.machine.graph import reachable_pairs
from fsm.machine.table import tabulate
from fsm.report import ExitCode, counts, words, worst
from fsm.report.cases import Cases
from fsm.report.check_report import PropertyStatus, property_case
from fsm.report.conformance_report import covered, evidence
from fsm.report.json_report import Json, dumped, record
from fsm.report.layout import PLAIN, Layout, joined
from fsm.report.test_steps import trace_data

_LABEL: Final = 15


@dataclass(frozen=True, kw_only=True)
class PropertyTestReport:
    results: tuple[PropertyTestResult, ...]
    of: Machine
    sut: str
    profile: str | None
    least: Level  # Violations of weaker properties are reported as surprises, not as failures.
    at_least: float = 0  # minimum percentage of pairs to reach

    @cached_property
    def met(self) -> Mapping[tuple[int, int], int]:
        pairs = reachable_pairs(tabulate(self.of))
        return {pair: sum(result.cover.cells[pair] for result in self.results) for pair in pairs}

    @property
    def reached(self) -> int:
        return sum(1 for count in self.met.values() if count)

    def status(self, result: PropertyTestResult) -> PropertyStatus:
        if result.failure is not None:
            if result.of.expected(self.profile) is not None:
                return PropertyStatus.KNOWN
            return PropertyStatus.FAILS if counts(result.of.level, self.least) else PropertyStatus.SURPRISE
        if result.unseen or result.unwatchable:
            return PropertyStatus.UNKNOWN if result.unseen else PropertyStatus.UNWATCHABLE
        return PropertyStatus.UNEXERCISED if why(result) else PropertyStatus.HOLDS

    def answer(self) -> ExitCode:
        below = 100 * self.reached < self.at_least * len(self.met)
        return worst([*(self.status(result).answer for result in self.results), ExitCode.FAILS if below else None])

    @joined
    def text(self, layout: Layout) -> Iterator[str]:
        yield from (f"{layout.style(visible(self.sut), 'bold')}, tested for the properties of {self.of.name}", "")
        for result in self.results:
            yield from self._item(result, layout)
            yield from evidence(result.failure, layout) if result.failure is not None else ()
        come, statuses = self.answer(), [self.status(each) for each in self.results]
        nothing = come is ExitCode.UNKNOWN and PropertyStatus.UNKNOWN not in statuses
        why = ", because nothing puts the properties to the test" if nothing else ""
        yield from ("", *layout.wrapped(words.tally([each.word for each in statuses], "property")))
        yield from covered(tabulate(self.of), self.met, layout, self.at_least)
        yield f"  verdict: {layout.verdict(come)}{why}"

    def _item(self, result: PropertyTestResult, layout: Layout) -> Iterator[str]:
        status, of, reason = self.status(result), result.of, why(result)
        lead = f"  {status.word:<{_LABEL}}"
        says = f": {of.says}" if result.failure is not None else f": {reason}" if reason else ""
        yield from layout.wrapped(f"{of.name} ({of.level}){says}", lead, " " * len(lead), marked=status.word)
        if status is PropertyStatus.KNOWN and (known := of.expected(self.profile)):
            yield from layout.rows(("known", known.about), ("", known.link))

    def cases(self, file: str) -> Cases:
        found = []
        for result in self.results:
            detail = "\n".join([result.of.says, *evidence(result.failure, PLAIN)]) if result.failure else why(result)
            found.append(property_case(result.of, self.sut, self.of.name, file, self.status(result), detail))
        return Cases(command="test", found=tuple(found), answer=self.answer())

    def json(self) -> str:
        return dumped(
            {
                "verdict": self.answer().word,
                "sut": self.sut,
                "machine": self.of.name,
                "profile": self.profile,
                "reached": self.reached,
                "reachable": len(self.met),
                "properties": [self._data(result) for result in self.results],
            }
        )

    def _data(self, result: PropertyTestResult) -> Json:
        known = result.of.expected(self.profile)
        return {
            **record(result.of.clause),
            "status": self.status(result).word.lower(),
            "why": why(result) or None,
            "known": None if known is None else record(known, "length"),
            "test": None if result.failure is None else trace_data(result.failure),
        }


def why(result: PropertyTestResult) -> str:
    if result.unseen:
        return f"the property depends on {result.unseen}, which the SUT does not show; add the method {result.unseen}"
    unmet = f"no test certainly went through {words.either(result.unmet)}" if result.unmet else ""
    return result.untested or unmet
