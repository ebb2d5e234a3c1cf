"""Observations of a machine between *moments*, which are states together with the calls in progress."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from fsm.machine import ANY_ERROR
from fsm.machine.calls import ASKED, BEGUN, Rules
from fsm.machine.evidence import Observable, Run, RunStep, run_step
from fsm.machine.table import Row, Table, Way
from fsm.machine.traversal import BreadthFirst

OVERLAP: Final = 2
"""Maximum number of calls in progress at once."""
NOWHERE = -1
"""A special state after which nothing is specified."""


class Moment(NamedTuple):
    """A state and the rows of the calls in progress."""

    state: int
    calls: tuple[int, ...] = ()


class ObservedStep(NamedTuple):
    """A step to another moment.  It is observed as any one of ``seen``, or hidden if ``seen`` is empty."""

    seen: tuple[Observable, ...]
    to: Moment
    row: int
    way: Way | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """One machine, observed under names that it shares with another.

    ``names`` maps each event to its shared name.  ``codes`` maps shared names to the error codes that are
    distinguished, with ``error`` standing for all others.  ``indefinite`` holds the replies that leave open whether the
    call took effect.
    """

    rules: Rules
    names: Mapping[str, str]
    codes: Mapping[str, tuple[str, ...]]
    indefinite: tuple[str, ...]

    @property
    def table(self) -> Table:
        return self.rules.table

    @property
    def initial(self) -> Moment:
        return Moment(self.table.initial)

    def shows(self, at: Moment) -> tuple[Observable, ...]:
        return () if at.state == NOWHERE else (Observable(shows=self.table.shows[at.state]),)

    def steps(self, at: Moment) -> Iterator[ObservedStep]:
        if at.state == NOWHERE:
            return
        for row in self.table.rows:
            call = self.table.row[row.event.name]
            if row.ends:
                if call in at.calls:
                    others = list(at.calls)
                    others.remove(call)
                    yield from self._goes_on(at, row, BEGUN, tuple(others))
            else:
                yield from self._goes_on(at, row, ASKED, () if row.event.interrupts else at.calls)

    def _goes_on(self, at: Moment, row: Row, stage: int, others: tuple[int, ...]) -> Iterator[ObservedStep]:
        """Yield the steps of *row*: an event happens, or a call at *stage* continues while *others* are in progress."""
        event, ends = row.event, row.ends
        name = self.names[event.name]
        call = self.table.row[event.name]
        for instant in self.rules.instants(at.state, call, stage):
            if instant.way is None:
                seen = Observable(event="" if event.kind == "hidden" else name, ends=ends, silent=True)
                yield ObservedStep((seen,), Moment(at.state, others) if ends else Moment(NOWHERE), row.index, None)
                break
            if instant.stage != BEGUN:
                to = Moment(instant.to, others)
                yield ObservedStep(self._seen(row.index, instant.way), to, row.index, instant.way)
            elif len(others) < OVERLAP:
                begun = Moment(instant.to, tuple(sorted((*others, call))))
                seen = Observable(event=name, ends=ends, begins=True)
                yield ObservedStep((seen,), begun, row.index, instant.way)
        if event.kind == "call" and not ends and self.indefinite and self.table.step(at.state, call) is not None:
            # The call may also have no effect, which the caller cannot know.
            replies = tuple(Observable(event=name, reply=reply) for reply in self.indefinite)
            yield ObservedStep(replies, at, row.index, None)

    def _seen(self, index: int, way: Way) -> tuple[Observable, ...]:
        row = self.table.rows[index]
        name = self.names[row.event.name]
        if row.event.kind == "hidden":
            # If an event is hidden, only its outputs are observed.
            return (Observable(emits=way.emits),) if way.emits else ()
        if row.event.kind == "signal":
            return (Observable(event=name, emits=way.emits),)
        replies = dict.fromkeys(way.reply)
        if ANY_ERROR in replies:
            replies |= dict.fromkeys(self.codes.get(name, ()))
        replies |= dict.fromkeys(self.indefinite)
        return tuple(Observable(event=name, reply=reply, emits=way.emits, ends=row.ends) for reply in replies)

    def state(self, at: Moment) -> str:
        return "" if at.state == NOWHERE else self.table.states[at.state]

    def next(self, at: Moment) -> Iterator[Observable]:
        """Yield everything that can be observed next, without hidden steps before it."""
        for step in self.steps(at):
            yield from step.seen
        yield from self.shows(at)

    def after(self, trace: Sequence[Observable]) -> tuple[Moment, ...]:
        """Return every moment that *trace* may lead to, nearest first."""
        return tuple(at for at, length in self._along(trace).depth if length == len(trace))

    def run(self, trace: Sequence[Observable]) -> Run | None:
        """Return a shortest run with this *trace*, or ``None`` if there is none."""
        search = self._along(trace)
        last = next((point for point in search.depth if point[1] == len(trace)), None)
        if last is None:
            return None
        steps = tuple(each.taken for each in search.path_to(last))
        return Run(initial=self.table.states[self.table.initial], steps=steps)

    def _along(self, trace: Sequence[Observable]) -> BreadthFirst[_Point, _TraceStep]:
        def following(point: _Point) -> Iterator[_TraceStep]:
            at, length = point
            expected = trace[length] if length < len(trace) else None
            for step in self.steps(at):
                seen = expected is not None and expected in step.seen
                if seen or not step.seen:
                    to = at.state if step.to.state == NOWHERE else step.to.state
                    reply = expected.reply if expected and seen else ""
                    taken = run_step(self.table, at.state, step.row, step.way, to, reply)
                    yield _TraceStep(taken, (step.to, length + seen))
            if expected in self.shows(at):
                yield _TraceStep(RunStep(event="", source=self.state(at), target=self.state(at)), (at, length + 1))

        search: BreadthFirst[_Point, _TraceStep] = BreadthFirst([(self.initial, 0)], following)
        return search.exhausted()


_Point: TypeAlias = tuple[Moment, int]
"""A moment, and the number of observations of a trace made so far."""


class _TraceStep(NamedTuple):
    taken: RunStep
    to: _Point


def observers(first: Table, second: Table) -> tuple[Observer, Observer]:
    """Return observers of both machines that treat events with the same name or RPC name as the same event."""
    ours = first.machine.words()
    own = {name: name for name in first.machine.events}
    theirs = {
        event.name: next((ours[word].name for word in event.words if word in ours), event.name)
        for event in second.machine.events.values()
    }
    indefinite = _indefinite((first, second))
    codes = _codes(((first, own), (second, theirs)), indefinite)

    def observer(table: Table, names: Mapping[str, str]) -> Observer:
        own_indefinite = tuple(each for each in table.machine.indefinite if each in indefinite)
        return Observer(rules=Rules(table), names=names, codes=codes, indefinite=own_indefinite)

    return observer(first, own), observer(second, theirs)


def _codes(
    both: Collection[tuple[Table, Mapping[str, str]]], indefinite: Collection[str]
) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for table, names in both:
        for way, (row, _) in zip(table.ways, table.origin, strict=True):
            replies = found.setdefault(names[table.rows[row].event.name], dict.fromkeys(indefinite))
            replies |= dict.fromkeys(way.reply)
    return {name: tuple(each for each in replies if each not in {"ok", ANY_ERROR}) for name, replies in found.items()}


def _indefinite(both: Collection[Table]) -> tuple[str, ...]:
    """Return the replies that leave open whether a call took effect.

    Return no replies if both machines list the same ones and do not mention them elsewhere.
    """
    lists = [table.machine.indefinite for table in both]
    every = tuple(dict.fromkeys(reply for each in lists for reply in each))
    mentioned = {reply for table in both for way in table.ways for reply in way.reply}
    alike = len({frozenset(each) for each in lists}) == 1
    return () if alike and not mentioned.intersection(every) else every
