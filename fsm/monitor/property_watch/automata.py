"""Automata that track how close a run is to breaking a property.

There is an automaton for each kind of property. The progress of a run is a tuple of numbers or, once the run has broken
the property, :class:`Broken`.

Values of data may be unknown. An automaton that is *sure* makes progress only if the conditions hold whatever these
values are. Another one also makes progress if the conditions hold for some of these values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

from fsm.checker.instants import Instant, InstantStep, StepCache, holds, machine_table
from fsm.checker.liveness import LeadsToGraph
from fsm.checker.refinement import BeliefTable, OutputListener
from fsm.checker.safety import DONE, CallPair, IdempotenceAutomaton, SequenceAutomaton, sequences_of
from fsm.machine import claims
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.calls.valued import with_data
from fsm.machine.conditions import (
    All,
    Compare,
    Condition,
    In,
    Not,
    Some,
    WrittenCondition,
    atoms,
    certainly,
    compares_data,
    possibly,
)
from fsm.machine.guards import may_agree
from fsm.machine.in_progress import in_progress
from fsm.machine.table import Table, tabulate
from fsm.machine.terms import Values
from fsm.machine.traversal import Numbering
from fsm.trace import Key


class ValuedSteps(StepCache):
    """The steps of *table*, which has data, with values that may be unknown.

    If *declared* is true, all values are known and within their ranges, as for the checker.
    """

    def __init__(self, table: Table, *, declared: bool = False) -> None:
        plain = tabulate(replace(table.machine, timers={}))
        super().__init__(replace(plain, data=None))
        self._unguarded = StepCache(replace(plain, data=None))
        self.table = in_progress(plain) if declared else with_data(table)

    @cached_property
    def bare(self) -> tuple[frozenset[int], frozenset[int]]:
        return self._unguarded.bare  # reaching only the possible values would take too long


def steps_of(table: Table) -> StepCache:
    return ValuedSteps(table) if table.data else StepCache(table)


def watched_table(stepping: StepCache) -> Table:
    """Return the table without calls in progress, which beliefs add, but with data."""
    table = stepping.table
    return table if isinstance(table, Table) and isinstance(stepping, ValuedSteps) else machine_table(table)


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
    """Counts how many conditions of each sequence have held so far, in order. A reachable claim is never broken.

    ``of_states`` is true if the state and the data at a single instant decide the claim.
    """

    def __init__(
        self, claim: claims.Always | claims.Never | claims.Reachable, stepping: StepCache, *, sure: bool = True
    ) -> None:
        sequences, until = sequences_of(claim)
        holds, resets = (certainly, possibly) if sure else (possibly, certainly)
        until = until and replace(until, means=resets(until.means))
        self._breaks = not isinstance(claim, claims.Reachable)
        self._automata = tuple(
            SequenceAutomaton(tuple(replace(each, means=holds(each.means)) for each in sequence), until, stepping)
            for sequence in sequences
        )
        parts = [part for sequence in sequences for each in sequence for part in atoms(each.means)]
        self.of_states = all(isinstance(each, Compare) or (isinstance(each, In) and not each.before) for each in parts)
        self.of_states = self.of_states and all(len(each) == 1 for each in sequences)
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

    def at_state(self, progress: Progress, state: int) -> Progress | Broken:
        """Return the progress if the value of a variable in *state* becomes known."""
        return self._advance_all(progress, [Instant(state=state)]) if self.of_states else progress

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
    return holds(certainly(trigger), stepping.table) if trigger else None


_UNKNOWN: Final = -1
"""The number of calls in progress if earlier calls are unknown."""

_TOO_MANY: Final = -2
"""The number of calls in progress after there were too many to track. An interruption resets it."""

MOST_CALLS: Final = 4


class _Repeated(IdempotenceAutomaton):
    """Compares arguments and values, which may be unknown."""

    def __init__(self, claim: claims.Idempotent, stepping: StepCache, *, sure: bool) -> None:
        once = claim.once and replace(claim.once, means=(certainly if sure else possibly)(claim.once.means))
        super().__init__(replace(claim, once=once), stepping)
        self._sure = sure

    def same_arguments(self, one: tuple[Values, ...], other: tuple[Values, ...]) -> bool:
        known = one == other and not any(None in each for each in one)
        return known if self._sure else may_agree(one, other)

    def changed(self, before: int, after: int) -> bool:
        table = self.steps.table
        if table.bare(before) != table.bare(after):
            return True
        pairs = zip(table.settled(before)[1], table.settled(after)[1], strict=True)
        return any(old != new if old is not None and new is not None else not self._sure for old, new in pairs)


class Repeating:
    """Tracks the calls in progress, if they are known, and the calls that the next step may repeat."""

    restarted: Progress = (_UNKNOWN,)
    start: Progress = (0,)

    def __init__(self, claim: claims.Idempotent, stepping: StepCache, *, sure: bool = True) -> None:
        self._automaton = _Repeated(claim, stepping, sure=sure)
        self._given: Numbering[tuple[Values, ...]] = Numbering()
        self._end = stepping.table.end
        self._table = stepping.table
        _, self._busy = stepping.bare
        self.texts = (f"{claim.event} then {claim.event}",)

    def _nodes(self, progress: Progress) -> list[CallPair]:
        size, begin = len(CallPair._fields), 1 + max(0, progress[0])
        nodes = (progress[index : index + size] for index in range(begin, len(progress), size))
        return [CallPair._make((*rest, self._given.listed[given])) for *rest, given in nodes]

    def _calls(self, progress: Progress, step: InstantStep) -> Progress:
        row = self._table.rows[step.row]
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
        idle = self._table.bare(step.way.to) not in self._busy if calls[0] == _UNKNOWN else not calls[0]
        for node in (CallPair(step.instants[0].source), *self._nodes(progress)):
            for edge in self._automaton.taken(node, step, idle=idle):
                if edge.found:
                    return Broken()
                if edge.to.calls:
                    found.add(edge.to)
        return (*calls, *(part for node in sorted(found) for part in (*node[:-1], self._given[node.given])))

    def asks(self, progress: Progress, step: InstantStep) -> bool:
        return any(node.calls and self._automaton.repeats(node, step) for node in self._nodes(progress))


class Owing:
    """Tracks whether the target is due. The property is never broken, because no infinite run is observed."""

    restarted: Progress = (0,)

    def __init__(self, claim: claims.LeadsTo, stepping: StepCache) -> None:
        source, target = certainly(claim.source.means), possibly(claim.target.means)
        claim = replace(claim, source=replace(claim.source, means=source), target=replace(claim.target, means=target))
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
        self._listener = OutputListener(watched_table(stepping), other)
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
        self._table = watched_table(stepping)
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
                calls.append(call)
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


def memory(claim: claims.Claim, stepping: StepCache, profile: str | None, *, sure: bool = True) -> PropertyMemory:
    match claim:
        case claims.Idempotent():
            return Repeating(claim, stepping, sure=sure)
        case claims.LeadsTo():
            return Owing(claim, stepping)
        case claims.Follows():
            return Following(claim, stepping, profile)
        case claims.Refines():
            return Resembling(claim, stepping, profile)
        case claims.MatchesDiagram():
            raise ValueError("a drawing can be compared with a machine, but not with an implementation")
        case _:
            return Passing(claim.reached if isinstance(claim, claims.Requires) else claim, stepping, sure=sure)


def depends_on_values(claim: claims.Claim) -> bool:
    """Check whether runs with the same states and events, but other values, may differ in breaking *claim*."""
    if not isinstance(claim, claims.Always | claims.Never):
        return isinstance(claim, claims.Idempotent)
    return any(compares_data(each.means) for each in claims.conditions_of(claim))
