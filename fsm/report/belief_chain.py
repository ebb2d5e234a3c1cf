"""The chain of beliefs about an entity: the states that each observation left possible or ruled out, and why."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from fsm.errors import visible
from fsm.machine import Clause
from fsm.machine.calls.unobserved import ASSUMED
from fsm.machine.findings import Cause
from fsm.machine.property.evidence import UsedCell
from fsm.machine.table import UNSPECIFIED, Done
from fsm.monitor.judgement.part import Story
from fsm.monitor.provenance import Provenance, RuledOut, provenance
from fsm.report import Report, single, words
from fsm.report.layout import Layout

STATES: Final = 6  # maximum number of states to name
# Words before a step that led to a state, according to what is known about the step.
_IF: Final = {
    "observed": ": ",
    "confirmed": ", as the call has acted: ",
    "in progress": ", if a call in progress has acted: ",
    "unobserved": ", if this was not observed: ",
}


def chain(story: Story, report: Report, layout: Layout, file: str) -> Iterator[str]:
    """Yield lines that describe the beliefs of *story*, from the recording *file*, and the clauses that they cite."""
    head = f"{story.machine.entity} {words.short(visible(story.entity))}, by {story.machine.name}"
    yield layout.style(head, "bold")
    clauses: dict[Clause | None, None] = {}
    for step in story.steps:
        last, found = step is story.steps[-1], [*map(provenance, step.followed)]
        lines = [("before", [_named(step.before)])] if step is story.steps[0] else []
        reasons = last or bool(step.violations)
        lines += rows(found, reasons=reasons)
        lines += [] if found else [("after", ["any state, as nothing is known from here on"])]
        what = words.short(f"{words.moment(step.seen.at)} {words.place(step.place, file)} {words.seen(step.seen)}")
        inline = sum(len(values) for _, values in lines) == 1 and not last
        yield from layout.wrapped(f"{what} — {lines.pop()[1][0]}" if inline else what)
        for label, values in lines:
            yield from (line for value in values for line in layout.row("" if value is not values[0] else label, value))
        for violation in step.violations:
            word = report.word(single(violation))
            yield from layout.wrapped(f"{word}: {words.short(words.what(violation))}", "    ", marked=word)
            explained = any(not each.legal for each in found)
            yield from (layout.remedies if explained else layout.reasons)(violation) if last else ()
        for each in found:
            clauses |= {use.clause: None for one in each.derivations for use in one.uses}
            clauses |= {one.clause: None for one in each.ruled_out if reasons}
    yield from ["  clauses"] * any(clauses)
    yield from (line for text in cited(clauses) for line in layout.wrapped(text, "    "))


def cited(clauses: Iterable[Clause | None]) -> list[str]:
    """Return the text of each of *clauses*."""
    return [f"{each.name} ({each.level}): {each.says} [{each.source}] {each.link}" for each in clauses if each]


def rows(found: Sequence[Provenance], *, reasons: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield labelled texts about the beliefs *found*.  If *reasons* is true, say why states were ruled out."""
    for each in found:
        if each is not found[-1]:
            yield "assumed", [f"{each.event} may have happened unobserved before this"]
        why = {one.state: _chain(one.uses) for one in each.derivations} if each.legal else {}
        yield (
            "after",
            _grouped((why.get(state, "" if each.legal else ", to judge what follows"), state) for state in each.after),
        )
        if each.ruled_out:
            yield "ruled out", _grouped((_reason(one, each) if reasons else "", one.state) for one in each.ruled_out)
        for names in each.needed:
            named = words.either(name.removeprefix(ASSUMED) for name in names)
            yield "assumed" if names[0].startswith(ASSUMED) else "tolerated", [f"only {named} explains it"]
        if each.note:
            yield "note", [each.note]


def _grouped(states: Iterable[tuple[str, str]]) -> list[str]:
    """Return a text for each reason in *states*, which are (reason, state) pairs."""
    return [f"{_named(those)}{reason}" for reason, those in words.grouped(states).items()]


def _reason(exclusion: RuledOut, found: Provenance) -> str:
    legal = dict.fromkeys(words.reply(one) for those in exclusion.permitted for one in those.what)
    what = words.either(legal or ["nothing"])
    would = {
        None: f"{found.event} would not have ended",
        Cause.TIME: "had to be left by then",
        Cause.EVENT: f"{found.event} cannot happen",
        Cause.REPLY: f"{found.event} would reply {what}",
        Cause.OUTPUT: f"would emit {what}",
    }
    return f": {would.get(exclusion.cause, f'would show {what}')}" + (
        f" [{exclusion.clause.name}]" if exclusion.clause else ""
    )


def _chain(uses: Iterable[UsedCell]) -> str:
    runs = [f"{_IF[known]}{', then '.join(map(used, those))}" for known, those in groupby(uses, lambda use: use.known)]
    return ", then".join(runs) or " as before"


def used(use: UsedCell) -> str:
    """Describe the step that used a cell, with the name of the cell's clause."""
    step, deviation = use.step, use.deviation
    moved = f" → {step.target}" if step.target != step.source else ""
    how = f" ({step.outcome})" if step.outcome not in {step.target, "done", "ok", "ignored", "refused"} else ""
    how = " (silent: anything may follow)" if step.outcome == UNSPECIFIED else how
    how = f" (deviation {deviation.name} of {deviation.profile})" if deviation else how
    clause = f" [{use.clause.name}]" if use.clause else ""
    if not isinstance(step, Done) and step.done:  # a joint event
        return f"{step.event}{how}{clause}"
    copy = f"{step.copy}: " if isinstance(step, Done) else ""
    return f"{copy}{step.event}{' ends' if step.ends else ''} in {step.source}{moved}{how}{clause}"


def _named(states: Sequence[str]) -> str:
    if len(states) > STATES:
        return f"{', '.join(states[: STATES - 2])} and {len(states) - STATES + 2} more"
    return words.either(states or ("none",))
