"""The product of machines that take steps together, as a table whose states are created on demand.

The state of a system consists of the states of all copies of its parts.  A joint event may happen in different ways.
Each way combines steps of parts (:meth:`fsm.machine.table.Table.step`) into one step of the system, and is enabled
only if all these steps are enabled.

Two reductions keep the product small.  A question about a few copies is answered on their cone of influence, and
states that differ only by interchangeable copies are treated as one (:mod:`fsm.machine.product.reduction`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace as changed

from fsm.machine import Event
from fsm.machine.conditions import At, Atom, Condition, atoms, predicate
from fsm.machine.in_progress import InProgress, closed, in_progress
from fsm.machine.product.system import JointEvent, JointMove, JointWay, Locals, System, Test
from fsm.machine.table import Done, Row, Table, Way, tabulate
from fsm.machine.traversal import Numbering

if TYPE_CHECKING:
    from fsm.machine.product.reduction import Orbits


_Outcome: TypeAlias = tuple[Locals, Way]
"""The new states of the copies in ``JointRow.digits`` after a joint event, and a way without a target."""

JointEffect: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...], tuple[tuple[int, int], ...]]
"""The way name, the replies and the outputs of a joint event, and (digit, new state) for each changed copy."""


@dataclass(slots=True, kw_only=True)
class JointPath:
    """A way in which a joint event may happen, reduced to its moves of copies in the cone.

    ``reply`` is the reply of the event if none of the moves fails.
    """

    way: JointWay
    when: Test
    moves: tuple[JointMove, ...]
    reply: tuple[str, ...]

    def most(self) -> int:
        """Return an upper bound of the number of results in one state."""
        return prod(max(len(move.options(local)) or 1 for local in range(move.states)) for move in self.moves)


@dataclass(slots=True, kw_only=True)
class JointRow:
    """A joint event in a table.

    ``digits`` are the digits of the copies that the event reads or changes.  ``known`` caches its outcomes by the
    states of these copies.
    """

    joint: JointEvent
    when: Test
    paths: tuple[JointPath, ...]
    digits: tuple[int, ...]
    known: dict[Locals, tuple[_Outcome, ...]] = field(default_factory=dict)


class SystemTable:
    """A system as a table, restricted to the copies in *cone* (by default, all copies).

    The table has the events that move these copies and the events in *mentioned*.  *tables* may provide tables of the
    parts.  If *orbits* is given, states are replaced by their representatives.
    """

    def __init__(
        self,
        system: System,
        *,
        cone: Collection[int] | None = None,
        mentioned: Collection[str] = (),
        tables: Mapping[str, Table] | None = None,
        orbits: Orbits | None = None,
    ) -> None:
        self._copies = copies = system.copies
        self.system = system
        self.cone = frozenset(range(len(copies))) if cone is None else frozenset(cone)
        self._tables = tables or tables_of(system)
        self._mentioned = frozenset(mentioned)
        self.joint = [
            each
            for each in map(self._event, system.events.values())
            if each.joint.name in mentioned or any(path.moves for path in each.paths)
        ]
        events = (
            Event(name=joint.name, kind=joint.kind, about=joint.about, cells={}, rpc=joint.rpc)
            for joint in (each.joint for each in self.joint)
        )
        self.rows = tuple(Row(index=index, event=event, ends=False) for index, event in enumerate(events))
        self.row: Mapping[str, int] = {row.event.name: row.index for row in self.rows}
        self.end: Mapping[int, int] = {}
        beginning = tuple(self._tables[copy.part].states.index(system.parts[copy.part].initial) for copy in copies)
        self.orbits = orbits
        inside = ((copy.digit, self._tables[copy.part]) for copy in copies if copy.digit in self.cone)
        self.timed = {digit: table for digit, table in inside if isinstance(table, InProgress)}
        """The tables of parts whose calls take time, by the digit of each copy in the cone."""
        self._numbers: Numbering[Locals] = Numbering()
        self._locals = self._numbers.listed
        self.states: list[str] = []
        self.initial = self.number(beginning)

    def folded(self, orbits: Orbits) -> SystemTable:
        return SystemTable(self.system, cone=self.cone, mentioned=self._mentioned, tables=self._tables, orbits=orbits)

    def step(self, state: int, row: int) -> tuple[Way, ...]:
        event = self.joint[row]
        before = self._locals[state]
        known = event.known.get(tuple([before[digit] for digit in event.digits]))
        if known is None:
            known = self._cached_outcomes(event, before)
        ways = []
        for locals_, way in known:
            after = list(before)
            for digit, local in zip(event.digits, locals_, strict=True):
                after[digit] = local
            ways.append(changed(way, to=self.number(tuple(after))))
        return tuple(ways)

    def effects(self, before: Locals, event: str, ways: Collection[str] = ()) -> frozenset[JointEffect]:
        """Return the effects of *event*, or of some of its *ways*, without adding states to the table."""
        row = self.joint[self.row[event]]
        return frozenset(
            (
                way.name,
                way.reply,
                way.emits,
                tuple((digit, to) for digit, to in zip(row.digits, locals_, strict=True) if to != before[digit]),
            )
            for locals_, way in (self._outcomes(row, before, ways) if ways else self._cached_outcomes(row, before))
        )

    def _cached_outcomes(self, event: JointRow, before: Locals) -> tuple[_Outcome, ...]:
        key = tuple(before[digit] for digit in event.digits)
        found = event.known.get(key)
        if found is None:
            # If several outcomes differ only in the names of the outcomes of the parts, keep only one of them.
            different: dict[object, _Outcome] = {}
            for locals_, way in self._outcomes(event, before):
                different.setdefault((locals_, way.name, way.reply, way.emits), (locals_, way))
            found = event.known[key] = tuple(different.values())
        return found

    def blocked(self, state: int, row: int) -> tuple[Way, ...]:
        """Return the ways that would be possible if the table did not leave out any moves.

        *state* is the target of each way.  The result is empty if no call takes time.
        """
        before = self._locals[state]
        enabled = _enabled_paths(self.joint[row], before) if self.timed else ()
        return tuple(
            Way(index=-1, name=path.way.name, to=state, reply=(), emits=())
            for path in enabled
            if _runs(path.moves, before, blocked=True)
        )

    def met(self, state: int, row: int) -> dict[tuple[JointMove, int], None]:
        """Return the moves that *row* may make in *state*, each with the states in which its copy may then be."""
        found: dict[tuple[JointMove, int], None] = {}
        for path in _enabled_paths(self.joint[row], before := self._locals[state]):
            going = {before: None}
            for move in path.moves:
                taken = [here for here in going if move.when(here)]
                found |= dict.fromkeys((move, here[move.at]) for here in taken)
                then = ((here, to) for here in taken for to, error, *_ in move.options(here[move.at]) if not error)
                going = dict.fromkeys(here for here in going if not move.when(here))
                going |= dict.fromkeys((*here[: move.at], to, *here[move.at + 1 :]) for here, to in then)
        return found

    def beyond(self) -> SystemTable:
        """Return a copy of this table in which calls may also end in ways that the model does not specify."""
        tables = {name: each.beyond() if isinstance(each, InProgress) else each for name, each in self._tables.items()}
        return SystemTable(self.system, cone=self.cone, mentioned=self._mentioned, tables=tables)

    def bare(self, state: int) -> int:
        return state

    def settled(self, state: int) -> str:
        return self.states[state]

    def idle(self, state: int) -> bool:
        locals_ = self._locals[state]
        return all(table.idle(locals_[digit]) for digit, table in self.timed.items())

    def left_out(self, locals_of: Callable[[int], Collection[int]]) -> set[bool]:
        """Return whether the table leaves out ends of calls, other steps, or both.

        The result contains ``True`` if the table leaves out ends of calls, and ``False`` if it leaves out other steps.
        *locals_of* maps the digit of a copy to the states of this copy in which events begin.
        """
        moves = {move.key: move for row in self.joint for path in row.paths for move in path.moves}.values()
        found: set[bool] = set()
        for digit in self.timed:
            own = [(move, local) for move in moves if move.at == digit for local in range(move.states)]
            blocked = [(local, move.step.ends) for move, local in own if move.blocked(local)]
            passed = self._states_during_events(digit, locals_of(digit)) if blocked else ()
            found |= {ends for local, ends in blocked if local in passed}
        return found

    def _states_during_events(self, digit: int, locals_: Collection[int]) -> set[int]:
        found = set(locals_)
        for path in (path for row in self.joint for path in row.paths):
            here = set(locals_)
            for move in [move for move in path.moves if move.at == digit][:-1]:
                here |= {to for local in here for to, *_ in move.options(local)}
            found |= here
        return found

    def locals(self, state: int) -> Locals:
        return self._locals[state]

    def table_of(self, part: str) -> Table:
        return self._tables[part]

    def concerns(self, event: str, ways: Collection[str] = ()) -> tuple[int, ...]:
        row = self.joint[self.row[event]]
        return self._digits(row.joint, [each for each in row.paths if each.way.name in ways]) if ways else row.digits

    def shows(self, state: int) -> tuple[str, ...]:
        return tuple(self._tables[copy.part].shows[self._locals[state][copy.digit]] for copy in self.system.copies)

    def number(self, locals_: Locals) -> int:
        if self.orbits:
            locals_ = self.orbits.representative(locals_)
        number = self._numbers[locals_]
        if number == len(self.states):
            copies = (copy for copy in self._copies if copy.digit in self.cone)
            states = {copy.name: self._tables[copy.part].states[locals_[copy.digit]] for copy in copies}
            self.states.append(self.system.shows(states))
        return number

    def seen(self, locals_: Locals) -> int:
        beginning = self._locals[self.initial]
        inside = (locals_[digit] if digit in self.cone else local for digit, local in enumerate(beginning))
        return self.number(tuple(inside))

    def _event(self, joint: JointEvent) -> JointRow:
        paths = tuple(self._path(way, call=joint.kind == "call") for way in joint.ways)
        return JointRow(joint=joint, when=self._test(joint.when), paths=paths, digits=self._digits(joint, paths))

    def _digits(self, joint: JointEvent, paths: Collection[JointPath]) -> tuple[int, ...]:
        steps = [move.step for path in paths for move in path.moves]
        conditions = [joint.when, *(path.way.when for path in paths), *(step.when for step in steps)]
        conditions += [self.system.parts[step.copy.part].heard for step in steps]
        digits = {move.at for path in paths for move in path.moves}
        digits |= {digit for condition in conditions for digit in read(condition)} & self.cone
        return tuple(sorted(digits))

    def _path(self, way: JointWay, *, call: bool) -> JointPath:
        moves = tuple(
            JointMove(step, self._tables[step.copy.part], self.system.parts[step.copy.part], self._test, call=call)
            for step in way.steps
            if step.copy.digit in self.cone
        )
        return JointPath(way=way, when=self._test(way.when), moves=moves, reply=(way.reply or ("ok",)) if call else ())

    def _test(self, condition: Condition | None) -> Test:
        condition = self.tested(condition)
        return _always if condition is None else predicate(condition, self._part_test)

    def tested(self, condition: Condition | None) -> Condition | None:
        return condition if condition is not None and read(condition) <= self.cone else None

    def test(self, condition: At) -> Callable[[int], bool]:
        holds, locals_ = self._part_test(condition), self._locals
        return lambda state: holds(locals_[state])

    def _part_test(self, condition: Atom) -> Test:
        if not isinstance(condition, At):
            raise TypeError(f"{condition} is not about the states of parts")
        states = self._tables[condition.part].states
        those = frozenset(number for number, state in enumerate(states) if state in condition.states)
        copies = condition.copies
        enough = all if condition.every else any
        if len(copies) == 1:
            [only] = copies
            return lambda here: here[only] in those
        return lambda here: enough(here[copy] in those for copy in copies)

    def _outcomes(self, event: JointRow, before: Locals, ways: Collection[str] = ()) -> Iterator[_Outcome]:
        for path in _enabled_paths(event, before):
            for here, done, failed in _runs(path.moves, before) if not ways or path.way.name in ways else ():
                emits = tuple(output for each in done for output in each.emits)
                way = Way(index=-1, name=path.way.name, to=-1, reply=failed or path.reply, emits=emits, done=done)
                yield tuple(here[digit] for digit in event.digits), way


TransitionSystem: TypeAlias = Table | SystemTable


def _always(_here: Locals) -> bool:
    return True


def _enabled_paths(row: JointRow, here: Locals) -> list[JointPath]:
    return [path for path in row.paths if path.when(here)] if row.when(here) else []


_Run: TypeAlias = "tuple[Locals, tuple[Done, ...], tuple[str, ...]]"


def _runs(moves: tuple[JointMove, ...], before: Locals, *, blocked: bool = False) -> list[_Run]:
    going: list[_Run] = [(before, (), ())]
    ended: list[_Run] = []
    for move in moves:
        following: list[_Run] = []
        for run in going:
            here, done, _ = run
            if not move.when(here):
                following.append(run)
                continue
            heard, at = move.heard(here), move.at
            options = move.options(here[at])
            for to, error, delivered, undelivered in (*options, *move.blocked(here[at])) if blocked else options:
                after = here if to == here[at] else (*here[:at], to, *here[at + 1 :])
                (ended if error else following).append((after, (*done, delivered if heard else undelivered), error))
        going = following
    return [*going, *ended]


def tables_of(system: System, overlap: int = 1) -> dict[str, Table]:
    known: dict[int, Table] = {}
    for part in system.parts.values():
        if id(part.machine) not in known:
            known[id(part.machine)] = closed(in_progress(tabulate(part.machine), overlap))
    return {name: known[id(part.machine)] for name, part in system.parts.items()}


def read(condition: Condition | None) -> frozenset[int]:
    """Return ``Copy.digit`` for each copy on whose state *condition* depends."""
    parts = atoms(condition) if condition else ()
    return frozenset(digit for part in parts if isinstance(part, At) for digit in part.copies)
