"""Races: several threads call one SUT at once, and the history must be linearizable.

Hypothesis draws a *programme*: what is done before, what each thread does, and what is done after them.  It runs on real
threads, several times, since the outcome depends on the schedule: two times of three they take turns at lines of the
SUT's code (:mod:`fsm.conformance.turns`).  :mod:`fsm.linearizability` decides each history.  Outcomes are not arranged.

Hypothesis does not shrink what it finds flaky, as races are.  So parts are left out of the programme here as long as the
rest is *seen* to fail, and the history of that failure is reported.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, count
from typing import Final, TypeAlias

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.strategies import SearchStrategy

from fsm.conformance.plan import Edge, Plan, Point
from fsm.conformance.stateful import SETTINGS
from fsm.conformance.turns import Turns
from fsm.errors import InputError, Problem
from fsm.linearizability import Linearizability, Linearizable, linearize
from fsm.linearizability.history import History, Operation
from fsm.machine import Cannot, Machine
from fsm.machine.table import tabulate
from fsm.machine.traversal import BreadthFirst
from fsm.sut import SUT, Emitting, Serial, UnsupportedError

Ways: TypeAlias = dict[tuple[str, ...], set[str]]
"""Events by which a state is reached, with those that can move it from there."""

SWITCH: Final = 1e-5
"""The interpreter's switch interval, in seconds, while a programme runs."""

