"""The product of machines that take steps together, as a table whose states are created on demand.

The state of a system consists of the states of all copies of its parts.  A joint event may happen in different ways.
Each way combines steps of parts (:meth:`fsm.machine.table.Table.step`) into one step of the system, and is enabled
only if all these steps are enabled.  If parts have data, a way also has the conditions and updates of these steps
(:mod:`fsm.machine.product.composition`), and the state of the system has the values of all variables.

Two reductions keep the product small.  A question about a few copies is answered on their cone of influence, and
states that differ only by interchangeable copies are treated as one (:mod:`fsm.machine.product.reduction`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, TypeAlias, cast

from msgspec.structs import replace as changed

from fsm.machine import Event
from fsm.machine.conditions import At, Atom, Compare, Condition, atoms, compares_data, predicate, with_atoms
from fsm.machine.guards import DataEffects
from fsm.machine.in_progress import InProgress, closed, in_progress
from fsm.machine.product.composition import NOTHING_ASSUMED, AssumedData, Composition, JointRun
from fsm.machine.product.system import JointEvent, JointMove, JointWay, Locals, System, Test
from fsm.machine.table import Row, Table, Way, tabulate
from fsm.machine.terms import DataUpdate, Values
from fsm.machine.traversal import Numbering

if TYPE_CHECKING:
    from fsm.machine.product.reduction import Orbits


_Outcome: TypeAlias = tuple[Locals, Way]
"""The new states of the copies in ``JointRow.digits`` after a joint event, and a way without a target."""

JointEffect: TypeAlias = tuple[
    str, tuple[str, ...], tuple[str, ...], Condition | None, tuple[DataUpdate, ...], tuple[tuple[int, int], ...]
]
"""The name, replies, outputs, conditions and updates of a way, and (digit, new state) for each changed copy."""


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

    ``digits`` are the digits of the copies that the event reads or changes.  By the states of these copies, ``known``
    caches its outcomes, and ``arguments`` the arguments with which it may happen.
    """

    joint: JointEvent
    when: Test
    paths: tuple[JointPath, ...]
    digits: tuple[int, ...]
    known: dict[Locals, tuple[_Outcome, ...]] = field(default_factory=dict)
    arguments: dict[Locals, tuple[Values, ...]] = field(default_factory=dict)


