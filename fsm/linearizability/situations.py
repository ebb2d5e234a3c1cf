"""Situations: where one entity may be, and how far the operations on it are; and sets of them."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from fsm.linearizability.history import Operation
from fsm.machine import Deviation
from fsm.machine.calls.rules import CallInstant

LOOKING: Final = -101
"""How far an operation is that has acted, and has still to look at what is shown."""
OVER: Final = -102
"""How far an operation is that has done all that it does, and has still to return."""


class Step(NamedTuple):
    """An instant of a linearization: what ``row`` of the machine did, for ``operation``.

    ``row`` is an event, or its name with ``…`` before it for a stage of a call that has begun; it is empty for a look,
    and ``operation`` is ``None`` for what happened hidden.  ``outcome`` is empty where nothing is specified.
    """

    operation: Operation | None
    row: str
    before: str
    outcome: str
    after: str
    deviation: Deviation | None = None


Calls: TypeAlias = tuple[tuple[int, int], ...]
"""Operations that were called and did not return, by number, and how far each is."""


class Place(NamedTuple):
    """Where the entity is, how far each operation is that was called and did not return, how many outputs came."""

    state: int
    calls: Calls = ()
    came: int = 0


class Situation(NamedTuple):
    """A place; the operations, as bits, that never return and may act yet; the deviations on which it rests.

    ``trail`` is how it came about, the last step first.
    """

    place: Place
    late: int = 0
    deviations: frozenset[str] = frozenset()
    trail: Trail | None = None


class Trail(NamedTuple):
    """One step, and those before it."""

    before: Trail | None
    number: int
    row: int
    source: int
    instant: CallInstant | None


class Best:
    """Situations, without those that another one covers."""

    def __init__(self) -> None:
        self._known: dict[Place, list[Situation]] = {}

    def add(self, new: Situation) -> bool:
        """Take *new*; whether none of those known covers it."""
        known = self._known.setdefault(new.place, [])
        if any(_covers(other, new) for other in known):
            return False
        known[:] = [*(other for other in known if not _covers(new, other)), new]
        return True

    def all(self) -> list[Situation]:
        """What is left, in the order in which the places were found."""
        return [each for known in self._known.values() for each in known]


def _covers(more: Situation, less: Situation) -> bool:
    """Whether whatever is legal after *less* is legal after *more*, both being in one place."""
    return more.late | less.late == more.late and more.deviations <= less.deviations
