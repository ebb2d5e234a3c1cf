"""Find the shortest stretch of a history that is not linearizable by itself.

If an operation cannot have returned as it did, most of what came before is irrelevant.  The stretch ends with that
return.  It begins as late as possible while it is illegal *whatever state the entity was in* when it began, and
whatever the operations called earlier did during it.  The operations in the stretch are therefore enough to make it
illegal.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from fsm.linearizability.frontier import End, Frontier
from fsm.linearizability.history import Operation
from fsm.machine.findings import Stretch
from fsm.machine.traversal import LimitError

Window: TypeAlias = Stretch[Operation]


def smallest(operations: Sequence[Operation], ends: Sequence[End], frontier: Callable[[], Frontier]) -> Window:
    """Return the shortest illegal stretch at the end of *ends*.  Everything before the last end must be legal.

    The number of searches is logarithmic in the number of calls.  *frontier* returns a new frontier that has not begun.
    """
    calls = [index for index, end in enumerate(ends) if not end.returns]
    least = True

    def illegal(back: int) -> bool:
        """Check whether the last *back* calls, and all returns after the first of them, are illegal by themselves."""
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
        return _made(operations, ends, 0, begins=True, least=least)
    while back - short > 1:
        middle = (short + back) // 2
        short, back = (short, middle) if illegal(middle) else (middle, back)
    return _made(operations, ends, calls[-back], begins=False, least=least)


def _open(before: Sequence[End]) -> list[int]:
    over = {end.number for end in before if end.returns}
    return [end.number for end in before if end.number not in over]


def _made(operations: Sequence[Operation], ends: Sequence[End], first: int, *, begins: bool, least: bool) -> Window:
    over = {end.number for end in ends[first:] if end.returns}
    mine = [end.number for end in ends[first:] if not end.returns and end.number in over]
    return Stretch(
        operations=tuple(operations[number] for number in mine),
        beside=tuple(operations[number] for number in _open(ends[:first])),
        begins=begins,
        least=least,
    )
