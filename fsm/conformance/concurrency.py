"""Search for races. Several threads call one SUT concurrently, and the history must be linearizable.

Hypothesis draws a *programme*: the events to do first, the events of each thread, and the events to do last. The result
depends on scheduling, so each programme runs several times on real threads. In two of three runs the threads take turns
at lines of the SUT's code (:mod:`fsm.conformance.turns`), unless the SUT is remote. Outcomes are not arranged.

If the SUT judges itself, programmes are drawn at random, each programme runs once, and the search continues after a
race. Hypothesis does not shrink flaky failures such as races, so this package shrinks them itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, combinations_with_replacement, islice
from typing import Final, TypeAlias

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.strategies import SearchStrategy

from fsm.conformance.plan import Edge, Plan, Point
from fsm.conformance.race_runs import PATIENCE, Pace, Programme, Race, RaceJudging, RaceKind, RaceSearch, Runs
from fsm.conformance.stateful import SETTINGS
from fsm.errors import refused
from fsm.machine import Cannot, Machine
from fsm.machine.table import tabulate
from fsm.machine.traversal import BreadthFirst
from fsm.sut import SUT, Limited, Serial

Ways: TypeAlias = dict[tuple[str, ...], set[str]]
"""The reachable states. Each is given by a shortest run to it, and mapped to the events that have an effect there."""

TRIES: Final = 5
"""Factor by which pairs of events and candidates for shrinking run more often than other programmes."""

_LONG: Final = 4  # maximum number of events of each thread in programmes for a SUT that judges itself
MOST: Final = 25  # maximum number of kinds of races to find in a SUT that judges itself
AGAIN: Final = 20  # number of times to run the programme of a race again


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
    known: Collection[RaceKind] = (),
    most: int = MOST,
) -> RaceSearch:
    """Search for races in the SUT that *factory* makes, and shrink each race.

    A programme brings the SUT to one of the states that *events* can reach. Up to *threads* threads, and at least
    two, then call ``do`` concurrently, at most *each* times per thread. By default, *events* are all calls, and the
    signals that can happen in every state and do not interrupt. If the SUT judges itself, they are only the calls.
    The search ends at the first race. If the SUT judges itself, it ends after *most* races whose kinds are not in
    *known*.

    There are *examples* programmes, each run *repeats* times. *chance* is the random seed. Up to half of these runs
    test a pair of concurrent events that can both change the state or emit an output. If the SUT judges itself,
    *each* is ignored, and *examples* times *repeats* longer programmes are run once each. Threads that have not
    returned after *patience* seconds count as hanging. *pace* is for a remote SUT.

    >>> from fsm.language.library import load
    >>> from fsm.conformance.lookup import Simulated
    >>> import threading
    >>> class Locked(Simulated):
    ...     lock = threading.Lock()
    ...
    ...     def do(self, event: str) -> str:
    ...         with self.lock:
    ...             return super().do(event)
    >>> door = load("examples/models/door.toml")
    >>> concurrently(door, lambda: Locked(door), examples=5).race
    """
    machine = machine.under(profile)
    sut = factory()
    refuse_serial(sut)
    judging = isinstance(sut, RaceJudging)
    chosen = tuple(_events_in_any_state(machine, signals=not judging) if events is None else events)
    unknown = [event for event in chosen if event not in machine.events]
    if unknown or not chosen or threads < 2 or each < 1:  # noqa: PLR2004 - one thread has no race
        message = f"the search needs two threads, steps, and events of {machine.name}: {', '.join(machine.events)}"
        raise ValueError(f"{message}; not {', '.join(unknown)}" if unknown else message)
    runs = Runs(machine=machine, sut=sut, patience=patience, pace=pace, chance=chance, known=set(known))
    search = _RaceHunt(runs=runs, most=most if judging else 1)
    ways = _ways_to_states(machine, sut, chosen)
    if isinstance(sut, RaceJudging):
        drawn = islice(_long_programmes(ways, sut, threads, random.Random(chance)), examples * repeats)  # noqa: S311
        search.once(drawn)
    else:
        left = examples - search.pairs(ways, examples, repeats) // repeats
        if not search.found:
            search.draw(_programmes(ways, chosen, threads, each), examples=left, repeats=repeats, chance=chance)
    done = runs.search()
    shrunk = []
    for race in search.found:
        runs.allow(1)
        shrunk.append(runs.shrink(race, repeats * TRIES))
    if not runs.stuck:
        sut.close()
    return replace(done, found=tuple(shrunk), gone=runs.gone)


@dataclass(kw_only=True)
class _RaceHunt:
    runs: Runs
    most: int
    found: list[Race] = field(default_factory=list)

    def pairs(self, ways: Ways, examples: int, repeats: int) -> int:
        pairs = [
            Programme(before=before, threads=((one,), (other,)))
            for before, moving in ways.items()
            for one, other in combinations_with_replacement(sorted(moving), 2)
        ]
        often = min(repeats * TRIES, examples * repeats // 2 // max(1, len(pairs)))
        tries = ((pair, number) for pair in pairs for number in range(often))
        if self.runs.pace is not None:  # Interleave the runs, so that each pair gets its share even if time runs out.
            tries = ((pair, number) for number in range(often) for pair in pairs)
        self.runs.allow(0.5)
        for pair, number in tries:
            if self.runs.shows_race(pair, number) and self._record_race():
                break
        return often * len(pairs)

    def once(self, programmes: Iterable[Programme]) -> None:
        self.runs.allow(1)
        for number, programme in enumerate(programmes):
            if self.runs.late or (self.runs.shows_race(programme, number) and self._record_race()):
                return

    def draw(self, programmes: SearchStrategy[Programme], *, examples: int, repeats: int, chance: int) -> None:
        @seed(chance)
        @settings(SETTINGS, max_examples=examples, phases=(Phase.generate,))
        @given(programme=programmes)
        def test(programme: Programme) -> None:
            if (self.runs.races(programme, repeats) and self._record_race()) or self.runs.late:
                raise _EnoughError

        self.runs.allow(0.5)
        with suppress(_EnoughError, Flaky):
            test()

    def _record_race(self) -> bool:
        """Keep the last race if it needs threads. Return whether the search is over."""
        race, self.runs.race = self.runs.race, None
        if race is None:
            return False
        if self.runs.needs_threads(race):
            self.found.append(race)
        self.runs.known.add(race.kind)
        return self.runs.stuck or self.runs.gone or len(self.found) >= self.most


def repeated(machine: Machine, factory: Callable[[], SUT], race: Race, pace: Pace) -> Race:
    """Run the programme of *race* again and count the races.

    The profile must have been applied to *machine*.
    """
    sut = factory()
    runs = Runs(machine=machine, sut=sut, patience=PATIENCE, pace=pace, wanted=race.kind or None)
    raced = sum(runs.shows_race(race.programme, number) for number in range(AGAIN))
    if not runs.stuck:
        sut.close()
    return replace(race, repeated=(raced, AGAIN))


def refuse_serial(sut: SUT) -> None:
    """Raise :class:`InputError` and close *sut* if several threads cannot call it at once."""
    if isinstance(sut, Serial):
        sut.close()
        what = "the system answers one request at a time, so several threads would only wait for each other"
        hint = 'let it answer requests in parallel and greet with {"fsm":1,"can":["parallel"]}, or leave out --threads'
        raise refused(sut.serial(), "FSM601", what, hint)


def _events_in_any_state(machine: Machine, *, signals: bool) -> Iterator[str]:
    for event in machine.events.values():
        everywhere = not any(isinstance(cell, Cannot) for cell in event.cells.values())
        if event.kind == "call" or (signals and event.kind == "signal" and not event.interrupts and everywhere):
            yield event.name


def _programmes(ways: Ways, events: tuple[str, ...], threads: int, each: int) -> SearchStrategy[Programme]:
    """Return a strategy for programmes that start with one of the runs in *ways*.

    About half of the drawn events have an effect.
    """
    moving = sorted(set().union(*ways.values()))
    event = st.sampled_from(events)
    done = (st.sampled_from(moving) | event) if moving else event
    return st.builds(
        Programme,
        before=st.sampled_from(list(ways)),
        threads=st.lists(st.lists(done, min_size=1, max_size=each).map(tuple), min_size=2, max_size=threads).map(tuple),
        after=st.lists(done, max_size=1).map(tuple),
    )


def _long_programmes(ways: Ways, sut: RaceJudging, threads: int, chance: random.Random) -> Iterator[Programme]:
    """Yield long random programmes, which can reveal several races with different causes.

    About half of the events have an effect in the state in which the threads start.
    """
    every = sorted({*chain.from_iterable(ways.values()), *sut.beside})
    while True:
        before = chance.choice(list(ways))
        moving = sorted(ways[before]) or every
        lengths = [chance.randint(_LONG // 2, _LONG) for _ in range(chance.randint(2, threads))]
        yield Programme(
            before=before,
            threads=tuple(tuple(chance.choice(chance.choice((moving, every))) for _ in range(n)) for n in lengths),
        )


def _ways_to_states(machine: Machine, sut: SUT, events: Collection[str]) -> Ways:
    never = {"never": sut.never} if isinstance(sut, Limited) else {}
    plan = Plan(table=tabulate(machine), overlaps=False, **never)
    judging = isinstance(sut, RaceJudging)  # Its calls must succeed, because outcomes cannot be requested.

    def succeeds(edge: Edge) -> bool:
        return all(not way.reply or way.replies("ok") for way in edge.ways)

    def onward(point: Point) -> list[Edge]:
        return [e for e in plan.onward(point) if e.step.event in events and (not judging or succeeds(e))]

    def moves(edge: Edge) -> bool:
        return edge.to != edge.source or any(way.emits for way in edge.ways)

    start, before = plan.start, tuple(sut.before) if isinstance(sut, RaceJudging) else ()
    for event in before:
        start = next(e.to for e in plan.onward(start) if e.to is not None and e.step.event == event and succeeds(e))
    search: BreadthFirst[Point, Edge] = BreadthFirst([start], onward)
    ways: Ways = {}
    for point in search.exhausted().depth:
        path = (*before, *(edge.step.event for edge in search.path_to(point)))
        ways.setdefault(path, set()).update(edge.step.event for edge in onward(point) if moves(edge))
    return ways


class _EnoughError(Exception):
    pass
