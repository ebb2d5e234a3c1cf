"""A system: machines that step together.

Each part is a machine, of which there may be several copies.  A joint event
is one step of the whole: it goes one of its *ways*, each of which is a list
of events of parts, in order.  Systems are made by :mod:`fsm.language.build.systems`,
which checks all that these classes take for granted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fsm.machine import Clause, Kind, Machine
    from fsm.machine.conditions import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One copy of a part: ``index`` says which, ``digit`` which of all the copies of the system it is."""

    part: str
    index: tuple[int, ...]
    digit: int

    @property
    def suffix(self) -> str:
        """What tells it from other copies; empty if there are none.

        >>> Copy(part="container", index=(1, 2), digit=0).suffix
        '.1.2'
        """
        return "".join(f".{each}" for each in self.index)

    @property
    def name(self) -> str:
        """The part's name, with which copy it is."""
        return f"{self.part}{self.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Copies of one machine; ``root`` is the part that they belong to in the end.

    Its events do not have the outcomes ``without`` which it is here.  What it
    emits is ``heard`` only where that holds, if it is given.
    """

    name: str
    machine: Machine
    initial: str
    root: str
    copies: tuple[Copy, ...]
    about: str = ""
    without: frozenset[str] = frozenset()
    heard: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStep:
    """One event of one ``copy`` of a part, or its ``ends``.

    ``outcomes`` are those that it may have, all of them if empty; without an
    ``event`` the copy goes back to its beginning.  It is left out where
    ``when`` does not hold.  An error reply ends the joint event unless it
    ``goes_on``.
    """

    copy: Copy
    event: str = ""
    ends: bool = False
    outcomes: frozenset[str] = frozenset()
    when: Condition | None = None
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JointWay:
    """One way in which a joint event may go, where every step of it is possible."""

    name: str
    steps: tuple[PartStep, ...]
    about: str = ""
    when: Condition | None = None
    reply: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JointEvent:
    """What parts do together; one ``of`` a copy if each copy has its own, all of one ``family``."""

    name: str
    family: str
    kind: Kind
    about: str
    clause: Clause
    ways: tuple[JointWay, ...]
    of: Copy | None = None
    rpc: str = ""
    when: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A system otherwise: the ``system`` as it is then."""

    name: str
    about: str
    system: System
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Parts and joint events, with their sources."""

    name: str
    title: str
    about: str
    source: str
    parts: Mapping[str, Part]
    events: Mapping[str, JointEvent]
    clauses: Mapping[str, Clause]
    profiles: Mapping[str, Variant] = field(default_factory=dict)
    path: str = ""

    @property
    def copies(self) -> tuple[Copy, ...]:
        """All copies of all parts, by their digits."""
        return tuple(copy for part in self.parts.values() for copy in part.copies)

    def related(self, copy: Copy | None) -> dict[str, tuple[Copy, ...]]:
        """The copies of each part that are meant where *copy* is spoken of: those that belong to it, or it to them.

        Of parts that have nothing to do with it, all are.
        """
        return {name: tuple(self._related(part, copy)) for name, part in self.parts.items()}

    def _related(self, part: Part, copy: Copy | None) -> Iterator[Copy]:
        for each in part.copies:
            if (
                copy is None
                or self.parts[copy.part].root != part.root
                or all(one == other for one, other in zip(each.index, copy.index, strict=False))
            ):
                yield each
