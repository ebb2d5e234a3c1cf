"""A slow interpreter of traces, as a second opinion on the monitor.

It follows the definitions: it reads the cells in a machine's dataclasses, and shares no code with
:mod:`fsm.machine.table` or :mod:`fsm.monitor`. It neither merges nor skips anything, so only short traces can be read
in a reasonable time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from fsm.machine import Cannot, Ignores, Moves, Refuses, Silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fsm.machine import Cell, Machine
    from fsm.trace import Observation

Stage: TypeAlias = Literal["asked", "begun", "acted", "vain", "ended", "free", "cut", "lost", "lost-begun"]
"""The stage of a call.

It is ``free`` if its end is unspecified, and ``cut`` if it was interrupted after it had begun.
"""


class Way(NamedTuple):
    """A possible effect of an event in a state."""

    to: str
    replies: frozenset[str]
    emits: tuple[str, ...]
    begins: bool
    outcome: str


class Call(NamedTuple):
    """A call that is in progress or abandoned. ``acted`` is the state in which it first took effect."""

    event: str
    stage: Stage
    acted: str = ""
    replies: tuple[str, ...] = ()
    emits: tuple[str, ...] = ()


class Situation(NamedTuple):
    """A possible state of an entity with its calls in progress."""

    state: str
    calls: tuple[Call, ...] = ()

    def without(self, call: Call) -> Situation:
        left = list(self.calls)
        left.remove(call)
        return Situation(self.state, tuple(left))

    def with_call(self, call: Call) -> Situation:
        return Situation(self.state, tuple(sorted((*self.calls, call))))

    def at(self, state: str) -> Situation:
        return Situation(state, self.calls)


# -- one machine, one step ---------------------------------------------------


def ways(machine: Machine, state: str, event: str) -> set[Way] | None:
    """Return the possible effects of *event* in *state*, or ``None`` if the cell is silent."""
    return _of_cell(machine.events[event].cells[state], state, call=machine.events[event].kind == "call")


def ends(machine: Machine, state: str, event: str) -> set[Way]:
    """Return the possible ends of a call in *state*, if it can end there."""
    cell = machine.events[event].ends.get(state)
    return set() if cell is None else _of_cell(cell, state, call=True) or set()


def _of_cell(cell: Cell, state: str, *, call: bool) -> set[Way] | None:
    match cell:
        case Silent():
            return None
        case Cannot():
            return set()
        case Ignores():
            return {Way(state, frozenset({"ok"} if call else ()), (), begins=False, outcome="ignored")}
        case Refuses():
            return {Way(state, frozenset(cell.codes), (), begins=False, outcome="refused")}
        case Moves():
            return {
                Way(each.to, frozenset(each.reply), each.emits, begins=each.begins, outcome=each.name)
                for each in cell.outcomes
            }


# -- behaviours that explain a trace --------------------------------------


def first_unexplained(
    machine: Machine,
    trace: Sequence[Observation],
    *,
    fresh: bool = False,
    seen: frozenset[str] | None = None,
    once: bool = False,
) -> int | None:
    """Return the index of the first observation that no behaviour explains, or ``None``.

    *seen* contains the signals that the trace shows. An abandoned call may act at any later time. It may act more
    than once, because its caller may have repeated it; with *once*, it acts at most once.
    """
    found = beliefs(Asking(machine, seen, once=once), trace, fresh=fresh)
    return next((index for index, (_, after) in enumerate(found) if not after), None)


def beliefs(
    asking: Asking, trace: Sequence[Observation], *, fresh: bool = False
) -> Iterator[tuple[set[Situation], set[Situation]]]:
    """Yield the possible situations before and after each observation, until an observation is inexplicable."""
    machine = asking.machine
    everywhere = [Situation(state) for state in machine.states]
    now = asking.later([Situation(machine.initial)] if fresh else everywhere)
    for each in trace:
        before, event = now, _event(machine, each.event)
        if each.phase == "gap":
            # During the gap, anything may have happened, both to the calls in progress and to other calls.
            now = asking.later(everywhere)
        elif event or not each.event:
            ends = event and machine.events[event].kind == "call" and each.phase in {"reply", "lost"}
            if event and ends and not any(_waits(call, event) for here in now for call in here.calls):
                # The request for this reply was not recorded, and perhaps nothing before it was recorded either.
                before = asking.later(
                    here.with_call(Call(one, "asked"))
                    for here in asking.later(everywhere)
                    for one in asking.events(event)
                )
            now = asking.explains(before, each)
        yield before, now
        if not now:
            return


def _event(machine: Machine, name: str) -> str | None:
    return next((each.name for each in machine.events.values() if name in {each.name, each.rpc} - {""}), None)


def _waits(call: Call, event: str) -> bool:
    return _same(call.event, event) and not call.stage.startswith("lost")


def _same(one: str, other: str) -> bool:
    """Check whether two events differ at most in their arguments, which are in parentheses."""
    return one.partition("(")[0] == other.partition("(")[0]


class Asking:
    def __init__(self, machine: Machine, seen: frozenset[str] | None, *, once: bool) -> None:
        self.machine = machine
        self.once = once
        self.unseen = [
            event.name
            for event in machine.events.values()
            if event.kind == "hidden" or (event.kind == "signal" and seen is not None and event.name not in seen)
        ]

    def events(self, event: str) -> Sequence[str]:
        """Return the events that *event* may be."""
        return [event]

    def explains(self, now: set[Situation], each: Observation) -> set[Situation]:
        event = _event(self.machine, each.event)
        if each.event and event is None:
            return now
        now = self.later(self.sees(now, each, event))
        if each.shows:
            now = self.later(here for here in now if self.machine.states[here.state].shows == each.shows)
        return now

    def later(self, situations: Iterable[Situation]) -> set[Situation]:
        found = set(situations)
        todo = list(found)
        while todo:
            fresh = set(self.instants(todo.pop())) - found
            found |= fresh
            todo += fresh
        return found

    def instants(self, here: Situation) -> Iterator[Situation]:
        for call in set(here.calls):
            yield from self.acts(here, call)
        for event in self.unseen:
            yield from self.happens(here, event, None)

    def acts(self, here: Situation, call: Call) -> Iterator[Situation]:
        others = here.without(call)
        match call.stage:
            case "asked":
                yield from self.first_acts(others, here.state, call.event)
            case "begun":
                found = ends(self.machine, here.state, call.event)
                yield from (self.acted(others, way, call.event, call.acted) for way in found)
                if not found:  # the call does not report this state either
                    yield others.with_call(Call(call.event, "ended"))
            case "lost":
                yield from self.acts_late(others if self.once else here, call.event)
            case "lost-begun":
                for way in ends(self.machine, here.state, call.event):
                    yield here.at(way.to) if way.begins or not self.once else others.at(way.to)
            case "acted" | "vain" | "ended" | "free" | "cut":
                pass

    def first_acts(self, others: Situation, state: str, event: str) -> Iterator[Situation]:
        found = ways(self.machine, state, event)
        if found is None:
            for to in self.machine.states:
                yield others.at(to).with_call(Call(event, "free", state))
                if self.machine.events[event].ends:
                    yield others.at(to).with_call(Call(event, "begun", state))
        yield from (self.acted(others, way, event, state) for way in found or ())
        # The call may have had no effect, and its reply may be indefinite.
        yield others.with_call(Call(event, "vain", state))

    def acts_late(self, left: Situation, event: str) -> Iterator[Situation]:
        """Yield the situations that may follow if an abandoned call of *event* takes effect in the situation *left*."""
        found = ways(self.machine, left.state, event)
        if found is None:
            for to in self.machine.states:
                yield from (left.at(to), self.with_lost(left, event, "lost-begun").at(to))
        for way in found or ():
            yield self.with_lost(left, event, "lost-begun").at(way.to) if way.begins else left.at(way.to)

    def acted(self, others: Situation, way: Way, event: str, state: str) -> Situation:
        if way.begins:
            return others.at(way.to).with_call(Call(event, "begun", state))
        return others.at(way.to).with_call(Call(event, "acted", state, tuple(sorted(way.replies)), way.emits))

    def with_lost(self, here: Situation, event: str, stage: Stage) -> Situation:
        call = Call(event, stage)
        return here if call in here.calls and not self.once else here.with_call(call)

    def happens(self, here: Situation, event: str, emits: tuple[str, ...] | None) -> Iterator[Situation]:
        kept = self.interrupted(here) if self.machine.events[event].interrupts else here
        found = ways(self.machine, here.state, event)
        if found is None:
            for state in self.machine.states:
                yield kept.at(state)
        for way in found or ():
            if emits in {None, way.emits}:
                yield kept.at(way.to)

    def interrupted(self, here: Situation) -> Situation:
        calls = (
            Call(call.event, "cut") if call.stage == "begun" else call
            for call in here.calls
            if call.stage not in {"lost", "lost-begun"}
        )
        return Situation(here.state, tuple(sorted(calls)))

    def sees(self, now: set[Situation], each: Observation, event: str | None) -> Iterator[Situation]:
        if event is None:
            yield from now
        elif self.machine.events[event].kind != "call":
            for here in now:
                # In the phases noticed and maybe, the event may have had no effect, so calls may still be in progress.
                over = Situation(here.state) if self.machine.events[event].interrupts and not each.phase else here
                yield from self.happens(over, event, each.emits)
                possible = ways(self.machine, here.state, event) != set()
                if each.phase == "maybe" or (each.phase == "noticed" and possible):
                    yield here
        else:
            yield from self.calls(now, each, event)

    def calls(self, now: set[Situation], each: Observation, event: str) -> Iterator[Situation]:
        asked = (here.with_call(Call(event, "asked")) for here in now)
        match each.phase:
            case "request":
                yield from asked
            case "lost":
                for here in now:
                    yield from self.given_up(here, event)
            case "maybe" | "noticed":
                # Nobody waits for a reply, because the call may not have been made.
                for here in self.later(asked):
                    yield from self.given_up(here, event)
            case _:
                for here in now if each.phase else self.later(asked):
                    yield from (here.without(call) for call in set(here.calls) if self.fits(call, each, event))

    def given_up(self, here: Situation, event: str) -> Iterator[Situation]:
        """Yield the situations after the caller of *event* gives up.

        If an interruption has already ended the call, the situation does not change.
        """
        waiting = [call for call in set(here.calls) if _waits(call, event)]
        if not waiting:
            yield here
        for call in waiting:
            left = here.without(call)
            match call.stage:
                case "asked":
                    yield self.with_lost(left, call.event, "lost")
                case "begun":
                    yield self.with_lost(left, call.event, "lost-begun")
                case _:
                    yield left

    def fits(self, call: Call, each: Observation, event: str) -> bool:
        if _same(call.event, event) and call.stage == "cut":
            return not each.met and not each.emits and (not each.reply or each.reply in self.machine.indefinite)
        if not _same(call.event, event) or call.stage not in {"acted", "vain", "ended", "free"}:
            return False
        if each.met and call.acted and self.machine.states[call.acted].shows != each.met:
            return False
        if call.stage == "free":
            return True
        if call.stage == "ended":
            return not each.emits
        if call.stage == "vain":
            unknown = not each.reply and each.phase == "reply"
            return not each.emits and (unknown or each.reply in self.machine.indefinite)
        if each.emits is not None and each.emits != call.emits:
            return False
        error = "error" in call.replies and each.reply != "ok"
        return not each.reply or each.reply in self.machine.indefinite or each.reply in call.replies or error


# -- outputs alone -------------------------------------------------------------


def first_unexplained_output(machine: Machine, outputs: Sequence[str]) -> int | None:
    """Return the index of the first output that no run from the initial state emits, or ``None``.

    The duration of calls is ignored. An event emits its outputs together, so all of them must be in *outputs*.
    """
    now: set[tuple[str, tuple[str, ...]]] = {(machine.initial, ())}
    for index, output in enumerate(outputs):
        now = {(state, waiting[1:]) for state, waiting in _emitting(machine, now) if waiting[:1] == (output,)}
        if not now:
            return index
    return None


def _emitting(machine: Machine, now: set[tuple[str, tuple[str, ...]]]) -> set[tuple[str, tuple[str, ...]]]:
    found = set(now)
    todo = list(now)
    while todo:
        state, waiting = todo.pop()
        for event in machine.events:
            went = ways(machine, state, event)
            after = {(each, waiting) for each in machine.states} if went is None else set()
            after |= {(way.to, waiting + way.emits) for way in went or () if not (waiting and way.emits)}
            todo += after - found
            found |= after
    return found
