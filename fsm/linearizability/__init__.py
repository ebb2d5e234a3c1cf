"""Decide whether a history of concurrent operations is linearizable.

A history is legal if each operation can take effect at an instant between its call and its return, so that the
machine, in the order of these instants, produces the observed replies, shown values and outputs (Herlihy and Wing,
*Linearizability: a correctness condition for concurrent objects*, 1990).  Entities do not interact, so each entity is
decided separately.

The time needed is exponential in the number of simultaneous operations, but not in the length of the history
(:mod:`~fsm.linearizability.frontier`).

Calls follow the rules of :mod:`fsm.machine.calls`.  An operation that only reads the shown state also takes effect at
an instant.  For calls that take time, this is interval-linearizability (Castañeda, Rajsbaum and Raynal, 2018), with
intervals that the machine defines.  An operation that never returned may have taken effect completely, partly or not at
all.  Hidden events may happen at any instant.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from fsm.errors import refused
from fsm.linearizability.frontier import End, Frontier, Window, ends, smallest
from fsm.linearizability.history import History, Operation
from fsm.linearizability.moves import Moves, Outputs, Possible, Seen, Situation, Step
from fsm.machine import ANY_ERROR, Machine
from fsm.machine.calls import Rules
from fsm.machine.findings import Cause, Stretch
from fsm.machine.product.flatten import machine_of
from fsm.machine.product.system import System
from fsm.machine.table import tabulate
from fsm.machine.traversal import LimitError
from fsm.verdict import Fails, Holds, Unknown

LIMIT: Final = 1_000_000
"""Default maximum number of situations that are examined for one entity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linearizable(Holds):
    """The history is linearizable.  ``steps`` is a possible order of its instants, entity by entity."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLinearizable(Fails):
    """The history of ``entity`` is not linearizable.

    ``operation`` is the first operation whose return is illegal, or ``None`` if only later outputs are illegal.
    ``cause`` says what is illegal, and ``steps`` is a legal order up to that return.  ``allowed`` lists the
    legal replies or shown values or, if the outputs are illegal, the legal sequences of outputs, each joined by spaces.
    ``before`` lists the states in which the operation may have taken effect.  ``window`` is the shortest stretch of the
    history that is illegal by itself.
    """

    entity: str
    steps: tuple[Step, ...]
    operation: Operation | None
    cause: Cause
    allowed: tuple[str, ...]
    before: tuple[str, ...]
    window: Window


Linearizability: TypeAlias = Linearizable | NotLinearizable | Unknown


def linearize(
    machine: Machine | System,
    history: History,
    *,
    profile: str | None = None,
    unseen: Collection[str] = (),
    fresh: bool = True,
    limit: int = LIMIT,
) -> Linearizability:
    """Decide whether *history* is linearizable.

    The answer is unknown if more than *limit* situations would have to be examined.  Every entity begins in the
    initial state, or in any state if *fresh* is false.  *unseen* names signals that, like hidden events, may happen
    without appearing in the history.  Raise :class:`ValueError` for an event that the machine does not have or a
    value that it never shows.

    In this example, a washer is started twice concurrently.  One start is refused, because the other start is in
    progress or has ended.

    >>> from fsm.language.library import load
    >>> from fsm.linearizability.history import History, Operation
    >>> washer = load("examples/models/washer.toml")
    >>> first = Operation(called=3, returned=6, event="start", reply="ok", thread=1)
    >>> second = Operation(called=4, returned=5, event="start", reply="BUSY", thread=2)
    >>> found = linearize(washer, History(operations=(first, second)))
    >>> [f"{step.row} {step.outcome}" for step in found.steps]
    ['start begins', '…start started', 'start refused']

    Both starts cannot have succeeded:

    >>> found = linearize(washer, History(operations=(first, replace(second, reply="ok"))))
    >>> str(found.operation), found.operation.thread, found.allowed
    ('start: ok', 1, ('NO_WATER', 'BUSY'))
    """
    machine = machine_of(machine, profile)
    rules = Rules(tabulate(machine.under(profile)))
    table = rules.table
    if table.data is not None:
        what = f"the machine '{machine.name}' has data, but a history of concurrent operations has no arguments"
        raise refused(machine.path or machine.name, "FSM225", what, "judge a trace of the calls instead")
    for event in [*unseen, *(each.event for each in history.operations if each.event)]:
        if event not in table.row:
            raise ValueError(f"{table.machine.name} has no event {event!r}; it has {', '.join(table.row)}")
    for each in history.operations:
        if each.shows and not table.showing(each.shows):
            known = ", ".join(dict.fromkeys(table.shows))
            raise ValueError(f"{table.machine.name} never shows {each.shows!r}; its states show {known}")
    rows = (row for row in table.rows if not row.ends)
    silent = tuple(row.index for row in rows if row.event.kind == "hidden" or row.event.name in unseen)
    steps: tuple[Step, ...] = ()
    for entity, part in history.parts():
        answer = _Entity(entity, part, rules, silent, fresh=fresh, limit=limit).answer()
        if not isinstance(answer, Linearizable):
            return answer
        steps += answer.steps
    return Linearizable(steps=steps)


class _Entity:
    def __init__(
        self, entity: str, part: History, rules: Rules, unseen: tuple[int, ...], *, fresh: bool, limit: int
    ) -> None:
        self._entity = entity
        self._operations = tuple(sorted(part.operations, key=lambda each: each.called))
        self._ends = ends(self._operations)
        outputs = part.outputs.get(entity)
        self._outputs = None if outputs is None else Seen(outputs)
        self._longest = len(outputs or ()) + len(self._operations)
        self._rules = rules
        self._unseen = unseen
        self._fresh = fresh
        self._limit = limit

    def _frontier(self, outputs: Outputs | None = None, operations: Sequence[Operation] = ()) -> Frontier:
        return Frontier(Moves(self._rules, operations or self._operations, outputs, self._unseen), self._limit)

    def _begin_frontier(self, outputs: Outputs | None) -> Frontier:
        frontier = self._frontier(outputs)
        if self._fresh:
            frontier.begin()
        else:
            frontier.begin_anywhere(())
        return frontier

    def answer(self) -> Linearizability:
        frontier = self._begin_frontier(self._outputs)
        called: dict[int, tuple[int, list[Situation]]] = {}
        try:
            for index, end in enumerate(self._ends):
                if not end.returns:
                    called[end.number] = index, frontier.situations
                    frontier.called(end.number)
                elif frontier.returned(end.number):
                    del called[end.number]
                else:
                    first, situations = called[end.number]
                    return self._explain_illegal(frontier, first, index, situations)
            if over := frontier.explained():
                return Linearizable(steps=frontier.moves.steps(over[0]))
        except LimitError:
            of = f" of {self._entity}" if self._entity else ""
            return Unknown(why=f"the search ended undecided after {self._limit:,} situations{of}")
        return NotLinearizable(
            entity=self._entity,
            steps=frontier.moves.steps(frontier.situations[0]),
            operation=None,
            cause=Cause.OUTPUT,
            allowed=self._sequences(self._ends),
            before=self._names({each.place.state for each in frontier.situations}),
            window=Stretch(operations=self._operations, begins=True),
        )

    def _names(self, states: Collection[int]) -> tuple[str, ...]:
        return tuple(self._rules.table.states[state] for state in sorted(states))

    def _explain_illegal(self, frontier: Frontier, first: int, last: int, called: list[Situation]) -> NotLinearizable:
        number, interval = self._ends[last].number, self._ends[first : last + 1]
        cause, allowed = self._find_cause(number, interval, called)
        if allowed is None:
            allowed = self._sequences(self._ends[: last + 1])
        return NotLinearizable(
            entity=self._entity,
            steps=frontier.moves.steps(frontier.situations[0]),
            operation=self._operations[number],
            cause=cause,
            allowed=allowed,
            before=self._names(self._states_met(number, interval, called)),
            window=smallest(self._operations, self._ends[: last + 1], self._frontier),
        )

    def _states_met(self, number: int, interval: Sequence[End], called: list[Situation]) -> set[int]:
        frontier = self._frontier(self._outputs)
        frontier.situations = called
        met = {each.place.state for each in called}
        for end in interval:
            if not end.returns:
                frontier.called(end.number)
            else:
                frontier.situations = frontier.placed(end.number, number, met)
        return met

    def _find_cause(
        self, number: int, interval: Sequence[End], called: list[Situation]
    ) -> tuple[Cause, tuple[str, ...] | None]:
        """Return why operation *number* is illegal, and what would have been legal.

        The second value is ``None`` if the outputs are illegal.
        """
        operation, table = self._operations[number], self._rules.table

        def legal(other: Operation, outputs: Outputs | None = self._outputs) -> bool:
            operations = (*self._operations[:number], other, *self._operations[number + 1 :])
            frontier = self._frontier(outputs, operations)
            frontier.situations = called
            try:
                return frontier.play(interval) is None
            except LimitError:
                return False

        if not operation.event or (operation.shows and legal(replace(operation, shows=""))):
            sights = dict.fromkeys(table.shows)
            return Cause.STATE, tuple(each for each in sights if legal(replace(operation, shows=each)))
        if self._outputs is not None and legal(operation, None):
            return Cause.OUTPUT, None
        if table.machine.events[operation.event].kind != "call":
            return Cause.EVENT, ()
        row = table.row[operation.event]
        origins = zip(table.ways, table.origin, strict=True)
        ways = [way for way, (of, _) in origins if of in {row, table.end.get(row, row)}]
        replies = dict.fromkeys(reply for way in ways for reply in way.reply)
        allowed = [each for each in replies if legal(replace(operation, reply=each, shows=""))]
        if ANY_ERROR in allowed:
            allowed = [each for each in allowed if each in {"ok", ANY_ERROR}]
        return Cause.REPLY, tuple(allowed)

    def _sequences(self, until: Sequence[End]) -> tuple[str, ...]:
        possible = Possible(self._longest)
        frontier = self._begin_frontier(possible)
        try:
            if frontier.play(until) is not None:
                return ()
            over = frontier.explained(every=True)
        except LimitError:
            return ()
        return tuple(sorted({" ".join(possible.sequences[each.place.came]) for each in over}))
