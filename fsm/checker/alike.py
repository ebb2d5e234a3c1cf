"""Share conclusions between tables that have the same behaviour, such as the tables of similar profiles."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache
from typing import Generic, Self, TypeAlias, TypeVar

from msgspec import structs

from fsm.machine.claims import Claim, Counts, Follows, MatchesDiagram, Refines, Requires
from fsm.machine.evidence import Conclusion
from fsm.machine.product import SystemTable
from fsm.machine.table import InProgress, Table, tabulate
from fsm.machine.traversal import Numbering

T = TypeVar("T")

Conclusions: TypeAlias = dict[Hashable, tuple[Conclusion, Counts]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The behaviour of a table without its clauses and deviations, so that similar profiles compare equal."""

    table: Table = field(compare=False)
    key: tuple[Hashable, ...]

    @classmethod
    def of(cls, table: Table) -> Self:
        table, overlap = (table.of, table.overlap) if isinstance(table, InProgress) else (table, 0)
        machine = table.machine
        ways = tuple(ways and tuple(structs.replace(way, deviation=None) for way in ways) for ways in table.cells)
        events = tuple((each.name, each.kind, each.rpc, each.interrupts) for each in machine.events.values())
        rows = tuple(row.name for row in table.rows)
        states = table.initial, tuple(table.states), tuple(table.shows), machine.indefinite
        return cls(table=table, key=(machine.name, states, events, rows, ways, overlap))


@dataclass(frozen=True, slots=True, eq=False)
class _Same(Generic[T]):
    """A wrapper that compares a large object by identity.

    This is enough because profiles share the objects that they do not change.
    """

    of: T

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.of is self.of

    def __hash__(self) -> int:
        return id(self.of)


class Alike:
    """A cache of conclusions about the tables of machines and the cones of systems."""

    def __init__(self) -> None:
        self._numbers: Numbering[Hashable] = Numbering()
        self._number = cache(lambda table: self._numbers[Behaviour.of(table.of)])
        self._known = defaultdict[Hashable, Conclusions](dict)

    def of(self, table: Table | SystemTable) -> Conclusions:
        if isinstance(table, SystemTable):
            return self._known[self._cone_key(table)]
        return self._known[self._number(_Same(table))]

    def _cone_key(self, table: SystemTable) -> Hashable:
        system = table.system
        inside = {system.copies[digit].part for digit in table.cone}
        begin = tuple((part.copies, part.initial) for part in system.parts.values())
        moving = tuple(
            (name, self._number(_Same(table.table_of(name))), part.without, _Same(part.heard))
            for name, part in system.parts.items()
            if name in inside
        )
        return system.name, table.cone, tuple(_Same(each.joint) for each in table.joint), begin, moving


def conclusion_key(claim: Claim, profile: str | None, limit: int) -> Hashable:
    """Return a cache key for a conclusion on *claim*, or ``None`` if the conclusion cannot be shared.

    The key does not include the behaviour of the table.
    """
    match claim:
        case Refines(other=other, overlap=overlap):
            return Behaviour.of(tabulate(other.partly_under(profile))), overlap, limit
        case MatchesDiagram() | Follows() | Requires():
            return None
        case _:
            return claim, limit
