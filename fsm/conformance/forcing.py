"""The (event, state) pairs that a plan can force on its SUT, and the obstacles to the others.

A test *forces* a pair if every step to it has one result (its only outcome, or one that the SUT promised to arrange)
and nothing unobserved may happen on the way. A pair that can be forced is owed: until it is exercised, the verdict
cannot be *holds*.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cache

from fsm.conformance.cover import Cover
from fsm.conformance.oracle import Oracle
from fsm.conformance.plan import Edge, Plan, Point
from fsm.machine.traversal import BreadthFirst


class Obstacle(IntEnum):
    """A reason why a plan cannot force a pair; smaller ones are easier to remove."""

    NONE = 0
    CHOICE = 1  # the environment chooses the outcome
    AMBIGUITY = 2  # observation leaves open which state the entity is in
    SUPPORT = 3  # the SUT does not support an event
    OVERLAP = 4  # a call is in progress, and the SUT has no begin and end
    CALLS = 5  # several calls are in progress


def obstacles(oracle: Oracle, cover: Cover) -> Mapping[tuple[int, int], Obstacle]:
    """Return the smallest obstacle to each (row, state) pair, without those that need several calls in progress."""
    plan = oracle.plan
    full = plan if plan.overlaps and not plan.never else Plan(plan.table)
    ways = cache(lambda point: [(edge, [*_before(edge, oracle, cover)]) for edge in full.leaving(point)])
    found: dict[tuple[int, int], Obstacle] = {}

    def onward(point: Point) -> Iterator[Edge]:
        return (edge for edge, before in ways(point) if edge.to is not None and before[-1] <= least)

    for least in Obstacle:
        search: BreadthFirst[Point, Edge] = BreadthFirst([full.start], onward)
        for edge, before in (each for point in search.exhausted().depth for each in ways(point)):
            for pair, obstacle in zip(edge.cells, before, strict=False):
                if obstacle <= least:
                    found.setdefault(pair, least)
    return found


def _before(edge: Edge, oracle: Oracle, cover: Cover) -> Iterator[Obstacle]:
    """Yield the obstacle to each pair of *edge*, and finally the obstacle to its target."""
    first = _support(edge, oracle.plan, cover)
    if not first and not oracle.sure(edge.source):
        first = Obstacle.AMBIGUITY
    yield first
    arranged = (edge.source, edge.step) in cover.arranged
    seen = oracle.foreseen(edge, shown=cover.shown, emitted=cover.heard) if edge.to is not None else None
    certain = frozenset(edge.cells) if arranged or seen is None else oracle.certain(edge, seen)
    known = [pair in certain for pair in edge.cells[1:]]
    known.append(seen is None or (arranged and not oracle.dynamics.unseen) or oracle.leads(edge, seen))
    for number, is_known in enumerate(known, 1):
        chosen = Obstacle.CHOICE if any(edge.choice[:number]) and not arranged else Obstacle.NONE
        yield max(first, chosen, Obstacle.NONE if is_known else Obstacle.AMBIGUITY)


def _support(edge: Edge, plan: Plan, cover: Cover) -> Obstacle:
    """Return the reason why a test cannot make the event of *edge* happen, or ``NONE``."""
    if edge.step.stage != "do" and not plan.overlaps:
        return Obstacle.OVERLAP
    if edge.doing in cover.unsupported:
        return Obstacle.SUPPORT
    left_out = any((edge.step.event, outcome) in plan.never for outcome in edge.step.expected or ("",))
    return Obstacle.CHOICE if left_out else Obstacle.NONE
