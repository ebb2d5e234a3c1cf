"""Search for a legal order of the operations on one entity.

The search advances from return to return.  When an operation returns, it must have taken effect, and other operations
in progress may have taken effect, too.  Every possible order is tried.  Operations that may take effect later wait
for the next return (just-in-time linearization: Lowe, *Testing for linearizability*, 2017).  Memory therefore grows
with the number of simultaneous operations and not with the length of the history.

A situation is dropped if a better one exists for the same place.  A situation is better if it relies on fewer
deviations, or if more of the operations that never returned may still take effect.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from fsm.linearizability.history import Operation
from fsm.linearizability.moves import OVER, Best, Moves, Place, Situation
from fsm.machine.calls import ASKED, BEGUN
from fsm.machine.findings import Stretch
from fsm.machine.traversal import LimitError


class End(NamedTuple):
    """The call or the return of an operation.  At equal times, calls sort before returns."""

    at: int
    returns: bool
    number: int


def ends(operations: Sequence[Operation]) -> tuple[End, ...]:
    calls = [End(each.called, returns=False, number=number) for number, each in enumerate(operations)]
    returned = ((number, each.returned) for number, each in enumerate(operations) if each.returned is not None)
    return tuple(sorted([*calls, *(End(at, returns=True, number=number) for number, at in returned)]))


class Frontier:
    """The possible situations of one entity, updated at each call and each return.

    The methods raise :class:`LimitError` when more than *limit* situations have been examined.
    """

    def __init__(self, moves: Moves, limit: int) -> None:
        self.moves = moves
        self.situations: list[Situation] = []
        self._limit = limit
        self._looked = 0

    def begin(self) -> None:
        self.situations = [Situation(Place(self.moves.rules.table.initial))]

    def begin_anywhere(self, open_: Iterable[int]) -> None:
        """Start in any state, while the operations *open_* are in progress.

        Each of these operations may or may not have taken effect already.  The return of the operation and the value
        that it showed are ignored.  An operation that never returned represents any number of similar operations, so it
        may take effect repeatedly.
        """
        self.moves.early |= set(open_)
        situations = [Situation(Place(state)) for state in range(len(self.moves.rules.table.states))]
        for number in sorted(self.moves.early):
            row = self.moves.kind(number).row
            if row < 0:
                continue
            if self.moves.operations[number].returned is None:
                self.moves.again.add(row)
                continue
            takes_time = row in self.moves.rules.table.end
            begun = [each.with_calls((*each.place.calls, (number, BEGUN))) for each in situations if takes_time]
            situations = [each._replace(late=each.late | 1 << number) for each in situations] + begun
        self.situations = situations

    def play(self, ends: Iterable[End]) -> int | None:
        """Process the calls and returns in *ends*.

        Return the number of the first operation that cannot have taken effect by its return, or ``None``.
        """
        for _, returns, number in ends:
            if not returns:
                self.called(number)
            elif number not in self.moves.early and not self.returned(number):
                return number
        return None

    def called(self, number: int) -> None:
        found = Best()
        for each in self.situations:
            if self.moves.operations[number].returned is not None:
                found.add(self.moves.settled(each.with_calls((*each.place.calls, (number, ASKED)))))
            else:
                found.add(each._replace(late=each.late | 1 << number) if self.moves.kind(number).row >= 0 else each)
        self.situations = found.all()

    def returned(self, number: int) -> bool:
        """Process the return of an operation.

        If the operation cannot be over at this time, return ``False`` and do not change the situations.
        """
        found = self.placed(number)
        self.situations = found or self.situations
        return bool(found)

    def placed(self, number: int, other: int = -1, met: set[int] | None = None) -> list[Situation]:
        """Return the situations after the return of operation *number*.

        If *met* is given, it is extended with the states in which the operation *other* may still take effect.
        """
        over = Best()

        def done(each: Situation) -> bool:
            calls = each.place.calls
            if (number, OVER) not in calls:
                return False
            over.add(each.with_calls(tuple(call for call in calls if call[0] != number)))
            return True

        for each in self._explore_from(self.situations, done):
            if met is not None and any(call == other and stage in {ASKED, BEGUN} for call, stage in each.place.calls):
                met.add(each.place.state)
        return over.all()

    def explained(self, *, every: bool = False) -> list[Situation]:
        """Return the situations at the end of the history in which all outputs have been emitted.

        Situations with the fewest deviations come first.  If *every* is true, also include the situations that can be
        reached from these.
        """
        over = Best()

        def done(each: Situation) -> bool:
            if self.moves.outputs is not None and not self.moves.outputs.whole(each.place.came):
                return False
            over.add(each)
            return not every

        for _ in self._explore_from(self.situations, done):
            pass
        return sorted(over.all(), key=lambda each: len(each.deviations))

    def _explore_from(self, start: Iterable[Situation], done: Callable[[Situation], bool]) -> Iterator[Situation]:
        known = Best()
        todo = [each for each in start if known.add(each)][::-1]
        while todo:
            here = todo.pop()
            self._looked += 1
            if self._looked > self._limit:
                raise LimitError(self._limit)
            if done(here):
                continue
            yield here
            todo += [each for each in self.moves.after(here) if known.add(each)]


Window: TypeAlias = Stretch[Operation]


def smallest(operations: Sequence[Operation], ends: Sequence[End], frontier: Callable[[], Frontier]) -> Window:
    """Return the shortest illegal stretch of a history.  Only the last of *ends* makes the history illegal.

    *frontier* creates a new frontier for each search.  The number of searches is logarithmic in the number of calls.
    """
    calls = [index for index, end in enumerate(ends) if not end.returns]
    least = True

    def illegal(back: int) -> bool:
        nonlocal least
        first = calls[-back]
        run = frontier()
        run.begin_anywhere(_open(ends[:first]))
        try:
            return run.play(ends[first:]) is not None
        except LimitError:
            least = False
            return False

    short, back = 0, 1
    while back < len(calls) and not illegal(back):
        short, back = back, 2 * back
    back = min(back, len(calls))
    if back == len(calls) and not illegal(back):
        return _make_stretch(operations, ends, 0, begins=True, least=least)
    while back - short > 1:
        middle = (short + back) // 2
        short, back = (short, middle) if illegal(middle) else (middle, back)
    return _make_stretch(operations, ends, calls[-back], begins=False, least=least)


def _open(before: Sequence[End]) -> list[int]:
    over = {end.number for end in before if end.returns}
    return [end.number for end in before if end.number not in over]


def _make_stretch(
    operations: Sequence[Operation], ends: Sequence[End], first: int, *, begins: bool, least: bool
) -> Window:
    over = {end.number for end in ends[first:] if end.returns}
    mine = [end.number for end in ends[first:] if not end.returns and end.number in over]
    return Stretch(
        operations=tuple(operations[number] for number in mine),
        beside=tuple(operations[number] for number in _open(ends[:first])),
        begins=begins,
        least=least,
    )
