"""Prove claims for any number of copies of a part.

A claim must hold for one copy, for two copies, and for a crowd (:mod:`fsm.machine.product.crowd`) that simulates any
larger number.  The crowd allows more runs than any number of copies does, so a claim that fails only for the crowd is
not refuted.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cached_property, partial

from fsm.checker import decide, size_within
from fsm.checker.breadth_first import LIMIT, Ending, Limit, on
from fsm.checker.cones import Cones, relaxed
from fsm.checker.instants import StepCache, system_table
from fsm.checker.safety import DONE, SequenceAutomaton, retaken, sequences_of
from fsm.machine.claims import Always, Claim, Never, Property, Reachable, Specification
from fsm.machine.conditions import Sequence, WrittenCondition
from fsm.machine.evidence import Checked, Conclusion, Examined, Proved, Refuted, Run, RunStep, Vacuous
from fsm.machine.product.crowd import Crowd, NoCrowdError
from fsm.machine.product.system import System
from fsm.verdict import Unknown


class _Deciding:
    """Decides claims for one copy, for two copies, and for a crowd of copies.

    ``more`` holds the cones of the crowd once the first claim has been decided for the crowd.
    """

    def __init__(
        self, systems: Iterable[System], part: str, profile: str | None, decided: Callable[..., Checked]
    ) -> None:
        self.part = part
        self.one, self.two, self.three = (Cones(system=each.under(profile)) for each in systems)
        self.more: Cones | None = None
        self._decide = decided

    @cached_property
    def _crowd(self) -> Crowd | NoCrowdError:
        try:
            return Crowd(self.three.system, self.two.system, self.part)
        except NoCrowdError as error:  # returned, because cached_property does not cache an error that is raised
            return error

    def conclusion(self, of_one: Property, of_two: Property, of_more: Property) -> Checked:
        found = self._decide(of_two, self.two)
        if isinstance(found.verdict, Refuted):
            return found
        if not isinstance(of_more.claim, Always | Never):
            return _as_unknown(found, "only claims with 'always' or 'never' can be decided for any number of copies")
        alone = self._decide(of_one, self.one)
        if not isinstance(alone.verdict, Proved | Vacuous):
            return alone
        if not isinstance(found.verdict, Proved | Vacuous):
            return found
        holds = f"the property holds for one and for two copies of '{self.part}'"
        crowd = self._crowd
        if isinstance(crowd, NoCrowdError):
            return _as_unknown(found, f"{holds}; {crowd}")
        try:
            more = self._decide_for_crowd(of_more, _restate(of_more.claim, crowd), crowd)
        except NoCrowdError as error:
            return _as_unknown(found, f"{holds}; {error}")
        if isinstance(found.verdict, Vacuous) and not isinstance(more, Vacuous):
            unmet = found.verdict.unmet
            what = f"with two copies of '{self.part}' nothing tests the property, because {unmet} never holds"
            return _as_unknown(found, what)
        if isinstance(found.verdict, Proved) and isinstance(more, Proved | Vacuous):
            return replace(found, verdict=Proved(any_number=self.part))
        if isinstance(more, Refuted):
            return _as_unknown(
                found,
                f"{holds}; an abstraction of more copies breaks the property, but more copies may not be able to do so",
            )
        return replace(found, verdict=more)

    def _decide_for_crowd(self, of: Property, claim: Always | Never, crowd: Crowd) -> Conclusion:
        table = system_table(self.three.stepping(of.claim).table)
        self.more = self.more or Cones(system=crowd.system)
        events = table.row.keys() & crowd.system.events.keys()
        stepping = self.more.stepping(claim, crowd.image(table.cone), events)
        verdict = self._decide(replace(of, claim=claim), stepping).verdict
        loose = relaxed(*sequences_of(claim), system_table(stepping.table))
        if loose is None or not isinstance(verdict, Proved | Vacuous):
            return verdict
        besides = self._decide(replace(of, claim=loose), stepping).verdict
        return verdict if isinstance(besides, Proved | Vacuous) else besides

    def decide_for_copies(self, found: Checked, of_two: Property, of: Property, many: Cones) -> Checked:
        verdict = found.verdict
        if not isinstance(verdict, Proved):
            small = self._decide(of_two, self.two).verdict
            why = f"this number of copies cannot be searched; for two copies, {_verdict_words(small)}"
            verdict = _conclusion_from_run_of_two(of.claim, small, many) or Unknown(why=why)
        return replace(found, of=of, verdict=verdict)


def examine_any(
    numbered: Callable[[int], Specification[System]],
    part: str,
    profile: str | None = None,
    *,
    count: int | None = None,
    only: Collection[str] | None = None,
    limit: int = LIMIT,
    ending: Ending = on,
    advanced: Callable[[], None] = lambda: None,
) -> Examined:
    """Check the properties of a system that has any number of copies of *part*.

    ``numbered(n)`` returns the specification for n copies.  The other arguments are those of
    :func:`fsm.checker.examine`.

    If *count* is given, the results are for this number of copies, which may be too large to search.  Each claim is
    decided for any number of copies.  If this does not prove the claim, a run of two copies is replayed with *count*
    copies.  The other copies take no steps of their own.
    """
    stated = [numbered(few) for few in (1, 2, 3)]
    deciding = _Deciding(
        (each.machine for each in stated), part, profile, partial(decide, profile=profile, limit=limit, ending=ending)
    )
    many = numbered(count) if count else None
    cones = Cones(system=many.machine.under(profile)) if many else None
    checked = []
    for number, each in enumerate(zip(*(found.properties for found in stated), strict=True)):
        if only is None or each[0].name in only:
            found = deciding.conclusion(*each)
            if many is not None and cones is not None:
                found = deciding.decide_for_copies(found, each[1], many.properties[number], cones)
            checked.append(found)
            advanced()
    return Examined(
        machine=(many or stated[1]).machine,
        profile=profile,
        counts=size_within(deciding.more or deciding.two, Limit(states=limit, ending=ending)),
        expected=None,
        checked=tuple(checked),
        any_number=part if deciding.more else "",
    )


def _verdict_words(verdict: Conclusion) -> str:
    if isinstance(verdict, Refuted):
        return "the property does not hold"
    return "it holds" if isinstance(verdict, Proved) else "the verdict is not known"


def _conclusion_from_run_of_two(claim: Claim, small: Conclusion, cones: Cones) -> Conclusion | None:
    if isinstance(claim, Reachable) and isinstance(small, Proved):
        of = list(zip(small.witnesses, claim.sequences, strict=True))
        runs = [_replayed_run(run, sequence, None, cones.stepping(claim)) for run, sequence in of]
        witnesses = tuple(run for run in runs if run is not None)
        return Proved(witnesses=witnesses) if len(witnesses) == len(runs) else None
    if isinstance(claim, Always | Never) and isinstance(small, Refuted) and small.run is not None:
        sequences, until = sequences_of(claim)
        for sequence in sequences:
            if (run := _replayed_run(small.run, sequence, until, cones.stepping(claim))) is not None:
                return Refuted(evidence=run)
    return None


def _replayed_run(run: Run, sequence: Sequence, until: WrittenCondition | None, stepping: StepCache) -> Run | None:
    automaton, table = SequenceAutomaton(sequence, until, stepping), stepping.table
    if automaton.start[1] == DONE:
        return Run(initial=table.states[table.initial])

    def alike(step: RunStep, taken: RunStep, _: int) -> bool:
        return (taken.event, taken.outcome, taken.reply) == (step.event, step.outcome, step.reply)

    return retaken(run, automaton.start, automaton.following, alike) if run.steps else None


def _as_unknown(found: Checked, why: str) -> Checked:
    has_reason = isinstance(found.verdict, Unknown) and not isinstance(found.verdict, Vacuous)
    return found if has_reason else replace(found, verdict=Unknown(why=why))


def _restate(claim: Always | Never, crowd: Crowd) -> Always | Never:
    def of(written: WrittenCondition) -> WrittenCondition:
        return replace(written, means=crowd.condition(written.means))

    if isinstance(claim, Always):
        return Always(conditions=tuple(map(of, claim.conditions)), when=claim.when and of(claim.when))
    sequences = tuple(tuple(map(of, each)) for each in claim.sequences)
    return Never(sequences=sequences, until=claim.until and of(claim.until))
