"""Find shortest paths by breadth-first search.

A search has a maximum size and can be stopped early.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from fsm.machine.claims import Counts
from fsm.machine.evidence import RunStep
from fsm.machine.graph import steps
from fsm.machine.in_progress import InProgress, in_progress
from fsm.machine.product import SystemTable, TransitionSystem
from fsm.machine.table import UNSPECIFIED, Table
from fsm.machine.traversal import BreadthFirst, Explored

LIMIT = 2_000_000
"""Default maximum number of nodes in a search.  If a search exceeds it, the verdict is unknown."""
UNLIMITED: Final = 1 << 62
"""A limit that no search reaches, but that still fits in a 64-bit integer."""
N = TypeVar("N")


class StoppedError(Exception):
    """Raised when a search is asked to stop.

    *why* is the reason, and *covered* is the progress of the search.
    """

    def __init__(self, why: str, covered: Explored) -> None:
        super().__init__(why, covered)
        self.why, self.covered = why, covered


Ending: TypeAlias = Callable[[Explored], str]
"""A callback that receives the progress of a search and returns a reason to stop, or an empty string."""


def on(_covered: Explored) -> str:
    """An :data:`Ending` that never stops a search."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    states: int
    ending: Ending = on

    def watch(self, covered: Explored) -> None:
        if why := self.ending(covered):
            raise StoppedError(why, covered)


WITHIN: Final = Limit(states=LIMIT)


class SearchEdge(NamedTuple, Generic[N]):
    """An edge of the graph.  ``found`` is true if the search looks for this edge."""

    taken: RunStep
    to: N
    found: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Generic[N]):
    """The result of a search.

    ``path`` is a shortest path, or ``None`` if there is none.  ``nodes`` maps each visited node to its depth.
    """

    path: tuple[RunStep, ...] | None
    nodes: dict[N, int]
    counts: Counts


def search(start: N, following: Callable[[N], Iterable[SearchEdge[N]]], *, limit: Limit) -> SearchResult[N]:
    """Find a shortest path from *start* to a ``found`` edge.

    Among several shortest paths, the first one in the order of the edges is returned.
    """
    walk: BreadthFirst[N, SearchEdge[N]] = BreadthFirst([start], following, limit=limit.states, watch=limit.watch)
    edges = 0
    path = None
    for edge in walk:
        edges += 1
        if edge.found:
            path = tuple(each.taken for each in walk.path(edge))
            break
    depth = next(reversed(walk.depth.values())) if path is None else len(path)
    counts = Counts(states=len(walk.depth), transitions=edges, depth=depth)
    return SearchResult(path=path, nodes=walk.depth, counts=counts)


def along(nodes: Sequence[N], following: Callable[[N], Iterable[SearchEdge[N]]]) -> tuple[RunStep, ...]:
    """Return the steps of the path through *nodes*, and the ``found`` edge after the last node.

    If several edges lead to the next node, the first one is taken.
    """
    steps = [next(edge.taken for edge in following(node) if edge.to == to) for node, to in pairwise(nodes)]
    return (*steps, next(edge.taken for edge in following(nodes[-1]) if edge.found))


def reachable_size(table: TransitionSystem, limit: Limit = WITHIN) -> Counts:
    """Return the numbers of reachable states and transitions of *table*, and the depth of the search.

    Raise :class:`~fsm.machine.traversal.LimitError` if there are more than *limit* states.  If the table has orbits,
    only representatives count towards the limit.
    """
    table = in_progress(table) if isinstance(table, Table) else table
    if isinstance(table, InProgress):
        return size_of_states(table, limit)
    walk = BreadthFirst([table.initial], lambda state: steps(table, state), limit=limit.states, watch=limit.watch)
    transitions = Counter(walk.node for _ in walk)
    depth = max(walk.depth.values())
    if isinstance(table, SystemTable) and (orbits := table.orbits):
        sizes = {state: orbits.size(orbits.alike(table.locals(state))) for state in walk.depth}
        return Counts(
            states=sum(sizes.values()),
            transitions=sum(sizes[state] * count for state, count in transitions.items()),
            depth=depth,
            representatives=len(sizes),
        )
    return Counts(states=len(walk.depth), transitions=transitions.total(), depth=depth)


def size_of_states(table: TransitionSystem, limit: Limit = WITHIN) -> Counts:
    """Return the same numbers as :func:`reachable_size`, but ignore calls in progress.

    Each state and each outcome is then counted once.
    """
    table = table.beyond() if isinstance(table, InProgress | SystemTable) else table
    names = table.states
    walk = BreadthFirst([table.initial], lambda state: steps(table, state), limit=limit.states, watch=limit.watch)
    taken = {
        (names[each.source], each.row, each.way.index, each.way.name, each.way.reply, each.way.emits, names[each.to])
        for each in walk
        if each.way.name != UNSPECIFIED and all(done.outcome != UNSPECIFIED for done in each.way.done)
    }
    depth: dict[str, int] = {}
    for configuration, distance in walk.depth.items():
        depth.setdefault(names[configuration], distance)
    return Counts(states=len(depth), transitions=len(taken), depth=max(depth.values()), configurations=len(walk.depth))
