"""From a system as written to one that is well formed, or every reason why not.

Copies are counted out here: each copy of the part that a joint event is *of*
has one of its own, ``every`` stands for a step of each copy, and conditions
speak of the copies that are meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fsm.errors import InputError
from fsm.language.build.grammar import ConditionError
from fsm.language.build.problems import Problems
from fsm.language.build.system_conditions import WORDS, condition, scope
from fsm.language.system_file import WrittenStep
from fsm.machine import Clause
from fsm.product.system import Copy, JointEvent, JointWay, Part, PartStep, System, Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fsm.language.build.cells import Place
    from fsm.language.read import File
    from fsm.language.system_file import WrittenJoint, WrittenPart, WrittenSystem, WrittenVariant, WrittenWay
    from fsm.machine import Event, Machine
    from fsm.machine.conditions import Condition

MOST_COPIES: Final = 60
"""Copies of parts in one system."""

_STEP: Final = re.compile(
    r"(?P<every>every\s+)?(?P<part>[A-Za-z0-9_-]+)\.(?P<event>[A-Za-z0-9_-]+)(?P<ends>\.ends)?"
    r"(?:/(?P<outcomes>[A-Za-z0-9_.,\s-]+))?"
)
_RESET: Final = re.compile(r"reset\s+(?P<every>every\s+)?(?P<part>[A-Za-z0-9_-]+)")


def build_system(model: File[WrittenSystem], find: Callable[[str], Machine]) -> System:
    """The system that *model* describes; *find* gives the machines of its parts.

    Raises :class:`InputError` with every mistake of meaning in the file.
    """
    problems = Problems(model=model)
    written = model.written
    base = _Building(problems=problems, find=find, profile=None).system(written.part, written.event, ())
    profiles = {}
    for name, each in written.profile.items():
        profiles[name] = _variant(problems, find, name, each)
    used = {
        joint.clause.name
        for system in (base, *(each.system for each in profiles.values()))
        for joint in system.events.values()
    }
    for name in written.clause:
        if name not in used:
            problems.say(
                "FSM119", f"nothing rests on clause '{name}'", "name it in a joint event, or drop it", "clause", name
            )
    problems.refuse()
    return replace(base, profiles=profiles)


def rebuilt(
    system: System, file: File[WrittenSystem], name: str, written: WrittenJoint, profile: str | None = None
) -> System:
    """*system*, which *file* describes, with its joint event *name* as it is *written* instead.

    Raises :class:`InputError` with every mistake of meaning in that.
    """
    problems = Problems(model=file)
    varied = profile is not None and name in file.written.profile[profile].event
    at: Place = ("profile", str(profile), "event", name) if varied else ("event", name)
    building = _Building(problems=problems, find=_nothing, profile=profile)
    joining = _Joining(building=building, system=system, name=name, written=written, at=at)
    joints = {joint.name: joint for joint in joining.joints()}
    problems.refuse()
    return replace(system, events={each: joints.get(each, joint) for each, joint in system.events.items()})


def _nothing(name: str) -> Machine:
    raise LookupError(name)


def _variant(
    problems: Problems[WrittenSystem], find: Callable[[str], Machine], name: str, each: WrittenVariant
) -> Variant:
    written = problems.model.written
    for word, joint in each.event.items():
        at = ("profile", name, "event", word)
        if word not in written.event:
            problems.unknown("FSM701", "unknown event", word, written.event, *at)
        elif (joint.of, joint.kind) != (written.event[word].of, written.event[word].kind):
            problems.say(
                "FSM708",
                f"'{word}' is of another part or kind than without the profile",
                "a profile says how it goes, not what it is",
                *at,
            )
    building = _Building(problems=problems, find=find, profile=name)
    system = building.system(written.part, {**written.event, **each.event}, each.event)
    return Variant(name=name, about=each.about, system=system, since=each.since, until=each.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Building:
    """Makes the system as *profile* has it."""

    problems: Problems[WrittenSystem]
    find: Callable[[str], Machine]
    profile: str | None

    def system(
        self,
        parts: Mapping[str, WrittenPart],
        events: Mapping[str, WrittenJoint],
        varied: Mapping[str, object] | tuple[()],
    ) -> System:
        """The system of *parts* and *events*; those that are *varied* stand in the profile."""
        written = self.problems.model.written
        header = written.system
        made = self._parts(parts)
        system = System(
            name=header.name,
            title=header.title,
            about=header.about,
            source=header.source,
            parts=made,
            events={},
            clauses={
                name: Clause(
                    name=name, says=each.says, level=each.level or header.level, source=each.source, link=each.link
                )
                for name, each in written.clause.items()
            },
            path=self.problems.model.path,
        )
        heard = {name: self._heard(system, name, parts[name]) for name in made}
        system = replace(system, parts={name: replace(each, heard=heard[name]) for name, each in made.items()})
        joints: dict[str, JointEvent] = {}
        for name, each in events.items():
            at: Place = ("profile", str(self.profile), "event", name) if name in varied else ("event", name)
            if name in made or name in WORDS:
                self._say(
                    "FSM702", f"a joint event cannot be called '{name}'", "it is a part, or a word of conditions", *at
                )
                continue
            joints.update(
                (joint.name, joint)
                for joint in _Joining(building=self, system=system, name=name, written=each, at=at).joints()
            )
        return replace(system, events=joints)

    # -- parts -------------------------------------------------------------

    def _parts(self, written: Mapping[str, WrittenPart]) -> dict[str, Part]:
        made: dict[str, Part] = {}
        digit = 0
        for name, each in written.items():
            above = made.get(each.per) if each.per else None
            if name in WORDS or "." in name:
                self._say(
                    "FSM702",
                    f"a part cannot be called '{name}'",
                    "choose a name without dots that is no word of conditions",
                    "part",
                    name,
                )
            if each.per and above is None:
                self.problems.unknown("FSM701", "unknown part", each.per, made, "part", name, "per")
            machine = self._machine(name, each)
            if machine is None:
                continue
            if each.initial is not None and each.initial not in machine.states:
                self.problems.unknown(
                    "FSM101", "unknown initial state", each.initial, machine.states, "part", name, "initial"
                )
            own = [(number,) for number in range(1, each.count + 1)] if each.count > 1 else [()]
            indexes = [base.index + tail for base in above.copies for tail in own] if above else own
            copies = tuple(Copy(part=name, index=index, digit=digit + offset) for offset, index in enumerate(indexes))
            digit += len(copies)
            made[name] = Part(
                name=name,
                machine=machine,
                initial=each.initial or machine.initial,
                root=above.root if above else name,
                copies=copies,
                about=each.about,
                without=frozenset(each.without),
            )
            known = {
                way.name
                for event in machine.events.values()
                for row in (event.cells, event.ends)
                for cell in row.values()
                for way in getattr(cell, "outcomes", ())
            }
            for number, outcome in enumerate(each.without):
                if outcome not in known:
                    self.problems.unknown(
                        "FSM701", "unknown outcome", outcome, sorted(known), "part", name, "without", number
                    )
        if digit > MOST_COPIES:
            self._say("FSM703", f"{digit} copies of parts are more than {MOST_COPIES}", "count fewer", "part")
            self.problems.refuse()
        return made

    def _machine(self, name: str, written: WrittenPart) -> Machine | None:
        try:
            machine = self.find(written.machine)
        except InputError as error:
            first = error.problems[0]
            self._say("FSM701", f"machine '{written.machine}' {first.what}", first.hint, "part", name, "machine")
            return None
        return machine.under(self.profile) if self.profile in machine.profiles and self.profile else machine

    def _heard(self, system: System, name: str, written: WrittenPart) -> Condition | None:
        return self.condition(written.heard, system, None, "part", name, "heard")

    def condition(self, text: str | None, system: System, copy: Copy | None, *at: str | int) -> Condition | None:
        """What *text* means where *copy* is meant; what is wrong with it is noted."""
        if text is None:
            return None
        try:
            return condition(text, scope(system, copy)).means
        except ConditionError as error:
            self._say("FSM704", error.what, error.hint, *at)
            return None

    def _say(self, code: str, what: str, hint: str, *at: str | int) -> None:
        self.problems.say(code, what, hint, *at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joining:
    """Makes the joint event *name*, for each copy that it is of."""

    building: _Building
    system: System
    name: str
    written: WrittenJoint
    at: Place

    def joints(self) -> Iterator[JointEvent]:
        """One for each copy."""
        of = self.written.of
        if of is not None and of not in self.system.parts:
            self.building.problems.unknown("FSM701", "unknown part", of, self.system.parts, *self.at, "of")
            return
        if bool(self.written.steps) == bool(self.written.ways):
            self._say(
                "FSM705",
                f"joint event '{self.name}' has {'both steps and ways' if self.written.ways else 'neither steps nor ways'}",
                "give the steps of its one way, or its ways",
            )
            return
        clause = self._clause()
        for copy in self.system.parts[of].copies if of is not None else (None,):
            yield JointEvent(
                name=f"{self.name}{copy.suffix if copy else ''}",
                family=self.name,
                kind=self.written.kind,
                about=self.written.about,
                clause=clause,
                ways=tuple(self._ways(copy)),
                of=copy,
                rpc=self.written.rpc or "",
                when=self._condition(self.written.when, copy, "when"),
            )

    def _clause(self) -> Clause:
        name, header = self.written.clause, self.building.problems.model.written.system
        if name is not None and name not in self.system.clauses:
            self.building.problems.unknown("FSM108", "unknown clause", name, self.system.clauses, *self.at, "clause")
        implied = Clause(
            name=self.name,
            says=self.written.about,
            level=self.written.level or header.level,
            source=self.written.source or header.source,
        )
        return self.system.clauses.get(name or "", implied)

    def _ways(self, copy: Copy | None) -> Iterator[JointWay]:
        if self.written.steps:
            yield JointWay(name="done", steps=tuple(self._steps(self.written.steps, copy, "steps")))
        seen = set()
        for number, way in enumerate(self.written.ways):
            if way.name in seen:
                self._say(
                    "FSM705",
                    f"two ways of '{self.name}' are called '{way.name}'",
                    "give each a name of its own",
                    "ways",
                    number,
                )
            seen.add(way.name)
            yield self._way(way, copy, number)

    def _way(self, way: WrittenWay, copy: Copy | None, number: int) -> JointWay:
        reply = (way.reply,) if isinstance(way.reply, str) else tuple(way.reply or ())
        if reply and self.written.kind != "call":
            self._say(
                "FSM706", f"{self.written.kind} '{self.name}' has a reply", "only calls reply", "ways", number, "reply"
            )
        return JointWay(
            name=way.name,
            about=way.about,
            when=self._condition(way.when, copy, "ways", number, "when"),
            steps=tuple(self._steps(way.steps, copy, "ways", number, "steps")),
            reply=reply,
        )

    def _steps(self, written: list[str | WrittenStep], copy: Copy | None, *at: str | int) -> Iterator[PartStep]:
        for number, each in enumerate(written):
            step = WrittenStep.model_validate({"do": each}) if isinstance(each, str) else each
            if step.each is not None:
                yield from self._each(step, copy, *at, number)
            elif step.do is None or step.steps:
                self._say(
                    "FSM707", "a step says neither or both of do and each", "write do = …, or each and steps", *at
                )
            else:
                yield from self._step(step, step.do.strip(), copy, *at, number)

    def _each(self, written: WrittenStep, copy: Copy | None, *at: str | int) -> Iterator[PartStep]:
        """The steps for each copy of a part in turn."""
        name = str(written.each)
        if name not in self.system.parts:
            self.building.problems.unknown("FSM701", "unknown part", name, self.system.parts, *self.at, *at, "each")
        elif written.do is not None or written.when is not None or written.goes_on or not written.steps:
            self._say("FSM707", "each goes with steps, and with nothing else", "write { each = …, steps = […] }", *at)
        else:
            for each in self.system.related(copy)[name]:
                yield from self._steps(written.steps, each, *at, "steps")

    def _step(self, written: WrittenStep, do: str, copy: Copy | None, *at: str | int) -> Iterator[PartStep]:
        match = _STEP.fullmatch(do) or _RESET.fullmatch(do)
        if match is None:
            self._say(
                "FSM707",
                f"{do!r} is no step",
                "write PART.EVENT, PART.EVENT.ends, with /OUTCOME; or reset PART",
                *at,
            )
            return
        parts = self.system.parts
        if match["part"] not in parts:
            self.building.problems.unknown("FSM701", "unknown part", match["part"], parts, *self.at, *at)
            return
        part = parts[match["part"]]
        meant = self.system.related(copy)[part.name]
        if not match["every"] and len(meant) != 1:
            self._say(
                "FSM707",
                f"'{part.name}' means {len(meant)} copies in {do!r}",
                f"write: every {do}",
                *at,
            )
            return
        found = match.groupdict()
        outcomes = frozenset(each.strip() for each in (found.get("outcomes") or "").split(",") if each.strip())
        if found.get("event") and not self._known(
            part.machine, str(found["event"]), outcomes, bool(found["ends"]), *at
        ):
            return
        for each in meant:
            yield PartStep(
                copy=each,
                event=found.get("event") or "",
                ends=bool(found.get("ends")),
                outcomes=outcomes,
                when=self._condition(written.when, each if match["every"] else copy, *at, "when"),
                goes_on=written.goes_on,
            )

    def _known(self, machine: Machine, name: str, outcomes: frozenset[str], ends: bool, *at: str | int) -> bool:  # noqa: FBT001  (one of the words of a step)
        """Whether the machine has the event *name*, and somewhere each of *outcomes*."""
        event: Event | None = machine.events.get(name)
        if event is None:
            self.building.problems.unknown("FSM701", "unknown event", name, machine.events, *self.at, *at)
            return False
        if ends and not event.ends:
            self._say("FSM707", f"event '{name}' has no ends", "only calls that take time have", *at)
            return False
        from_cells = (event.ends if ends else event.cells).values()
        known = {way.name for cell in from_cells for way in getattr(cell, "outcomes", ())} | {"ignored", "refused"}
        for outcome in sorted(outcomes - known):
            self.building.problems.unknown("FSM701", "unknown outcome", outcome, sorted(known), *self.at, *at)
        return True

    def _condition(self, text: str | None, copy: Copy | None, *at: str | int) -> Condition | None:
        return self.building.condition(text, self.system, copy, *self.at, *at)

    def _say(self, code: str, what: str, hint: str, *at: str | int) -> None:
        self.building.problems.say(code, what, hint, *self.at, *at)
