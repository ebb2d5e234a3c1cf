"""Build the profiles of a machine, and check that each profile declares its changes."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fsm.language.build.cells import Groups, Part, Sets
from fsm.language.build.data import Guards, check_data
from fsm.language.build.ends import check_ends
from fsm.language.build.problems import Problems, clause_of
from fsm.language.machine_file import Written, WrittenDemand, WrittenExemption, WrittenOverride, WrittenProfile
from fsm.language.read import F
from fsm.machine import Clause, Deviation, Event, Machine, Moves, Override, Profile, of_profile, outcomes
from fsm.machine.fields import Exemption, FieldKind, Requirement, ValueLists

_TIMES: Final[tuple[FieldKind, ...]] = ("time",)
_NUMBERS: Final[tuple[FieldKind, ...]] = ("time", "int")
_TEXT: Final[tuple[FieldKind, ...]] = ("text",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    states: Collection[str]
    sets: Mapping[str, Collection[str]]
    kinds: Mapping[str, FieldKind]

    def requirement(self, problems: Problems[F], clause: Clause, written: WrittenDemand) -> Requirement:
        self._check(problems, written)
        return Requirement(
            clause=clause,
            states=frozenset(self._states(problems, written)),
            slack=round(written.slack * 1e9),
            set=tuple(written.set),
            unset=tuple(written.unset),
            not_before=written.not_before,
            values=_values(written.values),
            iff=_values(written.iff),
            keeps=tuple(written.keeps),
            when=_values(written.when),
            unless=_values(written.unless),
        )

    def _states(self, problems: Problems[F], written: WrittenDemand) -> Iterator[str]:
        for index, name in enumerate(written.in_):
            if name != "*":
                problems.known("FSM102", "unknown state", name, (*self.states, *self.sets), "in", index)
            yield from self.states if name == "*" else self.sets.get(name, (name,))

    def _check(self, problems: Problems[F], written: WrittenDemand) -> None:
        if not (written.set or written.unset or written.not_before or written.values or written.iff or written.keeps):
            hint = "add at least one of 'set', 'unset', 'not-before', 'values', 'iff' and 'keeps'"
            problems.say("FSM133", f"{problems.table} requires nothing", hint)
        for word, names in (("set", written.set), ("unset", written.unset), ("keeps", written.keeps)):
            numbers = _NUMBERS if word == "keeps" else _TIMES
            for index, name in enumerate(names):
                self._check_kind(problems.below(word, index), name, (*numbers, *_TEXT), word)
        for later, first in written.not_before.items():
            for name in (later, first):
                self._check_kind(problems.below("not-before", later), name, _TIMES, "before another")
        valued = {"values": written.values, "iff": written.iff, "when": written.when, "unless": written.unless}
        for word, values in valued.items():
            self.check_values(problems.below(word), values)

    def check_values(self, problems: Problems[F], values: Mapping[str, list[int | str]]) -> None:
        for name, listed in values.items():
            for index, value in enumerate(listed):
                kinds = _TEXT if isinstance(value, str) else _NUMBERS
                self._check_kind(problems.below(name, index), name, kinds, repr(value))

    def _check_kind(self, problems: Problems[F], name: str, kinds: Collection[FieldKind], wanted: str) -> None:
        if problems.known("FSM132", "unknown field", name, self.kinds) and self.kinds[name] not in kinds:
            what = f"field '{name}' has the kind {self.kinds[name]} and cannot be {wanted}"
            problems.say("FSM133", what, f"name a field of kind {' or '.join(kinds)}")


def requirements(problems: Problems[Written], demands: Demands, clauses: Collection[str]) -> dict[str, Requirement]:
    found = {}
    for name, written in problems.model.written.requires.items():
        here = problems.below("requires", name)
        if name in clauses:
            what = f"clause '{name}' is defined in two places"
            here.say("FSM126", what, "choose another name for one of the two clauses")
        found[name] = demands.requirement(here, clause_of(here, name, written, written.says, written.link), written)
    return found


def exemptions(
    problems: Problems[Written], demands: Demands, profile: str, requires: Mapping[str, Requirement]
) -> Iterator[Exemption]:
    for name, written in problems.model.written.profile[profile].exempt.items():
        here = problems.below("profile", profile, "exempt", name)
        demands.check_values(here.below("when"), written.when)
        if here.known("FSM108", "unknown clause", written.deviates, requires, "deviates"):
            broken = deviation(name, profile, requires[written.deviates].clause, written)
            yield Exemption(deviation=broken, when=_values(written.when), since=written.since, until=written.until)


def kinds_of_fields(problems: Problems[Written]) -> dict[str, FieldKind]:
    found: dict[str, FieldKind] = {}
    listed = problems.model.written.fields
    for kind, names in zip((*_NUMBERS, *_TEXT), (listed.time, listed.int, listed.text), strict=True):
        for index, name in enumerate(names):
            if found.setdefault(name, kind) != kind:
                what = f"field '{name}' has the kinds {found[name]} and {kind}, but only one kind is allowed"
                problems.say("FSM132", what, "keep only the intended kind", "fields", kind, index)
    return found


def _values(written: Mapping[str, list[int | str]]) -> ValueLists:
    return {name: tuple(values) for name, values in written.items()}


def deviation(
    name: str, profile: str, clause: Clause, written: WrittenExemption | WrittenOverride, event: str = ""
) -> Deviation:
    words = written.model_dump(include={"about", "since", "until", "link"})
    return Deviation(name=name, event=event, clause=clause, profile=profile, **words)


def profiles(problems: Problems[Written], machine: Machine, sets: Sets) -> dict[str, Profile]:
    written = problems.model.written.profile
    made: dict[str, Profile] = {}
    for name in _sort_parents_first(problems):
        each = written[name]
        parent = made.get(each.extends) if each.extends is not None else None
        made[name] = Overriding(problems=problems, machine=machine, sets=sets, name=name).profile(each, parent)
    return {name: made[name] for name in written}


def _sort_parents_first(problems: Problems[Written]) -> list[str]:
    written = problems.model.written.profile
    ordered: dict[str, None] = {}
    for first in written:
        chain: list[str] = []
        name: str | None = first
        while name is not None and name not in ordered:
            chain.append(name)
            at, parent = ("profile", name, "extends"), written[name].extends
            if not problems.known("FSM124", "the profile extends the unknown profile", parent, written, *at):
                parent = None
            elif parent in chain:
                circle = " and ".join(f"'{each}'" for each in chain[chain.index(parent) :])
                what = f"profile {circle} extends itself" if parent == name else f"profiles {circle} extend each other"
                problems.say("FSM125", what, "let one of the profiles extend no profile, or a different one", *at)
                parent = None
            name = parent
        ordered |= dict.fromkeys(reversed(chain))
    return list(ordered)


def _inherited_overrides(parent: Profile, own: Iterable[Override], name: str) -> Iterator[Override]:
    named = {each.name for each in own}
    own = [each for each in own if each.deviation or not (each.since or each.until)]
    cells = {(each.event, state) for each in own for state in each.cells}
    ends = {(each.event, state) for each in own for state in each.ends}
    for each in parent.overrides:
        kept = replace(
            of_profile(each, name),
            cells={state: cell for state, cell in each.cells.items() if (each.event, state) not in cells},
            ends={state: end for state, end in each.ends.items() if (each.event, state) not in ends},
        )
        if each.name not in named and (kept.cells or kept.ends):
            yield kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Overriding:
    problems: Problems[Written]
    machine: Machine
    sets: Sets
    name: str

    def profile(self, written: WrittenProfile, parent: Profile | None) -> Profile:
        overrides = []
        for key, override in written.cell.items():
            at = ("profile", self.name, "cell", key, "event")
            if self.problems.known("FSM114", "unknown event", override.event, self.machine.events, *at):
                overrides.append(self._override(key, override))
        self._check_once(overrides)
        demands = Demands(states=(), sets=self.sets, kinds=self.machine.fields)
        own = tuple(exemptions(self.problems, demands, self.name, self.machine.requires))
        named = {each.deviation.name for each in own}
        above = parent.exemptions if parent else ()
        taken_over = (of_profile(each, self.name) for each in above if each.deviation.name not in named)
        made = Profile(
            name=self.name,
            about=written.about,
            extends=parent.name if parent else "",
            since=written.since,
            until=written.until,
            overrides=(*_inherited_overrides(parent, overrides, self.name), *overrides) if parent else tuple(overrides),
            exemptions=(*taken_over, *own),
        )
        # Check that a call that begins can also end under the profile.
        profiled = replace(self.machine, profiles={self.name: made}).under(self.name)
        check_ends(self.problems, profiled)
        if not self.problems.found:
            check_data(self.problems, profiled)
        # Check that the outcomes of a cell have distinct names, including the outcomes of deviations.
        for event in (each for name, each in profiled.events.items() if each is not self.machine.events[name]):
            for state, cell in (*event.cells.items(), *event.ends.items()):
                times = Counter(way.name for way in cell.outcomes) if isinstance(cell, Moves) else Counter[str]()
                for name in (name for name, number in times.items() if number > 1):
                    what = f"'{event.name}' in '{state}' has two outcomes called '{name}' under profile '{self.name}'"
                    self.problems.say_at(cell.line, "FSM112", what, "rename the outcome that the profile adds")
        return made

    def _override(self, key: str, written: WrittenOverride) -> Override:
        at = ("profile", self.name, "cell", key)
        event = self.machine.events[written.event]
        clause = self.machine.clauses.get(written.deviates or "")
        self.problems.known("FSM108", "unknown clause", written.deviates, self.machine.clauses, *at, "deviates")
        groups = Groups(
            problems=self.problems,
            name=event.name,
            kind=event.kind,
            parts=[Part(written=written, clauses={state: cell.clause for state, cell in event.cells.items()}, at=at)],
            sets=self.sets,
            guards=Guards(problems=self.problems, data=self.machine.data, arguments=event.arguments),
        )
        made = Override(
            name=key,
            event=written.event,
            cells=groups.cells(),
            ends=groups.ends(),
            about=written.about,
            deviation=deviation(key, self.name, clause, written, event.name) if clause else None,
            since=written.since,
            until=written.until,
            line=self.problems.line(*at),
        )
        self._check_changes(made, event, deviates=written.deviates is not None)
        return made

    def _check_changes(self, made: Override, event: Event, *, deviates: bool) -> None:
        """Check that an override names a broken clause if, and only if, it allows more than the machine."""
        for state, cell, before in (
            *((state, cell, event.cells[state]) for state, cell in made.cells.items()),
            *((state, end, event.ends.get(state)) for state, end in made.ends.items()),
        ):
            own = outcomes(before, state, event.kind) if before else ()
            new = outcomes(cell, state, event.kind)
            wider = own is not None and not all(any(each.covers(way) for each in own) for way in new or ())
            if own is not None and new is None:
                what = f"override '{made.name}' leaves '{state}' unspecified, but event '{event.name}' specifies it"
                self.problems.say_at(cell.line, "FSM115", what, "state what the implementation does in this state")
            elif wider and not deviates:
                what = f"override '{made.name}' allows more in '{state}' than event '{made.event}' does"
                hint = 'name the clause that the override breaks: deviates = "…"'
                self.problems.say_at(cell.line, "FSM115", what, hint)
            elif deviates and not wider:
                what = f"override '{made.name}' allows no more in '{state}' than event '{made.event}' does"
                self.problems.say_at(cell.line, "FSM116", what, "remove 'deviates', or the cell")
        if not made.cells and not made.ends:
            what = f"override '{made.name}' overrides no cell"
            self.problems.say_at(made.line, "FSM116", what, "name the cells that differ, or remove the override")

    def _check_once(self, overrides: Iterable[Override]) -> None:
        meeting: defaultdict[tuple[str, str, bool], list[tuple[Override, int]]] = defaultdict(list)
        for override in overrides:
            for ends, cells in ((False, override.cells), (True, override.ends)):
                for state, cell in cells.items():
                    meeting[override.event, state, ends].append((override, cell.line))
        for (event, state, _), several in meeting.items():
            if len(several) > 1 and any(override.deviation is None for override, _ in several):
                names = " and ".join(f"'{override.name}'" for override, _ in several)
                what = f"event '{event}' in '{state}' is overridden by {names}"
                hint = "keep only the intended override; only deviations may share a cell"
                self.problems.say_at(several[-1][1], "FSM105", what, hint)
