"""A slow judge of traces of joint events, as a second opinion on systems that are judged as one machine.

It keeps every configuration in which the parts may be, and takes every step of the definitions in
:mod:`brute_force.steps`. It knows only whole calls and signals. Where a machine is silent about a step, or does not
say how a call ends, it accepts everything and then considers every reachable configuration possible.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from brute_force.steps import Partly, SystemModel, outcomes_of, state_condition

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Mapping

    from brute_force.steps import Configuration, Step

    from fsm.machine.product.system import JointWay, PartStep, System


class Seen(NamedTuple):
    """A whole joint event as an observer may record it. ``shows`` has only the parts that were looked at."""

    event: str
    reply: str
    shows: Mapping[str, str]
    emits: tuple[str, ...] | None


class NaiveJudge:
    def __init__(self, system: System) -> None:
        self.system = system
        self._model = SystemModel(system)

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        found = {self._model.initial: None}
        going = [self._model.initial]
        for here in going:  # the list grows
            for step in self.steps(here):
                if step.target not in found:
                    found[step.target] = None
                    going.append(step.target)
        return tuple(found)

    def steps(self, here: Configuration) -> list[Step]:
        codes = frozenset[str]()
        found = [step for step in self._model.steps(here, codes) if not step.unwritten]
        return [step for step in found if not self.unspecified(here, step.event)]

    def start(self) -> set[Configuration]:
        return self._closed({self._model.initial})

    def after(self, before: set[Configuration], seen: Seen) -> set[Configuration]:
        """Return the configurations that may follow, or none if *seen* is illegal."""
        found: set[Configuration] = set()
        for here in before:
            if self.unspecified(here, seen.event):
                found |= set(self.configurations)
            for step in self.steps(here):
                fits = seen.reply in step.among or ("error" in step.among and seen.reply != "ok") or not step.among
                if step.event == seen.event and fits and seen.emits in {None, step.emits}:
                    found.add(step.target)
        # Hidden events may happen before the look and after it.
        return self._closed({here for here in self._closed(found) if seen.shows.items() <= self.shown(here).items()})

    def first_illegal(self, trace: Iterable[Seen]) -> int | None:
        belief = self.start()
        for number, seen in enumerate(trace):
            belief = self.after(belief, seen)
            if not belief:
                return number
        return None

    def shown(self, here: Configuration) -> dict[str, str]:
        copies = zip(self.system.copies, here, strict=True)
        return {copy.name: self.system.parts[copy.part].machine.states[state].shows for copy, (state, _) in copies}

    def _closed(self, found: set[Configuration]) -> set[Configuration]:
        going = list(found)
        for here in going:  # the list grows
            for step in self.steps(here):
                if self.system.events[step.event].kind == "hidden" and step.target not in found:
                    found.add(step.target)
                    going.append(step.target)
        return found

    def unspecified(self, here: Configuration, event: str) -> bool:
        joint = self.system.events[event]
        if joint.kind == "hidden" or (joint.when is not None and not state_condition(joint.when, here)):
            return False
        ways = (way for way in joint.ways if way.when is None or state_condition(way.when, here))
        return any(self._meets_silence(way, here, call=joint.kind == "call") for way in ways)

    def _meets_silence(self, way: JointWay, here: Configuration, *, call: bool) -> bool:
        going = {here}
        for step in way.steps:
            taken = {each for each in going if step.when is None or state_condition(step.when, each)}
            if any(self._is_silent(step, each) for each in taken):
                return True
            going = going - taken | {to for each in taken for to in self._targets(step, each, ends=call)}
        return False

    def _targets(self, step: PartStep, here: Configuration, *, ends: bool) -> Iterator[Configuration]:
        for found in self._model.part_step(Partly(here), step, frozenset(), ends=ends and not step.goes_on):
            if not found.error and not found.unwritten:
                yield found.here

    def _is_silent(self, step: PartStep, here: Configuration) -> bool:
        if not step.event:
            return False
        part = self.system.parts[step.copy.part]
        event, (state, calls) = part.machine.events[step.event], here[step.copy.digit]
        if step.ends:
            return event.name in calls and state not in event.ends and not step.outcomes
        outcomes = outcomes_of(event, state)
        if outcomes is None:
            return True
        offered = [each for each in outcomes if each.name not in part.without]
        offered = [each for each in offered if not step.outcomes or each.name in step.outcomes]
        left = () if event.interrupts else calls
        return any(each.begins and event.name in left for each in offered)


def random_trace(chance: random.Random, judge: NaiveJudge) -> tuple[Seen, ...]:
    """Return a trace that follows the system, except that some lines are replaced."""
    here, trace = judge.configurations[0], list[Seen]()
    for _ in range(chance.randint(1, 8)):
        steps = judge.steps(here)
        if not steps:
            break
        step = chance.choice(steps)
        here = step.target
        if judge.system.events[step.event].kind != "hidden":
            reply = "BROKEN" if "ANY_OTHER" in step.reply else step.reply
            trace.append(Seen(step.event, reply, partly(chance, judge, here), chance.choice((None, step.emits))))
    if trace and chance.random() < 0.7:
        at = chance.randrange(len(trace))
        trace[at] = mutated(chance, judge, trace[at])
    return tuple(trace)


def partly(chance: random.Random, judge: NaiveJudge, here: Configuration) -> dict[str, str]:
    share = chance.choice((0, 0.5, 1))
    return {part: shows for part, shows in judge.shown(here).items() if chance.random() < share}


def mutated(chance: random.Random, judge: NaiveJudge, seen: Seen) -> Seen:
    events = [joint for joint in judge.system.events.values() if joint.kind != "hidden"]
    match chance.choice(("event", "reply", "shows", "emits")):
        case "event":
            joint = chance.choice(events)
            return seen._replace(event=joint.name, reply=seen.reply or "ok" if joint.kind == "call" else "")
        case "reply" if seen.reply:
            return seen._replace(reply=chance.choice(("ok", "BUSY", "BROKEN", "NOT_FOUND")))
        case "emits":
            return seen._replace(emits=chance.choice(((), (*(seen.emits or ()), "x"))))
        case _:
            return seen._replace(shows=partly(chance, judge, chance.choice(judge.configurations)))
