"""Read ASCII box-and-arrow diagrams in any text.

A drawing is a paragraph with boxes and arrows. An arrow is the path of a line from its beginning to an arrowhead, with
the labels along the path. If a line branches, each arrowhead has its own arrow. If the line does not begin at a state,
the arrow has no source. It is a problem if a line ends nowhere, or if a label could belong to two lines.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from operator import not_
from typing import Final

from fsm.diagrams.drawing import Arrow, Drawing
from fsm.diagrams.read.canvas import STARTS, Box, Canvas, GridCell, boxes
from fsm.diagrams.read.nets import Labels, Net, NetEnd, Nets, PlacedLabel
from fsm.diagrams.read.wires import Stroke, Wires, phrases
from fsm.errors import Problem

LARGEST: Final = 100_000  # maximum number of characters in the drawings of a file
_LONGEST: Final = 1_000_000  # maximum total length of the arrows of a drawing
_MOST_LABELS: Final = 1_000  # maximum number of labels of an arrow, counted over all combinations of stacked labels
_GAP: Final = 2  # maximum distance in rows between a drawing and a separate line that belongs to it


def drawings(sheet: Canvas) -> Iterator[Drawing]:
    """Yield a drawing for each paragraph that has boxes and lines. Its problems are sorted from top to bottom."""
    left = LARGEST
    for within in sheet.paragraphs:
        inner, around = boxes(sheet, within)
        left -= sum(len(sheet.rows[row]) for row in within) if inner else 0
        if left < 0:
            yield _too_large_drawing(sheet, within, f"the drawings up to here have more than {LARGEST:,} characters")
            break
        if inner:
            yield from _read(Wires(sheet, within, inner), inner, around)


def _too_large_drawing(sheet: Canvas, within: range, what: str) -> Drawing:
    line, hint = within.start + 1, "copy the drawing to a file of its own"
    problem = Problem(path=sheet.path, line=line, code="FSM411", what=what, hint=hint)
    return Drawing(path=sheet.path, line=line, last=within.stop, states={}, arrows=(), problems=(problem,))


def _read(lines: Wires, found: list[Box], around: list[Box]) -> Iterator[Drawing]:
    for box in around:
        hint = "draw the states side by side, because nested states cannot be read"
        lines.add_problem(box.corners()[0], "FSM407", "a box contains other boxes", hint)
    written = list(phrases(lines))
    named = [any(map(str.isalnum, each.text)) or each.text in STARTS for each in written]
    strays = [*itertools.compress(written, map(not_, named))]
    kept = itertools.compress(written, named)
    nets = Nets(wires=lines, phrases={cell: each for each in kept for cell in each.cells()})
    pieces = nets.find()
    first, last = _row_range(found, pieces, lines)
    pieces = [net for net in pieces if first <= net.nodes[0].cell[0] <= last]
    if not pieces:
        return
    words = [word for node, word in nets.words.items() if first <= node.cell[0] <= last]
    first, last = min([first, *(word.row for word in words)]), max([last, *(word.row for word in words)])
    for stray in strays:
        hint = "complete the line, or remove it from the drawing"
        lines.add_problem(stray.start, "FSM404", f"'{stray.text}' does not belong to any line", hint)
    labels = Labels(wires=lines).find(nets, first, last)
    pairs = [(net, _end_pairs(net, lines)) for net in pieces]
    if sum(len(net.nodes) * len(ends) for net, ends in pairs) > _LONGEST:
        yield _too_large_drawing(lines.sheet, lines.within, "too many arrows share a line")
        return
    at: dict[Stroke, list[PlacedLabel]] = defaultdict(list)
    for label in labels:
        at[label.at].append(label)
    arrows = [arrow for _, ends in pairs if ends for arrow in _arrows(ends, at, lines)]
    _report_contested_labels(arrows, labels, lines)
    states = {box.name: lines.sheet.place(box.cell) for box in found}
    for word in words:
        states.setdefault(word.text, lines.sheet.place(word.start))
    for arrow, _ in arrows:
        for name in filter(None, (arrow.source, arrow.target)):
            states.setdefault(name, arrow.place)
    own = sorted((each for each in lines.problems if first <= each[0][0] <= last), key=lambda each: each[0])
    yield Drawing(
        path=lines.sheet.path,
        line=first + 1,
        last=last + 1,
        states=states,
        arrows=tuple(sorted((arrow for arrow, _ in arrows), key=lambda each: each.place)),
        problems=tuple(dict.fromkeys(problem for _, problem in own)),
    )


def _arrows(
    ends: list[tuple[NetEnd, NetEnd]], labels: Mapping[Stroke, list[PlacedLabel]], lines: Wires
) -> Iterator[tuple[Arrow, list[Stroke]]]:
    """Yield the arrows of a net that connects *ends*, with their strokes. They have the same start or the same end."""
    start, end = ends[0]
    root = start.node if all(each.node == start.node for each, _ in ends) else end.node
    before = {root: root}
    front = [root]
    for node in front:  # The list grows during the iteration.
        new = [each for each in lines.links[node].values() if each not in before]
        before |= dict.fromkeys(new, node)
        front += new
    for start, end in ends:
        way = [start.node if end.node == root else end.node]
        while way[-1] != root:
            way.append(before[way[-1]])
        if end.node != root:
            way.reverse()
        steps = tuple(label.step for node in way for label in labels.get(node, ()))
        if len(steps) * math.prod(len(step.names) for step in steps) > _MOST_LABELS:
            what = f"the labels along this line can be read in more than {_MOST_LABELS:,} ways"
            lines.add_problem(end.cell, "FSM411", what, "draw a separate line for some of the events")
        yield Arrow(source=start.state, target=end.state or "", steps=steps, place=lines.sheet.place(end.cell)), way


def _end_pairs(net: Net, lines: Wires) -> list[tuple[NetEnd, NetEnd]]:
    heads = [end for end in net.ends if end.head]
    tails = [end for end in net.ends if not end.head]
    if net.broken:
        return []
    if fault := _net_fault(net, heads, tails, lines):
        lines.add_problem(*fault)
        return []
    return list(itertools.product(tails, heads) if tails else itertools.permutations(heads, 2))


def _net_fault(
    net: Net, heads: list[NetEnd], tails: list[NetEnd], lines: Wires
) -> tuple[GridCell, str, str, str] | None:
    top = min(net.nodes).cell
    first = tails[0].cell if tails else top
    if sum(len(lines.links[node]) for node in net.nodes) >= 2 * len(net.nodes):
        what = "the line forms a ring, so there are two ways along it"
        return top, "FSM405", what, "draw a separate line for each way"
    if not heads:
        what = f"the line {_ends_phrase(tails, lines)}has no arrowhead"
        return first, "FSM404", what, "end the line with one of < > ^ v, at a box or a word"
    if len(tails) > 1 and any(end.state is None for end in tails):
        what = f"the line {_ends_phrase(tails, lines)}has arrowheads elsewhere, but none at these ends"
        return first, "FSM404", what, "add the missing arrowhead, or the missing box"
    if not tails and len(heads) != 2:  # noqa: PLR2004  (a line with an arrowhead at each end)
        hint = "begin the line at a box, or with a + that touches no box"
        return heads[0].cell, "FSM404", "the line has only arrowheads, and no beginning", hint
    if len(tails) > 1 and len(heads) > 1:
        what = f"the line has {len(tails)} beginnings and {len(heads)} arrowheads, so it is unclear where each leads"
        hint = "draw a separate line for each arrow, or cross lines as in --|--, because a + joins them"
        return first, "FSM405", what, hint
    return None


def _ends_phrase(ends: list[NetEnd], lines: Wires) -> str:
    places = [lines.sheet.place(end.cell) for end in ends]
    named = [f"{end.state or 'nothing'} ({at.line}:{at.column})" for end, at in zip(ends, places, strict=True)]
    return f"between {' and '.join(named)} " if named else ""


def _report_contested_labels(arrows: list[tuple[Arrow, list[Stroke]]], labels: list[PlacedLabel], lines: Wires) -> None:
    rivals: dict[Stroke, list[PlacedLabel]] = defaultdict(list)
    for label in labels:
        for rival in label.rivals:
            rivals[rival].append(label)
    for arrow, way in arrows:
        near = (label for node in way for label in rivals.get(node, ()))
        for label in dict.fromkeys(near) if not arrow.steps else ():
            name, place = label.step.names[0], label.step.place
            what = f"'{name}' could also be the label of the line to {arrow.target}, which has no label"
            hint = "move the label away from the line to which it does not belong"
            lines.add_problem((place.line - 1, place.column - 1), "FSM406", what, hint)


def _row_range(found: list[Box], pieces: list[Net], lines: Wires) -> tuple[int, int]:
    first, last = min(box.top for box in found), max(box.bottom for box in found)
    upright = []
    for net in pieces:
        rows = [node.cell[0] for node in net.nodes]
        span = min(rows), max(rows)
        if any(node in lines.touches for node in net.nodes):
            first, last = min(first, span[0]), max(last, span[1])
        if span[0] < span[1]:
            upright.append(span)
    spans: list[tuple[int, int]] = []
    for begin, end in sorted([*upright, (first, last)]):
        if spans and begin <= spans[-1][1] + _GAP:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((begin, end))
    return next(span for span in spans if span[0] <= first <= span[1])
