"""Build a well-formed specification from a property file, or report every error in the file."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from fsm.errors import InputError, Problem
from fsm.language.build.cells import REST, ways
from fsm.language.build.grammar import WORDS, ConditionError, Grammar, MachineGrammar, outputs
from fsm.language.build.problems import Definitions, Problems, clause_of, definitions
from fsm.language.build.profiles import Demands
from fsm.language.build.system_grammar import PART_WORDS, Scope, SystemGrammar, scope
from fsm.language.read import File
from fsm.language.read.toml import Keys
from fsm.language.vocabularies import Stated, WrittenProperty
from fsm.machine import Machine, claims
from fsm.machine.claims import ANY_PROFILE, NO_PROFILE, Claim, Counts, KnownFailure, M, Property, Specification
from fsm.machine.conditions import All, In, Sequence, WrittenCondition
from fsm.machine.product.system import System
from fsm.machine.terms import OPERATORS

Parsed = TypeVar("Parsed")
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
    "requires": frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimBuilder:
    problems: Problems[Stated]
    of: Machine | Scope
    find: Callable[[str], Machine | System]
    name: str
    written: WrittenProperty
    define: Definitions

    def claim(self) -> claims.Claim | None:
        values = self.written.model_dump(by_alias=True, exclude_defaults=True)
        kinds = [kind for kind in KINDS if kind in values]
        if len(kinds) != 1:
            what = f"property '{self.name}' makes {f'{len(kinds)} claims: ' if kinds else 'no claim'}{', '.join(kinds)}"
            self.problems.say("FSM301", what, f"make one of {', '.join(KINDS)}", *kinds[-1:])
            return None
        kind = kinds[0]
        for word in sorted(frozenset().union(*KINDS.values()) - KINDS[kind]):
            if word in values:
                self.problems.say("FSM302", f"'{word}' has no meaning with '{kind}'", f"leave out '{word}'", word)
        try:
            return self._claim(kind)
        except ConditionError:  # already reported
            return None

    def _claim(self, kind: str) -> claims.Claim:
        written = self.written
        match kind:
            case "always":
                conditions = self._read_listed(written.always, Grammar.condition, kind)
                return claims.Always(conditions=conditions, when=self._condition(written.when, "when"))
            case "never":
                sequences = self._read_listed(written.never, Grammar.sequence, kind)
                return claims.Never(sequences=sequences, until=self._condition(written.until, "until"))
            case "reachable":
                return self._reachable()
            case "leads-to":
                return self._leads_to()
            case "idempotent":
                return self._idempotent(str(written.idempotent))
            case "follows":
                return self._follows()
            case _ if isinstance(self.of, Scope):
                what = f"'{kind}' can be claimed only of a machine, not of a system"
                raise self._claim_error("FSM302", what, "write the property in the file of the part's machine", kind)
            case "refines":
                return claims.Refines(other=self._find_machine(str(written.refines), kind), overlap=written.overlap)
            case "requires" if written.requires is not None:
                sets = {name: value for name, value in self.define.items() if not isinstance(value, str)}
                clause = clause_of(self.problems, self.name, written, written.says, written.link)
                demands = Demands(states=self.of.states, sets=sets, kinds=self.of.fields)
                here = self.problems.below("requires")
                return claims.Requires(requirement=demands.requirement(here, clause, written.requires))
            case _:
                path = Path(self.problems.model.path).parent / str(written.matches_diagram)
                return claims.MatchesDiagram(path=str(path))

    def _reachable(self) -> claims.Reachable:
        sequences = self._read_listed(self.written.reachable, Grammar.sequence, "reachable")
        if isinstance(self.of, Scope):
            if self.written.from_each:
                hint = "write 'PART was STATE and …' instead"
                self.problems.say("FSM302", "'from-each' has no meaning for a system", hint, "from-each")
            return claims.Reachable(sequences=sequences)
        states: list[str] = []
        for index, state in enumerate(self.written.from_each):
            named = self.define.get(state, "")
            if state != REST and isinstance(named, str):
                self._check_known("unknown state", state, self.of.states, "from-each", index)
            states += list(self.of.states) if state == REST else [state] if isinstance(named, str) else named
        if states:
            sequences = tuple(_require_start(state, each) for each in sequences for state in states)
        return claims.Reachable(sequences=sequences)

    def _leads_to(self) -> claims.LeadsTo:
        written = self.written
        if written.from_ is None:
            what = f"property '{self.name}' has leads-to, but lacks from"
            raise self._claim_error("FSM302", what, "add the condition from which it leads there: from = …", "leads-to")
        fair = [event for text in written.fair for event in self._fair(text, "fair")]
        strongly = (event for text in written.strongly_fair for event in self._fair(text, "strongly-fair"))
        fair += [replace(event, strongly=True) for event in strongly]
        source = self._read(written.from_, Grammar.condition, "from")
        target = self._read(str(written.leads_to), Grammar.condition, "leads-to")
        return claims.LeadsTo(source=source, target=target, fair=tuple(fair))

    def _idempotent(self, name: str) -> claims.Idempotent:
        if isinstance(self.of, Machine):
            known = self._check_known("unknown event", name, self.of.events, "idempotent")
            kind = self.of.events[name].kind if known else "call"
        else:
            name = self._joint_event(name, self.of)
            kind = self.of.system.events[name].kind
        if kind != "call":
            self.problems.say("FSM303", f"{kind} '{name}' is not a call", "only a call can be idempotent", "idempotent")
        return claims.Idempotent(event=name, once=self._condition(self.written.once, "once"))

    def _joint_event(self, name: str, within: Scope) -> str:
        names = within.events.get(name, ())
        if len(names) == 1:
            return names[0]
        if names:
            what = f"'{name}' could mean any of {len(names)} events"
            raise self._claim_error("FSM303", what, "select one copy of the part: for = …", "idempotent")
        self._check_known("unknown event", name, within.events, "idempotent")
        raise ConditionError(name, "")

    def _follows(self) -> claims.Follows:
        if isinstance(self.of, Machine):
            name, emitted, digits = self.of.name, outputs(self.of), frozenset[int]()
        else:
            name = self.of.system.name
            emitted = tuple(each for part in self.of.system.parts.values() for each in outputs(part.machine))
            digits = frozenset(copy.digit for copies in self.of.meant.values() for copy in copies)
        other = self._find_machine(str(self.written.follows), "follows")
        if other.words().keys().isdisjoint(emitted):
            what = f"none of the outputs of '{name}' is an event of '{other.name}'"
            self.problems.say("FSM304", what, "name a machine whose events are outputs of this one", "follows")
        return claims.Follows(other=other, of=digits)

    def _find_machine(self, name: str, at: str) -> Machine:
        try:
            found = self.find(name)
        except InputError as error:
            first: Problem = error.problems[0]
            raise self._claim_error("FSM304", f"machine '{name}': {first.what}", first.hint, at) from error
        if not isinstance(found, Machine):
            raise self._claim_error("FSM304", f"'{name}' is a system", "name a machine instead", at)
        return found

    def _fair(self, text: str, at: str) -> tuple[claims.Fair, ...]:
        """Parse a fairness assumption: ``stop``, ``stop.ends``, ``stop/stopped`` or ``stop.ends/stopped``.

        A system has no ``.ends``, and the assumption always covers the events of all copies.
        """
        whole, _, outcome = text.partition("/")
        if isinstance(self.of, Scope):
            events = [joint for joint in self.of.system.events.values() if whole in {joint.family, joint.rpc}]
            if self._check_known("unknown event", whole, self.of.events, at) and outcome:
                choices = {way.name for joint in events for way in joint.ways}
                self._check_known("unknown way", outcome, sorted(choices), at)
            return tuple(claims.Fair(event=joint.name, outcome=outcome) for joint in events)
        name = whole.removesuffix(_ENDS)
        if not self._check_known("unknown event", name, self.of.events, at):
            return ()
        event, ends = self.of.events[name], whole.endswith(_ENDS)
        rows = event.ends if ends else event.cells
        if not rows:
            self.problems.say("FSM303", f"event '{name}' has no ends", "only calls that take time have ends", at)
        known = dict.fromkeys(way.name for way in ways(rows.values()))
        self._check_known("unknown outcome", outcome or None, known, at)
        return (claims.Fair(event=name, ends=ends, outcome=outcome),)

    def _claim_error(self, code: str, what: str, hint: str, at: str) -> ConditionError:
        self.problems.say(code, what, hint, at)
        return ConditionError(what, hint)

    def _check_known(self, what: str, word: str | None, names: Collection[str], *at: str | int) -> bool:
        return self.problems.known("FSM303", what, word, names, *at)

    def _condition(self, text: str | None, at: str) -> WrittenCondition | None:
        return None if text is None else self._read(text, Grammar.condition, at)

    def _read_listed(
        self, written: str | list[str] | None, read: Callable[[Grammar], Parsed], kind: str
    ) -> tuple[Parsed, ...]:
        return tuple(self._read(text, read, *at) for text, at in listed(written, kind))

    def _read(self, text: str, read: Callable[[Grammar], Parsed], *at: str | int) -> Parsed:
        try:
            if isinstance(self.of, Machine):
                return read(MachineGrammar(text=text, machine=self.of, define=self.define))
            return read(SystemGrammar(text=text, scope=self.of, define=self.define))
        except ConditionError as error:
            here = replace(self.problems, at=()) if error.at else self.problems
            here.say("FSM303", error.what, error.hint, *(error.at or at))
            raise


def listed(value: T | list[T] | None, kind: str) -> list[tuple[T, Keys]]:
    """Return each value in *value*, with its path relative to its table. A single value is treated as a list."""
    if isinstance(value, list):
        return [(each, (kind, index)) for index, each in enumerate(value)]
    return [] if value is None else [(value, (kind,))]


def _require_start(state: str, sequence: Sequence) -> Sequence:
    first, *rest = sequence
    before = In(states=frozenset({state}), before=True)
    return (WrittenCondition(text=f"was {state} and {first.text}", means=All(of=(before, first.means))), *rest)


def subject(problems: Problems[Stated], machine: Machine | System, part: str | None, copy: int) -> Machine | Scope:
    if isinstance(machine, Machine):
        if part is not None:
            problems.say("FSM302", "only a property of a system can have 'for'", "leave out 'for'", "for")
        return machine
    known = problems.known("FSM303", "unknown part", part, machine.parts, "for")
    return scope(machine, machine.parts[part].copies[copy] if part and known else None)


AnyModel: TypeAlias = Machine | System


def specify(file: File[Stated], find: Callable[[str], M], *, copy: int = 0) -> Specification[M]:
    """Build the specification in *file*, or raise :class:`InputError` with every semantic error in it.

    *find* returns the machine or system with a given name. In a system, claims about each copy of a part are made
    about copy number *copy*. If *copy* is not 0, all other claims are left out.
    """
    problems = Problems(model=file)
    written = file.written
    machine = _machine(problems, find)
    if not written.property:
        problems.say("FSM301", "the file states no property", "add a table: [property.NAME]", "property")
    properties = []
    define = _define(problems, machine)
    for name, stated in written.property.items():
        part = machine.parts.get(stated.for_ or "") if isinstance(machine, System) else None
        if copy >= (len(part.copies) if part else 1):
            continue
        here = problems.below("property", name)
        of = subject(here, machine, stated.for_, copy)
        claim = ClaimBuilder(problems=here, of=of, find=find, name=name, written=stated, define=define).claim()
        if claim is not None:
            properties.append(_property(here, machine, name, stated, claim))
    for profile in written.under:
        problems.known("FSM305", "unknown profile", profile, machine.profiles, "under", profile)
    problems.refuse()
    sizes = {NO_PROFILE: written.expect, **written.under} if written.expect else written.under
    expect = _with_inherited(machine, {name: Counts(**each.model_dump()) for name, each in sizes.items()})
    return Specification(machine=machine, properties=tuple(properties), expect=expect, path=file.path)


def _define(problems: Problems[Stated], machine: AnyModel) -> dict[str, str | tuple[str, ...]]:
    written = problems.model.written
    if isinstance(machine, System):
        states = dict.fromkeys(
            state for part in machine.parts.values() for state in (*part.machine.states, *part.machine.hierarchy.names)
        )
        events = [each for joint in machine.events.values() for each in (joint.family, joint.rpc)]
        taken = {"part": machine.parts, "joint event": events, "word of conditions": PART_WORDS}
    else:
        problems = replace(problems, tree=machine.hierarchy)
        states = dict.fromkeys(machine.states)
        events = [*machine.words()]
        of_terms = OPERATORS if machine.data else ()
        taken = {"event": events, "variable": machine.data, "word of conditions": WORDS.union(of_terms)}
    texts = [text for each in written.property.values() for text in _conditions(each)]
    return definitions(problems, written.define, states=states, taken=taken, texts=texts)


def _conditions(written: WrittenProperty) -> Iterator[str]:
    for value in (written.always, written.never, written.reachable):
        yield from (text for text, _ in listed(value, ""))
    yield from filter(None, (written.once, written.when, written.until, written.leads_to, written.from_))
    yield from (*written.from_each, *(written.requires.in_ if written.requires else ()))


def _machine(problems: Problems[Stated], find: Callable[[str], M]) -> M:
    name = problems.model.written.machine
    try:
        return find(name)
    except InputError as error:
        if any(each.path != name for each in error.problems):
            raise  # the machine exists but is not well formed
        first = error.problems[0]
        problems.say("FSM304", f"machine '{name}': {first.what}", first.hint, "machine")
        problems.refuse()
        raise


def _property(
    problems: Problems[Stated], machine: AnyModel, name: str, written: WrittenProperty, claim: Claim
) -> Property:
    clause = clause_of(problems, name, written, written.says, written.link)
    return Property(
        name=name,
        says=clause.says,
        level=clause.level,
        source=clause.source,
        link=clause.link,
        claim=claim,
        catches=tuple(written.catches),
        fails=_failures(problems, machine, name, written),
        line=problems.line(),
    )


def _failures(
    problems: Problems[Stated], machine: AnyModel, name: str, written: WrittenProperty
) -> dict[str, KnownFailure]:
    known = (ANY_PROFILE, NO_PROFILE, *machine.profiles)
    found: dict[str, KnownFailure] = {}
    alone: set[str] = set()
    for failure, at in listed(written.fails, "fails"):
        here = problems.below(*at)
        if not failure.under:
            what = f"property '{name}' is known to fail, but under no profile"
            here.say("FSM307", what, "name a profile, or leave out the failure", "under")
        for profile, place in listed(failure.under, "under"):
            if here.known("FSM305", "unknown profile", profile, known, *place) and profile in found:
                what = f"property '{name}' has two known failures under '{profile}'"
                here.say("FSM307", what, "keep only the intended failure", *place)
            found[profile] = KnownFailure(**failure.model_dump(include={"about", "length", "link"}))
            alone |= {profile} if failure.alone else set()
    return _with_inherited(machine, found, alone)


def _with_inherited(machine: AnyModel, stated: dict[str, T], alone: Collection[str] = ()) -> dict[str, T]:
    if isinstance(machine, System):
        return stated
    nearest = {name: next((each for each in machine.lineage(name) if each in stated), "") for name in machine.profiles}
    return stated | {name: stated[near] for name, near in nearest.items() if near and near not in alone}
