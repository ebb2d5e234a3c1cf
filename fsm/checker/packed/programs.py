"""Compile the joint events of a system to arrays of integers.

The arrays hold the moves of :attr:`fsm.machine.product.SystemTable.joint`.  The options of a move come from the table
of its part, in the same order as in the uncompiled search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from fsm.checker.packed.expansion import ACCEPTED, MEMO, REJECTED, Program, Words
from fsm.compiled import Numbers
from fsm.machine.conditions import All, At, Atom, Condition, Not, Some
from fsm.machine.product import JointPath, JointRow, SystemTable
from fsm.machine.product.system import JointMove, Locals
from fsm.machine.traversal import Numbering

BITS: Final = 64
WIDEST: Final = 3


MOST_REMEMBERED: Final = 1 << 12
"""Maximum number of entries in the memo of an event, one for each combined state of the copies it depends on."""


class TooWideError(Exception):
    """Raised when a state of the system needs more than :data:`WIDEST` words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    word: int
    shift: int
    mask: int


class StateVector:
    """The layout of a packed state, with a bit field for each copy in the cone of *table*.

    Raise :class:`TooWideError` if the bit fields need too many words.

    >>> from fsm.language.library import load_system
    >>> vector = StateVector(SystemTable(load_system("examples/models/systems/house.toml"), cone=frozenset({0, 1})))
    >>> vector.width, vector.unpacked(vector.packed((1, 2) + vector.initial[2:]))[:2]
    (1, (1, 2))
    """

    def __init__(self, table: SystemTable) -> None:
        self.initial = table.locals(table.initial)
        self._timed = table.timed
        parts = [copy.part for copy in table.system.copies]
        self.fields: dict[int, Field] = {}
        word, used = 0, 0
        for digit in sorted(table.cone):
            bits = (len(table.table_of(parts[digit]).states) - 1).bit_length()
            if used + bits > BITS:
                word, used = word + 1, 0
            self.fields[digit] = Field(word=word, shift=used % BITS, mask=(1 << bits) - 1)
            used += bits
        self.width = word + 1
        self.shape = (0,) * self.width
        self.bits = word * BITS + used
        if self.width > WIDEST:
            raise TooWideError

    def packed(self, state: Locals) -> Words:
        words = [0] * self.width
        for digit, each in self.fields.items():
            words[each.word] |= state[digit] << each.shift
        return np.array(words, np.uint64)

    def bare(self, words: Words) -> Words:
        found = words.reshape(-1, self.width).copy()
        for digit, table in self._timed.items():
            at = self.fields[digit]
            states = np.array([table.bare(local) for local in range(len(table.states))], np.uint64)
            field = np.uint64(at.mask << at.shift)
            local = states[(found[:, at.word] & field) >> np.uint64(at.shift)]
            found[:, at.word] = (found[:, at.word] & ~field) | local << np.uint64(at.shift)
        return found.ravel()

    def unpacked(self, words: Words) -> Locals:
        state = list(self.initial)
        for digit, each in self.fields.items():
            state[digit] = int(words[each.word]) >> each.shift & each.mask
        return tuple(state)


def first_test(
    condition: Condition, of_atom: Callable[[Atom, int, int], int], yes: int = ACCEPTED, no: int = REJECTED
) -> int:
    match condition:
        case Not(of=inner):
            return first_test(inner, of_atom, no, yes)
        case All(of=parts):
            for part in reversed(parts):
                yes = first_test(part, of_atom, yes, no)
            return yes
        case Some(of=parts):
            for part in reversed(parts):
                no = first_test(part, of_atom, yes, no)
            return no
        case _:
            return of_atom(condition, yes, no)


class Tests:
    def __init__(self, table: SystemTable, vector: StateVector) -> None:
        self._table = table
        self._vector = vector
        self.rows: list[tuple[int, ...]] = []
        self.members: list[bool] = []
        self._set = cache(self._add_set)
        self._known: dict[int, tuple[Condition, int]] = {}

    def of(self, condition: Condition | None) -> int:
        condition = self._table.tested(condition)
        if condition is None:
            return ACCEPTED
        known = self._known.get(id(condition))
        if known is None:
            known = self._known[id(condition)] = condition, first_test(condition, self.atom)
        return known[1]

    def atom(self, condition: Atom, yes: int = ACCEPTED, no: int = REJECTED) -> int:
        if not isinstance(condition, At):
            raise TypeError(f"{condition} is not about the states of parts")
        for digit in reversed(condition.copies):
            row = self._row(digit, condition.states, yes, no)
            yes, no = (row, no) if condition.every else (yes, row)
        return yes if condition.every else no

    def busy(self, no: int = REJECTED) -> int:
        for digit, part in self._table.timed.items():
            each, first = self._vector.fields[digit], len(self.members)
            self.members += [not part.idle(local) for local in range(len(part.states))]
            self.rows.append((each.word, each.shift, each.mask, first, ACCEPTED, no))
            no = len(self.rows) - 1
        return no

    def _row(self, digit: int, states: frozenset[str], yes: int, no: int) -> int:
        each = self._vector.fields[digit]
        members = self._set(self._table.system.copies[digit].part, states)
        self.rows.append((each.word, each.shift, each.mask, members, yes, no))
        return len(self.rows) - 1

    def _add_set(self, part: str, states: frozenset[str]) -> int:
        first = len(self.members)
        self.members += [state in states for state in self._table.table_of(part).states]
        return first


