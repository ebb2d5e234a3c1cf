"""Symmetry reduction for interchangeable copies.

An *exchange* swaps two neighbouring copies of a part, each with everything it owns.  If it maps every joint event of
the system to a joint event of the system, then a state and its image have the same future, except for the names of
copies.  Then only one state of each *orbit*, its *representative*, has to be searched (Ip and Dill, *Better
verification through symmetry*, 1996; Clarke, Grumberg and Peled, *Model Checking*, 1999, chapter 14).  Copies that a
claim distinguishes are not exchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from math import factorial, prod
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from fsm.machine import conditions as atoms
from fsm.machine.conditions import All, At, Condition, Not, Some
from fsm.machine.product import read
from fsm.machine.product.system import Locals

if TYPE_CHECKING:
    from fsm.machine.product import JointPath, JointRow, SystemTable
    from fsm.machine.product.system import Copy, JointMove, System

Interchangeable: TypeAlias = tuple[tuple[int, ...], ...]
"""A group of interchangeable members.  Each is a tuple of the digits of one copy and everything it owns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A swap of two neighbouring copies, as mappings of ``digits``, joint ``events`` and ``outputs``.

    Keys that are missing from a mapping are mapped to themselves.  Among the copies whose index begins with ``prefix``,
    it swaps the one numbered ``first`` and the next one.
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
    """Treats states as one if they differ only in the order of members of ``groups``.  Inner groups come first."""

    groups: tuple[Interchangeable, ...] = ()

    def representative(self, state: Locals) -> Locals:
        """Return the state in the orbit of *state* in which each group's members are sorted.

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
        """Return the size of the orbit of a representative, given the result of :meth:`alike` for it.

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
    """Return the number of distinct orders of sorted members.  *alike* is true for each pair of equal neighbours."""
    found, run = factorial(len(alike) + 1), 1
    for each in alike:
        run = run + 1 if each else 1
        found //= run
    return found


