"""Check that one machine allows every observation that another machine can cause (refinement, trace inclusion).

The observed machine is explored together with a *belief* about the other machine.  A belief is the set of situations
that the other machine may be in after the observations so far.  Observations update beliefs as in
:mod:`fsm.monitor`.

Requests and replies of calls are observed, and calls may overlap.  A signal is observed if both machines have it.
The value that the state shows is observable at any time.  Everything else is unobservable.

If the machine reaches the same situation with two beliefs, only the belief that allows less is explored (antichains:
De Wulf, Doyen, Henzinger and Raskin, 2006).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from fsm.checker.alike import Behaviour
from fsm.checker.breadth_first import Limit, SearchEdge, SearchResult, search
from fsm.checker.instants import InstantStep, Successors, machine_table
from fsm.machine import ANY_ERROR, Event
from fsm.machine.calls import ASKED, BEGUN, ENDED, FREE, CallInstant, Rules
from fsm.machine.calls.belief import Dynamics, dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.machine.claims import Counts
from fsm.machine.evidence import Conclusion, Proved, Refuted, Run, RunStep, Unexplained, Vacuous, run_step
from fsm.machine.product import TransitionSystem
from fsm.machine.table import Table
from fsm.machine.traversal import Numbering
from fsm.trace import Key


class OpenCall(NamedTuple):
    row: int
    stage: int


class Node(NamedTuple):
    state: int
    calls: tuple[OpenCall, ...]
    belief: int


def check_refines(table: Table, other: Table, overlap: int, limit: Limit) -> tuple[Conclusion, Counts]:
    """Check that *other* allows everything that can be observed of *table*.

    Up to *overlap* calls may be in progress.  If *overlap* is 0, no other event happens while a call is in progress.
    """
    product = _Product(table, BeliefTable(table, other), overlap)
    start = Node(table.initial, (), product.belief_table.initial)
    found: SearchResult[Node] = search(start, product.following, limit=limit)
    return _conclude(found, product.belief_table, table)


def check_follows(table: TransitionSystem, listening: OutputListener, limit: Limit) -> tuple[Conclusion, Counts]:
    """Check that another machine can explain the outputs of *table*.

    *listening* has the beliefs about the other machine.  Outputs that are not events of that machine are ignored.
    """
    steps = Successors(table)

    def following(node: Node) -> Iterator[SearchEdge[Node]]:
        for step in steps.after(node.state):
            belief = listening.after(node.belief, step)
            yield SearchEdge(taken=step.taken, to=Node(step.way.to, (), belief), found=belief < 0)

    found: SearchResult[Node] = search(Node(table.initial, (), listening.belief_table.initial), following, limit=limit)
    return _conclude(found, listening.belief_table, table)


class OutputListener:
    def __init__(self, table: Table, other: Table) -> None:
        self.belief_table = BeliefTable(table, other, whole=True)
        signals = {event.name for event in other.machine.events.values() if event.kind == "signal"}
        rows = (row for row in table.rows if row.event.kind == "signal")
        self._shared = {row.index: row.event.name for row in rows if row.event.name in signals}
        self._rows = table.rows

    def after(self, belief: int, step: InstantStep) -> int:
        return self.belief_table.after_all(belief, [Key(event=event) for event in self.observed(step)])

    def observed(self, step: InstantStep) -> tuple[str, ...]:
        row = self._rows[step.row].index
        return (self._shared[row], *step.way.emits) if row in self._shared else step.way.emits


def _conclude(found: SearchResult[Node], beliefs: BeliefTable, table: TransitionSystem) -> tuple[Conclusion, Counts]:
    other = beliefs.dynamics.table
    if found.path:
        run = Run(initial=table.states[table.initial], steps=found.path)
        last = found.path[-1]
        shows = machine_table(table).machine.states[last.target].shows if last.event == SIGHT else ""
        states = tuple(other.states[state] for state in beliefs.refused)
        evidence = Unexplained(run=run, other=other.machine.name, states=states, shows=shows)
        return Refuted(evidence=evidence), found.counts
    if not beliefs.tried:
        return Vacuous(unmet=f"an event of {other.machine.name}"), found.counts
    return Proved(), found.counts


SIGHT = ""
"""Name of the event in a step that only observes the state."""


class BeliefTable:
    """A numbered list of beliefs about the machine *other*.

    If *whole* is true, all events of *other* are observed.  Otherwise, only its calls and the signals that it shares
    with the machine of *table* are observed.
    """

    def __init__(self, table: Table, other: Table, *, whole: bool = False) -> None:
        mine, others = (
            [event for event in each.machine.events.values() if event.kind != "hidden"] for each in (table, other)
        )
        known = {word for event in mine for word in event.words}
        shared = {event.name for event in others if not known.isdisjoint(event.words)}
        observed = other.machine.events.values() if whole else others
        self._known = {word for event in observed for word in event.words}
        self.tried = False
        self.refused: tuple[int, ...] = ()
        self._beliefs = _beliefs(Behaviour.of(other), None if whole else frozenset(shared))
        self.dynamics = self._beliefs.dynamics

    @property
    def initial(self) -> int:
        return self._beliefs.numbers[self.dynamics.beginning()]

    @property
    def everything(self) -> int:
        return self._beliefs.numbers[self.dynamics.everything()]

    def called(self, event: Event) -> str:
        """Return the RPC name of *event* if the other machine knows it, and the name of the event otherwise."""
        return event.rpc if event.rpc in self.dynamics.names else event.name

    def after(self, belief: int, seen: Key) -> int:
        if seen.event and seen.event not in self._known:
            return belief
        self.tried = self.tried or bool(seen.event)
        found = self._beliefs.after(belief, seen)
        if found < 0:
            self.refused = tuple(sorted({each.state for each in self._beliefs.numbers.listed[belief]}))
        return found

    def after_all(self, belief: int, seen: Iterable[Key]) -> int:
        for each in seen:
            if belief >= 0:
                belief = self.after(belief, each)
        return belief

    def least(self, belief: int, beside: list[int]) -> int:
        """Return a belief from the list *beside* that allows no more than *belief*, or add *belief* and return it.

        Beliefs that allow more than the added belief are removed from the list.
        """
        within = self._beliefs.within
        for known in beside:
            if known == belief or within(known, belief):
                return known
        beside[:] = [known for known in beside if not within(belief, known)]
        beside.append(belief)
        return belief


class _Beliefs:
    def __init__(self, moved: Dynamics) -> None:
        self.dynamics = moved
        self.numbers: Numbering[Configurations] = Numbering()
        self.after = cache(self._belief_after)
        listed, within = self.numbers.listed, moved.covering.within
        self.within = cache(lambda less, more: within(listed[less], listed[more]))

    def _belief_after(self, belief: int, seen: Key) -> int:
        left = self.dynamics.observed(self.numbers.listed[belief], seen).configurations
        # Drop the deviations, because they would only distinguish configurations that are otherwise equal.
        left = frozenset(each._replace(deviations=()) if each.deviations else each for each in left)
        return self.numbers[left] if left else -1


@lru_cache(maxsize=8)
def _beliefs(other: Behaviour, shown: frozenset[str] | None) -> _Beliefs:
    return _Beliefs(dynamics(other.table, shown=shown))


class _Move(NamedTuple):
    taken: RunStep
    state: int
    calls: tuple[OpenCall, ...]
    seen: tuple[Key, ...]


class _Product:
    def __init__(self, table: Table, belief_table: BeliefTable, overlap: int) -> None:
        self.table = table
        self.rules = Rules(table)
        self.belief_table = belief_table
        self.overlap = overlap
        self._met = defaultdict[tuple[int, tuple[OpenCall, ...]], list[int]](list)
        self._moves = cache(lambda state, calls: tuple(self._moves_from(state, calls)))

    def following(self, node: Node) -> Iterator[SearchEdge[Node]]:
        after, least, met = self.belief_table.after_all, self.belief_table.least, self._met
        for taken, to, left, seen in self._moves(node.state, node.calls):
            belief = after(node.belief, seen)
            if belief >= 0:
                belief = least(belief, met[to, left])
            yield SearchEdge(taken, Node(to, left, belief), belief < 0)

    def _moves_from(self, state: int, calls: tuple[OpenCall, ...]) -> Iterator[_Move]:
        yield self._observation_move(state, calls, Key(shows=self.table.shows[state]))
        if self.overlap or not calls:
            yield from self._events(state, calls)
        for index, call in enumerate(calls):
            yield from self._continue_call(state, call, calls[:index] + calls[index + 1 :])

    def _events(self, state: int, calls: tuple[OpenCall, ...]) -> Iterator[_Move]:
        for row in self.table.rows:
            if row.ends:
                continue
            if row.event.kind == "call":
                if len(calls) < max(1, self.overlap):
                    asked = Key(event=self.belief_table.called(row.event), phase="request")
                    begun = tuple(sorted((*calls, OpenCall(row.index, ASKED))))
                    yield self._observation_move(state, begun, asked, row.event.name)
            else:
                for instant in self.rules.instants(state, row.index):
                    yield self._event_move(state, calls, instant)

    def _observation_move(self, state: int, calls: tuple[OpenCall, ...], seen: Key, event: str = SIGHT) -> _Move:
        name = self.table.states[state]
        taken = RunStep(event=event, source=name, target=name, reply=seen.reply, phase=seen.phase)
        return _Move(taken, state, calls, (seen,))

    def _event_move(self, state: int, calls: tuple[OpenCall, ...], instant: CallInstant) -> _Move:
        event = self.table.rows[instant.row].event
        called = self.belief_table.called
        seen = [Key(event=called(event))] if event.kind == "signal" else []
        if event.interrupts:
            # A signal drops every open call. A hidden event drops only calls that have begun.
            over = [call for call in calls if event.kind == "signal" or call.stage == BEGUN]
            seen += [Key(event=called(self.table.rows[call.row].event), phase="lost") for call in over]
            calls = tuple(call for call in calls if call not in over)
        taken = run_step(self.table, state, instant.row, instant.way, instant.to)
        return _Move(taken, instant.to, calls, tuple(seen))

    def _continue_call(self, state: int, call: OpenCall, others: tuple[OpenCall, ...]) -> Iterator[_Move]:
        if call.stage >= 0 or call.stage in {FREE, ENDED}:
            event = self.table.rows[call.row].event
            for reply in self._choices(call):
                seen = Key(event=self.belief_table.called(event), phase="reply", reply=reply)
                yield self._observation_move(state, others, seen, event.name)
        for instant in self.rules.instants(state, call.row, call.stage):
            calls = tuple(sorted((*others, OpenCall(call.row, instant.stage))))
            taken = run_step(self.table, state, instant.row, instant.way, instant.to)
            yield _Move(taken, instant.to, calls, ())

    def _choices(self, call: OpenCall) -> tuple[str, ...]:
        replies = self.table.ways[call.stage].reply if call.stage >= 0 else ("ok", ANY_ERROR)
        other = self.belief_table.dynamics.table.machine
        if ANY_ERROR not in replies:
            return replies
        mentioned = {code for way in self.belief_table.dynamics.table.ways for code in way.reply} - {"ok", ANY_ERROR}
        # The result need not contain the indefinite replies of the other machine, because it always allows them.
        return tuple(dict.fromkeys((*replies, *sorted(mentioned - set(other.indefinite)))))
