"""Partition the moments of machines into equivalence classes.

A *moment* is a state together with the calls in progress.  Partition refinement finds the coarsest partition.  It
compares weak steps, which may have any number of hidden steps before and after them.

Each round splits blocks by the signatures of their members (Blom and Orzan, 2005).  The next round examines only the
predecessors of nodes that have moved to another block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from fsm.checker.enumerated import given_texts, shown_texts, step_with_values, within
from fsm.machine import ANY_ERROR
from fsm.machine.calls import ASKED, BEGUN, Rules
from fsm.machine.evidence import Observable, Run, RunStep
from fsm.machine.graph import components
from fsm.machine.table import Table, Way
from fsm.machine.traversal import BreadthFirst

OVERLAP: Final = 2
"""Maximum number of calls in progress at the same time."""
NOWHERE = -1
"""A special state after which nothing is specified."""


class Moment(NamedTuple):
    state: int
    calls: tuple[int, ...] = ()


class ObservedStep(NamedTuple):
    """A step to the moment ``to``, as an observer sees it.

    ``seen`` contains the possible observations of the step.  If it is empty, the step cannot be observed.
    """

    seen: tuple[Observable, ...]
    to: Moment
    row: int
    way: Way | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """An observer of one of two machines, with names that the observer of the other machine shares.

    ``names`` maps each event to its shared name.  ``codes`` maps shared names to the error codes that are
    distinguished; all other codes are represented by ``error``.  ``indefinite`` holds the replies that leave open
    whether the call took effect.  ``rows`` lists the rows of each event, with all of its arguments.  ``left`` collects
    the moments from which a step leads out of the scope of a variable.
    """

    rules: Rules
    rows: Mapping[int, Sequence[int]]
    names: Mapping[str, str]
    codes: Mapping[str, tuple[str, ...]]
    indefinite: tuple[str, ...]
    left: set[Moment] = field(default_factory=set)

    @property
    def table(self) -> Table:
        return self.rules.table

    @property
    def initial(self) -> Moment:
        return Moment(self.table.initial)

    def shows(self, at: Moment) -> tuple[Observable, ...]:
        if at.state == NOWHERE:
            return ()
        return (Observable(shows=", ".join((self.table.shows[at.state], *shown_texts(self.table, at.state)))),)

    def steps(self, at: Moment) -> Iterator[ObservedStep]:
        for index, rows in self.rows.items() if at.state != NOWHERE else ():
            others = () if self.table.rows[index].event.interrupts else at.calls
            for row in rows:
                yield from self._steps_of_call(at, row, ASKED, others)
            for call in dict.fromkeys(at.calls):
                if self.table.rows[call].index == index:
                    left = list(at.calls)
                    left.remove(call)
                    yield from self._steps_of_call(at, call, BEGUN, tuple(left))

    def _steps_of_call(self, at: Moment, call: int, stage: int, others: tuple[int, ...]) -> Iterator[ObservedStep]:
        event, ends, name = self.table.rows[call].event, stage == BEGUN, self._name(call)
        row = self.table.end[call] if ends else call
        specified = self.table.step(at.state, row) is not None
        instants = self.rules.instants(at.state, call, stage) if specified else ()
        if not specified or (instants and instants[0].way is None):
            seen = Observable(event="" if event.kind == "hidden" else name, ends=ends, silent=True)
            yield ObservedStep((seen,), Moment(at.state, others) if ends else Moment(NOWHERE), row, None)
        for instant in instants:
            if instant.way is None:  # the end of the call is not specified
                break
            if not within(self.table, instant.to):
                self.left.add(at)
            elif instant.stage != BEGUN:
                to = Moment(instant.to, others)
                yield ObservedStep(self._observables(call, instant.way, ends=ends), to, row, instant.way)
            elif len(others) < OVERLAP:
                begun = Moment(instant.to, tuple(sorted((*others, call))))
                seen = Observable(event=name, ends=ends, begins=True)
                yield ObservedStep((seen,), begun, row, instant.way)
        if event.kind == "call" and not ends and self.indefinite and specified:
            # After an indefinite reply, the caller does not know whether the call took effect. It may have had none.
            replies = tuple(Observable(event=name, reply=reply) for reply in self.indefinite)
            yield ObservedStep(replies, at, row, None)

    def _name(self, row: int) -> str:
        name, given = self.names[self.table.rows[row].event.name], given_texts(self.table, row)
        return f"{name} ({', '.join(given)})" if given else name

    def _observables(self, call: int, way: Way, *, ends: bool) -> tuple[Observable, ...]:
        event, name = self.table.rows[call].event, self._name(call)
        if event.kind == "hidden":
            # If an event is hidden, only its outputs are observed.
            return (Observable(emits=way.emits),) if way.emits else ()
        if event.kind == "signal":
            return (Observable(event=name, emits=way.emits),)
        replies = dict.fromkeys(way.reply)
        if ANY_ERROR in replies:
            replies |= dict.fromkeys(self.codes.get(self.names[event.name], ()))
        replies |= dict.fromkeys(self.indefinite)
        return tuple(Observable(event=name, reply=reply, emits=way.emits, ends=ends) for reply in replies)

    def state(self, at: Moment) -> str:
        return "" if at.state == NOWHERE else self.table.named(at.state)

    def next(self, at: Moment) -> Iterator[Observable]:
        for step in self.steps(at):
            yield from step.seen
        yield from self.shows(at)

    def after(self, trace: Sequence[Observable]) -> tuple[Moment, ...]:
        return tuple(at for at, length in self._search_along(trace).depth if length == len(trace))

    def run(self, trace: Sequence[Observable]) -> Run | None:
        search = self._search_along(trace)
        last = next((point for point in search.depth if point[1] == len(trace)), None)
        if last is None:
            return None
        steps = tuple(each.taken for each in search.path_to(last))
        return Run(initial=self.table.states[self.table.initial], steps=steps)

    def _search_along(self, trace: Sequence[Observable]) -> BreadthFirst[_Point, _TraceStep]:
        def following(point: _Point) -> Iterator[_TraceStep]:
            at, length = point
            expected = trace[length] if length < len(trace) else None
            for step in self.steps(at):
                seen = expected is not None and expected in step.seen
                if seen or not step.seen:
                    to = at.state if step.to.state == NOWHERE else step.to.state
                    reply = expected.reply if expected and seen else ""
                    taken = step_with_values(self.table, at.state, step.row, step.way, to, reply)
                    yield _TraceStep(taken, (step.to, length + seen))
            if expected in self.shows(at):
                yield _TraceStep(RunStep(event="", source=self.state(at), target=self.state(at)), (at, length + 1))

        search: BreadthFirst[_Point, _TraceStep] = BreadthFirst([(self.initial, 0)], following)
        return search.exhausted()


_Point: TypeAlias = tuple[Moment, int]


class _TraceStep(NamedTuple):
    taken: RunStep
    to: _Point


HIDDEN = 0

Signature: TypeAlias = frozenset[tuple[int, int]]
"""Pairs of a label and a node or block to which a step with this label may lead."""


def weak_steps(hidden: Sequence[Iterable[int]], seen: Sequence[Iterable[tuple[int, int]]]) -> list[Signature]:
    """Return the weak steps of each node.

    *hidden* has the hidden steps of each node, and *seen* has the observable ones.  :data:`HIDDEN` leads to the node
    itself and to every node reachable by hidden steps.  The running time is linear in the size of the result.
    """
    after: list[frozenset[int]] = [frozenset()] * len(seen)
    found: list[Signature] = [frozenset()] * len(seen)
    # All nodes in a component of hidden steps have the same weak steps.  components() returns a component after its
    # successors.
    groups = components({node: list(steps) for node, steps in enumerate(hidden)})
    for group in groups:
        inside = set(group)
        reached = inside.union(*(after[to] for node in group for to in hidden[node] if to not in inside))
        for node in group:
            after[node] = frozenset(reached)
    for group in groups:
        inside = set(group)
        weak = {(HIDDEN, to) for to in after[group[0]]}
        weak.update((label, last) for node in group for label, to in seen[node] for last in after[to])
        weak.update(*(found[to] for node in group for to in hidden[node] if to not in inside))
        for node in group:
            found[node] = frozenset(weak)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of nodes into blocks.

    It records the final block of each node, and the history of its blocks as (round, block) pairs.
    """

    block: list[int]
    history: list[list[tuple[int, int]]]

    def separated(self, one: int, two: int) -> int:
        if self.block[one] == self.block[two]:
            return 0
        rounds = sorted({at for node in (one, two) for at, _ in self.history[node]})
        return next(at for at in rounds if self._block_at(one, at) != self._block_at(two, at))

    def _block_at(self, node: int, last: int) -> int:
        return next(block for at, block in reversed(self.history[node]) if at <= last)


