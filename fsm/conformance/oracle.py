"""Whether what a system under test did is legal, step by step: what may be true of it, and why nothing may."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final

from fsm.conformance.plan import IDLE, Edge, Plan, Point
from fsm.machine import Machine
from fsm.machine.calls.belief import Dynamics, dynamics
from fsm.machine.calls.configuration import Configuration, Configurations, Pending, released
from fsm.machine.calls.held import shown, stepped
from fsm.machine.calls.rules import HELD
from fsm.machine.findings import Violation
from fsm.machine.table import Table, tabulate
from fsm.monitor.diagnosis import explain
from fsm.monitor.field_clauses import FieldClauses
from fsm.monitor.grouping import Folder
from fsm.monitor.scene import Scene
from fsm.sut import SUT, Limited, Response, Stimulus
from fsm.trace import Line, Observation, key

WAITING: Final = "(nothing yet)"
"""Stands for the reply of a call that is still in progress."""

KNOWN: Final = 50_000
"""Steps whose effect is remembered."""


def point(here: Configuration) -> Point:
    """Where a test stands that has brought an entity *here*."""
    return Point(here.state, next((call.row for call in here.pending if call.stage == HELD), IDLE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """What *plan*'s machine allows; ``others`` are its profiles, for deviations that a violation looks like."""

    plan: Plan
    others: tuple[Table, ...]
    dynamics: Dynamics
    fields: FieldClauses
    stepped: Callable[[Configurations, Stimulus, Response], Configurations]

    @property
    def start(self) -> Configurations:
        """What may be true where a test begins."""
        return replace(self.dynamics, coming=()).beginning()

    def legal(self, before: Configurations, step: Stimulus, seen: Response) -> Configurations:
        """What may be true after *step*; nothing if that is a violation."""
        return self.stepped(before, Stimulus(step.event, step.stage), seen)

    def anywhere(self, before: Configurations, step: Stimulus, seen: Response) -> Configurations:
        """Everything that may be true once an entity has left what is legal."""
        row = self.plan.table.row[step.event]
        calls = (
            {row} if seen.reply is None else {IDLE} if step.stage == "end" else {point(each).call for each in before}
        )
        pending = [() if call == IDLE else (Pending(call, HELD, 0),) for call in sorted(calls)]
        states = range(len(self.plan.table.states))
        anywhere = (Configuration(state, each, seen.outputs or ()) for state in states for each in pending)
        return shown(replace(self.dynamics, coming=seen.outputs), anywhere, seen)

    def at(self, here: Point) -> Configurations:
        """The configurations that are possible when a test has reached the point *here*."""
        pending = () if here.call == IDLE else (Pending(here.call, HELD, 0),)
        return replace(self.dynamics, coming=()).closed([Configuration(here.state, pending)])

    def sure(self, here: Point) -> bool:
        """Whether an entity at the point *here* stays there until something is done."""
        return {point(each) for each in self.at(here)} == {here}

    def foreseen(self, edge: Edge, *, shown: bool, emitted: bool) -> Response:
        """The response of a correct SUT that takes *edge*; its state if *shown*, its outputs if *emitted*."""
        last = edge.ways[-1]
        return Response(
            reply=None if last.begins else next(iter(last.reply), ""),
            shows=self.plan.table.shows[last.to] if shown else "",
            outputs=tuple(output for way in edge.ways for output in way.emits) if emitted else None,
        )

    def certain(self, edge: Edge, seen: Response) -> frozenset[tuple[int, int]]:
        """The pairs that the event of *edge* has exercised whichever outcome led to what was *seen*."""
        alternatives = self.plan.alternatives(edge.source, edge.step.event, edge.step.stage)
        return frozenset.intersection(*(frozenset(each.cells) for each in alternatives if self.fits(each, seen)))

    def leads(self, edge: Edge, seen: Response) -> bool:
        """Whether *seen* proves that the entity is at the target of *edge*."""
        return {point(each) for each in self.legal(self.at(edge.source), edge.step, seen)} == {edge.to}

    def overtaken(self, edge: Edge) -> bool:
        """Whether a signal that comes unasked may come before *edge*."""
        rows = (row for row in self.dynamics.unseen if self.plan.table.rows[row].event.kind == "signal")
        return any(self.plan.table.step(edge.source.state, row) for row in rows)

    def fits(self, edge: Edge, seen: Response) -> bool:
        """Whether *seen* is what comes of *edge*, nothing else having happened."""
        if edge.to is None:
            return True
        emits = tuple(output for way in edge.ways for output in way.emits)
        last = edge.ways[-1]
        replied = (seen.reply is None) == last.begins
        fits = not last.reply or self.dynamics.rules.fits(last.index, seen.reply or "")
        shows = self.plan.table.shows[edge.to.state]
        return replied and fits and seen.outputs in {None, emits} and seen.shows in {"", shows}

    def violation(self, before: Configurations, step: Stimulus, seen: Response, *, number: int) -> Violation:
        """What is wrong with *step*, the *number*-th of its test, which :meth:`legal` does not allow."""
        table = self.plan.table
        row = table.row[step.event]
        observation = Observation(
            entity=table.machine.entity,
            event=step.event,
            phase="reply" if step.stage == "end" else "",
            reply=WAITING if seen.reply is None else seen.reply,
            shows=seen.shows,
            emits=seen.outputs,
            line=number,
        )
        here = before
        begun = self.legal(before, step, replace(seen, shows="")) if seen.reply is None else None
        if begun:
            # That it goes on is right; what it shows meanwhile is not.
            here, observation = begun, Observation(entity=table.machine.entity, shows=seen.shows, line=number)
        elif step.stage == "end":
            here = frozenset(each._replace(pending=released(each.pending, row)) for each in here)
        scene = Scene(dynamics=self.dynamics, before=here, seen=key(observation), led=None, others=self.others)
        explained = explain(scene)
        return explained.violation(table.machine, observation, (edit for edit, _ in explained.edits), Line("", number))

    def forgotten(self, step: Stimulus, seen: Response) -> str:
        """What mends an adapter that has returned no reply at *step* to a call that takes no time in any state."""
        if seen.reply is not None or step.stage != "do" or self.plan.table.row[step.event] in self.plan.table.end:
            return ""
        return f"do({step.event!r}) returned None; return its reply, such as 'ok'"

    def wrong_fields(
        self,
        step: Stimulus,
        seen: Response,
        fields: Mapping[str, int | str] | None,
        *,
        after: Configurations,
        number: int,
    ) -> tuple[Violation, ...]:
        """Violations by the *fields* that were shown *after* the *step*, number *number* of its test."""
        if fields is None:
            return ()
        entity = self.plan.table.machine.entity
        shown = Observation(entity=entity, event=step.event, shows=seen.shows, fields=dict(fields))
        self.fields.notice(shown)
        return self.fields.hold(shown, Line("", number), {self.plan.table.states[each.state] for each in after})


def oracle(machine: Machine, profile: str | None = None, *, overlaps: bool = True, sut: SUT | None = None) -> Oracle:
    """The oracle for *machine*, under *profile* if one is named; calls are left in progress only if ``overlaps``.

    If *sut* is limited, the plan is, and what it has happen unasked is reckoned with.
    """
    table = tabulate(machine.under(profile))
    if isinstance(sut, Limited):
        signals = {event.name for event in table.machine.events.values() if event.kind == "signal"}
        moves = dynamics(table, shown=signals.difference(sut.unasked()))
        plan = Plan(table=table, overlaps=overlaps, never=sut.never)
    else:
        moves, plan = dynamics(table), Plan(table=table, overlaps=overlaps)
    return Oracle(
        plan=plan,
        others=tuple(tabulate(machine.under(other)) for other in machine.profiles if other != profile),
        dynamics=moves,
        fields=FieldClauses(table.machine, machine.profiles.values(), Folder()),
        stepped=lru_cache(KNOWN)(partial(stepped, moves)),
    )
