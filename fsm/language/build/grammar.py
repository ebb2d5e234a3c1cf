"""Parse conditions on machines and on data.

All kinds of conditions share the words ``not``, ``and``, ``or`` and ``then``, and parentheses.  Comparisons are about
data: ``attempts + 1 < 3 and method == card``.  Conditions on systems are in :mod:`.system_grammar`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, TypeVar, cast

from fsm.errors import nearest
from fsm.language.build.problems import Definitions
from fsm.machine import Kind, Machine, Moves
from fsm.machine.conditions import (
    Compare,
    Condition,
    Emits,
    EmitsOnly,
    Happens,
    In,
    Not,
    Replies,
    Sequence,
    SilentOn,
    StateChanges,
    WrittenCondition,
    all_of,
    any_of,
)
from fsm.machine.terms import COMPARISONS, OPERATORS, Combined, Comparator, Constant, Operator, Read, Term, Variable

T = TypeVar("T")

DEEPEST: Final = 50  # maximum nesting depth of parentheses and of ``not``
_TOKEN: Final = re.compile(r"([A-Za-z0-9_.-]+|[(),+]|[=!<>]=|[<>])|(\S)")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")

Type: TypeAlias = tuple[str, ...]
"""The words that a term may be, or nothing for a number."""

TRUTH: Final[Type] = ("false", "true")


def type_of(variable: Variable) -> Type:
    return TRUTH if variable.truth else variable.words


class ConditionError(Exception):
    def __init__(self, what: str, hint: str, at: tuple[str, ...] = ()) -> None:
        self.what = what
        self.hint = hint
        self.at = at  # the place in the file, if it is known
        super().__init__(f"{what}: {hint}")


@dataclass(slots=True, kw_only=True)
class Grammar(ABC):
    """A parser of the condition ``text``, which may use the names in ``define`` and compare variables in ``data``.

    Subclasses parse all other words, and raise :class:`ConditionError` for a word that they do not know.
    """

    text: str
    define: Definitions = field(default_factory=dict)
    data: Mapping[str, Variable] = field(default_factory=dict)
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
        return any_of(self._read_separated("or", self._read_conjunction))

    def _read_conjunction(self) -> Condition:
        parts = self._read_separated("and", self._read_negation)
        return all_of(parts)

    def _read_negation(self) -> Condition:
        self.depth += 1
        self._check_depth(self.depth)
        try:
            if self.take("not"):
                return Not(of=self._read_negation())
            if self.take("("):
                inner = self._read_disjunction()
                if not self.take(")"):
                    raise ConditionError(f"the condition {self.text!r} lacks a ')'", "add the closing parenthesis")
                return inner
            word = self.word("a condition")
            if self.data and (word in self.data or word in OPERATORS or _NUMBER.fullmatch(word)):
                return self.comparison(word)
            return self._read_definition(word) if isinstance(self.define.get(word), str) else self.atom(word)
        finally:
            self.depth -= 1

    def _check_depth(self, depth: int) -> None:
        if depth > DEEPEST:
            raise ConditionError(f"{self.text!r} is nested too deeply", "split it into several conditions")

    def comparison(self, word: str) -> Condition:
        """Parse a comparison that begins with *word*."""
        left, type_ = self._read_term(word, ())
        comparison = self.peek()
        if comparison not in COMPARISONS:
            if type_ == TRUTH:
                return Compare(comparison="==", left=left, right=Constant(value=1))
            what = f"{self.text!r} has '{word}' instead of a condition"
            raise ConditionError(what, "compare it, for example with '==' or '<'")
        self.next += 1
        if type_ and comparison not in {"==", "!="}:
            what = f"{self.text!r} compares '{word}', which is not a number, with '{comparison}'"
            raise ConditionError(what, "use '==' or '!='")
        right, other = self._read_term(self.word("a value"), type_)
        self._check_type(other, type_)
        return Compare(comparison=cast("Comparator", comparison), left=left, right=right)

    def _check_type(self, found: Type, expected: Type) -> None:
        if found != expected:
            wanted = f"one of {', '.join(expected)}" if expected else "a number"
            raise ConditionError(f"{self.text!r} has a value of the wrong type", f"the value must be {wanted}")

    def term(self, expected: Type) -> Term:
        """Parse the whole text as a term that is one of the words in *expected* or, without words, a number."""
        term, type_ = self._read_term(self.word("a value"), expected)
        self._check_type(type_, expected)
        if self.peek():
            raise ConditionError(f"{self.text!r} continues with '{self.peek()}'", "insert '+' or '-' before it")
        return term

    def _read_term(self, word: str, expected: Type) -> tuple[Term, Type]:
        term, type_ = self._read_value(word, expected)
        start = self.next
        while self.peek() in {"+", "-"}:
            self._check_depth(self.depth + self.next - start)
            operator: Operator = "+" if self.word("an operator") == "+" else "-"
            right, other = self._read_value(self.word("a number"), ())
            for each in (type_, other):
                self._check_type(each, ())
            term = Combined(operator=operator, left=term, right=right)
        return term, type_

    def _read_value(self, word: str, expected: Type) -> tuple[Term, Type]:
        if word in {"min", "max"} and word not in self.data:
            parts = []
            self.depth += 1
            self._check_depth(self.depth)
            for bracket in ("(", ","):
                if not self.take(bracket):
                    raise ConditionError(f"{self.text!r} lacks '{bracket}' after '{word}'", f"write '{word}(A, B)'")
                part, type_ = self._read_term(self.word("a number"), ())
                self._check_type(type_, ())
                parts.append(part)
            if not self.take(")"):
                raise ConditionError(f"{self.text!r} lacks a ')'", f"write '{word}(A, B)', with two values")
            self.depth -= 1
            return Combined(operator=cast("Operator", word), left=parts[0], right=parts[1]), ()
        if _NUMBER.fullmatch(word):
            return Constant(value=int(word)), ()
        if word in self.data:
            return Read(name=word), type_of(self.data[word])
        if word in expected:
            return Constant(value=expected.index(word)), expected
        spaced = word.partition("-")[0] in self.data
        hint = "put spaces around '-'" if spaced else nearest(word, (*self.data, *expected), of="names and values")
        raise ConditionError(f"unknown name or value '{word}'", hint)

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


def check_known(what: str, word: str, known: Iterable[str], *, of: str) -> None:
    names = tuple(known)
    if word not in names:
        raise ConditionError(f"{what} '{word}'", nearest(word, names, of=of))


def _tokens(text: str) -> list[tuple[str, int]]:
    found = []
    for match in _TOKEN.finditer(text):
        if odd := match[2]:
            what = f"the condition {text!r} contains {odd!r}, which is not a word of conditions"
            hint = "use only names, parentheses, 'and', 'or', 'not' and 'then'"
            if odd in "=*/%":
                hint = "write '==' for equality; the operators are '+', '-', 'min(A, B)' and 'max(A, B)'"
            elif odd in "'\"":
                hint = "write words without quotation marks"
            raise ConditionError(what, hint)
        found.append((match[1], match.end()))
    return found


@dataclass(slots=True, kw_only=True)
class GuardGrammar(Grammar):
    """Parses conditions and terms that read only data."""

    def atom(self, word: str) -> Condition:
        raise ConditionError(f"unknown name '{word}'", nearest(word, self.data, of="variables and arguments"))


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

    def __post_init__(self) -> None:
        self.data = self.machine.data
        Grammar.__post_init__(self)

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
        check_known("unknown name", word, (*machine.states, *machine.events, *self.define), of="states and events")
        return In(states=self._states(word))

    def _states(self, word: str) -> frozenset[str]:
        named = self.define.get(word)
        if named is not None and not isinstance(named, str):
            return frozenset(named)
        sets = (name for name, each in self.define.items() if not isinstance(each, str))
        check_known("unknown state", word, (*self.machine.states, *sets), of="states")
        return frozenset({word})

    def _states_showing(self, word: str) -> frozenset[str]:
        states = self.machine.states.values()
        shown = dict.fromkeys(each.shows for each in states)
        check_known("no state shows", word, shown, of="texts that states show")
        return frozenset(each.name for each in states if each.shows == word)

    def _output(self, word: str) -> str:
        if word == NOTHING:
            return ""
        check_known("no event emits", word, outputs(self.machine), of="outputs")
        return word


def outputs(machine: Machine) -> tuple[str, ...]:
    rows = [
        *((event.cells, event.ends) for event in machine.events.values()),
        *((each.cells, each.ends) for profile in machine.profiles.values() for each in profile.overrides),
    ]
    cells = (cell for both in rows for row in both for cell in row.values())
    moves = (cell for cell in cells if isinstance(cell, Moves))
    return tuple(dict.fromkeys(output for cell in moves for way in cell.outcomes for output in way.emits))
