"""Decide whether an outside observer can distinguish two machines (weak bisimulation).

An observer sees requests, replies, outputs and signals, with the arguments of events.  At any time, the observer can
also look at the value that the current state shows, and at the values of the variables that the machine shows.  Names
of states, outcomes and clauses are not observed, and neither are hidden events.
Bisimulation is finer than trace equivalence, because both machines must also make their choices at the same time.
"""

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final

from fsm.checker.comparable import why_not_equivalent
from fsm.checker.enumerated import each_argument, enumerated
from fsm.checker.equivalence.moments import Observer, Play, play, refine, trace, weak_steps
from fsm.machine import ANY_ERROR
from fsm.machine.calls import Rules
from fsm.machine.evidence import (
    Branching,
    Distinguished,
    EquivalenceResult,
    Equivalent,
    Observable,
    Round,
    Side,
)
from fsm.machine.graph import Graph
from fsm.machine.guards import arguments_read
from fsm.machine.product import SystemTable
from fsm.machine.product.system import JointEvent, Locals
from fsm.machine.table import Table
from fsm.machine.traversal import LimitError, Numbering
from fsm.verdict import Unknown

LIMIT: Final = 100_000
"""Limit on the number of moments of both machines, and on the number of pairs of sets of moments."""

FEW: Final = 2_000
"""Limit on the number of moments of mutants with data."""

_START: Final = (0, 1)


def compare(first: Table, second: Table, *, limit: int = LIMIT) -> EquivalenceResult:
    """Compare two machines.

    If the machines are not equivalent, the result is evidence that distinguishes them.  Up to two calls that take
    time may overlap.  The answer is unknown if there are more than *limit* moments.  The search for a distinguishing
    trace examines at most *limit* pairs of sets of moments, because the number of pairs may be exponential.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> table = tabulate(load("examples/models/door.toml"))
    >>> type(compare(table, table)).__name__
    'Equivalent'
    """
    if why := why_not_equivalent(first.machine, second.machine):
        return Unknown(why=why)
    pair = _Pair(_observers(first, second))
    if not pair.explore(limit):
        return Unknown(why=f"the machines have more than {limit:,} moments")
    scope = tuple(dict.fromkeys(text for each in (first, second) if each.data for text in each.data.scope))
    if any(each.left for each in pair.observers):
        return Unknown(why=f"a step leads out of a scope: {', '.join(scope)}")
    weak = weak_steps(pair.hidden, pair.seen)
    partition = refine(weak)
    if not partition.separated(*_START):
        return Equivalent(scope=scope)
    every_trace = True
    try:
        found = trace(weak, partition, _START, limit)
    except LimitError:
        found, every_trace = None, False
    if found is None:
        return _branching_result(pair, play(weak, partition, _START), every_trace=every_trace)
    return _distinguished_result(pair, [each for label in found if (each := pair.labels.listed[label]) is not None])


def bisimilar(first: Table, second: Table) -> bool:
    """Check whether the machines are equivalent.  If they have data, they may be even if the result is false."""
    data = [each.data for each in (first, second) if each.data]
    if why_not_equivalent(first.machine, second.machine) or any(each.scope for each in data):
        return False
    pair = _Pair(_observers(first, second))
    return pair.explore(FEW if data else None) and not refine(weak_steps(pair.hidden, pair.seen)).separated(*_START)


class _Pair:
    def __init__(self, both: tuple[Observer, Observer]) -> None:
        self.observers = both
        self.labels: Numbering[Observable | None] = Numbering([None])
        self.moments = Numbering((side, each.initial) for side, each in enumerate(both))
        self.hidden: list[list[int]] = []
        self.seen: list[list[tuple[int, int]]] = []

    def explore(self, limit: int | None = None) -> bool:
        for side, moment in self.moments.listed:  # the list grows during the loop
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
        side, moment = self.moments.listed[number]
        return self.observers[side].state(moment)


def _branching_result(pair: _Pair, found: Play, *, every_trace: bool) -> Branching:
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


def _distinguished_result(pair: _Pair, found: Sequence[Observable]) -> Distinguished:
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


class StepsOf:
    """Compares the joint events of the system in *graph* with those of other systems."""

    def __init__(self, graph: Graph[SystemTable]) -> None:
        self.table = graph.table
        self._reached = [graph.table.locals(state) for state in graph.depth]
        self._samples: dict[tuple[int, ...], tuple[Locals, ...]] = {}

    def same(self, other: SystemTable, *, named: bool = False) -> bool:
        """Return whether each joint event has the same effects in this system and in *other*, in every state.

        If *named* is true, outcomes must also have the same names.  Joint events that are the same object in both
        systems are skipped, unless this would skip every joint event.
        """
        mine, others = self.table.system.events, other.system.events
        if self.table.row.keys() != other.row.keys():
            return False
        return all(
            self._have_same_effects(other, name, _differing_outcomes(mine[name], others[name]), named=named)
            or self._have_same_effects(other, name, frozenset(), named=named)
            for name in [name for name in mine if mine[name] is not others[name]] or list(mine)
            if name in self.table.row
        )

    def _have_same_effects(self, other: SystemTable, event: str, ways: frozenset[str], *, named: bool) -> bool:
        digits = {*self.table.concerns(event, ways), *other.concerns(event, ways)}
        return all(
            _effects(self.table, sample, event, ways, named=named) == _effects(other, sample, event, ways, named=named)
            for sample in self._sample_states(tuple(sorted(digits)))
        )

    def _sample_states(self, digits: tuple[int, ...]) -> tuple[Locals, ...]:
        found = self._samples.get(digits)
        if found is None:
            values = itemgetter(*digits) if digits else lambda _: ()
            found = self._samples[digits] = tuple({values(each): each for each in self._reached}.values())
        return found


