"""Write a sequence chart as self-contained SVG.

The distance between participants depends on their messages, within bounds. Text that does not fit is shortened; the
title of the row contains the full text, for screen readers and as a tooltip.
"""

import unicodedata
from collections import defaultdict
from itertools import pairwise
from typing import Final
from xml.etree import ElementTree as ET

from fsm.diagrams.draw.sequence import MARKS, ChartRow, SequenceChart

# Height of a row, minimum distance between two participants, and maximum distance between them, in pixels.
_HIGH: Final = 30
_NEAREST: Final = 120
_FARTHEST: Final = 420

_GUTTER: Final = 150  # width that is reserved for line numbers and times, if the chart has any
_BAR: Final = 5  # half the width of a bar, and the offset to the right of a bar that begins inside another
_BOLD: Final = 1.08  # factor by which bold letters are wider than others
_SVG: Final = "http://www.w3.org/2000/svg"
_STYLE: Final = """
text { font: 12px sans-serif; fill: #1f2328; text-anchor: middle; paint-order: stroke;
  stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round }
.step, .divider, .caption { font-weight: bold; text-anchor: start }
.clock { text-anchor: start; fill: #57606a } .place { text-anchor: end; fill: #57606a }
.line { stroke: #57606a; fill: none }
.life { stroke: #afb8c1; stroke-dasharray: 3 3 }
.output { stroke: #0969da } .output + text { fill: #0969da }
.box { stroke: #8c959f; fill: #f6f8fa } .box + text { stroke: none }
.bar { stroke: #57606a; fill: #d0d7de }
.rule { stroke: #57606a; stroke-width: 2; stroke-dasharray: 8 4 }
.violation { stroke: #cf222e; stroke-width: 3; fill: #ffffff }
.tolerated { stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 6 3; fill: #ffffff }
.assumed { stroke: #57606a; stroke-dasharray: 2 3; fill: #ffffff }
.violation + text { font-weight: bold; stroke: none } .tolerated + text, .assumed + text { stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; stroke: #0d1117 } .box { fill: #161b22 } .life { stroke: #30363d } .bar { fill: #30363d }
  .line, .rule, .bar { stroke: #8c959f } .clock, .place { fill: #8c959f }
  .violation, .tolerated, .assumed { fill: #0d1117 }
  .output { stroke: #58a6ff } .output + text { fill: #58a6ff }
}
"""


def svg(shown: SequenceChart) -> bytes:
    return bytes(ET.tostring(_SvgBuilder(shown).drawn(), encoding="utf-8"))


def width(text: str) -> float:
    """Return the approximate width of *text* in pixels, in the widest of the usual fonts.

    >>> width("stop") < width("STOP") < width("停止停止")
    True
    """
    return sum(
        13 if unicodedata.east_asian_width(each) in "WF" else 9 if each.isupper() or each in "mwMW@%" else 7.4
        for each in text
    )


def fitting(text: str, room: float) -> str:
    """Shorten *text* in the middle if it is wider than *room*.

    >>> fitting("UpdateContainerResources: ok", 120)
    'UpdateCon…s: ok'
    """
    if width(text) <= room:
        return text
    keep = max(4, int(len(text) * room / width(text)) - 1)
    return f"{text[: keep - keep * 2 // 5]}…{text[len(text) - keep * 2 // 5 :]}"


