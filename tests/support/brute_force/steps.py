"""Configurations of machines and systems, and the steps between them.

A configuration holds the state of every copy of every part, and the calls that each copy has in progress. A machine
counts as a single copy. The code favours simplicity: it lists every step of every configuration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

from fsm.machine import Cannot, Event, Ignores, Machine, Moves, Outcome, Refuses, Silent
from fsm.machine.conditions import All, At, Compare, Condition, Not, Some
from fsm.machine.product.system import JointEvent, JointWay, PartStep, System

Copy: TypeAlias = tuple[str, tuple[str, ...]]
"""The state of a copy, with a sorted list of its calls in progress."""

Configuration: TypeAlias = tuple[Copy, ...]

Stage: TypeAlias = Literal["acts", "begins", "ends", "continues"]
"""Whether a step is a whole event, the beginning or end of a call, or a change of state during the call."""

Cut: TypeAlias = frozenset[tuple[str, bool, str]]
"""Events, whether they are ends of calls, and their outcomes."""

UNLIMITED = 1_000_000

OTHER = "ANY_OTHER_ERROR"
"""The code that represents all error codes that no model or claim names."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a run.

    ``reply`` is empty unless a call replies. ``unwritten`` is true if the model does not specify how the call ends,
    and ``unspecified`` if the model is silent about the event in this state. ``among`` lists the written replies from
    which ``reply`` was chosen. ``given`` holds the arguments of the event. ``emitted`` pairs each output with the copy that emits it. A ``signal`` is an
    observable event that is not a call.
    """

    event: str
    stage: Stage
    source: Configuration
    target: Configuration
    outcome: str = ""
    reply: str = ""
    emits: tuple[str, ...] = ()
    unwritten: bool = False
    unspecified: bool = False
    given: tuple[int | bool | str, ...] = ()
    among: tuple[str, ...] = ()
    emitted: tuple[tuple[str, int], ...] = ()
    signal: bool = False

    @cached_property
    def instants(self) -> tuple[Instant, ...]:
        """Return the points at which a condition can be evaluated.

        There is one for each output, or a single one if the step has no outputs.
        """
        return tuple(Instant(self.target, self, output) for output in self.emits or ("",))


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in a run, with the configuration and the step that led to it, if any."""

    after: Configuration
    step: Step | None = None
    output: str = ""


class Model(Protocol):
    """A machine or a system.

    Each copy may have several calls of one event in progress.
    """

    @property
    def initial(self) -> Configuration: ...

    def steps(self, here: Configuration, codes: frozenset[str] = frozenset()) -> list[Step]:
        """Return every step that is possible next.

        If a call may reply with any error, there is a step for each of *codes*, and one for all other codes.
        """

    def cut(self, here: Configuration) -> Cut:
        """Return the steps that would be possible without the limit ``overlap`` and the scopes of variables."""

    def silent(self, here: Configuration, event: str) -> bool:
        """Check whether the model is silent about *event* in this configuration."""

    def shows(self, here: Configuration) -> str: ...

    def compares(self, condition: Compare, here: Configuration) -> bool:
        """Evaluate a condition on data."""
        raise TypeError(f"{self} has no data for {condition} in {here}")


def possible_replies(reply: tuple[str, ...], codes: frozenset[str]) -> tuple[str, ...]:
    """Return the single replies that *reply* represents.

    >>> possible_replies(("ok", "error"), frozenset({"BUSY"}))
    ('ok', 'BUSY', 'ANY_OTHER_ERROR')
    """
    found = [one for each in reply for one in ((*sorted(codes), OTHER) if each == "error" else (each,))]
    return tuple(dict.fromkeys(found))


def outcomes_of(event: Event, state: str) -> tuple[Outcome, ...] | None:
    """Return the outcomes of *event* in *state*, or ``None`` if the model is silent."""
    match event.cells[state]:
        case Moves(outcomes=outcomes):
            return outcomes
        case Ignores():
            return (Outcome(name="ignored", to=state, reply=("ok",) if event.kind == "call" else ()),)
        case Refuses(codes=codes):
            return (Outcome(name="refused", to=state, reply=codes),)
        case Cannot():
            return ()
        case Silent():
            return None


def cut_of(possible: list[Step], taken: list[Step]) -> Cut:
    left = set(possible).difference(taken)
    return frozenset((step.event, step.stage in {"ends", "continues"}, step.outcome) for step in left)


def without(calls: tuple[str, ...], event: str) -> tuple[str, ...]:
    """Return *calls* without one call of *event*.

    >>> without(("start", "start", "stop"), "start")
    ('start', 'stop')
    """
    at = calls.index(event)
    return calls[:at] + calls[at + 1 :]