def refine(weak: Sequence[Signature]) -> Partition:
    """Return the coarsest partition into blocks of equivalent nodes.

    Nodes are equivalent if their weak steps have the same labels and lead to the same blocks.
    """
    size = len(weak)
    block = [0] * size
    history = [[(0, 0)] for _ in range(size)]
    before: list[set[int]] = [set() for _ in range(size)]
    for node, steps in enumerate(weak):
        for _, to in steps:
            before[to].add(node)
    members = {0: set(range(size))}
    known: dict[int, Signature] = {}
    dirty = set(range(size))
    at = 0
    while dirty:
        at += 1
        moved = _split(weak, block, members, known, dirty)
        for node, number in moved.items():
            block[node] = number
            history[node].append((at, number))
        dirty = set().union(*(before[node] for node in moved))
    return Partition(block=block, history=history)


def _split(
    weak: Sequence[Signature],
    block: Sequence[int],
    members: dict[int, set[int]],
    known: dict[int, Signature],
    dirty: Iterable[int],
) -> dict[int, int]:
    again: defaultdict[int, dict[Signature, set[int]]] = defaultdict(dict)
    for node in sorted(dirty):
        signature = frozenset((label, block[to]) for label, to in weak[node])
        again[block[node]].setdefault(signature, set()).add(node)
    moved: dict[int, int] = {}
    for number, parts in again.items():
        rest = members[number].difference(*parts.values())
        if rest:
            parts.setdefault(known[number], set()).update(rest)
        largest = max(parts, key=lambda signature: len(parts[signature]))
        known[number] = largest
        members[number] = parts.pop(largest)
        for signature, part in parts.items():
            new = len(members)
            known[new] = signature
            members[new] = part
            moved |= dict.fromkeys(part, new)
    return moved


