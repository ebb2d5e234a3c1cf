"""Decide claims about data for all integers, with the Horn engine of the solver Z3 (Hoder and Bjørner, 2012).

The states of the machine, without its data, become the control states of a transition system whose variables are
unbounded.  Arguments that the end of a call reads are stored in further variables when the call begins.  The engine
searches for an inductive invariant that excludes every breach.  If there is none, some run breaks the claim.  It is
found by unrolling the steps, and is taken again with :class:`~fsm.machine.guards.DataEffects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import z3
from msgspec import structs

from fsm.checker.formulas import FormulaWriter
from fsm.checker.instants import Instant, InstantStep, StepCache, holds
from fsm.checker.safety import sequences_of
from fsm.machine import Machine, Moves
from fsm.machine.claims import Always, Claim, Never
from fsm.machine.conditions import Atom, Compare, Condition, Some, with_atoms
from fsm.machine.evidence import Conclusion, Proved, Refuted, Run, RunStep
from fsm.machine.guards import DataEffects, arguments_read_later, names_of
from fsm.machine.in_progress import in_progress
from fsm.machine.table import tabulate
from fsm.machine.terms import OPERATORS, Values, Variable, assignments
from fsm.machine.timers import clocked
from fsm.verdict import Unknown

SECONDS: Final = 60  # time that the solver has for a claim
LONGEST: Final = 100  # maximum length of a counterexample

Expression = Any  # of Z3, which has no types
FORMULAS: Final = FormulaWriter(
    operators={
        **OPERATORS,
        "min": lambda one, other: z3.If(one < other, one, other),
        "max": lambda one, other: z3.If(one < other, other, one),
    },
    negated=z3.Not,
    every=z3.And,
    some=z3.Or,
)
Frame = Mapping[str, Expression]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbounded:
    """Decides claims about *machine*, which is already under its profile.

    Up to ``overlap`` calls of each event may be in progress.
    """

    machine: Machine
    overlap: int = 1

    def decide(self, claim: Claim) -> Conclusion:
        """Decide whether *claim* holds for all integers.  It must be about single instants, or it is unknown."""
        if not isinstance(claim, Always | Never):
            return Unknown(why="--unbounded decides only 'always' and 'never'")
        sequences, _ = sequences_of(claim)
        if any(len(sequence) > 1 for sequence in sequences):
            return Unknown(why="--unbounded does not decide sequences with 'then'")
        late = [f"'{name}'" for name, event in self.machine.events.items() if arguments_read_later(event)]
        if late and self.overlap > 1:
            return Unknown(
                why=f"--unbounded stores the arguments of only one call of {' and '.join(late)}, not several"
            )
        conditions = [condition.means for (condition,) in sequences]
        system = _System(self.machine, conditions, self.overlap)
        conclusion = system.decide()
        if not isinstance(conclusion, Proved) or not system.control.left_out[1]:
            return conclusion
        beyond = _System(self.machine, conditions, self.overlap, unwritten=True).decide()
        why = "the verdict depends on how a call ends in a state without `ends`"
        return conclusion if isinstance(beyond, Proved) else Unknown(why=why)

    def uncovered(self) -> Iterator[tuple[str, str, str]]:
        """Yield each cell whose guards do not cover all integers: its event, its state, and values without a guard."""
        for event in self.machine.events.values():
            known = {**self.machine.data, **event.arguments}
            frame = {name: z3.Int(name) for name in known}
            for state, cell in (*event.cells.items(), *event.ends.items()):
                guards = [way.when.means for way in cell.outcomes if way.when] if isinstance(cell, Moves) else []
                if not guards or len(guards) < len(cell.outcomes):  # type: ignore[union-attr]  # it has outcomes
                    continue
                solver = z3.Solver()
                solver.set(timeout=SECONDS * 1_000)
                solver.add(*_ranges(known.values(), frame), z3.Not(FORMULAS.condition(Some(of=tuple(guards)), frame)))
                if solver.check() == z3.unsat:
                    continue
                read = [
                    each
                    for each in known.values()
                    if each.name in {name for way in guards for name in names_of(way, ())}
                ]
                found = solver.model() if solver.check() == z3.sat else None
                values = tuple(_number(found, frame[each.name]) if found else None for each in read)
                yield event.name, state, ", ".join(assignments(read, values))


class _System:
    """The steps of a machine between control states, with formulas for its data, and conditions that must never hold.

    The formulas read ``slots``: the variables, and the ``stored`` arguments of calls in progress.  If *unwritten* is
    true, there are steps for unspecified ends of calls.
    """

    def __init__(
        self, machine: Machine, conditions: Sequence[Condition], overlap: int, *, unwritten: bool = False
    ) -> None:
        machine = clocked(machine) if machine.timers.keys() - machine.data.keys() else machine
        self.machine, self.data = machine, DataEffects(machine.data, machine.events.values())
        control = StepCache(in_progress(replace(tabulate(replace(machine, timers={})), data=None), overlap))
        self.control, self.conditions = control.beyond if unwritten else control, conditions
        self.stored = {
            f"{name} of {event.name}" for event in machine.events.values() for name in arguments_read_later(event)
        }
        self.slots = [*machine.data, *sorted(self.stored)]
        self.initial: list[int | None] = [*self.data.initial, *(0 for _ in self.stored)]
        successors = self.control.steps(conditions)
        self.steps = [step for state in self.control.reached for step in successors.after(state)]

    def decide(self) -> Conclusion:
        found = map(self._search, self.conditions)
        return next((each for each in found if not isinstance(each, Proved)), Proved())

    def _search(self, condition: Condition) -> Conclusion:
        first = self.control.steps().beginning
        left = self._of_data(condition, first)
        if left is True or (not isinstance(left, bool) and self.data.test(left)(self.data.initial)):
            return Refuted(evidence=Run(initial=self.machine.initial, steps=()))
        engine = z3.Fixedpoint()
        engine.set(engine="spacer", timeout=SECONDS * 1_000)
        sorts = [z3.IntSort()] * (1 + len(self.slots))
        reached, breach = z3.Function("reached", *sorts, z3.BoolSort()), z3.Function("breach", z3.BoolSort())
        before, given = {slot: z3.Int(f"{slot}'") for slot in self.slots}, self._given("")
        engine.register_relation(reached, breach)
        engine.declare_var(*before.values(), *given.values())
        engine.fact(reached(self.control.table.initial, *self.initial))
        for step in self.steps:
            guards, after = self._effect(step, before, given)
            possible = [reached(step.instants[0].source, *before.values()), *guards]
            engine.rule(reached(step.way.to, *after.values()), possible)
            for broken in self._breaches(condition, step, after):
                engine.rule(breach(), [*possible, broken])
        answer = engine.query(breach())
        if answer == z3.unsat:
            return Proved()
        if answer == z3.unknown:
            return Unknown(why=f"the solver does not know: {engine.reason_unknown()}")
        return self._unroll(condition)

    def _given(self, suffix: str) -> dict[str, Expression]:
        events = self.machine.events.values()
        names = (f"{name} of {event.name}" for event in events for name in event.arguments)
        return {name: z3.Int(f"{name}{suffix}") for name in names}

    def _effect(self, step: InstantStep, values: Frame, given: Frame) -> tuple[list[Expression], dict[str, Expression]]:
        """Return the guards of a step, and the values after it."""
        event, after = self.machine.events[step.taken.event], {**values}
        arguments = self._arguments(step.taken, values, given)
        frame = {**values, **arguments}
        for update in step.way.updates:
            variable, value = self.machine.data[update.variable], FORMULAS.term(update.term, frame)
            if variable.beyond == "saturates":
                value = z3.If(value < variable.low, variable.low, z3.If(value > variable.high, variable.high, value))
            after[update.variable] = value
        if step.way.begins:
            after |= {slot: value for name, value in arguments.items() if (slot := f"{name} of {event.name}") in values}
        guards = [
            *_ranges(event.arguments.values(), frame),
            *([FORMULAS.condition(step.way.when, frame)] if step.way.when else []),
        ]
        return guards, after

    def _arguments(self, taken: RunStep, values: Frame, given: Frame) -> dict[str, Expression]:
        """Return the arguments of an event.  The end of a call has those that were stored when it began."""
        known = {**given, **values} if taken.ends else given
        return {name: known[f"{name} of {taken.event}"] for name in self.machine.events[taken.event].arguments}

    def _breaches(self, condition: Condition, step: InstantStep, after: Frame) -> Iterator[Expression]:
        for instant in step.instants:
            broken = self._of_data(condition, instant)
            if broken is not False:
                yield z3.BoolVal(val=True) if broken is True else FORMULAS.condition(broken, after)

    def _of_data(self, condition: Condition, instant: Instant) -> Condition | bool:
        def of_atom(atom: Atom) -> Condition | bool:
            return atom if isinstance(atom, Compare) else holds(atom, self.control.table)(instant)

        return with_atoms(condition, of_atom)

    def _unroll(self, condition: Condition) -> Conclusion:
        solver = z3.Solver()
        solver.set(timeout=SECONDS * 1_000)
        place: Expression = z3.IntVal(self.control.table.initial)
        values: dict[str, Expression] = dict(zip(self.slots, map(z3.IntVal, self.initial), strict=True))
        taken: list[tuple[Expression, Frame]] = []
        for length in range(1, LONGEST + 1):
            number, then, given = z3.Int(f"edge {length}"), z3.Int(f"state {length}"), self._given(f" given {length}")
            after = {slot: z3.Int(f"{slot} {length}") for slot in self.slots}
            possible_steps, breaches = [], []
            for index, step in enumerate(self.steps):
                guards, new = self._effect(step, values, given)
                possible = [number == index, place == step.instants[0].source, then == step.way.to, *guards]
                possible_steps.append(z3.And(*possible, *(after[slot] == value for slot, value in new.items())))
                breaches += [z3.And(number == index, broken) for broken in self._breaches(condition, step, after)]
            solver.add(z3.Or(*possible_steps))
            taken.append((number, given))
            solver.push()
            solver.add(z3.Or(*breaches))
            if (found := solver.check()) == z3.sat:
                return Refuted(evidence=self._run(solver.model(), taken))
            if found == z3.unknown:
                break
            solver.pop()
            place, values = then, after
        return Unknown(why=f"a run breaks the property, but none of at most {length} steps was found")

    def _run(self, model: Expression, taken: Sequence[tuple[Expression, Frame]]) -> Run:
        values, steps, begun = self.data.initial, list[RunStep](), dict[str, Values]()
        for number, given in taken:
            step = self.steps[_number(model, number)]
            event, row = step.taken.event, step.row
            if not step.taken.ends:
                begun[event] = tuple(_number(model, each) for each in self._arguments(step.taken, {}, given).values())
            arguments = begun[event]
            found = self.data.outcomes((step.way,), row, values, arguments)
            if not found:
                raise AssertionError(step)  # cannot happen, because the formulas have the same meaning
            ((_, values),) = found
            about = {"given": self.data.given(row, arguments), "data": self.data.texts(values)}
            steps.append(structs.replace(step.taken, **about))
        return Run(initial=self.machine.initial, steps=tuple(steps))


def _ranges(variables: Iterable[Variable], frame: Frame) -> list[Expression]:
    bounded = (each for each in variables if each.beyond != "scope")
    return [z3.And(each.low <= frame[each.name], frame[each.name] <= each.high) for each in bounded]


def _number(model: Expression, variable: Expression) -> int:
    return int(model.eval(variable, model_completion=True).as_long())