class _SvgBuilder:
    def __init__(self, shown: SequenceChart) -> None:
        self.shown = shown
        self.at: dict[str, int] = {}
        self.levels: list[tuple[str, int, int, int]] = []
        self.top = _HIGH * max((len(shown.head(name)) + 1 for name in shown.participants), default=2) // 2
        self.top += 24 if shown.caption else 0
        self._place()
        # Bars that overlap are drawn at different levels. Each bar has the lowest level that is free.
        ends: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for name, first, last in shown.bars():
            level = next(each for each in range(len(ends[name]) + 1) if ends[name].get(each, -1) <= first)
            ends[name][level] = last
            self.levels.append((name, first, last, level))

    def _place(self) -> None:
        names = self.shown.participants
        order = {name: number for number, name in enumerate(names)}
        half = {name: max(map(width, self.shown.head(name))) / 2 + 8 for name in names}
        for row in self.shown.rows:
            if row.kind == "note":
                half[row.source] = max(half[row.source], width(row.text) / 2 + 10)
        gaps = [_gap(half[one] + half[other]) for one, other in pairwise(names)]
        for row in sorted(self.shown.rows, key=lambda row: abs(order.get(row.source, 0) - order.get(row.target, 0))):
            if row.source and row.target and row.source != row.target:
                first, last = sorted((order[row.source], order[row.target]))
                lacks = width(row.text) + 30 - sum(gaps[first:last])
                gaps[last - 1] = max(gaps[last - 1], _gap(gaps[last - 1] + lacks))
        gutter = _GUTTER if any(row.clock or row.place for row in self.shown.rows) else 0
        x = gutter + max(_NEAREST / 2, min(half[names[0]] if names else 0, _FARTHEST / 2))
        for name, gap in zip(names, [*gaps, 0], strict=False):
            self.at[name] = round(x)
            x += gap
        last_half = max(_NEAREST / 2, min(half[names[-1]] if names else 0, _FARTHEST / 2))
        across = [width(row.text) + 20 for row in self.shown.rows if row.kind in {"step", "divider"}]
        across += [width(f"{MARKS[row.kind]} {row.text}") * _BOLD + 28 for row in self.shown.rows if row.kind in MARKS]
        least = max([min(each, 720) for each in (*across, width(self.shown.caption) + 12)], default=0) + gutter
        self.wide = round(max(least, x + last_half))

    def drawn(self) -> ET.Element:
        shown, rows = self.shown, self.shown.rows
        high = self.top + _HIGH * len(rows) + _HIGH
        size = {"width": f"{self.wide}", "height": f"{high}", "viewBox": f"0 0 {self.wide} {high}"}
        root = ET.Element("svg", {"xmlns": _SVG, **size, "role": "group", "aria-labelledby": "about"})
        ET.SubElement(root, "title", id="about").text = shown.title
        ET.SubElement(root, "style").text = _STYLE
        _add(_marker(root, "to", 8), "path", d="M0,0 L8,4 L0,8", kind="line")
        _add(_marker(root, "lost", 4), "path", d="M0,0 L8,8 M8,0 L0,8", kind="line")
        if shown.caption:
            _add(root, "text", x=6, y=16, kind="caption").text = fitting(shown.caption, self.wide - 12)
        for name, x in self.at.items():
            _add(root, "line", kind="life", x1=x, x2=x, y1=self.top, y2=high - 8)
            head = shown.head(name)
            for number, line in enumerate(head, 1 - len(head)):
                _add(root, "text", x=x, y=self.top - 8 + 15 * number).text = fitting(line, _FARTHEST - 16)
        for name, first, last, level in self.levels:
            y, end = self._row_y(first), self._row_y(last) if last < len(rows) else high - 8
            x = self.at[name] - _BAR + _BAR * level
            _add(root, "rect", kind="bar", x=x, y=y, width=2 * _BAR, height=max(end - y, 2))
        for number, row in enumerate(rows):
            self._row(root, number, row)
        return root

    def _row_y(self, number: int) -> int:
        return self.top + _HIGH * (number + 1)

    def _row(self, root: ET.Element, number: int, row: ChartRow) -> None:
        y = self._row_y(number)
        group = _add(root, "g", role="img")
        ET.SubElement(group, "title").text = row.whole or row.text
        if row.place:
            _add(group, "text", x=50, y=y, kind="place").text = row.place
        if row.clock:
            _add(group, "text", x=58, y=y, kind="clock").text = row.clock
        left = min(self.at.values(), default=6) - _NEAREST // 2 + 6
        match row.kind:
            case "step":
                _add(group, "text", x=6, y=y, kind="step").text = fitting(row.text, self.wide - 12)
            case "divider":
                _add(group, "line", kind="rule", x1=left, x2=self.wide - 6, y1=y + 5, y2=y + 5)
                _add(group, "text", x=left, y=y, kind="divider").text = fitting(row.text, self.wide - left - 6)
            case "call" | "reply" | "lost" | "waits" | "output":
                self._message(group, number, row)
            case _:
                sign = f"{MARKS[row.kind]} " if row.kind in MARKS else ""
                text = f"{sign}{row.text}"
                most = self.wide - left - 6 if sign else _FARTHEST - 16
                bold = _BOLD if row.kind == "violation" else 1
                text = fitting(text, (most - 14) / bold)
                wide = round(width(text) * bold) + 14
                x = min(max(self.at[row.source], left + wide // 2), self.wide - 6 - wide // 2)
                _add(group, "rect", kind=row.kind if sign else "box", x=x - wide // 2, y=y - 16, width=wide, height=23)
                _add(group, "text", x=x, y=y).text = text

    def _message(self, group: ET.Element, number: int, row: ChartRow) -> None:
        y = self._row_y(number)
        right = self.at[row.source] < self.at[row.target]
        source, target = self._edge(row.source, number, right=right), self._edge(row.target, number, right=not right)
        style = {"marker-end": "url(#lost)" if row.kind == "lost" else "url(#to)"}
        dashes = {"reply": "5 3", "lost": "5 3", "waits": "1 3"}
        style |= {"stroke-dasharray": dashes[row.kind]} if row.kind in dashes else {}
        kind = "line output" if row.kind == "output" else "line"
        _add(group, "line", kind=kind, **style, x1=source, x2=target, y1=y, y2=y)
        room = abs(self.at[row.source] - self.at[row.target]) - 20
        _add(group, "text", x=(source + target) // 2, y=y - 5).text = fitting(row.text, max(room, _NEAREST - 20))

    def _edge(self, name: str, number: int, *, right: bool) -> int:
        levels = [level for at, first, last, level in self.levels if at == name and first <= number <= last]
        if not levels:
            return self.at[name]
        return self.at[name] + (_BAR + _BAR * max(levels) if right else -_BAR)


def _gap(needed: float) -> float:
    return min(max(needed, _NEAREST), _FARTHEST)


def _marker(root: ET.Element, name: str, middle: int) -> ET.Element:
    size = {"refX": middle, "refY": 4, "markerWidth": 8, "markerHeight": 8}
    return _add(root, "marker", id=name, viewBox="0 0 8 8", **size, orient="auto")


def _add(parent: ET.Element, tag: str, **attributes: str | int) -> ET.Element:
    named = {"class" if name == "kind" else name: f"{value}" for name, value in attributes.items()}
    return ET.SubElement(parent, tag, named)
