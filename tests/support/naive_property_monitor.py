"""A slow second opinion on watching: every run that looks like what was seen, judged by definition.

Leans on :mod:`naive_checking` for what is true of an instant, and shares
nothing with what it is compared to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import naive
import naive_checker
from naive_checker import At, Step, true

from fsm.machine.conditions import All, Not, WrittenCondition
from fsm.property.claims import Always, Idempotent, Never

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from fsm.machine import Machine
    from fsm.property.claims import Property
    from fsm.sut import Response, Stimulus

Run: TypeAlias = tuple[Step, ...]


class BeyondError(Exception):
    """The machine does not speak of what was seen: no definition says what follows."""


def random_run(chance: random.Random, machine: Machine, length: int) -> Run:
    """Some steps of *machine*, up to *length*; a call that has begun is likely to go on."""
    run: list[Step] = []
    state = machine.initial
    going: set[str] = set()
    while len(run) < length:
        steps = [step for step in naive_checker.steps(machine, state) if not step.ends or step.event in going]
        ending = [step for step in steps if step.ends]
        if not steps:
            break
        step = chance.choice(ending if ending and chance.random() < 0.5 else steps)
        if machine.events[step.event].interrupts:
            going.clear()
        going = going | {step.event} if step.way.begins else going - {step.event}
        run.append(step)
        state = step.way.to
    return tuple(run)


def breaks(machine: Machine, stated: Property, run: Run) -> bool:
    """Whether *run* breaks the property."""
    claim = stated.claim
    match claim:
        case Never(sequences=sequences, until=until):
            return any(_passes(machine, run, sequence, until) for sequence in sequences)
        case Always(conditions=conditions, when=when):
            asked = (when.means,) if when else ()
            breaches = [All(of=(*asked, Not(of=each.means))) for each in conditions]
            return any(_passes(machine, run, (WrittenCondition(text="", means=each),), None) for each in breaches)
        case Idempotent():
            return _repeats(machine, run, claim)
        case _:
            raise NotImplementedError(claim)


def instants(machine: Machine, run: Run) -> list[At]:
    """The first one, and those of each step."""
    return [At("", machine.initial), *(at for step in run for at in step.instants)]


def _passes(machine: Machine, run: Run, sequence: tuple[WrittenCondition, ...], until: WrittenCondition | None) -> bool:
    """Whether the conditions hold at some instants of *run*, one later than the other, ``until`` at none between."""
    all_ = instants(machine, run)

    def passes(index: int, matched: int) -> bool:
        for later in range(index, len(all_)):
            at = all_[later]
            if true(sequence[matched].means, at, machine):
                if matched + 1 == len(sequence):
                    return True
                forgets = until is not None and matched and true(until.means, at, machine)
                if not forgets and passes(later + 1, matched + 1):
                    return True
            if matched and until is not None and true(until.means, at, machine):
                return False
        return False

    return passes(0, 0)


def _repeats(machine: Machine, run: Run, claim: Idempotent) -> bool:
    busy = {
        way.to
        for state in machine.states
        for event in machine.events
        for way in {*(naive.ways(machine, state, event) or ()), *naive.ends(machine, state, event)}
        if way.begins
    }
    for index in range(len(run)):
        before = run[index - 1].way.to if index else machine.initial
        first = _call(run, index, claim.event)
        if before in busy or not first or first[-1].reply != "ok":
            continue
        if claim.once is not None and not true(claim.once.means, first[-1].instants[-1], machine):
            continue
        second = _call(run, index + len(first), claim.event)
        if second and (second[-1].way.emits or second[-1].reply != "ok" or second[-1].way.to != first[-1].way.to):
            return True
    return False


def _call(run: Run, index: int, event: str) -> Run:
    """The whole call of *event* that stands in *run* at *index*, if there is one."""
    for end in range(index, len(run)):
        if run[end].event != event or run[end].ends != (end > index):
            return ()
        if not run[end].way.begins:
            return run[index : end + 1]
    return ()


# -- runs that look like what was seen -----------------------------------------


def consistent(machine: Machine, seen: list[tuple[Stimulus, Response]]) -> Iterator[Run]:
    """Every run of *machine* that looks like this."""

    def following(state: str, index: int) -> Iterator[Run]:
        if index == len(seen):
            yield ()
            return
        for part in _parts(machine, state, *seen[index]):
            for rest in following(part[-1].way.to, index + 1):
                yield (*part, *rest)

    return following(machine.initial, 0)


def _parts(machine: Machine, state: str, step: Stimulus, seen: Response) -> Iterator[Run]:
    ends = step.stage == "end"
    ways = naive.goes_on(machine, state, step.event) if ends else naive.ways(machine, state, step.event)
    if ways is None or (ends and not ways):
        raise BeyondError
    todo: list[tuple[Run, naive.Way, str, bool]] = [((), way, state, ends) for way in sorted(ways, key=str)]
    while todo:
        before, way, here, later = todo.pop()
        if way.begins and (step.stage == "do" or seen.reply is not None):  # it may be answered at once
            went = (*before, _step(step.event, later, way, "", here))
            # A call that goes round among its stages does nothing new the second time.
            if all(each.way.to != way.to for each in before):
                more = naive.goes_on(machine, way.to, step.event)
                todo += [(went, each, way.to, True) for each in sorted(more, key=str)]
        elif _fits(machine, way, seen):
            yield (*before, _step(step.event, later, way, seen.reply or "", here))


def _fits(machine: Machine, way: naive.Way, seen: Response) -> bool:
    reply = seen.reply
    if way.begins:
        replied = reply is None
    else:
        anything = "error" in way.replies and reply not in {"", "ok", None}
        replied = reply is not None and (not way.replies or reply in way.replies or anything)
    return replied and seen.outputs in {None, tuple(way.emits)} and seen.shows in {"", machine.states[way.to].shows}


def _step(event: str, ends: bool, way: naive.Way, reply: str, state: str) -> Step:  # noqa: FBT001
    ats = tuple(At(state, way.to, event, ends, reply, output, way.outcome, way.emits) for output in way.emits or ("",))
    return Step(event, ends, way, reply, ats)
