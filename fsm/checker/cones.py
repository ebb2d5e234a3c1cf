"""Decide each claim on the smallest sufficient part of a system.

This part is the cone of influence of the claim.  :mod:`fsm.machine.product` describes cones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from msgspec import structs

from fsm.checker.alike import Alike
from fsm.checker.breadth_first import Limit, SearchEdge, search
from fsm.checker.instants import InstantStep, StepCache, system_table
from fsm.checker.refinement import OutputListener
from fsm.checker.safety import IdempotenceAutomaton, N, SequenceAutomaton, needed, retaken, same_states, sequences_of
from fsm.machine import Machine, conditions
from fsm.machine.claims import (
    Always,
    Claim,
    Counts,
    Follows,
    Idempotent,
    LeadsTo,
    Never,
    Reachable,
    conditions_of,
)
from fsm.machine.conditions import (
    All,
    Atom,
    Condition,
    Emits,
    Happens,
    Not,
    Replies,
    Sequence,
    Some,
    WrittenCondition,
    atoms,
    left_at,
    with_atoms,
)
from fsm.machine.evidence import Conclusion, Proved, Refuted, Run, RunStep, Unreached, Unwritten, Vacuous
from fsm.machine.product import SystemTable, read
from fsm.machine.product.reduction import Influence
from fsm.machine.product.system import System
from fsm.machine.table import Table, tabulate

NOTHING: Final = Emits(output="")


@dataclass(kw_only=True)
class Cones:
    """A cache of the cones of *system* and of their steps.

    *tables* maps the names of parts to tables that have already been built.  If *alike* is given, cones with
    the same behaviour share their conclusions.
    """

    system: System
    tables: Mapping[str, Table] | None = None
    alike: Alike | None = None
    _known: dict[tuple[frozenset[int], frozenset[str]], StepCache] = field(default_factory=dict)

    @cached_property
    def _influence(self) -> Influence:
        return Influence(self.system, self.tables)

    def stepping(self, claim: Claim, besides: Collection[int] = (), events: Collection[str] = ()) -> StepCache:
        """Return the steps of the cone of *claim*, extended by the copies in *besides*.

        The joint events in *events* are included even if they touch no copy in the cone.
        """
        found, untouched = self._cone(claim, besides)
        key = found, untouched.union(events)
        if key not in self._known:
            self._known[key] = self._steps(*key)
        return self._known[key]

    @cached_property
    def whole(self) -> StepCache:
        return self._steps(None, self.system.events)

    def _steps(self, cone: Collection[int] | None, mentioned: Collection[str]) -> StepCache:
        table = SystemTable(self.system, cone=cone, mentioned=mentioned, tables=self._influence.tables)
        return StepCache(table, concluded=self.alike.of(table) if self.alike else None)

    def largest(self, claims: Iterable[Claim]) -> frozenset[int]:
        every = frozenset(range(len(self.system.copies)))
        return max((self._cone(claim)[0] for claim in claims), key=len, default=every)

    def _cone(self, claim: Claim, besides: Collection[int] = ()) -> tuple[frozenset[int], frozenset[str]]:
        parts = [each.means for each in conditions_of(claim)]
        mentioned = set[str]().union(*map(events, parts))
        digits = set(besides).union(*map(read, parts))
        outputs = {digit for part in parts for digit in self._emitters(part)} | self._copies_that_may_emit(claim)
        if isinstance(claim, Idempotent):
            mentioned.add(claim.event)
            digits |= self._copies(claim.event)
            outputs |= self._copies(claim.event)
        if isinstance(claim, LeadsTo):  # a step of any copy may make the source hold again
            mentioned.update(self.system.events)
            digits.update(range(len(self.system.copies)))
        if isinstance(claim, Follows):
            outputs |= set(self._observed_copies(claim))
        found = self._influence.cone(digits, mentioned, outputs)
        # An event that touches no copy in the cone is in the table only if the claim mentions it.
        return found, frozenset(name for name in mentioned if not self._copies(name) & found)

    def _copies(self, event: str) -> set[int]:
        return {step.copy.digit for way in self.system.events[event].ways for step in way.steps}

    def size(self, limit: Limit) -> Counts | None:
        largest = max(self._known, key=lambda each: len(each[0]), default=None)
        return self._known[largest].size(limit) if largest else None

    def _emitters(self, condition: Condition) -> Iterator[int]:
        for output in _outputs(condition):
            for copy in self.system.copies:
                bare = output.removesuffix(copy.suffix) if copy.suffix else output
                if (bare != output or not copy.suffix) and bare in self.system.parts[copy.part].machine.outputs():
                    yield copy.digit

    def _copies_that_may_emit(self, claim: Claim) -> set[int]:
        found: set[int] = set()
        for condition in _instant_conditions(claim):
            left = {event: left_at(condition, event) for event in ("", *events(condition))}
            asking = [event for event, rest in left.items() if not isinstance(rest, bool) and NOTHING in atoms(rest)]
            found = found.union(*map(self._copies, self.system.events if "" in asking else asking))
        return {each for each in found if self.system.parts[self.system.copies[each].part].machine.outputs()}

    def _observed_copies(self, claim: Follows) -> Iterator[int]:
        known = claim.other.words().keys()
        for digit in claim.of:
            machine = self.system.parts[self.system.copies[digit].part].machine
            signals = (event.name for event in machine.events.values() if event.kind == "signal")
            if not known.isdisjoint((*signals, *machine.outputs())):
                yield digit


def families(system: System, claim: Claim) -> frozenset[str]:
    return frozenset(system.events[name].family for each in conditions_of(claim) for name in events(each.means))


def events(condition: Condition) -> set[str]:
    return {part.event for part in atoms(condition) if isinstance(part, Happens | Replies)}


def _instant_conditions(claim: Claim) -> list[Condition]:
    if isinstance(claim, Always):
        held = All(of=tuple(each.means for each in claim.conditions))
        return [Some(of=(Not(of=claim.when.means), held)), claim.when.means] if claim.when else [held]
    parts = [each.means for each in needed(claim)] if isinstance(claim, Never) else []
    return [*parts, *(each.means for each in conditions_of(claim))]


def _outputs(condition: Condition) -> set[str]:
    found: set[str] = set()
    for part in atoms(condition):
        match part:
            case Emits(output=output) | conditions.StepEmits(output=output):
                found.add(output)
            case conditions.EmitsOnly(outputs=outputs, among=among):
                found |= among or set(outputs)
    return found - {""}


class JointListener(OutputListener):
    def __init__(self, system: System, claim: Follows, other: Machine) -> None:
        table = tabulate(other)
        super().__init__(table, table, exact=True)
        self.shared = {}  # signals are found by ``observed``
        self._of = claim.of
        self._known = {event.name for event in other.events.values() if event.kind == "signal"}
        self._suffixes = {copy.digit: copy.suffix for copy in system.copies}

    def observed(self, step: InstantStep) -> tuple[str, ...]:
        found: list[str] = []
        for done in step.way.done:
            if done.digit in self._of:
                if done.event in self._known:
                    found.append(done.event)
                found += [output.removesuffix(self._suffixes[done.digit]) for output in done.emits]
        return tuple(found)


TRIED: Final = 100_000
"""Maximum number of nodes to try when a run of the cone is replayed in the whole system."""


def of_whole(
    claim: Claim,
    found: Conclusion,
    stepping: StepCache,
    cones: Cones,
    known: Callable[[Claim], Conclusion],
    limit: Limit,
) -> Conclusion | None:
    """Turn a conclusion about the cone of *claim* into a conclusion about the whole system.

    *found* is the conclusion about the cone, *stepping* computes the steps of the cone, and ``known(other)`` decides
    another claim about the cone.  All runs in the result are runs of the whole system.  Return ``None`` if the
    conclusion may not apply to the whole system.
    """
    table = system_table(stepping.table)
    if len(table.cone) == len(cones.system.copies) and len(table.joint) == len(cones.system.events):
        return found
    whole = cones.whole
    if isinstance(found, Unwritten):
        stepping, whole = stepping.beyond, whole.beyond
    match claim:
        case Always() | Never() | Reachable():
            return _transfer_sequences(found, _Both(claim, stepping, whole, known))
        case Idempotent():  # no other step may come between the two calls
            pairs = IdempotenceAutomaton(claim, whole)
            if isinstance(found, Proved):  # a call outside the cone may be in progress when the first call replies
                path = search(pairs.start, IdempotenceAutomaton(claim, stepping).first, limit=limit).path
                first = _replay_on_whole(Run(initial="", steps=path or ()), pairs.start, pairs.first, whole, stepping)
                return None if first is None else found
            return _with_run_replayed(
                found, lambda run: _replay_on_whole(run, pairs.start, pairs.following, whole, stepping)
            )
        case _:  # the cone contains all copies, or steps outside the cone make no difference
            return None if isinstance(claim, Follows) and isinstance(found, Refuted) else found


def _with_run_replayed(found: Conclusion, again: Callable[[Run], Run | None]) -> Conclusion | None:
    run = found.run if isinstance(found, Refuted | Unwritten) else None
    if run is None or (taken := again(run)) is None:
        return None if run else found
    return replace(found, run=taken) if isinstance(found, Unwritten) else Refuted(evidence=taken)


def _transfer_sequences(found: Conclusion, both: _Both) -> Conclusion | None:
    sequences, claim = both.sequences, both.claim
    match found:
        case Proved(witnesses=(_, *_) as witnesses):
            runs = [both.shortest(run, each) for run, each in zip(witnesses, sequences, strict=True)]
            return None if None in runs else Proved(witnesses=tuple(filter(None, runs)))
        case Unwritten():
            broken = all(both.least(each) not in {None, -1} for each in sequences)
            return None if broken else _with_run_replayed(found, lambda run: both.again(run, *sequences))
        case Refuted(evidence=Unreached()):
            same = any(both.least(each) is None for each in sequences)
        case Vacuous(unmet=unmet) if not isinstance(claim, Reachable):
            same = both.least(*sequences, *((part,) for part in needed(claim) if part.text == unmet)) is None
        case Proved():
            same = both.least(*sequences) is None
        case _:
            return _with_run_replayed(found, lambda run: both.shortest(run, *sequences))
    return found if same else None


def _replay_on_whole(
    run: Run, start: N, following: Callable[[N], Iterable[SearchEdge[N]]], whole: StepCache, stepping: StepCache
) -> Run | None:
    there = same_states(whole, stepping)

    def alike(step: RunStep, taken: RunStep, to: int) -> bool:
        same = (step.event, step.outcome) == (taken.event, taken.outcome) and set(step.emits) <= set(taken.emits)
        return same and there(step, taken, to)

    found = retaken(run, start, following, alike, TRIED)
    pairs = zip(run.steps, found.steps if found else (), strict=False)
    return found and replace(found, steps=tuple(structs.replace(step, reply=other.reply) for step, other in pairs))


class _Both:
    def __init__(
        self,
        claim: Always | Never | Reachable,
        stepping: StepCache,
        whole: StepCache,
        known: Callable[[Claim], Conclusion],
    ) -> None:
        self.claim = claim
        self.sequences, self._until = sequences_of(claim)
        self._stepping, self._whole, self._known = stepping, whole, known

    def again(self, run: Run, *sequences: Sequence) -> Run | None:
        automata = (SequenceAutomaton(each, self._until, self._whole) for each in sequences)
        runs = (_replay_on_whole(run, each.start, each.following, self._whole, self._stepping) for each in automata)
        return next(filter(None, runs), None)

    def least(self, *sequences: Sequence, inside: int | None = None) -> int | None:
        """Return a lower bound for the length of a run of the whole system through one of *sequences*.

        The bound is ``None`` if there is no such run, and -1 if the bound is unknown.  If nothing happens outside the
        cone, the bound is *inside*, which the caller has found for runs inside the cone.
        """
        claim = relaxed(sequences, self._until, system_table(self._stepping.table))
        found = claim and self._known(claim)
        if isinstance(found, Refuted):
            return found.length
        return inside if found is None else None if isinstance(found, Proved | Vacuous) else -1

    def shortest(self, run: Run, *sequences: Sequence) -> Run | None:
        again = self.again(run, *sequences)
        return again if again and self.least(*sequences, inside=again.length) == again.length else None


def relaxed(sequences: Iterable[Sequence], until: WrittenCondition | None, table: SystemTable) -> Never | None:
    """Return a claim about the cone that rules out *sequences* in the whole system.

    If the claim holds, no run of the whole system goes through any of *sequences*.  *table* is the table of the cone,
    and the claim allows for steps outside the cone.  Return ``None`` if nothing happens outside the cone.
    """
    elsewhere = _Elsewhere(table)
    if not (elsewhere.steps or elsewhere.outputs):
        return None
    return Never(sequences=tuple(other for each in sequences for other in elsewhere.relaxed(each)), until=until)


class _Elsewhere:
    """The steps and outputs of a system outside the cone of *table*.

    ``steps`` is true if there are such steps, and ``outputs`` holds the names of the joint events with such outputs.
    """

    def __init__(self, table: SystemTable) -> None:
        emitting = {name for name, part in table.system.parts.items() if part.machine.outputs()}
        self.steps = len(table.joint) < len(table.system.events)
        self.outputs = {
            joint.name
            for joint in (row.joint for row in table.joint)
            for step in (step for way in joint.ways for step in way.steps)
            if step.copy.digit not in table.cone and step.copy.part in emitting
        }

    def relaxed(self, sequence: Sequence) -> Iterator[Sequence]:
        """Yield sequences of the cone that cover *sequence*.

        Whenever the whole system goes through *sequence*, the cone goes through at least one of them.
        """
        if not sequence:
            yield ()
        for count in range(1, len(sequence) + 1):
            those = tuple(Some(of=(each.means, *self._left(each.means))) for each in sequence[:count])
            if count > 1 and len(those[-2].of) == len(those[-1].of) == 1:
                return  # neither condition can hold outside the cone, so they cannot share an instant
            means = All(of=those) if count > 1 else those[0]
            yield from ((WrittenCondition(text="", means=means), *rest) for rest in self.relaxed(sequence[count:]))

    def _left(self, condition: Condition) -> Iterator[Condition]:
        """Yield conditions on the cone that replace *condition* for instants outside the cone.

        If *condition* holds at such an instant, at least one of them holds at the last earlier instant of the cone.
        """
        mentioned = events(condition)
        at_output = with_atoms(condition, lambda atom: not isinstance(atom, conditions.Emits) and atom)
        further = {each if each in mentioned else "" for each in self.outputs}
        possible = (at_output if isinstance(at_output, bool) else left_at(at_output, event) for event in further)
        for left in (with_atoms(condition, _left_at_idle_step) if self.steps else False, any(possible) and at_output):
            if left is not False:
                yield All(of=()) if left is True else left


def _left_at_idle_step(atom: Atom) -> Condition | bool:
    match atom:
        case conditions.At():
            return replace(atom, before=False)
        case conditions.Compare():
            return atom
        case conditions.Emits(output=output):
            return not output  # if nothing should be emitted, the cone contains every copy that may emit
        case conditions.EmitsOnly(outputs=outputs):
            return not outputs
        case _:
            return False
