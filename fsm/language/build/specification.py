"""Build a well-formed specification from a property file, or report everything that is wrong with the file."""

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias, TypeVar

from fsm.errors import InputError
from fsm.language.build.citations import clause_of
from fsm.language.build.claims import ClaimBuilder, listed, subject
from fsm.language.build.definitions import definitions
from fsm.language.build.machine_conditions import WORDS
from fsm.language.build.problems import Problems
from fsm.language.build.system_conditions import PART_WORDS
from fsm.language.property_file import Stated, WrittenProperty
from fsm.language.read import File
from fsm.machine import Machine
from fsm.machine.product.system import System
from fsm.machine.property.claims import ANY_PROFILE, NO_PROFILE, Claim, Counts, KnownFailure, M, Property, Specification

T = TypeVar("T")

AnyModel: TypeAlias = Machine | System


def specify(file: File[Stated], find: Callable[[str], M], *, copy: int = 0) -> Specification[M]:
    """Return the specification in *file*.  *find* returns the machines and systems that the file names.

    In a system, claims about each copy of a part are made about copy number *copy*.  If that is not the first, all
    other claims are left out.  Raise :class:`InputError` with every semantic error in the file.
    """
    problems = Problems(model=file)
    written = file.written
    machine = _machine(problems, find)
    if not written.property:
        problems.say("FSM301", "states no property", "add a table: [property.NAME]", "property")
    properties = []
    define = _define(problems, machine)
    for name, stated in written.property.items():
        if copy >= max(1, _copies(machine, stated.for_)):
            continue
        here = problems.below("property", name)
        of = subject(here, machine, stated.for_, copy)
        claim = ClaimBuilder(problems=here, of=of, find=find, name=name, written=stated, define=define).claim()
        if claim is not None:
            properties.append(_property(here, machine, name, stated, claim))
    for profile in written.under:
        problems.known("FSM305", "unknown profile", profile, machine.profiles, "under", profile)
    problems.refuse()
    sizes = {NO_PROFILE: written.expect, **written.under} if written.expect else written.under
    expect = _inherited(machine, {name: Counts(**each.model_dump()) for name, each in sizes.items()})
    return Specification(machine=machine, properties=tuple(properties), expect=expect, path=file.path)


def _copies(machine: AnyModel, part: str | None) -> int:
    found = machine.parts.get(part or "") if isinstance(machine, System) else None
    return len(found.copies) if found else 0


def _define(problems: Problems[Stated], machine: AnyModel) -> dict[str, str | tuple[str, ...]]:
    written = problems.model.written
    if isinstance(machine, System):
        states = dict.fromkeys(state for part in machine.parts.values() for state in part.machine.states)
        events = [each for joint in machine.events.values() for each in (joint.family, joint.rpc)]
        taken = {"part": machine.parts, "joint event": events, "word of conditions": PART_WORDS}
    else:
        states = dict.fromkeys(machine.states)
        events = [*machine.words()]
        taken = {"event": events, "word of conditions": WORDS}
    texts = [text for each in written.property.values() for text in _conditions(each)]
    return definitions(problems, written.define, states=states, taken=taken, texts=texts)


def _conditions(written: WrittenProperty) -> Iterator[str]:
    for value in (written.always, written.never, written.reachable):
        yield from (text for text, _ in listed(value, ""))
    yield from filter(None, (written.once, written.when, written.until, written.leads_to, written.from_))
    yield from (*written.from_each, *(written.requires.in_ if written.requires else ()))


def _machine(problems: Problems[Stated], find: Callable[[str], M]) -> M:
    name = problems.model.written.machine
    try:
        return find(name)
    except InputError as error:
        if any(each.path != name for each in error.problems):
            raise  # it exists but is not well formed
        first = error.problems[0]
        problems.say("FSM304", f"machine '{name}' {first.what}", first.hint, "machine")
        problems.refuse()
        raise


def _property(
    problems: Problems[Stated], machine: AnyModel, name: str, written: WrittenProperty, claim: Claim
) -> Property:
    clause = clause_of(problems, name, written, written.says, written.link)
    return Property(
        name=name,
        says=clause.says,
        level=clause.level,
        source=clause.source,
        link=clause.link,
        claim=claim,
        catches=tuple(written.catches),
        fails=_failures(problems, machine, name, written),
        line=problems.model.lines.find(*problems.at),
    )


def _failures(
    problems: Problems[Stated], machine: AnyModel, name: str, written: WrittenProperty
) -> dict[str, KnownFailure]:
    known = (ANY_PROFILE, NO_PROFILE, *machine.profiles)
    found: dict[str, KnownFailure] = {}
    alone: set[str] = set()
    several = isinstance(written.fails, list)
    for number, failure in enumerate(written.fails if isinstance(written.fails, list) else [written.fails]):
        here = problems.below("fails", *((number,) if several else ()))
        if not failure.under:
            here.say("FSM307", f"property '{name}' fails under no profile", "name one, or leave it out", "under")
        for profile, place in listed(failure.under, "under"):
            if here.known("FSM305", "unknown profile", profile, known, *place) and profile in found:
                what = f"property '{name}' fails under '{profile}' in two ways"
                here.say("FSM307", what, "keep the one that is meant", *place)
            found[profile] = KnownFailure(**failure.model_dump(include={"about", "length", "link"}))
            alone |= {profile} if failure.alone else set()
    return _inherited(machine, found, alone)


def _inherited(machine: AnyModel, stated: dict[str, T], alone: Collection[str] = ()) -> dict[str, T]:
    """Add to *stated*, by profile, what each profile inherits from the nearest one, unless that is in *alone*."""
    if isinstance(machine, System):
        return stated
    nearest = {name: next((each for each in machine.lineage(name) if each in stated), "") for name in machine.profiles}
    return stated | {name: stated[near] for name, near in nearest.items() if near and near not in alone}
