"""Parse conditions on machines and systems.

Both kinds of conditions share the words ``not``, ``and``, ``or`` and ``then``, and parentheses.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from fsm.errors import documented, nearest
from fsm.language.build.cells import ways
from fsm.language.build.problems import Definitions
from fsm.machine import Kind, Machine
from fsm.machine.conditions import (
    All,
    At,
    Condition,
    Emits,
    EmitsOnly,
    Happens,
    In,
    Not,
    Replies,
    Sequence,
    SilentOn,
    Some,
    StateChanges,
    StepEmits,
    WrittenCondition,
)
from fsm.machine.product.system import Copy, Part, System

T = TypeVar("T")

DEEPEST: Final = 50  # maximum nesting depth of parentheses and of ``not``
_TOKEN: Final = re.compile(r"([A-Za-z0-9_.-]+|[(),])|(\S)")


class ConditionError(Exception):
    def __init__(self, what: str, hint: str, at: tuple[str, ...] = ()) -> None:
        self.what = what
        self.hint = hint
        self.at = at  # the place in the file, if it is known
        super().__init__(f"{what}: {hint}")


@dataclass(slots=True, kw_only=True)
class Grammar(ABC):
    """A parser of the condition ``text``, which may use the names in ``define``.

    Subclasses parse all other words, and raise :class:`ConditionError` for a word that they do not know.
    """

    text: str
    define: Definitions = field(default_factory=dict)
    words: list[tuple[str, int]] = field(default_factory=list)
    next: int = 0
    depth: int = 0

    def __post_init__(self) -> None:
        self.words = _tokens(self.text)

    def sequence(self) -> Sequence:
        found = self._read_separated("then", self.written)
        if self.peek():
            hint = "insert 'and', 'or' or 'then' before it"
            raise ConditionError(f"{self.text!r} continues with '{self.peek()}'", hint)
        return tuple(found)

    def condition(self) -> WrittenCondition:
        found = self.sequence()
        if len(found) > 1:
            raise ConditionError(f"the condition {self.text!r} is about several instants", "leave out 'then'")
        return found[0]

    def peek(self) -> str:
        return self.words[self.next][0] if self.next < len(self.words) else ""

    def take(self, word: str) -> bool:
        if self.peek() != word:
            return False
        self.next += 1
        return True

    def written(self) -> WrittenCondition:
        start = self.words[self.next - 1][1] if self.next else 0
        means = self._read_disjunction()
        return WrittenCondition(text=self.text[start : self.words[self.next - 1][1]].strip(), means=means)

    def _read_separated(self, separator: str, read: Callable[[], T]) -> list[T]:
        found = [read()]
        while self.take(separator):
            found.append(read())
        return found

    def _read_disjunction(self) -> Condition:
        return _any_of(self._read_separated("or", self._read_conjunction))

    def _read_conjunction(self) -> Condition:
        parts = self._read_separated("and", self._read_negation)
        return parts[0] if len(parts) == 1 else All(of=tuple(parts))

    def _read_negation(self) -> Condition:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ConditionError(f"{self.text!r} is nested too deeply", "split the property into several properties")
        try:
            if self.take("not"):
                return Not(of=self._read_negation())
            if self.take("("):
                inner = self._read_disjunction()
                if not self.take(")"):
                    raise ConditionError(f"the condition {self.text!r} lacks a ')'", "add the closing parenthesis")
                return inner
            word = self.word("a condition")
            return self._read_definition(word) if isinstance(self.define.get(word), str) else self.atom(word)
        finally:
            self.depth -= 1

    def _read_definition(self, word: str) -> Condition:
        try:
            return replace(self, text=str(self.define[word]), words=[], next=0).condition().means
        except ConditionError as error:
            raise ConditionError(error.what, error.hint, error.at or ("define", word)) from error

    @abstractmethod
    def atom(self, word: str) -> Condition:
        """Parse a simple condition that begins with *word*, which is not a defined name."""

    def word(self, expected: str) -> str:
        word = self.peek()
        if not word:
            what = f"the condition {self.text!r} ends where {expected} is expected"
            raise ConditionError(what, "complete the condition, or remove it")
        self.next += 1
        return word

    def emitted(self) -> list[str]:
        return self._read_separated(",", lambda: self.word("an output"))

    def reply(self, event: str, kind: Kind) -> str:
        if kind != "call":
            raise ConditionError(f"'{event}' is not a call and has no reply", "leave out 'replies'")
        word = self.word("a reply")
        if word not in {"ok", "error"} and not re.fullmatch(r"[A-Z][A-Z0-9_]*", word):
            raise ConditionError(f"'{word}' is not a reply", "a reply is ok, error, or a code such as NOT_FOUND")
        return word


def _check_known(what: str, word: str, known: Iterable[str], *, of: str) -> None:
    names = tuple(known)
    if word not in names:
        raise ConditionError(f"{what} '{word}'", nearest(word, names, of=of))


def _tokens(text: str) -> list[tuple[str, int]]:
    found = []
    for match in _TOKEN.finditer(text):
        if odd := match[2]:
            what = f"the condition {text!r} contains {odd!r}, which is not a word of conditions"
            raise ConditionError(what, "use only names, parentheses, 'and', 'or', 'not' and 'then'")
        found.append((match[1], match.end()))
    return found


WORDS: Final = frozenset(
    {"is", "was", "shows", "showed", "emits", "only", "happens", "replies", "moves", "stays", "silent", "on"}
    | {"not", "and", "or", "then"}
)
"""Words that cannot be used as names in a condition."""

NOTHING: Final = "nothing"


@dataclass(slots=True, kw_only=True)
class MachineGrammar(Grammar):
    """Parses conditions about the machine ``machine``.

    >>> from fsm.language.library import load
    >>> grammar = MachineGrammar(text="gone then open", machine=load("examples/models/door.toml"))
    >>> [each.text for each in grammar.sequence()]
    ['gone', 'open']
    """

    machine: Machine

    def atom(self, word: str) -> Condition:
        match word:
            case "moves":
                return StateChanges()
            case "stays":
                return Not(of=StateChanges())
            case "is" | "was":
                return In(states=self._states(self.word("a state")), before=word == "was")
            case "shows" | "showed":
                return In(states=self._states_showing(self.word("a text that a state shows")), before=word == "showed")
            case "emits":
                return self._read_emits()
            case "silent":
                return self._read_silent()
            case _ if word in WORDS or word in {")", ","}:
                raise ConditionError(f"{self.text!r} has '{word}' instead of a condition", "see 'fsm check --help'")
        return self._read_event_or_state(word)

    def _read_emits(self) -> Condition:
        if not self.take("only"):
            return Emits(output=self._output(self.word("an output")))
        found = [self._output(word) for word in self.emitted()]
        return EmitsOnly(outputs=tuple(each for each in found if each))

    def _read_silent(self) -> Condition:
        if not self.take("on"):
            raise ConditionError(f"the condition {self.text!r} lacks 'on' after 'silent'", "write 'silent on EVENT'")
        word = self.word("an event")
        event = self.machine.event(word)
        if event is None:
            raise ConditionError(f"unknown event '{word}'", nearest(word, self.machine.events, of="events"))
        return SilentOn(event=event.name)

    def _read_event_or_state(self, word: str) -> Condition:
        machine = self.machine
        event = machine.event(word)
        if event and self.take("replies"):
            return Replies(event=event.name, reply=self.reply(event.name, event.kind))
        if event and not self.take("happens") and word in (*machine.states, *machine.hierarchy.names):
            hint = f"write 'is {word}' for the state, or '{word} happens' for the event"
            raise ConditionError(f"'{word}' is both a state and an event", hint)
        if event:
            return Happens(event=event.name)
        _check_known("unknown name", word, (*machine.states, *machine.events, *self.define), of="states and events")
        return In(states=self._states(word))

    def _states(self, word: str) -> frozenset[str]:
        named = self.define.get(word)
        if named is not None and not isinstance(named, str):
            return frozenset(named)
        sets = (name for name, each in self.define.items() if not isinstance(each, str))
        _check_known("unknown state", word, (*self.machine.states, *sets), of="states")
        return frozenset({word})

    def _states_showing(self, word: str) -> frozenset[str]:
        states = self.machine.states.values()
        shown = dict.fromkeys(each.shows for each in states)
        _check_known("no state shows", word, shown, of="texts that states show")
        return frozenset(each.name for each in states if each.shows == word)

    def _output(self, word: str) -> str:
        if word == NOTHING:
            return ""
        _check_known("no event emits", word, outputs(self.machine), of="outputs")
        return word


def outputs(machine: Machine) -> tuple[str, ...]:
    rows = [
        *((event.cells, event.ends) for event in machine.events.values()),
        *((each.cells, each.ends) for profile in machine.profiles.values() for each in profile.overrides),
    ]
    cells = (cell for both in rows for row in both for cell in row.values())
    return tuple(dict.fromkeys(output for way in ways(cells) for output in way.emits))


PART_WORDS: Final = frozenset(
    {"every", "some", "no", "is", "was", "not", "and", "or", "then", "emits", "only", "tells", "replies", "happens"}
)
"""Words that cannot be the name of a part or of a joint event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The names that a condition may use.

    ``meant`` maps each part to its copies, and ``events`` maps each family or RPC to the names of its joint events.
    """

    system: System
    meant: Mapping[str, tuple[Copy, ...]]
    events: Mapping[str, tuple[str, ...]]


def scope(system: System, copy: Copy | None) -> Scope:
    meant = {name: system.related_copies(name, copy) for name in system.parts}
    those = {each for copies in meant.values() for each in copies}
    events: dict[str, list[str]] = {}
    for joint in system.events.values():
        if joint.of is None or joint.of in those:
            for name in dict.fromkeys(filter(None, (joint.family, joint.rpc))):
                events.setdefault(name, []).append(joint.name)
    return Scope(system=system, meant=meant, events={name: tuple(each) for name, each in events.items()})


@dataclass(slots=True, kw_only=True)
class SystemGrammar(Grammar):
    scope: Scope

    def atom(self, word: str) -> Condition:
        match word:
            case "every" | "some" | "no":
                found = self._read_part_state(self._part(self.word("a part")), every=word == "every")
                return Not(of=found) if word == "no" else found
            case "emits" | "tells":
                return self._read_emits(word)
            case _ if word in self.scope.system.parts:
                count = len(self.scope.meant[word])
                if count != 1:
                    hint = f"write 'every {word}' or 'some {word}'"
                    raise ConditionError(f"'{word}' in {self.text!r} could mean any of {count} copies", hint)
                return self._read_part_state(self._part(word), every=True)
            case _ if word in PART_WORDS or word in {")", ",", "("}:
                hint = f"see {documented('reference/system-language')}"
                raise ConditionError(f"{self.text!r} has '{word}' instead of a condition", hint)
        return self._event(word)

    def _part(self, word: str) -> Part:
        _check_known("unknown part", word, self.scope.system.parts, of="parts")
        return self.scope.system.parts[word]

    def _read_part_state(self, part: Part, *, every: bool) -> Condition:
        verb = self.word("'is' or 'was'")
        if verb not in {"is", "was"}:
            hint = f"write '{part.name} is …' or '{part.name} was …'"
            raise ConditionError(f"the condition {self.text!r} has '{verb}' after '{part.name}'", hint)
        negated = self.take("not")
        word = self.word("a state")
        states, names = part.machine.states, part.machine.hierarchy.names
        named = self.define.get(word, word)
        for each in (word,) if isinstance(named, str) else named:
            if each not in states and each not in names:
                raise ConditionError(f"unknown state '{each}' of '{part.name}'", nearest(each, states, of="states"))
        listed = (word,) if isinstance(named, str) else named
        meant = frozenset(state for each in listed for state in names.get(each, (each,)))
        meant = frozenset(states) - meant if negated else meant
        copies = tuple(copy.digit for copy in self.scope.meant[part.name])
        return At(part=part.name, copies=copies, states=meant, every=every, before=verb == "was")

    def _emits_only(self, words: list[str]) -> Condition:
        found: list[str] = []
        among: set[str] = set()
        for word in words:
            names = self._output_names(word)
            if len(names) > 1:
                raise ConditionError(f"{len(names)} copies emit '{word}' in {self.text!r}", "select one copy: for = …")
            found += names
        for part in self.scope.system.parts.values():
            known = outputs(part.machine)
            if set(words) & set(known):
                among |= {f"{output}{copy.suffix}" for output in known for copy in self.scope.meant[part.name]}
        return EmitsOnly(outputs=tuple(found), among=frozenset(among))

    def _read_emits(self, verb: str) -> Condition:
        if verb == "emits" and self.take("only"):
            return self._emits_only(self.emitted())
        word = self.word("an output")
        if word == NOTHING and verb == "emits":
            return Emits(output="")
        return _any_of(
            Emits(output=name) if verb == "emits" else StepEmits(output=name) for name in self._output_names(word)
        )

    def _output_names(self, word: str) -> list[str]:
        by = {part.name: outputs(part.machine) for part in self.scope.system.parts.values()}
        emitters = (part for part, known in by.items() if word in known)
        known = dict.fromkeys(output for each in by.values() for output in each)
        _check_known("no part emits", word, known, of="outputs")
        return [f"{word}{copy.suffix}" for part in emitters for copy in self.scope.meant[part]]

    def _event(self, word: str) -> Condition:
        _check_known("unknown name", word, (*self.scope.system.parts, *self.scope.events), of="parts and events")
        names = self.scope.events[word]
        if self.take("replies"):
            reply = self.reply(word, self.scope.system.events[names[0]].kind)
            return _any_of(Replies(event=name, reply=reply) for name in names)
        self.take("happens")
        return _any_of(Happens(event=name) for name in names)


def _any_of(conditions: Iterable[Condition]) -> Condition:
    found = tuple(conditions)
    return found[0] if len(found) == 1 else Some(of=found)
