"""What makes the one claim of a property, of a machine or of a system."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from fsm.errors import InputError, Problem
from fsm.language.build.definitions import Definitions
from fsm.language.build.grammar import ConditionError
from fsm.language.build.problems import Problems
from fsm.language.property_file import Stated, WrittenProperty
from fsm.machine import Machine
from fsm.machine.conditions import Sequence, WrittenCondition
from fsm.product.system import System
from fsm.property.claims import Always, Claim, Fair, LeadsTo, Never

T = TypeVar("T")

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
class Claiming(ABC):
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
            self.say("FSM301", f"property '{self.name}' makes {count}", f"make one of {', '.join(KINDS)}", *made[-1:])
            return None
        kind = made[0]
        for word in sorted(frozenset().union(*KINDS.values()) - KINDS[kind]):
            if word in values:
                what = f"'{word}' says nothing with '{kind}'"
                self.say("FSM302", what, "leave it out", word)
        try:
            return self.makers()[kind]()
        except ConditionError:  # noted where it arose
            return None

    @abstractmethod
    def makers(self) -> Mapping[str, Callable[[], Claim]]:
        """What makes a claim of each kind."""

    @abstractmethod
    def sequence(self, text: str) -> Sequence:
        """The conditions in *text*; raises :class:`ConditionError`."""

    @abstractmethod
    def fair(self, text: str, at: str, *, strongly: bool) -> tuple[Fair, ...]:
        """What *text*, which stands at the word *at*, says to be fair."""

    def always(self) -> Always:
        """That something is always so."""
        conditions = tuple(self.condition(text, *at) for text, at in listed(self.written.always, "always"))
        return Always(conditions=conditions, when=self.optional(self.written.when, "when"))

    def never(self) -> Never:
        """That something never is."""
        sequences = self.sequences(self.written.never, "never")
        return Never(sequences=sequences, until=self.optional(self.written.until, "until"))

    def optional(self, text: str | None, at: str) -> WrittenCondition | None:
        """What *text*, if there is any, says; it stands at the word *at*."""
        return None if text is None else self.condition(text, at)

    def say(self, code: str, what: str, hint: str, *at: str | int) -> None:
        """Note a mistake in what stands at *at* in the property."""
        self.problems.say(code, what, hint, "property", self.name, *at)

    def condition(self, text: str, *at: str | int) -> WrittenCondition:
        """The one condition in *text*; what is wrong with it is noted, and raised."""
        return self._read(text, lambda text: one(self.sequence(text), text), *at)

    def sequences(self, written: str | list[str] | None, kind: str) -> tuple[Sequence, ...]:
        """Every sequence of conditions that is *written* at the word *kind*."""
        return tuple(self._read(text, self.sequence, *at) for text, at in listed(written, kind))

    def _read(self, text: str, meaning: Callable[[str], T], *at: str | int) -> T:
        """The *meaning* of *text*; what is wrong with it, or with a definition in it, is noted, and raised."""
        try:
            return meaning(text)
        except ConditionError as error:
            place: tuple[str | int, ...] = error.at or ("property", self.name, *at)
            self.problems.say("FSM303", error.what, error.hint, *place)
            raise

    def leads_to(self) -> LeadsTo:
        """That one thing leads to another."""
        written = self.written
        if written.from_ is None:
            what = f"property '{self.name}' has leads-to without from"
            self.say("FSM302", what, "say from where: from = …", "leads-to")
            raise ConditionError(what, "")
        fair = [each for text in written.fair for each in self.fair(text, "fair", strongly=False)]
        fair += [each for text in written.strongly_fair for each in self.fair(text, "strongly-fair", strongly=True)]
        source = self.condition(written.from_, "from")
        target = self.condition(str(written.leads_to), "leads-to")
        return LeadsTo(source=source, target=target, fair=tuple(fair))

    def other(self, name: str, at: str) -> Machine:
        """The machine called *name*, at the word *at*."""
        try:
            found = self.find(name)
        except InputError as error:
            first: Problem = error.problems[0]
            self.say("FSM304", f"machine '{name}' {first.what}", first.hint, at)
            raise ConditionError(first.what, first.hint) from error
        if not isinstance(found, Machine):
            what = f"'{name}' is a system"
            self.say("FSM304", what, "name a machine", at)
            raise ConditionError(what, "")
        return found

    def followed(self, name: str, emitted: Iterable[str]) -> Machine:
        """The machine of which what *name* has *emitted* are to be events."""
        other = self.other(str(self.written.follows), "follows")
        known = {each for event in other.events.values() for each in (event.name, event.rpc)}
        if known.isdisjoint(emitted):
            what = f"none of the outputs of '{name}' is an event of '{other.name}'"
            self.say("FSM304", what, "the outputs of one are the events of the other", "follows")
        return other


def one(found: Sequence, text: str) -> WrittenCondition:
    """The one condition in *text*, as which *found* was read."""
    if len(found) > 1:
        raise ConditionError(f"{text!r} speaks of several instants", "leave 'then' out here")
    return found[0]


def listed(value: str | list[str] | None, kind: str) -> list[tuple[str, tuple[str | int, ...]]]:
    """The texts of a claim, each with its place in the property."""
    if isinstance(value, str):
        return [(value, (kind,))]
    return [(text, (kind, index)) for index, text in enumerate(value or ())]
