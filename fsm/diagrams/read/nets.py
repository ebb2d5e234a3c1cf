"""Nets: connected lines, their beginnings and their ends.

A net has one beginning and one or more ends, or several beginnings and one end.  A beginning is a line that leaves a
box without an arrowhead, or that starts nowhere.  An end is an arrowhead at a box, or at a word without a box.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fsm.diagrams.read.phrases import Phrase
from fsm.diagrams.read.strokes import HEADS, OPPOSITE, STARTS, STRAIGHT, Direction, GridCell, beyond, reaches
from fsm.diagrams.read.wires import Stroke, Wires

# Maximum number of blanks between an arrowhead and its word, and between the two parts of a broken line.
NEAR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NetEnd:
    """A beginning or end of a net.  ``state`` is ``None`` if it is not at a state."""

    state: str | None
    node: Stroke
    cell: GridCell
    head: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """Connected lines.  ``broken`` is true if one of their ends has a problem."""

    nodes: tuple[Stroke, ...]
    ends: tuple[NetEnd, ...]
    broken: bool


@dataclass(slots=True)
class Nets:
    """Finds the nets among the lines of a paragraph, and the words that are part of them."""

    wires: Wires
    phrases: dict[GridCell, Phrase]  # phrases that are not part of any line
    words: dict[Stroke, Phrase] = field(default_factory=dict)  # states without a box, by stroke
    between: dict[Stroke, list[Phrase]] = field(
        default_factory=dict
    )  # phrases within the broken line that a node joins

    def find(self) -> list[Net]:
        """Return the nets from top to bottom.  Phrases that are part of one are removed from ``phrases``."""
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
        """Join the two parts of each line that a label interrupts."""
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
        """Return the label that interrupts the line from *node*, and the stroke where the line continues after it."""
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
                    what = f"the arrowhead '{self.wires.sheet.at(node.cell)}' points at nothing"
                    self.wires.add_problem(
                        node.cell, "FSM404", what, "let it touch the box, or the word, that it leads to"
                    )
            elif len(self.wires.links[node]) + len(touches) == 1:
                yield from self._beginning(node, named)

    def _beginning(self, node: Stroke, named: Mapping[GridCell, Phrase]) -> Iterable[NetEnd]:
        """Yield the beginning of a line that has no arrowhead or box.  *named* maps cells to states without a box."""
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
                what = f"the line ends at '{phrase.text}', which is no box"
                self.wires.add_problem(
                    node.cell, "FSM404", what, "put it in a box if it is a state; write labels beside lines"
                )
                return
            if there in self.wires.owners or any(self.wires.strokes_at(there)):
                self.wires.add_problem(
                    node.cell, "FSM404", "the line is broken off", "close the gap, or draw it longer"
                )
                return
        yield NetEnd(state=None, node=node, cell=node.cell, head=False)
