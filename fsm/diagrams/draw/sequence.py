"""A run of a system as a sequence chart: calls and replies, the states of each part, and the outputs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from xml.etree import ElementTree as ET

from fsm.machine.table import Done
from fsm.product import read
from fsm.product.system import System
from fsm.property.evidence import Run, RunStep

CALLER: Final = "caller"
"""The participant that makes calls."""

OUTSIDE: Final = "outside"
"""The participant that receives outputs that no single part receives."""

RowKind: TypeAlias = Literal["step", "call", "reply", "note", "output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """One line of a chart: a ``step`` across all participants, a message, or a ``note`` at one of them."""

    kind: RowKind
    text: str
    source: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceChart:
    """Participants from left to right, and rows from top to bottom."""

    participants: tuple[str, ...]
    rows: tuple[ChartRow, ...]


def chart(run: Run, system: System) -> SequenceChart:
    """*run* of *system*, with only the parts that do something in it."""
    steps = (*run.steps, *run.cycle)
    rows = [row for number, taken in enumerate(steps, 1) for row in _rows(number, taken, system)]
    met = {name for row in rows for name in (row.source, row.target)}
    names = [CALLER, *(copy.name for copy in system.copies), OUTSIDE]
    return SequenceChart(participants=tuple(name for name in names if name in met), rows=tuple(rows))


def _rows(number: int, taken: RunStep, system: System) -> Iterator[ChartRow]:
    joint = system.events[taken.event]
    seen = [done for done in taken.done if done.source != done.target or done.emits]
    way = f" ({taken.outcome})" if taken.outcome not in {"done", taken.reply} else ""
    yield ChartRow(kind="step", text=f"{number}. {joint.rpc or joint.family}{way}")
    first = joint.of.name if joint.of else next((done.copy for done in seen), "")
    if joint.kind == "call" and first:
        yield ChartRow(kind="call", text=taken.event, source=CALLER, target=first)
    for done in seen:
        if done.source != done.target:
            yield ChartRow(kind="note", text=f"{done.source} → {done.target}", source=done.copy)
        for output in done.emits:
            suffix = next(copy.suffix for copy in system.copies if copy.digit == done.digit)
            yield ChartRow(
                kind="output", text=output.removesuffix(suffix), source=done.copy, target=_hearer(done, system)
            )
    if joint.kind == "call" and first:
        yield ChartRow(kind="reply", text=taken.reply, source=first, target=CALLER)


def _hearer(done: Done, system: System) -> str:
    """The only copy whose state determines whether the output is delivered; ``OUTSIDE`` if there is not exactly one."""
    asked = read(system.parts[system.copies[done.digit].part].heard)
    return system.copies[min(asked)].name if len(asked) == 1 else OUTSIDE


def mermaid(shown: SequenceChart) -> str:
    """*shown* as a sequence diagram of Mermaid, ending in a newline."""
    names = {name: f"p{number}" for number, name in enumerate(shown.participants)}
    lines = ["sequenceDiagram", *(f"  participant {key} as {name}" for name, key in names.items())]
    ends = f"{names[shown.participants[0]]},{names[shown.participants[-1]]}" if names else ""
    for row in shown.rows:
        match row.kind:
            case "step":
                lines.append(f"  Note over {ends}: {row.text}")
            case "note":
                lines.append(f"  Note over {names[row.source]}: {row.text}")
            case "reply":
                lines.append(f"  {names[row.source]}-->>{names[row.target]}: {row.text}")
            case _:
                lines.append(f"  {names[row.source]}->>{names[row.target]}: {row.text}")
    return "\n".join(lines) + "\n"


_WIDE: Final = 150
_HIGH: Final = 30
_SVG: Final = "http://www.w3.org/2000/svg"
_STYLE: Final = """
text { font: 12px sans-serif; fill: #1f2328; text-anchor: middle }
.step { font-weight: bold; text-anchor: start }
.line { stroke: #8c959f; fill: none }
.life { stroke: #d0d7de; stroke-dasharray: 3 3 }
.output { stroke: #0969da } .output + text { fill: #0969da }
.box { stroke: #8c959f; fill: #f6f8fa }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .box { fill: #161b22 } .life { stroke: #30363d }
  .output { stroke: #58a6ff } .output + text { fill: #58a6ff }
}
"""


def svg(shown: SequenceChart) -> bytes:
    """*shown* as SVG that suits light and dark pages."""
    at = {name: _WIDE * number + _WIDE // 2 for number, name in enumerate(shown.participants)}
    width, height = _WIDE * len(at), _HIGH * (len(shown.rows) + 2)
    root = ET.Element("svg", xmlns=_SVG, width=str(width), height=str(height), viewBox=f"0 0 {width} {height}")
    ET.SubElement(root, "style").text = _STYLE
    marker = ET.SubElement(
        root, "marker", id="to", viewBox="0 0 8 8", refX="8", refY="4", markerWidth="8", markerHeight="8", orient="auto"
    )
    ET.SubElement(marker, "path", {"d": "M0,0 L8,4 L0,8", "class": "line"})
    for name, x in at.items():
        ET.SubElement(
            root, "line", {"class": "life", "x1": f"{x}", "x2": f"{x}", "y1": f"{_HIGH}", "y2": f"{height - 8}"}
        )
        _text(root, x, _HIGH - 10, name)
    for number, row in enumerate(shown.rows, 2):
        y = _HIGH * number
        match row.kind:
            case "step":
                _text(root, 6, y, row.text, "step")
            case "note":
                wide = 7 * len(row.text) + 12
                x = at[row.source]
                ET.SubElement(
                    root,
                    "rect",
                    {"class": "box", "x": f"{x - wide // 2}", "y": f"{y - 15}", "width": f"{wide}", "height": "21"},
                )
                _text(root, x, y, row.text)
            case _:
                _message(root, at[row.source], at[row.target], y, row)
    return bytes(ET.tostring(root, encoding="utf-8"))


def _message(root: ET.Element, source: int, target: int, y: int, row: ChartRow) -> None:
    line = {"class": f"line{' output' if row.kind == 'output' else ''}", "marker-end": "url(#to)"}
    if row.kind == "reply":
        line["stroke-dasharray"] = "5 3"
    ET.SubElement(root, "line", {**line, "x1": f"{source}", "x2": f"{target}", "y1": f"{y}", "y2": f"{y}"})
    _text(root, (source + target) // 2, y - 5, row.text)


def _text(root: ET.Element, x: int, y: int, text: str, kind: str = "") -> None:
    ET.SubElement(root, "text", {"x": f"{x}", "y": f"{y}", **({"class": kind} if kind else {})}).text = text
