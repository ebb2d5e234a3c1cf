"""Find the shortest path by which a client can exercise each cell of a machine.

A client makes calls one at a time and waits for events that happen by themselves. A path may
have other requirements, called needs; paths whose needs are easier to meet are preferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import combinations
from typing import Final

from fsm.conformance.lookup import Simulated
from fsm.conformance.plan import Edge, Plan, Point
from fsm.conformance.scheme import DomainClient, client_of
from fsm.machine import Machine, Moves
from fsm.machine.table import Way, tabulate
from fsm.machine.traversal import BreadthFirst
from fsm.monitor import Monitor
from fsm.sut import Stimulus
from fsm.trace import Observation, shown_text


class Need(IntEnum):
    """Requirements of a path, from easy to hard. Calls and events that happen by themselves do not count."""

    FAILURE = 1  # a call fails in a way that a client can arrange
    OVERLAP = 2  # a call arrives while another call is in progress
    SAME_ID = 3  # an entity is created with an id in use, which is impossible if the other side chooses the ids
    RESTART = 4  # the other side is restarted or killed
    FAULT = 5  # a signal, or an unusual outcome of a call, that the client cannot cause by making calls
    HIDDEN = 6  # a hidden event happens
    NEVER = 7  # no run reaches this state
    CANNOT = 8  # the model says that the event cannot happen in this state


CALLS: Final = frozenset({Need.FAILURE})  # requirements that a single client can meet by making calls

_ALLOWED: Final = sorted(
    (frozenset(some) for size in range(Need.NEVER) for some in combinations(list(Need)[: Need.HIDDEN], size)),
    key=lambda some: (max(some, default=0), len(some), sorted(some)),
)
"""Combinations of needs to try, from easy to hard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPath:
    """The shortest ``steps`` from the initial state that exercise a cell, if there are any, and their ``needs``."""

    steps: tuple[Stimulus, ...]
    needs: tuple[Need, ...] = ()

    @property
    def alone(self) -> bool:
        return CALLS.issuperset(self.needs)


def client_paths(machine: Machine) -> Mapping[tuple[str, str], ClientPath]:
    """Map each (event, state) pair, in model order, to its path. The end of a call is named ``…EVENT``."""
    plan, client = Plan(tabulate(machine)), client_of(machine)
    table = plan.table
    leaving = cache(lambda point: [(edge, needs(plan, edge, client)) for edge in plan.planned(point)])
    found: dict[tuple[int, int], ClientPath] = {}

    def onward(point: Point) -> Iterator[Edge]:
        return (edge for edge, needed in leaving(point) if needed <= allowed and edge.to is not None)

    wanted = {(row, state) for row, state in table.defined() if table.step(state, row) != ()}
    for allowed in _ALLOWED:
        if len(found) == len(wanted):
            break
        search: BreadthFirst[Point, Edge] = BreadthFirst([plan.start], onward).exhausted()
        for edge in (edge for point in search.depth for edge, needed in leaving(point) if needed <= allowed):
            if not found.keys() >= {*edge.cells}:
                path = (*search.path_to(edge.source), edge)
                needed = sorted(frozenset[Need]().union(*(needs(plan, each, client) for each in path)))
                steps = ClientPath(steps=tuple(each.step for each in path), needs=tuple(needed))
                found = dict.fromkeys(edge.cells, steps) | found
    never, cannot = (ClientPath(steps=(), needs=(need,)) for need in (Need.NEVER, Need.CANNOT))
    without = {pair: never if pair in wanted else cannot for pair in table.defined()}
    paths = {**without, **found}
    return {(table.rows[row].name, table.states[state]): path for (row, state), path in paths.items()}


def needs(plan: Plan, edge: Edge, client: DomainClient) -> frozenset[Need]:
    table = plan.table
    event = table.rows[table.row[edge.step.event]].event
    found = {Need.OVERLAP} if edge.step.stage != "do" else set()
    if event.interrupts:
        found.add(Need.RESTART)
    elif event.kind == "hidden":
        found.add(Need.HIDDEN)
    elif event.kind != "call" and not event.rpc:
        row, state = edge.cells[0]
        if event.name != client.exits.get(table.machine.entity) or not isinstance(table.cell(state, row), Moves):
            found.add(Need.FAULT)
    elif event.rpc and event.rpc == client.creates.get(table.machine.entity) and edge.cells[0][1] != table.initial:
        found.add(Need.SAME_ID)
    if event.kind == "call":
        for (row, state), way in zip(edge.cells, edge.ways, strict=False):  # an unspecified last cell has no outcome
            if plan.original(way) is not usual(table.step(state, row) or ()):
                fails = event.rpc in client.arranged and way.deviation is None and not way.replies("ok")
                found.add(Need.FAILURE if fails else Need.FAULT)
    return frozenset(found)


def usual(ways: Sequence[Way]) -> Way | None:
    """Return the usual outcome of a call, which is the first outcome in model order that is not a deviation."""
    return next((way for way in ways if way.deviation is None), None)


_ENTITY: Final = "it"


class EvidentPaths:
    """Finds steps whose recording proves that they exercised a given cell of *machine*.

    *seen* contains the signals that always appear in a recording, or is ``None`` if all do. The events in *unseen*
    never appear.
    """

    def __init__(self, machine: Machine, *, seen: frozenset[str] | None, unseen: frozenset[str] = frozenset()) -> None:
        self._machine, self._seen, self._unseen = machine, seen, unseen
        self._runtime = Simulated(machine)
        self._client = client_of(machine)

    def of(self, cell: tuple[str, str], steps: Sequence[Stimulus]) -> tuple[Stimulus, ...]:
        for tried in self._variants(tuple(steps)):
            monitor = Monitor(self._machine, seen=self._seen)
            for each in self._observe_run(tried):
                monitor.observe(each)
            if monitor.judgement().covered.cells[cell]:
                return tried
        return ()

    def _variants(self, steps: tuple[Stimulus, ...]) -> Iterator[tuple[Stimulus, ...]]:
        yield steps
        names = {event.rpc: event.name for event in self._machine.events.values() if event.kind == "call"}
        makes, removes, looks = (
            [Stimulus(names[rpc]) for rpc in names if rpc in those]
            for those in ({self._client.creates.get(self._machine.entity)}, self._client.removes, self._client.looks)
        )
        if makes and removes and steps[0].event != makes[0].event:
            yield (*makes, *removes, *steps)
        yield from ((*steps[:-1], look, steps[-1]) for look in looks)

    def _observe_run(self, steps: Sequence[Stimulus]) -> Iterator[Observation]:
        self._runtime.reset()
        of = self._machine.entity
        for step in steps:
            for outcome in step.expected:
                self._runtime.arrange(step.event, outcome)
            reply = self._runtime.do(step.event)
            event = self._machine.events[step.event]
            if event.kind == "call":
                met = shown_text(self._runtime.shows()) if event.rpc in self._client.looks and reply == "ok" else ""
                yield Observation(entity=_ENTITY, of=of, event=event.name, phase="request")
                yield Observation(entity=_ENTITY, of=of, event=event.name, phase="reply", reply=reply, met=met)
            elif event.name not in self._unseen:
                yield Observation(entity=_ENTITY, of=of, event=event.name)
