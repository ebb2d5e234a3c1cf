"""From a claim's cone to the whole system: does the conclusion carry over?

Without the steps of copies outside the cone, a run of the whole system is a run of the cone with no more steps; only
the instants at which those copies take a step or emit something are missing.  So the claim is relaxed: a condition that
holds at such an instant counts as holding at the instant of the cone before it.  What no run of the cone does under the
relaxed claim, no run of the whole system does in as few steps.  A run of the cone that the whole system can take is a
run of the whole system; if it is as short as the relaxed claim allows, no run is shorter.
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
"""Most nodes of the whole system that are tried to take a run of the cone again."""


def of_whole(
    claim: Claim,
    found: Conclusion,
    stepping: StepCache,
    cones: Cones,
    known: Callable[[Claim], Conclusion],
    limit: Limit,
) -> Conclusion | None:
    """Return the conclusion on the whole system, if *found* carries over; ``None`` if it may not.

    *found* is the conclusion on the cone of *claim*, *stepping* has the steps of the cone, and ``known(claim)`` decides
    a claim on the cone.  Runs are returned as the whole system takes them.
    """
    table = system_table(stepping.table)
    if len(table.cone) == len(cones.system.copies) and len(table.joint) == len(cones.system.events):
        return found
    whole = cones.whole
    if isinstance(found, Unwritten):
        stepping, whole = stepping.beyond, whole.beyond
    match claim:
        case Always() | Never() | Reachable():
            return _compared(found, _Both(claim, stepping, whole, known))
        case Idempotent():  # nothing happens between the two calls
            pairs = IdempotenceAutomaton(claim, whole)
            if isinstance(found, Proved):  # when the first call replies, a call may be in progress outside
                path = search(pairs.start, IdempotenceAutomaton(claim, stepping).first, limit=limit).path
                first = _again(Run(initial="", steps=path or ()), pairs.start, pairs.first, whole, stepping)
                return None if first is None else found
            return _shown(found, lambda run: _again(run, pairs.start, pairs.following, whole, stepping))
        case _:  # all copies are in the cone, or steps outside make no difference
            return None if isinstance(claim, Follows) and isinstance(found, Refuted) else found


def _shown(found: Conclusion, again: Callable[[Run], Run | None]) -> Conclusion | None:
    """*found* with its run as taken *again*; ``None`` if the run cannot be."""
    run = found.run if isinstance(found, Refuted | Unwritten) else None
    if run is None or (taken := again(run)) is None:
        return None if run else found
    return replace(found, run=taken) if isinstance(found, Unwritten) else Refuted(evidence=taken)


def _compared(found: Conclusion, both: _Both) -> Conclusion | None:
    """Like :func:`of_whole`, for a claim about runs through sequences."""
    sequences, claim = both.sequences, both.claim
    match found:
        case Proved(witnesses=(_, *_) as witnesses):
            runs = [both.shortest(run, each) for run, each in zip(witnesses, sequences, strict=True)]
            return None if None in runs else Proved(witnesses=tuple(filter(None, runs)))
        case Unwritten():
            broken = all(both.least(each) not in {None, -1} for each in sequences)
            return None if broken else _shown(found, lambda run: both.again(run, *sequences))
        case Refuted(evidence=Unreached()):
            same = any(both.least(each) is None for each in sequences)
        case Vacuous(unmet=unmet) if not isinstance(claim, Reachable):
            same = both.least(*sequences, *((part,) for part in needed(claim) if part.text == unmet)) is None
        case Proved():
            same = both.least(*sequences) is None
        case _:
            return _shown(found, lambda run: both.shortest(run, *sequences))
    return found if same else None


def _again(
    run: Run, start: N, following: Callable[[N], Iterable[SearchEdge[N]]], whole: StepCache, stepping: StepCache
) -> Run | None:
    """*run* with the replies that the *whole* gives, without what other copies do; ``None`` if impossible."""
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
        """Fewest steps of a run of the whole; ``None`` if there is none, -1 if unknown, *inside* if none is outside."""
        claim = relaxed(sequences, self._until, system_table(self._stepping.table))
        found = claim and self._known(claim)
        if isinstance(found, Refuted):
            return found.length
        return inside if found is None else None if isinstance(found, Proved | Vacuous) else -1

    def shortest(self, run: Run, *sequences: Sequence) -> Run | None:
        again = self.again(run, *sequences)
        return again if again and self.least(*sequences, inside=again.length) == again.length else None


def relaxed(sequences: Iterable[Sequence], until: WrittenCondition | None, table: SystemTable) -> Never | None:
    """Return the claim that no run goes through one of *sequences*, relaxed for what happens outside the cone.

    *table* is the table of the cone.  ``None`` if nothing happens outside.
    """
    elsewhere = _Elsewhere(table)
    if not (elsewhere.steps or elsewhere.outputs):
        return None
    return Never(sequences=tuple(other for each in sequences for other in elsewhere.relaxed(each)), until=until)


class _Elsewhere:
    """Behaviour outside the cone of *table*: more ``steps``, and joint events with more ``outputs``."""

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
        """Yield sequences such that if the whole system goes through *sequence*, the cone goes through one of them."""
        if not sequence:
            yield ()
        for count in range(1, len(sequence) + 1):
            those = tuple(Some(of=(each.means, *self._left(each.means))) for each in sequence[:count])
            if count > 1 and len(those[-2].of) == len(those[-1].of) == 1:
                return  # both hold only at instants of the cone, each at its own
            means = All(of=those) if count > 1 else those[0]
            yield from ((WrittenCondition(text="", means=means), *rest) for rest in self.relaxed(sequence[count:]))

    def _left(self, condition: Condition) -> Iterator[Condition]:
        """Yield what must hold in the cone so that *condition* can hold at the next instant outside, if it can."""
        mentioned = events(condition)
        at_output = with_atoms(condition, lambda atom: not isinstance(atom, conditions.Emits) and atom)
        further = {each if each in mentioned else "" for each in self.outputs}
        possible = (at_output if isinstance(at_output, bool) else left_at(at_output, event) for event in further)
        for left in (with_atoms(condition, _at_step) if self.steps else False, any(possible) and at_output):
            if left is not False:
                yield All(of=()) if left is True else left


def _at_step(atom: Atom) -> Condition | bool:
    """Part of *atom* that is still open at a step that changes nothing in the cone."""
    match atom:
        case conditions.At():
            return replace(atom, before=False)
        case conditions.Emits(output=output):
            return not output  # copies that may emit where nothing should be emitted are in the cone
        case conditions.EmitsOnly(outputs=outputs):
            return not outputs
        case _:
            return False
