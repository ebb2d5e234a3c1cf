"""Whether a history is linearizable: each operation acted at an instant, and the machine allows what came of it.

A history is legal if every operation can be given an instant between its call
and its return, so that the machine, taken through them in that order, gives
the replies, sights and outputs that were seen (Herlihy and Wing,
*Linearizability: a correctness condition for concurrent objects*, 1990).
Entities do not meet, so each is decided by itself.

The search is that of Wing and Gong, *Testing and verifying concurrent
objects*, 1993: of the operations that no other one must precede, try each as
the next one, and turn back where nothing fits.  What has been tried is
remembered by how far the operations are and where the entity is (Lowe,
*Testing for linearizability*, 2017), so that it takes exponential time in the
number of operations at once, and not of all.

What is added to it:

- A call that takes time acts in *stages*: it begins, goes on, and ends, each
  at an instant of its own, in this order, between its call and its return.
  What others do in between meets the state that it has moved to; if they take
  the entity where the call cannot end, nothing is specified of its reply.
  (This is interval-linearizability, Castañeda, Rajsbaum and Raynal, 2018, for
  intervals that a machine spells out.)  A look is a stage too, the last.
- Where there are several outcomes each is tried, if its reply is the one seen.
- An operation that never returned has acted as far as it may, or not at all;
  so has one with a reply that the machine calls indefinite.
- Hidden events may happen at any instant, and do not have to.
- Where the machine is silent anything may come of an event.
- An event that interrupts cuts off the calls that have begun: they act no
  more, and only an indefinite reply fits them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from fsm.linearizability.search import LimitError, Search
from fsm.machine import ANY_ERROR
from fsm.machine.calls.rules import Rules
from fsm.machine.table import tabulate
from fsm.verdict import Cause, Fails, Holds, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fsm.linearizability.history import History, Operation
    from fsm.linearizability.search import Step
    from fsm.machine import Machine
    from fsm.machine.table import Table

LIMIT: Final = 1_000_000
"""How many situations of one entity are looked at, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linearizable(Holds):
    """The history is linearizable: ``steps`` is one way in which it may have gone, entity by entity."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLinearizable(Fails):
    """It is not, for ``entity``.

    Until ``operation`` returned all was legal, and ``steps`` is how it may
    have gone, calls that had not returned by then included.  ``cause`` is the
    respect in which it is not legal any more, and ``allowed`` what would have
    been legal instead, replies or sights.  Where the cause are the outputs
    these are the sequences of outputs, joined by blanks, that could have come
    out by then; where there is none but what came out afterwards,
    ``operation`` is ``None``.
    """

    entity: str
    steps: tuple[Step, ...]
    operation: Operation | None
    cause: Cause
    allowed: tuple[str, ...]


Linearizability: TypeAlias = Linearizable | NotLinearizable | Unknown


def linearize(
    machine: Machine,
    history: History,
    *,
    profile: str | None = None,
    unseen: Collection[str] = (),
    limit: int = LIMIT,
) -> Linearizability:
    """Whether *history*, which begins in the initial state, is linearizable; unknown after *limit* situations.

    *unseen* names signals that may happen without standing in the history, as
    hidden events may.  Raises :class:`ValueError` for an event or a sight
    that the machine has not.

    A container is started twice at once: one start is refused, as it meets the other, or its end.

    >>> from fsm.library import load
    >>> from fsm.linearizability.history import History, Operation
    >>> create = Operation(called=1, returned=2, event="create", reply="ok")
    >>> first = Operation(called=3, returned=6, event="start", reply="ok", thread=1)
    >>> second = Operation(called=4, returned=5, event="start", reply="UNKNOWN", thread=2)
    >>> found = linearize(load("container-status"), History(operations=(create, first, second)))
    >>> [f"{step.row} {step.outcome}" for step in found.steps]
    ['create created', 'start begins', '…start started', 'start refused']

    Both cannot have succeeded:

    >>> found = linearize(load("container-status"), History(operations=(create, first, replace(second, reply="ok"))))
    >>> str(found.operation), found.operation.thread, found.allowed
    ('start: ok', 1, ('error',))
    """
    table = tabulate(machine.under(profile))
    _known(table, history, unseen)
    rules = Rules(table)
    steps: tuple[Step, ...] = ()
    for entity, part in history.parts():
        operations = tuple(sorted(part.operations, key=lambda each: each.called))
        search = partial(Search, rules=rules, unseen=_unseen(table, unseen), limit=limit)
        whole = search(operations=operations, outputs=part.outputs.get(entity))
        try:
            found = next(whole.goals(), None)
        except LimitError:
            of = f" of {entity}" if entity else ""
            return Unknown(why=f"not decided after {limit:,} situations{of}")
        if found is None:
            return _Explaining(entity, whole, search).illegal()
        steps += found
    return Linearizable(steps=steps)


def _known(table: Table, history: History, unseen: Collection[str]) -> None:
    for event in [*unseen, *(each.event for each in history.operations if each.event)]:
        if event not in table.row:
            message = f"{table.machine.name} has no event {event!r}; it has {', '.join(table.row)}"
            raise ValueError(message)
    for each in history.operations:
        if each.shows and each.shows not in table.shows:
            known = ", ".join(dict.fromkeys(table.shows))
            message = f"{table.machine.name} never shows {each.shows!r}; its states show {known}"
            raise ValueError(message)


def _unseen(table: Table, unseen: Collection[str]) -> tuple[int, ...]:
    return tuple(
        row.index for row in table.rows if not row.ends and (row.event.kind == "hidden" or row.event.name in unseen)
    )


class _Explaining:
    """Why the operations of one entity are not linearizable.

    What is legal stays so if what came after it is cut off, so the first
    return that makes it illegal is found by halving.
    """

    def __init__(self, entity: str, whole: Search, search: Callable[..., Search]) -> None:
        self._entity = entity
        self._whole = whole
        self._search = search
        self._returns = sorted(
            (each for each in whole.operations if each.returned is not None), key=lambda each: each.returned or 0
        )

    def illegal(self) -> NotLinearizable:
        returns = range(1, len(self._returns) + 1)
        legal = bisect_left(returns, 1, key=lambda count: int(self._first(self._cut(count)) is None))
        before = self._cut(legal)
        steps = self._first(before) or ()
        if legal == len(self._returns):
            return self._found(steps, None, Cause.OUTPUT, self._sequences(before))
        operation = self._returns[legal]
        cause, allowed = self._why(operation, self._cut(legal + 1))
        return self._found(steps, operation, cause, allowed)

    def _found(
        self, steps: tuple[Step, ...], operation: Operation | None, cause: Cause, allowed: tuple[str, ...]
    ) -> NotLinearizable:
        return NotLinearizable(entity=self._entity, steps=steps, operation=operation, cause=cause, allowed=allowed)

    def _cut(self, count: int) -> Search:
        """The history until the return number *count*."""
        if not count:
            return self._search(operations=(), outputs=self._whole.outputs, partly=True)
        returned = {id(each) for each in self._returns[:count]}
        last = self._returns[count - 1].returned or 0
        return self._search(
            operations=tuple(
                each if id(each) in returned else replace(each, returned=None)
                for each in self._whole.operations
                if each.called <= last
            ),
            outputs=self._whole.outputs,
            partly=True,
        )

    def _first(self, search: Search) -> tuple[Step, ...] | None:
        try:
            return next(search.goals(), None)
        except LimitError:
            return None

    def _why(self, operation: Operation, cut: Search) -> tuple[Cause, tuple[str, ...]]:
        """In which respect *operation*, the last to return in *cut*, is not legal, and what would have been."""

        def legal(other: Operation) -> bool:
            return self._first(replace(cut, operations=_with(cut.operations, operation, other))) is not None

        table = cut.table
        if not operation.event or (operation.shows and legal(replace(operation, shows=""))):
            sights = dict.fromkeys(table.shows)
            return Cause.STATE, tuple(each for each in sights if legal(replace(operation, shows=each)))
        if cut.outputs is not None and self._first(replace(cut, outputs=None)) is not None:
            return Cause.OUTPUT, self._sequences(cut)
        if table.machine.events[operation.event].kind != "call":
            return Cause.EVENT, ()
        row = table.row[operation.event]
        replies = dict.fromkeys(
            reply
            for each in (row, table.end.get(row, row))
            for state in range(len(table.states))
            for way in table.step(state, each) or ()
            for reply in way.reply
        )
        allowed = [each for each in replies if legal(replace(operation, reply=each, shows=""))]
        if ANY_ERROR in allowed:
            allowed = [each for each in allowed if each in {"ok", ANY_ERROR}]
        return Cause.REPLY, tuple(allowed)

    def _sequences(self, cut: Search) -> tuple[str, ...]:
        longer = len(cut.outputs or ()) + len(cut.operations)
        try:
            return tuple(sorted({" ".join(came) for came in replace(cut, longer=longer).sequences()}))
        except LimitError:
            return ()


def _with(operations: tuple[Operation, ...], old: Operation, new: Operation) -> tuple[Operation, ...]:
    return tuple(new if each is old else each for each in operations)
