"""Configurations of one entity: its state with the calls in progress; and sets of them without those that add nothing."""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from fsm.machine.calls.rules import ASKED, BEGUN, CUT, HELD, LOST, LOST_BEGUN


class Pending(NamedTuple):
    """A call in progress: its row, its stage (:mod:`fsm.machine.calls.rules`), the states it may have met.

    ``met`` are states, as bits: those in which the entity has been since it was asked, or the one in which it acted.
    """

    row: int
    stage: int
    met: int


class Configuration(NamedTuple):
    """A state, and the calls in progress, in order.

    ``queue`` holds outputs that were emitted and not seen yet, ``deviations`` those without which it would not be here.
    ``due`` is the way by which it has come to a state that it leaves in time; -1 if there is none.
    """

    state: int
    pending: tuple[Pending, ...] = ()
    queue: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    due: int = -1


Configurations: TypeAlias = frozenset[Configuration]


class ConfigurationSet:
    """Configurations, without those that another one of them covers.

    One covers another if the two differ only in that its calls may have met more states, that a call of it was not
    interrupted, that more of its calls are lost, that it has no time limit, or that it rests on fewer deviations: whatever
    is legal after the other is legal after it, and no deviation is certain for the other alone.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], list[tuple[_Open, Configuration]]] = {}
        self._met: set[Configuration] = set()
        self.size = 0

    def add(self, new: Configuration) -> bool:
        """Take *new*; whether it says anything that was not known."""
        if new in self._met:  # most are, as calls act in every order; what is covered stays covered
            return False
        self._met.add(new)
        shape, mine = _split(new)
        known = self._known.setdefault(shape, [])
        for other, _ in known:
            if _covers(other, mine):
                return False
        left = [each for each in known if not _covers(mine, each[0])]
        self.size += 1 + len(left) - len(known)
        known[:] = [*left, (mine, new)]
        return True

    def all(self) -> Configurations:
        """What is left."""
        return frozenset(each for known in self._known.values() for _, each in known)


def within(less: Configurations, more: Configurations) -> bool:
    """Whether whatever is legal after *less* is legal after *more*, since some of *more* covers each of *less*."""
    known: dict[tuple[object, ...], list[_Open]] = {}
    for each in more:
        shape, mine = _split(each)
        known.setdefault(shape, []).append(mine)
    return all(any(_covers(other, mine) for other in known.get(shape, ())) for shape, mine in map(_split, less))


class _Open(NamedTuple):
    """What a configuration leaves open: late calls and what each call has met, as bits; what it rests on; its time limit."""

    sets: tuple[int, ...]
    deviations: tuple[str, ...]
    due: int


def _split(each: Configuration) -> tuple[tuple[object, ...], _Open]:
    """What must be the same in two configurations for one to cover the other, and what may be more open."""
    if not each.pending:
        return (each.state, (), each.queue), _Open((0,), each.deviations, each.due)
    waited: list[tuple[int, int]] = []
    met: list[int] = []
    late = 0
    for call in each.pending:
        if call.stage > LOST:
            # One that was cut off is like one that was asked and has met no state.
            waited.append((call.row, ASKED if call.stage == CUT else call.stage))
            met.append(call.met)
        else:  # it may act or not, so the more of them there are the more is legal
            late |= 1 << (2 * call.row + (call.stage == LOST_BEGUN))
    return (each.state, tuple(waited), each.queue), _Open((late, *met), each.deviations, each.due)


def _covers(more: _Open, less: _Open) -> bool:
    for one, other in zip(more.sets, less.sets, strict=True):
        if one | other != one:
            return False
    if more.due not in {-1, less.due}:
        return False
    return not more.deviations or set(more.deviations) <= set(less.deviations)


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
