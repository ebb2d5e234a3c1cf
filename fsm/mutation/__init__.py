"""Machines and systems that differ from an original in a single respect, and the properties that they break.

A *mutant* is a machine or system with one error that an author could make. A property that no mutant breaks detects no
error. A mutant that breaks no property is *equivalent* if no observation distinguishes it from the original. Otherwise
it is a *survivor* and shows an error that the properties do not detect (DeMillo, Lipton and Sayward, 1978).

In a mutant of a machine, one cell has a wrong target, kind, reply, output, condition or update, or lacks an
alternative. In a mutant of a
system, one joint event lacks a step or condition, has a wrong target, or takes its steps in a wrong order.
:mod:`~fsm.mutation.outcomes` finds the properties that mutants break.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fsm import machine as model
from fsm.language.build.data import data_faults, with_rest_of
from fsm.language.build.ends import endless, in_progress
from fsm.language.build.systems import joint_events, joint_place, rebuild_joint_event
from fsm.language.read import File
from fsm.language.read.toml import Keys
from fsm.language.vocabularies import WrittenJoint, WrittenStep, WrittenSystem, WrittenWay
from fsm.machine import ANY_ERROR
from fsm.machine.conditions import Not
from fsm.machine.product.system import System
from fsm.mutation.data_mutants import DataMutants


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A machine in which the cell of ``event`` in ``state`` has been changed."""

    name: str
    event: str
    state: str
    ends: bool  # whether it is the cell for the end of the call
    line: int
    machine: model.Machine


