"""Whether what a SUT did is legal, step by step: every state it may be in, and why there is none left.

A test sees more than a trace shows: nothing happens between its steps but
hidden events, and a call that it has left in progress stays there until it is
told to go on.  So the oracle keeps exact points where the monitor must try
every instant; what it says of a violation is the monitor's explanation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fsm.conformance.plan import IDLE, Plan, Point
from fsm.machine.calls import Dynamics
from fsm.machine.calls.configuration import BEGUN, Pending, Possibility
from fsm.machine.table import tabulate
from fsm.monitor.diagnosis import Scene, explain
from fsm.trace import Observation, key
from fsm.verdict import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsm.conformance.plan import Edge, Step
    from fsm.machine import Machine
    from fsm.machine.table import Table

WAITING: Final = "(nothing yet)"
"""Said instead of a reply of a call that is still in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a SUT did in one step: its reply, ``None`` while the call is in progress; what it showed and put out.

    ``outputs`` is ``None`` where they cannot be seen.
    """

    reply: str | None = ""
    shows: str = ""
    outputs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """What *plan*'s machine allows; ``others`` are its profiles, for deviations that a violation looks like."""

    plan: Plan
    others: tuple[Table, ...]
    _hidden: tuple[int, ...] = field(default=())

    def legal(self, before: frozenset[Point], step: Step, seen: Seen) -> frozenset[Point]:
        """The points at which the entity may be after *step*; none if that is a violation.

        *before* and what is returned hold all that hidden events may lead to.
        """
        found: set[Point] = set()
        for point in before:
            found |= self._after(point, step, seen)
        return self.closed(point for point in found if self._shown(point, seen))

    def anywhere(self, before: frozenset[Point], step: Step, seen: Seen) -> frozenset[Point]:
        """Every point at which the entity may be once it has left what is legal."""
        row = self.plan.table.row[step.event]
        calls = {row} if seen.reply is None else {IDLE} if step.stage == "end" else {point.call for point in before}
        points = (Point(state, call) for state in range(len(self.plan.table.states)) for call in calls)
        return self.closed(point for point in points if self._shown(point, seen))

    def closed(self, points: Iterable[Point]) -> frozenset[Point]:
        """*points*, and those to which hidden events may lead."""
        table = self.plan.table
        found = set(points)
        todo = list(found) if self._hidden else []
        while todo:
            point = todo.pop()
            for row in self._hidden:
                ways = table.step(point.state, row)
                left = IDLE if table.rows[row].event.interrupts else point.call
                states = range(len(table.states)) if ways is None else [way.to for way in ways]
                new = {Point(state, left) for state in states} - found
                found |= new
                todo += new
        return frozenset(found)

    def fits(self, edge: Edge, seen: Seen) -> bool:
        """Whether *seen* is what comes of *edge*, no other event having happened."""
        if edge.target is None:
            return True
        emits = tuple(output for way in edge.ways for output in way.emits)
        last = edge.ways[-1]
        replied = seen.reply is None if last.begins else seen.reply is not None and self._replied(last.reply, seen)
        return replied and seen.outputs in {None, emits} and self._shown(edge.target, seen)

    def _shown(self, point: Point, seen: Seen) -> bool:
        return not seen.shows or self.plan.table.shows[point.state] == seen.shows

    def _replied(self, allowed: tuple[str, ...], seen: Seen) -> bool:
        if not allowed:
            return True
        reply = seen.reply or ""
        machine = self.plan.table.machine
        return reply in allowed or reply in machine.indefinite or ("error" in allowed and reply not in {"", "ok"})

    def _after(self, point: Point, step: Step, seen: Seen) -> set[Point]:
        """Where *point* may be once *step* was taken, whatever is shown there."""
        found = set()
        row = self.plan.table.row[step.event]
        if step.stage == "end" and point.call != row:
            # A hidden event has interrupted it: its caller is told so, and no more.
            return {point} if seen.reply not in {None, "ok"} else set()
        for edge in self.plan.going(point, step.event, step.stage):
            if edge.target is None:
                call = row if seen.reply is None else IDLE
                found |= {Point(state, call) for state in range(len(self.plan.table.states))}
            elif self.fits(edge, Seen(reply=seen.reply, outputs=seen.outputs)):
                found.add(edge.target)
        if step.stage == "end" and not self.plan.table.step(point.state, self.plan.table.end[row]):
            found.add(Point(point.state))
        if seen.reply in self.plan.table.machine.indefinite and step.stage != "end":
            found.add(point)  # it may not have acted at all
        return found

    # -- why not -----------------------------------------------------------

    def violation(self, before: frozenset[Point], step: Step, seen: Seen, *, number: int) -> Violation:
        """What is to be said of *step*, the *number*-th of its test, which :meth:`legal` does not allow."""
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
        begun = self.legal(before, step, Seen(reply=None, outputs=seen.outputs)) if seen.reply is None else None
        if begun:
            # That it goes on is right; what it shows meanwhile is not.
            here, observation = begun, Observation(entity=table.machine.entity, shows=seen.shows, line=number)
        pending = (Pending(row, BEGUN, 0),) if step.stage == "end" and not begun else ()
        explained = explain(
            Scene(
                dynamics=Dynamics(table=table, unseen=self._hidden, names=dict(table.row)),
                before=frozenset(
                    Possibility(point.state, tuple(each._replace(met=1 << point.state) for each in pending))
                    for point in here
                ),
                seen=key(observation),
                led=None,
                others=self.others,
            )
        )
        return Violation(
            machine=table.machine.name,
            cause=explained.cause,
            observation=observation,
            file="",
            line=number,
            before=explained.before,
            permitted=explained.permitted,
            clause=explained.clause,
            edits=tuple(edit for edit, _ in explained.edits),
            illegal=explained.illegal,
            resembles=explained.resembles,
        )


def oracle(machine: Machine, profile: str | None = None, *, overlaps: bool = True) -> Oracle:
    """The oracle for *machine*, under *profile* if one is named; calls are left in progress only if ``overlaps``."""
    table = tabulate(machine.under(profile))
    return Oracle(
        plan=Plan(table=table, overlaps=overlaps),
        others=tuple(tabulate(machine.under(other)) for other in machine.profiles if other != profile),
        _hidden=tuple(row.index for row in table.rows if row.event.kind == "hidden" and not row.ends),
    )
