"""Draw concurrent histories as text, with a lane for each thread, or write them to files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import structs

from fsm.diagrams.draw.sequence import SequenceChart
from fsm.diagrams.recorded_chart import Mark, recorded_chart
from fsm.diagrams.recorded_steps import CallPairs, ChartStep, ChosenSteps, RecordedEntity
from fsm.errors import visible
from fsm.linearizability import Linearizability, Linearizable, NotLinearizable
from fsm.linearizability.history import History, Operation
from fsm.machine import Machine
from fsm.machine.findings import Assumed, Cause, Finding, Judgement, Stretch, Tolerated, Violation
from fsm.monitor.judgement import Judged
from fsm.monitor.judgement.histories import operation_of
from fsm.monitor.judgement.part import Story
from fsm.recordings.form import RecordingForm
from fsm.report import words
from fsm.trace import Line, Observation
from fsm.verdict import Unknown

if TYPE_CHECKING:
    from fsm.conformance.race_runs import Race  # Only the test command needs this.

DRAWN: Final = 24  # maximum number of operations to draw


def lanes(history: History, names: Mapping[int, str] | None = None) -> Iterator[str]:
    r"""Draw a line for each thread and entity. An operation extends from its call to its return.

    *names* maps threads to labels. By default, a label is the number of the thread and its entity.

    >>> from fsm.linearizability.history import History, Operation
    >>> first = Operation(called=0, returned=9, event="start", reply="ok", thread=1)
    >>> second = Operation(called=3, returned=5, event="stop", reply="BUSY", thread=2)
    >>> print("\n".join(lanes(History(operations=(first, second)))))
    thread 1  |---start: ok----|
    thread 2    |-stop: BUSY-|
    """
    column = _columns(history)
    last = max(column.values(), default=0)
    drawn: dict[str, str] = {}
    for operation in sorted(history.operations, key=lambda each: (each.thread, each.called)):
        start = column[operation.called]
        end = last + _width(operation) if operation.returned is None else column[operation.returned]
        label = visible(str(operation)).center(end - start - 1, "-")
        name = names[operation.thread] if names else _lane_name(operation)
        drawn[name] = f"{drawn.get(name, ''):<{start}}|{label}{'' if operation.returned is None else '|'}"
    longest = max(map(len, drawn), default=0)
    for name, lane in drawn.items():
        yield f"{name:<{longest}}  {lane}"


def stretch_lines(violation: Violation) -> Iterator[str]:
    stretch = violation.stretch
    if not (text := words.stretch(violation)) or stretch is None:
        return
    yield text
    if len(stretch.operations) <= DRAWN:
        yield from drawn(stretch)


def reasons(violation: Violation) -> list[str]:
    return [
        *words.reasons(violation),
        f"clause: {violation.clause.says} ({violation.clause.source})",
        *(f"known: {each}" for each in words.known(violation)),
        *stretch_lines(violation),
    ]


def message(finding: Finding, violation: Violation, entity: str) -> str:
    return "\n".join([f"{words.what(violation)} ({words.times(finding, entity)})", *reasons(violation)])


def drawn(stretch: Stretch[Observation]) -> Iterator[str]:
    processes = list(dict.fromkeys(each.process for each in stretch.operations))
    operations = tuple(replace(operation_of(each), thread=processes.index(each.process)) for each in stretch.operations)
    names = {number: "" if each is None else f"process {visible(str(each))}" for number, each in enumerate(processes)}
    yield from lanes(History(operations=operations), names)


def explained(answer: Linearizability) -> Iterator[str]:
    match answer:
        case Linearizable():
            yield "linearizable: " + _order_text(answer)
        case Unknown(why=why):
            yield f"unknown: {visible(why)}"
        case NotLinearizable(operation=operation):
            named = f" of {visible(answer.entity)}" if answer.entity else ""
            yield f"not linearizable: {_operation_text(operation, answer.cause)}{named}"
            if answer.allowed:
                yield f"legal would be: {words.either(each or '(no outputs)' for each in answer.allowed)}"
            if answer.steps:
                yield f"legal up to this point: {_order_text(answer)}"


def raced(race: Race) -> Iterator[str]:
    if race.witness is None:
        yield from lanes(race.history)
    else:
        operations = race.history.operations
        begins = min((each.called for each in operations if each.thread), default=0)
        first = [str(operation) for operation in operations if operation.called < begins]
        if first:
            yield f"first     {visible('; '.join(first))}"
        shown = [each for each in operations if each.called >= begins]
        lane = max((each.thread for each in operations), default=0) + 1
        shown += (replace(each, thread=lane) for each in race.witness.told if each.called >= begins)
        names = {each.thread: _lane_name(each) for each in shown} | {lane: "plugin"}
        yield from lanes(History(operations=tuple(shown)), names)
    outputs = race.history.outputs.get("")
    if outputs is not None:
        yield f"outputs   {visible(', '.join(outputs)) or 'none'}"
    if race.violation is not None:
        yield f"not legal: {words.what(race.violation)}"
        yield from map(words.short, reasons(race.violation))
    else:
        yield from [f"broken: {visible(race.broken)}"] if race.verdict is None else explained(race.verdict)


def history_lines(machine: str, history: History, entity: str) -> bytes:
    """Return the content of a history file. *machine* is the name or the path of a model.

    >>> from fsm.linearizability.history import History, Operation
    >>> push = Operation(called=1, returned=3, event="push", reply="ok", thread=2)
    >>> print(history_lines("door", History(operations=(push,)), "d").decode(), end="")
    {"history":1,"machine":"door"}
    {"process":2,"entity":"d","start":1,"event":"push","reply":"ok","end":3}
    """
    lines: list[dict[str, str | int]] = [{"history": 1, "machine": machine}]
    for each in history.operations:
        line: dict[str, str | int] = {"process": each.thread, "entity": entity, "start": each.called}
        line |= {key: value for key in ("event", "reply", "shows") if (value := getattr(each, key))}
        lines.append(line if each.returned is None else line | {"end": each.returned})
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def _columns(history: History) -> dict[int, int]:
    column: dict[int, int] = {}
    place = -2
    ends = {instant for each in history.operations for instant in (each.called, each.returned) if instant is not None}
    for instant in sorted(ends):
        over = [each for each in history.operations if each.returned == instant and each.called < instant]
        column[instant] = place = max([place + 2, *(column[each.called] + _width(each) for each in over)])
    return column


def _width(operation: Operation) -> int:
    return len(visible(str(operation))) + 3


def _lane_name(operation: Operation) -> str:
    thread = f"thread {operation.thread}" if operation.thread else "main"
    return f"{thread}, {visible(operation.entity)}" if operation.entity else thread


def _operation_text(operation: Operation | None, cause: Cause) -> str:
    if operation is None:
        return "there are more outputs than can be explained"
    who = f"{visible(str(operation))} in {_lane_name(operation)}"
    texts = {Cause.OUTPUT: f"the outputs are not possible with {who}", Cause.EVENT: f"{who} cannot happen"}
    return texts.get(cause, who)


def _order_text(answer: Linearizable | NotLinearizable) -> str:
    return "; ".join(
        f"{step.row or visible(str(step.operation))}{f' ({step.outcome})' if step.outcome else ''}"
        for step in answer.steps
    )


# Number of observations to show before and after a violation.
BEFORE: Final = 8
AFTER: Final = 2


def marks(judged: Iterable[Judged]) -> tuple[Mark, ...]:
    """Return marks for the violations, tolerated deviations and assumed events in *judged*, without duplicates."""
    found = (mark for each in judged for judgement in each.judgements for mark in _marks(judgement))
    return tuple({(mark.line, mark.seen.entity, mark.text): mark for mark in found}.values())


def _marks(judgement: Judgement) -> Iterator[Mark]:
    for finding in judgement.findings:
        yield from map(violation_mark, finding.first)
    for deviated in judgement.tolerated:
        for met in deviated.whole or (deviated.first,):
            text = f"tolerated: {words.tolerated(met)} of {met.deviation.profile}"
            yield _mark("tolerated", met, text, f"{text}: {words.done(met)}")
    for event in judgement.assumed:
        text = f"assumed: {words.assumed(event)}"
        yield _mark(
            "assumed", event, text, f"{text}, which no line shows, but without which the rest would not be legal"
        )


def violation_mark(violation: Violation) -> Mark:
    clause = violation.clause
    what = words.what(violation)
    about = f"clause {words.clause(clause)} ({clause.source})"
    known = (f"known: {each}" for each in words.known(violation))
    whole = "; ".join([what, *words.reasons(violation), about, *known])
    return _mark("violation", violation, f"{clause.name} ({clause.level}): {what}", whole)


def _mark(
    kind: Literal["violation", "tolerated", "assumed"], found: Violation | Tolerated | Assumed, text: str, whole: str
) -> Mark:
    return Mark(kind=kind, line=Line(found.file, found.line), seen=found.observation, text=text, whole=whole)


def violation_chart(story: Story, number: int, form: RecordingForm) -> SequenceChart:
    shown = story.steps[max(0, number - BEFORE) : number + AFTER + 1]
    entity = RecordedEntity(story.machine.entity, story.entity)
    calls = CallPairs()
    drawn = []
    for order, step in enumerate(shown):
        seen = _with_rpc_name(step.seen, story.machine)
        drawn.append(ChartStep(lines=(step.place,), seen=seen, entity=entity if seen.entity else None, order=order))
        calls.add(drawn[-1], (None,))
    files = tuple(dict.fromkeys(each.place.file for each in shown))
    steps = ChosenSteps(files=files, form=form, steps=tuple(drawn), entities=(entity,), chosen=entity)
    marks = (violation_mark(violation) for step in shown for violation in step.violations)
    return recorded_chart(steps, [replace(mark, seen=_with_rpc_name(mark.seen, story.machine)) for mark in marks])


def _with_rpc_name(seen: Observation, machine: Machine) -> Observation:
    event = machine.events.get(seen.event)
    return structs.replace(seen, event=(event and event.rpc) or seen.event, of=machine.entity)
