"""The reachable states of a machine, shortest paths to them, and strongly connected components.

The graph of a machine has no edges for silent cells.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from fsm.machine.in_progress import InProgress, in_progress
from fsm.machine.product import TransitionSystem
from fsm.machine.table import Table, Way
from fsm.machine.traversal import BreadthFirst


class Transition(Struct, frozen=True, kw_only=True):
    """An edge of the graph, which is one outcome of a row in a reachable state."""

    source: int
    row: int
    way: Way

    @property
    def to(self) -> int:
        return self.way.to


T = TypeVar("T", bound="TransitionSystem")
N = TypeVar("N", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph(Generic[T]):
    """The states and transitions that can be reached, with or without calls in progress, in breadth-first order.

    ``depth`` maps each reachable state to its distance from the initial state, and ``shortest`` returns a path to it.
    """

    table: T
    depth: Mapping[int, int]
    shortest: Callable[[int], tuple[Transition, ...]]
    transitions: tuple[Transition, ...]

    def unreachable(self) -> tuple[str, ...]:
        return tuple(name for state, name in enumerate(self.table.states) if state not in self.depth)

    def path(self, state: str) -> tuple[str, ...]:
        """Return a shortest run to *state* as ``event/outcome`` steps.  Raise ``ValueError`` if there is none."""
        number = self.table.states.index(state) if state in self.table.states else -1
        if number not in self.depth:
            raise ValueError(f"state {state!r} is not reachable")
        return tuple(f"{self.table.rows[step.row].name}/{step.way.name}" for step in self.shortest(number))


def steps(table: TransitionSystem, state: int) -> Iterator[Transition]:
    for row in range(len(table.rows)):
        for way in table.step(state, row) or ():
            yield Transition(source=state, row=row, way=way)


def explore(table: T) -> Graph[T]:
    """Return the graph of the reachable states of *table*.

    >>> from fsm.language.library import load
    >>> from fsm.machine.table import tabulate
    >>> graph = explore(tabulate(load("examples/models/washer.toml")))
    >>> graph.path("done")
    ('start/begins', '…start/started', 'finish/done')
    """
    moving = in_progress(table) if isinstance(table, Table) else table
    moving = moving.beyond() if isinstance(moving, InProgress) else moving
    search = BreadthFirst([table.initial], lambda state: steps(moving, state))
    transitions = tuple(search)
    if not isinstance(moving, InProgress):
        return Graph(table=table, depth=search.depth, shortest=search.path_to, transitions=transitions)
    bare = moving.bare
    nearest = {bare(configuration): configuration for configuration in reversed(search.depth)}
    of_states = {
        (each.row, each.way.index): Transition(
            source=bare(each.source), row=each.row, way=replace(each.way, to=bare(each.to))
        )
        for each in transitions
        if each.way.index >= 0 and each.row < len(table.rows)
    }
    return Graph(
        table=table,
        depth={state: search.depth[nearest[state]] for state in map(bare, search.depth)},
        shortest=lambda state: tuple(
            each
            for each in search.path_to(nearest[state])
            if each.row < len(table.rows)  # the last row is time
        ),
        transitions=tuple(of_states.values()),
    )


def components(following: Mapping[N, Sequence[N]]) -> list[list[N]]:
    """Return the strongly connected components in reverse topological order (Tarjan, 1972)."""
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    stack: list[N] = []
    open_: set[N] = set()
    found: list[list[N]] = []

    def entered(node: N) -> tuple[N, Iterable[N]]:
        index[node] = low[node] = len(index)
        stack.append(node)
        open_.add(node)
        return node, iter(following[node])

    for root in following:
        work = [entered(root)] if root not in index else []
        while work:
            node, rest = work[-1]
            child = next((each for each in rest if each not in index or each in open_), None)
            if child is not None and child not in index:
                work.append(entered(child))
                continue
            if child is not None:
                low[node] = min(low[node], index[child])
                continue
            work.pop()
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
            if low[node] == index[node]:
                cut = stack.index(node)
                found.append(stack[cut:])
                open_.difference_update(stack[cut:])
                del stack[cut:]
    return found


def reachable_pairs(table: Table) -> tuple[tuple[int, int], ...]:
    reached = explore(table).depth
    return tuple((row, state) for row, state in table.defined() if state in reached and table.step(state, row) != ())
