"""Share conclusions between tables that have the same behaviour, such as the tables of similar profiles."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from msgspec import structs

from fsm.machine.claims import Claim, Counts, Follows, MatchesDiagram, Refines, Requires
from fsm.machine.evidence import Conclusion
from fsm.machine.in_progress import InProgress
from fsm.machine.product import SystemTable
from fsm.machine.table import Table, tabulate
from fsm.machine.traversal import Numbering

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
        events = tuple(
            (each.name, each.kind, each.rpc, each.interrupts, tuple(each.arguments.values()))
            for each in machine.events.values()
        )
        rows = tuple(row.name for row in table.rows)
        states = table.initial, tuple(table.states), tuple(table.shows), machine.indefinite, (*machine.data.values(),)
        return cls(table=table, key=(machine.name, states, events, rows, ways, overlap))


class Alike:
    """A cache of conclusions about the tables of machines and the cones of systems.

    Large objects are compared by identity.  This is enough, because profiles share the objects that they do not change.
    """

    def __init__(self) -> None:
        self._numbers: Numbering[Hashable] = Numbering()
        self._number_of: dict[int, int] = {}
        self._kept: dict[int, object] = {}
        self._known = defaultdict[Hashable, Conclusions](dict)

    def of(self, table: Table | SystemTable) -> Conclusions:
        return self._known[self._cone_key(table) if isinstance(table, SystemTable) else self._number(table)]

    def _identity(self, of: object) -> int:
        self._kept[id(of)] = of  # no other object has this number while this one exists
        return id(of)

    def _number(self, table: Table) -> int:
        key = self._identity(table)
        if key not in self._number_of:
            self._number_of[key] = self._numbers[Behaviour.of(table)]
        return self._number_of[key]

    def _cone_key(self, table: SystemTable) -> Hashable:
        system = table.system
        inside = {system.copies[digit].part for digit in table.cone}
        begin = tuple((part.copies, part.initial) for part in system.parts.values())
        moving = tuple(
            (name, self._number(table.table_of(name)), part.without, self._identity(part.heard))
            for name, part in system.parts.items()
            if name in inside
        )
        return system.name, table.cone, tuple(self._identity(each.joint) for each in table.joint), begin, moving


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
