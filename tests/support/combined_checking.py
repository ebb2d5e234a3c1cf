"""Decide claims about a combined machine by brute force on the interpreter, and compare the checker's answers."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING

import random_claims
from brute_force.claims import Decider
from brute_force.data import DataModel
from brute_force.steps import UNLIMITED, Configuration, Cut, Model, Step, cut_of, possible_replies
from brute_force_search import verdict_of
from combined_machines import FEATURES, random_text
from interpreter import TIME_PASSES, Interpreter, Situation, Taken, TooWideError
from machines import machine_of

from fsm.checker import decide, stepping_of
from fsm.checker.unbounded import Unbounded
from fsm.machine.claims import Fair, LeadsTo
from fsm.machine.evidence import Refuted
from fsm.machine.in_progress import InProgress
from fsm.verdict import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.checker.cones import Cones
    from fsm.checker.instants import StepCache
    from fsm.machine import Machine
    from fsm.machine.claims import Claim, Property
    from fsm.machine.conditions import Compare

LARGEST = 400
"""The maximum number of situations of a machine about which claims are decided."""
CLAIMS = 8


def unit(text: str) -> int:
    """Return the greatest unit, in nanoseconds, in which all times of the model are whole."""
    times = Interpreter(text).times.values()
    return 10**9 * (gcd(*(time for both in times for time in both)) or 1)


@dataclass(frozen=True)
class InterpreterModel(Model):
    """The situations of the interpreter as configurations: ``((leaf, calls), (situation, arguments))``.

    A leaf is represented by the first of its variants, because conditions do not distinguish them.
    """

    interpreter: Interpreter
    machine: Machine
    overlap: int = 1
    beyond: bool = False

    @cached_property
    def variants(self) -> dict[str, str]:
        return {self.machine.hierarchy.in_model(name): name for name in reversed([*self.machine.states])}

    def configuration(self, here: Situation) -> Configuration:
        calls = sorted((call.event, tuple(value for _, value in call.args)) for call in here.calls)
        events, given = tuple(event for event, _ in calls), tuple(args for _, args in calls)
        return ((self.variants[here.leaf], events), (here, given))  # type: ignore[return-value]  # see above

    @property
    def initial(self) -> Configuration:
        return self.configuration(self.interpreter.initial)

    def steps(self, here: Configuration, codes: frozenset[str] = frozenset()) -> list[Step]:
        found = [
            step
            for taken in self.interpreter.steps(situation(here), self.overlap)
            if self.beyond or self.interpreter.in_scope(taken.effect.after)
            for step in self._steps(here, taken, codes)
        ]
        return list(dict.fromkeys(found))

    def _steps(self, here: Configuration, taken: Taken, codes: frozenset[str]) -> Iterator[Step]:
        begins, ends = taken.effect.begins, taken.ends
        step = Step(
            event=taken.event,
            stage=("continues" if begins else "ends") if ends else ("begins" if begins else "acts"),
            source=here,
            target=self.configuration(taken.effect.after),
            outcome=taken.effect.name,
            reply=taken.effect.reply,
            emits=taken.effect.emits,
            unwritten=taken.unwritten,
            given=tuple(value for _, value in taken.args),
        )
        replies = possible_replies(("ok", "error"), codes) if taken.unwritten else [taken.effect.reply]
        yield from (replace(step, reply=reply) for reply in replies)

    def cut(self, here: Configuration) -> Cut:
        return cut_of(replace(self, overlap=UNLIMITED, beyond=True).steps(here), self.steps(here))

    def silent(self, here: Configuration, event: str) -> bool:
        return self.interpreter.outcomes(event, situation(here).leaf) is None

    def compares(self, condition: Compare, here: Configuration) -> bool:
        values = tuple(value for _, value in situation(here).data)
        return DataModel(self.machine).compares(condition, (here[0], (values, ())))  # type: ignore[arg-type]  # as there

    def shows(self, here: Configuration) -> str:
        return self.interpreter.shows(situation(here))

    def timed(self, claim: Claim) -> Claim:
        """Return *claim* with the assumptions that time passes, and that timers fire."""
        if not isinstance(claim, LeadsTo) or not self.interpreter.timers:
            return claim
        fires = [timer["event"] for name, timer in self.interpreter.timers.items() if self._only_fires(name)]
        fair = (Fair(event=event, ends=False, outcome="", strongly=False) for event in (TIME_PASSES, *fires))
        return replace(claim, fair=(*claim.fair, *fair))

    def _only_fires(self, timer: str) -> bool:
        event, leaves = self.interpreter.timers[timer]["event"], self.interpreter.leaves
        return all(
            self.interpreter.runs(timer, leaf) or self.interpreter.cell(event, leaf)[0] == "cannot" for leaf in leaves
        )


def situation(here: Configuration) -> Situation:
    return here[1][0]  # type: ignore[return-value]  # it is beside the state


def claims(chance: random.Random, machine: Machine, kinds: tuple[str, ...] = random_claims.KINDS) -> list[Property]:
    names = {machine.hierarchy.in_model(name): state for name, state in machine.states.items()}
    parents = dict.fromkeys(machine.hierarchy.parents, next(iter(names.values())))
    named = replace(machine, states={**names, **parents})
    return [random_claims.stated(machine, random_claims.random_claim(chance, named, kinds)) for _ in range(CLAIMS)]


def reached(machine: Machine, stepping: StepCache | Cones) -> set[tuple[object, ...]]:
    """Return what the checker reaches: states of the model, values, and calls in progress with their arguments."""
    table = stepping.table  # type: ignore[union-attr]  # not of a system
    clocks = {*machine.timers}
    found: set[tuple[object, ...]] = set()
    for state in stepping.reached:  # type: ignore[union-attr]
        values = calls = ()
        if isinstance(table, InProgress):
            names = [each.name for each in table.data.variables] if table.data else []
            pairs = zip(names, table.data.texts(table.values(state)) if table.data else (), strict=True)
            values = tuple(text for name, text in pairs if name not in clocks)  # type: ignore[assignment]
            calls = tuple(sorted(table.rows[row].event.name for row in table.calls(state)))  # type: ignore[assignment]
        found.add((machine.hierarchy.in_model(table.states[state]), values, calls))
    return found


def expected(interpreter: Interpreter, overlap: int) -> set[tuple[object, ...]]:
    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return {
        (
            here.leaf,
            tuple(f"{name} = {text(value)}" for name, value in here.data),
            tuple(sorted(call.event for call in here.calls)),
        )
        for here in interpreter.reached(overlap, LARGEST)
    }


def checked(
    seed: str, features: frozenset[str] = FEATURES, interpret: type[Interpreter] = Interpreter
) -> tuple[int, list[str]]:
    """Return how many claims about a random machine were compared, and the disagreements."""
    chance = random.Random(seed)
    text = random_text(chance, features)
    overlap = chance.choice((1, 1, 2))
    try:
        there = expected(interpret(text), overlap)
        interpreter = interpret(text, tick=unit(text))
        if len(interpreter.reached(overlap, LARGEST)) < 4:
            return 0, []
    except TooWideError:
        return 0, []
    machine = machine_of(text)
    stepping = stepping_of(machine, overlap=overlap)
    found = []
    if differ := reached(machine, stepping) ^ there:
        found.append(f"{seed}: reached {min(differ, key=repr)}")
    model = InterpreterModel(interpreter, machine, overlap)
    decider = Decider(model)
    stated = claims(chance, machine)
    for each in stated:
        answer, verdict = decider.decide(model.timed(each.claim)), decide(each, stepping).verdict
        length = verdict.length if isinstance(verdict, Refuted) and not isinstance(each.claim, LeadsTo) else None
        if (answer.verdict, answer.length) != (verdict_of(verdict), length):
            found.append(
                f"{seed}: {verdict_of(verdict)} {length}, expected {answer.verdict} {answer.length}: {each.claim}"
            )
    return len(stated), found


def unbounded(seed: str, features: frozenset[str], interpret: type[Interpreter] = Interpreter) -> tuple[int, list[str]]:
    """Return how many claims about a random machine without scopes the solver decides, and the disagreements."""
    chance = random.Random(seed)
    text = random_text(chance, features)
    machine, interpreter = machine_of(text), interpret(text, tick=unit(text))
    solver, model = Unbounded(machine=machine), InterpreterModel(interpreter, machine)
    try:
        interpreter.reached(most=LARGEST)
    except TooWideError:
        return 0, []
    decided, found = 0, []
    for each in claims(chance, machine, ("always", "never")):
        conclusion = solver.decide(each.claim)
        if not isinstance(conclusion, Unknown):
            decided += 1
            answer = Decider(model).decide(each.claim).verdict
            if isinstance(conclusion, Refuted) != (answer == "fails"):
                found.append(f"{seed}: {conclusion}, expected {answer}: {each.claim}")
    return decided, found
