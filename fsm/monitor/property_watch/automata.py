"""Automata that track how close a run is to breaking a property.

There is an automaton for each kind of property. The progress of a run is a tuple of numbers or, once the run has broken
the property, :class:`Broken`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from fsm.checker.instants import Instant, InstantStep, StepCache, holds, machine_table
from fsm.checker.liveness import LeadsToGraph
from fsm.checker.refinement import BeliefTable, OutputListener
from fsm.checker.safety import DONE, CallPair, IdempotenceAutomaton, SequenceAutomaton, sequences_of
from fsm.machine import claims
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.conditions import All, Condition, Not, Some, WrittenCondition
from fsm.machine.table import tabulate
from fsm.trace import Key

Progress: TypeAlias = tuple[int, ...]
"""The progress of a run towards breaking a property. Only the property's automaton knows what the numbers mean."""

GIVEN_UP: Progress = (-2,)
"""The progress of a run from which nothing more can be concluded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The progress of a run that has broken the property.  ``which`` is the index of the completed sequence."""

    which: int = 0


def parts(claim: claims.Claim) -> tuple[claims.Claim, ...]:
    match claim:
        case claims.Always(conditions=conditions):
            return tuple(replace(claim, conditions=(each,)) for each in conditions)
        case claims.Never(sequences=sequences) | claims.Reachable(sequences=sequences):
            return tuple(replace(claim, sequences=(each,)) for each in sequences)
        case claims.Requires(reached=reached):
            return parts(reached)
        case _:
            return (claim,)


class Passing:
    """Counts how many conditions of each sequence have held so far, in order. A reachable claim is never broken."""

    def __init__(self, claim: claims.Always | claims.Never | claims.Reachable, stepping: StepCache) -> None:
        sequences, until = sequences_of(claim)
        self._breaks = not isinstance(claim, claims.Reachable)
        self._automata = tuple(SequenceAutomaton(each, until, stepping) for each in sequences)
        self._asked = tuple(_trigger(claim, each[-1], stepping) for each in sequences)
        self.texts = tuple(" then ".join(condition.text for condition in each) for each in sequences)

    @property
    def start(self) -> Progress | Broken:
        return self._advance_all(self.restarted, [self._automata[0].steps.beginning])

    @property
    def restarted(self) -> Progress:
        return (0,) * len(self._automata)

    def after(self, progress: Progress, step: InstantStep) -> Progress | Broken:
        return self._advance_all(progress, step.instants)

    def _advance_all(self, progress: Progress, instants: Sequence[Instant]) -> Progress | Broken:
        held = tuple(
            now if now == DONE else automaton.advance(now, instants)
            for now, automaton in zip(progress, self._automata, strict=True)
        )
        return Broken(which=held.index(DONE)) if self._breaks and DONE in held else held

    def asks(self, progress: Progress, step: InstantStep) -> bool:
        for held, automaton, asked in zip(progress, self._automata, self._asked, strict=True):
            if not self._breaks:
                if held != DONE and automaton.advance(held, step.instants) == DONE:
                    return True
            elif held == len(automaton.conditions) - 1 and (asked is None or any(map(asked, step.instants))):
                return True
        return False


def _trigger(
    claim: claims.Always | claims.Never | claims.Reachable, last: WrittenCondition, stepping: StepCache
) -> Callable[[Instant], bool] | None:
    trigger: Condition | None = None
    if isinstance(claim, claims.Always):
        trigger = claim.when.means if claim.when else None
    elif isinstance(last.means, All):
        trigger = Some(of=tuple(part for part in last.means.of if not isinstance(part, Not)) or (last.means,))
    return holds(trigger, stepping.table) if trigger else None


_UNKNOWN: Final = -1
"""The number of calls in progress if earlier calls are unknown."""

_TOO_MANY: Final = -2
"""The number of calls in progress after there were too many to track. An interruption resets it."""

MOST_CALLS: Final = 4


class Repeating:
    """Tracks the calls in progress, if they are known, and the calls that the next step may repeat."""

    restarted: Progress = (_UNKNOWN,)
    start: Progress = (0,)

    def __init__(self, claim: claims.Idempotent, stepping: StepCache) -> None:
        self._automaton = IdempotenceAutomaton(claim, stepping)
        self._end = stepping.table.end
        self._busy = {stepping.table.bare(each) for each in stepping.reached if not stepping.table.idle(each)}
        self._rows = stepping.table.rows
        self.texts = (f"{claim.event} then {claim.event}",)

    def _nodes(self, progress: Progress) -> list[CallPair]:
        size, begin = len(CallPair._fields) - 1, 1 + max(0, progress[0])
        return [CallPair._make((*progress[index : index + size], ())) for index in range(begin, len(progress), size)]

    def _calls(self, progress: Progress, step: InstantStep) -> Progress:
        row = self._rows[step.row]
        if row.event.interrupts:
            return (0,)
        if progress[0] < 0:
            return progress[:1]
        calls = list(progress[1 : 1 + progress[0]])
        if row.ends and row.index in calls:
            calls.remove(row.index)
        if step.way.begins:
            calls.append(row.index if row.ends else self._end[row.index])
        return (len(calls), *sorted(calls)) if len(calls) <= MOST_CALLS else (_TOO_MANY,)

    def after(self, progress: Progress, step: InstantStep) -> Progress | Broken:
        found: set[CallPair] = set()
        calls = self._calls(progress, step)
        idle = step.way.to not in self._busy if calls[0] == _UNKNOWN else not calls[0]
        for node in (CallPair(step.instants[0].source), *self._nodes(progress)):
            for edge in self._automaton.taken(node, step, idle=idle):
                if edge.found:
                    return Broken()
                if edge.to.calls:
                    found.add(edge.to)
        return (*calls, *(part for node in sorted(found) for part in node[:-1]))

    def asks(self, progress: Progress, step: InstantStep) -> bool:
        return any(node.calls and step.row == self._automaton.due(node) for node in self._nodes(progress))


