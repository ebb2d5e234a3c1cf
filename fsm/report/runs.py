"""Runs of a machine, step by step, as text and as JSON."""

from collections.abc import Iterator

from fsm.machine.property.evidence import Run, RunStep
from fsm.report.json_report import Json, record


def steps(run: Run, *, indent: int) -> Iterator[str]:
    """Yield a line for each step: its event and the states before and after it (for a system, the parts' steps)."""
    taken = [*run.steps, *run.cycle]
    words = [happens(step) for step in taken]
    longest = max((len(each) for each in words), default=0)
    yield f"{'':{indent}}starts {run.initial}"
    for number, (each, what) in enumerate(zip(taken, words, strict=True), 1):
        if number == len(run.steps) + 1:
            yield f"{'':{indent}}and then forever"
        if each.done:
            yield f"{'':{indent}}{number:2} {what}"
            yield from (f"{'':{indent + 5}}{line}" for line in parts(each))
            continue
        where = each.source if each.source == each.target else f"{each.source} → {each.target}"
        yield f"{'':{indent}}{number:2} {what:<{longest}}  {where}"
    if run.stopped:
        yield f"{'':{indent}}and then nothing more happens"


def parts(taken: RunStep) -> Iterator[str]:
    """Yield a line for each part of a system that changed its state or emitted outputs in the step *taken*."""
    for done in taken.done:
        if done.source == done.target and not done.emits:
            continue
        what = f"{done.event}{' goes on' if done.ends else ''}" if done.event else "is reset"
        where = done.target if done.source == done.target else f"{done.source} → {done.target}"
        emits = f", emits {', '.join(done.emits)}" if done.emits else ""
        yield f"{done.copy}: {what}, {where}{emits}"


def happens(taken: RunStep) -> str:
    """Describe a step in a few words."""
    if not taken.event:
        return "state observed"
    words = [taken.event]
    if taken.phase == "request":
        words.append("is asked")
    elif taken.phase == "lost":
        words.append("ends unseen")
    elif taken.ends and not taken.reply:
        words.append("goes on")
    if taken.reply:
        words.append(f"replies {'any error' if taken.reply == 'error' else taken.reply}")
    elif taken.outcome and taken.outcome not in {taken.target, "done" if taken.done else "ok"} and not taken.phase:
        words.append(f"({taken.outcome})")
    if taken.emits and not taken.done:
        words.append(f"emits {', '.join(taken.emits)}")
    return " ".join(words)


def data(run: Run) -> Json:
    """Return the run as data for JSON."""
    return {**record(run), "steps": [_taken(step) for step in run.steps], "cycle": [_taken(each) for each in run.cycle]}


def _taken(taken: RunStep) -> Json:
    done: list[Json] = [{"part": act.copy, **record(act, "copy", "digit")} for act in taken.done]
    return {**record(taken, "done"), **({"parts": done} if done else {})}
