"""The one claim of a property, of a machine or of a system."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from fsm.errors import InputError, Problem
from fsm.language.build.cells import REST, ways
from fsm.language.build.definitions import Definitions
from fsm.language.build.grammar import ConditionError, Grammar
from fsm.language.build.machine_conditions import MachineGrammar, outputs
from fsm.language.build.problems import Problems
from fsm.language.build.system_conditions import Scope, SystemGrammar, scope
from fsm.language.property_file import Stated, WrittenProperty
from fsm.machine import Kind, Machine
from fsm.machine.conditions import All, In, Sequence, WrittenCondition
from fsm.product.system import System
from fsm.property.claims import (
    Always,
    Claim,
    Fair,
    Follows,
    Idempotent,
    LeadsTo,
    MatchesDiagram,
    Never,
    Reachable,
    Refines,
)

T = TypeVar("T")

_ENDS: Final = ".ends"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claiming(ABC):
    """Makes the one claim of the property *name*."""

    problems: Problems[Stated]
    find: Callable[[str], Machine | System]
    name: str
    written: WrittenProperty
    define: Definitions

    def claim(self) -> Claim | None:
        """The claim; ``None`` if there is none that makes sense, which is noted."""
        values = self.written.model_dump(by_alias=True, exclude_defaults=True)
        made = [kind for kind in KINDS if kind in values]
        if len(made) != 1:
            count = f"{len(made)} claims: {', '.join(made)}" if made else "no claim"
            self._say("FSM301", f"property '{self.name}' makes {count}", f"make one of {', '.join(KINDS)}", *made[-1:])
            return None
        kind = made[0]
        for word in sorted(frozenset().union(*KINDS.values()) - KINDS[kind]):
            if word in values:
                self._say("FSM302", f"'{word}' says nothing with '{kind}'", "leave it out", word)
        makers: Mapping[str, Callable[[], Claim]] = {
            "idempotent": self._idempotent,
            "always": self._always,
            "never": self._never,
            "reachable": self._reachable,
            "leads-to": self._leads_to,
            "follows": self._follows,
            "refines": self._refines,
            "matches-diagram": self._matches_diagram,
        }
        try:
            return makers[kind]()
        except ConditionError:  # noted where it arose
            return None

    @abstractmethod
    def _idempotent(self) -> Claim: ...

    @abstractmethod
    def _reachable(self) -> Claim: ...

    @abstractmethod
    def _follows(self) -> Claim: ...

    @abstractmethod
    def _refines(self) -> Claim: ...

    @abstractmethod
    def _matches_diagram(self) -> Claim: ...

    @abstractmethod
    def _grammar(self, text: str) -> Grammar: ...

    @abstractmethod
    def _fair(self, text: str, at: str, *, strongly: bool) -> tuple[Fair, ...]:
        """What *text*, which stands at the word *at*, says to be fair."""

    def _always(self) -> Always:
        conditions = tuple(self._condition(text, *at) for text, at in listed(self.written.always, "always"))
        return Always(conditions=conditions, when=self._optional(self.written.when, "when"))

    def _never(self) -> Never:
        sequences = self._sequences(self.written.never, "never")
        return Never(sequences=sequences, until=self._optional(self.written.until, "until"))

    def _leads_to(self) -> LeadsTo:
        written = self.written
        if written.from_ is None:
            what = f"property '{self.name}' has leads-to without from"
            self._say("FSM302", what, "say from where: from = …", "leads-to")
            raise ConditionError(what, "")
        fair = [each for text in written.fair for each in self._fair(text, "fair", strongly=False)]
        fair += [each for text in written.strongly_fair for each in self._fair(text, "strongly-fair", strongly=True)]
        source = self._condition(written.from_, "from")
        target = self._condition(str(written.leads_to), "leads-to")
        return LeadsTo(source=source, target=target, fair=tuple(fair))

    def _once(self, event: str, kind: Kind) -> Idempotent:
        """That a second call of *event*, which is of that *kind*, changes nothing."""
        if kind != "call":
            self._say("FSM303", f"{kind} '{event}' is no call", "only calls are repeated", "idempotent")
        return Idempotent(event=event, once=self._optional(self.written.once, "once"))

    def _other(self, name: str, at: str) -> Machine:
        """The machine called *name*, at the word *at*."""
        try:
            found = self.find(name)
        except InputError as error:
            first: Problem = error.problems[0]
            self._say("FSM304", f"machine '{name}' {first.what}", first.hint, at)
            raise ConditionError(first.what, first.hint) from error
        if not isinstance(found, Machine):
            what = f"'{name}' is a system"
            self._say("FSM304", what, "name a machine", at)
            raise ConditionError(what, "")
        return found

    def _followed(self, name: str, emitted: Iterable[str]) -> Machine:
        """The machine of which what *name* has *emitted* are to be events."""
        other = self._other(str(self.written.follows), "follows")
        known = {each for event in other.events.values() for each in (event.name, event.rpc)}
        if known.isdisjoint(emitted):
            what = f"none of the outputs of '{name}' is an event of '{other.name}'"
            self._say("FSM304", what, "the outputs of one are the events of the other", "follows")
        return other

    def _say(self, code: str, what: str, hint: str, *at: str | int) -> None:
        self.problems.say(code, what, hint, "property", self.name, *at)

    def _unknown(self, what: str, word: str, known: Iterable[str], *at: str | int) -> None:
        self.problems.unknown("FSM303", what, word, known, "property", self.name, *at)

    def _condition(self, text: str, *at: str | int) -> WrittenCondition:
        return self._read(text, Grammar.condition, *at)

    def _optional(self, text: str | None, at: str) -> WrittenCondition | None:
        return None if text is None else self._condition(text, at)

    def _sequences(self, written: str | list[str] | None, kind: str) -> tuple[Sequence, ...]:
        return tuple(self._read(text, Grammar.sequence, *at) for text, at in listed(written, kind))

    def _read(self, text: str, read: Callable[[Grammar], T], *at: str | int) -> T:
        """What is *read* of *text*; what is wrong with it, or with a definition in it, is noted, and raised."""
        try:
            return read(self._grammar(text))
        except ConditionError as error:
            place: tuple[str | int, ...] = error.at or ("property", self.name, *at)
            self.problems.say("FSM303", error.what, error.hint, *place)
            raise


def listed(value: str | list[str] | None, kind: str) -> list[tuple[str, tuple[str | int, ...]]]:
    """The texts of a claim, each with its place in the property."""
    if isinstance(value, str):
        return [(value, (kind,))]
    return [(text, (kind, index)) for index, text in enumerate(value or ())]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfMachine(_Claiming):
    """Of a machine."""

    machine: Machine

    def _grammar(self, text: str) -> Grammar:
        return MachineGrammar(text=text, machine=self.machine, define=self.define)

    def _idempotent(self) -> Idempotent:
        name = str(self.written.idempotent)
        event = self.machine.events.get(name)
        if event is None:
            self._unknown("unknown event", name, self.machine.events, "idempotent")
        return self._once(name, event.kind if event else "call")

    def _reachable(self) -> Reachable:
        sequences = self._sequences(self.written.reachable, "reachable")
        states: list[str] = []
        for index, state in enumerate(self.written.from_each):
            named = self.define.get(state, "")
            if state != REST and state not in self.machine.states and isinstance(named, str):
                self._unknown("unknown state", state, self.machine.states, "from-each", index)
            states += list(self.machine.states) if state == REST else [state] if isinstance(named, str) else named
        if not states:
            return Reachable(sequences=sequences)
        return Reachable(sequences=tuple(_from(state, each) for each in sequences for state in states))

    def _follows(self) -> Follows:
        return Follows(other=self._followed(self.machine.name, outputs(self.machine)))

    def _refines(self) -> Refines:
        return Refines(other=self._other(str(self.written.refines), "refines"), overlap=self.written.overlap)

    def _matches_diagram(self) -> MatchesDiagram:
        return MatchesDiagram(path=str(Path(self.problems.model.path).parent / str(self.written.matches_diagram)))

    def _fair(self, text: str, at: str, *, strongly: bool) -> tuple[Fair, ...]:
        """``stop``, ``stop.ends``, ``stop/stopped`` or ``stop.ends/stopped``."""
        whole, _, outcome = text.partition("/")
        name = whole.removesuffix(_ENDS)
        event = self.machine.events.get(name)
        if event is None:
            self._unknown("unknown event", name, self.machine.events, at)
            return (Fair(event=name),)
        ends = whole.endswith(_ENDS)
        rows = event.ends if ends else event.cells
        if not rows:
            self._say("FSM303", f"event '{name}' has no ends", "only calls that take time have", at)
        known = dict.fromkeys(way.name for way in ways(rows.values()))
        if outcome and outcome not in known:
            self._unknown("unknown outcome", outcome, known, at)
        return (Fair(event=name, ends=ends, outcome=outcome, strongly=strongly),)


def _from(state: str, sequence: Sequence) -> Sequence:
    """*sequence*, its first instant in a step from *state*."""
    first, *rest = sequence
    before = In(states=frozenset({state}), before=True)
    return (WrittenCondition(text=f"was {state} and {first.text}", means=All(of=(before, first.means))), *rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfSystem(_Claiming):
    """Of a system, or of what is in *scope*."""

    scope: Scope

    def _grammar(self, text: str) -> Grammar:
        return SystemGrammar(text=text, scope=self.scope, define=self.define)

    def _fair(self, text: str, at: str, *, strongly: bool) -> tuple[Fair, ...]:
        """``stop`` or ``stop/stopped``: those of every copy, whichever the claim is about."""
        name, _, outcome = text.partition("/")
        events = [joint for joint in self.scope.system.events.values() if name in {joint.family, joint.rpc}]
        if not events:
            self._unknown("unknown event", name, self.scope.events, at)
        known = {way.name for joint in events for way in joint.ways}
        if outcome and events and outcome not in known:
            self._unknown("unknown way", outcome, sorted(known), at)
        return tuple(Fair(event=joint.name, outcome=outcome, strongly=strongly) for joint in events)

    def _idempotent(self) -> Idempotent:
        event = self._event(str(self.written.idempotent), "idempotent")
        return self._once(event, self.scope.system.events[event].kind)

    def _reachable(self) -> Reachable:
        if self.written.from_each:
            hint = "say 'PART was STATE and …' instead"
            self._say("FSM302", "'from-each' says nothing of a system", hint, "from-each")
        return Reachable(sequences=self._sequences(self.written.reachable, "reachable"))

    def _refines(self) -> Claim:
        return self._only_machines("refines")

    def _matches_diagram(self) -> Claim:
        return self._only_machines("matches-diagram")

    def _follows(self) -> Follows:
        emitted = [each for part in self.scope.system.parts.values() for each in outputs(part.machine)]
        of = frozenset(copy.digit for copies in self.scope.meant.values() for copy in copies)
        return Follows(other=self._followed(self.scope.system.name, emitted), of=of)

    def _event(self, name: str, at: str) -> str:
        """The one joint event that *name* means."""
        names = self.scope.events.get(name, ())
        if len(names) == 1:
            return names[0]
        if not names:
            self._unknown("unknown event", name, self.scope.events, at)
        else:
            self._say("FSM303", f"'{name}' means {len(names)} events", "say for which part: for = …", at)
        raise ConditionError(name, "")

    def _only_machines(self, kind: str) -> Claim:
        self._say("FSM302", f"'{kind}' is claimed of machines only", "claim it of the part's machine", kind)
        raise ConditionError(kind, "")


def claiming(
    problems: Problems[Stated],
    machine: Machine | System,
    find: Callable[[str], Machine | System],
    name: str,
    written: WrittenProperty,
    define: Definitions,
    number: int = 0,
) -> _Claiming:
    """What makes the claim of the property *name* of *machine*, with the names of the file.

    Of a system, what is meant for each copy of a part is claimed of the one of that *number*.
    """
    part = written.for_
    if isinstance(machine, Machine):
        if part is not None:
            problems.say("FSM302", "'for' is said of a system only", "leave it out", "property", name, "for")
        return _OfMachine(problems=problems, machine=machine, find=find, name=name, written=written, define=define)
    if part is not None and part not in machine.parts:
        problems.unknown("FSM303", "unknown part", part, machine.parts, "property", name, "for")
    copy = machine.parts[part].copies[number] if part in machine.parts and part else None
    within = scope(machine, copy)
    return _OfSystem(problems=problems, scope=within, find=find, name=name, written=written, define=define)
