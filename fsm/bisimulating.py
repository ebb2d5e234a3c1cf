"""Whether two machines can be told apart by what can be seen of them.

What is seen: the events that are not hidden, the replies and the outputs of
calls, where a call begins, what each state shows, and where a machine is
silent.  Hidden events are nobody's business, so the question is one of weak
bisimilarity (Milner, 1989).  It is answered by refining a partition of both
machines' states by signatures until nothing changes; ``error`` is taken as
every code that either machine mentions, and one that none does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fsm.exploring import explore, steps
from fsm.machine import ANY_ERROR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fsm.table import Table


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Seen:
    """What somebody sees: a step, or what the state shows.

    A step of a call that only ``begins`` has no reply yet, one at its
    ``ends`` follows on such.  ``silent`` says that of this event the machine
    says nothing.
    """

    event: str = ""
    ends: bool = False
    begins: bool = False
    silent: bool = False
    reply: str = ""
    emits: tuple[str, ...] = ()
    shows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Nobody can tell them apart; ``classes`` of states differ from each other."""

    classes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """They can be told apart.

    ``trace`` ends in what only one of them, the ``first`` or not, can show.
    If they have the same traces and yet differ, it is not ``linear``: after
    all of the trace but its end, that one has a run on which the end is
    possible, and the other has one on which it is not, or the other way round.
    """

    trace: tuple[Seen, ...]
    first: bool
    linear: bool = True


Node: TypeAlias = tuple[int, int]
"""Which machine, and which of its states."""


def compare(first: Table, second: Table) -> Alike | Apart:
    """Whether *first* and *second* behave alike; if not, with a shortest trace that tells them apart.

    >>> from fsm.library import load
    >>> from fsm.table import tabulate
    >>> compare(tabulate(load("cri-pod")), tabulate(load("cri-pod"))).classes > 1
    True
    """
    both = _Both(first, second)
    rounds = both.refined()
    last = rounds[-1]
    if last[0, first.initial] == last[1, second.initial]:
        return Alike(classes=len(set(last.values())))
    return both.trace() or both.choice(rounds)


def bisimilar(first: Table, second: Table) -> bool:
    """Whether nobody can tell *first* and *second* apart."""
    both = _Both(first, second)
    last = both.refined()[-1]
    return last[0, first.initial] == last[1, second.initial]


