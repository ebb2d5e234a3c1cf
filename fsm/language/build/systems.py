"""Build a well-formed system from a written system, or report every error in it.

This module enumerates the copies of parts. A joint event that is *of* a part becomes one event for each copy of that
part. A step with ``every`` becomes one step for each copy. Each condition is bound to the copies that it is about.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

from fsm.errors import InputError
from fsm.language.build.cells import ways
from fsm.language.build.grammar import ConditionError
from fsm.language.build.problems import Definitions, Problems, check_used, clauses_of, definitions, implied
from fsm.language.build.system_grammar import PART_WORDS, Scope, SystemGrammar, scope
from fsm.language.read import File
from fsm.language.read.toml import Keys
from fsm.language.vocabularies import (
    WrittenChange,
    WrittenJoint,
    WrittenStep,
    WrittenSystem,
    WrittenVariant,
    WrittenWay,
)
from fsm.machine import Machine
from fsm.machine.conditions import Condition
from fsm.machine.guards import arguments_read_later
from fsm.machine.product.system import Copy, JointEvent, JointWay, Part, PartStep, System, Variant
from fsm.machine.terms import Variable
from fsm.machine.versions import meant

_STEP: Final = re.compile(
    r"(?P<reset>reset\s+)?(?P<every>every\s+)?(?P<part>[A-Za-z0-9_-]+)"
    r"(?(reset)|\.(?P<event>[A-Za-z0-9_-]+)(?P<ends>\.ends)?(?:/(?P<outcomes>[A-Za-z0-9_.,\s-]+))?)"
)


def joint_events(file: File[WrittenSystem], profile: str | None) -> dict[str, WrittenJoint]:
    joints, changes = file.written.event, dict[str, WrittenChange]()
    for own in meant(profile, file.written.profile).values():
        changes |= file.written.profile[own].event
    return {name: _apply_change(each, changes[name]) if name in changes else each for name, each in joints.items()}


def _apply_change(joint: WrittenJoint, change: WrittenChange) -> WrittenJoint:
    words = ("about", "clause", "when")
    changed: dict[str, object] = {word: getattr(change, word) for word in words if word in change.model_fields_set}
    if change.steps:
        changed |= {"steps": change.steps, "ways": change.ways, "when": change.when}
    elif change.ways or change.without:
        kept = {name: way for name, way in joint.ways.items() if name not in change.without}
        changed |= {"steps": [], "ways": {**kept, **change.ways}}
    return joint.model_copy(update=changed)


def joint_place(file: File[WrittenSystem], profile: str | None, keys: Keys) -> Keys:
    """Return the path at which *profile* changes the value at *keys* in a joint event, or *keys* if it does not."""
    for variant in meant(profile, file.written.profile).values():
        own = ("profile", variant, *keys)
        if own[: 6 if keys[2:3] == ("ways",) else 5] in file.lines.of:
            return own
    return keys


def _condition(
    problems: Problems[WrittenSystem], text: str | None, within: Scope, define: Definitions, *at: str | int
) -> Condition | None:
    if text is None:
        return None
    try:
        return SystemGrammar(text=text, scope=within, define=define).condition().means
    except ConditionError as error:
        here = replace(problems, at=()) if error.at else problems
        here.say("FSM704", error.what, error.hint, *(error.at or at))
        return None


@dataclass(frozen=True, kw_only=True)
class JointEventBuilder:
    """Builds the events of a written joint event. ``problems`` collects the errors in it."""

    problems: Problems[WrittenSystem]
    system: System
    name: str
    written: WrittenJoint
    define: Definitions

    @cached_property
    def arguments(self) -> dict[str, Variable]:
        """The arguments of the steps.  Two steps that have an argument of the same name get the same value."""
        known = (each.arguments for each in self.system.events.values() if each.family == self.name)
        found = dict(next(known, {}))  # a mutant without a step keeps its arguments
        for step in _steps([self.written, *self.written.ways.values()]):
            match, parts = _STEP.fullmatch((step.do or "").strip()), self.system.parts
            part = parts.get(match["part"]) if match and not match["ends"] else None
            event = part.machine.events.get(match["event"]) if match and part else None
            for name, each in event.arguments.items() if event else ():
                if replace(found.setdefault(name, each), about=each.about) != each:
                    what = f"steps of '{self.name}' have different arguments '{name}'"
                    hint = "an argument of a joint event has one value: let the machines declare it alike, or rename it"
                    self.problems.say("FSM712", what, hint)
        return found

    def joints(self) -> Iterator[JointEvent]:
        problems, written, parts = self.problems, self.written, self.system.parts
        if not problems.known("FSM701", "unknown part", written.of, parts, "of"):
            return
        if bool(written.steps) == bool(written.ways):
            both = "both steps and ways" if written.ways else "neither steps nor ways"
            hint = "write 'steps' if the event has one way, or else 'ways'"
            problems.say("FSM705", f"joint event '{self.name}' has {both}", hint)
            return
        problems.known("FSM108", "unknown clause", written.clause, self.system.clauses, "clause")
        own = implied(problems, problems.model.written.system, self.name, written.about, written)
        ways = written.ways or {"done": WrittenWay.model_validate({"steps": written.steps})}
        for copy in parts[written.of].copies if written.of is not None else (None,):
            yield JointEvent(
                name=f"{self.name}{copy.suffix if copy else ''}",
                family=self.name,
                kind=written.actual_kind,
                about=written.about,
                clause=self.system.clauses.get(written.clause or "", own),
                ways=tuple(
                    self._way(name, way, copy, *(("ways", name) if written.ways else ())) for name, way in ways.items()
                ),
                of=copy,
                rpc=written.rpc or "",
                when=self._condition(written.when, copy, "when"),
                arguments=self.arguments,
            )

    def _way(self, name: str, way: WrittenWay, copy: Copy | None, *at: str | int) -> JointWay:
        reply = (way.reply,) if isinstance(way.reply, str) else tuple(way.reply or ())
        if reply and self.written.actual_kind != "call":
            what = f"{self.written.actual_kind} '{self.name}' has a reply"
            self.problems.say("FSM706", what, "only a call can have a reply", *at, "reply")
        return JointWay(
            name=name,
            about=way.about,
            when=self._condition(way.when, copy, *at, "when"),
            steps=tuple(self._steps(way.steps, copy, *at, "steps")),
            reply=reply,
        )

    def _steps(self, written: list[str | WrittenStep], copy: Copy | None, *at: str | int) -> Iterator[PartStep]:
        for number, each in enumerate(written):
            step = WrittenStep.model_validate({"do": each}) if isinstance(each, str) else each
            if step.each is not None:
                yield from self._steps_of_copies(step, step.each, copy, *at, number)
            elif step.do is None or step.steps:
                what = "a step has neither 'do' nor 'each', or has both"
                self.problems.say("FSM707", what, "write do = …, or each = … with steps = […]", *at)
            else:
                yield from self._step(step, step.do.strip(), copy, *at, number)

    def _steps_of_copies(self, step: WrittenStep, part: str, copy: Copy | None, *at: str | int) -> Iterator[PartStep]:
        if not self.problems.known("FSM701", "unknown part", part, self.system.parts, *at, "each"):
            return
        if step.do is not None or step.when is not None or step.goes_on or not step.steps:
            what = "a step with 'each' must have 'steps' and no other words"
            self.problems.say("FSM707", what, "write { each = …, steps = […] }", *at)
            return
        for each in self.system.related_copies(part, copy):
            yield from self._steps(step.steps, each, *at, "steps")

    def _step(self, step: WrittenStep, do: str, copy: Copy | None, *at: str | int) -> Iterator[PartStep]:
        problems = self.problems
        match = _STEP.fullmatch(do)
        if match is None:
            hint = "write PART.EVENT or PART.EVENT.ends, optionally with /OUTCOME, or reset PART"
            problems.say("FSM707", f"{do!r} cannot be read as a step", hint, *at)
            return
        if not problems.known("FSM701", "unknown part", match["part"], self.system.parts, *at):
            return
        part = self.system.parts[match["part"]]
        meant = self.system.related_copies(part.name, copy)
        if not match["every"] and len(meant) != 1:
            what = f"'{part.name}' in {do!r} could mean any of {len(meant)} copies"
            problems.say("FSM707", what, f"write 'every {do}'", *at)
            return
        name, ends = match["event"] or "", bool(match["ends"])
        outcomes = frozenset(each.strip() for each in (match["outcomes"] or "").split(",") if each.strip())
        if name and not problems.known("FSM701", "unknown event", name, part.machine.events, *at):
            return
        if name:
            event = part.machine.events[name]
            if ends and not event.ends:
                what = f"event '{name}' has no ends"
                problems.say("FSM707", what, "only calls that take time have ends", *at)
                return
            row = event.ends if ends else event.cells
            known = {way.name for way in ways(row.values())} | {"ignored", "refused"}
            for outcome in sorted(outcomes):
                problems.known("FSM701", "unknown outcome", outcome, sorted(known), *at)
        for each in meant:
            when = self._condition(step.when, each if match["every"] else copy, *at, "when")
            yield PartStep(copy=each, event=name, ends=ends, outcomes=outcomes, when=when, goes_on=step.goes_on)

    def _condition(self, text: str | None, copy: Copy | None, *at: str | int) -> Condition | None:
        within = scope(self.system, copy, self.arguments)
        return _condition(self.problems, text, within, self.define, *at) if text is not None else None


def conditions(written: WrittenSystem) -> Iterator[str]:
    yield from (part.heard for part in written.part.values() if part.heard is not None)
    changes = [change for profile in written.profile.values() for change in profile.event.values()]
    joints: list[WrittenJoint | WrittenChange] = [*written.event.values(), *changes]
    for joint in joints:
        every = [joint, *joint.ways.values()]
        yield from (each.when or "" for each in (*every, *_steps(every)))


def _steps(those: Iterable[WrittenJoint | WrittenChange | WrittenWay | WrittenStep]) -> Iterator[WrittenStep]:
    for each in (step for way in those for step in way.steps):
        step = WrittenStep.model_validate({"do": each}) if isinstance(each, str) else each
        yield step
        yield from _steps([step])


MOST_COPIES: Final = 400  # maximum number of copies of parts in one system


def build_system(model: File[WrittenSystem], find: Callable[[str], Machine]) -> System:
    """Build the system that *model* describes, or raise :class:`InputError` with every semantic error in it."""
    problems = Problems(model=model)
    written = model.written
    base = _system(problems, find, None)
    profiles = {name: _variant(problems, find, base, name, each) for name, each in written.profile.items()}
    rows = (base.events, *(each.events for each in profiles.values()))
    used = {joint.clause.name for events in rows for joint in events.values()}
    check_used(problems, written.clause, used, "no joint event", "a joint event")
    problems.refuse()
    return replace(base, profiles=profiles)


def rebuild_joint_event(
    system: System, file: File[WrittenSystem], name: str, written: WrittenJoint, profile: str | None = None
) -> System:
    """Return *system* with the joint event *name* built from *written*, or raise :class:`InputError`."""
    problems = Problems(model=file)
    joints = _joint_events(problems, system, _define(problems, system.parts), name, written, profile)
    problems.refuse()
    return replace(system, events={**system.events, **joints})


def _joint_events(
    problems: Problems[WrittenSystem],
    system: System,
    define: Definitions,
    name: str,
    written: WrittenJoint,
    profile: str | None,
) -> dict[str, JointEvent]:
    here = replace(problems.below("event", name), place=partial(joint_place, problems.model, profile))
    building = JointEventBuilder(problems=here, system=system, name=name, written=written, define=define)
    return {joint.name: joint for joint in building.joints()}


def _define(problems: Problems[WrittenSystem], parts: Mapping[str, Part]) -> Definitions:
    written = problems.model.written
    taken = {
        "part": parts,
        "joint event": (*written.event, *(joint.rpc for joint in written.event.values() if joint.rpc)),
        "word of conditions": PART_WORDS,
    }
    states = dict.fromkeys(
        state for part in parts.values() for state in (*part.machine.states, *part.machine.hierarchy.names)
    )
    return definitions(problems, written.define, states=states, taken=taken, texts=conditions(written))


def _variant(
    problems: Problems[WrittenSystem], find: Callable[[str], Machine], base: System, name: str, each: WrittenVariant
) -> Variant:
    written = problems.model.written
    for word, change in each.event.items():
        at = ("profile", name, "event", word)
        if not problems.known("FSM701", "unknown event", word, written.event, *at):
            continue
        if not change.model_fields_set:
            what = f"the profile changes nothing about event '{word}'"
            problems.say("FSM709", what, "change something, or remove the entry", *at)
        for number, way in enumerate(change.without):
            problems.known("FSM701", "unknown way", way, written.event[word].ways, *at, "without", number)
    joints = _system(problems, find, name).events
    events = {word: joint for word, joint in joints.items() if joint != base.events.get(word)}
    line = problems.line("profile", name)
    return Variant(name=name, about=each.about, events=events, since=each.since, until=each.until, line=line)


def _system(problems: Problems[WrittenSystem], find: Callable[[str], Machine], profile: str | None) -> System:
    written = problems.model.written
    header = written.system
    made = _parts(problems, find, profile)
    system = System(
        name=header.name,
        title=header.title,
        about=header.about,
        source=header.source,
        parts=made,
        events={},
        clauses=clauses_of(problems, written.clause, written.event),
        path=problems.model.path,
    )
    define = _define(problems, made)
    within = scope(system, None)
    parts = {
        name: replace(part, heard=_condition(problems, written.part[name].heard, within, define, "part", name, "heard"))
        for name, part in made.items()
    }
    system = replace(system, parts=parts)
    joints: dict[str, JointEvent] = {}
    for name, each in joint_events(problems.model, profile).items():
        if name in made or name in PART_WORDS:
            what = f"a joint event cannot be called '{name}'"
            problems.say("FSM702", what, "choose a name that is neither a part nor a word of conditions", "event", name)
            continue
        joints |= _joint_events(problems, system, define, name, each, profile)
    return replace(system, events=joints)


def _parts(problems: Problems[WrittenSystem], find: Callable[[str], Machine], profile: str | None) -> dict[str, Part]:
    made: dict[str, Part] = {}
    digit = 0
    for name, each in problems.model.written.part.items():
        above = made.get(each.per) if each.per else None
        if name in PART_WORDS or "." in name:
            hint = "choose a name without dots that is not a word of conditions"
            problems.say("FSM702", f"a part cannot be called '{name}'", hint, "part", name)
        problems.known("FSM701", "unknown part", each.per, made, "part", name, "per")
        try:
            machine = find(each.machine)
        except InputError as error:
            first = error.problems[0]
            problems.say("FSM701", f"machine '{each.machine}': {first.what}", first.hint, "part", name, "machine")
            continue
        later = [event.name for event in machine.events.values() if arguments_read_later(event)]
        if machine.timers or later:
            has = f"a call '{later[0]}' whose end reads an argument" if later else "timers"
            what = f"machine '{each.machine}' has {has}, which parts of systems cannot have"
            hint = (
                "store the argument in a variable when the call begins" if later else "let a joint event fire instead"
            )
            problems.say("FSM711", what, hint, "part", name, "machine")
            problems.refuse()
        machine = machine.partly_under(profile)
        names = machine.hierarchy.names
        states = (*machine.states, *names)
        problems.known("FSM101", "unknown initial state", each.initial, states, "part", name, "initial")
        initial = machine.hierarchy.entered(each.initial or machine.initial)
        own = [(number,) for number in range(1, each.count + 1)] if each.count > 1 else [()]
        indexes = [base.index + tail for base in above.copies for tail in own] if above else own
        copies = tuple(Copy(part=name, index=index, digit=digit + offset) for offset, index in enumerate(indexes))
        digit += len(copies)
        made[name] = Part(
            name=name,
            machine=machine,
            initial=names.get(initial, (initial,))[0],
            root=above.root if above else name,
            copies=copies,
            about=each.about,
            without=frozenset(each.without),
        )
        known = {way.name for event in machine.events.values() for way in event.outcomes()}
        for number, outcome in enumerate(each.without):
            problems.known("FSM701", "unknown outcome", outcome, sorted(known), "part", name, "without", number)
    if digit > MOST_COPIES:
        what = f"{digit} copies of parts are more than the maximum of {MOST_COPIES}"
        problems.say("FSM703", what, "ask for fewer copies", "part")
        problems.refuse()
    return made
