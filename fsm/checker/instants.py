"""Steps of a machine as the instants that properties speak of, and whether a condition holds of one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, assert_never

from msgspec import Struct

from fsm.machine import ANY_ERROR
from fsm.machine.conditions import (
    All,
    At,
    Emits,
    EmitsOnly,
    Happens,
    In,
    Not,
    Replies,
    SilentOn,
    Some,
    StateChanges,
    StepEmits,
)
from fsm.machine.graph import explore, steps
from fsm.machine.table import Table
from fsm.property.evidence import RunStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fsm.machine.conditions import Condition
    from fsm.machine.table import TransitionSystem, Way


class Instant(Struct, gc=False, frozen=True, kw_only=True):
    """The state after it, and the step it belongs to; the first of a run belongs to none."""

    state: int
    source: int = -1
    event: str = ""
    reply: str = ""
    output: str = ""
    outputs: tuple[str, ...] = ()

    @property
    def first(self) -> bool:
        """Whether it is the first of a run."""
        return self.source < 0


Holds: TypeAlias = "Callable[[Instant], bool]"


class InstantStep(Struct, gc=False, frozen=True, kw_only=True):
    """One outcome with one of its replies, as seen by properties."""

    row: int
    way: Way
    taken: RunStep
    instants: tuple[Instant, ...]


class StepCache:
    """The steps of *table*, by the codes that a property tells apart.

    A machine that is *like* another but for one *state* has the other's
    steps everywhere else: mutants come by the thousand.
    """

    def __init__(self, table: TransitionSystem, *, like: StepCache | None = None, but: int = -1) -> None:
        self.table = table
        self._like = like
        self._but = but
        self._by_codes: dict[tuple[str, ...], Successors] = {}

    @cached_property
    def reached(self) -> tuple[int, ...]:
        """Every state that can be reached."""
        return tuple(explore(self.table).depth)

    def steps(self, conditions: Iterable[Condition] = ()) -> Successors:
        """The steps as *conditions* see them."""
        told = tuple(sorted(codes(conditions)))
        found = self._by_codes.get(told)
        if found is None:
            like = self._like.steps(conditions) if self._like else None
            found = self._by_codes[told] = Successors(self.table, told, like=like, but=self._but)
        return found


class Successors:
    """The steps of *table* from each state, made when asked for.

    ``error`` stands for every error code.  Where a property tells some of
    them apart, they are the *codes* that a step may reply instead.
    """

    def __init__(
        self, table: TransitionSystem, codes: tuple[str, ...] = (), *, like: Successors | None = None, but: int = -1
    ) -> None:
        self.table = table
        self.codes = codes
        self._from: dict[int, tuple[InstantStep, ...]] = {}
        if like is not None:
            self._from = {state: like.after(state) for state in range(len(table.states)) if state != but}

    def after(self, state: int) -> tuple[InstantStep, ...]:
        """Every step from *state*, in the model's order."""
        found = self._from.get(state)
        if found is None:
            found = self._from[state] = tuple(
                self.step(state, each.row, each.way, reply)
                for each in steps(self.table, state)
                for reply in self.replies(each.way)
            )
        return found

    def replies(self, way: Way) -> tuple[str, ...]:
        """The replies of *way*, one of which is given; the empty one if there is none."""
        if not way.reply:
            return ("",)
        if ANY_ERROR not in way.reply:
            return way.reply
        return tuple(dict.fromkeys((*way.reply, *self.codes)))

    def step(self, state: int, row: int, way: Way, reply: str) -> InstantStep:
        """The step from *state* by *way* of *row* that replies *reply*."""
        table = self.table
        event = table.rows[row].event.name
        taken = RunStep(
            event=event,
            source=table.states[state],
            target=table.states[way.to],
            outcome=way.name,
            reply=reply,
            emits=way.emits,
            ends=table.rows[row].ends,
            done=way.done,
        )
        # The end of a call is not the event once more: it only replies.
        happens = "" if table.rows[row].ends else event
        instants = tuple(
            Instant(
                state=way.to,
                source=state,
                event=happens,
                reply=f"{event} {reply}" if reply else "",
                output=output,
                outputs=way.emits,
            )
            for output in way.emits or ("",)
        )
        return InstantStep(row=row, way=way, taken=taken, instants=instants)

    @cached_property
    def beginning(self) -> Instant:
        """The first instant of every run."""
        return Instant(state=self.table.initial)


def holds(condition: Condition, table: TransitionSystem) -> Callable[[Instant], bool]:
    """Whether *condition* holds of an instant of *table*."""
    match condition:
        case Not(of=inner):
            negated = holds(inner, table)
            return lambda at: not negated(at)
        case All(of=parts):
            if not parts:
                return lambda at: True  # noqa: ARG005  (of any instant)
            first, rest = holds(parts[0], table), holds(All(of=parts[1:]), table)
            return (lambda at: first(at) and rest(at)) if parts[1:] else first
        case Some(of=parts):
            some = [holds(part, table) for part in parts]
            return lambda at: any(part(at) for part in some)
        case _:
            return _simple(condition, table)


def _simple(
    condition: In | Emits | EmitsOnly | Happens | Replies | StateChanges | SilentOn | At | StepEmits,
    table: TransitionSystem,
) -> Callable[[Instant], bool]:
    match condition:
        case In(states=names, before=before):
            states = frozenset(index for index, name in enumerate(table.states) if name in names)
            return (lambda at: at.source in states) if before else (lambda at: at.state in states)
        case Emits(output=output):
            return lambda at: at.output == output and not at.first
        case EmitsOnly():
            return _emits_only(condition)
        case Happens(event=event):
            return lambda at: at.event == event
        case Replies(event=event, reply=reply):
            said, ok, any_ = f"{event} {reply}", f"{event} ok", f"{event} "
            error = reply == ANY_ERROR
            return lambda at: (at.reply.startswith(any_) and at.reply != ok) if error else at.reply == said
        case StateChanges():
            return lambda at: not at.first and at.source != at.state
        case SilentOn(event=event):
            row = table.row[event]
            silent = frozenset(state for state in range(len(table.states)) if table.step(state, row) is None)
            return lambda at: at.state in silent
        case At(before=before):
            there = table.test(condition)
            return (lambda at: not at.first and there(at.source)) if before else (lambda at: there(at.state))
        case StepEmits(output=output):
            return lambda at: output in at.outputs
        case _:
            assert_never(condition)


def _emits_only(condition: EmitsOnly) -> Callable[[Instant], bool]:
    outputs, among = condition.outputs, condition.among
    if among is None:
        return lambda at: at.outputs == outputs and not at.first
    return lambda at: tuple(each for each in at.outputs if each in among) == outputs and not at.first


def machine_table(table: TransitionSystem) -> Table:
    """*table*, which is that of a machine; raises ``TypeError`` for one of a system."""
    if not isinstance(table, Table):
        raise TypeError("this is asked of a machine, not of a system")
    return table


def codes(conditions: Iterable[Condition]) -> set[str]:
    """The error codes that *conditions* tell apart."""
    found: set[str] = set()
    for condition in conditions:
        match condition:
            case Replies(reply=reply) if reply not in {"ok", ANY_ERROR}:
                found.add(reply)
            case Not(of=inner):
                found |= codes([inner])
            case All(of=parts) | Some(of=parts):
                found |= codes(parts)
    return found
