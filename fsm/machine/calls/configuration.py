"""Configurations of one entity: its state with the calls in progress."""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from fsm.machine.calls.rules import ASKED, BEGUN, CUT, HELD, LOST


class Pending(NamedTuple):
    """A call in progress: its row, its stage (:mod:`fsm.machine.calls.rules`), the states it may have met.

    ``met`` are states, as bits: those in which the entity has been since it was asked, or the one in which it acted.
    """

    row: int
    stage: int
    met: int


NOW: Final = 1 << 20
"""The start of a time limit that begins with the present observation, in place of a number."""
FRESH: Final = NOW + 1
"""The start of a time limit that begins no later than the next observation."""


class Due(NamedTuple):
    """The ``way`` with a time limit by which an entity came to the state that it is in, and since when it is there.

    Interruptions that nobody observed may have led elsewhere since.  ``start`` is the number of that instant, among those of a belief
    from the oldest on, or :data:`NOW` or :data:`FRESH`.
    """

    way: int
    start: int


class Configuration(NamedTuple):
    """A state, and the calls in progress, in order.

    ``queue`` holds outputs that were emitted and not seen yet, ``deviations`` those without which it would not be here.
    ``due`` is there if the state is to be left in time.
    """

    state: int
    pending: tuple[Pending, ...] = ()
    queue: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    due: Due | None = None


Configurations: TypeAlias = frozenset[Configuration]


def each_of(calls: tuple[Pending, ...]) -> Iterator[tuple[Pending, tuple[Pending, ...]]]:
    """Each of *calls*, and the others; of those that are alike, the first."""
    for index, call in enumerate(calls):
        if not index or call != calls[index - 1]:
            yield call, calls[:index] + calls[index + 1 :]


def plus(calls: tuple[Pending, ...], call: Pending) -> tuple[Pending, ...]:
    """*calls*, a sorted bag, with *call* in it."""
    return tuple(sorted((*calls, call))) if calls else (call,)


def late(calls: tuple[Pending, ...], row: int, stage: int) -> tuple[Pending, ...]:
    """*calls*, and a lost one of *row*, unless there is such a one."""
    call = Pending(row, stage, 0)
    return calls if call in calls else plus(calls, call)


def passing(calls: tuple[Pending, ...], state: int) -> tuple[Pending, ...]:
    """*calls* once the entity has come to *state*: those that have not acted may meet it."""
    bit = 1 << state
    for call in calls:
        if call.stage == ASKED and not call.met & bit:
            break
    else:
        return calls
    return tuple(sorted([Pending(call.row, ASKED, call.met | bit) if call.stage == ASKED else call for call in calls]))


def interrupted(calls: tuple[Pending, ...]) -> tuple[Pending, ...]:
    """*calls* once something has interrupted them: those that have begun are cut off, lost ones are over."""
    if not calls:
        return calls
    left = [call for call in calls if call.stage > LOST]
    return tuple(sorted([Pending(call.row, CUT, 0) if call.stage in {BEGUN, HELD} else call for call in left]))


def released(calls: tuple[Pending, ...], row: int) -> tuple[Pending, ...]:
    """*calls*, one of *row* that was held no longer so."""
    for call, others in each_of(calls):
        if (call.row, call.stage) == (row, HELD):
            return plus(others, call._replace(stage=BEGUN))
    return calls


def numbers(those: int) -> list[int]:
    """The numbers in a set of bits.

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
    """The states of *configurations* as a set of bits.

    >>> bits(frozenset({Configuration(0), Configuration(2)}))
    5
    """
    return sum(1 << state for state in {each.state for each in configurations})
