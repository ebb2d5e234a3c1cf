"""Build the single claim of a property about a machine or a system."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from fsm.errors import InputError, Problem
from fsm.language.build.cells import REST, ways
from fsm.language.build.citations import clause_of
from fsm.language.build.definitions import Definitions
from fsm.language.build.grammar import ConditionError, Grammar
from fsm.language.build.machine_conditions import MachineGrammar, outputs
from fsm.language.build.problems import Problems
from fsm.language.build.requirements import Demands
from fsm.language.build.system_conditions import Scope, SystemGrammar, scope
from fsm.language.machine_file import WrittenDemand
from fsm.language.property_file import Stated, WrittenProperty
from fsm.language.read.toml import Keys
from fsm.machine import Machine
from fsm.machine.conditions import All, In, Sequence, WrittenCondition
from fsm.machine.product.system import System
from fsm.machine.property import claims

Parsed = TypeVar("Parsed")

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
    "requires": frozenset(),
}
"""Maps each kind of claim to the words that may go with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimBuilder:
    """Builds the claim of the property ``name``, about a machine or the scope of a system."""

    problems: Problems[Stated]
    of: Machine | Scope
    find: Callable[[str], Machine | System]
    name: str
    written: WrittenProperty
    define: Definitions

    def claim(self) -> claims.Claim | None:
        """Return the claim.  If it makes no sense, report that and return ``None``."""
        values = self.written.model_dump(by_alias=True, exclude_defaults=True)
        kinds = [kind for kind in KINDS if kind in values]
        if len(kinds) != 1:
            what = f"property '{self.name}' makes {f'{len(kinds)} claims: ' if kinds else 'no claim'}{', '.join(kinds)}"
            self.problems.say("FSM301", what, f"make one of {', '.join(KINDS)}", *kinds[-1:])
            return None
        kind = kinds[0]
        for word in sorted(frozenset().union(*KINDS.values()) - KINDS[kind]):
            if word in values:
                self.problems.say("FSM302", f"'{word}' says nothing with '{kind}'", "leave it out", word)
        try:
            return self._claim(kind)
        except ConditionError:  # already reported
            return None

    def _claim(self, kind: str) -> claims.Claim:
        written = self.written
        match kind:
            case "always":
                conditions = tuple(self._condition(text, *at) for text, at in listed(written.always, kind))
                return claims.Always(conditions=conditions, when=self._optional(written.when, "when"))
            case "never":
                sequences = self._sequences(written.never, kind)
                return claims.Never(sequences=sequences, until=self._optional(written.until, "until"))
            case "reachable":
                return self._reachable()
            case "leads-to":
                return self._leads_to()
            case "idempotent":
                return self._idempotent(str(written.idempotent))
            case "follows":
                return self._follows()
            case _ if isinstance(self.of, Scope):
                what = f"'{kind}' is claimed of machines only"
                raise self._claim_error("FSM302", what, "claim it of the part's machine", kind)
            case "refines":
                return claims.Refines(other=self._other(str(written.refines), kind), overlap=written.overlap)
            case "requires" if written.requires is not None:
                return self._requires(self.of, written.requires)
            case _:
                path = Path(self.problems.model.path).parent / str(written.matches_diagram)
                return claims.MatchesDiagram(path=str(path))

    def _requires(self, machine: Machine, demand: WrittenDemand) -> claims.Requires:
        sets = {name: value for name, value in self.define.items() if not isinstance(value, str)}
        clause = clause_of(self.problems, self.name, self.written, self.written.says, self.written.link)
        demands = Demands(states=machine.states, sets=sets, kinds=machine.fields)
        return claims.Requires(requirement=demands.requirement(self.problems.below("requires"), clause, demand))

    def _reachable(self) -> claims.Reachable:
        sequences = self._sequences(self.written.reachable, "reachable")
        if isinstance(self.of, Scope):
            if self.written.from_each:
                hint = "say 'PART was STATE and …' instead"
                self.problems.say("FSM302", "'from-each' says nothing of a system", hint, "from-each")
            return claims.Reachable(sequences=sequences)
        states: list[str] = []
        for index, state in enumerate(self.written.from_each):
            named = self.define.get(state, "")
            if state != REST and isinstance(named, str):
                self._known("unknown state", state, self.of.states, "from-each", index)
            states += list(self.of.states) if state == REST else [state] if isinstance(named, str) else named
        if not states:
            return claims.Reachable(sequences=sequences)
        return claims.Reachable(sequences=tuple(_starting_in(state, each) for each in sequences for state in states))

    def _leads_to(self) -> claims.LeadsTo:
        written = self.written
        if written.from_ is None:
            what = f"property '{self.name}' has leads-to without from"
            raise self._claim_error("FSM302", what, "say from where: from = …", "leads-to")
        fair = [event for text in written.fair for event in self._fair(text, "fair")]
        strongly = (event for text in written.strongly_fair for event in self._fair(text, "strongly-fair"))
        fair += [replace(event, strongly=True) for event in strongly]
        source = self._condition(written.from_, "from")
        target = self._condition(str(written.leads_to), "leads-to")
        return claims.LeadsTo(source=source, target=target, fair=tuple(fair))

    def _idempotent(self, name: str) -> claims.Idempotent:
        if isinstance(self.of, Machine):
            known = self._known("unknown event", name, self.of.events, "idempotent")
            kind = self.of.events[name].kind if known else "call"
        else:
            name = self._joint_event(name, self.of)
            kind = self.of.system.events[name].kind
        if kind != "call":
            self.problems.say("FSM303", f"{kind} '{name}' is no call", "only calls are repeated", "idempotent")
        return claims.Idempotent(event=name, once=self._optional(self.written.once, "once"))

    def _joint_event(self, name: str, within: Scope) -> str:
        names = within.events.get(name, ())
        if len(names) == 1:
            return names[0]
        if names:
            what = f"'{name}' means {len(names)} events"
            raise self._claim_error("FSM303", what, "say for which part: for = …", "idempotent")
        self._known("unknown event", name, within.events, "idempotent")
        raise ConditionError(name, "")

    def _follows(self) -> claims.Follows:
        if isinstance(self.of, Machine):
            name, emitted, digits = self.of.name, outputs(self.of), frozenset[int]()
        else:
            name = self.of.system.name
            emitted = tuple(each for part in self.of.system.parts.values() for each in outputs(part.machine))
            digits = frozenset(copy.digit for copies in self.of.meant.values() for copy in copies)
        other = self._other(str(self.written.follows), "follows")
        if other.words().keys().isdisjoint(emitted):
            what = f"none of the outputs of '{name}' is an event of '{other.name}'"
            self.problems.say("FSM304", what, "the outputs of one are the events of the other", "follows")
        return claims.Follows(other=other, of=digits)

    def _other(self, name: str, at: str) -> Machine:
        try:
            found = self.find(name)
        except InputError as error:
            first: Problem = error.problems[0]
            raise self._claim_error("FSM304", f"machine '{name}' {first.what}", first.hint, at) from error
        if not isinstance(found, Machine):
            raise self._claim_error("FSM304", f"'{name}' is a system", "name a machine", at)
        return found

    def _fair(self, text: str, at: str) -> tuple[claims.Fair, ...]:
        """Parse a fairness assumption: ``stop``, ``stop.ends``, ``stop/stopped`` or ``stop.ends/stopped``.

        In a system, it cannot have ``.ends``.  It is about the events of every copy, whichever copy the claim is about.
        """
        whole, _, outcome = text.partition("/")
        if isinstance(self.of, Scope):
            events = [joint for joint in self.of.system.events.values() if whole in {joint.family, joint.rpc}]
            if self._known("unknown event", whole, self.of.events, at) and outcome:
                choices = {way.name for joint in events for way in joint.ways}
                self._known("unknown way", outcome, sorted(choices), at)
            return tuple(claims.Fair(event=joint.name, outcome=outcome) for joint in events)
        name = whole.removesuffix(_ENDS)
        if not self._known("unknown event", name, self.of.events, at):
            return ()
        event, ends = self.of.events[name], whole.endswith(_ENDS)
        rows = event.ends if ends else event.cells
        if not rows:
            self.problems.say("FSM303", f"event '{name}' has no ends", "only calls that take time have", at)
        known = dict.fromkeys(way.name for way in ways(rows.values()))
        self._known("unknown outcome", outcome or None, known, at)
        return (claims.Fair(event=name, ends=ends, outcome=outcome),)

    def _claim_error(self, code: str, what: str, hint: str, at: str) -> ConditionError:
        self.problems.say(code, what, hint, at)
        return ConditionError(what, hint)

    def _known(self, what: str, word: str | None, names: Collection[str], *at: str | int) -> bool:
        return self.problems.known("FSM303", what, word, names, *at)

    def _condition(self, text: str, *at: str | int) -> WrittenCondition:
        return self._read(text, Grammar.condition, *at)

    def _optional(self, text: str | None, at: str) -> WrittenCondition | None:
        return None if text is None else self._condition(text, at)

    def _sequences(self, written: str | list[str] | None, kind: str) -> tuple[Sequence, ...]:
        return tuple(self._read(text, Grammar.sequence, *at) for text, at in listed(written, kind))

    def _read(self, text: str, read: Callable[[Grammar], Parsed], *at: str | int) -> Parsed:
        try:
            if isinstance(self.of, Machine):
                return read(MachineGrammar(text=text, machine=self.of, define=self.define))
            return read(SystemGrammar(text=text, scope=self.of, define=self.define))
        except ConditionError as error:
            place: Keys = error.at or (*self.problems.at, *at)
            self.problems.say_at(self.problems.model.lines.find(*place), "FSM303", error.what, error.hint)
            raise


def listed(value: str | list[str] | None, kind: str) -> list[tuple[str, Keys]]:
    """Return the texts of a claim, each with its place in the property."""
    if isinstance(value, str):
        return [(value, (kind,))]
    return [(text, (kind, index)) for index, text in enumerate(value or ())]


def _starting_in(state: str, sequence: Sequence) -> Sequence:
    first, *rest = sequence
    before = In(states=frozenset({state}), before=True)
    return (WrittenCondition(text=f"was {state} and {first.text}", means=All(of=(before, first.means))), *rest)


def subject(problems: Problems[Stated], machine: Machine | System, part: str | None, copy: int) -> Machine | Scope:
    """Return the machine, or the scope in a system: what belongs to copy number *copy* of *part*, or everything."""
    if isinstance(machine, Machine):
        if part is not None:
            problems.say("FSM302", "only a property of a system has 'for'", "leave it out", "for")
        return machine
    known = problems.known("FSM303", "unknown part", part, machine.parts, "for")
    return scope(machine, machine.parts[part].copies[copy] if part and known else None)
