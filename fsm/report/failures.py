"""One failed test in words."""

import shlex
from collections.abc import Iterator

from fsm.conformance.failure import Failure, Taken
from fsm.errors import visible
from fsm.report import words
from fsm.report.json_report import Json, picked
from fsm.report.layout import LABEL, PLAIN, Layout


def failure_text(failure: Failure, layout: Layout = PLAIN) -> str:
    """Describe one failure: what is illegal, the steps that lead to it, and why it is illegal."""
    return "\n".join(failure_lines(failure, layout, "violation"))


def failure_lines(failure: Failure, layout: Layout, word: str, again: str = "") -> Iterator[str]:
    """Yield the lines on *failure*, called *word*.  *again* is the command that ran the test."""
    violation, breaks = failure.violation, failure.breaks
    what = words.what(violation) if violation else failure.broken
    if breaks:
        what = f"it breaks {breaks.of.name} ({breaks.of.level}): {breaks.of.says}"
    what += f" — in {words.plural(len(failure.also) + 1, 'state')}" if failure.also else ""
    yield from layout.wrapped(f"{word}: {what}", marked=word)
    yield from evidence(failure, layout, again)


def evidence(failure: Failure, layout: Layout, again: str = "") -> Iterator[str]:
    """Yield the steps of the failing test, and why it fails."""
    violation, breaks = failure.violation, failure.breaks
    if failure.repeated:
        label = "flaky" if failure.repeated[0] < failure.repeated[1] else "certain"
        yield from layout.row(label, "fails in {:,} of {:,} repetitions".format(*failure.repeated))
    longest = max((len(str(taken.step)) for taken in failure.trace), default=0)
    for number, taken in enumerate(failure.trace):
        label = "test" if not number else ""
        yield f"    {label:<{LABEL}}{number + 1}. {taken.step!s:<{longest}}  {_seen(taken)}".rstrip()
    if violation:
        yield from layout.reasons(violation, edits=False)
    yield from layout.row("also in", ", ".join(map(words.either, failure.also)))
    yield from layout.row("hint", failure.hint)
    if failure.clause:
        yield from layout.clause(failure.clause)
    if breaks:
        numbers = words.either(str(number) for number in breaks.steps).replace(" or ", " and ")
        yield from layout.row("broken by", f"{breaks.text}, in {numbers}" if breaks.steps else breaks.text)
        yield from layout.row("source", breaks.of.source)
        yield from layout.row("", breaks.of.link)
    if again and failure.trace:
        steps = shlex.quote("; ".join(map(str, failure.steps)))
        yield f"    {'again':<{LABEL}}{again} --replay {steps}"


def trace_data(failure: Failure) -> list[Json]:
    """Return the steps of the failing test, each with its observation, for programs."""
    return [
        {
            "step": str(taken.step),
            "came": str(taken.came) if taken.came else None,
            **dict.fromkeys(("reply", "shows", "emits")),
            **(picked(taken.seen, "reply", "shows", emits="outputs") if taken.seen else {}),
        }
        for taken in failure.trace
    ]


def _seen(taken: Taken) -> str:
    seen = taken.seen
    if seen is None:
        return "no answer"
    reply = "in progress" if seen.reply is None else seen.reply
    parts = [f"came as {taken.came}"] if taken.came else []
    parts += [visible(reply)] if reply else []
    parts += [f"emits {', '.join(map(visible, seen.outputs))}"] if seen.outputs else []
    parts += [f"shows {visible(seen.shows)}"] if seen.shows else []
    return "; ".join(parts)
