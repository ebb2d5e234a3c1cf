"""The runs of a machine that look like what a SUT did, and how far each is in breaking a property.

A *place* is a state, and what the property remembers of a run that leads
there.  What was seen may be explained by several runs; all of them are
followed.  Where the machine does not speak (it is silent, the reply tells
nothing, a call has ended where others had taken the entity) the run goes on,
and the property starts again.  Where no run explains what was seen the
implementation has *left* the machine: then it may have gone to every state
that shows what was read, and did there what was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from fsm.checker.instants import InstantStep, Successors, machine_table
from fsm.machine.calls.endings import finals
from fsm.machine.calls.rules import ASKED, BEGUN, CUT, Rules
from fsm.machine.graph import explore
from fsm.machine.table import Table, Way
from fsm.machine.traversal import closure
from fsm.property_monitor.automata import Broken, Progress, PropertyMemory
from fsm.sut import Response, Stimulus

NOWHERE = "?"
"""The state of an implementation that shows what no state shows."""


class RunPlace(NamedTuple):
    """A state, and how far the run is; ``None`` while it is where the property says nothing."""

    state: int
    progress: Progress | Broken | None


class RunTrail(NamedTuple):
    """How a run came ``to`` a place: its last step, from where, and in which step of the test that was."""

    before: RunTrail | None
    source: RunPlace
    moved: InstantStep
    to: RunPlace
    number: int


class _Open(NamedTuple):
    """A run in the middle of a step: where it is, how far the call is, what has been emitted since the step began."""

    place: RunPlace
    trail: RunTrail | None
    stage: int
    emitted: tuple[str, ...] = ()


class _Went(NamedTuple):
    """What may happen in a step: a way of ``row``, ``None`` if it is unspecified; how far the call is and what came out by then."""

    row: int
    to: int
    way: Way | None
    stage: int
    emitted: tuple[str, ...]
    reply: str


OVER: Final = -8
"""The step has had its reply; it is only to be shown where it has led."""
SHOWN: Final = -9
"""That was shown, too; the outputs are still to be taken."""

Trails: TypeAlias = "dict[RunPlace, RunTrail | None]"

TestStep: TypeAlias = "tuple[Stimulus, Response, bool]"
"""A step, what was seen, and whether a call is left in progress."""


def widened(table: Table) -> Table:
    """*table* with one state more, which is none of the machine's, and in which nothing can happen."""
    size = len(table.states)
    cells = tuple(cell for row in table.rows for cell in (*table.cells[row.index * size : (row.index + 1) * size], ()))
    return replace(table, states=(*table.states, NOWHERE), shows=(*table.shows, NOWHERE), cells=cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTracker:
    """Follows runs of the machine of ``steps``, a table that is :func:`widened`.

    ``unseen`` are the rows of events that may have happened between the
    steps of a test, where what was seen cannot be explained without;
    ``reached`` the states that can be, ``resting`` those with no call in progress.
    ``known`` has steps that were taken before, by place, row, way, reply and what was shown.
    """

    steps: Successors
    rules: Rules
    memory: PropertyMemory
    unseen: tuple[int, ...]
    reached: frozenset[int]
    resting: frozenset[int]
    known: dict[tuple[RunPlace, int, int, str, str], tuple[InstantStep, RunPlace]] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        return machine_table(self.steps.table)

    def beginning(self) -> Trails:
        """Where a test begins."""
        return {RunPlace(self.table.initial, self.memory.start): None}

    def after(
        self, before: Mapping[RunPlace, RunTrail | None], step: Stimulus, seen: Response, number: int, *, busy: bool
    ) -> tuple[Trails, bool]:
        """Where the runs are after *step*, the *number*-th of the test, too; and whether any of them explains it.

        ``busy`` says that a call is left in progress.
        """
        for hidden in (False, True) if self.unseen else (False,):
            if found := _first(self._explained(before, step, seen, number, hidden=hidden)):
                return found, True
        return _first(
            each for place, trail in before.items() for each in self._left(place, trail, step, seen, number, busy=busy)
        ), False

    def explaining(self, test: Sequence[TestStep]) -> Trails:
        """Where the runs are that explain all of *test*, whatever happened unseen; nothing if none does."""
        trails = self.beginning()
        for number, (step, seen, _) in enumerate(test, 1):
            trails = _first(self._explained(trails, step, seen, number, hidden=True))
        return trails

    def along(self, test: Sequence[TestStep]) -> tuple[Trails, bool]:
        """Where the runs are after *test*, and whether any of them explains it.

        Of those that explain it, these are the runs in which nothing happens unseen
        before the step that cannot be explained without, unless only others are left.
        """
        trails, explained = self.beginning(), True
        for number, (step, seen, busy) in enumerate(test, 1):
            trails, tracked = self.after(trails, step, seen, number, busy=busy)
            if explained and not tracked:
                whole = self.explaining(test[:number])
                trails, explained = whole or trails, bool(whole)
        return trails, explained

    def _went(
        self,
        place: RunPlace,
        trail: RunTrail | None,
        row: int,
        way: Way,
        number: int,
        *,
        reply: str = "",
        shows: str = "",
    ) -> tuple[RunPlace, RunTrail]:
        key = (place, row, way.index, reply, shows)
        found = self.known.get(key) if way.index >= 0 else None
        if found is None:
            moved = self.steps.step(place.state, row, way, reply)
            progress = advanced(self.memory, self.reached, place.progress, moved, shows)
            found = moved, RunPlace(way.to, progress)
            if way.index >= 0:
                self.known[key] = found
        moved, to = found
        return to, RunTrail(trail, place, moved, to, number)

    def _beside(
        self,
        place: RunPlace,
        trail: RunTrail | None,
        row: int,
        to: int,
        number: int,
        *,
        seen: Response | None = None,
    ) -> tuple[RunPlace, RunTrail]:
        """A step of which the machine says nothing: unless the property speaks of it too, it starts again."""
        way = self._unsaid(to, seen)
        shows = seen.shows if seen else ""
        if self.memory.everywhere:
            return self._went(place, trail, row, way, number, reply=(seen.reply if seen else "") or "", shows=shows)
        moved = self.steps.step(place.state, row, way, (seen.reply if seen else "") or "")
        progress = place.progress if isinstance(place.progress, Broken) else self._restarted(to)
        there = RunPlace(to, progress)
        return there, RunTrail(trail, place, moved, there, number)

    def _restarted(self, state: int) -> Progress | None:
        return self.memory.restarted if state in self.reached else None

    def _unsaid(self, to: int, seen: Response | None, *, begins: bool = False, emits: tuple[str, ...] = ()) -> Way:
        """A way that the machine does not have."""
        reply = (seen.reply,) if seen and seen.reply else ()
        begins = begins or bool(seen and seen.reply is None)
        name = "begins" if begins else "unspecified"
        emits = emits or (seen.outputs if seen and seen.outputs else ())
        return Way(index=-1, name=name, to=to, reply=reply, emits=emits, begins=begins, deviation=None)

    def _explained(
        self, before: Mapping[RunPlace, RunTrail | None], step: Stimulus, seen: Response, number: int, *, hidden: bool
    ) -> Iterator[tuple[RunPlace, RunTrail]]:
        """Every run on which *step* gave what was *seen*; if *hidden*, unobservable events may happen meanwhile."""
        first = BEGUN if step.stage == "end" else ASKED
        todo = [_Open(place, trail, first) for place, trail in before.items()]
        known = {(here.place, here.stage, here.emitted) for here in todo}
        for here in todo:  # which grow meanwhile
            for went in (*self._unspecified(here, step, seen), *self._next(here, step, seen, hidden=hidden)):
                if went.emitted != (seen.outputs or ())[: len(went.emitted)]:
                    continue
                looks = went.stage == OVER and self._shown(went.to, seen.shows)
                for far in (SHOWN, OVER) if looks and seen.shows else (SHOWN if looks else went.stage,):
                    shows = seen.shows if looks and far == SHOWN else ""
                    to, trail = self._passed(here, went, number, seen, shows)
                    if far == SHOWN and seen.outputs in {None, went.emitted}:
                        yield to, trail
                    if (to, far, went.emitted) not in known:
                        known.add((to, far, went.emitted))
                        todo.append(_Open(to, trail, far, went.emitted))

    def _row(self, step: Stimulus, stage: int) -> int:
        """The row of the call of *step*, or that of its ends once it has begun."""
        row = self.table.row[step.event]
        return self.table.end.get(row, row) if stage == BEGUN else row

    def _next(self, here: _Open, step: Stimulus, seen: Response, *, hidden: bool) -> Iterator[_Went]:
        row = self._row(step, here.stage)
        goes_on = here.stage == ASKED or (row, here.place.state) in self.table.begun
        for instant in self.rules.instants(here.place.state, self.table.row[step.event], here.stage) if goes_on else ():
            if instant.way is None:
                continue
            emitted = self._emitted_by(here, instant.way, seen)
            if instant.stage == BEGUN and seen.reply is not None:
                yield _Went(row, instant.to, instant.way, BEGUN, emitted, "")
            elif self._replies(instant.way, seen):
                reply = "" if instant.stage == BEGUN else self._reply(step, seen)
                yield _Went(row, instant.to, instant.way, OVER, emitted, reply)
        for unseen in self.unseen if hidden else ():
            stage = CUT if here.stage == BEGUN and self.rules.interrupts(unseen) else here.stage
            for instant in self.rules.instants(here.place.state, unseen):
                if instant.to < len(self.table.states) - 1:
                    emitted = self._emitted_by(here, instant.way, seen)
                    yield _Went(unseen, instant.to, instant.way, stage, emitted, "")

    def _emitted_by(self, here: _Open, way: Way | None, seen: Response) -> tuple[str, ...]:
        """The outputs of the step so far, *way* included; none are counted where they are not seen."""
        return here.emitted + way.emits if way is not None and seen.outputs is not None else here.emitted

    def _passed(self, here: _Open, went: _Went, number: int, seen: Response, shows: str) -> tuple[RunPlace, RunTrail]:
        if went.way is None:
            of = None if went.row in self.unseen else seen
            return self._beside(here.place, here.trail, went.row, went.to, number, seen=of)
        return self._went(here.place, here.trail, went.row, went.way, number, reply=went.reply, shows=shows)

    def _reply(self, step: Stimulus, seen: Response) -> str:
        return (seen.reply or "") if self.table.machine.events[step.event].kind == "call" else ""

    def _replies(self, way: Way, seen: Response) -> bool:
        """Whether what was *seen* is said definitely by *way*."""
        if way.begins or seen.reply is None:
            return way.begins and seen.reply is None
        return not way.reply or way.replies(seen.reply)

    def _shown(self, state: int, shows: str) -> bool:
        return not shows or self.table.shows[state] == shows

    def _unspecified(self, here: _Open, step: Stimulus, seen: Response) -> Iterator[_Went]:
        """How a step may go of which the machine says nothing, or whose reply says nothing of it."""
        table, state = self.table, here.place.state
        if here.stage in {OVER, SHOWN}:
            return
        row = self._row(step, here.stage)
        ways = () if here.stage == CUT else table.step(state, row)
        displaced = here.stage == BEGUN and (row, state) not in table.begun
        if ways is None or (displaced and not ways):
            for to in (state,) if ways is not None else range(len(table.states) - 1):
                for end in range(len(here.emitted), len(seen.outputs or ()) + 1):
                    yield _Went(row, to, None, OVER, (seen.outputs or ())[:end], "")
            return
        indefinite = bool(seen.reply) and self.rules.indefinite(seen.reply or "")
        for way in ways:
            if (displaced and self._replies(way, seen)) or (indefinite and not way.begins):
                yield _Went(row, way.to, None, OVER, self._emitted_by(here, way, seen), "")
        # It may not have acted; one that was left in progress may have been cut off before this step.
        cut = step.stage == "end" and any(map(self.rules.interrupts, self.unseen))
        if indefinite and (here.stage != BEGUN or cut):
            yield _Went(row, state, None, OVER, here.emitted, "")

    def _known(self, shows: str) -> list[int]:
        """Every state of the machine that shows *shows*."""
        return [state for state in range(len(self.table.states) - 1) if self._shown(state, shows)]

    def _left(
        self, place: RunPlace, trail: RunTrail | None, step: Stimulus, seen: Response, number: int, *, busy: bool
    ) -> Iterator[tuple[RunPlace, RunTrail]]:
        """What was seen, from *place* to wherever it may have led: the machine does not do this."""
        table = self.table
        row = table.row[step.event]
        ways = table.step(place.state, row) or ()
        begun = {way.to for way in ways if way.begins} if step.stage == "do" else set()
        starts: list[tuple[RunPlace, RunTrail | None, int]] = []
        if step.stage == "end":
            starts.append((place, trail, table.end.get(row, row)))
        elif not begun or not all(way.begins for way in ways):
            starts.append((place, trail, row))
        for state in sorted(begun):
            way = self._unsaid(state, None, begins=True)
            to, went = self._went(place, trail, row, way, number)
            starts.append((to, went, table.end[row]))
        reply = self._reply(step, seen)
        for here, came, at in starts:
            for emits in self._emitted(at, seen):
                for state in self._somewhere(step, seen, busy=busy):
                    way = self._unsaid(state, seen, emits=emits)
                    yield self._went(here, came, at, way, number, reply=reply, shows=seen.shows)

    def _emitted(self, row: int, seen: Response) -> list[tuple[str, ...]]:
        """What may have come out: what was seen, or else anything that this event ever emits."""
        if seen.outputs is not None:
            return [seen.outputs]
        ways = (way for state in range(len(self.table.states)) for way in self.table.step(state, row) or ())
        return [*dict.fromkeys(((), *(way.emits for way in ways)))]

    def _somewhere(self, step: Stimulus, seen: Response, *, busy: bool) -> list[int]:
        """Where an implementation may be that shows this: with the call in progress, or with none, if it can be."""
        known = self._known(seen.shows)
        reached = [state for state in known if state in self.reached]
        end = self.table.end.get(self.table.row[step.event])
        if seen.reply is None:
            likely = [state for state in reached if (end, state) in self.table.begun]
        else:
            likely = reached if busy else [state for state in reached if state in self.resting]
        return likely or reached or known or [len(self.table.states) - 1]


def _first(found: Iterable[tuple[RunPlace, RunTrail]]) -> Trails:
    """The places that were *found*, with the trail that each was found by first."""
    trails: Trails = {}
    for place, trail in found:
        trails.setdefault(place, trail)
    return trails


def advanced(
    memory: PropertyMemory,
    reached: frozenset[int],
    progress: Progress | Broken | None,
    step: InstantStep,
    shows: str = "",
) -> Progress | Broken | None:
    """How far a run is after *step*; in states that are not *reached* a property says nothing."""
    match progress:
        case Broken():
            return progress
        case None:
            return memory.restarted if step.way.to in reached else None
        case _:
            return memory.after(progress, step, shows)


def run_tracker(steps: Successors, memory: PropertyMemory, unseen: tuple[int, ...]) -> RunTracker:
    """The runs of the machine of *steps*, as *memory* remembers them."""
    table = machine_table(steps.table)
    return RunTracker(
        steps=steps,
        rules=Rules(table),
        memory=memory,
        unseen=unseen,
        reached=frozenset(explore(steps.table).depth),
        resting=_resting(table),
    )


def _resting(table: Table) -> frozenset[int]:
    """The states that can be reached with no call in progress, at most one having been left so at a time."""

    def after(here: tuple[int, int | None]) -> Iterator[tuple[int, int | None]]:
        state, call = here
        for row in table.rows:
            if not row.ends:
                left = None if row.event.interrupts else call
                yield from ((way.to, left) for way in finals(table, state, row.index) or ())
                if call is None:
                    yield from ((way.to, row.index) for way in table.step(state, row.index) or () if way.begins)
        if call is not None:
            yield from ((way.to, call if way.begins else None) for way in table.step(state, table.end[call]) or ())

    start: tuple[int, int | None] = (table.initial, None)
    return frozenset(state for state, call in closure([start], after) if call is None)
