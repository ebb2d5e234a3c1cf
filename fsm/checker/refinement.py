"""Check that one machine allows every observation that another machine can cause (refinement, trace inclusion).

The observed machine is explored together with a *belief* about the other machine.  A belief is the set of situations
that the other machine may be in after the observations so far.  Observations update beliefs as in
:mod:`fsm.monitor`.

Requests and replies of calls are observed, and calls may overlap.  A signal is observed if both machines have it.
Events are observed with their arguments.  The value that the state shows is observable at any time, and so are the
values of the variables that the other machine shows.  Everything else is unobservable.

Values of data are enumerated in their ranges.  A run is cut off where a value of the machine leaves its scope.  Where
only values of the other machine beyond its scope explain a run, the search continues, because they may also explain the
rest, but the answer holds only within the scope.

If the machine reaches the same situation with two beliefs, only the belief that allows less is explored (antichains:
De Wulf, Doyen, Henzinger and Raskin, 2006).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from msgspec import structs

from fsm.checker.alike import Behaviour
from fsm.checker.breadth_first import Limit, SearchEdge, SearchResult, search
from fsm.checker.comparable import why_not_followed, why_not_refined
from fsm.checker.enumerated import each_argument, enumerated, step_with_values, with_values, within
from fsm.checker.instants import InstantStep, Successors, machine_table
from fsm.machine import ANY_ERROR, Event
from fsm.machine.calls import ASKED, BEGUN, ENDED, FREE, CallInstant, Rules
from fsm.machine.calls.belief import Dynamics, dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.machine.claims import Counts
from fsm.machine.evidence import Conclusion, Proved, Refuted, Run, RunStep, Unexplained, Vacuous
from fsm.machine.guards import DataEffects, encoded, may_agree
from fsm.machine.in_progress import InProgress
from fsm.machine.product import TransitionSystem
from fsm.machine.table import Table
from fsm.machine.traversal import Numbering
from fsm.trace import Key
from fsm.verdict import Unknown


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
    if why := why_not_refined(table.machine, other.machine):
        return Unknown(why=why), Counts(states=0, transitions=0, depth=0)
    product = _Product(table, BeliefTable(table, other, exact=True), overlap)
    start = Node(product.table.initial, (), product.belief_table.initial)
    found: SearchResult[Node] = search(start, product.following, limit=limit)
    return _conclude(found, product.belief_table, table, product.cut), found.counts


def check_follows(table: TransitionSystem, listening: OutputListener, limit: Limit) -> tuple[Conclusion, Counts]:
    """Check that another machine can explain the outputs of *table*.

    *listening* has the beliefs about the other machine.  Outputs that are not events of that machine are ignored.
    """
    mine = table.machine if isinstance(table, Table) else table.system
    if why := why_not_followed(mine, listening.belief_table.dynamics.table.machine, listening.shared.values()):
        return Unknown(why=why), Counts(states=0, transitions=0, depth=0)
    steps, beliefs, cut = Successors(table), listening.belief_table, 0

    def following(node: Node) -> Iterator[SearchEdge[Node]]:
        nonlocal cut
        for step in steps.after(node.state):
            for taken, seen in listening.observations(step):
                belief = beliefs.after_all(node.belief, seen)
                cut += beliefs.leaves_scope(node.belief, belief)
                yield SearchEdge(taken=taken, to=Node(step.way.to, (), belief), found=belief < 0)

    found: SearchResult[Node] = search(Node(table.initial, (), beliefs.initial), following, limit=limit)
    cut += sum(table.beyond_scope.values()) if isinstance(table, InProgress) else 0
    return _conclude(found, beliefs, table, cut), found.counts


class OutputListener:
    """Has the beliefs about *other* after the outputs and the shared signals of *table*."""

    def __init__(self, table: Table, other: Table, *, exact: bool = False) -> None:
        self.belief_table = BeliefTable(table, other, whole=True, exact=exact)
        signals = {event.name for event in other.machine.events.values() if event.kind == "signal"}
        rows = (row for row in table.rows if row.event.kind == "signal")
        self.shared = {row.index: row.event for row in rows if row.event.name in signals}
        self._rows = table.rows
        self._data = DataEffects(table.machine.data, table.machine.events.values())

    def after(self, belief: int, step: InstantStep) -> int:
        return self.belief_table.after_all(belief, [Key(event=event) for event in self.observed(step)])

    def observed(self, step: InstantStep) -> tuple[str, ...]:
        event = self._shared_event(step)
        return (event.name, *step.way.emits) if event else step.way.emits

    def observations(self, step: InstantStep) -> Iterator[tuple[RunStep, list[Key]]]:
        """Yield *step* and its observations, once for each combination of arguments that its signal may have."""
        seen = [Key(event=name) for name in self.observed(step)]
        event = self._shared_event(step)
        if event is None or not (names := self.belief_table.arguments(event)):
            yield step.taken, seen
            return
        for given in each_argument(event, names):
            values = encoded(event, given)
            if may_agree([values], step.way.given):
                args = tuple(sorted((name, value) for name, value in given.items() if name in names))
                taken = structs.replace(step.taken, given=self._data.given(step.row, values))
                yield taken, [seen[0]._replace(args=args), *seen[1:]]

    def _shared_event(self, step: InstantStep) -> Event | None:
        return self.shared.get(self._rows[step.row].index) if self.shared else None


def _conclude(found: SearchResult[Node], beliefs: BeliefTable, table: TransitionSystem, cut: int) -> Conclusion:
    other = beliefs.dynamics.table
    if found.path:
        run = Run(initial=table.states[table.initial], steps=found.path)
        last = found.path[-1]
        shows = ""
        if last.event == SIGHT:
            values = (text for text in last.data if text.partition(" = ")[0] in beliefs.shown)
            shows = ", ".join((machine_table(table).machine.states[last.target].shows, *values))
        states = tuple(dict.fromkeys(other.named(state) for state in beliefs.refused))
        evidence = Unexplained(run=run, other=other.machine.name, states=states, shows=shows)
        return Refuted(evidence=evidence)
    if not beliefs.tried:
        return Vacuous(unmet=f"an event of {other.machine.name}")
    data = [each.data for each in (table, other) if isinstance(each, Table) and each.data]
    return Proved(scope=tuple(dict.fromkeys(text for each in data for text in each.scope)), cut=cut)


SIGHT = ""
"""Name of the event in a step that only observes the state."""


class BeliefTable:
    """A numbered list of beliefs about the machine *other*.

    If *whole* is true, all events of *other* are observed.  Otherwise, only its calls and the signals that it shares
    with the machine of *table* are observed.  If *exact* is true, values of data are enumerated.  Otherwise, beliefs
    ignore guards and updates, and so may allow too much.
    """

    def __init__(self, table: Table, other: Table, *, whole: bool = False, exact: bool = False) -> None:
        mine, others = (
            [event for event in each.machine.events.values() if event.kind != "hidden"] for each in (table, other)
        )
        known = {word for event in mine for word in event.words}
        shared = {event.name for event in others if not known.isdisjoint(event.words)}
        observed = other.machine.events.values() if whole else others
        self._known = {word for event in observed for word in event.words}
        self.tried = False
        self.refused: tuple[int, ...] = ()
        self._beliefs = _beliefs(Behaviour.of(other), None if whole else frozenset(shared), exact=exact)
        self.dynamics = self._beliefs.dynamics
        self.codes = {code for way in other.ways for code in way.reply} - {"ok", ANY_ERROR}
        self.shown = {each.name for each in other.machine.data.values() if each.shown}
        self._arguments = {word: frozenset(event.arguments) for word, event in other.machine.words().items()}

    @property
    def initial(self) -> int:
        return self._beliefs.numbers[self.dynamics.beginning()]

    @property
    def everything(self) -> int:
        return self._beliefs.numbers[self.dynamics.everything()]

    def called(self, event: Event) -> str:
        """Return the RPC name of *event* if the other machine knows it, and the name of the event otherwise."""
        return event.rpc if event.rpc in self.dynamics.names else event.name

    def arguments(self, event: Event) -> frozenset[str]:
        """Return the names of the arguments with which the other machine knows *event*."""
        return self._arguments.get(self.called(event), frozenset())

    def leaves_scope(self, before: int, after: int) -> bool:
        """Check whether values in their ranges explain the belief *before*, but not *after*."""
        return after >= 0 and self._beliefs.beyond(after) and not self._beliefs.beyond(before)

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
        covered = self._beliefs.within
        for known in beside:
            if known == belief or covered(known, belief):
                return known
        beside[:] = [known for known in beside if not covered(belief, known)]
        beside.append(belief)
        return belief


class _Beliefs:
    def __init__(self, moved: Dynamics) -> None:
        self.dynamics = moved
        self.numbers: Numbering[Configurations] = Numbering()
        self.after = cache(self._belief_after)
        listed, covered = self.numbers.listed, moved.covering.within
        self.within = cache(lambda less, more: covered(listed[less], listed[more]))
        self.beyond = cache(lambda belief: not any(within(moved.table, each.state) for each in listed[belief]))

    def _belief_after(self, belief: int, seen: Key) -> int:
        left = self.dynamics.observed(self.numbers.listed[belief], seen).configurations
        # Drop the deviations, because they would only distinguish configurations that are otherwise equal.
        left = frozenset(each._replace(deviations=()) if each.deviations else each for each in left)
        return self.numbers[left] if left else -1


@lru_cache(maxsize=8)
def _beliefs(other: Behaviour, shown: frozenset[str] | None, *, exact: bool) -> _Beliefs:
    return _Beliefs(dynamics(enumerated(other.table) if exact else other.table, shown=shown))


class _Move(NamedTuple):
    taken: RunStep
    state: int
    calls: tuple[OpenCall, ...]
    seen: tuple[Key, ...]


class _Product:
    def __init__(self, table: Table, belief_table: BeliefTable, overlap: int) -> None:
        self.table = enumerated(table)
        self.rules = Rules(self.table)
        self.belief_table = belief_table
        self.overlap = overlap
        self.cut = 0  # steps that leave a scope
        self._met = defaultdict[tuple[int, tuple[OpenCall, ...]], list[int]](list)
        self._moves = cache(self._moves_within_scope)
        self._rows = cache(lambda row: tuple(self._rows_with_arguments(row)))

    def following(self, node: Node) -> Iterator[SearchEdge[Node]]:
        after, least, met = self.belief_table.after_all, self.belief_table.least, self._met
        for taken, to, left, seen in self._moves(node.state, node.calls):
            belief = after(node.belief, seen)
            if belief >= 0:
                self.cut += self.belief_table.leaves_scope(node.belief, belief)
                belief = least(belief, met[to, left])
            yield SearchEdge(taken, Node(to, left, belief), belief < 0)

    def _moves_within_scope(self, state: int, calls: tuple[OpenCall, ...]) -> tuple[_Move, ...]:
        every = [*self._moves_from(state, calls)]
        found = tuple(move for move in every if within(self.table, move.state))
        self.cut += len(every) - len(found)
        return found

    def _moves_from(self, state: int, calls: tuple[OpenCall, ...]) -> Iterator[_Move]:
        visible = self.table.visible(state).items()
        shown = tuple(sorted((name, value) for name, value in visible if name in self.belief_table.shown))
        yield self._observation_move(state, calls, Key(shows=self.table.shows[state], args=shown))
        if self.overlap or not calls:
            yield from self._events(state, calls)
        for index, call in enumerate(calls):
            yield from self._continue_call(state, call, calls[:index] + calls[index + 1 :])

    def _rows_with_arguments(self, row: int) -> Iterator[tuple[int, Key]]:
        """Yield the row of an event for each of its arguments, and the observation of the event."""
        event = self.table.rows[row].event
        names = self.belief_table.arguments(event)
        for given in each_argument(event, names):
            args = tuple(sorted((name, value) for name, value in given.items() if name in names))
            yield self.table.placed(row, given), Key(event=self.belief_table.called(event), args=args)

    def _events(self, state: int, calls: tuple[OpenCall, ...]) -> Iterator[_Move]:
        for row in self.table.row.values():
            if self.table.rows[row].event.kind != "call":
                for placed, seen in self._rows(row):
                    for instant in self.rules.instants(state, placed):
                        yield self._event_move(state, calls, instant, seen)
            elif len(calls) < max(1, self.overlap):
                for placed, seen in self._rows(row):
                    begun = tuple(sorted((*calls, OpenCall(placed, ASKED))))
                    yield self._observation_move(state, begun, seen._replace(phase="request"), placed)

    def _observation_move(self, state: int, calls: tuple[OpenCall, ...], seen: Key, row: int = -1) -> _Move:
        name, event = self.table.states[state], self.table.rows[row].event.name if row >= 0 else SIGHT
        taken = RunStep(event=event, source=name, target=name, reply=seen.reply, phase=seen.phase)
        return _Move(with_values(self.table, taken, row, state), state, calls, (seen,))

    def _event_move(self, state: int, calls: tuple[OpenCall, ...], instant: CallInstant, seen: Key) -> _Move:
        event = self.table.rows[instant.row].event
        every = [seen] if event.kind == "signal" else []
        if event.interrupts:
            # A signal drops every open call. A hidden event drops only calls that have begun.
            over = [call for call in calls if event.kind == "signal" or call.stage == BEGUN]
            every += [Key(event=self._called(call), phase="lost") for call in over]
            calls = tuple(call for call in calls if call not in over)
        return self._instant_move(state, calls, instant, *every)

    def _instant_move(self, state: int, calls: tuple[OpenCall, ...], instant: CallInstant, *seen: Key) -> _Move:
        taken = step_with_values(self.table, state, instant.row, instant.way, instant.to)
        return _Move(taken, instant.to, calls, seen)

    def _called(self, call: OpenCall) -> str:
        return self.belief_table.called(self.table.rows[call.row].event)

    def _continue_call(self, state: int, call: OpenCall, others: tuple[OpenCall, ...]) -> Iterator[_Move]:
        if call.stage >= 0 or call.stage in {FREE, ENDED}:
            for reply in self._choices(call):
                seen = Key(event=self._called(call), phase="reply", reply=reply)
                yield self._observation_move(state, others, seen, call.row)
        for instant in self.rules.instants(state, call.row, call.stage):
            calls = tuple(sorted((*others, OpenCall(call.row, instant.stage))))
            yield self._instant_move(state, calls, instant)

    def _choices(self, call: OpenCall) -> tuple[str, ...]:
        replies = self.table.ways[call.stage].reply if call.stage >= 0 else ("ok", ANY_ERROR)
        if ANY_ERROR not in replies:
            return replies
        # The result need not contain the indefinite replies of the other machine, because it always allows them.
        indefinite = self.belief_table.dynamics.table.machine.indefinite
        return tuple(dict.fromkeys((*replies, *sorted(self.belief_table.codes - set(indefinite)))))
