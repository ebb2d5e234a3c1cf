"""Configurations of one entity: its state with the calls in progress."""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from fsm.machine.calls.rules import ASKED, BEGUN, CUT, HELD, LOST


class Pending(NamedTuple):
    """A call in progress: its row, its stage (:mod:`fsm.machine.calls.rules`) and the states it may have met.

    ``met`` has states as bits: those the entity has been in since the call was asked, or the one in which it acted.
    """

    row: int
    stage: int
    met: int


NOW: Final = 1 << 20
"""Start of a time limit that begins with the present observation, in place of a number."""
FRESH: Final = NOW + 1
"""Start of a time limit that begins no later than the next observation."""


class Due(NamedTuple):
    """The ``way`` with a time limit that brought an entity to its present state, and the ``start`` of that limit.

    Unobserved interruptions may have moved the entity since.  ``start`` is the number of the instant, counted among the
    instants of a belief from the oldest on, or :data:`NOW` or :data:`FRESH`.
    """

    way: int
    start: int


class Configuration(NamedTuple):
    """A state with the calls in progress, sorted.

    ``queue`` holds outputs that were emitted but not seen yet, ``deviations`` those without which the entity could not
    be here.  ``due`` is set if the state must be left in time.
    """

    state: int
    pending: tuple[Pending, ...] = ()
    queue: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    due: Due | None = None


Configurations: TypeAlias = frozenset[Configuration]


def each_of(calls: tuple[Pending, ...]) -> Iterator[tuple[Pending, tuple[Pending, ...]]]:
    """Yield each of *calls* with the remaining calls; equal calls only once."""
    for index, call in enumerate(calls):
        if not index or call != calls[index - 1]:
            yield call, calls[:index] + calls[index + 1 :]


def plus(calls: tuple[Pending, ...], call: Pending) -> tuple[Pending, ...]:
    """Return *calls*, a sorted bag, with *call* added."""
    return tuple(sorted((*calls, call))) if calls else (call,)


def late(calls: tuple[Pending, ...], row: int, stage: int) -> tuple[Pending, ...]:
    """Return *calls* with a lost call of *row*; it is added only once."""
    call = Pending(row, stage, 0)
    return calls if call in calls else plus(calls, call)


def passing(calls: tuple[Pending, ...], state: int) -> tuple[Pending, ...]:
    """Return *calls* after the entity has reached *state*: calls that have not acted may meet it."""
    bit = 1 << state
    for call in calls:
        if call.stage == ASKED and not call.met & bit:
            break
    else:
        return calls
    return tuple(sorted([Pending(call.row, ASKED, call.met | bit) if call.stage == ASKED else call for call in calls]))


def interrupted(calls: tuple[Pending, ...]) -> tuple[Pending, ...]:
    """Return *calls* after an interruption: calls that have begun are cut off, lost calls are over."""
    if not calls:
        return calls
    left = [call for call in calls if call.stage > LOST]
    return tuple(sorted([Pending(call.row, CUT, 0) if call.stage in {BEGUN, HELD} else call for call in left]))


def released(calls: tuple[Pending, ...], row: int) -> tuple[Pending, ...]:
    """Return *calls* with one held call of *row* released."""
    for call, others in each_of(calls):
        if (call.row, call.stage) == (row, HELD):
            return plus(others, call._replace(stage=BEGUN))
    return calls


def numbers(those: int) -> list[int]:
    """Return the positions of the bits that are set in *those*.

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
    """Return the states of *configurations* as a set of bits.

    >>> bits(frozenset({Configuration(0), Configuration(2)}))
    5
    """
    return sum(1 << state for state in {each.state for each in configurations})
