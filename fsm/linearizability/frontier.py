"""Where one entity may be after each instant of its history, and how far the operations in progress are by then.

Time goes by from return to return.  Of an operation that returns, every order is tried in which those in progress may
have acted until it was over; what may as well happen later waits for the next return (Lowe, *Testing for
linearizability*, 2017, calls this just-in-time linearization).  So what is remembered grows with the number of
operations at once, not of all.

A situation is dropped if another one differs from it only in that more of the operations that never returned may act
yet, or that it rests on fewer deviations.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from fsm.linearizability.history import Operation
from fsm.linearizability.moves import OVER, Best, Moves, Place, Situation
from fsm.machine.calls.rules import ASKED, BEGUN
from fsm.machine.traversal import LimitError


class End(NamedTuple):
    """An operation is called, or it returns; at one instant calls come first."""

    at: int
    returns: bool
    number: int


def ends(operations: Sequence[Operation]) -> tuple[End, ...]:
    """Both ends of each of *operations*, in the order of time; of what never returned just the call."""
    found = []
    for number, each in enumerate(operations):
        found.append(End(each.called, returns=False, number=number))
        if each.returned is not None:
            found.append(End(each.returned, returns=True, number=number))
    return tuple(sorted(found))


class Frontier:
    """The situations in which one entity may be; time goes by with each operation that is called, or returns.

    Raises :class:`LimitError` once more than *limit* situations have been looked at.
    """

    def __init__(self, moves: Moves, limit: int) -> None:
        self.moves = moves
        self.situations: list[Situation] = []
        self._limit = limit
        self._looked = 0

    def begin(self) -> None:
        """The entity is in the initial state, with nothing in progress."""
        self.situations = [Situation(Place(self.moves.rules.table.initial))]

    def begin_anywhere(self, open_: Iterable[int]) -> None:
        """The entity may be in any state; operations *open_* were called before, and may have acted or not.

        What they were shown, and that they return, is forgotten.  Those that
        never return may be any number, so they may act any number of times.
        """
        self.moves.early |= set(open_)
        situations = [Situation(Place(state)) for state in range(len(self.moves.rules.table.states))]
        for number in sorted(self.moves.early):
            row = self.moves.row(number)
            if row < 0:
                continue
            if self.moves.operations[number].returned is None:
                self.moves.again.add(row)
                continue
            begun = [
                each._replace(place=each.place._replace(calls=(*each.place.calls, (number, BEGUN))))
                for each in situations
                if row in self.moves.rules.table.end
            ]
            situations = [each._replace(late=each.late | 1 << number) for each in situations] + begun
        self.situations = situations

    def play(self, ends: Iterable[End]) -> int | None:
        """Let time go by; the number of the first operation that cannot return when it does, if there is one."""
        for _, returns, number in ends:
            if not returns:
                self.called(number)
            elif number not in self.moves.early and not self.returned(number):
                return number
        return None

    def called(self, number: int) -> None:
        """Operation *number* is called."""
        late = self.moves.operations[number].returned is None
        found = Best()
        for each in self.situations:
            if not late:
                calls = (*each.place.calls, (number, ASKED))
                found.add(self.moves.settled(each._replace(place=each.place._replace(calls=calls))))
            else:
                found.add(each._replace(late=each.late | 1 << number) if self.moves.row(number) >= 0 else each)
        self.situations = found.all()

    def returned(self, number: int) -> bool:
        """Operation *number* returns: whether it can have done all that it does by now; if not, nothing changes."""
        found = self.placed(number)
        self.situations = found or self.situations
        return bool(found)

    def placed(self, number: int, other: int = -1, met: set[int] | None = None) -> list[Situation]:
        """The situations in which operation *number* is over, without it; *met* gets the states in which *other* is not."""
        over = Best()

        def done(each: Situation) -> bool:
            calls = each.place.calls
            if (number, OVER) not in calls:
                return False
            left = tuple(call for call in calls if call[0] != number)
            over.add(each._replace(place=each.place._replace(calls=left)))
            return True

        for each in self._explored(self.situations, done):
            if met is not None and any(call == other and stage in {ASKED, BEGUN} for call, stage in each.place.calls):
                met.add(each.place.state)
        return over.all()

    def explained(self, *, every: bool = False) -> list[Situation]:
        """The situations in which all that came out has come, once everything has returned; fewest deviations first.

        With *every* also those that come of such situations.
        """
        over = Best()

        def done(each: Situation) -> bool:
            if self.moves.outputs is not None and not self.moves.outputs.whole(each.place.came):
                return False
            over.add(each)
            return not every

        for _ in self._explored(self.situations, done):
            pass
        return sorted(over.all(), key=lambda each: len(each.deviations))

    def _explored(self, start: Iterable[Situation], done: Callable[[Situation], bool]) -> Iterator[Situation]:
        """All situations that come of *start* until each is *done*, those not done."""
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
