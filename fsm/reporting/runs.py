"""Runs of a machine, step by step, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.evidence import Run, Taken
    from fsm.reporting.data import Json


def steps(run: Run, *, indent: int) -> Iterator[str]:
    """Each step on a line: what happens, and the state before and after."""
    taken = [*run.steps, *run.cycle]
    happens = [_happens(each) for each in taken]
    longest = max((len(each) for each in happens), default=0)
    yield f"{'':{indent}}starts {run.initial}"
    for number, (each, what) in enumerate(zip(taken, happens, strict=True), 1):
        if number == len(run.steps) + 1:
            yield f"{'':{indent}}and then for ever"
        where = each.source if each.source == each.target else f"{each.source} → {each.target}"
        yield f"{'':{indent}}{number:2} {what:<{longest}}  {where}"
    if run.stopped:
        yield f"{'':{indent}}and then nothing happens any more"


def _happens(taken: Taken) -> str:
    """A step in a few words."""
    if not taken.event:
        return "somebody looks"
    words = [taken.event]
    if taken.phase == "request":
        words.append("is asked")
    elif taken.phase == "lost":
        words.append("ends unseen")
    elif taken.ends and not taken.reply:
        words.append("goes on")
    if taken.reply:
        words.append(f"replies {'any error' if taken.reply == 'error' else taken.reply}")
    elif taken.outcome and taken.outcome not in {taken.target, "ok"} and not taken.phase:
        words.append(f"({taken.outcome})")
    if taken.emits:
        words.append(f"emits {', '.join(taken.emits)}")
    return " ".join(words)


def data(run: Run) -> Json:
    """The run for programs."""
    return {
        "initial": run.initial,
        "steps": [_taken(each) for each in run.steps],
        "cycle": [_taken(each) for each in run.cycle],
        "stopped": run.stopped,
    }


def _taken(taken: Taken) -> Json:
    return {
        "event": taken.event or None,
        "phase": taken.phase or None,
        "ends": taken.ends,
        "outcome": taken.outcome or None,
        "reply": taken.reply or None,
        "emits": list(taken.emits),
        "source": taken.source,
        "target": taken.target,
    }
