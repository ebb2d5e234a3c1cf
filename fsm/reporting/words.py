"""Sentences for findings: the same words in every format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, assert_never

from fsm.verdict import Cause, Repair

if TYPE_CHECKING:
    from fsm.machine import Deviation
    from fsm.verdict import Edit, Finding, Violation

_LONG: Final = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def short(text: str) -> str:
    """*text* with 64-digit ids cut to the 12 digits that people use.

    >>> short("container " + "d1d12d2e084c" + "0" * 52)
    'container d1d12d2e084c'
    """
    return _LONG.sub(r"\1", text)


def plural(count: int, word: str) -> str:
    """*count* and *word*, in the plural where it should be.

    >>> plural(1, "container"), plural(2, "container"), plural(2, "entity")
    ('1 container', '2 containers', '2 entities')
    """
    if count == 1:
        return f"1 {word}"
    return f"{count:,} {word[:-1]}ies" if word.endswith("y") else f"{count:,} {word}s"


def what(violation: Violation) -> str:
    """What was seen and is not legal."""
    seen = violation.observation
    match violation.cause:
        case Cause.REPLY:
            met = f" in state {seen.met}" if seen.met else ""
            return f"{seen.event} replied {seen.reply}{met}"
        case Cause.STATE:
            after = f" after {seen.event}" if seen.event else ""
            return f"{seen.shows} was shown{after}"
        case Cause.EVENT:
            return f"{seen.event} happened"
        case Cause.OUTPUT:
            return f"{seen.output} was told"
        case _:
            assert_never(violation.cause)


def before(violation: Violation) -> str:
    """The states possible before."""
    return ", ".join(violation.before) or "none"


def allowed(violation: Violation) -> str:
    """What would have been legal, by state where states differ."""
    kinds = dict.fromkeys(each.what for each in violation.permitted)
    if len(kinds) == 1:
        return _listed(next(iter(kinds)))
    return "; ".join(f"{each.state}: {_listed(each.what)}" for each in violation.permitted)


def _listed(what_: tuple[str, ...]) -> str:
    return " or ".join("any error" if each == "error" else each for each in what_) or "nothing"


def edit(each: Edit, violation: Violation) -> str:
    """The edit as an instruction."""
    match each.repair:
        case Repair.REPLY:
            return f"reply {'any error' if each.instead == 'error' else each.instead}"
        case Repair.REPEATED:
            return "drop it: it repeats what came before"
        case Repair.SWAPPED:
            return f"put it after the {each.instead} that follows"
        case Repair.MISSING:
            return f"add {each.instead} before it"
        case Repair.EXTRA:
            return f"drop the {violation.observation.event or 'observation'}"
        case _:
            assert_never(each.repair)


def edits(violation: Violation) -> str:
    """The smallest edit, and the others after it."""
    first = violation.edits[:1]
    missing = [each.instead for each in violation.edits if each.repair is Repair.MISSING]
    if first and first[0].repair is Repair.MISSING and len(missing) > 1:
        return f"add one of {', '.join(missing)} before it"
    return edit(first[0], violation) if first else "no single edit makes it legal"


def resembles(deviation: Deviation) -> str:
    """A known deviation, and how to have it tolerated."""
    until = f", until {deviation.until}" if deviation.until else ""
    return f"{deviation.name} of {deviation.profile}{until}: {deviation.about} Tolerated with --profile {deviation.profile}."


def times(finding: Finding, entity: str) -> str:
    """How often, on how many."""
    often = "once" if finding.count == 1 else f"{finding.count:,} times"
    return often if finding.count == 1 else f"{often}, {plural(finding.entities, entity)}"
