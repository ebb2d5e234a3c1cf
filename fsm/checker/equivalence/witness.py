"""Evidence that two moments differ: a shortest distinguishing trace, or a choice that one machine makes earlier."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fsm.checker.equivalence.partition import HIDDEN, Partition, Signature
from fsm.machine.traversal import BreadthFirst

Blocks = frozenset[int]
"""The blocks of the moments in which a machine may be after a trace."""


class _Step(NamedTuple):
    """The blocks of both machines after one more label.  ``to`` is ``None`` if only one machine can have it."""

    label: int
    to: tuple[Blocks, Blocks] | None


def trace(
    weak: Sequence[Signature], partition: Partition, start: tuple[int, int], limit: int
) -> tuple[int, ...] | None:
    """Return the labels of a shortest trace that only one node of *start* has, or ``None`` if there is none.

    Of several, the first in label order is returned.  Raise :class:`~fsm.machine.traversal.LimitError` beyond *limit*
    pairs of sets of blocks.
    """
    steps = _steps(weak, partition)

    def following(pair: tuple[Blocks, Blocks] | None) -> Iterator[_Step]:
        if pair is None:
            return
        first, second = (sorted({label for block in each for label in steps[block]}) for each in pair)
        odd = min(set(first).symmetric_difference(second), default=None)
        if odd is not None:
            yield _Step(odd, None)
            return
        for label in first:
            after = (_all(steps, pair[0], label), _all(steps, pair[1], label))
            if label != HIDDEN and after[0] != after[1]:
                yield _Step(label, after)

    one, other = (_all(steps, frozenset({partition.block[node]}), HIDDEN) for node in start)
    search: BreadthFirst[tuple[Blocks, Blocks] | None, _Step] = BreadthFirst([(one, other)], following, limit=limit)
    return next((tuple(each.label for each in search.path(last)) for last in search if last.to is None), None)


def _steps(weak: Sequence[Signature], partition: Partition) -> dict[int, dict[int, Blocks]]:
    found: dict[int, dict[int, Blocks]] = {}
    for node, block in enumerate(partition.block):
        if block not in found:
            to: dict[int, set[int]] = {}
            for label, last in weak[node]:
                to.setdefault(label, set()).add(partition.block[last])
            found[block] = {label: frozenset(blocks) for label, blocks in to.items()}
    return found


def _all(steps: dict[int, dict[int, Blocks]], blocks: Blocks, label: int) -> Blocks:
    return frozenset[int]().union(*(steps[block].get(label, ()) for block in blocks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """A play of the bisimulation game that the attacker wins.

    Each of ``rounds`` is a label and the two moments after it.  In the end, only the side ``owner`` has ``option``.
    """

    rounds: tuple[tuple[int, int, int], ...]
    owner: int
    option: int


def play(weak: Sequence[Signature], partition: Partition, start: tuple[int, int]) -> Play:
    """Return a play from two separated nodes.  Each answer is the node that was separated from the target last."""
    rounds: list[tuple[int, int, int]] = []
    pair = start
    while True:
        side, label, answers, to = _attack(weak, partition, pair)
        if not answers:
            return Play(rounds=tuple(rounds), owner=side, option=label)
        best = max(sorted(answers), key=lambda answer: partition.separated(to, answer))
        pair = (to, best) if side == 0 else (best, to)
        rounds.append((label, *pair))


def _attack(weak: Sequence[Signature], partition: Partition, pair: tuple[int, int]) -> tuple[int, int, list[int], int]:
    """Return side, label, answers and target of a step.  The answers were separated from the target before *pair*."""
    left = partition.separated(*pair)
    for side in (0, 1):
        one, two = pair[side], pair[1 - side]
        answers: dict[int, list[int]] = {}
        for label, to in weak[two]:
            answers.setdefault(label, []).append(to)
        for label, to in sorted(weak[one]):
            found = answers.get(label, [])
            if all(0 < partition.separated(to, answer) < left for answer in found):
                return side, label, found, to
    raise AssertionError(pair)  # cannot happen: nodes are separated because their signatures differ
