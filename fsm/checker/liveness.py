"""Decide leads-to claims, which say that in every fair run, each source is followed by a target.

Consider a run that does not reach the target.  Either the run stops in a state in which the target is due, or it
stays in a strongly connected component of such states.  The run is a counterexample if it is fair (Emerson and Lei,
1987).

A weakly fair outcome must be taken in the component or be disabled somewhere in it.  A strongly fair outcome must be
taken or be disabled everywhere in it.  If a strongly fair outcome is neither taken nor disabled everywhere, the
states in which it is enabled are removed, and the rest of the component is searched again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import NamedTuple

from fsm.checker.breadth_first import WITHIN, Limit
from fsm.checker.instants import Instant, InstantStep, StepCache, holds
from fsm.checker.safety import proved_or_vacuous
from fsm.machine.claims import Counts, Fair, LeadsTo
from fsm.machine.evidence import Conclusion, Refuted, Run
from fsm.machine.graph import components
from fsm.machine.table import Table
from fsm.machine.timers import forced
from fsm.machine.traversal import BreadthFirst


class DueNode(NamedTuple):
    state: int
    due: bool


class _Link(NamedTuple):
    source: DueNode
    step: InstantStep
    to: DueNode


def check_leads_to(claim: LeadsTo, stepping: StepCache, limit: Limit) -> tuple[Conclusion, Counts]:
    waiting = LeadsToGraph(claim, stepping, limit)
    if stepping.packed is not None:
        engine = import_module("fsm.checker.packed.leading")
        quick: tuple[bool, Counts] | None = engine.holds(
            stepping.packed, waiting.steps, claim, limit, due=waiting.begins
        )
        if quick is not None:
            was_due, counts = quick
            return proved_or_vacuous(stepping, limit, [] if was_due else [claim.source]), counts
    transitions, depth = sum(1 for _ in waiting.search), waiting.search.depth
    counts = Counts(states=len(depth), transitions=transitions, depth=max(depth.values()))
    due = [node for node in depth if node.due]
    if (lasso := waiting.stops(due) or waiting.circles(due)) is not None:
        return Refuted(evidence=lasso), counts
    # If no node is due, the source is never true, or the target is always true in the same step: find out which.
    return proved_or_vacuous(stepping, limit, [] if due else [claim.source]), counts


class LeadsToGraph:
    def __init__(self, claim: LeadsTo, stepping: StepCache, limit: Limit = WITHIN) -> None:
        self.table = table = stepping.table
        self.fair = claim.fair
        if isinstance(table, Table):
            self.fair += tuple(Fair(event=name) for name in forced(table.machine))
        self.source = holds(claim.source.means, table)
        self.target = holds(claim.target.means, table)
        self.steps = stepping.steps([claim.source.means, claim.target.means])
        # Maps each node to the steps that leave the target due, and during which the target never holds.
        self.links: dict[DueNode, list[_Link]] = {}
        self.begins = self.due(due=False, instants=[self.steps.beginning])
        start = DueNode(self.table.initial, self.begins)
        self.search: BreadthFirst[DueNode, _Link] = BreadthFirst(
            [start], self._links_from, limit=limit.states, watch=limit.watch
        )

    def _links_from(self, node: DueNode) -> Iterator[_Link]:
        links = self.links[node] = []
        for step in self.steps.after(node.state):
            link = _Link(node, step, DueNode(step.way.to, self.due(due=node.due, instants=step.instants)))
            # In a step with several outputs, the target may be true at one instant, and the source at a later one.
            if node.due and link.to.due and not any(self.target(at) for at in step.instants):
                links.append(link)
            yield link

    def due(self, *, due: bool, instants: Iterable[Instant]) -> bool:
        for at in instants:
            due = (due or self.source(at)) and not self.target(at)
        return due

    def possible(self, fair: Fair, state: int) -> bool:
        if any(self.takes(fair, step) for step in self.steps.after(state)):
            return True
        row = self.table.row[fair.event]
        if fair.ends and row not in self.table.end:
            return False
        ways = self.table.blocked(state, self.table.end[row] if fair.ends else row)
        return any(fair.outcome in {"", way.name} for way in ways)

    def takes(self, fair: Fair, step: InstantStep) -> bool:
        row = self.table.rows[step.row]
        return row.event.name == fair.event and row.ends == fair.ends and fair.outcome in {"", step.way.name}

    def stops(self, due: Sequence[DueNode]) -> Run | None:
        """Return a run that ends in a state in which the target is due and no fair outcome is enabled."""
        over = (node for node in due if not any(self.possible(fair, node.state) for fair in self.fair))
        return next((self._run(node, stopped=True) for node in over), None)

    def circles(self, due: Sequence[DueNode]) -> Run | None:
        inside = ((node, those) for those in self._fair_components(due) for node in self.search.depth if node in those)
        return min(
            (self._run_with_fair_cycle(node, those) for node, those in inside), key=lambda run: run.length, default=None
        )

    def _fair_components(self, nodes: Collection[DueNode]) -> Iterator[frozenset[DueNode]]:
        inside = frozenset(nodes)
        following = {node: [link.to for link in self.links[node] if link.to in inside] for node in nodes}
        for those in map(frozenset, components(following)):
            links = [link for node in those for link in self.links[node] if link.to in those]
            if links:
                yield from self._fair_parts(those, links)

    def _fair_parts(self, those: frozenset[DueNode], links: Sequence[_Link]) -> Iterator[frozenset[DueNode]]:
        starved: set[DueNode] = set()
        for fair in self.fair:
            if any(self.takes(fair, link.step) for link in links):
                continue
            possible = {node for node in those if self.possible(fair, node.state)}
            if not fair.strongly and possible == those:
                return
            if fair.strongly:
                starved |= possible
        if not starved:
            yield those
        elif starved != those:
            yield from self._fair_components([node for node in self.search.depth if node in those - starved])

    def _run_with_fair_cycle(self, start: DueNode, those: frozenset[DueNode]) -> Run:
        cycle: list[_Link] = []
        here = start
        for fair in self.fair:
            if any(self.takes(fair, link.step) for link in cycle):
                continue
            nodes = (start, *(link.source for link in cycle))
            if not fair.strongly and any(not self.possible(fair, node.state) for node in nodes):
                continue
            cycle += self._path(here, those, partial(self._satisfies, fair))
            here = cycle[-1].to if cycle else start
        if here != start or not cycle:
            cycle += self._path(here, those, lambda link: link.to == start)
        return self._run(start, cycle=cycle)

    def _satisfies(self, fair: Fair, link: _Link) -> bool:
        return self.takes(fair, link.step) or (not fair.strongly and not self.possible(fair, link.to.state))

    def _path(self, here: DueNode, those: frozenset[DueNode], wanted: Callable[[_Link], bool]) -> tuple[_Link, ...]:
        inside = BreadthFirst([here], lambda node: (link for link in self.links[node] if link.to in those))
        return next((inside.path(link) for link in inside if wanted(link)), ())

    def _run(self, node: DueNode, *, cycle: Iterable[_Link] = (), stopped: bool = False) -> Run:
        return Run(
            initial=self.table.states[self.table.initial],
            steps=tuple(link.step.taken for link in self.search.path_to(node)),
            cycle=tuple(link.step.taken for link in cycle),
            stopped=stopped,
        )
