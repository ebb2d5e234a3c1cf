"""From a property file as written to a specification that is well formed, or every reason why not."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, overload

from fsm.errors import InputError
from fsm.language.build.cells import REST, ways
from fsm.language.build.citations import cited
from fsm.language.build.claims import Claiming, listed
from fsm.language.build.definitions import Definitions, definitions
from fsm.language.build.machine_conditions import WORDS, outputs, sequence
from fsm.language.build.problems import Problems
from fsm.language.build.system_claims import of_system
from fsm.language.build.system_conditions import WORDS as SYSTEM_WORDS
from fsm.language.property_file import Stated, WrittenCounts, WrittenProperty
from fsm.language.read import File
from fsm.machine import Machine
from fsm.machine.conditions import All, In, Sequence, WrittenCondition
from fsm.product.system import System
from fsm.property.claims import (
    ANY_PROFILE,
    NO_PROFILE,
    Claim,
    Counts,
    Fair,
    Follows,
    Idempotent,
    JointSpecification,
    KnownFailure,
    MatchesDiagram,
    Property,
    Reachable,
    Refines,
    Specification,
)

_ENDS: Final = ".ends"


@overload
def specify(file: File[Stated], find: Callable[[str], Machine], *, copy: int = 0) -> Specification: ...


@overload
def specify(
    file: File[Stated], find: Callable[[str], Machine | System], *, copy: int = 0
) -> Specification | JointSpecification: ...


def specify(
    file: File[Stated], find: Callable[[str], Machine | System], *, copy: int = 0
) -> Specification | JointSpecification:
    """What *file* states; *find* gives the machines and systems that it names.

    Of a system, what is claimed of each copy of a part is claimed of the one
    of the number *copy*, the first or another: they are alike but for the
    order in which a joint event takes them.

    Raises :class:`InputError` with every mistake of meaning in the file.
    """
    problems = Problems(model=file)
    written = file.written
    machine = _machine(problems, find)
    if not written.property:
        problems.say("FSM301", "states no property", "add a table: [property.NAME]", "property")
    properties = []
    define = _define(problems, machine)
    for name, each in written.property.items():
        claim = _claiming(problems, machine, find, name, each, define, copy).claim()
        if claim is not None:
            properties.append(_property(problems, machine, name, each, claim))
    for profile in written.under:
        if profile not in machine.profiles:
            problems.unknown("FSM305", "unknown profile", profile, machine.profiles, "under", profile)
    problems.refuse()
    expect = {NO_PROFILE: _counts(written.expect)} if written.expect else {}
    expect |= {name: _counts(each) for name, each in written.under.items()}
    if isinstance(machine, System):
        return JointSpecification(machine=machine, properties=tuple(properties), expect=expect, path=file.path)
    return Specification(machine=machine, properties=tuple(properties), expect=expect, path=file.path)


def _claiming(
    problems: Problems[Stated],
    machine: Machine | System,
    find: Callable[[str], Machine | System],
    name: str,
    written: WrittenProperty,
    define: Definitions,
    copy: int,
) -> Claiming:
    """What makes the claim of the property *name*."""
    if isinstance(machine, System):
        return of_system(problems, machine, find, name, written, define, copy)
    if written.for_ is not None:
        problems.say("FSM302", "'for' is said of a system only", "leave it out", "property", name, "for")
    return _OfMachine(problems=problems, machine=machine, find=find, name=name, written=written, define=define)


def _define(problems: Problems[Stated], machine: Machine | System) -> dict[str, str | tuple[str, ...]]:
    """What the file has names for: conditions, and sets of states."""
    written = problems.model.written
    if isinstance(machine, System):
        states = dict.fromkeys(state for part in machine.parts.values() for state in part.machine.states)
        events = [each for joint in machine.events.values() for each in (joint.family, joint.rpc)]
        taken = {"part": machine.parts, "joint event": events, "word of conditions": SYSTEM_WORDS}
    else:
        states = dict.fromkeys(machine.states)
        events = [each for event in machine.events.values() for each in (event.name, event.rpc)]
        taken = {"event": events, "word of conditions": WORDS}
    texts = [text for each in written.property.values() for text in _conditions(each)]
    return definitions(problems, written.define, states=states, taken=taken, texts=texts)


def _conditions(written: WrittenProperty) -> Iterator[str]:
    """The text of every condition in *written*, and the states that it names."""
    for value in (written.always, written.never, written.reachable):
        yield from (text for text, _ in listed(value, ""))
    yield from filter(None, (written.once, written.when, written.until, written.leads_to, written.from_))
    yield from written.from_each


def _machine(problems: Problems[Stated], find: Callable[[str], Machine | System]) -> Machine | System:
    """The machine or system that the file is about."""
    name = problems.model.written.machine
    try:
        return find(name)
    except InputError as error:
        if any(each.path != name for each in error.problems):
            raise  # it is there, and not well formed
        first = error.problems[0]
        problems.say("FSM304", f"machine '{name}' {first.what}", first.hint, "machine")
        problems.refuse()
        raise


def _counts(written: WrittenCounts) -> Counts:
    return Counts(states=written.states, transitions=written.transitions, depth=written.depth)


def _property(
    problems: Problems[Stated], machine: Machine | System, name: str, written: WrittenProperty, claim: Claim
) -> Property:
    level, source = cited(problems, written, "property", name)
    return Property(
        name=name,
        says=written.says,
        level=level,
        source=source,
        link=written.link,
        claim=claim,
        catches=tuple(written.catches),
        fails=_failures(problems, machine, name, written),
        line=problems.model.lines.find("property", name),
    )


def _failures(
    problems: Problems[Stated], machine: Machine | System, name: str, written: WrittenProperty
) -> dict[str, KnownFailure]:
    """How the property *name* is known to fail, by profile."""
    known = (ANY_PROFILE, NO_PROFILE, *machine.profiles)
    found: dict[str, KnownFailure] = {}
    several = isinstance(written.fails, list)
    for number, each in enumerate(written.fails if isinstance(written.fails, list) else [written.fails]):
        at = ("property", name, "fails", *((number,) if several else ()), "under")
        if not each.under:
            problems.say("FSM307", f"property '{name}' fails under no profile", "name one, or leave it out", *at)
        for profile, place in listed(each.under, "under"):
            if profile not in known:
                problems.unknown("FSM305", "unknown profile", profile, known, *at[:-1], *place)
            elif profile in found:
                what = f"property '{name}' fails under '{profile}' in two ways"
                problems.say("FSM307", what, "keep the one that is meant", *at[:-1], *place)
            found[profile] = KnownFailure(about=each.about, length=each.length, link=each.link)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfMachine(Claiming):
    """Of a machine."""

    machine: Machine

    def makers(self) -> Mapping[str, Callable[[], Claim]]:
        return {
            "idempotent": self._idempotent,
            "always": self.always,
            "never": self.never,
            "reachable": self._reachable,
            "leads-to": self.leads_to,
            "follows": lambda: Follows(other=self.followed(self.machine.name, outputs(self.machine))),
            "refines": lambda: Refines(
                other=self.other(str(self.written.refines), "refines"), overlap=self.written.overlap
            ),
            "matches-diagram": self._matches_diagram,
        }

    def sequence(self, text: str) -> Sequence:
        """The conditions in *text*."""
        return sequence(text, self.machine, self.define)

    def _idempotent(self) -> Idempotent:
        name = str(self.written.idempotent)
        event = self.machine.events.get(name)
        if event is None:
            at = ("property", self.name, "idempotent")
            self.problems.unknown("FSM303", "unknown event", name, self.machine.events, *at)
        elif event.kind != "call":
            self.say("FSM303", f"{event.kind} '{name}' is no call", "only calls are repeated", "idempotent")
        return Idempotent(event=name, once=self.optional(self.written.once, "once"))

    def _reachable(self) -> Reachable:
        sequences = self.sequences(self.written.reachable, "reachable")
        states: list[str] = []
        for index, state in enumerate(self.written.from_each):
            named = self.define.get(state, "")
            if state != REST and state not in self.machine.states and isinstance(named, str):
                at = ("property", self.name, "from-each", index)
                self.problems.unknown("FSM303", "unknown state", state, self.machine.states, *at)
            states += list(self.machine.states) if state == REST else [state] if isinstance(named, str) else named
        if not states:
            return Reachable(sequences=sequences)
        return Reachable(sequences=tuple(_from(state, each) for each in sequences for state in states))

    def _matches_diagram(self) -> MatchesDiagram:
        return MatchesDiagram(path=str(Path(self.problems.model.path).parent / str(self.written.matches_diagram)))

    def fair(self, text: str, at: str, *, strongly: bool) -> tuple[Fair, ...]:
        """``stop``, ``stop.ends``, ``stop/stopped`` or ``stop.ends/stopped``."""
        whole, _, outcome = text.partition("/")
        name = whole.removesuffix(_ENDS)
        event = self.machine.events.get(name)
        if event is None:
            self.problems.unknown("FSM303", "unknown event", name, self.machine.events, "property", self.name, at)
            return (Fair(event=name),)
        ends = whole.endswith(_ENDS)
        rows = event.ends if ends else event.cells
        if not rows:
            self.say("FSM303", f"event '{name}' has no ends", "only calls that take time have", at)
        known = dict.fromkeys(way.name for way in ways(rows.values()))
        if outcome and outcome not in known:
            self.problems.unknown("FSM303", "unknown outcome", outcome, known, "property", self.name, at)
        return (Fair(event=name, ends=ends, outcome=outcome, strongly=strongly),)


def _from(state: str, sequence: Sequence) -> Sequence:
    """*sequence*, its first instant in a step from *state*."""
    first, *rest = sequence
    before = In(states=frozenset({state}), before=True)
    return (WrittenCondition(text=f"was {state} and {first.text}", means=All(of=(before, first.means))), *rest)
