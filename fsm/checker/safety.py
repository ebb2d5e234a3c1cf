"""Decide always, never and reachable claims.

This module searches the product of the machine with a small automaton.  The automaton counts how many conditions of a
sequence have held one after another, and the condition ``until`` resets the count.  It is enough to match each
condition at the first instant at which it holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fsm.checker.breadth_first import UNLIMITED, Limit, SearchEdge, SearchResult, along, search
from fsm.checker.first_instant import first_instants
from fsm.checker.instants import Instant, InstantStep, SequenceNode, StepCache, Successors, holds, system_table
from fsm.checker.packing import ArraySearch
from fsm.machine.claims import Always, Counts, Idempotent, Never, Reachable
from fsm.machine.conditions import All, Condition, Not, Sequence, WrittenCondition
from fsm.machine.evidence import Conclusion, Proved, Refuted, Run, RunStep, Unreached, Vacuous, run_step
from fsm.machine.guards import may_agree
from fsm.machine.terms import Values

if TYPE_CHECKING:
    from fsm.checker.packed.sequences import PackedSearch

DONE = -1

N = TypeVar("N", bound=tuple[Any, ...])


def check_none(claim: Always | Never, stepping: StepCache, limit: Limit) -> tuple[Conclusion, Counts]:
    """Check that no run goes through any of the sequences that break *claim*."""
    sequences, until = sequences_of(claim)
    found = [_run_through(sequence, until, stepping, limit) for sequence in sequences]
    total = _total_counts(counts for _, counts in found)
    best = min((run for run, _ in found if run is not None), key=lambda run: run.length, default=None)
    return (proved_or_vacuous(stepping, limit, needed(claim)) if best is None else Refuted(evidence=best)), total


def check_reachable(claim: Reachable, stepping: StepCache, limit: Limit) -> tuple[Conclusion, Counts]:
    """Check that every sequence has a run that goes through it, and return shortest runs as witnesses.

    If this machine differs from another one in only one state, the witnesses of the other machine that take no step
    from that state are reused.
    """
    searched: list[Counts] = []
    witnesses = []
    for sequence in claim.sequences:
        if (run := _reused_witness(sequence, stepping, limit)) is None:
            run, counts = _run_through(sequence, None, stepping, limit)
            searched.append(counts)
        if run is None:
            unreached = Unreached(text=" then ".join(each.text for each in sequence))
            return Refuted(evidence=unreached), _total_counts(searched)
        witnesses.append(run)
    return Proved(witnesses=tuple(witnesses)), _total_counts(searched)


def _reused_witness(sequence: Sequence, stepping: StepCache, limit: Limit) -> Run | None:
    like = stepping.like
    if like is None or like.tests(sequence, None).edges is None:
        return None
    if sequence not in like.witnesses:
        like.witnesses[sequence] = _run_through(sequence, None, like, limit)[0]
    run, changed = like.witnesses[sequence], stepping.table.states[stepping.but]
    return None if run is None or any(step.source == changed for step in run.steps) else run


def needed(claim: Always | Never) -> list[WrittenCondition]:
    """Return the conditions that must hold at some instant, because *claim* is vacuous otherwise."""
    if isinstance(claim, Always):
        return [claim.when] if claim.when else []
    return [part for sequence in claim.sequences for part in _required_conditions(sequence)]


def sequences_of(claim: Always | Never | Reachable) -> tuple[tuple[Sequence, ...], WrittenCondition | None]:
    if isinstance(claim, Always):
        return breaches(claim), None
    return claim.sequences, claim.until if isinstance(claim, Never) else None


def breaches(claim: Always) -> tuple[Sequence, ...]:
    """Return the sequences that break *claim*, one for each of its conditions.

    The claim holds if no run goes through any of these sequences.
    """
    when = (claim.when.means,) if claim.when else ()
    breaking = [(part.text, Not(of=part.means)) for part in claim.conditions]
    return tuple(
        (WrittenCondition(text=f"not ({text})", means=All(of=(*when, breach)) if when else breach),)
        for text, breach in breaking
    )


def _run_through(
    sequence: Sequence, until: WrittenCondition | None, stepping: StepCache, limit: Limit
) -> tuple[Run | None, Counts]:
    until = until if len(sequence) > 1 else None  # with a single condition, there is no count to reset
    conditions = [each.means for each in (*sequence, *([until] if until else []))]
    if (folded := stepping.folded(conditions)) is not None:
        run, counts = _run_through(sequence, until, folded, limit)
        automaton = SequenceAutomaton(sequence, until, stepping)
        again = run and retaken(run, automaton.start, automaton.following, same_states(stepping, folded))
        if again is None and run is not None:
            raise AssertionError(run)  # cannot happen, because exchanging copies maps steps to steps
        return again, counts
    path, counts = _path_through(sequence, until, stepping, limit)
    table = stepping.table
    return None if path is None else Run(initial=table.states[table.initial], steps=path), counts


def _path_through(
    sequence: Sequence, until: WrittenCondition | None, stepping: StepCache, limit: Limit
) -> tuple[tuple[RunStep, ...] | None, Counts]:
    if len(sequence) == 1 and (instants := first_instants(stepping, sequence[0].means)) is not None:
        return instants.first(sequence[0].means, limit)
    automaton = SequenceAutomaton(sequence, until, stepping)
    start = automaton.start[1]
    if start == DONE:
        return (), Counts(states=1, transitions=0, depth=0)
    if quick := packed_search(sequence, until, start, stepping, automaton.steps):
        if (nodes := quick.run(limit)) is None:
            return None, quick.counts()
        number = system_table(stepping.table).number
        places = [(number(locals_), held) for locals_, held in nodes]
        return along(places, automaton.following), quick.counts(nodes)
    if stepping.valuations is not None:
        return _through_valuations(automaton, stepping.valuations, limit)
    found: SearchResult[SequenceNode] = search(automaton.start, automaton.following, limit=limit)
    return found.path, found.counts


def _through_valuations(
    automaton: SequenceAutomaton, valuations: ArraySearch, limit: Limit
) -> tuple[tuple[RunStep, ...] | None, Counts]:
    found = valuations.search(automaton.steps, (automaton.sequence, automaton.reset, automaton.start[1]), limit)
    if found.path is None:
        return None, found.counts
    places = [(valuations.table.number(state, (), values, ()), held) for state, values, held in found.path]
    return along(places, automaton.following), found.counts


def retaken(
    run: Run,
    start: N,
    following: Callable[[N], Iterable[SearchEdge[N]]],
    alike: Callable[[RunStep, RunStep, int], bool],
    most: int = UNLIMITED,
) -> Run | None:
    """Return a run that matches *run* and leads from *start* to a ``found`` edge, or ``None`` if there is none.

    ``alike(step, taken, to)`` compares *step*, a step of *run*, with the step *taken*, which leads to *to*.  At most
    *most* nodes are tried.
    """
    going: list[tuple[N, tuple[RunStep, ...]]] = [(start, ())]
    seen: set[tuple[N, int]] = set()
    if not run.steps:
        return run
    while going and len(seen) < most:
        node, taken = going.pop()
        if (node, len(taken)) in seen:
            continue
        seen.add((node, len(taken)))
        further = []
        for edge in following(node):
            if alike(run.steps[len(taken)], edge.taken, edge.to[0]):
                steps = (*taken, edge.taken)
                if edge.found:
                    return Run(initial=run.initial, steps=steps)
                further.append((edge.to, steps))
        if len(taken) + 1 < len(run.steps):
            going += reversed(further)
    return None


def same_states(stepping: StepCache, of: StepCache) -> Callable[[RunStep, RunStep, int], bool]:
    """Return the argument ``alike`` of :func:`retaken` for a run of *of* that is retaken in *stepping*.

    Two steps are alike if *of* does not distinguish their target states.
    """
    seen_as, table = system_table(of.table), system_table(stepping.table)
    numbers = defaultdict[str, set[int]](set)
    for number, name in enumerate(seen_as.states):
        numbers[name].add(number)
    return lambda step, _, to: seen_as.seen(table.locals(to)) in numbers[step.target]


def packed_search(
    sequence: Sequence, until: WrittenCondition | None, start: int, stepping: StepCache, successors: Successors
) -> PackedSearch | None:
    if stepping.packed is None:
        return None
    conditions, resets = [each.means for each in sequence], until.means if until else None
    engine = import_module("fsm.checker.packed.sequences")
    found: PackedSearch | None = engine.through(stepping.packed, successors, conditions, resets, start)
    return found


class SequenceAutomaton:
    def __init__(self, sequence: Sequence, until: WrittenCondition | None, stepping: StepCache) -> None:
        tests = stepping.tests(sequence, until)
        self.sequence, self.reset = [each.means for each in sequence], until.means if until else None
        self.steps = stepping.distinguishing(tests.codes)
        self.conditions = tests.conditions
        self.until = tests.until
        self._shared = tests.edges if stepping.like else None  # edges shared with ``stepping.like``, another cache

    @property
    def start(self) -> SequenceNode:
        return self.steps.table.initial, self.advance(0, [self.steps.beginning])

    def following(self, node: SequenceNode) -> Iterable[SearchEdge[SequenceNode]]:
        if self._shared is None or self.steps.table.bare(node[0]) == self.steps.but:
            return self._edges(node)
        found = self._shared.get(node)
        if found is None:
            found = self._shared[node] = tuple(self._edges(node))
        return found

    def _edges(self, node: SequenceNode) -> Iterator[SearchEdge[SequenceNode]]:
        state, held = node
        for step in self.steps.after(state):
            now = self.advance(held, step.instants)
            yield SearchEdge(taken=step.taken, to=(step.way.to, now), found=now == DONE)

    def advance(self, held: int, instants: Iterable[Instant]) -> int:
        last = len(self.conditions) - 1
        for at in instants:
            if held == last and self.conditions[last](at):
                return DONE
            if self.until is not None and held and self.until(at):
                held = 0
            if held < last and self.conditions[held](at):
                held += 1
        return held


def _required_conditions(sequence: Sequence) -> list[WrittenCondition]:
    *before, last = sequence
    parts = last.means.of if isinstance(last.means, All) else ()
    if not before:
        return [WrittenCondition(text=f"a part of {last.text!r}", means=part) for part in parts]
    # Negated parts of the last condition are tested anyway whenever the other parts hold.
    asked = tuple(part for part in parts if not isinstance(part, Not))
    return [*before, replace(last, means=All(of=asked)) if asked else last]


def proved_or_vacuous(stepping: StepCache, limit: Limit, needed: Iterable[WrittenCondition]) -> Conclusion:
    unmet = next((part.text for part in needed if not met(part.means, stepping, limit)), None)
    return Proved() if unmet is None else Vacuous(unmet=unmet)


def met(condition: Condition, stepping: StepCache, limit: Limit) -> bool:
    """Return whether *condition* holds at any reachable instant.  The limit on states is ignored."""
    if (folded := stepping.folded([condition])) is not None:
        return met(condition, folded, limit)
    if (instants := first_instants(stepping, condition)) is not None:
        return instants.number(condition) is not None
    steps = stepping.steps([condition])
    test = holds(condition, stepping.table)
    if test(steps.beginning):
        return True
    if quick := packed_search((WrittenCondition(text="", means=condition),), None, 0, stepping, steps):
        return quick.succeeds(replace(limit, states=UNLIMITED))
    if stepping.valuations is not None:
        unlimited = replace(limit, states=UNLIMITED)
        return stepping.valuations.search(steps, ([condition], None, 0), unlimited).path is not None
    return any(test(at) for state in stepping.reached for step in steps.after(state) for at in step.instants)


def _total_counts(parts: Iterable[Counts]) -> Counts:
    found = list(parts)
    return Counts(
        states=sum(each.states for each in found),
        transitions=sum(each.transitions for each in found),
        depth=max((each.depth for each in found), default=0),
    )


class CallPair(NamedTuple):
    """A node of the search for two successive calls.

    ``calls`` is the number of calls that have replied.  ``going`` tells whether the second call is in progress,
    ``between`` is the state between the two calls, and ``given`` lists the possible arguments of the first one.
    """

    state: int
    calls: int = 0
    going: bool = False
    between: int = -1
    given: tuple[Values, ...] = ()


def check_idempotent(claim: Idempotent, stepping: StepCache, limit: Limit) -> tuple[Conclusion, Counts]:
    """Check that repeating a successful call right away, with no call in progress, succeeds and changes nothing."""
    table = stepping.table
    automaton = IdempotenceAutomaton(claim, stepping)
    path, counts, tried = _search_call_pairs(claim, automaton, stepping, limit)
    if path is not None:
        return Refuted(evidence=Run(initial=table.states[table.initial], steps=path)), counts
    if not tried:
        unmet = f"{claim.event} replies ok" + (f" and {claim.once.text}" if claim.once else "")
        return Vacuous(unmet=unmet), counts
    return Proved(), counts


def _search_call_pairs(
    claim: Idempotent, automaton: IdempotenceAutomaton, stepping: StepCache, limit: Limit
) -> tuple[tuple[RunStep, ...] | None, Counts, bool]:
    quick: PackedSearch | None = None
    if stepping.packed is not None:
        engine, once = import_module("fsm.checker.packed.sequences"), claim.once.means if claim.once else None
        quick = engine.calling_twice(stepping.packed, automaton.steps, claim.event, once)
    if quick is None:
        found: SearchResult[CallPair] = search(automaton.start, automaton.following, limit=limit)
        return found.path, found.counts, any(node.calls for node in found.nodes)
    if (nodes := quick.run(limit)) is None:
        return None, quick.counts(), quick.met(1)
    places = [(system_table(stepping.table).number(locals_), calls) for locals_, calls in nodes]
    pairs = [CallPair(state, calls, between=state if calls else -1) for state, calls in places]
    return along(pairs, automaton.following), quick.counts(nodes), quick.met(1)


class IdempotenceAutomaton:
    def __init__(self, claim: Idempotent, stepping: StepCache) -> None:
        once, table = claim.once, stepping.table
        self.steps = stepping.steps([once.means] if once else [])
        self.row = table.row[claim.event]
        self._rows = {self.row, table.end.get(self.row, self.row)}
        self.once = holds(once.means, table) if once else None
        self.start = CallPair(table.initial)

    def following(self, node: CallPair) -> Iterator[SearchEdge[CallPair]]:
        table = self.steps.table
        if node.calls and table.step(node.state, self.due(node)) is None:
            taken = run_step(table, node.state, self.due(node), None, node.state)
            yield SearchEdge(taken=taken, to=node, found=True)
        for step in self.steps.after(node.state):
            yield from self.taken(node, step, idle=table.idle(step.way.to))

    def first(self, node: CallPair) -> Iterator[SearchEdge[CallPair]]:
        return (edge._replace(found=edge.to.calls > 0) for edge in self.following(node))

    def taken(self, node: CallPair, step: InstantStep, *, idle: bool) -> Iterator[SearchEdge[CallPair]]:
        way, reply = step.way, step.taken.reply
        if node.calls:
            if self.repeats(node, step):
                yield self._second_call_edge(node, step)
            return
        yield SearchEdge(taken=step.taken, to=CallPair(way.to))
        granted = self.steps.table.rows[step.row].index in self._rows and reply == "ok" and not way.begins
        if granted and idle and (self.once is None or self.once(step.instants[-1])):
            yield SearchEdge(taken=step.taken, to=CallPair(way.to, 1, between=way.to, given=way.given))

    def repeats(self, node: CallPair, step: InstantStep) -> bool:
        row = self.steps.table.rows[step.row].index
        return row == self.due(node) and self.same_arguments(node.given, step.way.given)

    def same_arguments(self, one: tuple[Values, ...], other: tuple[Values, ...]) -> bool:
        return may_agree(one, other)

    def changed(self, before: int, after: int) -> bool:
        return self.steps.table.settled(before) != self.steps.table.settled(after)

    def due(self, node: CallPair) -> int:
        return self.steps.table.end[self.row] if node.going else self.row

    def _second_call_edge(self, node: CallPair, step: InstantStep) -> SearchEdge[CallPair]:
        way, table = step.way, self.steps.table
        if way.begins:
            to = CallPair(way.to, node.calls, going=True, between=node.between, given=node.given)
            return SearchEdge(taken=step.taken, to=to, found=bool(way.emits))
        left = not self.changed(node.between, way.to) and table.idle(way.to)
        bad = bool(way.emits) or step.taken.reply != "ok" or not left
        return SearchEdge(taken=step.taken, to=CallPair(way.to), found=bad)
