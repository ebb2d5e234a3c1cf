"""Parse conditions on systems.  They are like those on machines, but about parts instead of states.

``docs/reference/system-language.md`` describes the new words.  If a copy of a part is meant, so are the copies of other
parts that belong to it, or that it belongs to.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fsm.errors import documented, nearest
from fsm.language.build.grammar import ConditionError, Grammar
from fsm.language.build.machine_conditions import NOTHING, outputs
from fsm.machine.conditions import At, Condition, Emits, EmitsOnly, Happens, Not, Replies, Some, StepEmits
from fsm.machine.product.system import Copy, Part, System

PART_WORDS: Final = frozenset(
    {"every", "some", "no", "is", "was", "not", "and", "or", "then", "emits", "only", "tells", "replies", "happens"}
)
"""Words that cannot be the name of a part or of a joint event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The copies of each part, and the joint events by name, that a condition on ``system`` may mention."""

    system: System
    meant: Mapping[str, tuple[Copy, ...]]
    events: Mapping[str, tuple[str, ...]]


def scope(system: System, copy: Copy | None) -> Scope:
    """Return what a condition on *system* may mention if *copy* is meant."""
    meant = {name: system.related(name, copy) for name in system.parts}
    those = {each for copies in meant.values() for each in copies}
    events: dict[str, list[str]] = {}
    for joint in system.events.values():
        if joint.of is None or joint.of in those:
            for name in dict.fromkeys(filter(None, (joint.family, joint.rpc))):
                events.setdefault(name, []).append(joint.name)
    return Scope(system=system, meant=meant, events={name: tuple(each) for name, each in events.items()})


@dataclass(slots=True, kw_only=True)
class SystemGrammar(Grammar):
    """Parses conditions about what is in ``scope``."""

    scope: Scope

    def atom(self, word: str) -> Condition:
        match word:
            case "every" | "some" | "no":
                found = self._at(self._part(self.word("a part")), every=word == "every")
                return Not(of=found) if word == "no" else found
            case "emits" | "tells":
                return self._emits(word)
            case _ if word in self.scope.system.parts:
                return self._at(self._one(word), every=True)
            case _ if word in PART_WORDS or word in {")", ",", "("}:
                hint = f"see {documented('reference/system-language')}"
                raise ConditionError(f"{self.text!r} has '{word}' instead of a condition", hint)
        return self._event(word)

    def _part(self, word: str) -> Part:
        if word not in self.scope.system.parts:
            raise ConditionError(f"unknown part '{word}'", nearest(word, self.scope.system.parts, of="parts"))
        return self.scope.system.parts[word]

    def _one(self, word: str) -> Part:
        count = len(self.scope.meant[word])
        if count != 1:
            raise ConditionError(f"'{word}' means {count} copies in {self.text!r}", f"say every {word} or some {word}")
        return self.scope.system.parts[word]

    def _at(self, part: Part, *, every: bool) -> Condition:
        verb = self.word("'is' or 'was'")
        if verb not in {"is", "was"}:
            hint = f"say {part.name} is …, or {part.name} was …"
            raise ConditionError(f"{self.text!r} has '{verb}' after '{part.name}'", hint)
        negated = self.take("not")
        word = self.word("a state")
        states = part.machine.states
        named = self.define.get(word, word)
        for each in (word,) if isinstance(named, str) else named:
            if each not in states:
                raise ConditionError(f"unknown state '{each}' of '{part.name}'", nearest(each, states, of="states"))
        meant = frozenset({word} if isinstance(named, str) else named)
        meant = frozenset(states) - meant if negated else meant
        copies = tuple(copy.digit for copy in self.scope.meant[part.name])
        return At(part=part.name, copies=copies, states=meant, every=every, before=verb == "was")

    def _emits_only(self, words: list[str]) -> Condition:
        """Return the condition that *words* are emitted in order, and that their emitters emit nothing else."""
        found: list[str] = []
        among: set[str] = set()
        for word in words:
            names = self._emitted(word)
            if len(names) > 1:
                raise ConditionError(f"{len(names)} copies emit '{word}' in {self.text!r}", "say for which: for = …")
            found += names
        for part in self.scope.system.parts.values():
            known = outputs(part.machine)
            if set(words) & set(known):
                among |= {f"{output}{copy.suffix}" for output in known for copy in self.scope.meant[part.name]}
        return EmitsOnly(outputs=tuple(found), among=frozenset(among))

    def _emits(self, verb: str) -> Condition:
        if verb == "emits" and self.take("only"):
            return self._emits_only(self.emitted())
        word = self.word("an output")
        if word == NOTHING and verb == "emits":
            return Emits(output="")
        return _any(Emits(output=name) if verb == "emits" else StepEmits(output=name) for name in self._emitted(word))

    def _emitted(self, word: str) -> list[str]:
        by = {part.name: outputs(part.machine) for part in self.scope.system.parts.values()}
        emitters = (part for part, known in by.items() if word in known)
        names = [f"{word}{copy.suffix}" for part in emitters for copy in self.scope.meant[part]]
        if not names:
            known = dict.fromkeys(output for each in by.values() for output in each)
            raise ConditionError(f"no part emits '{word}'", nearest(word, known, of="outputs"))
        return names

    def _event(self, word: str) -> Condition:
        names = self.scope.events.get(word)
        if names is None:
            known: Collection[str] = (*self.scope.system.parts, *self.scope.events)
            raise ConditionError(f"unknown name '{word}'", nearest(word, known, of="parts and events"))
        if self.take("replies"):
            reply = self.reply(word, self.scope.system.events[names[0]].kind)
            return _any(Replies(event=name, reply=reply) for name in names)
        self.take("happens")
        return _any(Happens(event=name) for name in names)


def _any(conditions: Iterable[Condition]) -> Condition:
    found = tuple(conditions)
    return found[0] if len(found) == 1 else Some(of=found)
