"""Compute the positions of words and lines in a picture, to find labels that touch something.

Graphviz measures the widths of all texts in one run, with the fonts of the picture.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from html import escape
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Mapping

SVG = "{http://www.w3.org/2000/svg}"
NEAR = 1.5
"""The minimum distance between words and lines, in pixels."""

ABOVE, BELOW = 0.74, 0.16
"""The heights of letters above and below the baseline, relative to the font size."""


class Point(NamedTuple):
    """A position in pixels from the upper left corner."""

    x: float
    y: float


class Style(NamedTuple):
    text: str
    size: float
    bold: bool
    italic: bool


class Box(NamedTuple):
    """A text and the area that its letters cover."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, point: Point, margin: float = 0.0) -> bool:
        return self.left - margin < point.x < self.right + margin and self.top - margin < point.y < self.bottom + margin


class Drawn(NamedTuple):
    """The texts of a picture before they are measured, and its lines as closely spaced points."""

    texts: list[tuple[Style, Point, str]]
    lines: list[tuple[str, list[Point]]]


def drawn(svg: bytes) -> Drawn:
    texts, lines = [], []
    for group in ET.fromstring(svg).iter(f"{SVG}g"):  # noqa: S314  (dot wrote it)
        kind = (group.get("class") or "").split(" ")[0]
        if kind not in {"edge", "node"}:
            continue
        for each in group.iter():
            if each.tag == f"{SVG}text" and (each.text or "").strip("\xa0") and (kind == "edge" or not _outline(group)):
                size, weight, slope = each.get("font-size", "14"), each.get("font-weight"), each.get("font-style")
                style = Style((each.text or "").strip("\xa0"), float(size), weight == "bold", slope == "italic")
                place = Point(float(each.get("x", 0)) + _blank(each.text or "", float(size)), float(each.get("y", 0)))
                texts.append((style, place, each.get("text-anchor", "start")))
            elif each.tag == f"{SVG}path" and kind == "edge":
                lines.append((group.get("id", ""), list(_along(each.get("d", "")))))
            elif each.tag == f"{SVG}polygon":
                corners = [Point(*map(float, pair.split(","))) for pair in each.get("points", "").split()]
                lines.append((group.get("id", ""), [at for two in pairwise(corners) for at in _between(*two)]))
            elif each.tag == f"{SVG}path":
                lines.append((group.get("id", ""), list(_along(each.get("d", "")))))
    return Drawn(texts, lines)


def chart_drawn(svg: bytes) -> Drawn:
    """Return the texts, arrows, horizontal lines and boxes of a sequence chart.

    Lifelines are left out, because texts may cover them.
    """
    texts, lines = [], []
    for group in ET.fromstring(svg).iter(f"{SVG}g"):  # noqa: S314  (ours)
        bold = any(each.get("class") == "violation" for each in group)
        for each in group:
            kind = each.get("class", "")
            if each.tag == f"{SVG}text":
                style = Style(each.text or "", 12.0, bold or kind in {"step", "divider"}, italic=False)
                anchor = {"step": "start", "divider": "start", "clock": "start", "place": "end"}.get(kind, "middle")
                texts.append((style, Point(float(each.get("x", 0)), float(each.get("y", 0))), anchor))
                continue
            at = {name: float(each.get(name, 0)) for name in ("x", "y", "width", "height", "x1", "x2", "y1", "y2")}
            if each.tag == f"{SVG}line":
                ends = [(at["x1"], at["y1"]), (at["x2"], at["y2"])]
            else:
                left, top, right, bottom = at["x"], at["y"], at["x"] + at["width"], at["y"] + at["height"]
                ends = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
            corners = [Point(*pair) for pair in ends if each.tag in {f"{SVG}line", f"{SVG}rect"}]
            lines.append((f"a {kind}", [point for two in pairwise(corners) for point in _between(*two)]))
    return Drawn(texts, lines)


def _outline(node: ET.Element) -> bool:
    return any(each.tag in {f"{SVG}path", f"{SVG}polygon", f"{SVG}ellipse"} for each in node.iter())


def _blank(text: str, size: float) -> float:
    return 0.318 * size * (len(text) - len(text.lstrip("\xa0")))


def _between(start: Point, end: Point) -> Iterator[Point]:
    steps = max(1, round(abs(end.x - start.x) + abs(end.y - start.y)))
    for step in range(steps + 1):
        part = step / steps
        yield Point(start.x + (end.x - start.x) * part, start.y + (end.y - start.y) * part)


def _along(path: str) -> Iterator[Point]:
    at = Point(0, 0)
    for command, numbers in re.findall(r"([MCL])([^A-Za-z]*)", path):
        values = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", numbers)]
        points = [Point(*pair) for pair in zip(values[::2], values[1::2], strict=True)]
        if command == "M":
            at = points[0]
        for number in range(0, len(points), 3) if command == "C" else ():
            yield from _curve(at, *points[number : number + 3])
            at = points[number + 2]
        for point in points if command == "L" else ():
            yield from _between(at, point)
            at = point


def _curve(first: Point, second: Point, third: Point, last: Point) -> Iterator[Point]:
    bends = (first, second, third, last)
    steps = max(1, round(sum(abs(b.x - a.x) + abs(b.y - a.y) for a, b in pairwise(bends))))
    for step in range(steps + 1):
        t, rest = step / steps, 1 - step / steps
        weights = (rest**3, 3 * rest**2 * t, 3 * rest * t**2, t**3)
        yield Point(
            sum(weight * each.x for weight, each in zip(weights, bends, strict=True)),
            sum(weight * each.y for weight, each in zip(weights, bends, strict=True)),
        )


def widths(styles: Iterable[Style]) -> Mapping[Style, float]:
    listed = list(dict.fromkeys(styles))
    nodes = []
    for number, style in enumerate(listed):
        words = escape(style.text) or "&#160;"
        words = f"<b>{words}</b>" if style.bold else f"<i>{words}</i>" if style.italic else words
        nodes.append(
            f'{number} [label=<<font face="DejaVu Sans,Verdana,sans-serif" point-size="{style.size}">{words}</font>>];'
        )
    text = f"digraph {{ node [shape=plain]; {' '.join(nodes)} }}"
    ran = subprocess.run(["dot", "-Tjson"], input=text.encode(), capture_output=True, check=True)  # noqa: S607
    found = {}
    for each in json.loads(ran.stdout)["objects"]:
        found[listed[int(each["name"])]] = max(part["width"] for part in each["_ldraw_"] if part["op"] == "T")
    return found


def boxes(picture: Drawn, wide: Mapping[Style, float]) -> list[Box]:
    found = []
    for style, at, anchor in picture.texts:
        width = wide[style]
        left = at.x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        top, bottom = at.y - ABOVE * style.size, at.y + BELOW * style.size
        found.append(Box(style.text, left, top, left + width, bottom))
    return found


def touching(picture: Drawn, wide: Mapping[Style, float]) -> list[str]:
    every = boxes(picture, wide)
    found = [
        f"'{box.text}' and {of}"
        for box in every
        for of, points in picture.lines
        if any(box.holds(at, NEAR) for at in points)
    ]
    for one, other in combinations(every, 2):
        apart = one.right <= other.left or other.right <= one.left or one.bottom <= other.top or other.bottom <= one.top
        found += [] if apart else [f"'{one.text}' and '{other.text}'"]
    return list(dict.fromkeys(found))
