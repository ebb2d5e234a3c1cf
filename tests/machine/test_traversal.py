"""Distances found by the shared breadth-first search agree with the Floyd-Warshall algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.machine.traversal import BreadthFirst, LimitError, closure

if TYPE_CHECKING:
    from collections.abc import Callable

NODES = 6
GRAPHS = st.lists(st.lists(st.integers(0, NODES - 1), max_size=3), min_size=NODES, max_size=NODES)


class Arrow(NamedTuple):
    """An edge with its source, which is needed to check paths."""

    source: int
    to: int


def arrows(graph: list[list[int]]) -> Callable[[int], list[Arrow]]:
    return lambda node: [Arrow(node, to) for to in graph[node]]


def distances(graph: list[list[int]], starts: list[int]) -> dict[int, int]:
    far = {(one, two): 0 if one == two else NODES for one in range(NODES) for two in range(NODES)}
    for source, targets in enumerate(graph):
        for to in targets:
            far[source, to] = min(far[source, to], 1)
    for by in range(NODES):
        for one in range(NODES):
            for two in range(NODES):
                far[one, two] = min(far[one, two], far[one, by] + far[by, two])
    nearest = {node: min((far[start, node] for start in starts), default=NODES) for node in range(NODES)}
    return {node: length for node, length in nearest.items() if length < NODES}


@given(graph=GRAPHS, starts=st.lists(st.integers(0, NODES - 1), unique=True))
def test_meets_everything_by_a_shortest_path(graph: list[list[int]], starts: list[int]) -> None:
    """Every edge is visited once, the nearest first."""
    search = BreadthFirst(starts, arrows(graph))
    met = list(search)

    assert distances(graph, starts) == search.depth
    assert sorted(met) == sorted(Arrow(node, to) for node in search.depth for to in graph[node])
    assert [search.depth[each.source] for each in met] == sorted(search.depth[each.source] for each in met)
    for node, depth in search.depth.items():
        path = search.path_to(node)
        assert depth == len(path)
        assert [each.to for each in path[:-1]] == [each.source for each in path[1:]]
        assert not path or (path[0].source in starts and path[-1].to == node)


@given(graph=GRAPHS, starts=st.lists(st.integers(0, NODES - 1)))
def test_closes_a_set(graph: list[list[int]], starts: list[int]) -> None:
    """The closure has the nodes that a breadth-first search finds, in the same order."""
    search = BreadthFirst(starts, arrows(graph))
    list(search)

    assert tuple(search.depth) == closure(starts, graph.__getitem__)


def test_the_way_to_what_is_found() -> None:
    search = BreadthFirst([0], arrows([[1, 2], [3], [3], []]))
    found = next(each for each in search if each.to == 3)

    assert (Arrow(0, 1), Arrow(1, 3)) == search.path(found)
    assert 3 not in search.depth


def test_stops_at_its_limit() -> None:
    search = BreadthFirst([0], lambda node: [Arrow(node, node + 1)], limit=10)
    with pytest.raises(LimitError, match="more than 10 states"):
        list(search)

    assert len(list(BreadthFirst([0], arrows([[1], [0]]), limit=2))) == 2
