"""Judge the behaviour of a SUT step by step.

The belief is the set of configurations that are possible after the steps so far. A step that leaves no
configuration is a violation, which is then explained.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final, Protocol, runtime_checkable

from fsm.conformance.failure import Failure
from fsm.conformance.plan import IDLE, Edge, Plan, Point
from fsm.errors import nearest, refused
from fsm.machine import Machine
from fsm.machine.calls import HELD
from fsm.machine.calls.belief import Dynamics, dynamics, shown, stepped
from fsm.machine.calls.configuration import Configuration, Configurations, Pending
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.findings import Covered, Permitted, Violation
from fsm.machine.table import Table, tabulate
from fsm.machine.timers import Timer, clocked, duration, forced
from fsm.monitor.diagnosis import Explained, Scene, explain, reasons
from fsm.monitor.extra_rules import FieldClauses
from fsm.monitor.grouping import Folder
from fsm.sut import SUT, BrokenError, Clocked, Limited, Response, Stimulus, Tidy
from fsm.trace import Key, Line, Observation, key

WAITING: Final = "(nothing yet)"  # placeholder for the reply of a call that is still in progress
KNOWN: Final = 50_000  # maximum number of steps whose effect is cached


def point(here: Configuration) -> Point:
    return Point(here.state, next((call.row for call in here.pending if call.stage == HELD), IDLE))


def _held(call: int) -> tuple[Pending, ...]:
    return () if call == IDLE else (Pending(call, HELD, 0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """Judges steps against the machine of ``plan``. Deviations in the tables ``others`` may explain a violation."""

    plan: Plan
    others: tuple[Table, ...]
    dynamics: Dynamics
    fields: FieldClauses
    stepped: Callable[[Configurations, Stimulus, Response], Configurations]

    @property
    def start(self) -> Configurations:
        return replace(self.dynamics, coming=()).beginning()

    def legal(self, before: Configurations, step: Stimulus, seen: Response) -> Configurations:
        """Return the belief after *step*, which is empty if the step is a violation."""
        return self.stepped(before, Stimulus(step.event, step.stage, args=step.args), seen)

    def anywhere(self, before: Configurations, step: Stimulus, seen: Response) -> Configurations:
        """Return the belief after an illegal step. It contains every configuration that is consistent with *seen*."""
        row = self.plan.table.row[step.event]
        left = {IDLE} if step.stage == "end" else {point(each).call for each in before}
        calls = {row} if seen.reply is None else left
        states = self.plan.valued.anywhere
        anywhere = (Configuration(each, _held(call), seen.outputs or ()) for each in states for call in sorted(calls))
        return shown(replace(self.dynamics, coming=seen.outputs), anywhere, seen)

    def quiet(self, before: Configurations, seen: Response) -> Configurations:
        """Return the belief after time has passed. It is empty if *seen* shows that something has happened."""
        return shown(replace(self.dynamics, coming=seen.outputs), before, seen)

    def end(self, sut: Tidy, before: Configurations) -> Failure | None:
        """End a test of *sut*, and return the failure that this finds."""
        try:
            left, hangs = sut.leftovers(partial(self.expected_later, before)), False
        except BrokenError as error:
            left, hangs = str(error), True
        return Failure(broken=f"after the test, {left}", at_end=True, hangs=hangs) if left else None

    def expected_later(self, before: Configurations, shows: str, fields: Mapping[str, int | str], call: str) -> str:
        """Return the states that may legally be shown after the last step, or an empty string if *shows* is legal.

        Since then, *call* may have been made, and signals and hidden events may have happened. If a call was in
        progress, everything is legal.
        """
        table = self.plan.valued
        rows = (table.row[name] for name, event in table.machine.events.items() if event.kind != "call")
        moves = replace(self.dynamics, unseen=tuple(rows), coming=None)
        try:
            after = moves.closed([*before, *(moves.requested(before, table.row[call]) if call else ())])
            legal = self.showing(shown(moves, after, Response(shows=shows)), fields)
        except (TooManyError, ValueError):
            return ""
        unclear = legal or any(each.pending for each in before)
        return (
            "" if unclear else " or ".join(sorted({table.named(at) if fields else table.shows[at] for at, *_ in after}))
        )

    def at(self, here: Point) -> Configurations:
        return replace(self.dynamics, coming=()).closed([Configuration(here.state, _held(here.call))])

    def sure(self, here: Point) -> bool:
        """Check whether an entity at the point *here* can leave it only by a step of the test."""
        return {point(each) for each in self.at(here)} == {here}

    def expected_response(self, edge: Edge, *, shown: bool, emitted: bool) -> Response:
        last = edge.ways[-1]
        return Response(
            reply=None if last.begins else next(iter(last.reply), ""),
            shows=self.plan.valued.shows[last.to] if shown else "",
            outputs=tuple(output for way in edge.ways for output in way.emits) if emitted else None,
        )

    def certain(self, edge: Edge, seen: Response) -> frozenset[tuple[int, int]]:
        alternatives = self.plan.alternatives(edge.source, edge.step.event, edge.step.stage, edge.step.args)
        return frozenset.intersection(*(frozenset(each.cells) for each in alternatives if self.fits(each, seen)))

    def leads(self, edge: Edge, seen: Response) -> bool:
        """Check whether *seen* proves that the entity has reached the target of *edge*."""
        return {point(each) for each in self.legal(self.at(edge.source), edge.step, seen)} == {edge.to}

    def overtaken(self, edge: Edge) -> bool:
        """Check whether a signal that the test does not send may arrive before *edge* is taken."""
        rows = (row for row in self.dynamics.unseen if self.plan.table.rows[row].event.kind == "signal")
        return any(self.plan.valued.step(edge.source.state, row) for row in rows)

    def fits(self, edge: Edge, seen: Response) -> bool:
        """Check whether *seen* is a correct response to *edge* if nothing else happened."""
        if edge.to is None:
            return True
        right, last = self.expected_response(edge, shown=False, emitted=True), edge.ways[-1]
        shown = not seen.shows or self.plan.valued.matches(last.to, seen.shows)
        replied = (seen.reply is None) == last.begins
        fits = not last.reply or self.dynamics.rules.fits(last.index, seen.reply or "")
        return replied and fits and seen.outputs in {None, right.outputs} and shown

    def violation(self, before: Configurations, step: Stimulus, seen: Response, *, number: int) -> Violation:
        table = self.plan.table
        row = table.row[step.event]
        observation = Observation(
            entity=table.machine.entity,
            event=step.event,
            phase="reply" if step.stage == "end" else "",
            reply=WAITING if seen.reply is None else seen.reply,
            shows=seen.shows,
            emits=seen.outputs,
            args=dict(step.args) or None,
            line=number,
        )
        here = before
        if seen.reply is None and (begun := self.legal(before, step, replace(seen, shows=""))):
            # The call may still be in progress. Then the SUT violates the model because it shows this state before
            # the call has returned.
            here, observation = begun, Observation(entity=table.machine.entity, shows=seen.shows, line=number)
        scene = Scene(dynamics=self.dynamics, before=here, seen=key(observation), led=None, others=self.others)
        ends = observation.phase and observation.reply != WAITING
        found = self._explain_end(scene, row) if ends else explain(scene)
        return found.violation(table.machine, observation, Line("", number))

    def _explain_end(self, scene: Scene, row: int) -> Explained:
        """Explain why the end of a call that a test has kept in progress is illegal.

        The explanation names the states in which the call was in progress, and what is legal after its end.
        """

        def released(held: Configurations) -> Configurations:
            return self.dynamics.closed(self.dynamics.released(held, row))

        found, rest = explain(replace(scene, before=released(scene.before))), scene.seen._replace(shows="", emits=None)
        legal: dict[str, dict[str, None]] = {}
        for held in sorted(scene.before, key=lambda each: each.state):
            after = released(frozenset({held}))
            fitting = frozenset(each for each in after if replace(scene, before=frozenset({each})).left(rest))
            fault, _, permitted, _ = reasons(replace(scene, before=fitting or after))
            values = (value for each in permitted for value in each.what if fault.cause is found.cause)
            legal.setdefault(scene.table.named(held.state), {}).update(dict.fromkeys(values))
        permitted = tuple(Permitted(state=state, what=tuple(values)) for state, values in legal.items())
        return replace(found, before=tuple(legal), permitted=permitted)

    def showing(self, after: Configurations, fields: Mapping[str, int | str]) -> Configurations:
        """Return those configurations in *after* that have the variables shown in *fields*."""
        args = tuple((name, value) for name, value in fields.items() if name in self.plan.table.machine.data)
        return frozenset(self.dynamics.showing(after, Key(args=args))) if args else after

    def refuse_unknown(self, fields: Iterable[str]) -> None:
        """Raise :class:`InputError` if the model has no field or shown variable with one of these names."""
        machine = self.plan.table.machine
        known = {*machine.fields, *(name for name, each in machine.data.items() if each.shown)}
        for name in fields:
            if name not in known:
                what = f"the model has no field {name!r}, which SUT shows"
                hint = f"{nearest(name, known, of='fields')}; return only fields and shown variables of the model"
                raise refused(machine.path or machine.name, "FSM601", what, hint)

    def forgotten(self, step: Stimulus, seen: Response, timer: Timer | None) -> str:
        if timer is not None:
            return f"the timer {timer.name} must have fired {duration(timer.latest)} after its start"
        if seen.reply is not None or step.stage != "do" or self.plan.table.row[step.event] in self.plan.table.end:
            return ""
        return f"do({step.event!r}) returned None; a call must return its reply, such as 'ok'"

    def wrong_fields(
        self,
        step: Stimulus,
        seen: Response,
        fields: Mapping[str, int | str] | None,
        *,
        after: Configurations,
        number: int,
    ) -> tuple[Violation, ...]:
        if fields is None:
            return ()
        entity = self.plan.table.machine.entity
        own = {name: value for name, value in fields.items() if name in self.plan.table.machine.fields}
        shown = Observation(entity=entity, event=step.event, shows=seen.shows, fields=own)
        self.fields.notice(shown)
        return self.fields.hold(shown, Line("", number), {self.plan.valued.states[each.state] for each in after})


def oracle(machine: Machine, profile: str | None = None, *, overlaps: bool = True, sut: SUT | None = None) -> Oracle:
    """Return the oracle for *machine* under *profile*. Calls are left in progress only if *overlaps* is true.

    *sut* may limit the plan: outcomes that it never has are skipped, and signals that it may send are expected.
    """
    table = tabulate(machine.under(profile))
    plan = Plan(table=table, overlaps=overlaps)
    moves = dynamics(plan.valued)
    signals = {event.name for event in table.machine.events.values() if event.kind == "signal"}
    if table.machine.timers and isinstance(sut, Clocked):  # hidden timers fire only when the test lets time pass
        moves = dynamics(plan.valued, shown={*signals, *forced(clocked(table.machine))})
    if isinstance(sut, Limited):
        plan = Plan(table=table, overlaps=overlaps, never=sut.never)
        moves = dynamics(plan.valued, shown=signals.difference(sut.unasked()))
    return Oracle(
        plan=plan,
        others=tuple(tabulate(machine.under(other)) for other in machine.profiles if other != profile),
        dynamics=moves,
        fields=FieldClauses(table.machine, machine.profiles.values(), Folder()),
        stepped=lru_cache(KNOWN)(partial(stepped, moves)),
    )


@runtime_checkable
class SelfJudging(Protocol):
    """A SUT whose tests are judged by ``model``, but planned from another machine."""

    model: str

    def violation(self) -> Violation | None:
        """Return a violation that occurred since the last reset, or ``None``.

        This method is called after each step.
        """

    def covered(self) -> Sequence[Covered]:
        """Return the coverage of the machines of ``model`` by all tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldEvents:
    count: int
    violations: Sequence[Violation]


@runtime_checkable
class Telling(Protocol):
    """A SUT that sends events about its actions. These events are compared with the steps of the tests."""

    def events(self) -> ToldEvents:
        """Return the events that the SUT sent in all tests. This method is called once, after the last test."""
