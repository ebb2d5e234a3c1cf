"""Idempotence: a second call right after a successful one has no effect."""

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
    """The state, how many of the two calls replied, whether the second is in progress, and the state between them."""

    state: int
    calls: int = 0
    going: bool = False
    between: int = -1


def check_idempotent(claim: Idempotent, stepping: StepCache, limit: Limit) -> tuple[Conclusion, Counts]:
    """Check that immediately repeating a successful call, with no call in progress, succeeds and changes nothing."""
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
    """Return a run in which the second call has an effect, the search size, and whether a first call succeeded."""
    packed, once = stepping.packed, [claim.once.means] if claim.once else []
    if packed is None or not (engine := import_module("fsm.checker.packed.sequences")).supported(packed, once):
        found: SearchResult[CallPair] = search(automaton.start, automaton.following, limit=limit)
        return found.path, found.counts, any(node.calls for node in found.nodes)
    quick: PackedSearch = engine.calling_twice(packed, automaton.steps, claim.event, once[0] if once else None)
    if (nodes := quick.run(limit)) is None:
        return None, quick.counts(), quick.met(1)
    places = [(system_table(stepping.table).number(locals_), calls) for locals_, calls in nodes]
    pairs = [CallPair(state, calls, between=state if calls else -1) for state, calls in places]
    return along(pairs, automaton.following), quick.counts(nodes), quick.met(1)


class IdempotenceAutomaton:
    """Product of the machine of *stepping* with an automaton that makes the two calls of *claim* back to back."""

    def __init__(self, claim: Idempotent, stepping: StepCache) -> None:
        once, table = claim.once, stepping.table
        self.steps = stepping.steps([once.means] if once else [])
        self.row = table.row[claim.event]
        self._rows = {self.row, table.end.get(self.row, self.row)}
        self.once = holds(once.means, table) if once else None
        self.start = CallPair(table.initial)

    def following(self, node: CallPair) -> Iterator[SearchEdge[CallPair]]:
        """Yield every edge from *node*, including one for a second call on which the specification is silent."""
        table = self.steps.table
        if node.calls and table.step(node.state, self.due(node)) is None:
            taken = run_step(table, node.state, self.due(node), None, node.state)
            yield SearchEdge(taken=taken, to=node, found=True)
        for step in self.steps.after(node.state):
            yield from self.taken(node, step, idle=table.idle(step.way.to))

    def first(self, node: CallPair) -> Iterator[SearchEdge[CallPair]]:
        """Return every edge from *node*, with ``found`` set on the edges that complete a first call."""
        return (edge._replace(found=edge.to.calls > 0) for edge in self.following(node))

    def taken(self, node: CallPair, step: InstantStep, *, idle: bool) -> Iterator[SearchEdge[CallPair]]:
        """Yield the edges of *step*, or none if it separates the calls.  *idle* says if no call is then in progress."""
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
        """Return the row that must come next, which is that of the second call or of its end."""
        return self.steps.table.end[self.row] if node.going else self.row

    def _second(self, node: CallPair, step: InstantStep) -> SearchEdge[CallPair]:
        way, names = step.way, self.steps.table.states
        if way.begins:
            to = CallPair(way.to, node.calls, going=True, between=node.between)
            return SearchEdge(taken=step.taken, to=to, found=bool(way.emits))
        left = names[way.to] == names[node.between] and self.steps.table.idle(way.to)
        bad = bool(way.emits) or step.taken.reply != "ok" or not left
        return SearchEdge(taken=step.taken, to=CallPair(way.to), found=bad)
