"""Build the requirements of states on fields, and the exemptions of profiles from them."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fsm.language.build.citations import clause_of
from fsm.language.build.problems import Problems
from fsm.language.machine_file import Written, WrittenDemand, WrittenExemption, WrittenOverride
from fsm.language.read import F
from fsm.machine import Clause, Deviation
from fsm.machine.fields import Exemption, FieldKind, Requirement, Values

_TIMES: Final[tuple[FieldKind, ...]] = ("time",)
_NUMBERS: Final[tuple[FieldKind, ...]] = ("time", "int")
_TEXT: Final[tuple[FieldKind, ...]] = ("text",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """Reads requirements on fields of these ``kinds`` in these ``states``.  ``sets`` are named sets of states."""

    states: Collection[str]
    sets: Mapping[str, Collection[str]]
    kinds: Mapping[str, FieldKind]

    def requirement(self, problems: Problems[F], clause: Clause, written: WrittenDemand) -> Requirement:
        """Return the requirement of *clause*, as *written*."""
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
            hint = "add one of set, unset, not-before, values, iff and keeps"
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
            what = f"'{name}' cannot be {wanted}: it is of kind {self.kinds[name]}"
            problems.say("FSM133", what, f"name a field of kind {' or '.join(kinds)}")


def requirements(problems: Problems[Written], demands: Demands, clauses: Collection[str]) -> dict[str, Requirement]:
    """Return every clause on fields by name.  Report those that have the name of one in *clauses*."""
    found = {}
    for name, written in problems.model.written.requires.items():
        here = problems.below("requires", name)
        if name in clauses:
            here.say("FSM126", f"clause '{name}' is defined in two places", "choose another name for one of them")
        found[name] = demands.requirement(here, clause_of(here, name, written, written.says, written.link), written)
    return found


def exemptions(
    problems: Problems[Written], demands: Demands, profile: str, requires: Mapping[str, Requirement]
) -> Iterator[Exemption]:
    """Yield the exemptions that *profile* itself declares."""
    for name, written in problems.model.written.profile[profile].exempt.items():
        here = problems.below("profile", profile, "exempt", name)
        demands.check_values(here.below("when"), written.when)
        if here.known("FSM108", "unknown clause", written.deviates, requires, "deviates"):
            broken = deviation(name, profile, requires[written.deviates].clause, written)
            yield Exemption(deviation=broken, when=_values(written.when), since=written.since, until=written.until)


def kinds_of_fields(problems: Problems[Written]) -> dict[str, FieldKind]:
    """Map each field of a model to its kind."""
    found: dict[str, FieldKind] = {}
    listed = problems.model.written.fields
    for kind, names in zip((*_NUMBERS, *_TEXT), (listed.time, listed.int, listed.text), strict=True):
        for index, name in enumerate(names):
            if found.setdefault(name, kind) != kind:
                what = f"field '{name}' is {found[name]} and {kind} at once"
                problems.say("FSM132", what, "keep the kind that is meant", "fields", kind, index)
    return found


def _values(written: Mapping[str, list[int | str]]) -> Values:
    return {name: tuple(values) for name, values in written.items()}


def deviation(
    name: str, profile: str, clause: Clause, written: WrittenExemption | WrittenOverride, event: str = ""
) -> Deviation:
    """Return the deviation *name* of *profile* from *clause*, which is about fields if there is no *event*."""
    words = written.model_dump(include={"about", "since", "until", "link"})
    return Deviation(name=name, event=event, clause=clause, profile=profile, **words)
