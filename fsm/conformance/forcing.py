"""Find the (event, state) pairs that a plan can force on its SUT, and the obstacles to forcing the others.

A test *forces* a pair if the outcome of every step to it is certain and nothing unobserved can happen on the way. An
outcome is certain if it is the only one or if the SUT promised to arrange it. The verdict cannot be *holds* until every
pair that can be forced has been exercised.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cache

from fsm.conformance.cover import Cover
from fsm.conformance.oracle import Oracle
from fsm.conformance.plan import Edge, Plan, Point
from fsm.machine.traversal import BreadthFirst


class Obstacle(IntEnum):
    """A reason why a plan cannot force a pair. Smaller obstacles are easier to remove."""

    NONE = 0
    CHOICE = 1  # the environment chooses the outcome
    AMBIGUITY = 2  # observations do not determine the entity's state
    SUPPORT = 3  # the SUT does not support an event
    OVERLAP = 4  # a call is in progress, and the SUT has no begin() and end()
    CALLS = 5  # several calls are in progress


def obstacles(oracle: Oracle, cover: Cover) -> Mapping[tuple[int, int], Obstacle]:
    """Map each (row, state) pair to its smallest obstacle. Omit pairs that need several calls in progress."""
    plan = oracle.plan
    full = plan if plan.overlaps and not plan.never else Plan(plan.table)
    ways = cache(lambda point: [(edge, [*_obstacles_of(edge, oracle, cover)]) for edge in full.leaving(point)])
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


def _obstacles_of(edge: Edge, oracle: Oracle, cover: Cover) -> Iterator[Obstacle]:
    """Yield the obstacle to each pair of *edge*, and finally the obstacle to reaching its target."""
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
    """Return the obstacle that keeps a test from making the event of *edge* happen, or ``NONE``."""
    if edge.step.stage != "do" and not plan.overlaps:
        return Obstacle.OVERLAP
    if edge.doing in cover.unsupported:
        return Obstacle.SUPPORT
    left_out = any((edge.step.event, outcome) in plan.never for outcome in edge.step.expected or ("",))
    return Obstacle.CHOICE if left_out else Obstacle.NONE