class _Both:
    """Two machines as one labelled graph, hidden steps taken as none."""

    def __init__(self, first: Table, second: Table) -> None:
        self.tables = (first, second)
        self.codes = sorted({code for table in self.tables for way in table.ways for code in way.reply} - {"ok"})
        self.nodes = [(side, state) for side, table in enumerate(self.tables) for state in sorted(explore(table).depth)]
        self.quiet: dict[Node, set[Node]] = {node: set() for node in self.nodes}
        self.loud: dict[Node, list[tuple[Seen, Node]]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            self._steps(node)
        self.closed = {node: self._closure(node) for node in self.nodes}
        self.weak = {node: self._weak(node) for node in self.nodes}

    def shows(self, node: Node) -> str:
        return self.tables[node[0]].shows[node[1]]

    def _steps(self, node: Node) -> None:
        side, state = node
        table = self.tables[side]
        for step in steps(table, state):
            row, to = table.rows[step.row], (side, step.target)
            if row.event.kind == "hidden":
                self.quiet[node].add(to)
                continue
            for reply in self._replies(step.way.reply):
                seen = Seen(
                    event=row.event.rpc or row.event.name,
                    ends=row.ends,
                    begins=step.way.begins,
                    reply=reply,
                    emits=step.way.emits,
                )
                self.loud[node].append((seen, to))
        for row in table.rows:
            if not row.ends and row.event.kind != "hidden" and table.step(state, row.index) is None:
                self.loud[node].append((Seen(event=row.event.rpc or row.event.name, silent=True), node))

    def _replies(self, reply: tuple[str, ...]) -> Iterable[str]:
        if not reply:
            return ("",)
        return dict.fromkeys((*reply, *self.codes)) if ANY_ERROR in reply else reply

    def _closure(self, node: Node) -> frozenset[Node]:
        """Where hidden steps may lead from *node*, itself included."""
        found = {node}
        todo = [node]
        while todo:
            new = self.quiet[todo.pop()] - found
            found |= new
            todo += new
        return frozenset(found)

    def _weak(self, node: Node) -> frozenset[tuple[Seen, Node]]:
        """What may be seen next of *node*, with hidden steps before and after."""
        return frozenset(
            (seen, after) for before in self.closed[node] for seen, to in self.loud[before] for after in self.closed[to]
        )

    # -- which states are alike --------------------------------------------

    def refined(self) -> list[Mapping[Node, int]]:
        """Partitions of the nodes, each finer than the one before; the last is as fine as bisimilarity."""
        numbers: dict[object, int] = {}
        rounds = [{node: numbers.setdefault(self.shows(node), len(numbers)) for node in self.nodes}]
        while True:
            last = rounds[-1]
            signatures: dict[object, int] = {}
            now = {node: signatures.setdefault(self._signature(node, last), len(signatures)) for node in self.nodes}
            if len(signatures) == len(set(last.values())):
                return rounds  # type: ignore[return-value]  # a list of dictionaries is one of mappings
            rounds.append(now)

    def _signature(self, node: Node, last: Mapping[Node, int]) -> object:
        loud = frozenset((seen, last[to]) for seen, to in self.weak[node])
        return last[node], loud, frozenset(last[to] for to in self.closed[node])

    # -- what tells them apart ---------------------------------------------

    def trace(self) -> Apart | None:
        """A shortest trace that only one of them has; ``None`` if they have the same."""
        start = tuple(self.closed[side, self.tables[side].initial] for side in (0, 1))
        before: dict[tuple[frozenset[Node], ...], tuple[tuple[frozenset[Node], ...], Seen] | None] = {start: None}
        queue = deque([start])
        while queue:
            pair = queue.popleft()
            after = [self._after(each) for each in pair]
            for seen in sorted({*after[0], *after[1]}):
                to = tuple(each.get(seen, frozenset()) for each in after)
                if not all(to):
                    return Apart(trace=(*_way(before, pair), seen), first=bool(to[0]))
                if to not in before:
                    before[to] = (pair, seen)
                    queue.append(to)
        return None

    def _after(self, nodes: frozenset[Node]) -> dict[Seen, frozenset[Node]]:
        """Where each thing that may be seen of *nodes* leaves them; a look leaves those that show what was seen."""
        found: dict[Seen, set[Node]] = {}
        for node in nodes:
            found.setdefault(Seen(shows=self.shows(node)), set()).add(node)
            for seen, to in self.weak[node]:
                found.setdefault(seen, set()).add(to)
        return {
            seen: frozenset(after for each in those for after in self.closed[each]) if seen.shows else frozenset(those)
            for seen, those in found.items()
        }

    def choice(self, rounds: list[Mapping[Node, int]]) -> Apart:
        """How two machines with the same traces differ: down the rounds to what one of two states cannot do."""
        here, there = (0, self.tables[0].initial), (1, self.tables[1].initial)
        trace: list[Seen] = []
        while True:
            number = next(index for index, each in enumerate(rounds) if each[here] != each[there])
            if number == 0:
                shown = max(self.shows(here), self.shows(there))
                return Apart(trace=(*trace, Seen(shows=shown)), first=shown == self.shows(here), linear=False)
            last = rounds[number - 1]
            for one, other in ((here, there), (there, here)):
                found = self._unmatched(one, other, last)
                if found is not None:
                    seen, to, matches = found
                    if not matches:
                        return Apart(trace=(*trace, seen), first=one[0] == 0, linear=False)
                    if seen != Seen():
                        trace.append(seen)
                    match = max(matches, key=lambda node: (self._together(rounds, to, node), node))
                    here, there = (to, match) if to[0] == 0 else (match, to)
                    break
            else:
                raise AssertionError("the partition tells apart what nothing does")

    def _unmatched(self, one: Node, other: Node, last: Mapping[Node, int]) -> tuple[Seen, Node, list[Node]] | None:
        """A step of *one* that *other* cannot match in *last*, and where the same step leads *other* instead."""
        for seen, to in sorted({*self.weak[one], *((Seen(), node) for node in self.closed[one])}):
            options = (
                self.closed[other] if seen == Seen() else {node for each, node in self.weak[other] if each == seen}
            )
            if last[to] not in {last[node] for node in options}:
                return seen, to, sorted(options)
        return None

    @staticmethod
    def _together(rounds: list[Mapping[Node, int]], one: Node, other: Node) -> int:
        """For how many rounds *one* and *other* stay in the same class."""
        return sum(each[one] == each[other] for each in rounds)


def _way(
    before: Mapping[tuple[frozenset[Node], ...], tuple[tuple[frozenset[Node], ...], Seen] | None],
    pair: tuple[frozenset[Node], ...],
) -> tuple[Seen, ...]:
    """What was seen on the way to *pair*."""
    found: list[Seen] = []
    step = before[pair]
    while step is not None:
        pair, seen = step
        found.append(seen)
        step = before[pair]
    return tuple(reversed(found))
