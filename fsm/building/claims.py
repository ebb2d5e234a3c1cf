"""From a property file as written to a specification that is well formed, or every reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fsm.building.cells import REST
from fsm.building.conditions import ConditionError, condition, outputs, sequence
from fsm.building.problems import Problems
from fsm.errors import InputError, Problem
from fsm.properties import (
    ANY_PROFILE,
    NO_PROFILE,
    All,
    Always,
    Counts,
    Failure,
    Fair,
    Follows,
    Idempotent,
    In,
    LeadsTo,
    MatchesDiagram,
    Never,
    Property,
    Reachable,
    Refines,
    Said,
    Specification,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fsm.machine import Machine
    from fsm.properties import Claim, Sequence
    from fsm.reading import File
    from fsm.statement import Stated, WrittenCounts, WrittenProperty

KINDS: Final[Mapping[str, frozenset[str]]] = {
    "idempotent": frozenset({"once"}),
    "always": frozenset({"when"}),
    "never": frozenset({"until"}),
    "reachable": frozenset({"from-each"}),
    "leads-to": frozenset({"from", "fair", "strongly-fair"}),
    "follows": frozenset(),
    "refines": frozenset({"overlap"}),
    "matches-diagram": frozenset(),
}
"""The claims of the language, and the words that go with each."""

_ENDS: Final = ".ends"


def specify(file: File[Stated], find: Callable[[str], Machine]) -> Specification:
    """What *file* states; *find* gives the machines that it names.

    Raises :class:`InputError` with every mistake of meaning in the file.
    """
    problems = Problems(model=file)
    written = file.written
    machine = _machine(problems, find)
    if not written.property:
        problems.say("FSM301", "states no property", "add a table: [property.NAME]", "property")
    properties = []
    for name, each in written.property.items():
        claim = _Claiming(problems=problems, machine=machine, find=find, name=name, written=each).claim()
        if claim is not None:
            properties.append(_property(problems, machine, name, each, claim))
    for profile in written.under:
        if profile not in machine.profiles:
            problems.unknown("FSM305", "unknown profile", profile, machine.profiles, "under", profile)
    problems.refuse()
    expect = {NO_PROFILE: _counts(written.expect)} if written.expect else {}
    expect |= {name: _counts(each) for name, each in written.under.items()}
    return Specification(machine=machine, properties=tuple(properties), expect=expect, path=file.path)


def _machine(problems: Problems[Stated], find: Callable[[str], Machine]) -> Machine:
    """The machine that the file is about."""
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
    problems: Problems[Stated], machine: Machine, name: str, written: WrittenProperty, claim: Claim
) -> Property:
    for profile in written.fails:
        if profile not in {ANY_PROFILE, NO_PROFILE, *machine.profiles}:
            known = (ANY_PROFILE, NO_PROFILE, *machine.profiles)
            problems.unknown("FSM305", "unknown profile", profile, known, "property", name, "fails", profile)
    return Property(
        name=name,
        says=written.says,
        level=written.level,
        source=written.source,
        link=written.link,
        claim=claim,
        catches=tuple(written.catches),
        fails={
            profile: Failure(about=each.about, length=each.length, link=each.link)
            for profile, each in written.fails.items()
        },
        line=problems.model.lines.find("property", name),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claiming:
    """Makes the one claim of the property *name*."""

    problems: Problems[Stated]
    machine: Machine
    find: Callable[[str], Machine]
    name: str
    written: WrittenProperty

    def claim(self) -> Claim | None:
        """The claim; ``None`` if there is none that makes sense, which is noted."""
        values = self.written.model_dump(by_alias=True, exclude_defaults=True)
        made = [kind for kind in KINDS if kind in values]
        if len(made) != 1:
            what = (
                f"property '{self.name}' makes {'no claim' if not made else f'{len(made)} claims: ' + ', '.join(made)}"
            )
            self.problems.say("FSM301", what, f"make one of {', '.join(KINDS)}", "property", self.name, *made[-1:])
            return None
        kind = made[0]
        for word in sorted(frozenset().union(*KINDS.values()) - KINDS[kind]):
            if word in values:
                what = f"'{word}' says nothing with '{kind}'"
                self._say("FSM302", what, "leave it out", word)
        try:
            return self._made(kind)
        except ConditionError:  # noted where it arose
            return None

    def _made(self, kind: str) -> Claim:
        makers: Mapping[str, Callable[[], Claim]] = {
            "idempotent": self._idempotent,
            "always": self._always,
            "never": self._never,
            "reachable": self._reachable,
            "leads-to": self._leads_to,
            "follows": self._follows,
            "refines": lambda: Refines(
                other=self._other(str(self.written.refines), "refines"), overlap=self.written.overlap
            ),
            "matches-diagram": self._matches_diagram,
        }
        return makers[kind]()

    def _idempotent(self) -> Idempotent:
        name = str(self.written.idempotent)
        event = self.machine.events.get(name)
        if event is None:
            at = ("property", self.name, "idempotent")
            self.problems.unknown("FSM303", "unknown event", name, self.machine.events, *at)
        elif event.kind != "call":
            self._say(
                "FSM303", f"{event.kind} '{name}' is no call", "only calls are repeated by somebody", "idempotent"
            )
        return Idempotent(event=name, once=self._optional(self.written.once, "once"))

    def _always(self) -> Always:
        said = tuple(self._condition(text, *at) for text, at in _listed(self.written.always, "always"))
        return Always(conditions=said, when=self._optional(self.written.when, "when"))

    def _never(self) -> Never:
        sequences = self._sequences(self.written.never, "never")
        return Never(sequences=sequences, until=self._optional(self.written.until, "until"))

    def _reachable(self) -> Reachable:
        sequences = self._sequences(self.written.reachable, "reachable")
        states: list[str] = []
        for index, state in enumerate(self.written.from_each):
            if state != REST and state not in self.machine.states:
                at = ("property", self.name, "from-each", index)
                self.problems.unknown("FSM303", "unknown state", state, self.machine.states, *at)
            states += list(self.machine.states) if state == REST else [state]
        if not states:
            return Reachable(sequences=sequences)
        return Reachable(sequences=tuple(_from(state, each) for each in sequences for state in states))

    def _matches_diagram(self) -> MatchesDiagram:
        return MatchesDiagram(path=str(Path(self.problems.model.path).parent / str(self.written.matches_diagram)))

    def _optional(self, text: str | None, at: str) -> Said | None:
        return None if text is None else self._condition(text, at)

    def _say(self, code: str, what: str, hint: str, *at: str | int) -> None:
        self.problems.say(code, what, hint, "property", self.name, *at)

    def _condition(self, text: str, *at: str | int) -> Said:
        try:
            return condition(text, self.machine)
        except ConditionError as error:
            self._say("FSM303", error.what, error.hint, *at)
            raise

    def _sequences(self, written: str | list[str] | None, kind: str) -> tuple[Sequence, ...]:
        found = []
        for text, at in _listed(written, kind):
            try:
                found.append(sequence(text, self.machine))
            except ConditionError as error:
                self._say("FSM303", error.what, error.hint, *at)
                raise
        return tuple(found)

    def _leads_to(self) -> LeadsTo:
        written = self.written
        if written.from_ is None:
            what = f"property '{self.name}' has leads-to without from"
            self._say("FSM302", what, "say from where: from = …", "leads-to")
            raise ConditionError(what, "")
        fair = [self._fair(text, "fair", strongly=False) for text in written.fair]
        fair += [self._fair(text, "strongly-fair", strongly=True) for text in written.strongly_fair]
        source = self._condition(written.from_, "from")
        target = self._condition(str(written.leads_to), "leads-to")
        return LeadsTo(source=source, target=target, fair=tuple(fair))

    def _fair(self, text: str, at: str, *, strongly: bool) -> Fair:
        """``stop``, ``stop.ends``, ``stop/stopped`` or ``stop.ends/stopped``."""
        whole, _, outcome = text.partition("/")
        name = whole.removesuffix(_ENDS)
        event = self.machine.events.get(name)
        if event is None:
            self.problems.unknown("FSM303", "unknown event", name, self.machine.events, "property", self.name, at)
            return Fair(event=name)
        ends = whole.endswith(_ENDS)
        rows = event.ends if ends else event.cells
        if not rows:
            self._say("FSM303", f"event '{name}' has no ends", "only calls that take time have", at)
        known = dict.fromkeys(way.name for cell in rows.values() for way in getattr(cell, "outcomes", ()))
        if outcome and outcome not in known:
            self.problems.unknown("FSM303", "unknown outcome", outcome, known, "property", self.name, at)
        return Fair(event=name, ends=ends, outcome=outcome, strongly=strongly)

    def _follows(self) -> Follows:
        other = self._other(str(self.written.follows), "follows")
        known = {event.name for event in other.events.values()} | {event.rpc for event in other.events.values()}
        if not known.intersection(outputs(self.machine)):
            what = f"none of the outputs of '{self.machine.name}' is an event of '{other.name}'"
            self._say("FSM304", what, "the outputs of one are the events of the other", "follows")
        return Follows(other=other)

    def _other(self, name: str, at: str) -> Machine:
        try:
            return self.find(name)
        except InputError as error:
            first: Problem = error.problems[0]
            self._say("FSM304", f"machine '{name}' {first.what}", first.hint, at)
            raise ConditionError(first.what, first.hint) from error


def _from(state: str, sequence: Sequence) -> Sequence:
    """*sequence*, its first instant in a step from *state*."""
    first, *rest = sequence
    before = In(states=frozenset({state}), before=True)
    return (Said(text=f"was {state} and {first.text}", means=All(of=(before, first.means))), *rest)


def _listed(value: str | list[str] | None, kind: str) -> list[tuple[str, tuple[str | int, ...]]]:
    """The texts of a claim, each with its place in the property."""
    if isinstance(value, str):
        return [(value, (kind,))]
    return [(text, (kind, index)) for index, text in enumerate(value or ())]
