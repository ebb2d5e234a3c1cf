"""Breadth-first search for a shortest path, within a limit."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from fsm.property.claims import Counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fsm.property.evidence import RunStep

LIMIT = 2_000_000
"""Largest number of nodes of one search; beyond it the answer is unknown."""

N = TypeVar("N")


class LimitError(Exception):
    """The search would exceed its limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"more than {limit:,} states")


class SearchEdge(NamedTuple, Generic[N]):
    """One step of a search; ``found`` if it is what is searched for."""

    taken: RunStep
    to: N
    found: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Generic[N]):
    """The ``path`` that was searched for, or ``None`` if there is none; and every node that was met, with its depth."""

    path: tuple[RunStep, ...] | None
    nodes: dict[N, int]
    counts: Counts


def search(start: N, following: Callable[[N], Iterable[SearchEdge[N]]], *, limit: int = LIMIT) -> SearchResult[N]:
    """A shortest path from *start* to an edge that is ``found``; of several, the first in the order of *following*.

    Raises :class:`LimitError` if there are more nodes than *limit*.
    """
    depth = {start: 0}
    before: dict[N, tuple[N, RunStep]] = {}
    queue = deque([start])
    edges = deepest = 0
    while queue:
        node = queue.popleft()
        for edge in following(node):
            edges += 1
            if edge.found:
                path = (*way(before, node), edge.taken)
                counts = Counts(states=len(depth), transitions=edges, depth=len(path))
                return SearchResult(path=path, nodes=depth, counts=counts)
            if edge.to not in depth:
                deepest = depth[edge.to] = depth[node] + 1
                if len(depth) > limit:
                    raise LimitError(limit)
                before[edge.to] = (node, edge.taken)
                queue.append(edge.to)
    return SearchResult(path=None, nodes=depth, counts=Counts(states=len(depth), transitions=edges, depth=deepest))


def way(before: dict[N, tuple[N, RunStep]], node: N) -> tuple[RunStep, ...]:
    """The steps that lead to *node*, where *before* has the last step to each node."""
    steps: list[RunStep] = []
    while node in before:
        node, taken = before[node]
        steps.append(taken)
    return tuple(reversed(steps))