class Symmetry:
    """Finds the interchangeable copies in the cone of *table*."""

    def __init__(self, table: SystemTable) -> None:
        self._table = table

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The exchanges that map every step of the table to a step of the table."""
        return tuple(each for each in _exchanges(self._table.system) if keeps(self._table, each))

    def orbits(self, asked: Iterable[Condition]) -> Orbits:
        """Return the orbits whose states the conditions in *asked* do not distinguish."""
        conditions = list(asked)
        kept = [each for each in self.exchanges if all(same(condition, condition, each) for condition in conditions)]
        chains: dict[tuple[str, tuple[int, ...]], list[list[int]]] = defaultdict(list)
        for each in kept:
            those = chains[each.root, each.prefix]
            if those and those[-1][-1] == each.first:
                those[-1].append(each.first + 1)
            else:
                those.append([each.first, each.first + 1])
        groups = [
            (len(prefix), tuple(self._member(root, (*prefix, number)) for number in chain))
            for (root, prefix), those in chains.items()
            for chain in those
        ]
        return Orbits(tuple(group for _, group in sorted(groups, key=itemgetter(0), reverse=True)))

    def _member(self, root: str, index: tuple[int, ...]) -> tuple[int, ...]:
        system = self._table.system
        return tuple(
            copy.digit
            for copy in system.copies
            if system.parts[copy.part].root == root
            and copy.index[: len(index)] == index
            and copy.digit in self._table.cone
        )


def _exchanges(system: System) -> Iterator[Exchange]:
    """Yield every swap of two neighbouring copies of a part in *system*, together with what they own."""
    families: dict[str, list[Copy]] = defaultdict(list)
    for copy in system.copies:
        families[system.parts[copy.part].root].append(copy)
    for root, copies in families.items():
        there = {(copy.part, copy.index): copy for copy in copies}
        numbers = sorted(
            {(copy.index[:level], copy.index[level]) for copy in copies for level in range(len(copy.index))}
        )
        for (prefix, first), (after, second) in pairwise(numbers):
            if prefix != after:
                continue
            level = len(prefix)
            swapped = {first: second, second: first}
            moved = {
                copy: there.get((copy.part, (*prefix, swapped[copy.index[level]], *copy.index[level + 1 :])))
                for copy in copies
                if copy.index[:level] == prefix and copy.index[level : level + 1] in {(first,), (second,)}
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
    """Map the outputs of the copies in *moved* to new names.  Return ``None`` if other copies share an output name."""
    found: dict[str, str] = {}
    others: set[str] = set()
    for copy in system.copies:
        for output in system.parts[copy.part].machine.outputs():
            if copy in moved:
                found[f"{output}{copy.suffix}"] = f"{output}{moved[copy].suffix}"
            else:
                others.add(f"{output}{copy.suffix}")
    return None if others & set(found) else found


def keeps(table: SystemTable, exchange: Exchange) -> bool:
    """Check whether *exchange* maps each step of *table* to a step of *table*."""
    digits = exchange.digits
    if {digits.get(digit, digit) for digit in table.cone} != table.cone or not table.cone & set(digits):
        return False
    if not all(same(part.heard, part.heard, exchange) for part in table.system.parts.values()):
        return False
    for row in table.joint:
        name = exchange.events.get(row.joint.name, row.joint.name)
        if name not in table.row or not _turned(row, table.joint[table.row[name]], exchange):
            return False
    return True


def _turned(row: JointRow, other: JointRow, exchange: Exchange) -> bool:
    return (
        same(row.joint.when, other.joint.when, exchange)
        and len(row.paths) == len(other.paths)
        and all(_goes_alike(path, another, exchange) for path, another in zip(row.paths, other.paths, strict=True))
    )


def _goes_alike(path: JointPath, other: JointPath, exchange: Exchange) -> bool:
    way, another = path.way, other.way
    if (way.name, path.reply) != (another.name, other.reply) or not same(way.when, another.when, exchange):
        return False
    places = defaultdict[Hashable, list[int]](list)
    for place, move in enumerate(other.moves):
        places[_move(move, NONE)].append(place)
    found: list[int] = []
    for move in path.moves:
        free = places[_move(move, exchange)]
        if not free:
            return False
        found.append(free.pop(0))
    if len(found) != len(other.moves):
        return False
    return found == sorted(found) or all(
        commute(path.moves[one], path.moves[two])
        for one, two in combinations(range(len(found)), 2)
        if found[one] > found[two]
    )


def _move(move: JointMove, exchange: Exchange) -> Hashable:
    step = move.step
    when = None if step.when is None else _key(step.when, exchange)
    at = exchange.digits.get(move.at, move.at)
    return at, step.event, step.ends, step.outcomes, step.goes_on, when


def commute(one: JointMove, two: JointMove) -> bool:
    """Check that the moves commute: neither ends the event or reads the other's copy, and at most one emits."""
    for move, other in ((one, two), (two, one)):
        reads = read(move.step.when) | (read(move.part.heard) if move.emitted() else frozenset())
        if other.at in {*reads, move.at} or any(
            error for local in range(move.states) for _, error, _, _ in move.options(local)
        ):
            return False
    return not (one.emitted() and two.emitted())


def same(condition: Condition | None, other: Condition | None, exchange: Exchange) -> bool:
    """Check whether *exchange* maps *condition* to *other*, compared syntactically."""
    if condition is None or other is None:
        return condition is other
    return _key(condition, exchange) == _key(other, NONE)


def _key(condition: Condition, exchange: Exchange) -> Hashable:
    events = exchange.events

    def named(outputs: Iterable[str]) -> tuple[str, ...]:
        return tuple(exchange.outputs.get(output, output) for output in outputs)

    match condition:
        case Not(of=inner):
            return Not, _key(inner, exchange)
        case All(of=parts) | Some(of=parts):
            return type(condition), frozenset(_key(part, exchange) for part in parts)
        case At(part=part, copies=copies, states=states, every=every, before=before):
            digits = frozenset(exchange.digits.get(copy, copy) for copy in copies)
            return At, part, digits, states, every or len(digits) == 1, before
        case atoms.Happens(event=event):
            return atoms.Happens, events.get(event, event)
        case atoms.Replies(event=event, reply=reply):
            return atoms.Replies, events.get(event, event), reply
        case atoms.Emits(output=output) | atoms.StepEmits(output=output):
            return type(condition), named([output])
        case atoms.EmitsOnly(outputs=wanted, among=among):
            return atoms.EmitsOnly, named(wanted), None if among is None else frozenset(named(among))
        case atoms.In() | atoms.SilentOn() | atoms.StateChanges():
            return condition
        case _:
            assert_never(condition)
