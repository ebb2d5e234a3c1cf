"""Decide directly from the definitions, without a search, whether a run found by an engine breaks the claim."""

from __future__ import annotations

from collections.abc import Iterator

from brute_force.claims import Run, Search, enabled, takes
from brute_force.conditions import codes_named
from brute_force.data import DataModel, data_of, texts, word
from brute_force.steps import Configuration, Instant, Runs, Step, SystemModel
from fsm.machine import evidence
from fsm.machine.claims import Always, Claim, Idempotent, LeadsTo, Never, conditions_of
from fsm.machine.conditions import Sequence, WrittenCondition
from fsm.machine.table import UNSPECIFIED

MOST = 2_000
"""The maximum number of model runs that may match one shown run.

Several runs match if calls in progress are not shown.
"""


def replayed(runs: Runs, claim: Claim, shown: evidence.Run) -> str:
    """Explain why *shown* is not a run that breaks *claim*, or return an empty string if it is one."""
    codes = codes_named([each.means for each in conditions_of(claim)])
    found = list(_alike(runs, (*shown.steps, *shown.cycle), codes))
    if not found:
        return "it is no run"
    search = Search(runs, unwritten=True)
    if not any(breaks(search, claim, run, len(shown.cycle), stopped=shown.stopped) for run in found):
        return "it does not break the claim"
    return ""


def _alike(runs: Runs, shown: tuple[evidence.RunStep, ...], codes: frozenset[str]) -> Iterator[Run]:
    going: list[tuple[Configuration, Run]] = [(runs.model.initial, ())]
    for each in shown:
        if each.outcome == UNSPECIFIED:
            going = [(here, (*run, _unspecified(each, here))) for here, run in going]
            continue
        going = [
            (step.target, (*run, step))
            for here, run in going
            for step in runs.steps[here]
            if _is_alike(runs, step, each, codes)
        ][:MOST]
    return (run for _, run in going)


def _unspecified(shown: evidence.RunStep, here: Configuration) -> Step:
    return Step(event=shown.event, stage="acts", source=here, target=here, unspecified=True)


def _is_alike(runs: Runs, step: Step, shown: evidence.RunStep, codes: frozenset[str]) -> bool:
    if (step.event, step.stage in {"ends", "continues"}) != (shown.event, shown.ends):
        return False
    if step.outcome != shown.outcome and not step.unwritten:
        return False
    if step.reply != shown.reply and not (_unnamed(step.reply, codes) and _unnamed(shown.reply, codes)):
        return False
    rest = iter(step.emits)  # outputs of copies outside the cone of the claim are not shown
    if not all(output in rest for output in shown.emits):
        return False
    if isinstance(runs.model, DataModel):
        machine = runs.model.machine
        given = dict(zip(machine.events[step.event].arguments, step.given, strict=True))
        known = dict(each.split(" = ") for each in shown.given)
        if texts(machine, data_of(step.target)[0]) != shown.data or any(
            word(given[name]) != known[name] for name in known
        ):
            return False
    return _is_at(runs, step.source, shown.source) and _is_at(runs, step.target, shown.target)


def _unnamed(reply: str, codes: frozenset[str]) -> bool:
    return reply not in {"", "ok", *codes}


def _is_at(runs: Runs, here: Configuration, shown: str) -> bool:
    """Check whether *here* matches the shown state.

    For a system, the shown state lists the copies that have left their initial states.
    """
    if not isinstance(runs.model, SystemModel):
        return here[0][0] == shown
    states = {copy.name: here[copy.digit][0] for copy in runs.model.system.copies}
    named = dict(each.rsplit(" ", 1) for each in shown.split(", ")) if shown != "the beginning" else {}
    return all(states[name] == state for name, state in named.items())


def breaks(search: Search, claim: Claim, run: Run, cycle: int, *, stopped: bool) -> bool:
    """Check whether *run* breaks *claim* if the last *cycle* steps repeat for ever."""
    instants = [Instant(search.runs.model.initial), *(at for step in run for at in step.instants)]
    match claim:
        case Always(conditions=conditions, when=when):
            asked = search.test(when, missing=True)
            return any(asked(at) and not search.test(each)(at) for each in conditions for at in instants)
        case Never(sequences=sequences, until=until):
            return any(_goes_through(search, instants, each, until) for each in sequences)
        case Idempotent():
            return _second_differs(search, claim, run)
        case LeadsTo(source=source, target=target):
            source_holds, target_holds = search.test(source), search.test(target)
            last = max((number for number, at in enumerate(instants) if target_holds(at)), default=-1)
            waits = any(source_holds(at) for at in instants[last + 1 :])
            round_ = run[len(run) - cycle :]
            if any(target_holds(at) for step in round_ for at in step.instants):
                return False
            return waits and (_stops(search, claim, run) if stopped or not cycle else _is_fair(search, claim, round_))
        case _:
            raise TypeError(f"{claim} has no run that breaks it")


def _goes_through(search: Search, instants: list[Instant], sequence: Sequence, until: WrittenCondition | None) -> bool:
    conditions, cancels = [search.test(each) for each in sequence], search.test(until)

    def through(first: int) -> bool:
        if len(conditions) == 1:
            return True
        after = instants[first + 1 :]
        stop = next((index for index, at in enumerate(after) if cancels(at)), len(after))
        # If ``until`` holds at an instant, only the last condition can still hold at that instant.
        level = 0
        for index, at in enumerate(after[: stop + 1]):
            if level == len(conditions) - 2:
                if conditions[-1](at):
                    return True
            elif index < stop and conditions[level + 1](at):
                level += 1
        return False

    return any(conditions[0](at) and through(index) for index, at in enumerate(instants))


def _second_differs(search: Search, claim: Idempotent, run: Run) -> bool:
    once = search.test(claim.once, missing=True)
    for number, first in enumerate(run):
        second = run[number + 1 :]
        place = first.target
        if first.event != claim.event or first.reply != "ok" or any(calls for _, calls in place):
            continue
        if not once(first.instants[-1]) or not second or any(step.event != claim.event for step in second):
            continue
        if second[0].stage not in {"acts", "begins"} or any(
            step.stage not in {"ends", "continues"} for step in second[1:]
        ):
            continue
        last = second[-1]
        over = last.stage in {"acts", "ends"}
        if last.unspecified or last.emits or (over and (last.reply != "ok" or last.target != place)):
            return True
    return False


def _stops(search: Search, claim: LeadsTo, run: Run) -> bool:
    here = run[-1].target if run else search.runs.model.initial
    return not any(enabled(search, fair, here) for fair in claim.fair)


def _is_fair(search: Search, claim: LeadsTo, cycle: Run) -> bool:
    if cycle[0].source != cycle[-1].target:
        return False
    places = [step.source for step in cycle]
    for fair in claim.fair:
        may = [enabled(search, fair, here) for here in places]
        if (any(may) if fair.strongly else all(may)) and not any(takes(step, fair) for step in cycle):
            return False
    return True
