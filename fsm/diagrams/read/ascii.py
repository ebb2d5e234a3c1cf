"""Boxes and arrows drawn with characters, in any text.

A drawing is a paragraph with boxes and arrows in it.  Nothing is guessed: a line that
ends at nothing, a label that could belong to two lines, or a box that is not closed is
a problem with its place, so that no arrow is read that was not drawn.

An arrow is a path along a line from its beginning to an arrowhead.  A line that
branches has an arrow to each head, with the labels along that path.  An arrow whose
line begins at nothing has no source.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fsm.diagrams.read.boxes import Box, boxes
from fsm.diagrams.read.canvas import Canvas, Paragraph
from fsm.diagrams.read.drawing import Arrow, Drawing, Notation
from fsm.diagrams.read.labels import Labels, PlacedLabel
from fsm.diagrams.read.nets import Net, NetEnd, Nets
from fsm.diagrams.read.phrases import phrases
from fsm.diagrams.read.strokes import STARTS, GridCell
from fsm.diagrams.read.wires import Stroke, Wires, wires
from fsm.errors import Problem

_BOTH: Final = 2
"""Number of arrowheads of a line with one at each end."""

_GAP: Final = 2
"""Largest number of empty rows between a drawing and a piece of line that belongs to it."""


@dataclass(slots=True)
class Reading:
    """Reads one paragraph, and collects the problems in it."""

    sheet: Canvas
    within: Paragraph
    problems: list[tuple[GridCell, Problem]] = field(default_factory=list)
    lines: int = 0

    def add_problem(self, cell: GridCell, code: str, what: str, hint: str) -> None:
        place = self.sheet.place(cell)
        problem = Problem(
            path=self.sheet.path, line=place.line, code=code, what=f"column {place.column}: {what}", hint=hint
        )
        if (cell, problem) not in self.problems:
            self.problems.append((cell, problem))

    def read(self, found: list[Box], around: list[Box]) -> Drawing:
        """The drawing made of these boxes."""
        for box in around:
            hint = "draw states side by side: nested states are not read"
            self.add_problem(box.corners()[0], "FSM407", "a box has boxes in it", hint)
        lines = wires(self.sheet, self.within, found)
        drawn = {node.cell for node in lines.links}
        written = phrases(self.sheet, self.within, lambda cell: cell in drawn or lines.box(cell) is not None)
        strays = [each for each in written if not any(map(str.isalnum, each.text)) and each.text not in STARTS]
        written = [each for each in written if each not in strays]
        nets = Nets(wires=lines, phrases=written, add_problem=self.add_problem)
        pieces = nets.find()
        first, last = _reach(found, pieces, lines)
        pieces = [net for net in pieces if first <= net.nodes[0].cell[0] <= last]
        self.lines = len(pieces)
        words = [word for node, word in nets.words.items() if first <= node.cell[0] <= last]
        last = max([last, *(word.row for word in words)])
        first = min([first, *(word.row for word in words)])
        labels = Labels(wires=lines, add_problem=self.add_problem)
        for stray in strays:
            what = f"'{stray.text}' is part of no line"
            self.add_problem(stray.start, "FSM404", what, "close the line, or take it out of the drawing")
        steps = labels.find(nets.phrases, nets.between, first, last)
        arrows = [arrow for net in pieces for arrow in self._arrows(net, steps, lines)]
        self._contested(arrows, steps)
        self.problems = [each for each in self.problems if first <= each[0][0] <= last]
        states = {box.name: self.sheet.place(box.cell) for box in found}
        for word in words:
            states.setdefault(word.text, self.sheet.place(word.start))
        return Drawing(
            path=self.sheet.path,
            kind=Notation.ASCII,
            line=first + 1,
            last=last + 1,
            states=states,
            arrows=tuple(sorted((arrow for arrow, _ in arrows), key=lambda each: each.place)),
        )

    def _arrows(self, net: Net, labels: list[PlacedLabel], lines: Wires) -> Iterator[tuple[Arrow, list[Stroke]]]:
        """The arrows along *net*, each with its strokes."""
        for start, end in self._pairs(net, lines):
            way = _way(lines, start.node, end.node)
            steps = sorted((label for label in labels if label.at in way), key=lambda label: way.index(label.at))
            arrow = Arrow(
                source=start.state,
                target=end.state or "",
                steps=tuple(label.step for label in steps),
                place=self.sheet.place(end.cell),
            )
            yield arrow, way

    def _pairs(self, net: Net, lines: Wires) -> list[tuple[NetEnd, NetEnd]]:
        """The pairs of ends of *net* between which arrows lead."""
        heads = [end for end in net.ends if end.head]
        tails = [end for end in net.ends if not end.head]
        if net.broken:
            return []
        if sum(len(lines.links[node]) for node in net.nodes) >= 2 * len(net.nodes):
            hint = "draw each way as a line of its own"
            self.add_problem(
                min(net.nodes).cell, "FSM405", "the line runs in a ring, so there are two ways along it", hint
            )
            return []
        if not tails and len(heads) == _BOTH:
            return [(heads[0], heads[1]), (heads[1], heads[0])]
        if not heads:
            cell = tails[0].cell if tails else min(net.nodes).cell
            what = f"the line {self._between(tails)}has no arrowhead"
            self.add_problem(cell, "FSM404", what, "end it in one of < > ^ v, at a box or a word")
            return []
        if len(tails) > 1 and any(end.state is None for end in tails):
            what = f"the line {self._between(tails)}has arrowheads elsewhere, and none at these ends"
            self.add_problem(tails[0].cell, "FSM404", what, "add the arrowhead, or the box, that is missing")
            return []
        if not tails:
            hint = "begin it at a box, or with a + away from any box"
            self.add_problem(heads[0].cell, "FSM404", "the line has arrowheads only", hint)
            return []
        if len(tails) > 1 and len(heads) > 1:
            what = f"a line with {len(tails)} beginnings and {len(heads)} arrowheads: which leads where?"
            hint = "draw a line for each, or let lines cross as in --|--; a + joins them"
            self.add_problem(tails[0].cell, "FSM405", what, hint)
            return []
        return [(tail, head) for tail in tails for head in heads]

    def _between(self, ends: list[NetEnd]) -> str:
        """The ends of a line, with their places."""
        places = [self.sheet.place(end.cell) for end in ends]
        named = [f"{end.state or 'nothing'} ({at.line}:{at.column})" for end, at in zip(ends, places, strict=True)]
        return f"between {' and '.join(named)} " if named else ""

    def _contested(self, arrows: list[tuple[Arrow, list[Stroke]]], labels: list[PlacedLabel]) -> None:
        """Add a problem for each label that also touches a line without a label."""
        for label in labels:
            for arrow, way in arrows:
                if not arrow.steps and any(rival in way for rival in label.rivals):
                    what = (
                        f"'{label.step.names[0]}' could also be the label of the line to {arrow.target}, which has none"
                    )
                    cell = label.step.place.line - 1, label.step.place.column - 1
                    self.add_problem(cell, "FSM406", what, "move it away from the line that it does not belong to")


def _way(lines: Wires, start: Stroke, end: Stroke) -> list[Stroke]:
    """The strokes from *start* to *end*; there is only one path."""
    before: dict[Stroke, Stroke] = {start: start}
    front = [start]
    for node in front:
        for each in lines.links[node].values():
            if each not in before:
                before[each] = node
                front.append(each)
    way = [end]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


def _reach(found: list[Box], pieces: list[Net], lines: Wires) -> tuple[int, int]:
    """The first and the last row of a drawing: its boxes, their lines, and lines close to them.

    Arrows in the text around a drawing are not part of it.
    """
    first, last = min(box.top for box in found), max(box.bottom for box in found)
    rows = {net: [node.cell[0] for node in net.nodes] for net in pieces}
    for net, own in rows.items():
        if any(node in lines.touches for node in net.nodes):
            first, last = min(first, *own), max(last, *own)
    upright = [own for own in rows.values() if len(set(own)) > 1]
    while near := [own for own in upright if min(own) <= last + _GAP and max(own) >= first - _GAP]:
        upright = [own for own in upright if own not in near]
        first, last = min([first, *map(min, near)]), max([last, *map(max, near)])
    return first, last


def drawings(sheet: Canvas) -> list[tuple[Drawing, list[Problem]]]:
    """The drawing in each paragraph that has boxes and lines, with its problems from top to bottom."""
    found = []
    for within in sheet.paragraphs():
        inner, around = boxes(sheet, within)
        if inner:
            reading = Reading(sheet=sheet, within=within)
            drawing = reading.read(inner, around)
            if reading.lines:
                found.append((drawing, [problem for _, problem in sorted(reading.problems, key=lambda each: each[0])]))
    return found