class Writing:
    def __init__(self, table: SystemTable, vector: StateVector) -> None:
        self._vector = vector
        self._tests = Tests(table, vector)
        self.names: Numbering[tuple[int, str]] = Numbering()
        """Pairs of an event's row and the name of an outcome."""
        self.outputs: Numbering[str] = Numbering()
        self.replies: Numbering[tuple[str, ...]] = Numbering()
        self._paths: list[tuple[int, ...]] = []
        self._moves: list[tuple[int, ...]] = []
        self._cells: list[int] = []
        self._options: list[tuple[int, ...]] = []
        self._emitted: list[int] = []
        self._reads: list[tuple[int, ...]] = []
        self._kept: list[int] = []
        self._known: dict[tuple[object, ...], tuple[int, bool, bool]] = {}
        self.memo = MEMO
        """The index of the first item after the table in a memo of outcomes."""
        events = [self._event(row, each) for row, each in enumerate(table.joint)]
        self.program = Program(
            tests=array(self._tests.rows, 6),
            members=np.array(self._tests.members, np.int64),
            events=array(events, 8),
            paths=array(self._paths, 5),
            moves=array(self._moves, 6),
            cells=np.array(self._cells, np.int64),
            options=array(self._options, 4),
            emitted=np.array(self._emitted, np.int64),
            reads=array(self._reads, 4),
            kept=np.array(self._kept, np.uint64).view(np.int64),
        )

    def _event(self, row: int, event: JointRow) -> tuple[int, ...]:
        first = len(self._paths)
        alike = len({path.way.name for path in event.paths}) < len(event.paths)
        for path in event.paths:
            alike |= self._path(row, path)
        return self._tests.of(event.joint.when), first, len(self._paths), alike, *self._write_dependencies(event)

    def _write_dependencies(self, event: JointRow) -> tuple[int, int, int, int]:
        first, kept, place, size = len(self._reads), len(self._kept), self.memo, 1
        reads: list[tuple[int, ...]] = []
        others = [(1 << BITS) - 1] * self._vector.width
        for digit in event.digits:
            at = self._vector.fields[digit]
            reads.append((at.word, at.shift, at.mask, size))
            others[at.word] &= ~(at.mask << at.shift)
            size *= at.mask + 1
        if size > MOST_REMEMBERED:
            return first, first, kept, -1
        self._reads += reads
        self._kept += others
        self.memo += size
        return first, len(self._reads), kept, place

    def _path(self, row: int, path: JointPath) -> bool:
        first = len(self._moves)
        alike, branched = False, set[int]()
        for move in path.moves:
            cell, branches, same = self._options_of(move)
            alike |= same or move.at in branched
            if branches:
                branched.add(move.at)
            at = self._vector.fields[move.at]
            when, heard = self._tests.of(move.step.when), self._tests.of(move.part.heard)
            self._moves.append((when, heard, at.word, at.shift, at.mask, cell))
        when, name, reply = self._tests.of(path.way.when), self.names[row, path.way.name], self.replies[path.reply]
        self._paths.append((when, name, reply, first, len(self._moves)))
        return alike

    def _options_of(self, move: JointMove) -> tuple[int, bool, bool]:
        if (known := self._known.get(move.key)) is not None:
            return known
        first, most, same = len(self._cells), 0, False
        for local in range(move.states):
            self._cells.append(len(self._options))
            options = move.options(local)
            most, same = max(most, len(options)), same or len({to for to, *_ in options}) < len(options)
            for to, error, done, *_ in options:
                emitted = len(self._emitted)
                self._emitted += [self.outputs[output] for output in done.emits]
                self._options.append((to, self.replies[error] if error else -1, emitted, len(self._emitted)))
        self._cells.append(len(self._options))
        known = self._known[move.key] = first, most > 1, same
        return known


def array(rows: Sequence[tuple[int, ...]], columns: int) -> Numbers:
    return np.array(rows, np.int64).reshape(len(rows), columns)
