"""Run a test in several threads and judge the recorded history.

A SUT may judge itself. Its violations then replace the verdict on the history. A violation is not a race if it also
occurs when the same operations run one after another, or if the tests with a single thread have already found it.
"""

from __future__ import annotations

import math
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count, product, repeat
from typing import Final, Protocol, TypeAlias, runtime_checkable

from fsm.conformance.failure import raised
from fsm.conformance.turns import Turns
from fsm.linearizability import Linearizability, Linearizable, linearize
from fsm.linearizability.history import History, Operation
from fsm.machine import Machine
from fsm.machine.findings import Violation
from fsm.machine.table import tabulate
from fsm.sut import SUT, BrokenError, Emitting, UnsupportedError
from fsm.trace import shown_text

SWITCH: Final = 1e-5  # the interpreter's switch interval while threads run, in seconds

RaceKind: TypeAlias = tuple[object, ...]

PATIENCE: Final = 10.0  # number of seconds after which a thread that has not returned counts as hanging


@dataclass(frozen=True, slots=True, kw_only=True)
class Programme:
    """The events of a test.

    The events in ``before`` happen one by one, then the events of all ``threads``, and then the events in ``after``.
    """

    before: tuple[str, ...] = ()
    threads: tuple[tuple[str, ...], ...] = ()
    after: tuple[str, ...] = ()

    def smaller(self) -> Iterator[Programme]:
        for number, thread in enumerate(self.threads):
            if len(thread) > 1:
                yield replace(self, threads=self.threads[:number] + self.threads[number + 1 :])
        parts = [self.before, *self.threads, self.after]
        for number, part in enumerate(parts):
            for at in range(len(part)):
                left = [*parts[:number], part[:at] + part[at + 1 :], *parts[number + 1 :]]
                yield Programme(before=left[0], threads=tuple(filter(None, left[1:-1])), after=left[-1])


