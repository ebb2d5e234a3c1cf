"""Systems that differ from an original in one detail of a joint event.

A mutant is made from the system as it was written, so a change applies to every copy. It is one of these: a step is
dropped, repeated, or swapped with the one before it; a condition is dropped or negated; a way is dropped, or its reply
changed; a step whose failure ends the joint event no longer ends it, or vice versa; a step loses or gains an outcome.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fsm.language.build.joint_events import joint_events, joint_place
from fsm.language.build.systems import rebuilt
from fsm.language.read import File
from fsm.language.read.toml import Keys
from fsm.language.system_file import WrittenJoint, WrittenStep, WrittenSystem, WrittenWay
from fsm.machine import ANY_ERROR, outcomes
from fsm.machine.conditions import Not
from fsm.machine.product.system import System

_RESET: Final = "reset "
_Steps = tuple[str | WrittenStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JointMutant:
    """A system with one change in the joint event or part ``event``. The change is in its ``way``, if there is one.

    ``name`` describes the change. ``change`` applies it to the system, with any number of copies of the parts.
    """

    name: str
    event: str
    way: str
    line: int
    change: Callable[[System], System]


def joint_mutants(system: System, file: File[WrittenSystem], profile: str | None = None) -> Iterator[JointMutant]:
    """Yield every mutant of *system*, which *file* describes and to which *profile* is applied.

    They are in file order, are well formed, and have unique names. No two of one joint event have the same steps.
    """
    for name, joint in joint_events(file, profile).items():
        making = _JointMutants(system=system, file=file, profile=profile, name=name, written=joint)
        known = {making.joints(system)}
        for mutant in making.mutants():
            joints = making.joints(mutant.change(system))
            if joints not in known:
                known.add(joints)
                yield mutant
    yield from _heard(system, file)


def _heard(system: System, file: File[WrittenSystem]) -> Iterator[JointMutant]:
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
        """Return the conditions, ways and steps of each copy of the joint event in *system*."""
        return tuple(
            (each.when, tuple((way.name, way.when, way.steps, way.reply) for way in each.ways))
            for each in system.events.values()
            if each.family == self.name
        )

    def mutants(self) -> Iterator[JointMutant]:
        """Yield the mutants of the joint event, then those of each of its ways. Some may be equal."""
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
        if when is not None:
            line = (*at, "when")
            yield self._mutant(way, "when dropped", made(None), line)
            yield self._mutant(way, "when turned round", made(f"not ({when})"), line)

    def _way(
        self, way: WrittenWay, among: Callable[[WrittenWay | None], WrittenJoint], name: str, at: Keys
    ) -> Iterator[JointMutant]:
        """Yield the mutants of *way*. *among* returns the joint event with *way* replaced or, for ``None``, removed."""

        def instead(**changes: object) -> WrittenJoint:
            return among(way.model_copy(update=changes))

        if len(self.written.ways) > 1:
            yield self._mutant(name, "dropped", among(None), at)
        yield from self._conditions(way.when, lambda when: instead(when=when), name, at)
        if self.written.meant_kind == "call":
            reply = ANY_ERROR if way.reply in {None, "ok"} else None
            yield self._mutant(name, f"replies {reply or 'ok'}", instead(reply=reply), at)
        for change, steps, place in self._changes(tuple(way.steps), (), _called(tuple(way.steps))):
            yield self._mutant(name, change, instead(steps=list(steps)), (*at, "steps", *place))

    def _mutant(self, way: str, change: str, written: WrittenJoint, at: Keys) -> JointMutant:
        def changed(of: System) -> System:
            return rebuilt(of, self.file, self.name, written, self.profile)

        return JointMutant(
            name=f"{self.name}{way}: {change}",
            event=self.name,
            way=way.removeprefix("/"),
            line=self.file.lines.find(*joint_place(self.file, self.profile, self.name, *at)),
            change=changed,
        )

    def _changes(self, steps: _Steps, place: Keys, names: Mapping[Keys, str]) -> Iterator[tuple[str, _Steps, Keys]]:
        """Yield each change of *steps* at *place*: a description, the new steps, and the place of the changed step."""
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
        """Yield each change of *step*: a description, and the steps that replace it."""
        do = str(step.do).strip()
        yield f"drops {called}", ()
        if not do.startswith(_RESET):
            yield f"repeats {called}", (step, step)
        if step.when is not None:
            for change, when in (("dropped", None), ("turned round", f"not ({step.when})")):
                yield f"{called}: when {change}", (step.model_copy(update={"when": when}),)
        if do.startswith(_RESET):
            return
        known = self._outcomes(do)
        head, _, listed = do.partition("/")
        listed_outcomes = [each.strip() for each in listed.split(",")] if listed else list(known)
        if self.written.meant_kind == "call" and any(known[each] for each in listed_outcomes if each in known):
            verb = "does not go on" if step.goes_on else "goes on"
            yield f"{called}: {verb}", (step.model_copy(update={"goes_on": not step.goes_on}),)
        for outcome in listed_outcomes if len(listed_outcomes) > 1 else ():
            rest = ",".join(each for each in listed_outcomes if each != outcome)
            yield f"{called}: without {outcome}", (step.model_copy(update={"do": f"{head}/{rest}"}),)
        for outcome in known:
            if outcome not in listed_outcomes:
                more = ",".join((*listed_outcomes, outcome))
                yield f"{called}: with {outcome}", (step.model_copy(update={"do": f"{head}/{more}"}),)

    def _outcomes(self, do: str) -> dict[str, bool]:
        """Return the possible outcomes of the event in the step *do*, each mapped to whether it can be an error."""
        name, event, *ends = do.partition("/")[0].split()[-1].split(".")
        part = self.system.parts[name]
        found: dict[str, bool] = {}
        machine = part.machine.events[event]
        for state, cell in (machine.ends if ends else machine.cells).items():
            for way in outcomes(cell, state, machine.kind) or ():
                if way.name not in part.without:
                    found[way.name] = found.get(way.name, False) or any(reply != "ok" for reply in way.reply)
        return found


def _called(steps: _Steps, place: Keys = ()) -> dict[Keys, str]:
    """Map the place of each step to a name: what the step does, with a number if an earlier step does the same."""
    found: dict[Keys, str] = {}
    for number, each in enumerate(steps):
        step = _as_table(each)
        if step.each is None:
            found[*place, number] = str(step.do).partition("/")[0].strip()
        else:
            found[*place, number] = f"each {step.each}"
            found |= _called(tuple(step.steps), (*place, number, "steps"))
    times = Counter[str]()
    for at, name in () if place else found.items():
        times[name] += 1
        if times[name] > 1:
            found[at] = f"{name} ({times[name]})"
    return found


def _as_table(step: str | WrittenStep) -> WrittenStep:
    return WrittenStep.model_validate({"do": step}) if isinstance(step, str) else step
