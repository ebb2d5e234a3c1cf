"""What tests, or a recording, show of the properties of a machine: a word for each, and why."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from fsm.conformance.property_tests import PropertyTestResult
from fsm.machine import LEVELS, Level
from fsm.property.claims import KnownFailure, Property
from fsm.report import ExitCode, words, worst
from fsm.report.failures import evidence, trace_data
from fsm.report.json_report import Json, dumped
from fsm.report.layout import Layout


class PropertyTestStatus(Enum):
    """The conclusion about one property, in a word."""

    HOLDS = "holds"
    KNOWN = "known"
    FAILS = "FAILS"
    SURPRISE = "surprise"
    UNEXERCISED = "not exercised"
    UNWATCHABLE = "not watched"


ANSWERS: Final = {
    PropertyTestStatus.HOLDS: ExitCode.HOLDS,
    PropertyTestStatus.KNOWN: ExitCode.HOLDS,
    PropertyTestStatus.FAILS: ExitCode.FAILS,
    PropertyTestStatus.SURPRISE: ExitCode.HOLDS,
}
"""What each status comes to; the others come to nothing."""

COLOURS: Final = {
    PropertyTestStatus.HOLDS: "green",
    PropertyTestStatus.KNOWN: "blue",
    PropertyTestStatus.FAILS: "red",
    PropertyTestStatus.SURPRISE: "yellow",
    PropertyTestStatus.UNEXERCISED: "yellow",
    PropertyTestStatus.UNWATCHABLE: "yellow",
}
_PHRASES: Final = {
    "known": "{fails} as is known",
    "FAILS": "{fails}",
    "surprise": "{fails} below the level asked for",
    "not exercised": "{n} not exercised",
    "not watched": "{n} not watched",
}
_LABEL: Final = 15


class Shown(NamedTuple):
    """What is shown of a property; ``why`` it is neither held nor violated, if so."""

    of: Property
    known: KnownFailure | None
    violated: bool
    why: str = ""
    unwatchable: bool = False

    def status(self, least: Level) -> PropertyTestStatus:
        """The word for it, where a breach of a level below *least* is a surprise."""
        if self.violated:
            if self.known is not None:
                return PropertyTestStatus.KNOWN
            fails = LEVELS.index(self.of.level) >= LEVELS.index(least)
            return PropertyTestStatus.FAILS if fails else PropertyTestStatus.SURPRISE
        if self.unwatchable:
            return PropertyTestStatus.UNWATCHABLE
        return PropertyTestStatus.UNEXERCISED if self.why else PropertyTestStatus.HOLDS


def total(shown: Sequence[Shown], least: Level) -> ExitCode:
    """What all of it comes to; unknown if no property was put to the test."""
    return worst([ANSWERS[status] for each in shown if (status := each.status(least)) in ANSWERS])


def counts(shown: Sequence[Shown], least: Level) -> str:
    """How many of each there are.

    >>> counts([], "MUST")
    '0 hold'
    """
    return ", ".join(words.tally([each.status(least).value for each in shown], _PHRASES))


def item(shown: Shown, least: Level, layout: Layout) -> Iterator[str]:
    """*shown* in lines, without evidence."""
    status, of = shown.status(least), shown.of
    lead = f"  {status.value:<{_LABEL}}"
    says = f": {of.says}" if shown.violated else f": {shown.why}" if shown.why else ""
    first, *rest = layout.filled(f"{of.name} ({of.level}){says}", lead, " " * len(lead))
    yield first.replace(status.value, layout.style(status.value, COLOURS[status]), 1)
    yield from rest
    if status is PropertyTestStatus.KNOWN and shown.known is not None:
        yield from layout.row("known", shown.known.about)
        yield from layout.row("", shown.known.link)


def item_data(shown: Shown, least: Level) -> dict[str, Json]:
    """*shown* as data, without evidence."""
    of, known = shown.of, shown.known
    return {
        "name": of.name,
        "says": of.says,
        "level": of.level,
        "source": of.source,
        "link": of.link or None,
        "status": shown.status(least).value.lower(),
        "why": shown.why or None,
        "known": None if known is None else {"about": known.about, "link": known.link or None},
    }


def _shown(kept: PropertyTestResult, profile: str | None) -> Shown:
    unmet = f"no test has certainly gone through {words.either(kept.unmet)}" if kept.unmet else ""
    return Shown(
        of=kept.of,
        known=kept.of.expected(profile),
        violated=kept.failure is not None,
        why=kept.untested or unmet,
        unwatchable=kept.unwatchable,
    )


def answer(found: Sequence[PropertyTestResult], profile: str | None, least: Level) -> ExitCode:
    """What tests of all properties come to."""
    return total([_shown(each, profile) for each in found], least)


def text(
    found: Sequence[PropertyTestResult],
    layout: Layout,
    *,
    machine: str,
    sut: str,
    profile: str | None = None,
    least: Level = "observed",
) -> str:
    """The report of tests, ending in a newline."""
    shown = [_shown(each, profile) for each in found]
    lines = [f"{layout.style(words.visible(sut), 'bold')}, tested for the properties of {machine}", ""]
    for each, kept in zip(shown, found, strict=True):
        lines += item(each, least, layout)
        if kept.failure is not None:
            lines += evidence(kept.failure, layout)
    come = total(shown, least)
    why = ", since nothing was put to the test" if come is ExitCode.UNKNOWN else ""
    lines += ["", *layout.wrapped(counts(shown, least)), f"  verdict: {layout.verdict(come)}{why}"]
    return "\n".join(lines) + "\n"


def json(
    found: Sequence[PropertyTestResult],
    *,
    machine: str,
    sut: str,
    profile: str | None = None,
    least: Level = "observed",
) -> str:
    """The same as one JSON document, ending in a newline."""
    properties: list[Json] = [
        {**item_data(_shown(each, profile), least), "test": None if each.failure is None else trace_data(each.failure)}
        for each in found
    ]
    come = answer(found, profile, least).name.lower()
    return dumped({"verdict": come, "sut": sut, "machine": machine, "profile": profile, "properties": properties})
