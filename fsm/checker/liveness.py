"""Leads-to under fairness: whether in every fair run each source is followed by a target.

A run without the target ends in a strongly connected component of the states in which
it is still due, or stops in one of them; it is a counterexample if it is fair (Emerson
and Lei, 1987).  What is weakly fair must be taken in the component, or be disabled
somewhere in it.  What is strongly fair must be taken, or be disabled everywhere in it:
otherwise the states in which it is enabled are removed and the rest is searched again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fsm.checker.breadth_first import LimitError, way
from fsm.checker.instants import holds
from fsm.machine.graph import components
from fsm.property.claims import Counts
from fsm.property.evidence import Proved, Refuted, Run, Vacuous

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from fsm.checker.instants import Instant, InstantStep, StepCache
    from fsm.property.claims import Fair, LeadsTo
    from fsm.property.evidence import Conclusion, RunStep


class DueNode(NamedTuple):
    """A state, and whether the target is due."""

    state: int
    due: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """A step between nodes in which the target is due, at no instant of which it holds."""

    step: InstantStep
    to: DueNode


def check_leads_to(claim: LeadsTo, stepping: StepCache, limit: int) -> tuple[Conclusion, Counts]:
    """Whether each source is followed by a target, in every fair run."""
    waiting = LeadsToGraph(claim, stepping)
    waiting.explore(limit)
    counts = Counts(
        states=len(waiting.depth), transitions=waiting.transitions, depth=max(waiting.depth.values(), default=0)
    )
    due = [node for node in waiting.depth if node.due]
    lasso = waiting.stops(due) or waiting.circles(due)
    if lasso is not None:
        return Refuted(evidence=lasso), counts
    return (Proved() if waiting.asked else Vacuous(unmet=claim.source.text)), counts


class LeadsToGraph:
    """The product of the machine with one bit: whether the target is due."""

    def __init__(self, claim: LeadsTo, stepping: StepCache) -> None:
        self.table = table = stepping.table
        self.fair = claim.fair
        self.source = holds(claim.source.means, table)
        self.target = holds(claim.target.means, table)
        self.steps = stepping.steps([claim.source.means, claim.target.means])
        self.depth: dict[DueNode, int] = {}
        self.before: dict[DueNode, tuple[DueNode, RunStep]] = {}
        self.links: dict[DueNode, list[_Link]] = {}
        self.transitions = 0
        self.asked = False

    def explore(self, limit: int) -> None:
        """Explore everything reachable, breadth first."""
        start = DueNode(self.table.initial, self.due(due=False, instants=[self.steps.beginning]))
        self.depth[start] = 0
        queue = deque([start])
        while queue:
            node = queue.popleft()
            links = self.links[node] = []
            for step in self.steps.after(node.state):
                self.transitions += 1
                to = DueNode(step.way.to, self.due(due=node.due, instants=step.instants))
                # A step of several outputs may meet the target, and then the source again.
                if node.due and to.due and not any(self.target(at) for at in step.instants):
                    links.append(_Link(step=step, to=to))
                if to not in self.depth:
                    self.depth[to] = self.depth[node] + 1
                    if len(self.depth) > limit:
                        raise LimitError(limit)
                    self.before[to] = (node, step.taken)
                    queue.append(to)

    def due(self, *, due: bool, instants: Iterable[Instant]) -> bool:
        """Whether the target is due after *instants*, too."""
        for at in instants:
            source, target = self.source(at), self.target(at)
            self.asked = self.asked or source
            due = (due or source) and not target
        return due

    # -- fairness ----------------------------------------------------------

    def possible(self, fair: Fair, state: int) -> bool:
        """Whether what is *fair* is enabled in *state*."""
        return any(self.takes(fair, step) for step in self.steps.after(state))

    def takes(self, fair: Fair, step: InstantStep) -> bool:
        """Whether *step* is what is *fair*."""
        row = self.table.rows[step.row]
        return row.event.name == fair.event and row.ends == fair.ends and fair.outcome in {"", step.way.name}

    # -- counterexamples ---------------------------------------------------

    def stops(self, due: Sequence[DueNode]) -> Run | None:
        """A run that stops while the target is due, in a state where nothing fair is enabled."""
        for node in due:
            if not any(self.possible(fair, node.state) for fair in self.fair):
                return Run(initial=self._initial(), steps=way(self.before, node), stopped=True)
        return None

    def circles(self, due: Sequence[DueNode]) -> Run | None:
        """The shortest fair lasso, of those found, on which the target stays due."""
        found = [self._circle(each) for each in self._fair_components(due)]
        return min(found, key=lambda run: run.length, default=None)

    def _fair_components(self, nodes: Collection[DueNode]) -> Iterator[frozenset[DueNode]]:
        inside = frozenset(nodes)
        following = {node: [link.to for link in self.links[node] if link.to in inside] for node in nodes}
        numbers = {node: number for number, node in enumerate(following)}
        listed = list(following)
        numbered = {numbers[node]: [numbers[to] for to in tos] for node, tos in following.items()}
        for component in components(numbered):
            those = frozenset(listed[number] for number in component)
            links = [link for node in those for link in self.links[node] if link.to in those]
            if links:
                yield from self._fair_in(those, links)

    def _fair_in(self, those: frozenset[DueNode], links: Sequence[_Link]) -> Iterator[frozenset[DueNode]]:
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
            yield from self._fair_components([node for node in self.depth if node in those - starved])

    def _circle(self, those: frozenset[DueNode]) -> Run:
        """A path to a node of *those*, followed by a fair cycle."""
        ordered = [node for node in self.depth if node in those]
        runs = []
        for start in ordered:
            cycle: list[tuple[DueNode, _Link]] = []
            here = start
            for fair in self.fair:
                if any(self.takes(fair, link.step) for _, link in cycle):
                    continue
                if not fair.strongly and any(
                    not self.possible(fair, node.state) for node in (start, *(n for n, _ in cycle))
                ):
                    continue
                part = self._towards(here, those, fair)
                if part:
                    cycle += part
                    here = part[-1][1].to
            if here != start or not cycle:
                cycle += self._back(here, start, those)
            steps = way(self.before, start)
            runs.append(Run(initial=self._initial(), steps=steps, cycle=tuple(link.step.taken for _, link in cycle)))
        return min(runs, key=lambda run: run.length)

    def _towards(self, here: DueNode, those: frozenset[DueNode], fair: Fair) -> list[tuple[DueNode, _Link]]:
        """A shortest path in *those* that takes what is *fair*, or visits a state where it is disabled."""
        return self._path(
            here,
            those,
            lambda link: self.takes(fair, link.step) or (not fair.strongly and not self.possible(fair, link.to.state)),
        )

    def _back(self, here: DueNode, start: DueNode, those: frozenset[DueNode]) -> list[tuple[DueNode, _Link]]:
        return self._path(here, those, lambda link: link.to == start)

    def _path(
        self, here: DueNode, those: frozenset[DueNode], wanted: Callable[[_Link], bool]
    ) -> list[tuple[DueNode, _Link]]:
        before: dict[DueNode, tuple[DueNode, _Link]] = {}
        queue = deque([here])
        seen = {here}
        while queue:
            node = queue.popleft()
            for link in self.links[node]:
                if link.to not in those:
                    continue
                if wanted(link):
                    path = [(node, link)]
                    while node != here:
                        path.append(before[node])
                        node = before[node][0]
                    return path[::-1]
                if link.to not in seen:
                    seen.add(link.to)
                    before[link.to] = (node, link)
                    queue.append(link.to)
        return []

    def _initial(self) -> str:
        return self.table.states[self.table.initial]
