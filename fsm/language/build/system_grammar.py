"""Parse conditions on systems."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from fsm.errors import documented, nearest
from fsm.language.build.grammar import NOTHING, ConditionError, Grammar, check_known, outputs
from fsm.machine.conditions import (
    At,
    Compare,
    Condition,
    Emits,
    EmitsOnly,
    Happens,
    Not,
    Replies,
    StepEmits,
    all_of,
    any_of,
    comparisons_over,
)
from fsm.machine.product.system import Copy, Part, System
from fsm.machine.terms import Read, Variable

PART_WORDS: Final = frozenset(
    {"every", "some", "no", "is", "was", "not", "and", "or", "then", "emits", "only", "tells", "replies", "happens"}
)
"""Words that cannot be the name of a part or of a joint event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The names that a condition may use.

    ``meant`` maps each part to its copies, and ``events`` maps each family or RPC to the names of its joint events.
    ``data`` has the variables of parts by names such as ``till.cash``, and the arguments of a joint event.
    """

    system: System
    meant: Mapping[str, tuple[Copy, ...]]
    events: Mapping[str, tuple[str, ...]]
    data: Mapping[str, Variable]


def scope(system: System, copy: Copy | None, arguments: Mapping[str, Variable] = MappingProxyType({})) -> Scope:
    meant = {name: system.related_copies(name, copy) for name in system.parts}
    those = {each for copies in meant.values() for each in copies}
    events: dict[str, list[str]] = {}
    for joint in system.events.values():
        if joint.of is None or joint.of in those:
            for name in dict.fromkeys(filter(None, (joint.family, joint.rpc))):
                events.setdefault(name, []).append(joint.name)
    data = {f"{part.name}.{name}": each for part in system.parts.values() for name, each in part.machine.data.items()}
    known = {name: each for name, each in arguments.items() if name not in system.parts}
    named = {name: tuple(each) for name, each in events.items()}
    return Scope(system=system, meant=meant, events=named, data={**known, **data})


@dataclass(slots=True, kw_only=True)
class SystemGrammar(Grammar):
    scope: Scope
    bound: Mapping[str, Copy] = field(default_factory=dict)
    """The copies that a comparison is about, if a quantifier selects them."""

    def __post_init__(self) -> None:
        self.data = self.scope.data
        Grammar.__post_init__(self)

    def atom(self, word: str) -> Condition:
        match word:
            case "every" | "some" | "no" if self.peek() in self.data:
                return self._read_comparisons(word, self.peek().partition(".")[0])
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

    def _read_comparisons(self, quantity: str, part: str) -> Condition:
        check_known("unknown part", part, self.scope.system.parts, of="parts")
        start, found = self.next, []
        for copy in self.scope.meant[part]:
            self.next, self.bound = start, {part: copy}
            found.append(self.comparison(self.word("a variable")))
        self.bound = {}
        both = all_of(found) if quantity == "every" else any_of(found)
        return Not(of=both) if quantity == "no" else both

    def comparison(self, word: str) -> Condition:
        found = Grammar.comparison(self, word)
        copies: dict[int, None] = {}

        def of_copy(name: str) -> Read:
            part, _, variable = name.partition(".")
            if name not in self.scope.data or part not in self.scope.system.parts:
                return Read(name=name)
            those = [self.bound[part]] if part in self.bound else self.scope.meant[part]
            if len(those) != 1:
                what = f"'{name}' in {self.text!r} could mean any of {len(those)} copies"
                raise ConditionError(what, f"write 'every {name} …' or 'some {name} …'")
            copies[those[0].digit] = None
            return Read(name=f"{those[0].name}.{variable}")

        found = comparisons_over(found, of_copy)
        return replace(found, copies=tuple(copies)) if isinstance(found, Compare) else found

    def _part(self, word: str) -> Part:
        check_known("unknown part", word, self.scope.system.parts, of="parts")
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
        return any_of(
            Emits(output=name) if verb == "emits" else StepEmits(output=name) for name in self._output_names(word)
        )

    def _output_names(self, word: str) -> list[str]:
        by = {part.name: outputs(part.machine) for part in self.scope.system.parts.values()}
        emitters = (part for part, known in by.items() if word in known)
        known = dict.fromkeys(output for each in by.values() for output in each)
        check_known("no part emits", word, known, of="outputs")
        return [f"{word}{copy.suffix}" for part in emitters for copy in self.scope.meant[part]]

    def _event(self, word: str) -> Condition:
        of = "parts, variables and events" if self.data else "parts and events"
        check_known("unknown name", word, (*self.scope.system.parts, *self.data, *self.scope.events), of=of)
        names = self.scope.events[word]
        if self.take("replies"):
            reply = self.reply(word, self.scope.system.events[names[0]].kind)
            return any_of(Replies(event=name, reply=reply) for name in names)
        self.take("happens")
        return any_of(Happens(event=name) for name in names)
