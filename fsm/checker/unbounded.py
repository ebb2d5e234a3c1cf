"""Decide claims about data for all integers, with the Horn engine of the solver Z3 (Hoder and Bjørner, 2012).

The states of the machine, without its data, become the control states of a transition system whose variables are
unbounded.  Arguments that the end of a call reads are stored in further variables when the call begins.  The engine
searches for an inductive invariant that excludes every breach.  If there is none, some run breaks the claim.  It is
found by unrolling the steps, and is taken again with :class:`~fsm.machine.guards.DataEffects`.
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
from fsm.machine.guards import DataEffects, names_of
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
        late = [f"'{name}'" for name, event in self.machine.events.items() if _arguments_read_later(event)]
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


def _arguments_read_later(event: Event) -> set[str]:
    ways = [way for end in event.ends.values() for way in end.outcomes]
    names = (name for way in ways for name in names_of(way.when.means if way.when else None, way.updates))
    return event.arguments.keys() & names


class _System:
    """The steps of a machine between control states, with formulas for its data, and conditions that must never hold.

    The formulas read ``slots``: the variables, and the ``stored`` arguments of calls in progress.  If *unwritten* is
    true, there are steps for unspecified ends of calls.
    """

    def __init__(
        self, machine: Machine, conditions: Sequence[Condition], overlap: int, *, unwritten: bool = False
    ) -> None:
        machine = clocked(machine) if machine.timers.keys() - machine.data.keys() else machine
        table = tabulate(machine)
        self.machine, self.data = machine, table.data or DataEffects(machine)
        control = StepCache(in_progress(tabulate(_without_data(machine)), overlap))
        self.control, self.conditions = control.beyond if unwritten else control, conditions
        self.stored = {
            f"{name} of {event.name}" for event in machine.events.values() for name in _arguments_read_later(event)
        }
        self.slots = [*machine.data, *sorted(self.stored)]
        self.initial: list[int | None] = [*self.data.initial, *(0 for _ in self.stored)]
        self.edges = [
            _Edge(step, table.ways[step.way.index] if step.way.index >= 0 else step.way)
            for state in self.control.reached
            for step in self.control.steps(conditions).after(state)
        ]

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
        for edge in self.edges:
            guards, after = self._effect(edge, before, given)
            possible = [reached(edge.step.instants[0].source, *before.values()), *guards]
            engine.rule(reached(edge.step.way.to, *after.values()), possible)
            for broken in self._breaches(condition, edge, after):
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

    def _effect(self, edge: _Edge, values: Frame, given: Frame) -> tuple[list[Expression], dict[str, Expression]]:
        """Return the guards of a step, and the values after it."""
        event, after = self.machine.events[edge.step.taken.event], {**values}
        arguments = self._arguments(edge, values, given)
        frame = {**values, **arguments}
        for update in edge.way.updates:
            variable, value = self.machine.data[update.variable], _value(update.term, frame)
            if variable.beyond == "saturates":
                value = z3.If(value < variable.low, variable.low, z3.If(value > variable.high, variable.high, value))
            after[update.variable] = value
        if edge.way.begins:
            after |= {slot: value for name, value in arguments.items() if (slot := f"{name} of {event.name}") in values}
        guards = [
            *_ranges(event.arguments.values(), frame),
            *([_formula(edge.way.when, frame)] if edge.way.when else []),
        ]
        return guards, after

    def _arguments(self, edge: _Edge, values: Frame, given: Frame) -> dict[str, Expression]:
        """Return the arguments of an event, of which the end of a call has stored some."""
        taken = edge.step.taken
        known = {**given, **values} if taken.ends else given
        return {name: known[f"{name} of {taken.event}"] for name in self.machine.events[taken.event].arguments}

    def _breaches(self, condition: Condition, edge: _Edge, after: Frame) -> Iterator[Expression]:
        for instant in edge.step.instants:
            broken = self._of_data(condition, instant)
            if broken is not False:
                yield z3.BoolVal(val=True) if broken is True else _formula(broken, after)

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
            steps, breaches = [], []
            for index, edge in enumerate(self.edges):
                guards, new = self._effect(edge, values, given)
                possible = [number == index, place == edge.step.instants[0].source, then == edge.step.way.to, *guards]
                steps.append(z3.And(*possible, *(after[slot] == value for slot, value in new.items())))
                breaches += [z3.And(number == index, broken) for broken in self._breaches(condition, edge, after)]
            solver.add(z3.Or(*steps))
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
            edge = self.edges[_number(model, number)]
            event, ends, row = edge.step.taken.event, edge.step.taken.ends, edge.step.row
            if not ends:
                begun[event] = tuple(_number(model, each) for each in self._arguments(edge, {}, given).values())
            arguments = begun[event]
            found = self.data.outcomes((edge.way,), row, values, arguments)
            if not found:
                raise AssertionError(edge.step)  # cannot happen, because the formulas have the same meaning
            ((_, values),) = found
            about = {"given": self.data.given(row, arguments), "data": self.data.texts(values)}
            steps.append(structs.replace(edge.step.taken, **about))
        return Run(initial=self.machine.initial, steps=tuple(steps))


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
