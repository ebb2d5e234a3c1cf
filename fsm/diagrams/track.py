"""Find the path of a run through a machine. The run is a counterexample, or a recording that ends at a failure."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from fsm.diagrams.draw.picture import EdgeLabel, Marks
from fsm.errors import InputError, contents, nearest, refused, visible
from fsm.machine import Machine
from fsm.machine.calls.belief import Dynamics, dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.table import tabulate
from fsm.recordings import open_recording
from fsm.recordings.line_reader import decoded
from fsm.trace import Observation, key

_LARGEST: Final = 64 << 20  # maximum size in bytes of a report, or of a recording that can be read only once


class _Step(msgspec.Struct):
    source: str
    target: str
    event: str | None = None


class _Run(msgspec.Struct):
    initial: str
    steps: list[_Step]
    cycle: list[_Step]


class _Property(msgspec.Struct):
    counterexample: _Run | None = None


class _Checked(msgspec.Struct):
    machine: str
    properties: list[_Property]


class _Report(msgspec.Struct):
    machines: list[_Checked]


_REPORT: Final = msgspec.json.Decoder(_Report)


def read_marks(machine: Machine, name: str, entity: str = "") -> Marks:
    """Return the run in the file *name*.

    The file is a recording, or a check report; a report contributes its first counterexample about *machine*. Raise
    :class:`InputError` if it is neither, or if it contains no run or counterexample of *machine*.
    """
    hint = "give a recording, or a file that 'fsm check --format json' wrote"
    found = contents(name, most=_LARGEST, code="FSM204", hint=hint)
    whole = len(found) <= _LARGEST
    report = decoded(found, _REPORT) if whole else None
    if report is not None:
        return _counterexample(machine, report, name)
    if Path(name).is_file():
        return track(machine, name, entity)
    if not whole:
        what = f"the input has more than {_LARGEST >> 20} MiB and can be read only once"
        raise refused(name, "FSM204", what, "save the input in a file first")
    with tempfile.NamedTemporaryFile(prefix="fsm-") as file:
        file.write(found)
        file.flush()
        try:
            return track(machine, file.name, entity)
        except InputError as error:
            raise InputError(replace(problem, path=name) for problem in error.problems) from error


def _counterexample(machine: Machine, report: _Report, name: str) -> Marks:
    examined = (each for each in report.machines if each.machine == machine.name)
    run = next((one.counterexample for each in examined for one in each.properties if one.counterexample), None)
    if run is None:
        what = f"the file has no counterexample about {machine.name}"
        raise refused(name, "FSM204", what, "first write a counterexample to a file with 'fsm check --format json'")
    steps = frozenset((step.event or "", step.source, step.target) for step in (*run.steps, *run.cycle))
    return Marks(steps=steps, states=frozenset({run.initial, *(target for _, _, target in steps)}))


def _configurations_after(moves: Dynamics, now: Configurations, seen: Observation) -> Configurations:
    """Return the configurations that remain after the observation *seen*, or *now* if they cannot be determined."""
    if seen.phase == "gap":
        return moves.everything()
    if seen.event and seen.event not in moves.names:
        return now
    try:
        return moves.after(now, key(seen))
    except TooManyError:
        return now


def _label(moves: Dynamics, seen: Observation) -> EdgeLabel:
    event = moves.table.rows[moves.names[seen.event]].event if seen.event else None
    return EdgeLabel(
        event=event.name if event else "",
        kind=event.kind if event else "signal",
        outcome=f"shows {visible(seen.shows)}" if seen.shows else seen.reply if seen.reply == "ok" else "",
        error=visible(seen.reply) if seen.reply != "ok" else "",
        emits=tuple(map(visible, seen.emits or ((seen.output,) if seen.output else ()))),
    )


def _steps_taken(
    moves: Dynamics, before: Configurations, after: Configurations, seen: Observation
) -> Iterator[tuple[str, str, str]]:
    table, row = moves.table, moves.names.get(seen.event)
    if row is None or seen.phase in {"request", "gap"}:
        return
    targets = {each.state for each in after}
    sources = targets | {each.state for each in before}
    ends = table.end.get(row)
    for source in sources:
        for way in (*(table.step(source, row) or ()), *((table.step(source, ends) or ()) if ends else ())):
            replied = way.begins or not seen.reply or not way.reply or way.replies(seen.reply)
            if replied and (way.to in targets or way.begins) and (way.to != source or source in targets):
                yield table.rows[row].event.name, table.states[source], table.states[way.to]


def track(machine: Machine, name: str, entity: str = "") -> Marks:
    """Return the path that *entity* takes through *machine* in the recording *name*.

    *entity* may be the beginning of a name. If it is empty, the first entity of the machine's kind is used. Raise
    :class:`InputError` if the file cannot be read or contains no such entity.
    """
    recording = open_recording(name, lambda _: None)
    table = tabulate(machine)
    moves = dynamics(table, shown=recording.shown, outputs=recording.outputs)
    now: Configurations | None = None
    marks = Marks()
    found: dict[str, None] = {}
    for seen in (observation for batch in recording.batches for observation in batch.observations):
        if seen.of not in {"", machine.entity}:
            continue
        if seen.entity:
            found.setdefault(seen.entity, None)
            entity = entity or seen.entity
            if not seen.entity.startswith(entity):
                continue
            now = now or (moves.beginning() if recording.fresh else moves.everything())
        if now is None:
            continue
        left = _configurations_after(moves, now, seen)
        if not left:
            failed = frozenset(table.states[each.state] for each in now)
            return replace(marks, failed=failed, seen=_label(moves, seen))
        visited = {table.states[each.state] for each in left}
        steps = marks.steps.union(_steps_taken(moves, now, left, seen))
        marks = Marks(steps=steps, states=marks.states | visited if len(visited) == 1 else marks.states)
        now = left
    if now is None:
        hint = nearest(entity, found, of=f"{machine.entity}s") if found else "give a recording of such entities"
        what = f"the recording contains no {machine.entity}{f' {entity!r}' if entity else ''}"
        raise refused(name, "FSM204", what, hint)
    return marks
