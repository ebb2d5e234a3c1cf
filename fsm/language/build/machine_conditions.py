"""Parse conditions such as ``was running and stop replies error`` (``docs/reference/property-language.md``)."""

from dataclasses import dataclass
from typing import Final

from fsm.errors import nearest
from fsm.language.build.cells import ways
from fsm.language.build.grammar import ConditionError, Grammar
from fsm.machine import Machine
from fsm.machine.conditions import Condition, Emits, EmitsOnly, Happens, In, Not, Replies, SilentOn, StateChanges

WORDS: Final = frozenset(
    {"is", "was", "shows", "showed", "emits", "only", "happens", "replies", "moves", "stays", "silent", "on"}
    | {"not", "and", "or", "then"}
)
"""Words that cannot be used as names in a condition."""

NOTHING: Final = "nothing"


@dataclass(slots=True, kw_only=True)
class MachineGrammar(Grammar):
    """Parses conditions about ``machine``.

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
                return In(states=self._showing(self.word("what is shown")), before=word == "showed")
            case "emits":
                return self._emits()
            case "silent":
                return self._silent()
            case _ if word in WORDS or word in {")", ","}:
                raise ConditionError(f"{self.text!r} has '{word}' instead of a condition", "see 'fsm check --help'")
        return self._named(word)

    def _emits(self) -> Condition:
        if not self.take("only"):
            return Emits(output=self._output(self.word("an output")))
        found = [self._output(word) for word in self.emitted()]
        return EmitsOnly(outputs=tuple(each for each in found if each))

    def _silent(self) -> Condition:
        if not self.take("on"):
            raise ConditionError(f"{self.text!r} lacks 'on' after 'silent'", "say of which event: silent on …")
        word = self.word("an event")
        event = self.machine.event(word)
        if event is None:
            raise ConditionError(f"unknown event '{word}'", nearest(word, self.machine.events, of="events"))
        return SilentOn(event=event.name)

    def _named(self, word: str) -> Condition:
        machine = self.machine
        event = machine.event(word)
        if event and self.take("replies"):
            return Replies(event=event.name, reply=self.reply(event.name, event.kind))
        if event and self.take("happens"):
            return Happens(event=event.name)
        if event and word in machine.states:
            hint = f"say 'is {word}' of the state, '{word} happens' of the event"
            raise ConditionError(f"'{word}' is a state and an event", hint)
        if event:
            return Happens(event=event.name)
        if word in machine.states or word in self.define:
            return In(states=self._states(word))
        known = (*machine.states, *machine.events, *self.define)
        raise ConditionError(f"unknown name '{word}'", nearest(word, known, of="states and events"))

    def _states(self, word: str) -> frozenset[str]:
        named = self.define.get(word)
        if named is not None and not isinstance(named, str):
            return frozenset(named)
        if word not in self.machine.states:
            known = (*self.machine.states, *(name for name, each in self.define.items() if not isinstance(each, str)))
            raise ConditionError(f"unknown state '{word}'", nearest(word, known, of="states"))
        return frozenset({word})

    def _showing(self, word: str) -> frozenset[str]:
        found = frozenset(each.name for each in self.machine.states.values() if each.shows == word)
        if not found:
            shown = dict.fromkeys(each.shows for each in self.machine.states.values())
            raise ConditionError(f"no state shows '{word}'", nearest(word, shown, of="shown"))
        return found

    def _output(self, word: str) -> str:
        if word == NOTHING:
            return ""
        known = outputs(self.machine)
        if word not in known:
            raise ConditionError(f"no event emits '{word}'", nearest(word, known, of="outputs"))
        return word


def outputs(machine: Machine) -> tuple[str, ...]:
    """Return every output of *machine* and of its profiles, in model order."""
    rows = [
        *((event.cells, event.ends) for event in machine.events.values()),
        *((each.cells, each.ends) for profile in machine.profiles.values() for each in profile.overrides),
    ]
    cells = (cell for both in rows for row in both for cell in row.values())
    return tuple(dict.fromkeys(output for way in ways(cells) for output in way.emits))
