"""Draw ASCII box-and-arrow diagrams. A user can paste a diagram into a comment, where fsm checks it.

States are stacked from top to bottom. An arrow to the state directly below is a straight line, and loops are on the
left. Every other arrow leaves and enters on its own row and runs down its own column on the right. Events without a
source are vertical trunks with branches on the far right. States that no line connects are placed side by side.

A diagram contains exactly what :mod:`fsm.diagrams.compare` requires of a complete diagram.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from fsm.diagrams.drawing import THEN, Abstraction, Act, LabelMeanings, Meaning, parts, plain, proposed
from fsm.machine import Event, Machine
from fsm.machine.traversal import closure

# Number of columns between side-by-side diagrams. It exceeds the maximum distance between a label and its line.
_APART: Final = 12

_HEAD: Final = 3  # number of rows above the boxes, for arrows without a source
_LOOP: Final = 6  # number of columns on the left, for loops
_STEP: Final = 3  # number of columns from one vertical line to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineArrow:
    source: str
    target: str
    labels: tuple[str, ...]
    joined: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trunk:
    targets: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    initial: str
    states: tuple[str, ...]
    lines: tuple[OutlineArrow, ...]
    trunks: tuple[Trunk, ...]


def outline(machine: Machine) -> Outline:
    """Arrange the states and arrows of *machine* for an ASCII diagram.

    >>> from fsm.language.library import load
    >>> outline(load("examples/models/washer.toml")).trunks
    (Trunk(targets=('IDLE',), labels=('power-cut',)),)
    """
    interrupting = [event.name for event in machine.events.values() if event.interrupts]
    abstraction = Abstraction(machine, proposed(machine), interrupting)
    known = LabelMeanings(machine).meanings
    moves: dict[tuple[str, str], dict[str, None]] = {}
    trunks: dict[str, dict[str, None]] = {}
    for key, acts in abstraction.must.items():
        shown = [act for act in acts if not abstraction.omitted(act, key.event)]
        for label in _labels(known, machine.events[key.event], shown):
            if not key.source:
                trunks.setdefault(label, {})[key.target] = None
            else:
                moves.setdefault((key.source, key.target), {})[label] = None
    alike: dict[tuple[str, ...], list[str]] = {}
    for label, targets in trunks.items():
        alike.setdefault(tuple(targets), []).append(label)
    return Outline(
        initial=abstraction.shown[machine.initial],
        states=tuple(dict.fromkeys(abstraction.shown[state] for state in machine.states)),
        lines=tuple(line for ends, labels in moves.items() for line in _lines(known, ends, list(labels))),
        trunks=tuple(Trunk(targets=targets, labels=tuple(labels)) for targets, labels in alike.items()),
    )


def _lines(known: Container[str], ends: tuple[str, str], labels: list[str]) -> Iterator[OutlineArrow]:
    shared = [label for label in labels if parts(label) == [label] and THEN not in label]
    for group in ([shared] if shared else []) + [[label] for label in labels if label not in shared]:
        joined = "/".join(group)
        if len(group) > 1 and joined in known:
            joined = ", ".join(group)
        yield OutlineArrow(source=ends[0], target=ends[1], labels=tuple(group), joined=joined)


def _labels(known: Mapping[str, Meaning], event: Event, acts: list[Act]) -> list[str]:
    general = next(iter(plain([*event.aliases, event.rpc])), event.name)
    found: dict[str, None] = {}
    for act in acts:
        aliases = [alias for way in event.outcomes() if way.name == act.outcome for alias in plain(way.aliases)]
        own = [alias for alias in aliases if known[alias] == (event.name, act.outcome)]
        found[(own or [f"{event.name}: {act.outcome}"])[0] if act.named else general] = None
    return list(found)


def ascii_drawing(machine: Machine) -> str:
    """Return *machine* as an ASCII diagram. The text ends in a newline.

    >>> from fsm.language.library import load
    >>> "| open +" in ascii_drawing(load("examples/models/door.toml"))
    True
    """
    return drawn(outline(machine))


def drawn(shown: Outline) -> str:
    cells: dict[tuple[int, int], str] = {}
    left = 0
    for states in _connected_groups(shown):
        page = _Page(shown, states)
        first = min(column for _, column in page.cells)
        cells |= {(row, left + column - first): char for (row, column), char in page.cells.items()}
        left = max(column for _, column in cells) + 1 + _APART
    rows = range(max(row for row, _ in cells) + 1)
    return "".join("".join(cells.get((row, column), " ") for column in range(left)).rstrip() + "\n" for row in rows)


def _connected_groups(shown: Outline) -> list[list[str]]:
    states = sorted(shown.states, key=lambda state: state != shown.initial)
    joined = [{line.source, line.target} for line in shown.lines] + [set(trunk.targets) for trunk in shown.trunks]

    def beside(state: str) -> Iterator[str]:
        return chain.from_iterable(ends for ends in joined if state in ends)

    groups = dict.fromkeys(frozenset(closure([state], beside)) for state in states)
    return [[state for state in states if state in group] for group in groups]


class _Page:
    def __init__(self, shown: Outline, states: list[str]) -> None:
        self.shown = shown
        self.states = states
        self.width = max(map(len, states)) + 4
        self._middle = self.width // 2
        self.cells: dict[tuple[int, int], str] = {}
        self.top: dict[str, int] = {}
        self.bottom: dict[str, int] = {}
        # The number of rows that arrows already use on the right side of each box.
        self.met: Counter[str] = Counter()
        # The places where arrows on the right turn: the row, the column, and the label to draw there.
        self.turns: list[tuple[int, int, str]] = []
        self._draw()

    def _draw(self) -> None:
        following = dict(zip(self.states, self.states[1:], strict=False))
        own = [line for line in self.shown.lines if line.target in self.states]
        loops: dict[str, tuple[str, ...]] = {}
        straight: dict[str, OutlineArrow] = {}
        for line in own:
            if line.source == line.target:
                loops[line.source] = loops.get(line.source, ()) + line.labels
            elif following.get(line.source) == line.target:
                straight.setdefault(line.source, line)
        around = [line for line in own if line.source != line.target and line not in straight.values()]
        self._place_rows(straight, around, loops)
        for state in self.states:
            self._draw_box(state)
        if self.shown.initial in self.states:
            self._draw_down(0, self.top[self.shown.initial])
        for line in straight.values():
            self._draw_down(self.bottom[line.source], self.top[line.target], line.labels)
        for state, labels in loops.items():
            self._draw_loop(state, labels)
        self._draw_trunks(self._draw_right(straight, around))
        # Draw horizontal lines last, because they must not overwrite the vertical lines that they cross.
        for row, column, label in self.turns:
            self._put(row, self.width - 1, f"+- {label} -" if label else "<")
            self._draw_horizontal(row, self.width, column - 1)
            self._put(row, column, "+")

    def _put(self, row: int, column: int, text: str) -> None:
        for offset, char in enumerate(text):
            self.cells[row, column + offset] = char

    def _draw_horizontal(self, row: int, first: int, last: int) -> None:
        for column in range(first, last + 1):
            self.cells.setdefault((row, column), "-")

    def _draw_vertical(self, column: int, first: int, last: int) -> None:
        for row in range(first, last + 1):
            self.cells[row, column] = "|"

    def _place_rows(
        self, straight: dict[str, OutlineArrow], around: list[OutlineArrow], loops: dict[str, tuple[str, ...]]
    ) -> None:
        trunks = [trunk for trunk in self.shown.trunks if set(trunk.targets) & set(self.states)]
        row = 0
        if trunks or self.shown.initial in self.states:
            row = max([_HEAD, *(len(trunk.labels) + 2 for trunk in trunks)])
        for state in self.states:
            meets = sum((line.source == state) + (line.target == state) for line in around)
            meets += sum(state in trunk.targets for trunk in trunks)
            self.top[state] = row
            self.bottom[state] = row + max(1, 2 * meets - 1, _row_count(loops[state]) if state in loops else 0) + 1
            row = self.bottom[state] + (len(straight[state].labels) + 3 if state in straight else 2)

    def _draw_box(self, state: str) -> None:
        top, bottom, inside = self.top[state], self.bottom[state], self.width - 2
        for row in (top, bottom):
            self._put(row, 0, f"+{'-' * inside}+")
        for row in range(top + 1, bottom):
            self._put(row, 0, f"|{' ' * inside}|")
        self._put((top + bottom) // 2, 1, state.center(inside))

    def _take_right_row(self, state: str) -> int:
        self.met[state] += 1
        return self.top[state] + 2 * self.met[state] - 1

    def _draw_down(self, first: int, last: int, labels: tuple[str, ...] = ()) -> None:
        self._put(first, self._middle, "+")
        self._draw_vertical(self._middle, first + 1, last - 1)
        self._put(last, self._middle, "v")
        for number, label in enumerate(labels):
            self._put(first + 2 + number, self._middle + 2, label)

    def _draw_loop(self, state: str, labels: tuple[str, ...]) -> None:
        first = self.top[state] + 1
        last = first + _row_count(labels) - 1
        self._draw_vertical(-_LOOP, first + 1, last - 1)
        for row, border in ((first, "+"), (last, ">")):
            self._draw_horizontal(row, 1 - _LOOP, -1)
            self._put(row, -_LOOP, "+")
            self._put(row, 0, border)
        start = first + (last - first + 1 - len(labels)) // 2
        for number, label in enumerate(labels):
            self._put(start + number, -_LOOP - 1 - len(label), label)

    def _draw_right(self, straight: dict[str, OutlineArrow], around: list[OutlineArrow]) -> int:
        inner = [self.width + len(line.joined) + 3 for line in around]
        inner += [self._middle + 2 + len(label) for line in straight.values() for label in line.labels]
        start = max([self.width, *inner]) + _STEP
        rows = {line: (self._take_right_row(line.source), self._take_right_row(line.target)) for line in around}
        beside = start
        for line in sorted(around, key=lambda line: abs(rows[line][0] - rows[line][1])):
            first, last = sorted(rows[line])
            column = start
            while any((row, column) in self.cells for row in range(first - 1, last + 2)):
                column += _STEP
            self._draw_vertical(column, first, last)
            beside = max(beside, column + _STEP)
            self.turns += [(rows[line][0], column, line.joined), (rows[line][1], column, "")]
        return beside

    def _draw_trunks(self, column: int) -> None:
        for trunk in self.shown.trunks:
            rows = [self._take_right_row(state) for state in self.states if state in trunk.targets]
            if rows:
                self._draw_vertical(column, 1, rows[-1])
                self._put(0, column, "+")
                for number, label in enumerate(trunk.labels):
                    self._put(1 + number, column + 2, label)
                self.turns += [(row, column, "") for row in rows]
                column += 2 + max(map(len, trunk.labels)) + _STEP


def _row_count(labels: tuple[str, ...]) -> int:
    return max(_HEAD, len(labels))
