"""The runs of a machine that look like what a SUT did, and how far each is in breaking a property.

A *place* is a state, and what the property remembers of a run that leads
there.  What was seen may be explained by several runs; all of them are
followed.  Where the machine does not speak (it is silent, the reply tells
nothing, a call has ended where others had taken the entity) the run goes on,
and the property begins anew.  Where no run explains what was seen the
implementation has *left* the machine: then it may have gone to every state
that shows what was read, and did there what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fsm.checker.instants import machine_table
from fsm.conformance.plan import IDLE, Plan
from fsm.machine.calls.endings import finals
from fsm.machine.graph import explore
from fsm.machine.table import Way
from fsm.property_monitor.automata import Broken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fsm.checker.instants import InstantStep, Successors
    from fsm.machine.table import Table
    from fsm.property_monitor.automata import Memory, Progress
    from fsm.sut import Response, Stimulus

NOWHERE = "?"
"""The state of an implementation that shows what no state shows."""


class Place(NamedTuple):
    """A state, and how far the run is; ``None`` while it is where the property says nothing."""

    state: int
    progress: Progress | Broken | None


class Trail(NamedTuple):
    """How a run came ``to`` a place: its last step, from where, and in which step of the test that was."""

    before: Trail | None
    source: Place
    moved: InstantStep
    to: Place
    number: int


Trails: TypeAlias = "dict[Place, Trail | None]"


def widened(table: Table) -> Table:
    """*table* with one state more, which is none of the machine's, and in which nothing can happen."""
    size = len(table.states)
    cells = tuple(cell for row in table.rows for cell in (*table.cells[row.index * size : (row.index + 1) * size], ()))
    return replace(table, states=(*table.states, NOWHERE), shows=(*table.shows, NOWHERE), cells=cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliving:
    """Follows runs of the machine of ``steps``, a table that is :func:`widened`.

    ``unseen`` are the rows of events that may have happened between the
    steps of a test, where what was seen cannot be explained without;
    ``reached`` the states that can be, ``resting`` those with no call in progress.
    """

    steps: Successors
    memory: Memory
    unseen: tuple[int, ...]
    reached: frozenset[int]
    resting: frozenset[int]

    @property
    def table(self) -> Table:
        """The machine's."""
        return machine_table(self.steps.table)

    def beginning(self) -> Trails:
        """Where a test begins."""
        return {Place(self.table.initial, self.memory.start): None}

    def after(
        self, before: Mapping[Place, Trail | None], step: Stimulus, seen: Response, number: int, *, busy: bool
    ) -> tuple[Trails, bool]:
        """Where the runs are after *step*, the *number*-th of the test, too; and whether any of them explains it.

        ``busy`` says that a call is left in progress.
        """
        for places in (before, self._closed(dict(before), number)) if self.unseen else (before,):
            told = (each for place, trail in places.items() for each in self._told(place, trail, step, seen, number))
            if found := _first(told):
                return found, True
        return _first(
            each for place, trail in before.items() for each in self._left(place, trail, step, seen, number, busy=busy)
        ), False

    def _closed(self, trails: Trails, number: int) -> Trails:
        """*trails*, and those on which something has happened that nobody saw."""
        todo = list(trails)
        while todo:
            place = todo.pop(0)
            for row in self.unseen:
                ways = self.table.step(place.state, row)
                if ways is None:
                    new = [self._beside(place, trails[place], row, to, number) for to in self._known("")]
                else:
                    new = [self._went(place, trails[place], row, way, number) for way in ways]
                for to, trail in new:
                    if to not in trails:
                        trails[to] = trail
                        todo.append(to)
        return trails

    # -- one step ----------------------------------------------------------

    def _went(
        self, place: Place, trail: Trail | None, row: int, way: Way, number: int, *, reply: str = "", shows: str = ""
    ) -> tuple[Place, Trail]:
        moved = self.steps.step(place.state, row, way, reply)
        match place.progress:
            case Broken():
                progress: Progress | Broken | None = place.progress
            case None:
                progress = self._anew(way.to)
            case _:
                progress = self.memory.after(place.progress, moved, shows)
        to = Place(way.to, progress)
        return to, Trail(trail, place, moved, to, number)

    def _beside(
        self,
        place: Place,
        trail: Trail | None,
        row: int,
        to: int,
        number: int,
        *,
        seen: Response | None = None,
    ) -> tuple[Place, Trail]:
        """A step of which the machine says nothing: unless the property speaks of it too, it begins anew."""
        way = self._unsaid(to, seen)
        shows = seen.shows if seen else ""
        if self.memory.everywhere:
            return self._went(place, trail, row, way, number, reply=(seen.reply if seen else "") or "", shows=shows)
        moved = self.steps.step(place.state, row, way, (seen.reply if seen else "") or "")
        progress = place.progress if isinstance(place.progress, Broken) else self._anew(to)
        there = Place(to, progress)
        return there, Trail(trail, place, moved, there, number)

    def _anew(self, state: int) -> Progress | None:
        return self.memory.anew if state in self.reached else None

    def _unsaid(self, to: int, seen: Response | None, *, begins: bool = False, emits: tuple[str, ...] = ()) -> Way:
        """A way that the machine does not have."""
        reply = (seen.reply,) if seen and seen.reply else ()
        begins = begins or bool(seen and seen.reply is None)
        name = "begins" if begins else "unspecified"
        emits = emits or (seen.outputs if seen and seen.outputs else ())
        return Way(index=-1, name=name, to=to, reply=reply, emits=emits, begins=begins, deviation=None)

    # -- what the machine tells --------------------------------------------

    def _told(
        self, place: Place, trail: Trail | None, step: Stimulus, seen: Response, number: int
    ) -> Iterator[tuple[Place, Trail]]:
        table = self.table
        row = table.row[step.event]
        if step.stage == "end":
            row = table.end.get(row, row)
            if (row, place.state) in table.begun:
                yield from self._stages(place, trail, row, step, seen, number)
        else:
            yield from self._stages(place, trail, row, step, seen, number)
        for to in sorted(self._untold(place.state, row, step, seen)):
            yield self._beside(place, trail, row, to, number, seen=seen)

    def _stages(
        self, place: Place, trail: Trail | None, row: int, step: Stimulus, seen: Response, number: int
    ) -> Iterator[tuple[Place, Trail]]:
        """Every way from *row* on, through all stages of a call that was made from beginning to end."""
        table = self.table
        todo: list[tuple[Place, Trail | None, int]] = [(place, trail, row)]
        known = {(place, row)}
        while todo:
            here, came, at = todo.pop(0)
            for way in table.step(here.state, at) or ():
                if not way.begins:
                    if self._fits(way, seen):
                        yield self._went(here, came, at, way, number, reply=self._reply(step, seen), shows=seen.shows)
                elif step.stage != "do":
                    if self._fits(way, seen):
                        yield self._went(here, came, at, way, number, shows=seen.shows)
                else:
                    to, went = self._went(here, came, at, way, number)
                    end = table.end.get(at, at)
                    if (to, end) not in known:
                        known.add((to, end))
                        todo.append((to, went, end))

    def _reply(self, step: Stimulus, seen: Response) -> str:
        return (seen.reply or "") if self.table.machine.events[step.event].kind == "call" else ""

    def _fits(self, way: Way, seen: Response) -> bool:
        if way.begins:
            replied = seen.reply is None
        else:
            replied = seen.reply is not None and (not way.reply or way.replies(seen.reply))
        return replied and seen.outputs in {None, way.emits} and self._shown(way.to, seen.shows)

    def _shown(self, state: int, shows: str) -> bool:
        return not shows or self.table.shows[state] == shows

    def _untold(self, state: int, row: int, step: Stimulus, seen: Response) -> set[int]:
        """Where a step may lead of which the machine does not speak."""
        table = self.table
        ways = table.step(state, row)
        if ways is None:
            return set(self._known(seen.shows))
        found: set[int] = set()
        if step.stage == "end" and (row, state) not in table.begun:
            found |= {way.to for way in ways if self._fits(way, seen)}
            if not ways:  # others have taken the entity away: nothing is specified of how the call ends
                found.add(state)
        if seen.reply and seen.reply in table.machine.indefinite:
            ended = ways if step.stage == "end" else finals(table, state, row) or ()
            found |= {state, *(way.to for way in ended if seen.outputs in {None, way.emits})}
        return {to for to in found if self._shown(to, seen.shows)}

    def _known(self, shows: str) -> list[int]:
        """Every state of the machine that shows *shows*."""
        return [state for state in range(len(self.table.states) - 1) if self._shown(state, shows)]

    # -- what it does not --------------------------------------------------

    def _left(
        self, place: Place, trail: Trail | None, step: Stimulus, seen: Response, number: int, *, busy: bool
    ) -> Iterator[tuple[Place, Trail]]:
        """What was seen, from *place* to wherever it may have led: the machine does not do this."""
        table = self.table
        row = table.row[step.event]
        ways = table.step(place.state, row) or ()
        begun = {way.to for way in ways if way.begins} if step.stage == "do" else set()
        starts: list[tuple[Place, Trail | None, int]] = []
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


def _first(found: Iterable[tuple[Place, Trail]]) -> Trails:
    """The places that were *found*, with the trail that each was found by first."""
    trails: Trails = {}
    for place, trail in found:
        trails.setdefault(place, trail)
    return trails


def relive(steps: Successors, memory: Memory, unseen: tuple[int, ...]) -> Reliving:
    """The runs of the machine of *steps*, as *memory* remembers them."""
    points = {edge.target for edge in Plan(table=machine_table(steps.table)).edges if edge.target}
    return Reliving(
        steps=steps,
        memory=memory,
        unseen=unseen,
        reached=frozenset(explore(steps.table).depth),
        resting=frozenset({steps.table.initial, *(point.state for point in points if point.call == IDLE)}),
    )