class SystemTable:
    """A system as a table, restricted to the copies in *cone* (by default, all copies).

    The table has the events that move these copies and the events in *mentioned*.  *tables* may provide tables of the
    parts.  If *orbits* is given, states are replaced by their representatives.
    With *symbolic*, states have no values, and ways keep their conditions and updates.
    """

    def __init__(
        self,
        system: System,
        *,
        cone: Collection[int] | None = None,
        mentioned: Collection[str] = (),
        tables: Mapping[str, Table] | None = None,
        orbits: Orbits | None = None,
        symbolic: bool = False,
    ) -> None:
        self._copies = copies = system.copies
        self.system = system
        self.cone = frozenset(range(len(copies))) if cone is None else frozenset(cone)
        self._tables = tables or tables_of(system)
        self._mentioned = frozenset(mentioned)
        self._symbolic = symbolic
        self._owners = [copy.digit for copy in copies for _ in system.parts[copy.part].machine.data]
        self.composition = Composition(system.data)
        self.joint = [
            each
            for each in map(self._event, system.events.values())
            if each.joint.name in mentioned or any(path.moves for path in each.paths)
        ]
        self.rows = tuple(
            Row(index=index, event=_as_event(each.joint), ends=False) for index, each in enumerate(self.joint)
        )
        self.data = self._effects_on_data()
        self.beyond_scope: dict[tuple[int, int], int] = {}
        """The number of ways that lead out of the scope of a variable, by state and row."""
        self.row: Mapping[str, int] = {row.event.name: row.index for row in self.rows}
        self.end: Mapping[int, int] = {}
        beginning = [self._tables[copy.part].states.index(system.parts[copy.part].initial) for copy in copies]
        if self.data is not None and not symbolic:
            beginning += [each.initial for each in self.data.variables]
        self.orbits = orbits
        self._inside = [(each.name, each.digit, self._tables[each.part]) for each in copies if each.digit in self.cone]
        self.timed = {digit: table for _, digit, table in self._inside if isinstance(table, InProgress)}
        """The tables of parts whose calls take time, by the digit of each copy in the cone."""
        self._numbers: Numbering[Locals] = Numbering()
        self._locals = self._numbers.listed
        self.states: list[str] = []
        self.initial = self.number(tuple(beginning))

    def _effects_on_data(self) -> DataEffects | None:
        variables = self.system.data
        if not (self.cone.intersection(self._owners) or any(row.event.arguments for row in self.rows)):
            return None
        owned = zip(variables.items(), self._owners, strict=True)
        # The values of other copies do not change.
        data = {name: each if own in self.cone else replace(each, beyond="error") for (name, each), own in owned}
        return DataEffects(data, (row.event for row in self.rows))

    def folded(self, orbits: Orbits) -> SystemTable:
        return SystemTable(self.system, cone=self.cone, mentioned=self._mentioned, tables=self._tables, orbits=orbits)

    def step(self, state: int, row: int) -> tuple[Way, ...]:
        event = self.joint[row]
        before = self._locals[state]
        key = tuple([before[digit] for digit in event.digits])
        known = event.known.get(key)
        if known is None:
            known = self._cached_outcomes(event, before)
        if self.data is not None and not self._symbolic:
            return self._ways_with_values(state, row, key, known, self.data)
        ways = []
        for locals_, way in known:
            after = list(before)
            for digit, local in zip(event.digits, locals_, strict=True):
                after[digit] = local
            ways.append(changed(way, to=self.number(tuple(after))))
        return tuple(ways)

    def _ways_with_values(
        self, state: int, row: int, key: Locals, known: tuple[_Outcome, ...], data: DataEffects
    ) -> tuple[Way, ...]:
        event, before, values = self.joint[row], self._locals[state], self.values(state)
        ways = [changed(way, to=place) for place, (_, way) in enumerate(known)]
        if key not in event.arguments:
            event.arguments[key] = data.combinations(row, ways)
        found: dict[tuple[int, Values], list[Values]] = {}
        self.beyond_scope[state, row] = 0
        for arguments in event.arguments[key]:
            for way, after in data.outcomes(ways, row, values, arguments) or ():
                if data.in_range(after):
                    found.setdefault((way.to, after), []).append(arguments)
                else:
                    self.beyond_scope[state, row] += 1
        made = []
        for (place, new), given in found.items():
            locals_, way = known[place]
            moved = [*before[: len(self._copies)], *cast("Locals", new)]
            for digit, local in zip(event.digits, locals_, strict=True):
                moved[digit] = local
            made.append(changed(way, to=self.number(tuple(moved)), when=None, updates=(), given=tuple(given)))
        return tuple(made)

    def values(self, state: int) -> Values:
        return self._locals[state][len(self._copies) :]

    def effects(self, before: Locals, event: str, ways: Collection[str] = ()) -> frozenset[JointEffect]:
        """Return the effects of *event*, or of some of its *ways*, without adding states to the table."""
        row = self.joint[self.row[event]]
        return frozenset(
            (
                way.name,
                way.reply,
                way.emits,
                way.when,
                way.updates,
                tuple((digit, to) for digit, to in zip(row.digits, locals_, strict=True) if to != before[digit]),
            )
            for locals_, way in (self._outcomes(row, before, ways) if ways else self._cached_outcomes(row, before))
        )

    def _cached_outcomes(self, event: JointRow, before: Locals) -> tuple[_Outcome, ...]:
        key = tuple([before[digit] for digit in event.digits])
        found = event.known.get(key)
        if found is None:
            # If several outcomes differ only in the names of the outcomes of the parts, keep only one of them.
            different: dict[object, _Outcome] = {}
            for locals_, way in self._outcomes(event, before):
                same = locals_, way.name, way.reply, way.emits, way.when, way.updates
                different.setdefault(same, (locals_, way))
            found = event.known[key] = tuple(different.values())
        return found

    def blocked(self, state: int, row: int) -> tuple[Way, ...]:
        """Return the ways that would be possible if the table did not leave out any moves.

        *state* is the target of each way.  The result is empty if no call takes time.
        """
        enabled = self._enabled(self.joint[row], self._locals[state]) if self.timed else ()
        return tuple(
            Way(index=-1, name=path.way.name, to=state, reply=(), emits=())
            for path, start in enabled
            if self.composition.runs(path.moves, start, blocked=True)
        )

    def met(self, state: int, row: int) -> Iterator[tuple[JointMove, int, AssumedData]]:
        """Yield the moves that *row* may make in *state*, each with a state of its copy and what this assumes."""
        for path, start in self._enabled(self.joint[row], self._locals[state]):
            yield from self.composition.met(path.moves, start)

    def beyond(self) -> SystemTable:
        """Return a copy of this table in which calls may also end in ways that the model does not specify."""
        tables = {name: each.beyond() if isinstance(each, InProgress) else each for name, each in self._tables.items()}
        return SystemTable(self.system, cone=self.cone, mentioned=self._mentioned, tables=tables)

    def bare(self, state: int) -> int:
        return state

    def settled(self, state: int) -> tuple[str, Values]:
        return self.states[state], self.values(state)

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
            self.states.append(self.system.shows({name: of.states[locals_[digit]] for name, digit, of in self._inside}))
        return number

    def seen(self, locals_: Locals) -> int:
        digits = (*range(len(self._copies)), *self._owners)
        here = zip(digits, locals_, self._locals[self.initial], strict=False)  # there may be no values
        return self.number(tuple(local if digit in self.cone else initial for digit, local, initial in here))

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
        if condition is None:
            return _always
        tests: dict[Atom, Callable[[Locals], bool]] = {
            each: self._part_test(each) for each in atoms(condition) if isinstance(each, At)
        }
        if not compares_data(condition):
            return predicate(condition, tests.__getitem__)
        return lambda here: with_atoms(condition, lambda atom: tests[atom](here) if atom in tests else atom)

    def tested(self, condition: Condition | None) -> Condition | None:
        return condition if condition is not None and read(condition) <= self.cone else None

    def test(self, condition: At) -> Callable[[int], bool]:
        holds, locals_ = self._part_test(condition), self._locals
        return lambda state: holds(locals_[state])

    def _part_test(self, condition: At) -> Callable[[Locals], bool]:
        states = self._tables[condition.part].states
        those = frozenset(number for number, state in enumerate(states) if state in condition.states)
        copies = condition.copies
        enough = all if condition.every else any
        if len(copies) == 1:
            [only] = copies
            return lambda here: here[only] in those
        return lambda here: enough(here[copy] in those for copy in copies)

    def _outcomes(self, event: JointRow, before: Locals, ways: Collection[str] = ()) -> Iterator[_Outcome]:
        for path, start in self._enabled(event, before):
            runs = self.composition.runs(path.moves, start) if not ways or path.way.name in ways else ()
            for here, done, error, assumed in runs:
                when = assumed.condition if assumed.holding else None
                if when is None or not self._symbolic or self.satisfiable(when, event.joint.name):
                    way = Way(
                        index=-1,
                        name=path.way.name,
                        to=-1,
                        reply=error or path.reply,
                        emits=tuple([output for each in done for output in each.emits]),
                        done=done,
                        when=when,
                        updates=self.composition.updates(assumed) if assumed.values else (),
                    )
                    yield tuple([here[digit] for digit in event.digits]), way

    def satisfiable(self, condition: Condition, event: str) -> bool:
        return self.data is None or self.data.possible(condition, self.row[event])

    def _enabled(self, event: JointRow, here: Locals) -> Iterator[tuple[JointPath, JointRun]]:
        happens = event.when(here)
        for path in event.paths if happens is not False else ():
            if (taken := path.when(here)) is not False:
                conditions = [each for each in (happens, taken) if not isinstance(each, bool)]
                yield path, (here, (), (), AssumedData(tuple(conditions)) if conditions else NOTHING_ASSUMED)


TransitionSystem: TypeAlias = Table | SystemTable


def _as_event(of: JointEvent) -> Event:
    return Event(name=of.name, kind=of.kind, about=of.about, cells={}, rpc=of.rpc, arguments=of.arguments)


def _always(_here: Locals) -> bool:
    return True


def tables_of(system: System, overlap: int = 1) -> dict[str, Table]:
    known: dict[int, Table] = {}
    for part in system.parts.values():
        if id(part.machine) not in known:
            known[id(part.machine)] = closed(in_progress(replace(tabulate(part.machine), data=None), overlap))
    return {name: known[id(part.machine)] for name, part in system.parts.items()}


def read(condition: Condition | None) -> frozenset[int]:
    """Return ``Copy.digit`` for each copy on whose state *condition* depends."""
    parts = atoms(condition) if condition else ()
    return frozenset(digit for part in parts if isinstance(part, At | Compare) for digit in part.copies)
