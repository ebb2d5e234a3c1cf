"""Check whether a trace is a behaviour of a machine.

For every live entity, the monitor keeps a belief, the set of situations that are possible after the observations so far
(:mod:`fsm.machine.calls`). It remembers a limited number of entities at rest, that is, entities in the initial state or
known only by name. Memory is therefore bounded by the number of live entities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from fsm.machine import Machine, findings
from fsm.machine.calls.unobserved import ASSUMED, tried
from fsm.machine.product.flatten import machine_of
from fsm.machine.product.system import System
from fsm.monitor.beliefs import shared
from fsm.monitor.entities import ALIVE, AT_REST, LAST, LED, MET, NOBODY, PLACE, RESTING, TAKEN, Entities
from fsm.monitor.extra_rules import FieldClauses, FreshIds
from fsm.monitor.grouping import Assumptions, Folder, Open
from fsm.monitor.life import Life
from fsm.monitor.stepping import NOTHING, TOO_MANY, BeliefMove, Beliefs
from fsm.monitor.unknown_words import understood, unknown_name, unknown_text
from fsm.trace import Batch, Line, Observation, shown_text

if TYPE_CHECKING:
    from fsm.monitor.automaton import BeliefAutomaton
REMEMBERED: Final = 65_536
"""Maximum number of entities at rest to remember. Older entities are treated as if they had never been seen."""
OPEN: Final = 1_024
"""Maximum number of violations in an endless trace that may wait for the next observation of their entity."""


class Monitor:
    """Checks the observations of one machine's entities under *profile*.  A system is treated as one entity.

    *file* is the name of the trace, and *seen* contains the signals that it shows; any other signal may happen at any
    time.  If *seen* is ``None``, the trace shows all signals.  If *outputs* is true, it shows only outputs.

    If *fresh* is true, every entity is in the initial state when it is first seen.  Otherwise, it may be in any state,
    with calls in progress that only their replies will reveal.  If *ids* is true, ids are never reused.  If *own* is
    true, the trace was written for this machine, and an event that it does not have makes the verdict unknown.

    If *every* is true, all violations are kept, not only the first few of each cause.  ``wanted(observation)`` returns
    whether the observation may be reported, ``violated`` is called with the entity and the line of each violation, and
    ``folder`` collects the violations.

    >>> from fsm.language.library import load
    >>> from fsm.trace import Observation
    >>> monitor = Monitor(load("examples/models/door.toml"), fresh=True)
    >>> monitor.observe(Observation(entity="d1", event="pull", reply="ok"))
    ()
    >>> (violation,) = monitor.observe(Observation(entity="d1", event="pull", reply="NOT_FOUND"))
    >>> violation.clause.name, violation.clause.level
    ('pull', 'MUST')
    >>> type(monitor.judgement().verdict).__name__
    'Illegal'
    """

    def __init__(
        self,
        machine: Machine | System,
        *,
        file: str = "",
        profile: str | None = None,
        seen: frozenset[str] | None = None,
        fresh: bool = False,
        ids: bool = False,
        outputs: bool = False,
        own: bool = False,
        every: bool = False,
        wanted: Callable[[Observation], bool] = lambda _: True,
    ) -> None:
        machine = machine_of(machine, profile)
        self._shared, self.file = shared(machine, profile, seen, outputs=outputs), file
        self._dynamics, self.machine = self._shared.dynamics, self._shared.machine
        self.violated: Callable[[str, Line], None] = lambda _entity, _line: None
        self._ids = FreshIds(self._dynamics if ids else None)
        self.folder = Folder(every=every, wanted=wanted)
        self._fields = FieldClauses(self.machine, machine.profiles.values(), self.folder)
        self._beliefs = Beliefs(self._shared, self._fields.anew, fresh=fresh, own=own)
        self._everything = self._beliefs.everything
        self._unseen = self._beliefs.belief(self._shared.beginning) if fresh else self._everything
        self._entities = Entities(self._beliefs, REMEMBERED)
        self._open: dict[str, Open] = {}
        self._assumptions = Assumptions()
        self._notes, self._own = Counter[str](), own
        self._shown = {name: each for name, each in machine.data.items() if each.shown}
        self._compiled: BeliefAutomaton | None = None
        emits = not outputs or any(way.emits for way in self._dynamics.table.ways)
        self._unread = "" if emits else f"the recording has only outputs, but {machine.name} has no outputs"
        self.entities = self._beside = self.observations = 0

    def observe(self, seen: Observation) -> tuple[findings.Violation, ...]:
        """Process one observation and return its violations.

        There may be several violations, because an observation without an entity applies to every entity, and the
        fields of an entity can break several clauses. The n-th observation is assumed to be on line n.
        :meth:`judgement` groups the violations, and also considers the observation that follows each violation. Raise
        ``ValueError`` for an event that the machine does not have.
        """
        if type(seen.shows) is not str:  # a mapping from parts to states, which msgspec does not reject
            seen = msgspec.structs.replace(seen, shows=shown_text(seen.shows))
        if unknown := unknown_name(seen, self._dynamics):
            what, name, known = unknown
            raise ValueError(f"{self.machine.name} has no {what} {name!r}; it has {', '.join(known)}")
        told = list[findings.Violation]()
        found, self.folder.found = self.folder.found, told.append
        try:
            self.feed([seen], [self.observations + 1])
        finally:
            self.folder.found = found
        if found is not None:
            for each in told:
                found(each)
        return tuple(told)

    def feed(self, observations: Sequence[Observation], lines: Sequence[int | Line]) -> None:
        self._feed(observations, lines)
        self._entities.sweep()

    def follow(self, seen: Observation, line: int | Line) -> Mapping[str, Sequence[BeliefMove]]:
        """Process one observation and return the steps of each entity, starting with the steps for assumed events."""
        self.observations += 1
        self._beliefs.followed = followed = dict[str, list[BeliefMove]]()
        self._process(seen, line)
        self._beliefs.followed = None
        self._entities.sweep()
        return followed

    def take(self, batch: Batch) -> bool:
        """Process the columns of *batch*, and return whether this was possible. Entities of other kinds are skipped."""
        if batch.columns is None or self._assumptions.number or (automaton := self._automaton()) is None:
            return False
        at, size = 0, len(batch.lines)
        while at < size and not self._assumptions.number and automaton.has_room():
            at = automaton.feed(batch, batch.columns, at, unseen=self._unseen)
        rest = [at for at in range(at, size) if batch.observations[at].of in {self.machine.entity, ""}]
        self._feed([batch.observations[at] for at in rest], [batch.lines[at] for at in rest])
        self._entities.sweep()
        return True

    def _automaton(self) -> BeliefAutomaton | None:
        if self.machine.timers:
            return None  # compiled code has no timers
        if self._compiled is None:
            try:
                from fsm.monitor.automaton import BeliefAutomaton  # noqa: PLC0415  (needs the extra "fast")
            except ImportError:
                return None
            self._compiled = BeliefAutomaton(
                entities=self._entities,
                beliefs=self._beliefs,
                ids=self._ids,
                assumptions=self._assumptions,
                of={self.machine.entity, ""},
                file=self.file,
                slowly=lambda seen, at: self._feed([seen], [at]),
                kept=self._fields.kept,
                forget=self._forget,
            )
        return self._compiled

    def _count(self) -> None:
        if self._compiled is not None:
            self._compiled.count()
        self._beliefs.count()
        cells = self._entities.cells
        self.observations += cells[TAKEN]
        self.entities += cells[MET]
        cells[TAKEN] = cells[MET] = 0

    def _feed(self, observations: Sequence[Observation], lines: Sequence[int | Line]) -> None:
        slots, cells, beliefs = self._entities.slots, self._entities.cells, self._beliefs.listed
        assumable = self._assumptions.number
        self.observations += len(observations)
        for index, seen in enumerate(observations):
            slot = slots.get(seen.entity, NOBODY)
            if cells[slot + PLACE] == assumable and (number := cells[slot]) >= 0:
                # A plain tuple equals a Key but is cheaper to create.  This line runs for every observation.
                step = beliefs[number].next.get(  # type: ignore[call-overload]
                    (seen.event, seen.phase, seen.reply, seen.shows, seen.met, seen.output, seen.emits, ())
                )
                if step is not None and step.plain and not seen.fields and not seen.args:
                    step.taken += 1
                    cells[slot] = step.to.number
                    if seen.phase != "request":
                        cells[slot + LAST] = step.kind
                    if step.leads:
                        cells[slot + LED] = step.kind
                    continue
            self._process(seen, lines[index])
            cells, assumable = self._entities.cells, self._assumptions.number

    def states(self, entity: str) -> frozenset[str]:
        slot = self._entities.slots.get(entity, NOBODY)
        seen = self._entities.cells[slot + PLACE] >= AT_REST
        return (self._entities.belief(slot) if seen else self._unseen).states(self._dynamics.table)

    def judgement(self, *, over: bool = True) -> findings.Judgement:
        """Return the judgement of the observations so far. If *over* is true, no more observations follow."""
        folder = self.folder if over else self.folder.copy()
        for life in map(self._entities.life, self._entities.listed(ALIVE)) if self.machine.timers and over else ():
            if life.seen and (explained := self._beliefs.overdue(life)):
                folder.fold(explained.violation(self.machine, *life.seen))
        for entity, opened in tuple(self._open.items()):
            if over:
                self._close(entity)
            else:
                folder.fold(opened.closed(self._dynamics, None), reported=True)
        self._count()
        table, covered = self._dynamics.table, self._beliefs.covered
        cells = {(table.rows[row].name, table.states[state]): covered[row, state] for row, state in self._shared.pairs}
        return findings.Judgement(
            machine=self.machine,
            verdict=self._verdict(folder.findings()),
            tolerated=self.folder.tolerated(),
            assumed=tuple(self._assumptions.needed.values()),
            covered=findings.Covered(machine=self.machine.name, cells=cells, fields=dict(self._fields.tested)),
            entities=self.entities,
            observations=self.observations,
            notes=dict(self._notes + self._beliefs.notes),
        )

    def _verdict(self, found: tuple[findings.Finding, ...]) -> findings.Legality:
        incomplete = "too many calls overlap to try every order of them" if self._notes[TOO_MANY] else self._unread
        incomplete = incomplete or ("too many different values to follow all of them" if self._shared.full else "")
        if found:
            return findings.legality(found, incomplete)
        if not incomplete and self.observations and not self.entities and not self._notes["unknown event"]:
            incomplete = findings.no_entity_reason(self.machine.entity)
        incomplete = incomplete or (findings.NOTHING_CONCERNS if self.observations == self._beside else "")
        met = any(self._beliefs.covered.values()) or any(self._fields.tested.values())
        return findings.legality((), incomplete or ("" if met else findings.NOTHING_MET))

    def _process(self, seen: Observation, line: int | Line) -> None:
        place = line if isinstance(line, Line) else Line(self.file, line)
        if seen.args or (seen.fields and self._shown):
            seen, wrong = understood(seen, self.machine, self._shown)
            self._notes["value not understood"] += len(wrong)
            self._note_unread(place, *wrong[:1])
        self._beside += not seen.entity or seen.phase == "gap"
        self._fields.notice(seen)
        if seen.phase == "gap":
            self._gap(seen.entity)
        elif seen.phase == "assumed" and not seen.entity:
            if self._dynamics.row(seen.event) >= 0:
                self._assumptions.take(findings.Assumed(observation=seen, file=place.file, line=place.number))
        elif unknown := unknown_name(seen, self._dynamics):
            self._beside += bool(seen.entity)
            self._notes[f"unknown {unknown[0]}"] += 1
            self._note_unread(place, unknown_text(self.machine, *unknown))
        elif self._own and not seen.entity and self._dynamics.calls(self._dynamics.row(seen.event)):
            self._note_unread(place, f"'{seen.event}' is a call, but names no {self.machine.entity}")
        elif seen.entity:
            self._take(seen, place)
            # After a violation, the state is unknown, so the fields cannot be checked.
            if not ((opened := self._open.get(seen.entity)) and opened.observation is seen):
                states = self.states(seen.entity) if seen.fields and seen.shows else ()
                self._fields.hold(seen, place, states)
        else:
            self._take_for_all(seen, place)
        for name in sorted(seen.fields.keys() - self.machine.fields - self._shown.keys()) if seen.fields else ():
            self._note_unread(place, unknown_text(self.machine, "field", name, self.machine.fields))

    def _note_unread(self, place: Line, *why: str) -> None:
        for each in why if self._own and not self._unread else ():
            self._unread = f"line {place.number}: {each}"

    def _gap(self, entity: str) -> None:
        entities = self._entities
        if not entity:
            for slot in tuple(entities.listed(ALIVE)):
                self._close(entities.identity(slot))
            self._unseen = self._everything
            self._everything.rests = True
            for slot in (*entities.listed(RESTING), *entities.listed(ALIVE)):
                entities.rest(slot, self._everything)
            self._forget()
            return
        self._close(entity)
        slot = entities.slot(entity)
        known = entities.cells[slot + PLACE] >= AT_REST
        if known or self._unseen is not self._everything:
            self.entities += not known
            entities.forget(slot)
            self._keep(entity, slot, Life(belief=self._everything))

    def _take_for_all(self, seen: Observation, place: Line) -> None:
        entities, what = self._entities, self._dynamics.key(seen)
        quick = self._beliefs.followed is None and not self._ids.gives(what)
        for slot in tuple(entities.listed(ALIVE)):
            if not (quick and entities.take(slot, what, self._assumptions.number)):
                self._take(msgspec.structs.replace(seen, entity=entities.identity(slot)), place)
        moved = self._dynamics.forgotten(self._dynamics.after(self._shared.beginning, what))
        if moved <= self._shared.beginning:
            return
        for slot in tuple(entities.listed(RESTING)):
            entities.forget(slot)
        known = self._unseen.configurations
        possible = (
            self._dynamics.forgotten(tried(lambda: self._dynamics.closed(known | moved)))
            or self._everything.configurations
        )
        if possible != known:
            self._unseen = self._beliefs.belief(
                possible, self._unseen.since | self._dynamics.bits(possible), rests=True
            )
            self._forget()

    def shed(self) -> None:
        """Close the oldest open violations and forget the oldest entities, so that memory stays bounded."""
        entities = self._entities
        for entity in tuple(islice(self._open, max(0, len(self._open) - OPEN))):
            self._close(entity)
            slot = entities.slots[entity]
            self._keep(entity, slot, entities.life(slot))
        alive = [*entities.listed(ALIVE)]
        if len(alive) > REMEMBERED:
            self._unseen = self._beliefs.belief(self._everything.configurations, rests=True)
            for slot in alive[:-REMEMBERED]:
                self._gap(entities.identity(slot))
        entities.sweep()
        self._assumptions.shed(REMEMBERED)

    def _take(self, seen: Observation, place: Line) -> None:
        entity, entities = seen.entity, self._entities
        slot = entities.slot(entity)
        where = entities.cells[slot + PLACE]
        if where > AT_REST:
            life = entities.life(slot)
        else:
            self.entities += where != AT_REST
            self._ids.named(seen)
            life = Life(entities.belief(slot) if where == AT_REST else self._unseen, seen=entities.last_seen(slot))
        self._beliefs.assume(life, seen, place, self._assumptions)
        if entity in self._open and seen.phase != "request":
            self._close(entity, seen)
        step = self._beliefs.next(entity, life, seen, place)
        if step.note:
            self._notes[step.note] += 1
        if step.note == NOTHING and self._own and not self._unread:
            self._unread = f"line {place.number} has no event and no output, and shows no state"
        for names in step.tolerated:
            self._record_needed(names, life, seen, place)
        explained = step.explained or self._ids.reused_id_violation(seen, step.to.configurations)
        if explained:
            self.violated(entity, place)
            self._close(entity)
            opened = Open(observation=seen, place=place, before=life.belief.configurations, explained=explained)
            self._open[entity] = opened
            self.folder.tell(lambda: opened.closed(self._dynamics, None))
        life.moves(step, seen, place)
        if seen.phase != "request":
            life.last = step.kind
        if step.leads:
            life.led = step.kind
        self._keep(entity, slot, life)
        if self._beliefs.full():
            self._forget()

    def _record_needed(self, names: tuple[str, ...], life: Life, seen: Observation, place: Line) -> None:
        if any(name.startswith(ASSUMED) for name in names):
            self._assumptions.need([*self._assumptions.between(life.rested, life.assumed), *life.own])
            life.rested, life.own = life.assumed, ()
            return
        deviations = [each for name, each in self._shared.deviations.items() if name in names]
        self.folder.tolerate(self.machine.name, deviations, seen, place)

    def _keep(self, entity: str, slot: int, life: Life) -> None:
        if entity in self._open or not life.belief.rests:
            self._entities.live(slot, life, apart=entity in self._open)
        else:
            self._fields.kept.pop(entity, None)
            self._entities.rest(slot, life.belief, life.seen)

    def _forget(self) -> None:
        if self._compiled is not None:
            self._compiled.count()
        self._entities.renumber([self._everything, self._unseen])

    def _close(self, entity: str, following: Observation | None = None) -> None:
        opened = self._open.pop(entity, None)
        if opened is not None:
            self.folder.fold(opened.closed(self._dynamics, following), reported=True)
