"""One way things may stand for an entity, and sets of such ways without what adds nothing."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

ASKED: Final = -1
"""The request was seen; the call has not acted."""
BEGUN: Final = -2
"""The call is in a state that others may meet."""
FREE: Final = -3
"""The call has ended in a way of which the specification says nothing."""
LOST: Final = -4
"""Nobody waits for the reply; the call may act at any time, and again, or never.

Again, since whoever gives up asks once more: such calls look alike, and a set
of them stays small where a bag would grow with every retry.
"""
LOST_BEGUN: Final = -5
"""As lost, and in a state that others may meet."""


class Pending(NamedTuple):
    """A call in progress: its row, how far it is (or the way it ended), the states it may have met.

    ``met`` is a set of states, as bits: for a call that was asked, those the
    entity has been in since; for one that has acted, the one it acted in.
    """

    row: int
    stage: int
    met: int


class Possibility(NamedTuple):
    """One way things may stand for an entity.

    ``queue`` holds outputs that were emitted and not seen yet, ``deviations``
    the declared deviations that this possibility rests on.
    """

    state: int
    pending: tuple[Pending, ...] = ()
    queue: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()


Possibilities: TypeAlias = frozenset[Possibility]


class Best:
    """Possibilities, without those that another one of them covers.

    One covers another if the two differ only in that its calls may have met
    more states, that more calls are late for whose reply nobody waits, or that
    it rests on fewer deviations: whatever is legal after the other is legal
    after it, and no deviation is certain for the other alone.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[object, ...], list[_Open]] = {}
        self._whole: dict[tuple[object, ...], list[Possibility]] = {}
        self._met: set[Possibility] = set()
        self.size = 0

    def add(self, new: Possibility) -> bool:
        """Take *new*; whether it says anything that was not known."""
        if new in self._met:  # most are, as calls act in every order; what is covered stays covered
            return False
        self._met.add(new)
        shape, mine = _split(new)
        known = self._open.setdefault(shape, [])
        for other in known:
            if _covers(other, mine):
                return False
        left = [index for index, other in enumerate(known) if not _covers(mine, other)]
        whole = self._whole.setdefault(shape, [])
        self.size += 1 + len(left) - len(known)
        self._open[shape] = [*(known[index] for index in left), mine]
        self._whole[shape] = [*(whole[index] for index in left), new]
        return True

    def all(self) -> Possibilities:
        """What is left."""
        return frozenset(each for whole in self._whole.values() for each in whole)


def within(less: Possibilities, more: Possibilities) -> bool:
    """Whether whatever is legal after *less* is legal after *more*, since some of *more* covers each of *less*."""
    known: dict[tuple[object, ...], list[_Open]] = {}
    for each in more:
        shape, mine = _split(each)
        known.setdefault(shape, []).append(mine)
    return all(any(_covers(other, mine) for other in known.get(shape, ())) for shape, mine in map(_split, less))


class _Open(NamedTuple):
    """What a possibility leaves open: the late calls and what each call has met, as bits; and what it rests on."""

    sets: tuple[int, ...]
    deviations: tuple[str, ...]


def _split(each: Possibility) -> tuple[tuple[object, ...], _Open]:
    """What must be the same in two possibilities for one to cover the other, and what may be more open.

    The calls for whose reply nobody waits are a set, as bits: they may act or
    not, so the more there are the more is legal.
    """
    waited: list[tuple[int, int]] = []
    met: list[int] = []
    late = 0
    for call in each.pending:
        if call.stage > LOST:
            waited.append((call.row, call.stage))
            met.append(call.met)
        else:
            late |= 1 << (2 * call.row + (call.stage == LOST_BEGUN))
    return (each.state, tuple(waited), each.queue), _Open((late, *met), each.deviations)


def _covers(more: _Open, less: _Open) -> bool:
    for one, other in zip(more.sets, less.sets, strict=True):
        if one | other != one:
            return False
    return not more.deviations or set(more.deviations) <= set(less.deviations)


def plus(calls: tuple[Pending, ...], call: Pending) -> tuple[Pending, ...]:
    """*calls*, a sorted bag, with *call* in it."""
    return tuple(sorted((*calls, call)))


def late(calls: tuple[Pending, ...], row: int, stage: int) -> tuple[Pending, ...]:
    """*calls*, and one of *row* for whose reply nobody waits, unless there is such a one."""
    call = Pending(row, stage, 0)
    return calls if call in calls else plus(calls, call)


def passing(calls: tuple[Pending, ...], state: int) -> tuple[Pending, ...]:
    """*calls* once the entity has come to *state*: those not acted yet may meet it."""
    if not calls:
        return calls
    bit = 1 << state
    for call in calls:
        if call.stage == ASKED and not call.met & bit:
            break
    else:
        return calls
    return tuple(sorted([Pending(call.row, ASKED, call.met | bit) if call.stage == ASKED else call for call in calls]))


def numbers(those: int) -> list[int]:
    """The numbers in a set of bits.

    >>> numbers(0b101)
    [0, 2]
    """
    return [number for number in range(those.bit_length()) if those >> number & 1]


def bits(possibilities: Possibilities) -> int:
    """The states of *possibilities* as a set of bits.

    >>> bits(frozenset({Possibility(0), Possibility(2)}))
    5
    """
    return sum(1 << state for state in {each.state for each in possibilities})