def mutants(machine: model.Machine) -> Iterator[Mutant]:
    """Yield every mutant of *machine*, in the order of its events and states.

    Mutants are well formed and have unique names. Each changes the meaning of one cell. Two mutants may be equal.

    >>> from fsm.language.library import load
    >>> door = load("examples/models/door.toml")
    >>> [each.name for each in mutants(door) if each.event == "pull" and each.state == "shut"][:3]
    ['pull in shut: refused', 'pull in shut: silent', 'pull in shut: to open']
    """
    outputs = machine.outputs()
    for event in machine.events.values():
        for ends, row in ((False, event.cells), (True, event.ends)):
            for state, cell in row.items():
                making = _CellMutants(machine=machine, event=event, state=state, ends=ends, outputs=outputs)
                own = _meaning(cell, state, event.kind)
                names: dict[model.Cell, str] = {}
                for name, changed in making.changes(cell):
                    if changed != cell and _meaning(changed, state, event.kind) != own:
                        names.setdefault(changed, name)
                yield from filter(None, (making.mutant(name, changed) for changed, name in names.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CellMutants:
    machine: model.Machine
    event: model.Event
    state: str
    ends: bool
    outputs: tuple[str, ...]

    def mutant(self, name: str, cell: model.Cell) -> Mutant | None:
        """Return the mutant with *cell* instead of the original cell, or ``None`` if it is not well formed."""
        event = self.event
        ways = cell.outcomes if isinstance(cell, model.Moves) else ()
        guarded = any(way.when or way.updates for way in ways)
        if guarded and data_faults(self.machine, event, self.state, ways):
            return None
        if isinstance(cell, model.Moves) and self.ends:
            changed = replace(event, ends={**event.ends, self.state: cell})
        else:
            changed = replace(event, cells={**event.cells, self.state: cell})
        machine = replace(self.machine, events={**self.machine.events, event.name: changed}, profiles={})
        machine = _without_unreachable_ends(machine)
        if any(endless(each) for each in machine.events.values()):
            return None
        return Mutant(name=name, event=event.name, state=self.state, ends=self.ends, line=cell.line, machine=machine)

    def changes(self, cell: model.Cell) -> Iterator[tuple[str, model.Cell]]:
        yield from self._kinds(cell)
        match cell:
            case model.Moves(outcomes=ways):
                for index, way in enumerate(ways):
                    for change, changed in self._ways(way):
                        others = (*ways[:index], changed, *ways[index + 1 :])
                        yield self._name(change, way if len(ways) > 1 else None), replace(cell, outcomes=others)
                    if len(ways) > 1:
                        left = with_rest_of((*ways[:index], *ways[index + 1 :]))
                        yield self._name("dropped", way), replace(cell, outcomes=left)
                making = DataMutants(data=self.machine.data, arguments=self.event.arguments)
                for change, of, others in making.changes(ways):
                    yield self._name(change, of), replace(cell, outcomes=with_rest_of(others))
            case _:
                for change, changed in self._ways_of_still(cell):
                    yield self._name(change), model.Moves(outcomes=(changed,), clause=cell.clause, line=cell.line)

    def _kinds(self, cell: model.Cell) -> Iterator[tuple[str, model.Cell]]:
        clause, line = cell.clause, cell.line
        kinds: dict[str, model.Cell] = {"ignored": model.Ignores(clause=clause, line=line)}
        if self.event.kind == "call":
            kinds["refused"] = model.Refuses(codes=(model.ANY_ERROR,), clause=clause, line=line)
        else:
            kinds["cannot"] = model.Cannot(clause=clause, line=line)
        kinds["silent"] = model.Silent(clause=clause, line=line)
        for name, changed in kinds.items() if not self.ends else ():
            if type(changed) is not type(cell):
                yield self._name(name), changed

    def _ways_of_still(self, cell: model.Cell) -> Iterator[tuple[str, model.Outcome]]:
        reply = cell.codes if isinstance(cell, model.Refuses) else ("ok",) if self.event.kind == "call" else ()
        still = model.Outcome(name="still", to=self.state, reply=reply)
        if isinstance(cell, model.Ignores | model.Refuses):
            yield from self._ways(still)
        else:
            others = (state for state in self.machine.states if state != self.state)
            yield from ((f"to {state}", replace(still, name="moved", to=state)) for state in others)

    def _ways(self, way: model.Outcome) -> Iterator[tuple[str, model.Outcome]]:
        verb = "begins" if way.begins else "to"
        for state in self.event.ends if way.begins else self.machine.states:
            if state != way.to:
                yield f"{verb} {state}", replace(way, to=state)
        if way.begins:
            return
        for each in dict.fromkeys(("ok", model.ANY_ERROR, *way.reply)) if way.reply else ():
            if way.reply != (each,):
                yield f"replies {each}", replace(way, reply=(each,))
        for index, output in enumerate(way.emits):
            yield f"drops {output}", replace(way, emits=(*way.emits[:index], *way.emits[index + 1 :]))
            if index and output != way.emits[index - 1]:
                swapped = (*way.emits[: index - 1], output, way.emits[index - 1], *way.emits[index + 1 :])
                yield f"swaps {way.emits[index - 1]} and {output}", replace(way, emits=swapped)
        for output in self.outputs:
            verb = "repeats" if output in way.emits else "adds"
            yield f"{verb} {output}", replace(way, emits=(*way.emits, output))

    def _name(self, change: str, way: model.Outcome | None = None) -> str:
        outcome = f"/{way.name}" if way is not None else ""
        return f"{self.event.name}{outcome}{' ends' if self.ends else ''} in {self.state}: {change}"


def _meaning(cell: model.Cell, state: str, kind: model.Kind) -> object:
    ways = model.outcomes(cell, state, kind)
    return ways and frozenset((way.to, frozenset(way.reply), way.emits, way.begins, _data(way)) for way in ways)


def _data(way: model.Outcome) -> object:
    return way.when and way.when.means, frozenset((each.variable, each.term) for each in way.updates)


def _without_unreachable_ends(machine: model.Machine) -> model.Machine:
    for event in machine.events.values():
        if event.ends:
            found = in_progress(machine, event)
            if not event.ends.keys() <= found:
                ends = {state: end for state, end in event.ends.items() if state in found}
                return _without_unreachable_ends(
                    replace(machine, events={**machine.events, event.name: replace(event, ends=ends)})
                )
    return machine


_RESET: Final = "reset "
_Steps = tuple[str | WrittenStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JointMutant:
    """A system with one change, which does not depend on the number of copies of the parts."""

    name: str
    event: str  # the joint event or part that is changed
    way: str  # the changed alternative, if any
    line: int
    change: Callable[[System], System]


def joint_mutants(system: System, file: File[WrittenSystem], profile: str | None = None) -> Iterator[JointMutant]:
    """Yield every mutant of *system*, which was built from *file* under *profile*, in file order.

    Mutants are well formed and have unique names. No two mutants of a joint event have the same steps.
    """
    for name, joint in joint_events(file, profile).items():
        making = _JointMutants(system=system, file=file, profile=profile, name=name, written=joint)
        known = {making.joints(system)}
        for mutant in making.mutants():
            joints = making.joints(mutant.change(system))
            if joints not in known:
                known.add(joints)
                yield mutant
    yield from _heard_mutants(system, file)


def _heard_mutants(system: System, file: File[WrittenSystem]) -> Iterator[JointMutant]:
    for name, part in system.parts.items():
        for change in ("dropped", "turned round") if part.heard is not None else ():

            def changed(of: System, name: str = name, change: str = change) -> System:
                part = of.parts[name]
                heard = Not(of=part.heard) if part.heard and change == "turned round" else None
                return replace(of, parts={**of.parts, name: replace(part, heard=heard)})

            line = file.lines.find("part", name, "heard")
            yield JointMutant(name=f"{name}: heard {change}", event=name, way="", line=line, change=changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _JointMutants:
    system: System
    file: File[WrittenSystem]
    profile: str | None
    name: str
    written: WrittenJoint

    def joints(self, system: System) -> tuple[object, ...]:
        return tuple(
            (each.when, tuple((way.name, way.when, way.steps, way.reply) for way in each.ways))
            for each in system.events.values()
            if each.family == self.name
        )

    def mutants(self) -> Iterator[JointMutant]:
        yield from self._conditions(self.written.when, lambda when: self.written.model_copy(update={"when": when}))
        if self.written.steps:
            only = WrittenWay.model_validate({"steps": self.written.steps})
            yield from self._way(only, lambda way: self._with({"done": way} if way else {}), "", ())
        for name, way in self.written.ways.items():

            def among(instead: WrittenWay | None, name: str = name) -> WrittenJoint:
                ways = {**self.written.ways, name: instead}
                return self._with({each: way for each, way in ways.items() if way is not None})

            yield from self._way(way, among, f"/{name}", ("ways", name))

    def _with(self, ways: Mapping[str, WrittenWay]) -> WrittenJoint:
        return self.written.model_copy(update={"steps": [], "ways": ways})

    def _conditions(
        self, when: str | None, made: Callable[[str | None], WrittenJoint], way: str = "", at: Keys = ()
    ) -> Iterator[JointMutant]:
        for change, other in _other_conditions(when):
            yield self._mutant(way, f"when {change}", made(other), (*at, "when"))

    def _way(
        self, way: WrittenWay, among: Callable[[WrittenWay | None], WrittenJoint], name: str, at: Keys
    ) -> Iterator[JointMutant]:
        def instead(**changes: object) -> WrittenJoint:
            return among(way.model_copy(update=changes))

        if len(self.written.ways) > 1:
            yield self._mutant(name, "dropped", among(None), at)
        yield from self._conditions(way.when, lambda when: instead(when=when), name, at)
        if self.written.actual_kind == "call":
            reply = ANY_ERROR if way.reply in {None, "ok"} else None
            yield self._mutant(name, f"replies {reply or 'ok'}", instead(reply=reply), at)
        for change, steps, place in self._changes(tuple(way.steps), (), _step_names(tuple(way.steps))):
            yield self._mutant(name, change, instead(steps=list(steps)), (*at, "steps", *place))

    def _mutant(self, way: str, change: str, written: WrittenJoint, at: Keys) -> JointMutant:
        def changed(of: System) -> System:
            return rebuild_joint_event(of, self.file, self.name, written, self.profile)

        return JointMutant(
            name=f"{self.name}{way}: {change}",
            event=self.name,
            way=way.removeprefix("/"),
            line=self.file.lines.find(*joint_place(self.file, self.profile, ("event", self.name, *at))),
            change=changed,
        )

    def _changes(self, steps: _Steps, place: Keys, names: Mapping[Keys, str]) -> Iterator[tuple[str, _Steps, Keys]]:
        for number, each in enumerate(steps):
            step, here = _as_table(each), (*place, number)
            called = names[here]
            if number:
                swapped = (*steps[: number - 1], each, steps[number - 1], *steps[number + 1 :])
                yield f"swaps {names[*place, number - 1]} and {called}", swapped, here
            if step.each is None:
                for change, instead in self._step(step, called):
                    yield change, (*steps[:number], *instead, *steps[number + 1 :]), here
                continue
            for change, inner, there in self._changes(tuple(step.steps), (*here, "steps"), names):
                block = (step.model_copy(update={"steps": list(inner)}),) if inner else ()
                yield change, (*steps[:number], *block, *steps[number + 1 :]), there

    def _step(self, step: WrittenStep, called: str) -> Iterator[tuple[str, _Steps]]:
        do = str(step.do).strip()
        yield f"drops {called}", ()
        if not do.startswith(_RESET):
            yield f"repeats {called}", (step, step)
        for change, update in self._updates(step, do):
            yield f"{called}: {change}", (step.model_copy(update=update),)

    def _updates(self, step: WrittenStep, do: str) -> Iterator[tuple[str, dict[str, object]]]:
        for change, when in _other_conditions(step.when):
            yield f"when {change}", {"when": when}
        if do.startswith(_RESET):
            return
        known = self._outcomes(do)
        head, _, listed = do.partition("/")
        taken = [each.strip() for each in listed.split(",")] if listed else list(known)
        if self.written.actual_kind == "call" and any(known.get(each) for each in taken):
            yield "does not go on" if step.goes_on else "goes on", {"goes_on": not step.goes_on}
        for outcome in taken if len(taken) > 1 else ():
            yield f"without {outcome}", {"do": f"{head}/{','.join(each for each in taken if each != outcome)}"}
        for outcome in known:
            if outcome not in taken:
                yield f"with {outcome}", {"do": f"{head}/{','.join((*taken, outcome))}"}

    def _outcomes(self, do: str) -> dict[str, bool]:
        name, event, *ends = do.partition("/")[0].split()[-1].split(".")
        part = self.system.parts[name]
        found: dict[str, bool] = {}
        machine = part.machine.events[event]
        for state, cell in (machine.ends if ends else machine.cells).items():
            for way in model.outcomes(cell, state, machine.kind) or ():
                if way.name not in part.without:
                    found[way.name] = found.get(way.name, False) or any(reply != "ok" for reply in way.reply)
        return found


def _other_conditions(when: str | None) -> list[tuple[str, str | None]]:
    return [("dropped", None), ("turned round", f"not ({when})")] if when is not None else []


def _step_names(steps: _Steps, place: Keys = ()) -> dict[Keys, str]:
    found: dict[Keys, str] = {}
    for number, each in enumerate(steps):
        step = _as_table(each)
        if step.each is None:
            found[*place, number] = str(step.do).partition("/")[0].strip()
        else:
            found[*place, number] = f"each {step.each}"
            found |= _step_names(tuple(step.steps), (*place, number, "steps"))
    times = Counter[str]()
    for at, name in () if place else found.items():
        times[name] += 1
        if times[name] > 1:
            found[at] = f"{name} ({times[name]})"
    return found


def _as_table(step: str | WrittenStep) -> WrittenStep:
    return WrittenStep.model_validate({"do": step}) if isinstance(step, str) else step
