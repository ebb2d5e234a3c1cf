"""A slow second opinion on properties: by definition, from the cells, sharing nothing with the checker.

Runs follow :mod:`naive`'s reading of the cells.  Sequences are matched by guessing, for
each condition, whether it is matched at this instant.  A fair infinite run is searched
for among *all* sets of nodes on which it could cycle.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import naive

from fsm.machine.conditions import (
    All,
    Condition,
    Emits,
    EmitsOnly,
    Happens,
    In,
    Not,
    Replies,
    SilentOn,
    Some,
    StateChanges,
    WrittenCondition,
)
from fsm.property.claims import Always, Fair, Idempotent, LeadsTo, Never, Property, Reachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.machine import Machine

MOST_NODES = 10
"""In which the target is due; of more there are too many sets."""


class At(NamedTuple):
    """One instant; the first has neither an event nor a source."""

    before: str
    after: str
    event: str = ""
    ends: bool = False
    reply: str = ""
    output: str = ""
    outcome: str = ""
    outputs: tuple[str, ...] = ()


class Step(NamedTuple):
    """One step of a machine, with the reply that it has."""

    event: str
    ends: bool
    way: naive.Way
    reply: str
    instants: tuple[At, ...]


Node: TypeAlias = tuple[str, bool]
"""A state, and whether the target is due."""

Link: TypeAlias = tuple[Node, Step, Node]


def true(condition: Condition, at: At, machine: Machine) -> bool:
    """Whether *condition* holds at the instant *at*."""
    match condition:
        case Not():
            return not true(condition.of, at, machine)
        case All():
            return all(true(each, at, machine) for each in condition.of)
        case Some():
            return any(true(each, at, machine) for each in condition.of)
        case SilentOn():
            return naive.ways(machine, at.after, condition.event) is None
        case Happens():
            return at.event == condition.event and not at.ends
        case Replies():
            fits = at.reply == condition.reply or (condition.reply == "error" and at.reply not in {"", "ok"})
            return at.event == condition.event and fits
        case Emits() | EmitsOnly() | In() | StateChanges():
            return _of_states(condition, at)
    raise TypeError(condition)


def _of_states(condition: In | Emits | EmitsOnly | StateChanges, at: At) -> bool:
    match condition:
        case In():
            return (at.before if condition.before else at.after) in condition.states
        case Emits():
            return bool(at.before) and at.output == condition.output
        case EmitsOnly():
            return bool(at.before) and at.outputs == condition.outputs
        case StateChanges():
            return bool(at.before) and at.before != at.after


def steps(machine: Machine, state: str) -> Iterator[Step]:
    """Every step from *state*; where any error may be replied, so may every code that a test uses."""
    for event in machine.events:
        for ends, ways in ((False, naive.ways(machine, state, event)), (True, naive.goes_on(machine, state, event))):
            for way in ways or ():
                replies = way.replies | ({"BUSY", "GONE"} if "error" in way.replies else set())
                for reply in sorted(replies) or [""]:
                    instants = tuple(
                        At(state, way.to, event, ends, reply, output, way.outcome, way.emits)
                        for output in way.emits or ("",)
                    )
                    yield Step(event, ends, way, reply, instants)


def shortest(machine: Machine, stated: Property) -> int | None:
    """Number of steps of the shortest counterexample, or ``None`` if the property holds.

    For ``reachable`` 0 if there is no run; for ``leads-to`` 0 for any counterexample.
    """
    claim = stated.claim
    match claim:
        case Never():
            lengths = [_through(machine, sequence, claim.until) for sequence in claim.sequences]
        case Reachable():
            missing = any(_through(machine, sequence, None) is None for sequence in claim.sequences)
            return 0 if missing else None
        case Always():
            asked = (claim.when.means,) if claim.when else ()
            breaches = [All(of=(*asked, Not(of=each.means))) for each in claim.conditions]
            lengths = [_through(machine, (WrittenCondition(text="", means=each),), None) for each in breaches]
        case Idempotent():
            return _twice(machine, claim)
        case LeadsTo():
            return 0 if _waits_for_ever(machine, claim) else None
        case _:
            raise NotImplementedError(claim)
    return min((each for each in lengths if each is not None), default=None)


def _through(machine: Machine, sequence: tuple[WrittenCondition, ...], until: WrittenCondition | None) -> int | None:
    """Number of steps of the shortest run through *sequence*; the instant of each condition is guessed."""
    first = At("", machine.initial)
    now = {(machine.initial, matched) for matched in _matched({0}, first, machine, sequence, until)}
    seen = set(now)
    length = 0
    while now:
        if any(matched == len(sequence) for _, matched in now):
            return length
        length += 1
        following = set()
        for state, matched in now:
            for step in steps(machine, state):
                held = {matched}
                for at in step.instants:
                    held = _matched(held, at, machine, sequence, until)
                following |= {(step.way.to, each) for each in held}
        now = following - seen
        seen |= now
    return None


def _matched(
    held: set[int], at: At, machine: Machine, sequence: tuple[WrittenCondition, ...], until: WrittenCondition | None
) -> set[int]:
    """Numbers of conditions that may have been matched after *at*, if *held* were before."""
    found = set()
    forget = until is not None and true(until.means, at, machine)
    for matched in held:
        if matched == len(sequence):
            found.add(matched)
            continue
        hit = true(sequence[matched].means, at, machine)
        if hit and matched == len(sequence) - 1:
            found.add(len(sequence))
        if forget:
            found |= {0, 1} if true(sequence[0].means, at, machine) else {0}
            continue
        found |= {matched, matched + 1} if hit else {matched}
    return found


def _twice(machine: Machine, claim: Idempotent) -> int | None:
    """Number of steps of the shortest run in which the second of two calls has an effect."""
    begun = {
        way.to
        for state in machine.states
        for event in machine.events
        for way in {*(naive.ways(machine, state, event) or ()), *naive.ends(machine, state, event)}
        if way.begins
    }
    found = []
    for state, far in naive.reached(machine).items():
        if state in begun:
            continue
        for first, last in _whole(machine, state, claim.event):
            if last is None or last.reply != "ok":
                continue
            if claim.once is not None and not true(claim.once.means, last.instants[-1], machine):
                continue
            between = last.way.to
            for second, end in _whole(machine, between, claim.event):
                if end is None or end.way.emits or end.reply != "ok" or end.way.to != between:
                    found.append(far + first + second)
    return min(found, default=None)


def _whole(machine: Machine, state: str, event: str) -> Iterator[tuple[int, Step | None]]:
    """Whole calls from *state*: the number of steps and the last of these; ``None`` where it is unspecified."""
    if naive.ways(machine, state, event) is None:
        yield 1, None
    todo = [(state, False, 0)]
    seen = set()
    while todo:
        here, going, length = todo.pop(0)
        for step in steps(machine, here):
            if step.event != event or step.ends != going:
                continue
            if not step.way.begins:
                yield length + 1, step
            elif step.way.to not in seen:
                seen.add(step.way.to)
                todo.append((step.way.to, True, length + 1))


def _waits_for_ever(machine: Machine, claim: LeadsTo) -> bool:
    """Whether in some fair run the target is missing after a source."""
    nodes, links = _graph(machine, claim)
    waiting = [node for node in nodes if node[1]]
    if len(waiting) > MOST_NODES:
        raise OverflowError
    for size in range(1, len(waiting) + 1):
        for those in combinations(waiting, size):
            inside = [
                (source, step, to)
                for source, step, to in links
                if source in those
                and to in those
                and not any(true(claim.target.means, at, machine) for at in step.instants)
            ]
            if _round(those, inside) and all(_is_fair(machine, fair, those, inside) for fair in claim.fair):
                return True
            if size == 1 and all(_is_fair(machine, fair, those, []) for fair in claim.fair):
                return True
    return False


def _graph(machine: Machine, claim: LeadsTo) -> tuple[list[Node], list[Link]]:
    """Everything reachable, with the bit whether the target is due."""

    def arrives(node: Node, state: str, instants: tuple[At, ...]) -> Node:
        due = node[1]
        for at in instants:
            due = (due or true(claim.source.means, at, machine)) and not true(claim.target.means, at, machine)
        return state, due

    nodes = [arrives(("", False), machine.initial, (At("", machine.initial),))]
    links = []
    for node in nodes:
        for step in steps(machine, node[0]):
            to = arrives(node, step.way.to, step.instants)
            links.append((node, step, to))
            if to not in nodes:
                nodes.append(to)
    return nodes, links


def _round(those: tuple[Node, ...], inside: list[Link]) -> bool:
    """Whether a cycle through all of *those* exists."""
    for start in those:
        met = {start}
        for _ in those:
            met |= {to for source, _, to in inside if source in met}
        if met != set(those):
            return False
    return bool(inside)


def _is_fair(machine: Machine, fair: Fair, those: tuple[Node, ...], inside: list[Link]) -> bool:
    """Whether a run that takes all of *inside* infinitely often is fair in this respect."""

    def same(step: Step) -> bool:
        return step.event == fair.event and step.ends == fair.ends and fair.outcome in {"", step.way.outcome}

    if any(same(step) for _, step, _ in inside):
        return True
    possible = [any(map(same, steps(machine, state))) for state, _ in those]
    return not any(possible) if fair.strongly else not all(possible)