def _kept(calls: tuple[str, ...], event: Event) -> tuple[str, ...]:
    return () if event.interrupts else calls


def after_outcome(copy: Copy, event: Event, outcome: Outcome, *, ends: bool) -> Copy:
    calls = without(copy[1], event.name) if ends else _kept(copy[1], event)
    if outcome.begins:
        calls = tuple(sorted((*calls, event.name)))
    return outcome.to, calls


@dataclass(frozen=True, slots=True)
class MachineModel(Model):
    machine: Machine
    overlap: int = 1

    @property
    def initial(self) -> Configuration:
        return ((self.machine.initial, ()),)

    def steps(self, here: Configuration, codes: frozenset[str] = frozenset()) -> list[Step]:
        [copy] = here
        state, calls = copy
        found: list[Step] = []
        for event in self.machine.events.values():
            for outcome in outcomes_of(event, state) or ():
                if outcome.begins and _kept(calls, event).count(event.name) >= self.overlap:
                    continue
                found += self._steps(here, event, outcome, codes, ends=False)
        for name in sorted(set(calls)):
            event = self.machine.events[name]
            end = event.ends.get(state)
            if end is None:
                ended = ((state, without(calls, name)),)
                found += [
                    Step(event=name, stage="ends", source=here, target=ended, reply=reply, unwritten=True)
                    for reply in ("ok", *sorted(codes), OTHER)
                ]
            else:
                for outcome in end.outcomes:
                    found += self._steps(here, event, outcome, codes, ends=True)
        return found

    def _steps(
        self, here: Configuration, event: Event, outcome: Outcome, codes: frozenset[str], *, ends: bool
    ) -> list[Step]:
        stage: Stage = ("continues" if outcome.begins else "ends") if ends else ("begins" if outcome.begins else "acts")
        step = Step(
            event=event.name,
            stage=stage,
            source=here,
            target=(after_outcome(here[0], event, outcome, ends=ends),),
            outcome=outcome.name,
            emits=outcome.emits,
            among=outcome.reply,
            emitted=tuple((output, 0) for output in outcome.emits),
            signal=event.kind == "signal",
        )
        if event.kind != "call" or outcome.begins:
            return [step]
        return [replace(step, reply=reply) for reply in possible_replies(outcome.reply, codes)]

    def cut(self, here: Configuration) -> Cut:
        return cut_of(MachineModel(self.machine, UNLIMITED).steps(here), self.steps(here))

    def silent(self, here: Configuration, event: str) -> bool:
        return isinstance(self.machine.events[event].cells[here[0][0]], Silent)

    def shows(self, here: Configuration) -> str:
        return self.machine.states[here[0][0]].shows


def state_condition(condition: Condition, here: Configuration) -> bool:
    match condition:
        case Not(of=inner):
            return not state_condition(inner, here)
        case All(of=parts):
            return all(state_condition(each, here) for each in parts)
        case Some(of=parts):
            return any(state_condition(each, here) for each in parts)
        case At(copies=copies, states=states, every=every):
            found = [here[digit][0] in states for digit in copies]
            return all(found) if every else any(found)
        case _:
            raise TypeError(f"{condition} is not about states")


@dataclass(frozen=True, slots=True)
class Partly:
    """A joint event in which some of the parts have already taken their steps.

    ``error`` is the error of the part that ended the event, or empty. ``among`` lists the errors with which that part
    could have replied.
    """

    here: Configuration
    emitted: tuple[tuple[str, int], ...] = ()
    error: str = ""
    among: tuple[str, ...] = ()
    unwritten: bool = False


