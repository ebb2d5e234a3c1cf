"""Search for races. Several threads call one SUT concurrently, and the history must be linearizable.

A *programme* has the events to do first, the events of each thread, and the events to do last. The result depends on
scheduling, so each programme runs several times on real threads. In two of three runs the threads take turns at lines
of the SUT's code (:mod:`fsm.conformance.turns`), unless the SUT is remote. Outcomes are not arranged.

If the SUT judges itself, each programme runs once, and the search continues after a race. Hypothesis does not shrink
flaky failures such as races, so this package draws and shrinks programmes itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations_with_replacement, islice, product
from typing import Final, TypeAlias

from fsm.conformance.plan import Edge, Plan, Point
from fsm.conformance.race_runs import PATIENCE, Pace, Programme, Race, RaceJudging, RaceKind, RaceSearch, Runs
from fsm.errors import refused
from fsm.machine import Cannot, Machine
from fsm.machine.table import tabulate
from fsm.machine.traversal import BreadthFirst
from fsm.sut import SUT, Limited, Serial

Ways: TypeAlias = dict[tuple[str, ...], set[str]]
"""Maps a shortest run for each reachable state to the events that have an effect in that state."""

TRIES: Final = 5
"""Factor by which pairs of events and candidates for shrinking run more often than other programmes."""

_LENGTHS: Final = range(2, 5)
"""Numbers of events per thread if the SUT judges itself. Long programmes can reveal several races."""

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

    A programme first brings the SUT to one of the states that *events* can reach. It then starts at least two and at
    most *threads* threads, each of which calls ``do`` up to *each* times. By default, *events* are all calls, and the
    signals that can happen in every state and do not interrupt. The search ends at the first race.

    With *chance* as the random seed, the search runs *examples* programmes *repeats* times each. Up to half of the runs
    test a pair of concurrent events that can both change the state or emit an output. A thread that runs longer than
    *patience* seconds counts as hanging. *pace* sets the timing if the SUT is remote.

    If the SUT judges itself, *events* are only the calls, *each* is ignored, and each of *examples* x *repeats* longer
    programmes runs once. The search then ends when *most* races are found, not counting races of a kind in *known*.

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
    refuse_threads(machine, sut)
    judging = isinstance(sut, RaceJudging)
    chosen = tuple(_events_in_any_state(machine, signals=not judging) if events is None else events)
    unknown = [event for event in chosen if event not in machine.events]
    if unknown or not chosen or threads < 2 or each < 1:  # noqa: PLR2004 - one thread has no race
        message = f"the search needs two threads, steps, and events of {machine.name}: {', '.join(machine.events)}"
        raise ValueError(f"{message}; not {', '.join(unknown)}" if unknown else message)
    runs = Runs(machine=machine, sut=sut, patience=patience, pace=pace, chance=chance, known=set(known))
    ways = _ways_to_states(machine, sut, chosen)
    draw = random.Random(chance)  # noqa: S311
    if isinstance(sut, RaceJudging):
        every = sorted({*chain.from_iterable(ways.values()), *sut.beside})
        drawn = islice(_random_programmes(ways, every, threads, _LENGTHS, draw), examples * repeats)
        runs.allow(1)
        found = runs.hunt(((programme, number) for number, programme in enumerate(drawn)), most)
    else:
        pairs = [
            Programme(before=before, threads=((one,), (other,)))
            for before, moving in ways.items()
            for one, other in combinations_with_replacement(sorted(moving), 2)
        ]
        often = min(repeats * TRIES, examples * repeats // 2 // max(1, len(pairs)))
        runs.allow(0.5)
        found = runs.hunt(runs.repeated(pairs, often), 1)
        if not found:
            left = examples - often * len(pairs) // repeats
            drawn = islice(_random_programmes(ways, chosen, threads, range(1, each + 1), draw, after=True), left)
            runs.allow(0.5)
            found = runs.hunt(product(drawn, range(repeats)), 1)
    searched = RaceSearch(
        found=(),
        programmes=len(runs.done),
        runs=runs.done.total(),
        events=sum(number * sum(map(len, programme.threads)) for programme, number in runs.done.items()),
        cut=runs.cut and (runs.gone or not judging),  # A search of a self-judging SUT is expected to use all its time.
    )
    shrunk = []
    for race in found:
        runs.allow(1)
        shrunk.append(runs.shrink(race, repeats * TRIES))
    if not runs.stuck:
        sut.close()
    return replace(searched, found=tuple(shrunk), gone=runs.gone)


def repeated(machine: Machine, factory: Callable[[], SUT], race: Race, pace: Pace) -> Race:
    """Run the programme of *race* again, and count how often the race recurs.

    The profile must already have been applied to *machine*.
    """
    sut = factory()
    runs = Runs(machine=machine, sut=sut, patience=PATIENCE, pace=pace, wanted=race.kind or None)
    raced = sum(1 for _ in runs.races(runs.repeated([race.programme], AGAIN)))
    if runs.stuck:  # The other runs would hang too.
        raced += AGAIN - runs.done.total()
    else:
        sut.close()
    return replace(race, repeated=(raced, AGAIN))


def refuse_threads(machine: Machine, sut: SUT) -> None:
    """Raise :class:`InputError` and close *sut* if several threads cannot call it, or if *machine* has data."""
    if tabulate(machine).data is not None:
        sut.close()
        what = "the machine has variables or arguments, and races are searched for only without them"
        raise refused(machine.path or machine.name, "FSM630", what, "leave out --threads")
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


def _random_programmes(
    ways: Ways, events: Sequence[str], threads: int, lengths: range, chance: random.Random, *, after: bool = False
) -> Iterator[Programme]:
    """Yield random programmes with 2 to *threads* threads.

    The number of events of each thread is chosen from *lengths*. About half of the events have an effect in the state
    in which the threads start. If *after* is true, a programme may end with an event after its threads have ended.
    """
    while True:
        before = chance.choice(list(ways))
        kinds = (sorted(ways[before]) or events, events)
        sizes = [chance.choice(lengths) for _ in range(chance.randint(2, threads))]
        drawn = [tuple(chance.choice(chance.choice(kinds)) for _ in range(size)) for size in sizes]
        last = chance.choice(((), (chance.choice(events),))) if after else ()
        yield Programme(before=before, threads=tuple(drawn), after=last)


def _ways_to_states(machine: Machine, sut: SUT, events: Collection[str]) -> Ways:
    never = sut.never if isinstance(sut, Limited) else lambda *_: False
    plan = Plan(table=tabulate(machine), overlaps=False, never=never)
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
