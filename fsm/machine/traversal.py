"""Generic breadth-first search.  To search for a node or an edge, stop the iteration once it is found."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeVar

N = TypeVar("N")
N_co = TypeVar("N_co", covariant=True)


class Leading(Protocol[N_co]):
    """An edge of a graph.  ``to`` is its target node."""

    @property
    def to(self) -> N_co: ...


E = TypeVar("E", bound=Leading[object])


OFTEN: Final = 128


class Explored(NamedTuple):
    nodes: int
    depth: int
    frontier: int


class LimitError(Exception):
    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"more than {limit:,} states")


class BreadthFirst(Generic[N, E]):
    """Breadth-first iterator over all edges that can be reached from *starts*.

    *following* returns the outgoing edges of a node.  ``depth`` maps every node found so far to its distance.
    ``last`` maps every node except the starts to the last edge of a shortest path and the node before it.  When an
    edge is yielded, ``node`` is its source.  Its target is added to the mappings afterwards.

    Raise :class:`LimitError` if there are more than *limit* nodes, unless *limit* is 0.  *watch* is called regularly
    with the progress, and can end the search by raising an exception.

    >>> from collections import namedtuple
    >>> Step = namedtuple("Step", "sign to")
    >>> search = BreadthFirst([1], lambda number: [Step("+1", number + 1), Step("*2", number * 2)])
    >>> next(search.path(each) for each in search if each.to == 12)
    (Step(sign='+1', to=2), Step(sign='+1', to=3), Step(sign='*2', to=6), Step(sign='*2', to=12))
    """

    def __init__(
        self,
        starts: Iterable[N],
        following: Callable[[N], Iterable[E]],
        *,
        limit: int = 0,
        watch: Callable[[Explored], None] | None = None,
    ) -> None:
        self.depth: dict[N, int] = dict.fromkeys(starts, 0)
        self.last: dict[N, tuple[E, N]] = {}
        self.node: N
        self._following = following
        self._limit = limit
        self._watch = watch

    def __iter__(self) -> Iterator[E]:
        depth, last, following = self.depth, self.last, self._following
        limit = self._limit or float("inf")
        watch, queue = self._watch, list(depth)
        for done, node in zip(count(), queue, strict=False):  # the list grows during the iteration
            self.node = node
            if watch and not done % OFTEN:
                watch(Explored(len(depth), depth[queue[-1]], len(depth) - done))
            further = depth[node] + 1
            for edge in following(node):
                yield edge
                to: N = edge.to  # type: ignore[assignment]  # the edges lead to nodes
                if to not in depth:
                    depth[to] = further
                    if len(depth) > limit:
                        raise LimitError(self._limit)
                    last[to] = edge, node
                    queue.append(to)

    def exhausted(self) -> Self:
        for _ in self:
            pass
        return self

    def path(self, last: E) -> tuple[E, ...]:
        """Return a shortest path that ends with *last*, the most recently yielded edge."""
        return (*self.path_to(self.node), last)

    def path_to(self, node: N) -> tuple[E, ...]:
        edges: list[E] = []
        while node in self.last:
            edge, node = self.last[node]
            edges.append(edge)
        return tuple(reversed(edges))


class Numbering(dict[N, int]):
    """A mapping that assigns the next number to each new key.

    ``listed`` holds the keys in the order of their numbers.

    >>> number = Numbering(["a"])
    >>> number["b"], number["a"], number.listed
    (1, 0, ['a', 'b'])
    """

    def __init__(self, first: Iterable[N] = ()) -> None:
        super().__init__()
        self.listed: list[N] = []
        for each in first:
            self[each]  # looking up a new key assigns a number to it

    def __missing__(self, each: N) -> int:
        number = self[each] = len(self.listed)
        self.listed.append(each)
        return number


def closure(starts: Iterable[N], following: Callable[[N], Iterable[N]]) -> tuple[N, ...]:
    """Return *starts* and all nodes reachable from them, in breadth-first order.

    >>> closure([3], lambda number: [number // 2])
    (3, 1, 0)
    """
    found = Numbering(starts)
    for node in found.listed:  # the list grows during the iteration
        for each in following(node):
            found[each]
    return tuple(found.listed)