@dataclass(frozen=True, slots=True)
class SystemModel(Model):
    system: System
    overlap: int = 1

    @property
    def initial(self) -> Configuration:
        return tuple((self.system.parts[copy.part].initial, ()) for copy in self.system.copies)

    def steps(self, here: Configuration, codes: frozenset[str] = frozenset()) -> list[Step]:
        return [
            step
            for joint in self.system.events.values()
            for way in joint.ways
            for step in self._way(here, joint, way, codes)
        ]

    def cut(self, here: Configuration) -> Cut:
        return cut_of(SystemModel(self.system, UNLIMITED).steps(here), self.steps(here))

    def silent(self, here: Configuration, event: str) -> bool:  # noqa: ARG002  (a method of the protocol)
        return False  # a joint event cannot happen if it is unspecified for one of its parts

    def shows(self, here: Configuration) -> str:
        return " ".join(state for state, _ in here)

    def _way(self, here: Configuration, joint: JointEvent, way: JointWay, codes: frozenset[str]) -> list[Step]:
        for when in (joint.when, way.when):
            if when is not None and not state_condition(when, here):
                return []
        call = joint.kind == "call"
        going, over = [Partly(here)], list[Partly]()
        for part_step in way.steps:
            after = [
                found
                for each in going
                for found in self.part_step(each, part_step, codes, ends=call and not part_step.goes_on)
            ]
            over += [each for each in after if each.error]
            going = [each for each in after if not each.error]
        among = (way.reply or ("ok",)) if call else ()
        replies = possible_replies(among, codes) if call else ("",)
        ends = [(each, reply, among) for each in going for reply in replies]
        ends += [(each, each.error, each.among) for each in over]
        steps = [
            Step(
                event=joint.name,
                stage="acts",
                source=here,
                target=each.here,
                outcome=way.name,
                reply=reply,
                emits=tuple(f"{output}{self.system.copies[digit].suffix}" for output, digit in each.emitted),
                among=written,
                emitted=each.emitted,
                signal=joint.kind == "signal",
                unwritten=each.unwritten,
            )
            for each, reply, written in ends
        ]
        return list(dict.fromkeys(steps))

    def part_step(self, before: Partly, part_step: PartStep, codes: frozenset[str], *, ends: bool) -> list[Partly]:
        """Return the possible results of a step by one part. There are none if the step is impossible.

        If *ends* is true, an error ends the joint event.
        """
        if part_step.when is not None and not state_condition(part_step.when, before.here):
            return [before]
        copy = part_step.copy
        part = self.system.parts[copy.part]
        state, calls = own = before.here[copy.digit]
        if not part_step.event:
            return [replace(before, here=_with(before.here, copy.digit, (part.initial, ())))]
        event = part.machine.events[part_step.event]
        unwritten = part_step.ends and event.name in calls and state not in event.ends
        if unwritten:
            outcomes: tuple[Outcome, ...] = (Outcome(name="", to=state, reply=("ok", "error")),)
        elif part_step.ends:
            outcomes = event.ends[state].outcomes if event.name in calls else ()
        else:
            outcomes = outcomes_of(event, state) or ()
        heard = part.heard is None or state_condition(part.heard, before.here)
        found: list[Partly] = []
        for outcome in outcomes:
            if outcome.name in part.without or (part_step.outcomes and outcome.name not in part_step.outcomes):
                continue
            if outcome.begins and not part_step.ends and _kept(calls, event).count(event.name) >= self.overlap:
                continue
            there = _with(before.here, copy.digit, after_outcome(own, event, outcome, ends=part_step.ends))
            emitted = (*before.emitted, *((output, copy.digit) for output in outcome.emits if heard))
            after = replace(before, here=there, emitted=emitted, unwritten=before.unwritten or unwritten)
            replies = possible_replies(outcome.reply, codes)
            errors = [reply for reply in replies if reply != "ok"] if ends else []
            written = tuple(reply for reply in outcome.reply if reply != "ok")
            found += [replace(after, error=error, among=written) for error in errors]
            if len(errors) < len(replies) or not replies:
                found.append(after)
        return found


def _with(here: Configuration, digit: int, copy: Copy) -> Configuration:
    return (*here[:digit], copy, *here[digit + 1 :])


@dataclass(frozen=True)
class Runs:
    """All reachable configurations and the steps from them, with the nearest configurations first.

    Error codes that are not in *codes* are not distinguished. Raises :class:`OverflowError` if there are more than
    *most* configurations.
    """

    model: Model
    codes: frozenset[str] = frozenset()
    most: int = 50_000

    @cached_property
    def _found(self) -> tuple[dict[Configuration, list[Step]], dict[Configuration, int]]:
        depth = {self.model.initial: 0}
        steps: dict[Configuration, list[Step]] = {}
        going = [self.model.initial]
        for here in going:  # the list grows during the loop
            steps[here] = self.model.steps(here, self.codes)
            for step in steps[here]:
                if step.target not in depth:
                    depth[step.target] = depth[here] + 1
                    going.append(step.target)
            if len(depth) > self.most:
                raise OverflowError
        return steps, depth

    @property
    def steps(self) -> dict[Configuration, list[Step]]:
        return self._found[0]

    @property
    def depth(self) -> dict[Configuration, int]:
        return self._found[1]

    @cached_property
    def cut(self) -> dict[Configuration, Cut]:
        found = {here: self.model.cut(here) for here in self.steps}
        return {here: begins for here, begins in found.items() if begins}
