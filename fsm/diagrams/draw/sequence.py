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
            text = output.removesuffix(system.copies[done.digit].suffix)
            yield ChartRow(kind="output", text=text, source=done.copy, target=_hearer(done, system))
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
        arrow = "-->>" if row.kind == "reply" else "->>"
        if row.kind in {"step", "note"}:
            lines.append(f"  Note over {names.get(row.source, ends)}: {row.text}")
        else:
            lines.append(f"  {names[row.source]}{arrow}{names[row.target]}: {row.text}")
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
    size = {"refX": 8, "refY": 4, "markerWidth": 8, "markerHeight": 8}
    marker = _add(root, "marker", id="to", viewBox="0 0 8 8", **size, orient="auto")
    _add(marker, "path", d="M0,0 L8,4 L0,8", kind="line")
    for name, x in at.items():
        _add(root, "line", kind="life", x1=x, x2=x, y1=_HIGH, y2=height - 8)
        _add(root, "text", x=x, y=_HIGH - 10).text = name
    for number, row in enumerate(shown.rows, 2):
        y = _HIGH * number
        match row.kind:
            case "step":
                _add(root, "text", x=6, y=y, kind="step").text = row.text
            case "note":
                x, wide = at[row.source], 7 * len(row.text) + 12
                _add(root, "rect", kind="box", x=x - wide // 2, y=y - 15, width=wide, height=21)
                _add(root, "text", x=x, y=y).text = row.text
            case _:
                source, target = at[row.source], at[row.target]
                style = {"marker-end": "url(#to)"} | ({"stroke-dasharray": "5 3"} if row.kind == "reply" else {})
                kind = "line output" if row.kind == "output" else "line"
                _add(root, "line", kind=kind, **style, x1=source, x2=target, y1=y, y2=y)
                _add(root, "text", x=(source + target) // 2, y=y - 5).text = row.text
    return bytes(ET.tostring(root, encoding="utf-8"))


def _add(parent: ET.Element, tag: str, **attributes: str | int) -> ET.Element:
    """A new element; *kind* is its class."""
    named = {"class" if name == "kind" else name: f"{value}" for name, value in attributes.items()}
    return ET.SubElement(parent, tag, named)
