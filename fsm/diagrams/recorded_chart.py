"""Draw the steps of a recording as a sequence chart. Each finding is marked at its step."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Final, Literal

from fsm.diagrams.draw.sequence import OUTSIDE, ChartRow, RowKind, SequenceChart
from fsm.diagrams.recorded_steps import ChartStep, ChosenSteps, RecordedEntity, shortened
from fsm.errors import plural, visible
from fsm.trace import Line, Observation, nanoseconds

# Names of two participants that are not entities.
CLIENT: Final = "client"
RUNTIME: Final = "runtime"

_CALLS: Final = frozenset({"request", "reply", "lost", "answered"})
_LONGEST: Final = 600  # maximum number of characters of an error in a title


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    kind: Literal["violation", "tolerated", "assumed"]
    line: Line
    seen: Observation
    text: str
    whole: str


def recorded_chart(steps: ChosenSteps, marks: Sequence[Mark] | None) -> SequenceChart:
    marked = _add_marks(steps, list(_Rows(steps).rows()), marks or ())
    met = {name for row in marked for name in (row.source, row.target)}
    names = {_name(entity): (visible(entity.of), shortened(entity.id)) for entity in steps.entities}
    clients = sorted(each for each in met if each.startswith(CLIENT))
    order = [*clients, RUNTIME, *names, OUTSIDE, *filter(None, [steps.form.receiver])]
    files = " with ".join(steps.files)
    what = f" of {steps.chosen}" if steps.chosen else ""
    days = dict.fromkeys(day for step in steps.steps if (day := _utc_time(step.seen)[:10]))
    day = " to ".join(list(days)[:: max(len(days) - 1, 1)])
    said = "not judged" if marks is None else _violation_counts(marked)
    names_of = " with ".join(Path(file).name for file in steps.files)
    caption = " · ".join(filter(None, (f"{steps.chosen or ''}", names_of, day and f"{day} UTC", said)))
    return SequenceChart(
        participants=tuple(each for each in order if each in met) or (RUNTIME,),
        rows=tuple(marked),
        title=visible(f"Sequence chart{what} in {files}: {len(steps.steps)} steps, {said}"),
        caption=visible(caption),
        heads={name: tuple(filter(None, head)) for name, head in names.items()},
    )


def _violation_counts(rows: Sequence[ChartRow]) -> str:
    found = Counter(row.kind for row in rows)
    violations = plural(found["violation"], "violation") if found["violation"] else "no violations"
    return f"{violations}, {plural(found['tolerated'], 'tolerated deviation')}" if found["tolerated"] else violations


def _name(entity: RecordedEntity) -> str:
    return f"{entity.of} {entity.id}"


def _utc_time(seen: Observation) -> str:
    at = nanoseconds(seen.at)
    try:
        whole = datetime.fromtimestamp(at // 1_000_000_000, UTC) if at is not None else None
    except (OverflowError, ValueError, OSError):  # There is no such year.
        return ""
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{(at or 0) % 1_000_000_000:09}Z" if whole else ""


def _duration(step: ChartStep) -> str:
    start = nanoseconds(step.mate.seen.at) if step.mate is not None and step.sure else None
    end = nanoseconds(step.seen.at)
    took = end - start if start is not None and end is not None else 0
    units = {"s": 1_000_000_000, "ms": 1_000_000, "µs": 1_000}
    return next((f"{took / size:.3g} {unit}" for unit, size in units.items() if took >= size), "")


class _Rows:
    def __init__(self, steps: ChosenSteps) -> None:
        self._steps = steps
        self._letters = dict(zip(steps.files, "ab" if steps.files[1:] else ("",), strict=False))
        self._calls: dict[int, int] = {}

    def rows(self) -> Iterator[tuple[ChartRow, tuple[ChartStep, ...]]]:
        asked: ChartStep | None = None  # a request that shares a row with its reply, which is the next step
        for step, following in zip_longest(self._steps.steps, self._steps.steps[1:]):
            if asked is not None:
                yield self._row(step, asked), (asked, step)
                asked = None
            elif following is not None and following.mate is step and following.seen.phase == "reply":
                asked = step
            else:
                yield self._row(step), (step,)

    def _row(self, step: ChartStep, asked: ChartStep | None = None) -> ChartRow:
        seen, first = step.seen, asked or step
        moment = _utc_time(first.seen)
        lines = tuple(dict.fromkeys((*first.lines, *step.lines)))
        took = _duration(step)
        text = f"{self._text(step)}{f' ({took})' if took else ''}"
        about = f"{step.entity}: " if step.entity else ""
        detail = f": {seen.detail[:_LONGEST]}" if seen.detail else ""
        beside = f" with {', '.join(f'{name}={value}' for name, value in seen.fields.items())}" if seen.fields else ""
        files = {line.file for line in lines}
        numbers = f"{' and '.join(sorted(files))}, line {' and '.join(f'{line.number}' for line in lines)}"
        kind, source, target = self._ends(step, asked)
        row = ChartRow(
            kind=kind,
            text=visible(text),
            source=source,
            target=target,
            clock=moment[11:23],
            place=visible(f"{self._letters.get(lines[0].file, '')} {lines[0].number}".strip()),
            whole=visible(f"{numbers}{f' at {moment}' if moment else ''}: {about}{text}{beside}{detail}"),
            cuts=step.cuts,
        )
        if asked is not None:
            return row
        if seen.phase == "request":
            self._calls[id(step)] = len(self._calls) + 1
            return replace(row, begins=self._calls[id(step)])
        return replace(row, ends=self._calls.get(id(step.mate), 0) if step.mate is not None else 0)

    def _ends(self, step: ChartStep, asked: ChartStep | None) -> tuple[RowKind, str, str]:
        seen = step.seen
        at = _name(step.entity) if step.entity else RUNTIME
        receiver = self._steps.form.receiver
        client = CLIENT if seen.process is None else f"{CLIENT} {visible(str(seen.process))}"
        if step.everywhere:
            return ("call", receiver, RUNTIME) if receiver and seen.event == "connects" else ("divider", "", "")
        if seen.output and not seen.reply and not seen.phase:
            return "output", at, receiver or OUTSIDE
        if self._is_state_from_log(step):
            return "note", at, ""
        if asked is not None or seen.phase == "request" or (not seen.phase and seen.reply):
            return "call", client, at
        if seen.phase in _CALLS:
            return "lost" if seen.phase == "lost" else "reply", at, client
        return "note", at, ""

    def _is_state_from_log(self, step: ChartStep) -> bool:
        seen = step.seen
        return self._steps.form.sighted and seen.phase == "answered" and seen.reply == "ok" and bool(seen.met)

    def _text(self, step: ChartStep) -> str:
        seen = step.seen
        if self._is_state_from_log(step):
            return f"shows {seen.met}"
        if seen.phase == "gap":
            return "observations are missing"
        what = seen.event or seen.output
        if seen.phase in {"maybe", "assumed"}:
            what = f"{what} may have happened"
        elif seen.phase == "lost":
            what = f"{what}: no reply"
        elif seen.phase in {"reply", "answered"} or seen.reply:
            what = f"{what}: {seen.reply or 'replied'}"
        elif seen.event and seen.output:
            what = seen.output
        if shown := seen.shows or seen.met:
            what = f"{what}, {shown}" if what else f"shows {shown}"
        if seen.emits:
            what = f"{what}, emits {', '.join(seen.emits)}"
        return what or "nothing"


def _add_marks(
    steps: ChosenSteps, rows: Sequence[tuple[ChartRow, tuple[ChartStep, ...]]], marks: Sequence[Mark]
) -> list[ChartRow]:
    places: dict[Line, list[int]] = defaultdict(list)
    for number, (_, those) in enumerate(rows):
        for line in dict.fromkeys(line for step in those for line in step.lines):
            places[line].append(number)
    of: dict[int, list[Mark]] = defaultdict(list)
    for mark in marks:
        if found := places.get(mark.line):
            of[max(found, key=lambda number: (_match_score(rows[number][1], mark.seen), number))].append(mark)
    names = {_name(each) for each in steps.entities}
    marked = []
    for number, (row, _) in enumerate(rows):
        marked.append(row)
        for mark in of[number]:
            entity = _name(RecordedEntity(mark.seen.of, mark.seen.entity))
            at = entity if entity in names else row.source if row.kind != "call" else row.target
            marked.append(ChartRow(kind=mark.kind, text=visible(mark.text), source=at, whole=visible(mark.whole)))
    return marked


def _match_score(steps: Sequence[ChartStep], seen: Observation) -> int:
    return max(
        2 * (step.seen.event == seen.event and step.seen.phase == seen.phase)
        + (step.entity is not None and step.entity.id == seen.entity)
        for step in steps
    )
