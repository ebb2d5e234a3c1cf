"""Configurations of one entity: its state together with the calls in progress."""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from fsm.machine.calls.rules import ASKED, BEGUN, CUT, HELD, LOST


class Pending(NamedTuple):
    """A call in progress: its row, its stage (:mod:`fsm.machine.calls.rules`) and the states it may have met.

    ``met`` is a bit set: the states of the entity since the request, or the state in which the call took effect.
    """

    row: int
    stage: int
    met: int


NOW: Final = 1 << 20
"""Value of ``Due.start`` for a time limit that starts at the current observation."""
FRESH: Final = NOW + 1
"""Value of ``Due.start`` for a time limit that starts no later than the next observation."""


class Due(NamedTuple):
    """A time limit on the current state: the ``way`` that set it, and its ``start``.

    Unobserved interruptions may have moved the entity since that way was taken.  ``start`` is an index into the
    instants of the belief, oldest first, or one of :data:`NOW` and :data:`FRESH`.
    """

    way: int
    start: int


class Configuration(NamedTuple):
    """A state with the sorted calls in progress.

    ``queue`` holds outputs that were emitted but not yet observed.  ``deviations`` names the deviations that must have
    occurred to get here.  ``due`` is set if the state has a time limit.
    """

    state: int
    pending: tuple[Pending, ...] = ()
    queue: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    due: Due | None = None


Configurations: TypeAlias = frozenset[Configuration]


def each_of(calls: tuple[Pending, ...]) -> Iterator[tuple[Pending, tuple[Pending, ...]]]:
    """Yield each distinct call in *calls* together with the remaining calls."""
    for index, call in enumerate(calls):
        if not index or call != calls[index - 1]:
            yield call, calls[:index] + calls[index + 1 :]


def plus(calls: tuple[Pending, ...], call: Pending) -> tuple[Pending, ...]:
    """Return the sorted *calls* with *call* added."""
    return tuple(sorted((*calls, call))) if calls else (call,)


def late(calls: tuple[Pending, ...], row: int, stage: int) -> tuple[Pending, ...]:
    """Return *calls* with a lost call of *row* at *stage*, which is added only if there is none yet."""
    call = Pending(row, stage, 0)
    return calls if call in calls else plus(calls, call)


def passing(calls: tuple[Pending, ...], state: int) -> tuple[Pending, ...]:
    """Return *calls* after the entity has reached *state*, adding it to the states that asked calls have met."""
    bit = 1 << state
    for call in calls:
        if call.stage == ASKED and not call.met & bit:
            break
    else:
        return calls
    return tuple(sorted([Pending(call.row, ASKED, call.met | bit) if call.stage == ASKED else call for call in calls]))


def interrupted(calls: tuple[Pending, ...]) -> tuple[Pending, ...]:
    """Return *calls* after an interruption, which cuts off calls that have begun and ends lost calls."""
    if not calls:
        return calls
    left = [call for call in calls if call.stage > LOST]
    return tuple(sorted([Pending(call.row, CUT, 0) if call.stage in {BEGUN, HELD} else call for call in left]))


def released(calls: tuple[Pending, ...], row: int) -> tuple[Pending, ...]:
    """Return *calls* with one held call of *row* allowed to continue."""
    for call, others in each_of(calls):
        if (call.row, call.stage) == (row, HELD):
            return plus(others, call._replace(stage=BEGUN))
    return calls


def numbers(those: int) -> list[int]:
    """Return the members of the bit set *those*.

    >>> numbers(0b101)
    [0, 2]
    """
    found = []
    while those:
        bit = those & -those
        found.append(bit.bit_length() - 1)
        those ^= bit
    return found


def bits(configurations: Configurations) -> int:
    """Return the states of *configurations* as a bit set.

    >>> bits(frozenset({Configuration(0), Configuration(2)}))
    5
    """
    return sum(1 << state for state in {each.state for each in configurations})
