"""Reduce a system to the *cone of influence* of some copies, and exploit symmetry between copies.

The cone consists of the copies that a question is about and all copies that may affect them (Clarke, Grumberg and
Peled, *Model Checking*, 1999, section 13.1).  All other copies can be left out, because they neither enable nor
prevent anything in the cone.

An *exchange* swaps two neighbouring copies of a part, each with everything it owns.  If it maps every joint event to
a joint event of the system, a state and its image have the same future, except for the names of copies.  It is then
enough to search one state of each *orbit*, its *representative* (Ip and Dill, *Better verification through symmetry*,
1996; Clarke, Grumberg and Peled, chapter 14).  Copies that a claim distinguishes are not exchanged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations, groupby, pairwise
from math import factorial, prod
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, assert_never

from fsm.machine import conditions as atoms
from fsm.machine.conditions import All, At, Condition, Not, Some
from fsm.machine.product import JointPath, JointRow, SystemTable, read, tables_of
from fsm.machine.product.system import Copy, JointEvent, JointMove, JointWay, Locals, System, offered
from fsm.machine.table import Table


class Influence:
    def __init__(self, system: System, tables: Mapping[str, Table] | None = None) -> None:
        self._system = system
        self.tables = tables or tables_of(system)
        self._cones = cache(self._cone)
        self._may_stop = cache(self._find_stops)

    def cone(self, digits: Iterable[int], mentioned: Iterable[str] = (), outputs: Iterable[int] = ()) -> frozenset[int]:
        """Return the cone of influence of some copies, outputs and events.

        The cone contains every copy that may affect the copies in *digits*, the outputs of the copies in *outputs*,
        or the events in *mentioned*.
        """
        return self._cones(frozenset(digits), frozenset(mentioned), frozenset(outputs))

    def _cone(self, digits: frozenset[int], mentioned: frozenset[str], outputs: frozenset[int]) -> frozenset[int]:
        system = self._system
        found = {*digits, *outputs}
        for digit in outputs:
            found |= read(system.parts[system.copies[digit].part].heard)
        ways = [(joint, way) for joint in system.events.values() for way in joint.ways]
        size = -1
        while size != len(found):
            size = len(found)
            for joint, way in ways:
                found |= self._influencing_copies(joint, way, found, mentioned=joint.name in mentioned)
        return frozenset(found)

    def _influencing_copies(self, joint: JointEvent, way: JointWay, found: set[int], *, mentioned: bool) -> set[int]:
        inside = [number for number, step in enumerate(way.steps) if step.copy.digit in found]
        if not inside and not mentioned:
            return set()
        needed = set(read(joint.when) | read(way.when))
        last = len(way.steps) if mentioned else max(inside)
        for number, step in enumerate(way.steps):
            disabled, fails = self._may_stop(step.copy.part, step.event, step.outcomes, step.ends)
            blocks = disabled or (fails and number < last and joint.kind == "call" and not step.goes_on)
            if blocks:
                needed.add(step.copy.digit)
            if blocks or step.copy.digit in found:
                needed |= read(step.when)
        return needed

    def _find_stops(
        self,
        part: str,
        event: str,
        outcomes: frozenset[str],
        ends: bool,  # noqa: FBT001
    ) -> tuple[bool, bool]:
        """Return whether a step is disabled in some state, and whether it may get an error reply."""
        if not event:
            return False, False
        table, without = self.tables[part], self._system.parts[part].without
        row = table.end[table.row[event]] if ends else table.row[event]
        ways = [tuple(offered(table.step(state, row) or (), outcomes, without)) for state in range(len(table.states))]
        # The data may exclude any way, for example because it leads out of a scope.
        guarded = any(way.when or way.updates for each in ways for way in each)
        return guarded or not all(ways), any(reply != "ok" for each in ways for way in each for reply in way.reply)


class WaitsFor(NamedTuple):
    """A copy that cannot take part in the joint ``event`` because of the states of ``others``."""

    copy: str
    event: str
    others: tuple[str, ...]


def waiting(system: System, states: Mapping[str, str], events: Collection[str] = ()) -> Iterator[WaitsFor]:
    """Yield each copy that no joint event can move, with the other copies that it waits for.

    If *events* is not empty, only these joint events count.  *states* maps the names of copies to states.  The other
    copies are in their initial states.  Copies in an initial, final or error state wait for nothing.

    >>> from fsm.language.library import load_system
    >>> house = load_system("examples/models/systems/house.toml")
    >>> [each.others for each in waiting(house, {"alarm": "arming", "door.1": "open"}, ["arm"])]
    [('door.1',)]
    """
    table = SystemTable(system)
    named = [(copy, states.get(copy.name, system.parts[copy.part].initial)) for copy in system.copies]
    here: Locals = tuple(table.table_of(copy.part).states.index(state) for copy, state in named)
    rows = [row for row in table.joint if not events or row.joint.name in events]
    able = {digit for row in rows for digit in _moved(table, here, row.joint.name)}
    for copy, state in named:
        part = system.parts[copy.part]
        begun = state != part.initial and part.machine.states[state].kind not in {"final", "error"}
        for row in rows if begun and copy.digit not in able else ():
            if others := _preventing_copies(table, row, here, copy.digit):
                yield WaitsFor(copy.name, row.joint.name, tuple(system.copies[each].name for each in others))


def _preventing_copies(table: SystemTable, row: JointRow, here: Locals, digit: int) -> list[int]:
    copies, initial = table.system.copies, table.locals(table.initial)
    alone: dict[int, None] = {}
    together: dict[int, None] = {}
    for path in row.paths:
        moves = (move for move in path.moves if move.at == digit)
        if not any(to != here[digit] for move in moves for to, *_ in move.options(here[digit])):
            continue
        asked = {move.at for move in path.moves}.union(read(row.joint.when), read(path.way.when)) - {digit}
        for other in sorted(asked):
            states = range(len(table.table_of(copies[other].part).states))
            heres = ((*here[:other], to, *here[other + 1 :]) for to in states)
            if any(digit in _moved(table, each, row.joint.name, path.way.name) for each in heres):
                alone[other] = None
            if here[other] != initial[other]:
                together[other] = None
    return list(alone or together)


def _moved(table: SystemTable, here: Locals, event: str, *ways: str) -> set[int]:
    return {digit for *_, moved in table.effects(here, event, ways) for digit, _ in moved}


Interchangeable: TypeAlias = tuple[tuple[int, ...], ...]
"""Interchangeable members.  A member consists of the digits of a copy and of everything that this copy owns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A swap of two neighbouring copies.

    ``digits``, ``events`` and ``outputs`` map only what changes.  The index of one copy begins with ``prefix`` and
    ``first``, and the index of the other copy begins with ``prefix`` and ``first + 1``.
    """

    root: str
    prefix: tuple[int, ...]
    first: int
    digits: Mapping[int, int]
    events: Mapping[str, str]
    outputs: Mapping[str, str]


NONE: Final = Exchange(root="", prefix=(), first=0, digits={}, events={}, outputs={})


@dataclass(frozen=True, slots=True)
class Orbits:
    """Treats states as equal if they differ only in the order of the members of a group.  Inner groups come first."""

    groups: tuple[Interchangeable, ...] = ()

    def representative(self, state: Locals) -> Locals:
        """Return *state* with the members of each group sorted.

        >>> Orbits((((1, 2), (3, 4)),)).representative((7, 5, 6, 5, 0))
        (7, 5, 0, 5, 6)
        """
        for group in self.groups:
            members = [tuple([state[digit] for digit in member]) for member in group]
            if all(before <= after for before, after in pairwise(members)):
                continue
            found = list(state)
            for member, locals_ in zip(group, sorted(members), strict=True):
                for digit, local in zip(member, locals_, strict=True):
                    found[digit] = local
            state = tuple(found)
        return state

    def size(self, alike: Iterable[Sequence[bool]]) -> int:
        """Return the number of states in an orbit, given the result of :meth:`alike` for its representative.

        >>> Orbits((((0,), (1,), (2,)),)).size([(True, False)])
        3
        """
        return prod(map(_arrangements, alike))

    def alike(self, state: Locals) -> list[tuple[bool, ...]]:
        """Return, for each group, which neighbouring members have equal states in the representative *state*."""
        return [
            tuple(all(state[one] == state[two] for one, two in zip(*pair, strict=True)) for pair in pairwise(group))
            for group in self.groups
        ]


def _arrangements(alike: Sequence[bool]) -> int:
    runs = (len(list(run)) for same, run in groupby(alike) if same)
    return factorial(len(alike) + 1) // prod(factorial(length + 1) for length in runs)


class Symmetry:
    def __init__(self, table: SystemTable) -> None:
        self._table = table

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        return tuple(each for each in _exchanges(self._table.system) if keeps(self._table, each))

    def orbits(self, asked: Iterable[Condition]) -> Orbits:
        conditions = list(asked)
        kept = [each for each in self.exchanges if all(same(condition, condition, each) for condition in conditions)]
        groups = []
        # In a chain of neighbours, the number of a copy and its place in the list increase together.
        chains = groupby(enumerate(kept), lambda each: (each[1].root, each[1].prefix, each[1].first - each[0]))
        for (root, prefix, _), chain in chains:
            firsts = [each.first for _, each in chain]
            members = (self._member(root, (*prefix, number)) for number in (*firsts, firsts[-1] + 1))
            groups.append((len(prefix), tuple(members)))
        return Orbits(tuple(group for _, group in sorted(groups, key=itemgetter(0), reverse=True)))

    def _member(self, root: str, index: tuple[int, ...]) -> tuple[int, ...]:
        system = self._table.system
        inside = (
            copy for copy in system.copies if copy.digit in self._table.cone and copy.index[: len(index)] == index
        )
        return tuple(copy.digit for copy in inside if system.parts[copy.part].root == root)


def _exchanges(system: System) -> Iterator[Exchange]:
    families: dict[str, list[Copy]] = defaultdict(list)
    for copy in system.copies:
        families[system.parts[copy.part].root].append(copy)
    for root, copies in families.items():
        there = {(copy.part, copy.index): copy for copy in copies}
        numbers = sorted({(copy.index[:level], number) for copy in copies for level, number in enumerate(copy.index)})
        for (prefix, first), (after, second) in pairwise(numbers):
            if prefix != after:
                continue
            swapped = {(*prefix, first): (*prefix, second), (*prefix, second): (*prefix, first)}
            level = len(prefix) + 1
            moved = {
                copy: there.get((copy.part, (*swapped[copy.index[:level]], *copy.index[level:])))
                for copy in copies
                if copy.index[:level] in swapped
            }
            others = {copy: other for copy, other in moved.items() if other is not None}
            if len(others) == len(moved) and (outputs := _outputs(system, others)) is not None:
                yield Exchange(
                    root=root,
                    prefix=prefix,
                    first=first,
                    digits={copy.digit: other.digit for copy, other in others.items()},
                    events={
                        joint.name: f"{joint.family}{others[joint.of].suffix}"
                        for joint in system.events.values()
                        if joint.of in others
                    },
                    outputs=outputs,
                )


def _outputs(system: System, moved: Mapping[Copy, Copy]) -> dict[str, str] | None:
    outputs = [(copy, output) for copy in system.copies for output in system.parts[copy.part].machine.outputs()]
    found = {f"{output}{copy.suffix}": f"{output}{moved[copy].suffix}" for copy, output in outputs if copy in moved}
    others = {f"{output}{copy.suffix}" for copy, output in outputs if copy not in moved}
    return None if others & found.keys() else found


def keeps(table: SystemTable, exchange: Exchange) -> bool:
    digits = exchange.digits
    if {digits.get(digit, digit) for digit in table.cone} != table.cone or not table.cone & set(digits):
        return False
    if not all(same(part.heard, part.heard, exchange) for part in table.system.parts.values()):
        return False
    images = ((row, exchange.events.get(row.joint.name, row.joint.name)) for row in table.joint)
    return all(name in table.row and _is_same(row, table.joint[table.row[name]], exchange) for row, name in images)


def _is_same(row: JointRow, other: JointRow, exchange: Exchange) -> bool:
    if len(row.paths) != len(other.paths) or not same(row.joint.when, other.joint.when, exchange):
        return False
    return all(_is_same_path(path, another, exchange) for path, another in zip(row.paths, other.paths, strict=True))


def _is_same_path(path: JointPath, other: JointPath, exchange: Exchange) -> bool:
    way, another = path.way, other.way
    if (way.name, path.reply) != (another.name, other.reply) or not same(way.when, another.when, exchange):
        return False
    mine = [_move(move, exchange) for move in path.moves]
    others = [_move(move, NONE) for move in other.moves]
    if Counter(mine) != Counter(others):
        return False
    places = defaultdict[Hashable, list[int]](list)
    for place, each in enumerate(others):
        places[each].append(place)
    found = [(places[each].pop(0), move) for each, move in zip(mine, path.moves, strict=True)]
    return all(commute(one, two) for (first, one), (second, two) in combinations(found, 2) if first > second)


def _move(move: JointMove, exchange: Exchange) -> Hashable:
    step = move.step
    when = None if step.when is None else _key(step.when, exchange)
    return exchange.digits.get(move.at, move.at), step.event, step.ends, step.outcomes, step.goes_on, when


def commute(one: JointMove, two: JointMove) -> bool:
    """Check that the order of two moves does not matter.

    They must move different copies, and neither may read the copy that the other moves.  Neither may end the
    event, and at most one may emit outputs.
    """
    for move, other in ((one, two), (two, one)):
        reads = read(move.step.when) | (read(move.part.heard) if move.emitted() else frozenset())
        if other.at in {*reads, move.at} or any(
            errors for local in range(move.states) for _, errors, *_ in move.options(local)
        ):
            return False
    return not (one.emitted() and two.emitted())


def same(condition: Condition | None, other: Condition | None, exchange: Exchange) -> bool:
    """Check whether *exchange* turns *condition* into *other*.  The comparison is syntactic."""
    if condition is None or other is None:
        return condition is other
    return _key(condition, exchange) == _key(other, NONE)


def _key(condition: Condition, exchange: Exchange) -> Hashable:
    events, outputs = exchange.events, exchange.outputs
    match condition:
        case Not(of=inner):
            return Not, _key(inner, exchange)
        case All(of=parts) | Some(of=parts):
            return type(condition), frozenset(_key(part, exchange) for part in parts)
        case At(part=part, copies=copies, states=states, every=every, before=before):
            digits = frozenset(exchange.digits.get(copy, copy) for copy in copies)
            return At, part, digits, states, every or len(digits) == 1, before
        case atoms.Happens(event=event) | atoms.Replies(event=event):
            return replace(condition, event=events.get(event, event))
        case atoms.Emits(output=output) | atoms.StepEmits(output=output):
            return replace(condition, output=outputs.get(output, output))
        case atoms.EmitsOnly(outputs=wanted, among=among):
            named = tuple(outputs.get(each, each) for each in wanted)
            return named, None if among is None else frozenset(outputs.get(each, each) for each in among)
        case atoms.In() | atoms.SilentOn() | atoms.StateChanges() | atoms.Compare():
            return condition
        case _:
            assert_never(condition)
