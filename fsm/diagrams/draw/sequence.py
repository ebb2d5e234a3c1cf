"""Make sequence charts. A chart has participants, and rows with messages between them.

This module makes the chart of a run and writes charts as Mermaid. :mod:`fsm.diagrams.recorded_chart` makes the chart of
a recording, and :mod:`fsm.diagrams.draw.sequence_svg` draws both as SVG.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from fsm.machine import Machine
from fsm.machine.claims import LeadsTo, Property
from fsm.machine.evidence import Run, RunStep
from fsm.machine.product import read
from fsm.machine.product.reduction import waiting
from fsm.machine.product.system import System
from fsm.machine.table import Done

CALLER: Final = "caller"  # the participant that makes calls
OUTSIDE: Final = "outside"  # the participant that receives an output unless exactly one part receives it
# A step or divider crosses all participants.  A call, reply or output is a message from source to target. `lost`
# means that no reply came, and `waits` means that the source waits for the target forever.  A row of any other kind
# is a text at the source, which either says what happened there or comments on the previous row.
RowKind: TypeAlias = Literal[
    "step", "call", "reply", "lost", "waits", "note", "output", "divider", "violation", "tolerated", "assumed"
]
# The signs that precede remarks, so that readers can distinguish the kinds of remarks without colour.
MARKS: Final[Mapping[str, str]] = {"violation": "✗", "tolerated": "~", "assumed": "?"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """A row of a chart. A call has a bar at its target, from the row that begins it to the row that ends it."""

    kind: RowKind
    text: str
    source: str = ""
    target: str = ""
    clock: str = ""  # time of day
    place: str = ""  # line of the recording
    whole: str = ""  # the full text if the text is shortened
    begins: int = 0  # number of the call that begins here
    ends: int = 0  # number of the call that ends here
    cuts: bool = False  # all bars end here


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceChart:
    participants: tuple[str, ...]
    rows: tuple[ChartRow, ...]
    title: str = ""  # description for readers who cannot see the chart
    caption: str = ""  # shown above the chart
    heads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # lines above a participant (default: its name)

    def head(self, participant: str) -> tuple[str, ...]:
        return self.heads.get(participant, (participant,))

    def bars(self) -> list[tuple[str, int, int]]:
        open_: dict[int, tuple[str, int]] = {}
        found = []
        for number, row in enumerate(self.rows):
            if row.cuts:
                found += [(at, since, number) for at, since in open_.values()]
                open_.clear()
            if row.begins:
                open_[row.begins] = row.target, number
            if row.ends in open_:
                found.append((*open_.pop(row.ends), number))
        return sorted([*found, *((at, since, len(self.rows)) for at, since in open_.values())], key=lambda bar: bar[1:])


def chart(run: Run, model: Machine | System, broken: Property | None = None) -> SequenceChart:
    """Return the chart of *run*, which is a run of *model*.

    Omit parts of a system that neither act nor wait at the end. Mark the step that breaks *broken*. If a system stops,
    show for each part that waits for a fair event of *broken* which parts it waits for.

    >>> from fsm.language.library import load
    >>> stop = RunStep(event="stop", source="idle", target="idle", outcome="ignored", reply="ok")
    >>> shown = chart(Run(initial="idle", steps=(stop,)), load("examples/models/washer.toml"))
    >>> [(row.kind, row.text) for row in shown.rows]
    [('step', '1. StopWash'), ('call', 'stop'), ('reply', 'ok')]
    """
    steps = (*run.steps, *run.cycle)
    rows: list[ChartRow] = []
    for number, step in enumerate(steps, 1):
        if run.cycle and number == len(run.steps) + 1:
            rows.append(ChartRow(kind="divider", text="from here on again and again"))
        mark = f"{MARKS['violation']} " if broken is not None and number == breaks_at(run) else ""
        start = f"{mark}{number}. "
        rows += _machine_rows(start, step, model) if isinstance(model, Machine) else _system_rows(start, step, model)
    if run.stopped:
        rows.append(ChartRow(kind="divider", text="and then nothing more happens"))
        fair = broken.claim.fair if broken is not None and isinstance(broken.claim, LeadsTo) else ()
        rows += _waiting_rows(steps, model, [each.event for each in fair]) if isinstance(model, System) else ()
    last = next((row.source for row in reversed(rows) if row.source), "") if isinstance(model, System) else model.entity
    if broken is not None and last:
        text = f"{broken.name} is broken"
        rows.append(ChartRow(kind="violation", text=text, source=last, whole=f"{text}: {broken.says}"))
    drawn = {name for row in rows for name in (row.source, row.target)}
    names = [model.entity] if isinstance(model, Machine) else [copy.name for copy in model.copies]
    shown = tuple(name for name in (CALLER, *names, OUTSIDE) if name in drawn)
    return SequenceChart(participants=shown, rows=tuple(rows), title=f"A run of {model.title}")


def breaks_at(run: Run) -> int:
    """Return the number of the step that breaks the property, or 0 if *run* breaks it by repeating or by stopping."""
    return 0 if run.cycle or run.stopped else len(run.steps)


def _waiting_rows(steps: Iterable[RunStep], system: System, events: Collection[str]) -> Iterator[ChartRow]:
    states = {done.copy: done.target for step in steps for done in step.done}
    for wait in waiting(system, states, events):
        for other in wait.others:
            yield ChartRow(kind="waits", text=f"waits, to {wait.event}", source=wait.copy, target=other)


def _machine_rows(start: str, step: RunStep, machine: Machine) -> Iterator[ChartRow]:
    event, entity = machine.events.get(step.event), machine.entity
    name = (event and event.rpc) or step.event or "state observed"
    way = "" if step.outcome in {"", "ok", "done", "ignored", "refused", step.reply} else f" ({step.outcome})"
    ends = step.ends or step.phase in {"reply", "lost"}
    yield ChartRow(kind="step", text=f"{start}{'… ' if ends else ''}{name}{way}", source=entity)
    call = event is not None and event.kind == "call"
    if call and not ends:
        yield ChartRow(kind="call", text=step.event, source=CALLER, target=entity)
    if step.source != step.target:
        yield ChartRow(kind="note", text=f"{step.source} → {step.target}", source=entity)
    for output in step.emits:
        yield ChartRow(kind="output", text=output, source=entity, target=OUTSIDE)
    if call and step.reply:
        reply = "any error" if step.reply == "error" else step.reply
        yield ChartRow(kind="reply", text=reply, source=entity, target=CALLER)


def _system_rows(start: str, step: RunStep, system: System) -> Iterator[ChartRow]:
    joint = system.events[step.event]
    seen = [done for done in step.done if done.source != done.target or done.emits]
    way = f" ({step.outcome})" if step.outcome not in {"done", step.reply} else ""
    yield ChartRow(kind="step", text=f"{start}{joint.rpc or joint.family}{way}")
    first = joint.of.name if joint.of else next((done.copy for done in seen), "")
    if joint.kind == "call" and first:
        yield ChartRow(kind="call", text=step.event, source=CALLER, target=first)
    for done in seen:
        if done.source != done.target:
            yield ChartRow(kind="note", text=f"{done.source} → {done.target}", source=done.copy)
        for output in done.emits:
            text = output.removesuffix(system.copies[done.digit].suffix)
            yield ChartRow(kind="output", text=text, source=done.copy, target=_recipient(done, system))
    if joint.kind == "call" and first:
        yield ChartRow(kind="reply", text=step.reply, source=first, target=CALLER)


def _recipient(done: Done, system: System) -> str:
    asked = read(system.parts[system.copies[done.digit].part].heard)
    return system.copies[min(asked)].name if len(asked) == 1 else OUTSIDE


def mermaid(shown: SequenceChart) -> str:
    names = {name: f"p{number}" for number, name in enumerate(shown.participants)}
    lines = ["sequenceDiagram"]
    lines += [f"  accTitle: {_text(shown.title)}"] if shown.title else []
    lines += [f"  accDescr: {_text(shown.caption)}"] if shown.caption else []
    lines += [f"  participant {key} as {_text(' '.join(shown.head(name)))}" for name, key in names.items()]
    ends = f"{names[shown.participants[0]]},{names[shown.participants[-1]]}" if names else ""
    bars = shown.bars()
    for number, row in enumerate(shown.rows):
        ended = [f"  deactivate {names[at]}" for at, _, last in bars if last == number]
        lines += ended if row.cuts else []
        text = _text(" ".join(filter(None, (row.clock, MARKS.get(row.kind), row.text))))
        if row.kind in _ARROWS:
            lines.append(f"  {names[row.source]}{_ARROWS[row.kind]}{names[row.target]}: {text}")
        else:
            lines.append(f"  Note over {names.get(row.source, ends)}: {text}")
        lines += [] if row.cuts else ended
        lines += [f"  activate {names[at]}" for at, first, _ in bars if first == number]
    lines += [f"  deactivate {names[at]}" for at, _, last in bars if last == len(shown.rows)]
    return "\n".join(lines) + "\n"


_ARROWS: Final = {"call": "->>", "reply": "-->>", "lost": "--x", "waits": "--)", "output": "->>"}


def _text(words: str) -> str:
    coded = re.sub(r"[^\w \-./,():='…?✗~→µ·]", lambda found: f"#{ord(found[0])};", words)
    return re.sub("^((?:no)?wrap):", r"\1#58;", coded) if coded.strip() else "#32;"