def _differing_outcomes(one: JointEvent, other: JointEvent) -> frozenset[str]:
    if one.when != other.when:
        return frozenset()
    first, second = ({way.name: way for way in each.ways} for each in (one, other))
    return frozenset(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def _effects(of: SystemTable, at: Locals, event: str, ways: frozenset[str], *, named: bool) -> Collection[object]:
    effects = of.effects(at, event, ways)
    return effects if named else {each[1:] for each in effects}


def _observers(first: Table, second: Table) -> tuple[Observer, Observer]:
    """Create two observers that see both machines under shared names.

    Events have a shared name if their names or their RPC names are the same.
    """
    ours = first.machine.words()
    own = {name: name for name in first.machine.events}
    theirs = {
        event.name: next((ours[word].name for word in event.words if word in ours), event.name)
        for event in second.machine.events.values()
    }
    indefinite = _indefinite_replies((first, second))
    codes = _observed_codes(((first, own), (second, theirs)), indefinite)

    pairs = ((first.machine, own), (second.machine, theirs))
    read = {
        (names[event.name], name)
        for machine, names in pairs
        for event in machine.events.values()
        for name in arguments_read(event)
    }

    def observer(plain: Table, names: Mapping[str, str]) -> Observer:
        own_indefinite = tuple(each for each in plain.machine.indefinite if each in indefinite)
        table, rows = enumerated(plain), dict[int, tuple[int, ...]]()
        for row in plain.row.values():
            event = plain.rows[row].event
            besides = [name for name in event.arguments if (names[event.name], name) in read]
            rows[row] = tuple(table.placed(row, given) for given in each_argument(event, besides))
        return Observer(rules=Rules(table), rows=rows, names=names, codes=codes, indefinite=own_indefinite)

    return observer(first, own), observer(second, theirs)


def _observed_codes(
    both: Collection[tuple[Table, Mapping[str, str]]], indefinite: Collection[str]
) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for table, names in both:
        for way, (row, _) in zip(table.ways, table.origin, strict=True):
            replies = found.setdefault(names[table.rows[row].event.name], dict.fromkeys(indefinite))
            replies |= dict.fromkeys(way.reply)
    return {name: tuple(each for each in replies if each not in {"ok", ANY_ERROR}) for name, replies in found.items()}


def _indefinite_replies(both: Collection[Table]) -> tuple[str, ...]:
    """Return the replies that leave open whether a call took effect.

    The result is empty if both machines list the same replies and mention them nowhere else.
    """
    lists = [table.machine.indefinite for table in both]
    every = tuple(dict.fromkeys(reply for each in lists for reply in each))
    mentioned = {reply for table in both for way in table.ways for reply in way.reply}
    alike = len({frozenset(each) for each in lists}) == 1
    return () if alike and not mentioned.intersection(every) else every


def bisimilar_systems(first: Graph[SystemTable], second: Graph[SystemTable]) -> bool:
    hidden: list[list[int]] = []
    seen: list[list[tuple[int, int]]] = []
    labels = Numbering[tuple[object, ...] | None]([None])
    starts = []
    codes = _codes(first) | _codes(second)
    for graph in (first, second):
        table = graph.table
        number = {state: len(hidden) + index for index, state in enumerate(graph.depth)}
        starts.append(number[table.initial])
        for state in graph.depth:
            hidden.append([])
            seen.append([(labels["shows", *table.shows(state), *table.values(state)], number[state])])
        for step in graph.transitions:
            event = table.rows[step.row].event
            name = "" if event.kind == "hidden" else event.name
            source, target = number[step.source], number[step.to]
            if not name and not step.way.emits:
                hidden[source].append(target)
                continue
            replies = {*step.way.reply, *(codes if ANY_ERROR in step.way.reply else ())}
            for reply in replies or {""}:
                seen[source].append((labels[name, reply, step.way.emits], target))
    return not refine(weak_steps(hidden, seen)).separated(*starts)


def _codes(graph: Graph[SystemTable]) -> set[str]:
    return {reply for step in graph.transitions for reply in step.way.reply} - {"ok", ANY_ERROR}
