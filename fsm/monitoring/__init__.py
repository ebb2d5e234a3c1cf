"""Whether a trace is a behaviour of a machine: one belief an entity, moved by each observation.

The monitor keeps, for every entity that is alive, what may be true of it
(:mod:`fsm.monitoring.belief`); those at rest, back in the initial state
or known by name only, are remembered apart, the last :data:`REMEMBERED` of them.  Memory is
bounded by the entities alive, not by the length of the trace.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from fsm.building import under
from fsm.monitoring.belief import Dynamics, TooManyError
from fsm.monitoring.explaining import Scene, explain
from fsm.monitoring.folding import Folder, Open
from fsm.monitoring.possibility import LOST
from fsm.table import tabulate
from fsm.trace import key
from fsm.verdict import Covered, Fails, Holds, Judgement, Tolerated, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsm.machine import Event, Machine
    from fsm.monitoring.explaining import Explained
    from fsm.monitoring.possibility import Possibilities
    from fsm.trace import Key, Observation
    from fsm.verdict import Verdict

REMEMBERED: Final = 65_536
"""Entities at rest that are remembered; older ones are as if never seen."""

INTERNED: Final = 200_000
"""Possibilities, in all, of the beliefs that are remembered with where they lead; beyond it they are made anew."""


@dataclass(slots=True, eq=False)
class Belief:
    """Interned possibilities, and where each observation leads from here.

    ``since`` is the set, as bits, of the states that the entity may have been
    in since it was created: what a call may have met whose request nobody
    recorded.  An entity *rests* of which nothing is known, or that is in the
    initial state with nobody waiting for a reply.
    """

    possibilities: Possibilities
    since: int
    rests: bool = False
    next: dict[Key, Step] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Step:
    """Where an observation leads, the cells that explain it, how often it was taken.

    A ``plain`` step has nothing to report and leaves the entity alive.
    """

    to: Belief
    plain: bool = False
    cells: frozenset[tuple[int, int]] = frozenset()
    explained: Explained | None = None
    tolerated: tuple[str, ...] = ()
    note: str = ""
    taken: int = 0


@dataclass(slots=True, eq=False)
class _Life:
    """An entity that is alive: its belief, and the last that was seen of it, requests aside."""

    belief: Belief
    last: Observation | None = None


class Monitor:
    """Judges the observations of one machine's entities.

    ``profile`` names a profile of the machine.  ``seen`` names the signals
    that the trace shows; the others may happen at any time; ``None`` means
    that it shows all.  With ``fresh`` every entity is in the initial state
    when first seen; without it a trace may begin in mid-life, and a call that
    was in progress then is known from its reply on, not before.  ``outputs``
    says that the trace shows outputs alone, and neither calls nor replies.

    >>> from fsm.library import load
    >>> from fsm.trace import Observation
    >>> monitor = Monitor(load("cri-container"), fresh=True)
    >>> monitor.feed([Observation(entity="c1", event="stop", reply="NOT_FOUND")], range(1, 2))
    >>> monitor.judgement().verdict.findings[0].first[0].clause.level
    'MUST'
    """

    def __init__(
        self,
        machine: Machine,
        *,
        file: str = "",
        profile: str | None = None,
        seen: frozenset[str] | None = None,
        fresh: bool = False,
        outputs: bool = False,
    ) -> None:
        self.machine = under(machine, profile) if profile else machine
        self.file = file
        table = tabulate(self.machine)
        names = dict(table.row)
        names |= {event.rpc: table.row[event.name] for event in self.machine.events.values() if event.rpc}
        self._dynamics = Dynamics(
            table=table,
            unseen=tuple(
                row.index for row in table.rows if not row.ends and not _shown(row.event, seen, outputs=outputs)
            ),
            outputs=outputs,
            names=names,
        )
        self._deviations = {way.deviation.name: way.deviation for way in table.ways if way.deviation is not None}
        self._others = tuple(tabulate(under(machine, other)) for other in machine.profiles if other != profile)
        self._beliefs: dict[tuple[Possibilities, int], Belief] = {}
        self._size = 0
        self._room = INTERNED
        everything, beginning = self._dynamics.everything(), self._dynamics.beginning()
        self._initial, self._starting = beginning, beginning if fresh else everything
        self._everything = self._belief(everything, _bits(everything))
        self._beginning = self._belief(beginning, _bits(beginning))
        self._start = self._beginning if fresh else self._everything
        self._alive: dict[str, _Life] = {}
        self._resting: OrderedDict[str, Belief] = OrderedDict()
        self._open: dict[str, Open] = {}
        self._explained: dict[tuple[Belief, Key, str, bool], Explained] = {}
        self._folder = Folder()
        self._covered: Counter[tuple[int, int]] = Counter()
        self._notes: Counter[str] = Counter()
        self._entities = 0
        self._general = 0
        self._observations = 0

    def feed(self, observations: Sequence[Observation], lines: Sequence[int]) -> None:
        """Take *observations* in order; ``lines[i]`` is where the i-th stands in the file."""
        alive, opened = self._alive, self._open
        self._observations += len(observations)
        for index, seen in enumerate(observations):
            life = alive.get(seen.entity)
            if life is not None:
                # What fsm.trace.key gives, written out: this line runs for every observation.
                step = life.belief.next.get(
                    (seen.event, seen.phase, seen.reply, seen.shows, seen.met, seen.output, seen.emits)
                )
                if step is not None and step.plain and not (opened and seen.entity in opened):
                    step.taken += 1
                    life.belief = step.to
                    if seen.phase != "request":
                        life.last = seen
                    continue
            self._slowly(seen, lines[index])

    def judgement(self) -> Judgement:
        """The verdict on all that was fed so far; the trace is taken to end here."""
        for entity in tuple(self._open):
            self._close(entity)
        for belief in self._beliefs.values():
            self._count(belief)
        table = self._dynamics.table
        cells = {(table.rows[row].name, table.states[state]): self._covered[row, state] for row, state in table.met()}
        return Judgement(
            machine=self.machine,
            verdict=self._verdict(),
            tolerated=self._folder.tolerated(),
            covered=Covered(machine=self.machine.name, cells=cells),
            entities=self._entities,
            observations=self._observations,
            notes=dict(self._notes),
        )

    def _verdict(self) -> Verdict:
        gave_up = self._notes["too many possibilities"] > 0
        untold = "too many calls overlap to try every order of them" if gave_up else ""
        findings = self._folder.findings()
        if findings:
            return Fails(findings=findings, untold=untold)
        if self._observations and not self._entities:
            return Unknown(why=f"the trace tells of no {self.machine.entity}")
        if self._observations - self._general <= self._notes["unknown event"]:
            return Unknown(why="nothing in the trace concerns this machine")
        return Unknown(why=untold) if untold else Holds()

    # -- one observation, with all that can happen -------------------------

    def _slowly(self, seen: Observation, line: int) -> None:
        self._general += not seen.entity or seen.phase == "gap"
        if seen.phase == "gap":
            self._forget(seen.entity)
        elif seen.entity:
            self._take(seen, line)
        else:
            for entity in tuple(self._alive):
                self._take(msgspec.structs.replace(seen, entity=entity), line)
            if self._dynamics.after(self._initial, key(seen)) != self._initial:
                self._resting.clear()

    def _forget(self, entity: str) -> None:
        """Nothing is known any more of *entity*, or of anybody alive."""
        for each in (entity,) if entity else tuple(self._alive):
            self._close(each)
            self._alive.pop(each, None)
            self._resting.pop(each, None)

    def _take(self, seen: Observation, line: int) -> None:
        entity = seen.entity
        life = self._alive.get(entity)
        if life is None:
            resting = self._resting.pop(entity, None)
            self._entities += resting is None
            life = _Life(belief=resting or self._start)
        if entity in self._open and seen.phase != "request":
            self._close(entity, seen)
        before = life.belief
        step = before.next.get(key(seen)) or self._step(before, seen, life)
        step.taken += 1
        if step.note:
            self._notes[step.note] += 1
        for name in step.tolerated:
            self._folder.tolerate(
                Tolerated(
                    machine=self.machine.name,
                    deviation=self._deviations[name],
                    observation=seen,
                    file=self.file,
                    line=line,
                )
            )
        if step.explained is not None:
            self._close(entity)
            self._open[entity] = Open(
                observation=seen, file=self.file, line=line, before=before.possibilities, explained=step.explained
            )
        life.belief = step.to
        if seen.phase != "request":
            life.last = seen
        self._keep(entity, life)
        if self._size > self._room:
            self._tidy()

    def _keep(self, entity: str, life: _Life) -> None:
        """Remember *entity* with all that is known of it, and no more."""
        if entity in self._open or not life.belief.rests:
            self._alive[entity] = life
            return
        self._alive.pop(entity, None)
        self._resting[entity] = life.belief
        if len(self._resting) > REMEMBERED:
            self._resting.popitem(last=False)

    def _close(self, entity: str, following: Observation | None = None) -> None:
        """Report the open violation of *entity*, now that it is known what followed."""
        opened = self._open.pop(entity, None)
        if opened is not None:
            self._folder.fold(opened.closed(self._dynamics, following))

    # -- where an observation leads ----------------------------------------

    def _step(self, before: Belief, seen: Observation, life: _Life) -> Step:
        """The step from *before*; remembered there unless it is a violation."""
        said = key(seen)
        try:
            step = self._found(before, said)
        except TooManyError:
            step = Step(to=self._everything, note="too many possibilities")
        if step is None:
            again = life.last is not None and bool(seen.event) and life.last.event == seen.event
            return self._violated(before, said, life.last, again=again)
        before.next[said] = step
        return step

    def _found(self, before: Belief, said: Key) -> Step | None:
        """The step, or ``None`` if nothing explains what was said."""
        event, phase = said[0], said[1]
        row = self._dynamics.names.get(event)
        if event and row is None:
            return Step(to=before, note="unknown event")
        note = ""
        start = before.possibilities
        if row is not None and self._dynamics.table.rows[row].event.kind == "call":
            if phase == "answered":
                states = [state for state in range(before.since.bit_length()) if before.since >> state & 1]
                return Step(to=before, plain=True) if self._dynamics.answers(states, said) else None
            if phase in {"reply", "lost"} and not self._dynamics.waits(start, row):
                # The request is missing, and with it we do not know what else:
                # the entity may be in any state in which this can be replied.
                note = "reply without request"
                start = self._dynamics.closed(self._dynamics.requested(self._everything.possibilities, row))
        kept = self._dynamics.observed(start, said)
        if not kept.possibilities:
            return None
        certain = frozenset.intersection(*(frozenset(each.deviations) for each in kept.possibilities))
        possibilities = kept.possibilities
        if certain:
            possibilities = frozenset(
                each._replace(deviations=tuple(name for name in each.deviations if name not in certain))
                for each in possibilities
            )
        since = _bits(possibilities)
        if note:
            since = self._everything.since
        elif not self._created(kept.cells, since):
            since |= before.since
        to = self._belief(possibilities, since)
        note = note or ("unspecified" if kept.unspecified and phase != "maybe" else "")
        plain = not note and not certain and not to.rests
        return Step(to=to, plain=plain, cells=kept.cells, tolerated=tuple(sorted(certain)), note=note)

    def _created(self, cells: frozenset[tuple[int, int]], now: int) -> bool:
        """Whether the entity has certainly just left the initial state."""
        initial = self._dynamics.table.initial
        return bool(cells) and all(state == initial for _, state in cells) and not now >> initial & 1

    def _violated(self, before: Belief, said: Key, last: Observation | None, *, again: bool) -> Step:
        known = (before, said, last.event if last else "", again)
        explained = self._explained.get(known)
        if explained is None:
            start = before.possibilities
            if self._asks(before, said):
                row = self._dynamics.names[said[0]]
                start = self._dynamics.closed(self._dynamics.requested(self._everything.possibilities, row))
            scene = Scene(
                dynamics=self._dynamics,
                before=start,
                seen=said,
                last=key(last) if last else None,
                again=again,
                others=self._others,
            )
            explained = self._explained[known] = explain(scene)
        to = self._belief(explained.after, before.since | _bits(explained.after))
        return Step(to=to, explained=explained)

    def _asks(self, before: Belief, said: Key) -> bool:
        """Whether *said* ends a call whose request was not seen."""
        row = self._dynamics.names.get(said[0])
        if row is None or self._dynamics.table.rows[row].event.kind != "call":
            return False
        return said[1] in {"reply", "lost"} and not self._dynamics.waits(before.possibilities, row)

    def _belief(self, possibilities: Possibilities, since: int) -> Belief:
        known = self._beliefs.get((possibilities, since))
        if known is None:
            known = self._beliefs[possibilities, since] = Belief(possibilities, since, self._rests(possibilities))
            self._size += len(possibilities)
        return known

    def _rests(self, possibilities: Possibilities) -> bool:
        return possibilities == self._starting or self._initial.issuperset(
            each._replace(pending=tuple(call for call in each.pending if call.stage > LOST)) for each in possibilities
        )

    def _tidy(self) -> None:
        """Forget the beliefs that nobody holds, and where any of them leads."""
        for belief in self._beliefs.values():
            self._count(belief)
            belief.next.clear()
        held = [life.belief for life in self._alive.values()]
        held += [self._everything, self._beginning, *self._resting.values()]
        self._beliefs = {(belief.possibilities, belief.since): belief for belief in held}
        self._explained.clear()
        self._size = sum(len(possibilities) for possibilities, _ in self._beliefs)
        self._room = self._size + INTERNED

    def _count(self, belief: Belief) -> None:
        """Add what was met from *belief* to the coverage."""
        for step in belief.next.values():
            for cell in step.cells:
                self._covered[cell] += step.taken
            step.taken = 0


def _shown(event: Event, seen: frozenset[str] | None, *, outputs: bool) -> bool:
    match event.kind:
        case "hidden":
            return False
        case "signal":
            return seen is None or event.name in seen
        case _:
            return not outputs


def _bits(possibilities: Possibilities) -> int:
    return sum(1 << state for state in {each.state for each in possibilities})
