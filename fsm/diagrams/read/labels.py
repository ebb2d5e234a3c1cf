"""Labels: which line each phrase belongs to.

A label is above or below a horizontal stretch of its line, beside a vertical one, or within the line.  A phrase that is
equally near to two lines is a problem, and is assigned to neither.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from fsm.diagrams.read.drawing import ArrowLabel
from fsm.diagrams.read.nets import Nets
from fsm.diagrams.read.phrases import Phrase, names, stacked
from fsm.diagrams.read.strokes import Direction, GridCell, beyond
from fsm.diagrams.read.wires import Stroke, Wires

FARTHEST: Final = 8  # maximum number of blanks between a label and the line beside it
_JUNCTION: Final = 3  # minimum number of lines that meet at a junction


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedLabel:
    """A label, the stroke that it is placed at, and strokes of other lines that it also touches."""

    step: ArrowLabel
    at: Stroke
    rivals: tuple[Stroke, ...] = ()


@dataclass(slots=True)
class Labels:
    """Finds the line of each phrase.  ``stretch`` numbers the stretches of line between junctions."""

    wires: Wires
    stretch: dict[Stroke, int] = field(default_factory=dict)

    def find(self, nets: Nets, first: int, last: int) -> list[PlacedLabel]:
        """Return the labels of a drawing that extends from row *first* to *last*.

        They are all phrases of *nets* within it, and those between the two parts of a broken line.  A phrase directly
        above or below the drawing may be a sentence about it.  It is a label only if it is next to an outermost line
        that has no label.
        """
        # Each stretch between two junctions, or between a junction and an end, has at most one label.
        links, touches = self.wires.links, self.wires.touches
        plain = self.wires.components(lambda node: len(links[node]) + len(touches.get(node, ())) < _JUNCTION)
        for number, nodes in enumerate(plain):
            self.stretch |= dict.fromkeys(nodes, number)
        found = [PlacedLabel(step=self._step(label), at=node) for node, label in nets.between.items()]
        phrases = dict.fromkeys(nets.phrases.values())
        for stack in stacked(phrase for phrase in phrases if first <= phrase.row <= last):
            found += self._place_label(stack)
        named = {self.stretch.get(label.at) for label in found}
        for phrase in phrases:
            level = self._stretches_above_or_below((phrase,)) if phrase.row in {first - 1, last + 1} else {}
            if len(level) == 1 and not named & level.keys():
                found += [PlacedLabel(step=self._step([phrase]), at=node) for node in level.values()]
        return found

    def _step(self, stack: Sequence[Phrase]) -> ArrowLabel:
        return ArrowLabel(names=names(stack), place=self.wires.sheet.place(stack[0].start))

    def _place_label(self, stack: tuple[Phrase, ...]) -> Iterator[PlacedLabel]:
        level = self._stretches_above_or_below(stack)
        beside = self._stretches_beside(stack)
        if len(level) > 1:
            self._ambiguous(stack, level.values())
        elif level:
            ((number, at),) = level.items()
            rivals = tuple(node for each, (gap, node) in beside.items() if each != number and gap <= 1)
            yield PlacedLabel(step=self._step(stack), at=at, rivals=rivals)
        elif beside:
            nearest, at = min(beside.values())
            near = [node for gap, node in beside.values() if gap <= 1 or gap < 2 * nearest or gap == nearest]
            if len(near) > 1:
                self._ambiguous(stack, near)
            else:
                yield PlacedLabel(step=self._step(stack), at=at)
        else:
            what = f"'{stack[0].text}' belongs to no line"
            hint = "write it above, below or beside the line that it is the label of, or take it out of the drawing"
            self.wires.add_problem(stack[0].start, "FSM406", what, hint)

    def _ambiguous(self, stack: tuple[Phrase, ...], nodes: Iterable[Stroke]) -> None:
        places = [self.wires.sheet.place(node.cell) for node in nodes]
        lines = " and ".join(f"that at {place.line}:{place.column}" for place in places)
        what = f"'{stack[0].text}' could be the label of several lines: {lines}"
        self.wires.add_problem(stack[0].start, "FSM406", what, "move it nearer to one of them")

    def _stretches_above_or_below(self, stack: tuple[Phrase, ...]) -> dict[int, Stroke]:
        found: dict[int, Stroke] = {}
        for phrase in stack:
            for cell in phrase.cells():
                for to in ("N", "S"):
                    node = next(self.wires.strokes_at(beyond(cell, to), "h"), None)
                    if node is not None and {"E", "W"} & self.wires.links[node].keys() and node in self.stretch:
                        found.setdefault(self.stretch[node], node)
        return found

    def _stretches_beside(self, stack: tuple[Phrase, ...]) -> dict[int, tuple[int, Stroke]]:
        """Map each stretch beside *stack* to the number of blanks in between and its nearest stroke."""
        found: dict[int, tuple[int, Stroke]] = {}
        for phrase in stack:
            sides: tuple[tuple[int, Direction], ...] = ((phrase.first, "W"), (phrase.last, "E"))
            for column, to in sides:
                near = self._nearest_vertical((phrase.row, column), to)
                number = self.stretch[near[1]] if near else -1
                if near and (number not in found or near[0] < found[number][0]):
                    found[number] = near
        return found

    def _nearest_vertical(self, cell: GridCell, to: Direction) -> tuple[int, Stroke] | None:
        for gap in range(FARTHEST + 1):
            there = beyond(cell, to, gap + 1)
            node = next(self.wires.strokes_at(there, "v"), None)
            if node is not None:
                return (gap, node) if node in self.stretch else None
            if self.wires.sheet.at(there) != " ":
                return None
        return None
