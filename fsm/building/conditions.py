"""The little language in which properties speak of instants: ``was running and stop replies error``.

======================  =====================================================
``running``             the state is *running* (after the step); also ``is running``
``was running``         it was *running* before the step
``shows RUNNING``       it is a state that shows *RUNNING*; ``showed`` before
``start``               *start* happens, a call acts or begins; also ``start happens``
``start replies ok``    a call of *start* has this reply; ``error``: any error
``emits X``             output *X* is emitted; ``emits nothing``
``emits only X, Y``     the step emits *X*, then *Y*, and nothing else
``moves``, ``stays``    the state changes, or does not
``silent on start``     of *start* in this state the machine says nothing
``silent on start``     of *start* in this state the machine says nothing
``not`` ``and`` ``or``  binding in this order; parentheses as usual
``then``                between conditions: at some later instant
======================  =====================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fsm.errors import nearest
from fsm.properties import All, Emits, EmitsOnly, Happens, In, Moves, Not, Replies, Said, SilentOn, Some

if TYPE_CHECKING:
    from fsm.machine import Machine
    from fsm.properties import Condition, Sequence

WORDS: Final = (
    "is",
    "was",
    "shows",
    "showed",
    "emits",
    "only",
    "happens",
    "replies",
    "moves",
    "stays",
    "silent",
    "on",
    "not",
    "and",
    "or",
    "then",
)
"""What a name in a condition cannot be."""

NOTHING: Final = "nothing"

DEEPEST: Final = 50
"""Parentheses and ``not`` within one another."""

_TOKEN: Final = re.compile(r"\s*(?:([A-Za-z0-9_.-]+)|([(),]))")


class ConditionError(Exception):
    """Text that is no condition: what was found, and the way out."""

    def __init__(self, what: str, hint: str) -> None:
        self.what = what
        self.hint = hint
        super().__init__(f"{what}: {hint}")


def sequence(text: str, machine: Machine) -> Sequence:
    """The conditions in *text*, which ``then`` separates, about *machine*.

    Raises :class:`ConditionError`.

    >>> from fsm.library import load
    >>> [each.text for each in sequence("exited then running", load("container-status"))]
    ['exited', 'running']
    """
    parser = _Parser(machine=machine, text=text, words=_tokens(text))
    found = [parser.said()]
    while parser.take("then"):
        found.append(parser.said())
    parser.end()
    return tuple(found)


def condition(text: str, machine: Machine) -> Said:
    """The one condition in *text*; raises :class:`ConditionError`."""
    found = sequence(text, machine)
    if len(found) > 1:
        raise ConditionError(f"{text!r} speaks of several instants", "leave 'then' out here")
    return found[0]


def _tokens(text: str) -> list[tuple[str, int]]:
    """The words of *text*, each with the offset behind it."""
    found = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            odd = text[at:].lstrip()[0]
            raise ConditionError(f"{text!r} has {odd!r} in it", "use names, parentheses, and, or, not, then")
        at = match.end()
        found.append((match[1] or match[2], at))
    return found


@dataclass(slots=True, kw_only=True)
class _Parser:
    machine: Machine
    text: str
    words: list[tuple[str, int]]
    next: int = 0
    depth: int = 0

    def peek(self) -> str:
        return self.words[self.next][0] if self.next < len(self.words) else ""

    def take(self, word: str) -> bool:
        """Whether *word* is next; if so it is passed."""
        if self.peek() != word:
            return False
        self.next += 1
        return True

    def end(self) -> None:
        if self.peek():
            raise ConditionError(f"{self.text!r} goes on with '{self.peek()}'", "put and, or or then in between")

    def said(self) -> Said:
        start = self.words[self.next - 1][1] if self.next else 0
        means = self._some()
        return Said(text=self.text[start : self.words[self.next - 1][1]].strip(), means=means)

    def _some(self) -> Condition:
        parts = [self._all()]
        while self.take("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Some(of=tuple(parts))

    def _all(self) -> Condition:
        parts = [self._not()]
        while self.take("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else All(of=tuple(parts))

    def _not(self) -> Condition:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ConditionError(f"{self.text!r} nests too deep", "say it in several properties")
        try:
            if self.take("not"):
                return Not(of=self._not())
            if self.take("("):
                inner = self._some()
                if not self.take(")"):
                    raise ConditionError(f"{self.text!r} lacks a ')'", "close what was opened")
                return inner
            return self._atom()
        finally:
            self.depth -= 1

    def _atom(self) -> Condition:
        word = self._word("a condition")
        match word:
            case "moves":
                return Moves()
            case "stays":
                return Not(of=Moves())
            case "is" | "was":
                return In(states=frozenset({self._state(self._word("a state"))}), before=word == "was")
            case "shows" | "showed":
                return In(states=self._showing(self._word("what is shown")), before=word == "showed")
            case "emits":
                return self._emits()
            case "silent":
                return self._silent()
            case _ if word in WORDS or word in {")", ","}:
                raise ConditionError(
                    f"{self.text!r} has '{word}' where a condition should be", "see 'fsm check --help'"
                )
        return self._named(word)

    def _emits(self) -> Condition:
        if not self.take("only"):
            return Emits(output=self._output(self._word("an output")))
        found = [self._output(self._word("an output"))]
        while self.take(","):
            found.append(self._output(self._word("an output")))
        return EmitsOnly(outputs=tuple(each for each in found if each))

    def _silent(self) -> Condition:
        if not self.take("on"):
            raise ConditionError(f"{self.text!r} lacks 'on' behind 'silent'", "say of which event: silent on …")
        word = self._word("an event")
        event = self._event(word)
        if not event:
            raise ConditionError(f"unknown event '{word}'", nearest(word, self.machine.events, of="events"))
        return SilentOn(event=event)

    def _event(self, word: str) -> str:
        """The name of the event that *word* names, here or on the wire; empty if there is none."""
        return next((each.name for each in self.machine.events.values() if word in {each.name, each.rpc}), "")

    def _word(self, expected: str) -> str:
        word = self.peek()
        if not word:
            raise ConditionError(f"{self.text!r} ends where {expected} should be", "say what is meant, or leave it out")
        self.next += 1
        return word

    def _named(self, word: str) -> Condition:
        """A state or an event."""
        machine = self.machine
        event = self._event(word)
        if event and self.take("replies"):
            return Replies(event=event, reply=self._reply(event))
        if event and self.take("happens"):
            return Happens(event=event)
        if event and word in machine.states:
            hint = f"say 'is {word}' of the state, '{word} happens' of the event"
            raise ConditionError(f"'{word}' is a state and an event", hint)
        if event:
            return Happens(event=event)
        if word in machine.states:
            return In(states=frozenset({word}))
        known = (*machine.states, *machine.events)
        raise ConditionError(f"unknown name '{word}'", nearest(word, known, of="states and events"))

    def _state(self, word: str) -> str:
        if word not in self.machine.states:
            raise ConditionError(f"unknown state '{word}'", nearest(word, self.machine.states, of="states"))
        return word

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

    def _reply(self, event: str) -> str:
        if self.machine.events[event].kind != "call":
            raise ConditionError(f"'{event}' is no call and has no reply", "leave 'replies' out")
        word = self._word("a reply")
        if word not in {"ok", "error"} and not re.fullmatch(r"[A-Z][A-Z0-9_]*", word):
            raise ConditionError(f"'{word}' is no reply", "replies: ok, error, or a code such as NOT_FOUND")
        return word


def outputs(machine: Machine) -> tuple[str, ...]:
    """Every output of *machine* or of one of its profiles, in the model's order."""
    rows = [
        *((event.cells, event.ends) for event in machine.events.values()),
        *((each.cells, each.ends) for profile in machine.profiles.values() for each in profile.overrides),
    ]
    cells = (cell for both in rows for row in both for cell in row.values())
    return tuple(
        dict.fromkeys(output for cell in cells for way in getattr(cell, "outcomes", ()) for output in way.emits)
    )
