"""Find nets, which are sets of connected lines with their beginnings and ends.

A net has one beginning and any number of ends, or several beginnings and one end. A beginning is a point where a line
leaves a box without an arrowhead, or where a line starts away from all boxes. An end is an arrowhead at a box, or at
a word without a box.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fsm.diagrams.drawing import ArrowLabel
from fsm.diagrams.read.canvas import HEADS, OPPOSITE, STARTS, STRAIGHT, Direction, GridCell, beyond, reaches
from fsm.diagrams.read.wires import Phrase, Stroke, Wires, names, neighbours, stacked

# Maximum number of blanks between an arrowhead and its word, and between the two parts of a broken line.
NEAR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NetEnd:
    state: str | None
    node: Stroke
    cell: GridCell
    head: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """Connected lines. ``broken`` is true if one of their ends has a problem."""

    nodes: tuple[Stroke, ...]
    ends: tuple[NetEnd, ...]
    broken: bool


@dataclass(slots=True)
class Nets:
    wires: Wires
    phrases: dict[GridCell, Phrase]  # phrases that are not part of any line
    words: dict[Stroke, Phrase] = field(default_factory=dict)  # states without a box, by the stroke that points to them
    between: dict[Stroke, list[Phrase]] = field(default_factory=dict)  # labels in gaps, by the stroke that fills a gap

    def find(self) -> list[Net]:
        for node in self.wires.links:
            to = HEADS.get(self.wires.sheet.at(node.cell))
            touched = any(touch.head for touch in self.wires.touches.get(node, ()))
            if to and not touched and (word := self._word_at_head(node.cell, to)):
                self.words[node] = word
        self._consume(self.words.values())
        self._join_broken_lines()
        found = []
        named = {cell: word for word in self.words.values() for cell in word.cells()}
        for nodes in self.wires.components():
            before = len(self.wires.problems)
            ends = tuple(self._ends(nodes, named))
            found.append(Net(nodes=nodes, ends=ends, broken=len(self.wires.problems) > before))
        return found

    def _word_at_head(self, cell: GridCell, to: Direction) -> Phrase | None:
        for far in range(1, 2 if to in "NS" else NEAR + 2):
            there = beyond(cell, to, far)
            phrase = self.phrases.get(there)
            if phrase is not None or self.wires.sheet.at(there) != " ":
                return phrase
        return None

    def _consume(self, those: Iterable[Phrase]) -> None:
        for cell in itertools.chain.from_iterable(phrase.cells() for phrase in those):
            self.phrases.pop(cell, None)

    def _join_broken_lines(self) -> None:
        for node in list(self.wires.links):
            for to in ("E", "S"):
                found = self._continuation(node, to) if self._is_open(node, to) else None
                if found is None:
                    continue
                label, other = found
                between = Stroke(label[0].start, "label")
                self.between[between] = label
                self.wires.links[between] = {OPPOSITE[to]: node, to: other}
                self.wires.links[node][to] = between
                self.wires.links[other][OPPOSITE[to]] = between
                self._consume(label)

    def _is_open(self, node: Stroke, to: Direction) -> bool:
        char = self.wires.sheet.at(node.cell)
        return reaches(char, to) and to not in self.wires.links[node] and not self._touches_box(node, to)

    def _touches_box(self, node: Stroke, to: Direction) -> bool:
        return any(touch.border == beyond(node.cell, to) for touch in self.wires.touches.get(node, ()))

    def _continuation(self, node: Stroke, to: Direction) -> tuple[list[Phrase], Stroke] | None:
        label: list[Phrase] = []
        if to == "E":
            cells = [beyond(node.cell, to, far) for far in range(1, NEAR + 1)]
            label = [self.phrases[cell] for cell in cells if cell in self.phrases][:1]
            behind = [(node.cell[0], label[0].last + far) for far in range(1, NEAR + 1)] if label else []
        else:
            cell = beyond(node.cell, to)
            while here := self.phrases.get(cell):
                label.append(here)
                cell = beyond(cell, to)
            behind = [cell] if label else []
        for cell in behind:
            other = next(self.wires.strokes_at(cell, "h"), None)
            if other is not None:
                strokes = (self.wires.sheet.at(node.cell), self.wires.sheet.at(cell))
                fits = self._is_open(other, OPPOSITE[to]) and any(char in STRAIGHT or char in HEADS for char in strokes)
                return (label, other) if fits else None
        return None

    def _ends(self, nodes: tuple[Stroke, ...], named: Mapping[GridCell, Phrase]) -> Iterable[NetEnd]:
        for node in sorted(nodes):
            touches = self.wires.touches.get(node, ())
            for touch in touches:
                cell = touch.border if self.wires.sheet.at(touch.border) in HEADS else node.cell
                yield NetEnd(state=touch.box.name, node=node, cell=cell, head=touch.head)
            if node in self.between:
                continue
            if self.wires.sheet.at(node.cell) in HEADS:
                if node in self.words:
                    yield NetEnd(state=self.words[node].text, node=node, cell=node.cell, head=True)
                elif not any(touch.head for touch in touches):
                    what = f"the arrowhead '{self.wires.sheet.at(node.cell)}' does not point at a box or a word"
                    hint = "move the arrowhead next to the box or word to which it leads"
                    self.wires.add_problem(node.cell, "FSM404", what, hint)
            elif len(self.wires.links[node]) + len(touches) == 1:
                yield from self._beginning(node, named)

    def _beginning(self, node: Stroke, named: Mapping[GridCell, Phrase]) -> Iterable[NetEnd]:
        (back,) = self.wires.links[node] or [to for to in OPPOSITE if self._touches_box(node, to)]
        to = OPPOSITE[back]
        for far in range(1, NEAR + 1):
            there = beyond(node.cell, to, far)
            if there in named:
                yield NetEnd(state=named[there].text, node=node, cell=node.cell, head=False)
                return
            phrase = self.phrases.get(there)
            if phrase is not None and phrase.text in STARTS:
                self._consume([phrase])
                break
            if phrase is not None and self.wires.sheet.at(node.cell) in STRAIGHT:
                what = f"the line ends at '{phrase.text}', which is not a box"
                hint = "draw a box around the name if it is a state; write labels beside lines"
                self.wires.add_problem(node.cell, "FSM404", what, hint)
                return
            if there in self.wires.owners or any(self.wires.strokes_at(there)):
                hint = "close the gap, or draw a longer line"
                self.wires.add_problem(node.cell, "FSM404", "the line breaks off", hint)
                return
        yield NetEnd(state=None, node=node, cell=node.cell, head=False)


FARTHEST: Final = 8  # maximum number of blanks between a label and the line beside it
_JUNCTION: Final = 3  # minimum number of lines at a junction


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedLabel:
    step: ArrowLabel
    at: Stroke
    rivals: tuple[Stroke, ...] = ()


@dataclass(slots=True)
class Labels:
    """Finds the line to which each phrase belongs."""

    wires: Wires
    stretch: dict[Stroke, int] = field(default_factory=dict)  # maps each stroke to the number of its stretch

    def find(self, nets: Nets, first: int, last: int) -> list[PlacedLabel]:
        """Return the labels of a drawing in the rows from *first* to *last*.

        A phrase in the row above or below may be a caption. It is a label only if it is next to a line without a label.
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
            self._add_ambiguity(stack, level.values())
        elif level:
            ((number, at),) = level.items()
            rivals = tuple(node for each, (gap, node) in beside.items() if each != number and gap <= 1)
            yield PlacedLabel(step=self._step(stack), at=at, rivals=rivals)
        elif beside:
            nearest, at = min(beside.values())
            near = [node for gap, node in beside.values() if gap <= 1 or gap < 2 * nearest or gap == nearest]
            if len(near) > 1:
                self._add_ambiguity(stack, near)
            else:
                yield PlacedLabel(step=self._step(stack), at=at)
        else:
            what = f"'{stack[0].text}' does not belong to any line"
            hint = "write the label above, below or beside its line, or remove it from the drawing"
            self.wires.add_problem(stack[0].start, "FSM406", what, hint)

    def _add_ambiguity(self, stack: tuple[Phrase, ...], nodes: Iterable[Stroke]) -> None:
        places = [self.wires.sheet.place(node.cell) for node in nodes]
        lines = " and ".join(f"the line at {place.line}:{place.column}" for place in places)
        what = f"'{stack[0].text}' could be the label of several lines: {lines}"
        self.wires.add_problem(stack[0].start, "FSM406", what, "move the label nearer to one of the lines")

    def _stretches_above_or_below(self, stack: tuple[Phrase, ...]) -> dict[int, Stroke]:
        found: dict[int, Stroke] = {}
        for cell in neighbours(stack):
            node = next(self.wires.strokes_at(cell, "h"), None)
            if node is not None and {"E", "W"} & self.wires.links[node].keys() and node in self.stretch:
                found.setdefault(self.stretch[node], node)
        return found

    def _stretches_beside(self, stack: tuple[Phrase, ...]) -> dict[int, tuple[int, Stroke]]:
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
