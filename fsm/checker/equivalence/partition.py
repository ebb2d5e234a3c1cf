"""Partition refinement: find the coarsest partition of moments into equivalence classes.

Steps are weak, so any number of hidden steps may come before and after.  Blocks are split by the signatures of their
members in rounds (Blom and Orzan, 2005).  Only predecessors of nodes that changed their block are examined again.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fsm.machine.graph import components

HIDDEN = 0
"""Label of a step that cannot be observed."""

Signature: TypeAlias = frozenset[tuple[int, int]]
"""Pairs of a label and a node or block that it may lead to."""


def saturated(hidden: Sequence[Iterable[int]], seen: Sequence[Iterable[tuple[int, int]]]) -> list[Signature]:
    """Return the weak steps of each node, given its *hidden* and *seen* steps.

    :data:`HIDDEN` leads to the node itself and to every node reachable by hidden steps.  The running time is linear in
    the size of the result.
    """
    after: list[frozenset[int]] = [frozenset()] * len(seen)
    found: list[Signature] = [frozenset()] * len(seen)
    # All nodes in a component of hidden steps have the same weak steps.  Components come after
    # their successors.
    groups = components({node: list(steps) for node, steps in enumerate(hidden)})
    for group in groups:
        inside = set(group)
        reached = inside.union(*(after[to] for node in group for to in hidden[node] if to not in inside))
        for node in group:
            after[node] = frozenset(reached)
    for group in groups:
        inside = set(group)
        weak = {(HIDDEN, to) for to in after[group[0]]}
        weak.update((label, last) for node in group for label, to in seen[node] for last in after[to])
        weak.update(*(found[to] for node in group for to in hidden[node] if to not in inside))
        for node in group:
            found[node] = frozenset(weak)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The final block of each node, and its history of (round, block) pairs."""

    block: list[int]
    history: list[list[tuple[int, int]]]

    def separated(self, one: int, two: int) -> int:
        """Return the round that separated *one* from *two*, or 0 if none did."""
        if self.block[one] == self.block[two]:
            return 0
        rounds = sorted({at for node in (one, two) for at, _ in self.history[node]})
        return next(at for at in rounds if self._at(one, at) != self._at(two, at))

    def _at(self, node: int, last: int) -> int:
        return next(block for at, block in reversed(self.history[node]) if at <= last)


def refine(weak: Sequence[Signature]) -> Partition:
    """Return the coarsest partition in which nodes of a block have the same *weak* steps to the same blocks."""
    size = len(weak)
    block = [0] * size
    history = [[(0, 0)] for _ in range(size)]
    before: list[set[int]] = [set() for _ in range(size)]
    for node, steps in enumerate(weak):
        for _, to in steps:
            before[to].add(node)
    members = {0: set(range(size))}
    known: dict[int, Signature] = {}
    dirty = set(range(size))
    at = 0
    while dirty:
        at += 1
        moved = _split(weak, block, members, known, dirty)
        for node, number in moved.items():
            block[node] = number
            history[node].append((at, number))
        dirty = set().union(*(before[node] for node in moved))
    return Partition(block=block, history=history)


def _split(
    weak: Sequence[Signature],
    block: Sequence[int],
    members: dict[int, set[int]],
    known: dict[int, Signature],
    dirty: Iterable[int],
) -> dict[int, int]:
    """Return the new block of each node that leaves its block.  Only *dirty* nodes can have a new signature."""
    again: defaultdict[int, dict[Signature, set[int]]] = defaultdict(dict)
    for node in sorted(dirty):
        signature = frozenset((label, block[to]) for label, to in weak[node])
        again[block[node]].setdefault(signature, set()).add(node)
    moved: dict[int, int] = {}
    for number, parts in again.items():
        rest = members[number].difference(*parts.values())
        if rest:
            parts.setdefault(known[number], set()).update(rest)
        largest = max(parts, key=lambda signature: len(parts[signature]))
        known[number] = largest
        members[number] = parts.pop(largest)
        for signature, part in parts.items():
            new = len(members)
            known[new] = signature
            members[new] = part
            moved |= dict.fromkeys(part, new)
    return moved
