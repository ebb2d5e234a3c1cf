"""What tests show of the properties of a machine: a word for each, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fsm.conformance.property_tests import PropertyTestResult
from fsm.errors import visible
from fsm.machine import Level
from fsm.report import ExitCode, counts, words, worst
from fsm.report.check_report import PropertyStatus
from fsm.report.failures import evidence, trace_data
from fsm.report.json_report import Json, dumped, record
from fsm.report.layout import Layout

_LABEL: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyTestReport:
    """What tests have shown of properties of a machine; the breach of one of a level below *least* is a surprise."""

    results: tuple[PropertyTestResult, ...]
    machine: str
    sut: str
    profile: str | None
    least: Level

    def status(self, result: PropertyTestResult) -> PropertyStatus:
        if result.failure is not None:
            if result.of.expected(self.profile) is not None:
                return PropertyStatus.KNOWN
            return PropertyStatus.FAILS if counts(result.of.level, self.least) else PropertyStatus.SURPRISE
        if result.unwatchable:
            return PropertyStatus.UNWATCHABLE
        return PropertyStatus.UNEXERCISED if why(result) else PropertyStatus.HOLDS

    def answer(self) -> ExitCode:
        """What all of it comes to; unknown if no property was put to the test."""
        return worst([self.status(each).answer for each in self.results])

    def text(self, layout: Layout) -> str:
        """The report for people, ending in a newline."""
        lines = [f"{layout.style(visible(self.sut), 'bold')}, tested for the properties of {self.machine}", ""]
        for each in self.results:
            lines += self._item(each, layout)
            if each.failure is not None:
                lines += evidence(each.failure, layout)
        come = self.answer()
        why = ", since nothing was put to the test" if come is ExitCode.UNKNOWN else ""
        tally = words.tally([self.status(each).word for each in self.results])
        lines += ["", *layout.wrapped(", ".join(tally)), f"  verdict: {layout.verdict(come)}{why}"]
        return "\n".join(lines) + "\n"

    def _item(self, result: PropertyTestResult, layout: Layout) -> Iterator[str]:
        """*result* without evidence."""
        status, of, reason = self.status(result), result.of, why(result)
        lead = f"  {status.word:<{_LABEL}}"
        says = f": {of.says}" if result.failure is not None else f": {reason}" if reason else ""
        what = f"{of.name} ({of.level}){says}"
        yield from layout.wrapped(what, lead, " " * len(lead), marked=status.word, how=status.colour)
        known = of.expected(self.profile)
        if status is PropertyStatus.KNOWN and known is not None:
            yield from layout.row("known", known.about)
            yield from layout.row("", known.link)

    def json(self) -> str:
        """The same as one JSON document, ending in a newline."""
        return dumped(
            {
                "verdict": self.answer().name.lower(),
                "sut": self.sut,
                "machine": self.machine,
                "profile": self.profile,
                "properties": [self._data(each) for each in self.results],
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
    """Why nothing put the property to the test, if so."""
    unmet = f"no test has certainly gone through {words.either(result.unmet)}" if result.unmet else ""
    return result.untested or unmet
