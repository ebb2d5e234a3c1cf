"""Build a well-formed system from a written one, or report everything that is wrong with it.

Copies are enumerated here.  Each copy of the part that a joint event is *of* has a separate event, ``every`` becomes a
step of each copy, and conditions are about the copies that are meant.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from fsm.errors import InputError
from fsm.language.build.citations import check_used, clauses_of
from fsm.language.build.definitions import Definitions, definitions
from fsm.language.build.joint_events import JointEventBuilder, conditions, joint_events, means
from fsm.language.build.problems import Problems
from fsm.language.build.system_conditions import PART_WORDS, scope
from fsm.language.read import File
from fsm.language.system_file import WrittenJoint, WrittenSystem, WrittenVariant
from fsm.machine import Machine
from fsm.machine.product.system import Copy, JointEvent, Part, System, Variant

MOST_COPIES: Final = 400  # maximum number of copies of parts in one system


def build_system(model: File[WrittenSystem], find: Callable[[str], Machine]) -> System:
    """Build the system that *model* describes, or raise :class:`InputError` with every semantic error in the file."""
    problems = Problems(model=model)
    written = model.written
    base = _system(problems, find, None)
    profiles = {name: _variant(problems, find, base, name, each) for name, each in written.profile.items()}
    rows = (base.events, *(each.events for each in profiles.values()))
    used = {joint.clause.name for events in rows for joint in events.values()}
    check_used(problems, written.clause, used, "nothing", "a joint event")
    problems.refuse()
    return replace(base, profiles=profiles)


def rebuilt(
    system: System, file: File[WrittenSystem], name: str, written: WrittenJoint, profile: str | None = None
) -> System:
    """Return *system* with the joint event *name* rebuilt from *written*, or raise :class:`InputError`."""
    problems = Problems(model=file)
    define = _define(problems, system.parts)
    building = JointEventBuilder(
        problems=problems, profile=profile, system=system, name=name, written=written, define=define
    )
    joints = {joint.name: joint for joint in building.joints()}
    problems.refuse()
    return replace(system, events={**system.events, **joints})


def _define(problems: Problems[WrittenSystem], parts: Mapping[str, Part]) -> Definitions:
    written = problems.model.written
    taken = {
        "part": parts,
        "joint event": (*written.event, *(joint.rpc for joint in written.event.values() if joint.rpc)),
        "word of conditions": PART_WORDS,
    }
    states = dict.fromkeys(state for part in parts.values() for state in part.machine.states)
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
            problems.say(
                "FSM709", f"'{word}' is the same as without the profile", "say what is different, or drop it", *at
            )
        for number, way in enumerate(change.without):
            problems.known("FSM701", "unknown way", way, written.event[word].ways, *at, "without", number)
    joints = _system(problems, find, name).events
    events = {word: joint for word, joint in joints.items() if joint != base.events.get(word)}
    line = problems.model.lines.find("profile", name)
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
    heard = {
        name: means(problems, text, within, define, ("part", name, "heard"))
        for name in made
        if (text := written.part[name].heard) is not None
    }
    system = replace(system, parts={name: replace(each, heard=heard.get(name)) for name, each in made.items()})
    joints: dict[str, JointEvent] = {}
    for name, each in joint_events(problems.model, profile).items():
        if name in made or name in PART_WORDS:
            what = f"a joint event cannot be called '{name}'"
            problems.say("FSM702", what, "it is a part, or a word of conditions", "event", name)
            continue
        building = JointEventBuilder(
            problems=problems, profile=profile, system=system, name=name, written=each, define=define
        )
        joints |= {joint.name: joint for joint in building.joints()}
    return replace(system, events=joints)


def _parts(problems: Problems[WrittenSystem], find: Callable[[str], Machine], profile: str | None) -> dict[str, Part]:
    made: dict[str, Part] = {}
    digit = 0
    for name, each in problems.model.written.part.items():
        above = made.get(each.per) if each.per else None
        if name in PART_WORDS or "." in name:
            hint = "choose a name without dots that is no word of conditions"
            problems.say("FSM702", f"a part cannot be called '{name}'", hint, "part", name)
        problems.known("FSM701", "unknown part", each.per, made, "part", name, "per")
        try:
            machine = find(each.machine)
        except InputError as error:
            first = error.problems[0]
            problems.say("FSM701", f"machine '{each.machine}' {first.what}", first.hint, "part", name, "machine")
            continue
        machine = machine.partly_under(profile)
        problems.known("FSM101", "unknown initial state", each.initial, machine.states, "part", name, "initial")
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
        known = {way.name for event in machine.events.values() for way in event.outcomes()}
        for number, outcome in enumerate(each.without):
            problems.known("FSM701", "unknown outcome", outcome, sorted(known), "part", name, "without", number)
    if digit > MOST_COPIES:
        problems.say("FSM703", f"{digit} copies of parts are more than {MOST_COPIES}", "count fewer", "part")
        problems.refuse()
    return made
