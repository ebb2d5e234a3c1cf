"""A sequence chart of a machine's run: its calls, replies, state changes and outputs."""

from collections.abc import Iterator

from fsm.diagrams.draw.sequence import CALLER, MARKS, OUTSIDE, ChartRow, SequenceChart, breaks_at
from fsm.machine import Machine
from fsm.machine.property.claims import Property
from fsm.machine.property.evidence import Run, RunStep


def machine_chart(run: Run, machine: Machine, broken: Property | None = None) -> SequenceChart:
    """Return *run* of *machine* as a chart.

    Each step has a row, followed by its call, state change, outputs and reply.  The last step, which breaks the
    property *broken*, is marked, unless the run breaks it by repeating forever or by stopping.

    >>> from fsm.language.library import load
    >>> taken = RunStep(event="stop", source="idle", target="idle", outcome="ignored", reply="ok")
    >>> shown = machine_chart(Run(initial="idle", steps=(taken,)), load("examples/models/washer.toml"))
    >>> [(row.kind, row.text) for row in shown.rows]
    [('step', '1. StopWash'), ('call', 'stop'), ('reply', 'ok')]
    """
    rows: list[ChartRow] = []
    for number, taken in enumerate((*run.steps, *run.cycle), 1):
        if run.cycle and number == len(run.steps) + 1:
            rows.append(ChartRow(kind="divider", text="from here on again and again"))
        rows += _rows(number, taken, machine, broken=broken is not None and number == breaks_at(run))
    if run.stopped:
        rows.append(ChartRow(kind="divider", text="and then nothing happens any more"))
    if broken is not None:
        text = f"{broken.name} is broken"
        rows.append(ChartRow(kind="violation", text=text, source=machine.entity, whole=f"{text}: {broken.says}"))
    met = {name for row in rows for name in (row.source, row.target)}
    shown = tuple(name for name in (CALLER, machine.entity, OUTSIDE) if name in met)
    return SequenceChart(participants=shown, rows=tuple(rows), title=f"A run of {machine.title}")


def _rows(number: int, taken: RunStep, machine: Machine, *, broken: bool) -> Iterator[ChartRow]:
    event, entity = machine.events.get(taken.event), machine.entity
    name = (event and event.rpc) or taken.event or "state observed"
    way = "" if taken.outcome in {"", "ok", "done", "ignored", "refused", taken.reply} else f" ({taken.outcome})"
    ends = taken.ends or taken.phase in {"reply", "lost"}
    mark = f"{MARKS['violation']} " if broken else ""
    yield ChartRow(kind="step", text=f"{mark}{number}. {'… ' if ends else ''}{name}{way}", source=entity)
    call = event is not None and event.kind == "call"
    if call and not ends:
        yield ChartRow(kind="call", text=taken.event, source=CALLER, target=entity)
    if taken.source != taken.target:
        yield ChartRow(kind="note", text=f"{taken.source} → {taken.target}", source=entity)
    for output in taken.emits:
        yield ChartRow(kind="output", text=output, source=entity, target=OUTSIDE)
    if call and taken.reply:
        reply = "any error" if taken.reply == "error" else taken.reply
        yield ChartRow(kind="reply", text=reply, source=entity, target=CALLER)
