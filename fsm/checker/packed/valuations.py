"""Search a machine with data in breadth-first order, a whole level at a time, with arrays.

A configuration is one integer: the state, the value of each variable, and the number of conditions of a sequence that
have held.  The configurations of a level are found in the same order as by :mod:`fsm.checker.safety`, so that both
engines return the same runs.  Machines whose calls take time are not supported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fsm.checker.breadth_first import Limit
from fsm.checker.formulas import FormulaWriter
from fsm.checker.instants import Instant, InstantStep, Successors, holds
from fsm.compiled import FOLD, SPREAD, Number, Numbers, lean
from fsm.machine.claims import Counts
from fsm.machine.conditions import Atom, Compare, Condition, with_atoms
from fsm.machine.guards import names_of
from fsm.machine.in_progress import InProgress
from fsm.machine.table import Way
from fsm.machine.terms import Values
from fsm.machine.traversal import Explored, LimitError

WIDEST: Final = 1 << 62
_ARRAYS: Final = FormulaWriter(
    operators={"+": np.add, "-": np.subtract, "min": np.minimum, "max": np.maximum},
    negated=np.logical_not,
    every=lambda *parts: reduce(np.logical_and, parts, np.True_),
    some=lambda *parts: reduce(np.logical_or, parts, np.False_),
)

Assigned: TypeAlias = "Mapping[str, Numbers | int]"
Mask: TypeAlias = "NDArray[np.bool_] | bool"


@lean
def add(keys: Numbers, slots: Numbers, known: Numbers, count: Number, fresh: Numbers) -> Number:
    """Add *keys* to the set *slots*, and append the new ones to *known*, which has *count* keys.

    The places of the new keys are written to *fresh*.  Return their number.
    """
    last, found = np.uint64(slots.shape[0] - 1), 0
    for place in range(keys.shape[0]):
        key = keys[place]
        mixed = np.uint64(key) * SPREAD
        slot = (mixed ^ mixed >> FOLD) & last
        while slots[slot] >= 0 and slots[slot] != key:
            slot = (slot + np.uint64(1)) & last
        if slots[slot] < 0:
            slots[slot] = key
            known[count + found] = key
            fresh[found] = place
            found += 1
    return found


class _Arrow(NamedTuple):
    """A way of a cell.  ``arguments`` are those that the updates read; ``choices`` are all others."""

    row: int
    way: Way
    arguments: tuple[Mapping[str, int], ...]
    choices: tuple[Mapping[str, int], ...]


class SearchLevel(NamedTuple):
    first: int  # index of the first key of the level
    parents: Numbers


ValuedNode: TypeAlias = "tuple[int, Values, int]"
"""A state, the values of the variables, and the number of conditions that have held."""


Sought: TypeAlias = "tuple[Sequence[Condition], Condition | None, int]"
"""The conditions of a sequence, the condition that resets it, and how many conditions hold at the first instant."""


@dataclass(slots=True, kw_only=True)
class Search:
    """The result of a search: its size and, if the sequence was found, the nodes on a shortest path through it.

    ``taken`` lists the ways that were taken, as (state, row, index), ``depths`` maps the states of the machine to their
    distances, and ``cut`` counts the ways that lead out of a scope.
    """

    counts: Counts
    path: tuple[ValuedNode, ...] | None
    taken: frozenset[tuple[int, int, int]]
    depths: Mapping[int, int]
    cut: int


class Valuations:
    """The configurations of *table* as integers."""

    def __init__(self, table: InProgress) -> None:
        if table.data is None or table.end:
            raise ValueError("only machines with data, whose calls take no time, are searched this way")
        self.table, self.data = table, table.data
        self._arrows: dict[int, list[_Arrow]] = {}

    def widths(self, conditions: int) -> list[int]:
        return [len(self.table.of.states), *(each.high - each.low + 1 for each in self.data.variables), conditions]

    def fits(self, conditions: int) -> bool:
        return prod(self.widths(conditions)) < WIDEST

    def arrows(self, state: int) -> list[_Arrow]:
        if state not in self._arrows:
            self._arrows[state] = [
                self._arrow(row.index, way)
                for row in self.table.rows
                for way in self.table.of.step(state, row.index) or ()
            ]
        return self._arrows[state]

    def _arrow(self, row: int, way: Way) -> _Arrow:
        updating = {*names_of(None, way.updates)}
        read = {*names_of(way.when, way.updates)}
        known = {each.name: range(each.low, each.high + 1) for each in self.data.arguments[row] if each.name in read}
        parts = ({name: each for name, each in known.items() if (name in updating) is kept} for kept in (True, False))
        arguments, choices = (
            tuple(dict(zip(part, each, strict=True)) for each in product(*part.values())) for part in parts
        )
        return _Arrow(row, way, arguments, choices)

    def search(self, successors: Successors, sought: Sought | None, limit: Limit) -> Search:
        return _Walk(self, successors, sought).run(limit)

    def size(self, successors: Successors, limit: Limit) -> tuple[Counts, int]:
        """Return the size of the machine, as without data, with its configurations, and the number of steps cut off."""
        found = self.search(successors, None, limit)
        depth = max(found.depths.values())
        counts = Counts(
            states=len(found.depths), transitions=len(found.taken), depth=depth, configurations=found.counts.states
        )
        return counts, found.cut


class _Walk:
    def __init__(self, of: Valuations, successors: Successors, sought: Sought | None) -> None:
        self.of, self.successors = of, successors
        self.conditions, self.until, self.start = sought or ((), None, 0)
        widths = of.widths(len(self.conditions) or 1)
        self.strides = [prod(widths[place + 1 :]) for place in range(len(widths))]
        self.lows = [0, *(each.low for each in of.data.variables), 0]
        self.names = [each.name for each in of.data.variables]
        self.keys = np.empty(1 << 12, np.int64)
        self.slots = np.full(1 << 13, -1, np.int64)
        self.fresh = np.empty(1 << 12, np.int64)
        self.levels: list[SearchLevel] = []
        self.taken: set[tuple[int, int, int]] = set()
        self.transitions = self.cut = 0
        self.steps: dict[tuple[int, int], list[InstantStep]] = {}
        self.depths: dict[int, int] = {}

    def run(self, limit: Limit) -> Search:
        values = zip((self.of.table.initial, *self.of.data.initial, self.start), self.lows, self.strides, strict=True)
        self._insert(np.array([sum(((value or 0) - low) * stride for value, low, stride in values)]), 0)
        begin, count = 0, 1
        self.levels = [SearchLevel(0, np.zeros(1, np.int64))]
        while begin < count:
            keys, sources, found = self._expand(begin, count)
            if found >= 0:
                return self._result(count, self._path(found))
            fresh = self._insert(keys, count)
            self.levels.append(SearchLevel(count, sources[fresh] + begin))
            begin, count = count, count + len(fresh)
            if count > limit.states:
                raise LimitError(limit.states)
            limit.watch(Explored(count, count - begin, len(self.levels) - 1))
        self.levels.pop()
        return self._result(count, None)

    def _result(self, count: int, path: tuple[ValuedNode, ...] | None) -> Search:
        counts = Counts(states=count, transitions=self.transitions, depth=len(self.levels) - (path is None))
        return Search(counts=counts, path=path, taken=frozenset(self.taken), depths=self.depths, cut=self.cut)

    def _insert(self, keys: Numbers, count: int) -> Numbers:
        if count + len(keys) > len(self.fresh):
            size = 1 << int(count + len(keys)).bit_length()
            self.keys = np.concatenate([self.keys[:count], np.empty(size - count, np.int64)])
            self.slots, self.fresh = np.full(2 * size, -1, np.int64), np.empty(size, np.int64)
            add(self.keys[:count], self.slots, np.empty(count, np.int64), np.int64(0), self.fresh)
        found = add(keys, self.slots, self.keys, np.int64(count), self.fresh)
        return self.fresh[:found].copy()

    def _columns(self, keys: Numbers) -> list[Numbers]:
        columns = []
        for low, stride in zip(self.lows, self.strides, strict=True):
            column, keys = np.divmod(keys, stride)
            columns.append(column + low)
        return columns

    def _expand(self, begin: int, end: int) -> tuple[Numbers, Numbers, int]:
        """Return the successors of a level, the places of their sources, and the first node with a found edge or -1."""
        columns = self._columns(self.keys[begin:end])
        keys, sources = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        first = end
        for state in map(int, np.unique(columns[0])):
            self.depths.setdefault(state, len(self.levels) - 1)
            here = np.flatnonzero(columns[0] == state)
            values = {name: column[here] for name, column in zip(self.names, columns[1:-1], strict=True)}
            for number, arrow in enumerate(self.of.arrows(state)):
                for places, after in self._after(arrow, values, len(here)):
                    self.taken.add((state, arrow.row, arrow.way.index))
                    base = np.full(len(places), arrow.way.to * self.strides[0])
                    for name, low, stride in zip(self.names, self.lows[1:], self.strides[1:], strict=False):
                        base += (after[name] - low) * stride
                    for held, broken in self._held(state, number, arrow, after, columns[-1][here][places]):
                        if broken is not None and broken.any():
                            first = min(first, begin + int(here[places][np.argmax(broken)]))
                        keys.append(base + held)
                        sources.append(here[places])
        self.transitions += sum(map(len, keys))
        return np.concatenate(keys), np.concatenate(sources), first if first < end else -1

    def _after(self, arrow: _Arrow, values: Assigned, size: int) -> Iterator[tuple[Numbers, dict[str, Any]]]:
        """Yield the places of the configurations from which *arrow* is possible, and the values after it."""
        reached: list[tuple[Numbers, dict[str, Any]]] = []
        for arguments in arrow.arguments:
            guard = arrow.way.when
            possible: Mask = guard is None
            if guard is not None:
                masks = [_ARRAYS.condition(guard, {**values, **arguments, **choice}) for choice in arrow.choices]
                possible = np.any(np.broadcast_arrays(*masks), axis=0)
            places = np.flatnonzero(np.broadcast_to(possible, size))
            if not len(places):
                continue
            frame = {name: column[places] for name, column in values.items()}  # type: ignore[index]
            after, inside = {**frame}, np.ones(len(places), np.bool_)
            for update in arrow.way.updates:
                variable = self.of.table.machine.data[update.variable]
                value = np.broadcast_to(_ARRAYS.term(update.term, {**frame, **arguments}), len(places))
                if variable.beyond == "saturates":
                    value = np.clip(value, variable.low, variable.high)
                inside &= (variable.low <= value) & (value <= variable.high)
                after[update.variable] = value
            if not inside.all():
                self.cut += int(len(places) - inside.sum())
                places, after = places[inside], {name: column[inside] for name, column in after.items()}
            reached.append((places, after))
        yield from reached if len(reached) < 2 else self._distinct(reached)  # noqa: PLR2004  (one needs no comparison)

    def _distinct(self, reached: list[tuple[Numbers, dict[str, Any]]]) -> Iterator[tuple[Numbers, dict[str, Any]]]:
        """Leave out targets that other arguments reach from the same configuration."""
        rows = np.concatenate([np.stack([places, *after.values()], axis=1) for places, after in reached])
        _, first = np.unique(rows, axis=0, return_index=True)
        first.sort()
        rows = rows[first]
        names = [*reached[0][1]]
        yield rows[:, 0], {name: rows[:, place] for place, name in enumerate(names, 1)}

    def _held(
        self, state: int, number: int, arrow: _Arrow, after: Assigned, held: Numbers
    ) -> Iterator[tuple[Numbers, NDArray[np.bool_] | None]]:
        """Yield, for each reply of a way, the number of conditions that hold after it, and where all of them hold."""
        if not self.conditions:
            yield held, None
            return
        last = len(self.conditions) - 1
        for step in self._steps(state, number, arrow):
            now, done = held.copy(), np.zeros(len(held), np.bool_)
            for instant in step.instants:
                done |= (now == last) & self._truth(self.conditions[last], instant, after)
                if self.until is not None:
                    now[(now > 0) & self._truth(self.until, instant, after)] = 0
                before = now.copy()
                for place in range(last):
                    now[(before == place) & self._truth(self.conditions[place], instant, after)] += 1
            yield now, done

    def _truth(self, condition: Condition, instant: Instant, after: Assigned) -> Mask:
        def of_atom(atom: Atom) -> Condition | bool:
            return atom if isinstance(atom, Compare) else holds(atom, self.of.table)(instant)

        left = with_atoms(condition, of_atom)
        return left if isinstance(left, bool) else _ARRAYS.condition(left, after)

    def _steps(self, state: int, number: int, arrow: _Arrow) -> list[InstantStep]:
        if (state, number) not in self.steps:
            replies = self.successors.replies(arrow.way)
            self.steps[state, number] = [self.successors.step(state, arrow.row, arrow.way, reply) for reply in replies]
        return self.steps[state, number]

    def _path(self, node: int) -> tuple[ValuedNode, ...]:
        found = [node]
        for level in reversed(self.levels[1:]):
            found.append(int(level.parents[found[-1] - level.first]))
        columns = self._columns(self.keys[np.array(found[::-1])])
        return tuple(
            (row[0], tuple(row[1:-1]), row[-1]) for row in zip(*(map(int, each) for each in columns), strict=True)
        )
