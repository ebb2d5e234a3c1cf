"""Idempotence: a second call, right after one that succeeded, has no effect."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from fsm.checker.breadth_first import Limit, SearchEdge, SearchResult, along, search
from fsm.checker.instants import InstantStep, StepCache, holds, system_table
from fsm.machine.property.claims import Counts, Idempotent
from fsm.machine.property.evidence import Conclusion, Proved, Refuted, Run, RunStep, Vacuous, run_step

if TYPE_CHECKING:
    from fsm.checker.packed.sequences import PackedSearch


class CallPair(NamedTuple):
    """State, number of the two calls that have replied, whether the second is in progress, state between them."""

    state: int
    calls: int = 0
    going: bool = False
    between: int = -1


def check_idempotent(claim: Idempotent, stepping: StepCache, limit: Limit) -> tuple[Conclusion, Counts]:
    """Check that a call right after one that replied ok, with none in progress, replies ok and changes nothing."""
    table = stepping.table
    automaton = IdempotenceAutomaton(claim, stepping)
    path, counts, tried = _searched(claim, automaton, stepping, limit)
    if path is not None:
        return Refuted(evidence=Run(initial=table.states[table.initial], steps=path)), counts
    if not tried:
        unmet = f"{claim.event} replies ok" + (f" and {claim.once.text}" if claim.once else "")
        return Vacuous(unmet=unmet), counts
    return Proved(), counts


def _searched(
    claim: Idempotent, automaton: IdempotenceAutomaton, stepping: StepCache, limit: Limit
) -> tuple[tuple[RunStep, ...] | None, Counts, bool]:
    """Run in which the second call has an effect, or ``None``; size of the search; whether a first call was met."""
    packed, once, table = stepping.packed, [claim.once.means] if claim.once else [], stepping.table
    if packed is None or not (engine := import_module("fsm.checker.packed.sequences")).supported(packed, once):
        found: SearchResult[CallPair] = search(automaton.start, automaton.following, limit=limit)
        return found.path, found.counts, any(node.calls for node in found.nodes)
    quick: PackedSearch = engine.calling_twice(packed, automaton.steps, claim.event, once[0] if once else None)
    nodes = quick.run(limit)
    steps = None
    if nodes is not None:
        number = system_table(table).number
        pairs = [(number(locals_), calls) for locals_, calls in nodes]
        steps = along([CallPair(at, calls, between=at if calls else -1) for at, calls in pairs], automaton.following)
    return steps, quick.counts(nodes), quick.met(1)


class IdempotenceAutomaton:
    """The machine of *stepping*, which at some point takes the two calls of *claim* with no other step between them."""

    def __init__(self, claim: Idempotent, stepping: StepCache) -> None:
        once, table = claim.once, stepping.table
        self.steps = stepping.steps([once.means] if once else [])
        self.row = table.row[claim.event]
        self._rows = {self.row, table.end.get(self.row, self.row)}
        self.once = holds(once.means, table) if once else None
        self.start = CallPair(table.initial)

    def following(self, node: CallPair) -> Iterator[SearchEdge[CallPair]]:
        """Yield every step from *node*, including a second call on which the specification is silent."""
        table = self.steps.table
        if node.calls and table.step(node.state, self.due(node)) is None:
            taken = run_step(table, node.state, self.due(node), None, node.state)
            yield SearchEdge(taken=taken, to=node, found=True)
        for step in self.steps.after(node.state):
            yield from self.taken(node, step, idle=table.idle(step.way.to))

    def first(self, node: CallPair) -> Iterator[SearchEdge[CallPair]]:
        """Return every step from *node*; an edge is ``found`` if it is a first call."""
        return (edge._replace(found=edge.to.calls > 0) for edge in self.following(node))

    def taken(self, node: CallPair, step: InstantStep, *, idle: bool) -> Iterator[SearchEdge[CallPair]]:
        """Yield the edges of *step*; none if it comes between the calls.  If *idle*, no call is in progress after."""
        way, reply = step.way, step.taken.reply
        if node.calls:
            if step.row == self.due(node):
                yield self._second(node, step)
            return
        yield SearchEdge(taken=step.taken, to=CallPair(way.to))
        granted = step.row in self._rows and reply == "ok" and not way.begins
        if granted and idle and (self.once is None or self.once(step.instants[-1])):
            yield SearchEdge(taken=step.taken, to=CallPair(way.to, 1, between=way.to))

    def due(self, node: CallPair) -> int:
        """Return the row that must come next: the second call, or its end."""
        return self.steps.table.end[self.row] if node.going else self.row

    def _second(self, node: CallPair, step: InstantStep) -> SearchEdge[CallPair]:
        way, names = step.way, self.steps.table.states
        if way.begins:
            to = CallPair(way.to, node.calls, going=True, between=node.between)
            return SearchEdge(taken=step.taken, to=to, found=bool(way.emits))
        left = names[way.to] == names[node.between] and self.steps.table.idle(way.to)
        bad = bool(way.emits) or step.taken.reply != "ok" or not left
        return SearchEdge(taken=step.taken, to=CallPair(way.to), found=bad)
