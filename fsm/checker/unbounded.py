"""Decide claims about data for all integers, with the Horn engine of the solver Z3 (Hoder and Bjørner, 2012).

The states of the machine, without its data, become the control states of a transition system whose variables are
unbounded.  The engine searches for an inductive invariant that excludes every breach.  If there is none, some run
breaks the claim.  It is found by unrolling the steps, and is taken again with :class:`~fsm.machine.guards.DataEffects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, assert_never

import z3
from msgspec import structs

from fsm.checker.instants import Instant, InstantStep, StepCache, holds
from fsm.checker.safety import sequences_of
from fsm.machine import Event, Machine, Moves
from fsm.machine.claims import Always, Claim, Never
from fsm.machine.conditions import All, Atom, Compare, Condition, Not, Some, with_atoms
from fsm.machine.evidence import Conclusion, Proved, Refuted, Run, RunStep
from fsm.machine.guards import DataEffects, names_of, reads_arguments_later
from fsm.machine.in_progress import in_progress
from fsm.machine.table import Way, tabulate
from fsm.machine.terms import COMPARISONS, OPERATORS, Combined, Constant, Read, Term, Values, Variable, assignments
from fsm.machine.timers import clocked
from fsm.verdict import Unknown

SECONDS: Final = 60  # time that the solver has for a claim
LONGEST: Final = 100  # maximum length of a counterexample

Expression = Any  # of Z3, which has no types
Frame = Mapping[str, Expression]


class _Edge(NamedTuple):
    step: InstantStep
    way: Way  # with its guard and updates


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbounded:
    """Decides claims about *machine*, which is already under its profile."""

    machine: Machine

    def decide(self, claim: Claim) -> Conclusion:
        """Decide whether *claim* holds for all integers.  It must be about single instants, or it is unknown."""
        if not isinstance(claim, Always | Never):
            return Unknown(why="--unbounded decides only 'always' and 'never'")
        sequences, _ = sequences_of(claim)
        if any(len(sequence) > 1 for sequence in sequences):
            return Unknown(why="--unbounded does not decide sequences with 'then'")
        if late := next((each.name for each in self.machine.events.values() if reads_arguments_later(each)), ""):
            return Unknown(
                why=f"--unbounded does not decide machines in which the end of a call, {late}, reads arguments"
            )
        system = _System(self.machine)
        for (condition,) in sequences:
            conclusion = system.search(condition.means)
            if not isinstance(conclusion, Proved):
                return conclusion
        return Proved()

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
                solver.add(*_ranges(known.values(), frame), z3.Not(_formula(Some(of=tuple(guards)), frame)))
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
    """The steps of a machine between control states, with formulas for its data."""

    def __init__(self, machine: Machine) -> None:
        machine = clocked(machine) if machine.timers.keys() - machine.data.keys() else machine
        table = tabulate(machine)
        self.machine, self.data = machine, table.data or DataEffects(machine.data, machine.events.values())
        self.control = StepCache(in_progress(tabulate(_without_data(machine))))
        self.variables = [*machine.data.values()]
        self.edges = [
            _Edge(step, table.ways[step.way.index] if step.way.index >= 0 else step.way)
            for state in self.control.reached
            for step in self.control.steps().after(state)
        ]

    def search(self, condition: Condition) -> Conclusion:
        first = self.control.steps().beginning
        left = self._of_data(condition, first)
        if left is True or (not isinstance(left, bool) and self.data.test(left)(self.data.initial)):
            return Refuted(evidence=Run(initial=self.machine.initial, steps=()))
        engine = z3.Fixedpoint()
        engine.set(engine="spacer", timeout=SECONDS * 1_000)
        sorts = [z3.IntSort()] * (1 + len(self.variables))
        reached, breach = z3.Function("reached", *sorts, z3.BoolSort()), z3.Function("breach", z3.BoolSort())
        before = {each.name: z3.Int(f"{each.name}'") for each in self.variables}
        given = {
            name: z3.Int(f"{event.name}.{name}") for event in self.machine.events.values() for name in event.arguments
        }
        engine.register_relation(reached, breach)
        engine.declare_var(*before.values(), *given.values())
        engine.fact(reached(self.control.table.initial, *self.data.initial))
        for edge in self.edges:
            event = self.machine.events[edge.step.taken.event]
            frame = {**before, **{name: given[name] for name in event.arguments}}
            possible = [reached(edge.step.instants[0].source, *before.values())]
            possible += _guards(edge.way, event, frame)
            after = self._after(edge.way, frame)
            engine.rule(reached(edge.step.way.to, *after.values()), possible)
            for instant in edge.step.instants:
                broken = self._of_data(condition, instant)
                if broken is not False:
                    engine.rule(breach(), [*possible, *([] if broken is True else [_formula(broken, after)])])
        answer = engine.query(breach())
        if answer == z3.unsat:
            return Proved()
        if answer == z3.unknown:
            return Unknown(why=f"the solver does not know: {engine.reason_unknown()}")
        return self._unroll(condition)

    def _of_data(self, condition: Condition, instant: Instant) -> Condition | bool:
        def of_atom(atom: Atom) -> Condition | bool:
            return atom if isinstance(atom, Compare) else holds(atom, self.control.table)(instant)

        return with_atoms(condition, of_atom)

    def _after(self, way: Way, frame: Frame) -> dict[str, Expression]:
        after = {each.name: frame[each.name] for each in self.variables}
        for update in way.updates:
            variable, value = self.machine.data[update.variable], _value(update.term, frame)
            if variable.beyond == "saturates":
                value = z3.If(value < variable.low, variable.low, z3.If(value > variable.high, variable.high, value))
            after[update.variable] = value
        return after

    def _unroll(self, condition: Condition) -> Conclusion:
        solver = z3.Solver()
        solver.set(timeout=SECONDS * 1_000)
        place: Expression = z3.IntVal(self.control.table.initial)
        values: dict[str, Expression] = {
            each.name: z3.IntVal(value) for each, value in zip(self.variables, self.data.initial, strict=True)
        }
        taken: list[tuple[Expression, dict[str, Expression]]] = []
        for length in range(1, LONGEST + 1):
            edge, given = z3.Int(f"edge {length}"), dict[str, Expression]()
            then, after = (
                z3.Int(f"state {length}"),
                {each.name: z3.Int(f"{each.name} {length}") for each in self.variables},
            )
            steps, breaches = [], []
            for number, each in enumerate(self.edges):
                event = self.machine.events[each.step.taken.event]
                for name in event.arguments:
                    given.setdefault(f"{event.name}.{name}", z3.Int(f"{event.name}.{name} {length}"))
                frame = {**values, **{name: given[f"{event.name}.{name}"] for name in event.arguments}}
                new = self._after(each.way, frame)
                possible = [edge == number, place == each.step.instants[0].source, then == each.step.way.to]
                possible += [after[name] == value for name, value in new.items()]
                steps.append(z3.And(*possible, *_guards(each.way, event, frame)))
                for instant in each.step.instants:
                    broken = self._of_data(condition, instant)
                    if broken is not False:
                        breaches.append(z3.And(edge == number, True if broken is True else _formula(broken, after)))
            solver.add(z3.Or(*steps))
            taken.append((edge, given))
            solver.push()
            solver.add(z3.Or(*breaches))
            if (found := solver.check()) == z3.sat:
                return Refuted(evidence=self._run(solver.model(), taken))
            if found == z3.unknown:
                break
            solver.pop()
            place, values = then, after
        return Unknown(why=f"a run breaks the property, but none of at most {length} steps was found")

    def _run(self, model: Expression, taken: Sequence[tuple[Expression, dict[str, Expression]]]) -> Run:
        values, steps = self.data.initial, list[RunStep]()
        for edge, given in taken:
            step, way = self.edges[_number(model, edge)]
            event, row = self.machine.events[step.taken.event], self._row(step.taken.event, ends=step.taken.ends)
            arguments: Values = tuple(_number(model, given[f"{event.name}.{name}"]) for name in event.arguments)
            found = self.data.outcomes((way,), row, values, arguments)
            if not found:
                raise AssertionError(step)  # cannot happen, because the formulas have the same meaning
            ((_, values),) = found
            about = {"given": self.data.given(row, arguments), "data": self.data.texts(values)}
            steps.append(structs.replace(step.taken, **about))
        return Run(initial=self.machine.initial, steps=tuple(steps))

    def _row(self, event: str, *, ends: bool) -> int:
        table = self.control.table
        return table.end[table.row[event]] if ends else table.row[event]


def _without_data(machine: Machine) -> Machine:
    def cell(found: Any) -> Any:  # noqa: ANN401  (a cell of the same kind)
        if not isinstance(found, Moves):
            return found
        return replace(found, outcomes=tuple(replace(way, when=None, updates=()) for way in found.outcomes))

    events = {
        name: replace(
            event,
            cells={state: cell(each) for state, each in event.cells.items()},
            ends={state: cell(each) for state, each in event.ends.items()},
            arguments={},
        )
        for name, event in machine.events.items()
    }
    return replace(machine, events=events, data={}, timers={})


def _guards(way: Way, event: Event, frame: Frame) -> list[Expression]:
    return [*_ranges(event.arguments.values(), frame), *([_formula(way.when, frame)] if way.when else [])]


def _ranges(variables: Iterable[Variable], frame: Frame) -> list[Expression]:
    bounded = (each for each in variables if each.beyond != "scope")
    return [z3.And(each.low <= frame[each.name], frame[each.name] <= each.high) for each in bounded]


def _formula(condition: Condition, frame: Frame) -> Expression:
    match condition:
        case Not(of=inner):
            return z3.Not(_formula(inner, frame))
        case All(of=parts):
            return z3.And(*(_formula(each, frame) for each in parts))
        case Some(of=parts):
            return z3.Or(*(_formula(each, frame) for each in parts))
        case Compare(comparison=comparison, left=left, right=right):
            return COMPARISONS[comparison](_value(left, frame), _value(right, frame))
        case _:
            raise TypeError(f"{condition} is not about data")


def _value(term: Term, frame: Frame) -> Expression:
    match term:
        case Constant(value=value):
            return z3.IntVal(value)
        case Read(name=name):
            return frame[name]
        case Combined(operator=operator, left=left, right=right):
            one, other = _value(left, frame), _value(right, frame)
            if operator in {"+", "-"}:
                return OPERATORS[operator](one, other)
            return z3.If(one < other, one, other) if operator == "min" else z3.If(one < other, other, one)
        case _:
            assert_never(term)


def _number(model: Expression, variable: Expression) -> int:
    return int(model.eval(variable, model_completion=True).as_long())