TRIES: Final = 5
"""Factor by which a programme of two events, or one that may be a smaller race, is run more often than others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programme:
    """Events to be done ``before`` and ``after``, one by one, and in between by ``threads`` at once."""

    before: tuple[str, ...] = ()
    threads: tuple[tuple[str, ...], ...] = ()
    after: tuple[str, ...] = ()

    def smaller(self) -> Iterator[Programme]:
        """The same with one event left out; a thread with no event left is dropped."""
        parts = [self.before, *self.threads, self.after]
        for number, part in enumerate(parts):
            for at in range(len(part)):
                left = [*parts[:number], part[:at] + part[at + 1 :], *parts[number + 1 :]]
                yield Programme(before=left[0], threads=tuple(filter(None, left[1:-1])), after=left[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """A programme, what happened, and why it is not legal: ``verdict``, or ``broken`` if the SUT gave none."""

    programme: Programme
    history: History
    verdict: Linearizability | None
    broken: str = ""


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
    patience: float = 10,
) -> Race | None:
    """A race in the SUT that *factory* makes, shrunk; ``None`` if none is found.

    ``do`` of the SUT is called from two to *threads* threads at once, up to *each* times from each; everything else is
    called by one thread.  A programme first goes to one of the states that can be reached by *events*.  By default these
    are all calls, and the signals that do not interrupt and can happen in every state, since the state that a thread
    will find is not known.  Events that the SUT does not support are left out.

    There are *examples* programmes, each run *repeats* times, from the seed *chance*.  Up to half of these runs are of
    pairs: two events at once that can both move the entity.  Threads that have not returned after *patience* seconds
    are taken to hang.

    >>> from fsm.library import load
    >>> from fsm.conformance.simulated import Simulated
    >>> class Locked(Simulated):
    ...     lock = threading.Lock()
    ...
    ...     def do(self, event: str) -> str:
    ...         with self.lock:
    ...             return super().do(event)
    >>> concurrently(load("cri-pod"), lambda: Locked(load("cri-pod")), examples=5)
    """
    machine = machine.under(profile)
    chosen = tuple(_anywhere(machine) if events is None else events)
    unknown = [event for event in chosen if event not in machine.events]
    if unknown or not chosen or threads < 2 or each < 1:  # noqa: PLR2004 - one thread has no race
        message = f"needs two threads, something to do, and events of {machine.name}: {', '.join(machine.events)}"
        raise ValueError(f"{message}; not {', '.join(unknown)}" if unknown else message)
    sut = factory()
    refuse_serial(sut)
    runs = _Runs(machine=machine, sut=sut, patience=patience)

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
        if runs.races(programme, repeats):
            raise _RaceError

    if not any(runs.races(pair, often) for pair in pairs):
        with suppress(_RaceError, Flaky):
            test()
    runs.shrink(repeats * TRIES)
    if not runs.stuck:
        sut.close()
    return runs.race


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


class _RaceError(Exception):
    """A race was seen."""


@dataclass(kw_only=True)
class _Runs:
    """Programmes on one SUT: the last ``race``, whether threads hang in it, and whether it has lines to take turns at."""

    machine: Machine
    sut: SUT
    patience: float
    race: Race | None = None
    stuck: bool = False
    lines: bool = True

    def races(self, programme: Programme, repeats: int) -> bool:
        """Whether one of up to *repeats* runs of *programme* shows a race."""
        return any(self._races(programme, number) for number in range(repeats))

    def _races(self, programme: Programme, number: int) -> bool:
        if self.stuck:
            return True
        run = _Run(runs=self, programme=programme, turns=self.lines and (number + 1) % 3 != 0)
        run.all(random.Random(number))  # noqa: S311 - a repeatable choice, not a secret
        answer = None if run.broken else linearize(self.machine, run.history())
        if isinstance(answer, Linearizable):
            return False
        broken = run.broken[0] if run.broken else ""
        self.race = Race(programme=programme, history=run.history(), verdict=answer, broken=broken)
        return True

    def shrink(self, repeats: int) -> None:
        """Leave out of the race whatever it does not need; each smaller programme is run up to *repeats* times."""
        again = True
        while again and not self.stuck and self.race is not None:
            again = any(self.races(smaller, repeats) for smaller in self.race.programme.smaller())


@dataclass(kw_only=True)
class _Run:
    """One run of a programme, and its record; ``broken`` has the reasons why it cannot be judged."""

    runs: _Runs
    programme: Programme
    turns: bool
    broken: list[str] = field(default_factory=list)
    _operations: dict[int, Operation] = field(default_factory=dict)
    _outputs: tuple[str, ...] | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    def history(self) -> History:
        """What was recorded, with the operations that have not returned."""
        outputs = {} if self._outputs is None else {"": self._outputs}
        return History(operations=tuple(self._operations.values()), outputs=outputs)

    def all(self, chance: random.Random) -> None:
        parts: tuple[Callable[[], None], ...] = (
            self._reset,
            lambda: self._done(self.programme.before),
            lambda: self._at_once(chance),
            lambda: self._done(self.programme.after),
            self._look,
        )
        for part in parts:
            try:
                part()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - an error of the SUT is a finding
                self.broken.append(f"it raised {type(error).__name__}: {error}")
            if self.broken:
                return

    def _reset(self) -> None:
        self.runs.sut.reset()
        if isinstance(self.runs.sut, Emitting):
            self.runs.sut.outputs()

    def _look(self) -> None:
        called = time.monotonic_ns()
        shows = self.runs.sut.shows()
        if shows:
            self._operations[next(self._numbers)] = Operation(called=called, returned=time.monotonic_ns(), shows=shows)
        if shows and all(shows != state.shows for state in self.runs.machine.states.values()):
            self.broken.append(f"it shows {shows!r}, which no state shows")
        if isinstance(self.runs.sut, Emitting):
            self._outputs = tuple(self.runs.sut.outputs())

    def _at_once(self, chance: random.Random) -> None:
        threads = self.programme.threads
        barrier = threading.Barrier(len(threads))
        turns = Turns(len(threads), chance) if self.turns and threads else None
        running = [
            threading.Thread(target=self._thread, args=(number, events, turns, barrier), daemon=True)
            for number, events in enumerate(threads, 1)
        ]
        with _switching():
            for each in running:
                each.start()
            until = time.monotonic() + self.runs.patience
            for each in running:
                each.join(max(0, until - time.monotonic()))
        self.runs.lines &= turns is None or turns.lines > 0
        hanging = [f"thread {number}" for number, each in enumerate(running, 1) if each.is_alive()]
        if hanging:
            self.runs.stuck = True
            self.broken.append(f"{' and '.join(hanging)} did not return within {self.runs.patience:g} s")

    def _thread(self, number: int, events: tuple[str, ...], turns: Turns | None, barrier: threading.Barrier) -> None:
        barrier.wait()
        with turns.taken(number) if turns else nullcontext():
            self._done(events, number)

    def _done(self, events: tuple[str, ...], thread: int = 0) -> None:
        """Do *events*, one after the other, until the SUT breaks."""
        for event in events:
            if not self._one(event, thread):
                return

    def _one(self, event: str, thread: int) -> bool:
        """Do *event*, and record it; false if the SUT broke."""
        number = next(self._numbers)
        asked = Operation(called=time.monotonic_ns(), returned=None, event=event, thread=thread)
        self._operations[number] = asked
        where = f"{event} in thread {thread}" if thread else event
        try:
            reply = self.runs.sut.do(event)
        except UnsupportedError:
            del self._operations[number]
            return True
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an error of the SUT is a finding
            self.broken.append(f"{where} raised {type(error).__name__}: {error}")
            return False
        returned = time.monotonic_ns()
        call = self.runs.machine.events[event].kind == "call"
        self._operations[number] = replace(asked, returned=returned, reply=reply if call else "")
        if call and not reply:
            self.broken.append(f"{where} has no reply: a call replies ok or an error code")
        return not call or bool(reply)


@contextmanager
def _switching() -> Iterator[None]:
    """Make threads take turns much more often than by default."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