class Owing:
    """Tracks whether the target is due. The property is never broken, because no infinite run is observed."""

    restarted: Progress = (0,)

    def __init__(self, claim: claims.LeadsTo, stepping: StepCache) -> None:
        self.waiting = LeadsToGraph(claim, stepping)
        self.texts = (f"{claim.source.text} leads to {claim.target.text}",)

    @property
    def start(self) -> Progress:
        return (int(self.waiting.due(due=False, instants=[self.waiting.steps.beginning])),)

    def after(self, progress: Progress, step: InstantStep) -> Progress:
        return (int(self.waiting.due(due=bool(progress[0]), instants=step.instants)),)

    def asks(self, progress: Progress, step: InstantStep) -> bool:
        return any(self.after(progress, step)) or any(progress)


class Following:
    def __init__(self, claim: claims.Follows, stepping: StepCache, profile: str | None) -> None:
        other = tabulate(claim.other.partly_under(profile))
        self._listener = OutputListener(machine_table(stepping.table), other)
        self.start: Progress = (self._listener.belief_table.initial,)
        self.restarted: Progress = (self._listener.belief_table.everything,)
        self.texts = (f"is a run of {claim.other.name}",)

    def after(self, progress: Progress, step: InstantStep) -> Progress | Broken:
        if progress == GIVEN_UP:
            return GIVEN_UP
        try:
            belief = self._listener.after(progress[0], step)
        except TooManyError:
            return GIVEN_UP
        return (belief,) if belief >= 0 else Broken()

    def asks(self, progress: Progress, step: InstantStep) -> bool:
        known = self._listener.belief_table.dynamics.names
        return progress != GIVEN_UP and any(event in known for event in self._listener.observed(step))


class Resembling:
    """Tracks the calls in progress and a belief about the other machine, which must allow all observations."""

    restarted = GIVEN_UP

    def __init__(self, claim: claims.Refines, stepping: StepCache, profile: str | None) -> None:
        self._table = machine_table(stepping.table)
        self._beliefs = BeliefTable(self._table, tabulate(claim.other.partly_under(profile)))
        self._overlap = claim.overlap
        self.start: Progress = (self._beliefs.initial,)
        self.texts = (f"is allowed by {claim.other.name}",)

    def after(self, progress: Progress, step: InstantStep) -> Progress | Broken:
        belief, *calls = progress
        event = self._table.rows[step.row].event
        call, name = self._table.row[event.name], self._beliefs.called(event)
        if progress == GIVEN_UP or (calls and self._overlap == 0 and call not in calls):
            return GIVEN_UP
        seen = [Key(event=name)] if event.kind == "signal" else []
        if event.kind == "call":
            if not self._table.rows[step.row].ends:
                seen.append(Key(event=name, phase="request"))
                calls.append(step.row)
            if call not in calls or len(calls) > max(1, self._overlap):
                return GIVEN_UP
            if not step.way.begins:
                calls.remove(call)
                seen.append(Key(event=name, phase="reply", reply=step.taken.reply))
        if event.interrupts:
            seen += [Key(event=self._beliefs.called(self._table.rows[row].event), phase="lost") for row in calls]
            calls.clear()
        seen.append(Key(shows=self._table.shows[step.way.to]))
        try:
            for each in seen:
                belief = self._beliefs.after(belief, each)
                if belief < 0:
                    return Broken()
        except TooManyError:
            return GIVEN_UP
        return (belief, *sorted(calls))

    def asks(self, progress: Progress, step: InstantStep) -> bool:
        event = self._table.rows[step.row].event
        known = self._beliefs.dynamics.names
        return progress != GIVEN_UP and event.kind != "hidden" and self._beliefs.called(event) in known


PropertyMemory: TypeAlias = Passing | Repeating | Owing | Following | Resembling
"""The automaton of a property.

``texts`` are the sequences that ``Broken.which`` refers to. ``start`` is the progress after the first instant.
``restarted`` is the progress to use when the past is unknown. A run that breaks the property from this progress on
would break it after any past. ``after`` returns the progress after another step. ``asks`` checks whether a step tests
the property.
"""


def memory(claim: claims.Claim, stepping: StepCache, profile: str | None) -> PropertyMemory:
    match claim:
        case claims.Idempotent():
            return Repeating(claim, stepping)
        case claims.LeadsTo():
            return Owing(claim, stepping)
        case claims.Follows():
            return Following(claim, stepping, profile)
        case claims.Refines():
            return Resembling(claim, stepping, profile)
        case claims.MatchesDiagram():
            raise ValueError("a drawing can be compared with a machine, but not with an implementation")
        case _:
            return Passing(claim.reached if isinstance(claim, claims.Requires) else claim, stepping)