Blocks = frozenset[int]


class _Step(NamedTuple):
    """A step of the search for a trace that only one machine has.

    ``to`` holds the blocks of both machines after the label, or ``None`` if only one machine can have this label.
    """

    label: int
    to: tuple[Blocks, Blocks] | None


def trace(
    weak: Sequence[Signature], partition: Partition, start: tuple[int, int], limit: int
) -> tuple[int, ...] | None:
    """Return the labels of a shortest trace that only one node of *start* has, or ``None`` if there is none.

    If there are several such traces, return the first one in label order.  Raise
    :class:`~fsm.machine.traversal.LimitError` if the search finds more than *limit* pairs of sets of blocks.
    """
    steps = _steps(weak, partition)

    def following(pair: tuple[Blocks, Blocks] | None) -> Iterator[_Step]:
        if pair is None:
            return
        first, second = (sorted({label for block in each for label in steps[block]}) for each in pair)
        odd = min(set(first).symmetric_difference(second), default=None)
        if odd is not None:
            yield _Step(odd, None)
            return
        for label in first:
            after = (_blocks_after(steps, pair[0], label), _blocks_after(steps, pair[1], label))
            if label != HIDDEN and after[0] != after[1]:
                yield _Step(label, after)

    one, other = (_blocks_after(steps, frozenset({partition.block[node]}), HIDDEN) for node in start)
    search: BreadthFirst[tuple[Blocks, Blocks] | None, _Step] = BreadthFirst([(one, other)], following, limit=limit)
    return next((tuple(each.label for each in search.path(last)) for last in search if last.to is None), None)


def _steps(weak: Sequence[Signature], partition: Partition) -> dict[int, dict[int, Blocks]]:
    found: dict[int, dict[int, Blocks]] = {}
    for node, block in enumerate(partition.block):
        if block not in found:
            to: dict[int, set[int]] = {}
            for label, last in weak[node]:
                to.setdefault(label, set()).add(partition.block[last])
            found[block] = {label: frozenset(blocks) for label, blocks in to.items()}
    return found


def _blocks_after(steps: dict[int, dict[int, Blocks]], blocks: Blocks, label: int) -> Blocks:
    return frozenset[int]().union(*(steps[block].get(label, ()) for block in blocks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """A play of the bisimulation game that the attacker wins.

    For each round, ``rounds`` holds a label and the two moments after it.  In the end, only the side ``owner`` has a
    step with the label ``option``.
    """

    rounds: tuple[tuple[int, int, int], ...]
    owner: int
    option: int


def play(weak: Sequence[Signature], partition: Partition, start: tuple[int, int]) -> Play:
    """Return a play that starts from the two separated nodes in *start* and is won by the attacker.

    Of the nodes to which the defender can move, the defender chooses the one that the refinement separated last from
    the node to which the attacker has moved.
    """
    rounds: list[tuple[int, int, int]] = []
    pair = start
    while True:
        side, label, answers, to = _attacker_step(weak, partition, pair)
        if not answers:
            return Play(rounds=tuple(rounds), owner=side, option=label)
        best = max(sorted(answers), key=lambda answer: partition.separated(to, answer))
        pair = (to, best) if side == 0 else (best, to)
        rounds.append((label, *pair))


def _attacker_step(
    weak: Sequence[Signature], partition: Partition, pair: tuple[int, int]
) -> tuple[int, int, list[int], int]:
    left = partition.separated(*pair)
    for side in (0, 1):
        one, two = pair[side], pair[1 - side]
        answers: dict[int, list[int]] = {}
        for label, to in weak[two]:
            answers.setdefault(label, []).append(to)
        for label, to in sorted(weak[one]):
            found = answers.get(label, [])
            if all(0 < partition.separated(to, answer) < left for answer in found):
                return side, label, found, to
    raise AssertionError(pair)  # cannot happen: two nodes are separated only if their signatures differ
