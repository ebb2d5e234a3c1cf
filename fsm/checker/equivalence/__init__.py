"""Weak bisimulation: whether an outside observer can tell two machines apart.

An observer sees requests, replies, outputs and signals, and at any time what the state shows.  Names of states,
outcomes and clauses are not observed, and neither are hidden events.  Bisimulation is finer than trace equivalence,
because choices must also be made at the same time.
"""

from collections.abc import Sequence
from typing import Final

from fsm.checker.equivalence.comparison import (
    Branching,
    Distinguished,
    EquivalenceResult,
    Equivalent,
    Observable,
    Round,
    Side,
)
from fsm.checker.equivalence.observer import Observer, observers
from fsm.checker.equivalence.partition import refine, saturated
from fsm.checker.equivalence.witness import Play, play, trace
from fsm.machine.table import Table
from fsm.machine.traversal import LimitError, Numbering
from fsm.verdict import Unknown

LIMIT: Final = 100_000
"""Maximum number of moments of both machines together, and of pairs of sets of moments."""

_START: Final = (0, 1)
"""Numbers of the initial moments of the two machines."""


def compare(first: Table, second: Table, *, limit: int = LIMIT) -> EquivalenceResult:
    """Return whether the two machines are equivalent and, if they are not, what distinguishes them.

    Up to two calls that take time may overlap.  The answer is unknown beyond *limit* moments.  The search for a
    distinguishing trace has the same limit on pairs of sets of moments, because there may be exponentially many.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> table = tabulate(load("examples/models/door.toml"))
    >>> type(compare(table, table)).__name__
    'Equivalent'
    """
    pair = _Pair(observers(first, second))
    if not pair.explore(limit):
        return Unknown(why=f"the machines have more than {limit:,} moments")
    weak = saturated(pair.hidden, pair.seen)
    partition = refine(weak)
    if not partition.separated(*_START):
        return Equivalent()
    every_trace = True
    try:
        found = trace(weak, partition, _START, limit)
    except LimitError:
        found, every_trace = None, False
    if found is None:
        return _branching(pair, play(weak, partition, _START), every_trace=every_trace)
    return _distinguished(pair, [each for label in found if (each := pair.labels.listed[label]) is not None])


def bisimilar(first: Table, second: Table) -> bool:
    """Check whether the two machines are weakly bisimilar, with up to two overlapping calls."""
    pair = _Pair(observers(first, second))
    pair.explore()
    return not refine(saturated(pair.hidden, pair.seen)).separated(*_START)


class _Pair:
    def __init__(self, both: tuple[Observer, Observer]) -> None:
        self.observers = both
        self.labels: Numbering[Observable | None] = Numbering([None])
        self.moments = Numbering((side, each.initial) for side, each in enumerate(both))
        self.hidden: list[list[int]] = []
        self.seen: list[list[tuple[int, int]]] = []

    def explore(self, limit: int | None = None) -> bool:
        for side, moment in self.moments.listed:  # grows during the loop
            observer = self.observers[side]
            hidden: list[int] = []
            seen: list[tuple[int, int]] = []
            number = len(self.seen)
            for step in observer.steps(moment):
                to = self.moments[side, step.to]
                seen += [(self.labels[each], to) for each in step.seen]
                hidden += [] if step.seen else [to]
            seen += [(self.labels[each], number) for each in observer.shows(moment)]
            self.hidden.append(hidden)
            self.seen.append(seen)
            if limit is not None and len(self.moments) > limit:
                return False
        return True

    def state(self, number: int) -> str:
        """Return the state name of moment *number*, or an empty string if the specification is silent there."""
        side, moment = self.moments.listed[number]
        return self.observers[side].state(moment)


def _branching(pair: _Pair, found: Play, *, every_trace: bool) -> Branching:
    option = pair.labels.listed[found.option]
    assert option is not None  # noqa: S101  (doing nothing is always answered)
    first, second = (pair.state(number) for number in _START)
    return Branching(
        start=(first, second),
        rounds=tuple(
            Round(seen=pair.labels.listed[label], first=pair.state(one), second=pair.state(two))
            for label, one, two in found.rounds
        ),
        owner=Side(found.owner),
        option=option,
        every_trace=every_trace,
    )


def _distinguished(pair: _Pair, found: Sequence[Observable]) -> Distinguished:
    runs = [each.run(found) for each in pair.observers]
    owner = Side.FIRST if runs[0] is not None else Side.SECOND
    run = runs[owner.value]
    assert run is not None  # noqa: S101  (one of the machines has the trace)
    other = pair.observers[owner.other.value]
    before = other.after(found[:-1])
    last = found[-1]
    instead = (each for at in before for each in other.next(at) if (each.event, each.ends) == (last.event, last.ends))
    return Distinguished(
        owner=owner,
        trace=tuple(found),
        run=run,
        states=tuple(dict.fromkeys(other.state(at) for at in before)),
        instead=tuple(dict.fromkeys(instead)),
    )
