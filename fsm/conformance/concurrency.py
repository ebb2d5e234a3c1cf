"""Races: several threads call one SUT at once, and the history must be linearizable.

Hypothesis draws a *programme*: what is done before, what each thread does, and what is done after them.  It runs on real
threads, several times, since the outcome depends on the schedule: two times of three they take turns at lines of the
SUT's code (:mod:`fsm.conformance.turns`), unless it is far away.  :mod:`fsm.linearizability` decides each history.
Outcomes are not arranged.

Hypothesis does not shrink what it finds flaky, as races are.  So parts are left out of the programme here as long as the
rest is *seen* to fail, and the history of that failure is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Final, TypeAlias

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.strategies import SearchStrategy

from fsm.conformance.plan import Edge, Plan, Point
from fsm.conformance.race_runs import PATIENCE, Pace, Programme, Race, RaceSearch, Runs
from fsm.conformance.stateful import SETTINGS
from fsm.errors import InputError, Problem
from fsm.machine import Cannot, Machine
from fsm.machine.table import tabulate
from fsm.machine.traversal import BreadthFirst
from fsm.sut import SUT, Serial

Ways: TypeAlias = dict[tuple[str, ...], set[str]]
"""Events by which a state is reached, with those that can move it from there."""

TRIES: Final = 5
"""Factor by which a programme of two events, or one that may be a smaller race, is run more often than others."""

AGAIN: Final = 20
"""How often the programme of a race is run again."""


def concurrently(
    machine: Machine,
    factory: Callable[[], SUT],
    *,
    threads: int = 3,
    each: int = 2,
    events: Collection[str] | None = None,
    profile: str | None = None,
    examples: int = 100,
    repeats: int = 10,
    chance: int = 0,
    patience: float = PATIENCE,
    pace: Pace | None = None,
) -> RaceSearch:
    """The search for a race, shrunk, in the SUT that *factory* makes.

    ``do`` of the SUT is called from two to *threads* threads at once, up to *each* times from each; everything else is
    called by one thread.  A programme first goes to one of the states that can be reached by *events*.  By default these
    are all calls, and the signals that do not interrupt and can happen in every state, since the state that a thread
    will find is not known.  Events that the SUT does not support are left out.

    There are *examples* programmes, each run *repeats* times, from the seed *chance*.  Up to half of these runs are of
    pairs: two events at once that can both move the entity.  Threads that have not returned after *patience* seconds
    are taken to hang.  *pace* is for a SUT that is far away.

    >>> from fsm.library import load
    >>> from fsm.conformance.simulated import Simulated
    >>> import threading
    >>> class Locked(Simulated):
    ...     lock = threading.Lock()
    ...
    ...     def do(self, event: str) -> str:
    ...         with self.lock:
    ...             return super().do(event)
    >>> concurrently(load("cri-pod"), lambda: Locked(load("cri-pod")), examples=5).race
    """
    machine = machine.under(profile)
    chosen = tuple(_anywhere(machine) if events is None else events)
    unknown = [event for event in chosen if event not in machine.events]
    if unknown or not chosen or threads < 2 or each < 1:  # noqa: PLR2004 - one thread has no race
        message = f"needs two threads, something to do, and events of {machine.name}: {', '.join(machine.events)}"
        raise ValueError(f"{message}; not {', '.join(unknown)}" if unknown else message)
    sut = factory()
    refuse_serial(sut)
    runs = Runs(machine=machine, sut=sut, patience=patience, pace=pace, chance=chance)

    ways = _ways_in(machine, chosen)
    pairs = [
        Programme(before=before, threads=((one,), (other,)))
        for before, moving in ways.items()
        for one, other in combinations_with_replacement(sorted(moving), 2)
    ]
    often = min(repeats * TRIES, examples * repeats // 2 // max(1, len(pairs)))

    @seed(chance)
    @settings(SETTINGS, max_examples=examples - often * len(pairs) // repeats, phases=(Phase.generate,))
    @given(programme=_programmes(ways, chosen, threads, each))
    def test(programme: Programme) -> None:
        if runs.races(programme, repeats) or runs.late:
            raise _EnoughError

    tries = ((pair, number) for pair in pairs for number in range(often))
    if pace is not None:  # none is left out for want of time
        tries = ((pair, number) for number in range(often) for pair in pairs)
    runs.allow(0.5)
    if not any(runs.race_in(pair, number) for pair, number in tries):
        runs.allow(0.5)
        with suppress(_EnoughError, Flaky):
            test()
    search = runs.search()
    runs.allow(1)
    runs.shrink(repeats * TRIES)
    if not runs.stuck:
        sut.close()
    return replace(search, race=runs.race)


def repeated(machine: Machine, factory: Callable[[], SUT], race: Race, pace: Pace) -> Race:
    """*race*, and how often its programme races when it is run again a few times; *machine* is as its profile has it."""
    sut = factory()
    runs = Runs(machine=machine, sut=sut, patience=PATIENCE, pace=pace)
    raced = sum(runs.race_in(race.programme, number) for number in range(AGAIN))
    if not runs.stuck:
        sut.close()
    return replace(race, repeated=(raced, AGAIN))


def refuse_serial(sut: SUT) -> None:
    """Raise :class:`InputError` if several threads cannot call *sut* at once; it is closed then."""
    if isinstance(sut, Serial):
        sut.close()
        what = "takes one request at a time, so that several threads would only wait for each other"
        hint = 'let it answer requests in parallel and greet with {"fsm":1,"can":["parallel"]}, or leave out --threads'
        raise InputError([Problem(path=sut.serial(), line=0, code="FSM601", what=what, hint=hint)])


def _anywhere(machine: Machine) -> Iterator[str]:
    """The events that a thread may try whatever state the entity is in."""
    for event in machine.events.values():
        everywhere = not any(isinstance(cell, Cannot) for cell in event.cells.values())
        if event.kind == "call" or (event.kind == "signal" and not event.interrupts and everywhere):
            yield event.name


def _programmes(ways: Ways, events: tuple[str, ...], threads: int, each: int) -> SearchStrategy[Programme]:
    """Programmes that begin by one of *ways*, small ones first; half of their events can move the entity."""
    moving = sorted(set().union(*ways.values()))
    event = st.sampled_from(events)
    done = (st.sampled_from(moving) | event) if moving else event
    return st.builds(
        Programme,
        before=st.sampled_from(list(ways)),
        threads=st.lists(st.lists(done, min_size=1, max_size=each).map(tuple), min_size=2, max_size=threads).map(tuple),
        after=st.lists(done, max_size=1).map(tuple),
    )


def _ways_in(machine: Machine, events: tuple[str, ...]) -> Ways:
    """A shortest run of *events* to each state that they can reach with the right outcomes; short runs first."""
    plan = Plan(table=tabulate(machine), overlaps=False)

    def onward(point: Point) -> list[Edge]:
        return [edge for edge in plan.onward(point) if edge.step.event in events]

    search: BreadthFirst[Point, Edge] = BreadthFirst([plan.start], onward)
    ways: Ways = {}
    for point in search.exhausted().depth:
        path = tuple(edge.step.event for edge in search.path_to(point))
        ways.setdefault(path, set()).update(edge.step.event for edge in onward(point) if edge.to != point)
    return ways


class _EnoughError(Exception):
    """A race was seen, or the time is over."""
