"""Describe findings in words that all formats share."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

from fsm.errors import plural as plural  # noqa: PLC0414  (other modules of this package import it from here)
from fsm.machine import Clause
from fsm.machine.findings import Assumed, Cause, Finding, Repair, TimeLimit, Tolerated, Violation
from fsm.machine.terms import word
from fsm.machine.timers import duration
from fsm.monitor.grouping import NAMED
from fsm.recordings import either as either  # noqa: PLC0414  (reports name it words.either)
from fsm.trace import Line, Observation

K = TypeVar("K")
V = TypeVar("V")

_LONG: Final = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def short(text: str) -> str:
    """Shorten 64-digit ids in *text* to their first 12 digits.

    >>> short("door " + "d1d12d2e084c" + "0" * 52)
    'door d1d12d2e084c'
    """
    return _LONG.sub(r"\1", text)


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Group values by key. Keys and values keep their order.

    >>> grouped([("push", "shut"), ("pull", "open"), ("push", "open")])
    {'push': ['shut', 'open'], 'pull': ['open']}
    """
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def nested(cells: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Group the counts of (event, state) pairs by event, and then by state."""
    rows = grouped((event, (state, count)) for (event, state), count in cells.items())
    return {event: dict(row) for event, row in rows.items()}


def exercised(counts: Collection[int]) -> str:
    met = sum(1 for count in counts if count)
    return f"exercised {met:,} of {plural(len(counts), '(event, state) pair')}"


def file(name: str) -> str:
    """Return the name of a file for display.

    >>> file("-")
    'standard input'
    """
    return "standard input" if name == "-" else name


def clause(clause: Clause) -> str:
    return f"{clause.name} ({clause.level}): {clause.says}"


def place(line: Line, file: str) -> str:
    return f"{line.file if line.file != file else ''}:{line.number}"


def assumed(event: Assumed) -> str:
    return f"a {event.observation.event} {between(event)}"


def between(event: Assumed) -> str:
    seen = event.observation
    if seen.start is not None:
        return f"between {moment(seen.start)} and {moment(seen.end)}"
    return f"before {moment(seen.at) or f'line {event.line}'}"


def moment(at: int | str | None) -> str:
    """Format a time according to RFC 3339. The result is empty for an unknown time.

    >>> moment(1795172600859283083)
    '2026-11-20T11:03:20.859283083Z'
    """
    if isinstance(at, int):
        seconds, rest = divmod(at, 1_000_000_000)
        try:
            whole = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        except (OverflowError, ValueError, OSError):  # The year is out of range.
            return str(at)
        return f"{whole.isoformat()}.{rest:09}Z"
    return at or ""


def what(violation: Violation) -> str:
    seen, limit = violation.observation, violation.limit
    after = f" after {seen.event}" if seen.event else ""
    met = f" in state {seen.met}" if seen.met else ""
    showing = f", showing {seen.shows}" if seen.shows else ""
    shown = violation.illegal != seen.met or seen.met == seen.shows
    texts = {
        Cause.REPLY: f"{event(seen)} replied {seen.reply}{met}",
        Cause.STATE: f"{seen.shows} was shown{after}" if shown else f"{seen.event} met {seen.met}",
        Cause.EVENT: f"{seen.detail or f'{event(seen)} happened'}{showing}",
        Cause.OUTPUT: f"{violation.illegal or seen.output or 'nothing'} was emitted{after}",
        Cause.FIELDS: f"{seen.shows or seen.met or 'the state'} was shown with {violation.found}",
        Cause.PROPERTY: f"{violation.illegal} breaks the property {violation.clause.name}",
        Cause.TIME: _lateness(violation.illegal, limit),
    }
    return texts[violation.cause]


def _lateness(illegal: str, limit: TimeLimit | None) -> str:
    if limit is None:
        return f"{illegal} was not left in time"
    if limit.timer:
        happened = "happened too early" if limit.early else "did not happen in time"
        return f"{illegal} {happened}: timer {limit.timer} fires it {duration(limit.after)} after its start"
    return f"{illegal} was not left in time: {limit.after // 1_000_000_000} s after {limit.event}"


def event(seen: Observation) -> str:
    """Describe the event of *seen* with its arguments: ``pay(amount = 3)``."""
    args = ", ".join(f"{name} = {word(value)}" for name, value in (seen.args or {}).items())
    return f"{seen.event}({args})" if args else seen.event


def seen(observation: Observation) -> str:
    """Describe an observation without its entity.

    >>> seen(Observation(event="push", phase="reply", reply="NOT_FOUND", met="gone"))
    'push replied NOT_FOUND in state gone'
    """
    shows = f", showing {observation.shows}" if observation.shows else ""
    if not observation.event:
        return "observations are missing" if observation.phase == "gap" else f"{observation.output or 'state'}{shows}"
    met = f" in state {observation.met}" if observation.met else ""
    named = event(observation)
    replied = f"{named} {f'replied {observation.reply}' if observation.reply else 'ended'}{met}"
    happened = {
        "request": f"{named} was called",
        "reply": replied,
        "answered": replied,
        "lost": f"{named} was given up",
        "noticed": f"{named} was noticed",
        "maybe": f"{named} may have happened",
        "assumed": f"{named} may have happened",
        "gap": "observations are missing",
        "": replied if observation.reply else f"{named} happened",
    }
    return f"{happened[observation.phase]}{shows}"


def before(violation: Violation) -> str:
    """Return the states that were possible before the observation. The result is empty for fields and properties."""
    if violation.cause in {Cause.FIELDS, Cause.PROPERTY}:
        return ""
    since = f", since {moment(violation.limit.at)}" if violation.limit else ""
    return either(violation.before or ("none",)) + since


def allowed(violation: Violation) -> str:
    """Return the legal alternatives. The result is empty for a property."""
    if violation.cause is Cause.PROPERTY:
        return ""
    if limit := violation.limit:
        left = f"{violation.illegal} {'not before' if limit.early else 'by'}" if limit.timer else "left by"
        return f"{left} {moment(limit.at + limit.after)}"
    states = grouped((permission.what, permission.state) for permission in violation.permitted)
    if len(states) == 1:
        return _replies_text(*states)
    return "; ".join(f"{_replies_text(kind)} in {either(those)}" for kind, those in states.items()) or "nothing"


def _replies_text(those: tuple[str, ...]) -> str:
    return either([reply(each) for each in those] or ["nothing"])


def reply(name: str) -> str:
    return "any error" if name == "error" else name or "nothing"


def stretch(violation: Violation) -> str:
    found = violation.stretch
    if found is None or not found.operations:
        return ""
    count = plural(len(found.operations), "operation")
    if found.begins:
        text = f"no order explains the first {count}"
    elif len(found.operations) == 1:
        text = "no state explains this operation"
    else:
        text = f"no order explains these {count}, whatever the state before them"
    if found.beside and not found.begins:
        text += f" and whatever {plural(len(found.beside), 'operation')} in progress did"
    return text if found.least else f"{text}; there may be a shorter stretch"


def edits(violation: Violation) -> str:
    """Describe the smallest edit that makes the trace legal, as a phrase that completes "legal if".

    The result is empty if no edit was sought, or if the edit only replaces the reply with any legal reply.
    """
    if not violation.edits:
        trace = violation.stretch is None and violation.cause not in {Cause.FIELDS, Cause.PROPERTY, Cause.TIME}
        return "more than one edit is made" if trace else ""
    first = violation.edits[0]
    instead = [edit.instead for edit in violation.edits if edit.repair is first.repair]
    replies = either(map(reply, instead))
    texts = {
        Repair.REPLY: f"the reply is {replies}" if replies != allowed(violation) else "",
        Repair.REPEATED: "it is dropped: it repeats what came before",
        Repair.SWAPPED: f"it comes after the {first.instead} that follows",
        Repair.MISSING: f"{either(instead)} comes before it",
        Repair.EXTRA: "it is dropped",
    }
    return texts[first.repair]


def reasons(violation: Violation) -> list[str]:
    texts = (before(violation), allowed(violation), edits(violation), places(violation))
    labelled = zip(("in state", "expected", "legal if", "lines"), texts, strict=True)
    return [f"{label}: {text}" for label, text in labelled if text]


def places(violation: Violation) -> str:
    """Return the lines that together cause the violation. The result is empty if there is only one line."""
    files = {each.file for each in violation.lines} - {violation.file}
    places = [place(line, "" if files else violation.file) for line in violation.lines]
    return ", ".join(places) if places[1:] else ""


def known(violation: Violation) -> list[str]:
    found = []
    for (name, about), those in grouped(((each.name, each.about), each) for each in violation.resembles).items():
        until = [f"{each.profile} (until {each.until})" if each.until else each.profile for each in those]
        found.append(f"{name} of {' and '.join(dict.fromkeys(until))}: {about} Tolerated with that --profile.")
    return found


def tolerated(met: Tolerated) -> str:
    return either(each.name for each in (met.deviation, *met.others))


def done(met: Tolerated) -> str:
    return " Or: ".join(each.about for each in (met.deviation, *met.others))


# Phrases for the statuses whose names do not fit after a number of properties, as in "3 properties hold".
_PHRASES: Final = {
    "holds": "hold",
    "known": "fail as documented",
    "FAILS": "fail",
    "violated": "fail",
    "surprise": "fail below the level requested",
    "MENDED": "hold although documented to fail",
}


def tally(found: Sequence[str], noun: str = "") -> str:
    """Count the properties with each status. *noun* is added to the first count.

    >>> tally(["holds", "known"]), tally(["known", "vacuous"], "property")
    ('1 holds, 1 fails as documented', '1 property fails as documented, 1 vacuous')
    """
    parts: list[str] = []
    for status in (*_PHRASES, "vacuous", "unknown", "undecided", "not exercised", "not watched"):
        if count := found.count(status):
            phrase = _PHRASES.get(status, status)
            phrase = re.sub("^(hold|fail)", r"\1s", phrase) if count == 1 else phrase
            parts.append(f"{plural(count, noun) if noun and not parts else count} {phrase}")
    return ", ".join(parts) or "no properties"


def tally_of(found: Iterable[tuple[str, int]], size: Mapping[str, int], notes: Mapping[str, int]) -> list[str]:
    """Describe the number of findings, entities and notes.

    >>> tally_of([("surprise", 2), ("violation", 1), ("surprise", 1)], {"pod": 1}, {"lost": 3})
    ['1 violation', '3 surprises', '1 pod', 'lost (3)']
    """
    counts = Counter(dict.fromkeys(("violation", "surprise", "tolerated deviation"), 0))
    for severity, count in found:
        counts[severity] += count
    parts = [plural(count, word) for word, count in (*(+counts).items(), *size.items())]
    return parts + [f"{name} ({count:,})" for name, count in notes.items()]


def often(count: int) -> str:
    """Return an adverbial phrase for *count* occurrences.

    >>> often(1), often(1200)
    ('once', '1,200 times')
    """
    return "once" if count == 1 else f"{count:,} times"


def times(finding: Finding, entity: str) -> str:
    if finding.count == 1:
        return often(1)
    if finding.others:
        return f"and other causes, which are too many to list: {often(finding.count)} in total"
    least = "at least " if finding.entities >= NAMED else ""
    return f"{often(finding.count)}, on {least}{plural(finding.entities, entity)}"
