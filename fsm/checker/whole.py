"""Check whether a conclusion on a claim's cone carries over to the whole system.

A run of the whole system becomes a run of the cone if the steps of copies outside the cone are removed.  The only
instants lost are those at which these copies take a step or emit something.  The claim is therefore relaxed, so that a
condition that holds at such an instant may hold at the preceding instant of the cone instead.  If no run of the cone
goes through the relaxed sequences in a given number of steps, no run of the whole system goes through the original ones
in as few steps.  If a run of the cone can be replayed on the whole system and is as short as the relaxed claim allows,
it is a shortest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from fsm.checker.breadth_first import Limit, SearchEdge, search
from fsm.checker.cones import Cones, events
from fsm.checker.idempotence import IdempotenceAutomaton
from fsm.checker.instants import StepCache, system_table
from fsm.checker.safety import N, SequenceAutomaton, in_order, needed, retaken, same_states
from fsm.machine import conditions
from fsm.machine.conditions import All, Atom, Condition, Sequence, Some, WrittenCondition, left_at, with_atoms
from fsm.machine.product import SystemTable
from fsm.machine.property.claims import Always, Claim, Follows, Idempotent, Never, Reachable
from fsm.machine.property.evidence import Conclusion, Proved, Refuted, Run, RunStep, Unreached, Unwritten, Vacuous

TRIED: Final = 100_000
"""Maximum number of nodes of the whole system to try when replaying a run of the cone."""


def of_whole(
    claim: Claim,
    found: Conclusion,
    stepping: StepCache,
    cones: Cones,
    known: Callable[[Claim], Conclusion],
    limit: Limit,
) -> Conclusion | None:
    """Return the conclusion on the whole system, or ``None`` if *found* may not carry over.

    *found* is the conclusion on the cone of *claim*.  *stepping* has the steps of the cone, and ``known(claim)``
    decides another claim on it.  Runs in the result are runs of the whole system.
    """
    table = system_table(stepping.table)
    if len(table.cone) == len(cones.system.copies) and len(table.joint) == len(cones.system.events):
        return found
    whole = cones.whole
    if isinstance(found, Unwritten):
        stepping, whole = stepping.beyond, whole.beyond
    match claim:
        case Always() | Never() | Reachable():
            return _carried_over(found, _Both(claim, stepping, whole, known))
        case Idempotent():  # no other step comes between the two calls
            pairs = IdempotenceAutomaton(claim, whole)
            if isinstance(found, Proved):  # a call outside the cone may be in progress when the first call replies
                path = search(pairs.start, IdempotenceAutomaton(claim, stepping).first, limit=limit).path
                first = _again(Run(initial="", steps=path or ()), pairs.start, pairs.first, whole, stepping)
                return None if first is None else found
            return _with_run_replayed(found, lambda run: _again(run, pairs.start, pairs.following, whole, stepping))
        case _:  # the cone has all copies, or steps outside it make no difference
            return None if isinstance(claim, Follows) and isinstance(found, Refuted) else found


def _with_run_replayed(found: Conclusion, again: Callable[[Run], Run | None]) -> Conclusion | None:
    """Return *found* with its run replayed by *again*, or ``None`` if the run cannot be replayed."""
    run = found.run if isinstance(found, Refuted | Unwritten) else None
    if run is None or (taken := again(run)) is None:
        return None if run else found
    return replace(found, run=taken) if isinstance(found, Unwritten) else Refuted(evidence=taken)


def _carried_over(found: Conclusion, both: _Both) -> Conclusion | None:
    """Like :func:`of_whole`, but for claims about runs through sequences."""
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


def _again(
    run: Run, start: N, following: Callable[[N], Iterable[SearchEdge[N]]], whole: StepCache, stepping: StepCache
) -> Run | None:
    """Replay *run* on *whole* and return it with the replies given there, or ``None`` if that is impossible."""
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
        self.sequences, self._until = in_order(claim)
        self._stepping, self._whole, self._known = stepping, whole, known

    def again(self, run: Run, *sequences: Sequence) -> Run | None:
        automata = (SequenceAutomaton(each, self._until, self._whole) for each in sequences)
        runs = (_again(run, each.start, each.following, self._whole, self._stepping) for each in automata)
        return next(filter(None, runs), None)

    def least(self, *sequences: Sequence, inside: int | None = None) -> int | None:
        """Return a lower bound on the number of steps in which the whole system can go through one of *sequences*.

        Return ``None`` if it never can, -1 if this is unknown, and *inside* if nothing happens outside the cone.
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
    """Return the claim that no run goes through any of *sequences*, relaxed to allow for steps outside the cone.

    *table* is the table of the cone.  Return ``None`` if nothing happens outside the cone.
    """
    elsewhere = _Elsewhere(table)
    if not (elsewhere.steps or elsewhere.outputs):
        return None
    return Never(sequences=tuple(other for each in sequences for other in elsewhere.relaxed(each)), until=until)


class _Elsewhere:
    """Whether there are ``steps`` outside the cone of *table*, and which joint events have ``outputs`` there."""

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
        """Yield sequences of which the cone goes through at least one if the whole system goes through *sequence*."""
        if not sequence:
            yield ()
        for count in range(1, len(sequence) + 1):
            those = tuple(Some(of=(each.means, *self._left(each.means))) for each in sequence[:count])
            if count > 1 and len(those[-2].of) == len(those[-1].of) == 1:
                return  # neither can hold outside the cone, so they cannot share an instant of the cone
            means = All(of=those) if count > 1 else those[0]
            yield from ((WrittenCondition(text="", means=means), *rest) for rest in self.relaxed(sequence[count:]))

    def _left(self, condition: Condition) -> Iterator[Condition]:
        """Yield the conditions on the cone under which *condition* may hold at the next instant outside it."""
        mentioned = events(condition)
        at_output = with_atoms(condition, lambda atom: not isinstance(atom, conditions.Emits) and atom)
        further = {each if each in mentioned else "" for each in self.outputs}
        possible = (at_output if isinstance(at_output, bool) else left_at(at_output, event) for event in further)
        for left in (with_atoms(condition, _at_step) if self.steps else False, any(possible) and at_output):
            if left is not False:
                yield All(of=()) if left is True else left


def _at_step(atom: Atom) -> Condition | bool:
    """Return what remains to be tested of *atom* at a step that changes nothing in the cone."""
    match atom:
        case conditions.At():
            return replace(atom, before=False)
        case conditions.Emits(output=output):
            return not output  # the cone has every copy that may emit where nothing should be emitted
        case conditions.EmitsOnly(outputs=outputs):
            return not outputs
        case _:
            return False