Try: TypeAlias = tuple[Programme, int]
"""A programme, and the number of the run. The number decides whether threads take turns, and when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """The events that the SUT sent, timed by the monotonic clock, and a map from suffixes of its files to contents."""

    told: tuple[Operation, ...]
    files: Mapping[str, bytes]


@runtime_checkable
class RaceJudging(Protocol):
    """A SUT that judges its own races.

    Tests begin with the events in ``before``. Threads may also make the calls in ``beside``.
    """

    before: Sequence[str]
    beside: Sequence[str]

    def race_violations(self) -> Sequence[Violation]:
        """Return the violations since the last reset, which all have different causes."""

    def witness(self) -> Witness:
        """Return the evidence that was gathered since the last reset."""

    def mended(self) -> bool:
        """Return whether testing can continue after a :class:`BrokenError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """A test whose history is not legal.

    The reason is in ``verdict``. If the run could not be judged, the reason is in ``broken`` instead; if the SUT judges
    itself, the reason is in ``violation``. If the test was run again, ``repeated`` holds the numbers of races and runs.
    """

    programme: Programme
    history: History
    verdict: Linearizability | None
    broken: str = ""
    violation: Violation | None = None
    witness: Witness | None = None
    repeated: tuple[int, int] | None = None

    @property
    def kind(self) -> RaceKind:
        """A key that is equal for races with the same cause. It is empty unless the SUT judges itself."""
        if self.witness is None:
            return ()
        return ("broken",) if self.violation is None else kind_of(self.violation)


def kind_of(violation: Violation) -> RaceKind:
    event = violation.observation.event or violation.observation.output
    return violation.machine, violation.cause, violation.clause.name, event


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSearch:
    """The races that a search found. ``cut`` is true if it ended early, because time ran out or the SUT was gone."""

    found: tuple[Race, ...]
    programmes: int
    runs: int
    events: int
    cut: bool
    gone: bool = False

    @property
    def race(self) -> Race | None:
        return self.found[0] if self.found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The timing of tests on a remote SUT.

    Threads wait up to ``delay`` seconds before a call. The search for races lasts up to ``seconds`` seconds, and so
    does the shrinking of each race.
    """

    delay: float
    seconds: float


@dataclass(kw_only=True)
class Runs:
    """Runs programmes on one SUT.

    If ``wanted`` is set, only violations of that kind count as races; else all violations count, except those whose
    kind is in ``known``. ``lines`` is false if the SUT runs no Python code, so that threads cannot take turns line by
    line. ``stuck`` becomes true when threads hang, and ``cut`` becomes true when runs are skipped because time has run
    out or the SUT is gone.
    """

    machine: Machine
    sut: SUT
    patience: float
    pace: Pace | None
    chance: int = 0
    stuck: bool = False
    gone: bool = False
    cut: bool = False
    lines: bool = True
    known: set[RaceKind] = field(default_factory=set)
    wanted: RaceKind | None = None
    done: Counter[Programme] = field(default_factory=Counter)
    _until: float = math.inf

    def allow(self, share: float) -> None:
        if self.pace is not None:
            self._until = time.monotonic() + share * self.pace.seconds

    def races(self, tries: Iterable[Try]) -> Iterator[Race]:
        """Yield the races in *tries* until threads hang, the SUT is gone, or time runs out."""
        for programme, number in tries:
            if self.stuck or self.gone or time.monotonic() > self._until:
                self.cut |= not self.stuck
                return
            self.done[programme] += 1
            if (race := self._run_once(programme, number)) is not None:
                yield race

    def hunt(self, tries: Iterable[Try], most: int) -> list[Race]:
        """Return races that need threads, but no more than *most*. If the SUT judges itself, their kinds differ."""
        found: list[Race] = []
        for race in self.races(tries):
            if self.needs_threads(race):
                found.append(race)
            self.known.add(race.kind)
            if self.gone or len(found) >= most:
                break
        return found

    def repeated(self, programmes: Iterable[Programme], repeats: int) -> Iterator[Try]:
        """Try each programme *repeats* times. A remote SUT tries all of them in each round, because time is limited."""
        if self.pace is None:
            return product(programmes, range(repeats))
        return ((programme, number) for number, programme in product(range(repeats), programmes))

    def _run_once(self, programme: Programme, number: int) -> Race | None:
        run = _Run(runs=self, programme=programme, turns=self.lines and not self.pace and (number + 1) % 3 != 0)
        run.all(random.Random(f"{self.chance} {number}" if self.pace else number))  # noqa: S311 - no secret
        race = Race(programme=programme, history=run.history(), verdict=None, broken="".join(run.broken[:1]))
        if isinstance(self.sut, RaceJudging):
            return self._judge_race(self.sut, race)
        if run.broken:
            return race
        answer = linearize(self.machine, race.history)
        return None if isinstance(answer, Linearizable) else replace(race, verdict=answer)

    def _judge_race(self, sut: RaceJudging, race: Race) -> Race | None:
        found: Sequence[Violation] = ()
        try:
            found = () if race.broken else sut.race_violations()
        except BrokenError as error:
            race = replace(race, broken=f"afterwards {error}")
        race = replace(race, witness=sut.witness())
        if race.broken:
            self.gone = not self.stuck and not sut.mended()
            return race if self._is_new(race.kind) else None
        races = (replace(race, violation=each) for each in found)
        return next((each for each in races if self._is_new(each.kind)), None)

    def _is_new(self, kind: RaceKind) -> bool:
        return kind not in self.known if self.wanted is None else kind == self.wanted

    def needs_threads(self, race: Race) -> bool:
        """Check that *race* does not recur if its events run one by one, in the order of their calls or returns."""
        if race.witness is None or self.stuck or self.gone:
            return True
        concurrent = [operation for operation in race.history.operations if operation.thread]
        by_call = sorted(concurrent, key=lambda each: each.called)
        by_reply = sorted(concurrent, key=lambda each: math.inf if each.returned is None else each.returned)
        before, after = race.programme.before, race.programme.after
        orders = dict.fromkeys(tuple(each.event for each in order) for order in (by_call, by_reply))
        alone = (self._run_once(Programme(before=(*before, *order, *after)), 0) for order in orders)
        return all(other is None or other.kind != race.kind for other in alone)

    def shrink(self, race: Race, repeats: int) -> Race:
        self.wanted = race.kind or None
        smaller: Race | None = race
        while smaller is not None:
            race = smaller
            programmes = dict.fromkeys(race.programme.smaller())
            smaller = next(self.races(self.repeated(programmes, repeats)), None)
        return race


@dataclass(kw_only=True)
class _Run:
    runs: Runs
    programme: Programme
    turns: bool
    broken: list[str] = field(default_factory=list)
    _operations: dict[int, Operation] = field(default_factory=dict)
    _outputs: tuple[str, ...] | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    def history(self) -> History:
        outputs = {} if self._outputs is None else {"": self._outputs}
        return History(operations=tuple(self._operations.values()), outputs=outputs)

    def all(self, chance: random.Random) -> None:
        try:
            self.runs.sut.reset()
            if isinstance(self.runs.sut, Emitting):
                self.runs.sut.outputs()
            if self._do_all(self.programme.before) and self._run_threads(chance) and self._do_all(self.programme.after):
                self._look()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an error of the SUT is a finding
            self.broken.append(f"the SUT {raised(error)}")

    def _look(self) -> None:
        if isinstance(self.runs.sut, RaceJudging):
            return  # Such a SUT judges its own state.
        called = time.monotonic_ns()
        shows = shown_text(self.runs.sut.shows())
        if shows:
            self._operations[next(self._numbers)] = Operation(called=called, returned=time.monotonic_ns(), shows=shows)
        if shows and not tabulate(self.runs.machine).is_known(shows):
            self.broken.append(f"the SUT shows {shows!r}, which no state shows")
        if isinstance(self.runs.sut, Emitting):
            seen = self.runs.sut.outputs()
            self._outputs = None if seen is None else tuple(seen)

    def _run_threads(self, chance: random.Random) -> bool:
        threads = self.programme.threads
        if not threads:
            return True
        barrier = threading.Barrier(len(threads))
        turns = Turns(len(threads), chance) if self.turns else None
        pace = self.runs.pace
        waits = [[chance.choice((0, chance.random())) * pace.delay if pace else 0 for _ in each] for each in threads]

        def run(number: int) -> None:
            barrier.wait()
            with turns.taken(number) if turns else nullcontext():
                self._do_all(threads[number - 1], number, waits[number - 1])

        running = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(1, len(threads) + 1)]
        with nullcontext() if pace else _fast_thread_switches():
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
        return not self.broken

    def _do_all(self, events: tuple[str, ...], thread: int = 0, waits: Iterable[float] = repeat(0)) -> bool:
        return all(self._do(event, thread, wait) for event, wait in zip(events, waits, strict=False))

    def _do(self, event: str, thread: int, wait: float) -> bool:
        if wait:
            time.sleep(wait)
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
            self.broken.append(f"{where} {raised(error)}")
            return False
        returned = time.monotonic_ns()
        known = self.runs.machine.events.get(event)
        call = known is None or known.kind == "call"
        self._operations[number] = replace(asked, returned=returned, reply=reply if call else "")
        if reply or not call:
            return True
        self.broken.append(f"{where} has no reply, but a call must reply ok or an error code")
        return False


@contextmanager
def _fast_thread_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
