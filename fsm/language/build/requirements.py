"""Build the requirements of states on fields, and the exemptions of profiles from them."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fsm.language.build.citations import cited
from fsm.language.build.problems import Problems
from fsm.language.machine_file import Written, WrittenDemand, WrittenExemption, WrittenOverride
from fsm.language.property_file import Stated
from fsm.machine import Clause, Deviation
from fsm.machine.fields import Exemption, FieldKind, Requirement, Values

_TIMES: Final[tuple[FieldKind, ...]] = ("time",)
_NUMBERS: Final[tuple[FieldKind, ...]] = ("time", "int")
_TEXT: Final[tuple[FieldKind, ...]] = ("text",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """Reads requirements on fields of these ``kinds`` in these ``states``.  ``sets`` are named sets of states."""

    problems: Problems[Written] | Problems[Stated]
    states: Collection[str]
    sets: Mapping[str, Collection[str]]
    kinds: Mapping[str, FieldKind]

    def requirement(self, clause: Clause, written: WrittenDemand, *at: str) -> Requirement:
        """Return what *clause* requires, as *written* at the path *at*."""
        self._check(written, *at)
        return Requirement(
            clause=clause,
            states=frozenset(self._states(written, *at)),
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

    def _states(self, written: WrittenDemand, *at: str) -> Iterator[str]:
        for index, name in enumerate(written.in_):
            if name != "*":
                self.problems.known("FSM102", "unknown state", name, (*self.states, *self.sets), *at, "in", index)
            yield from self.states if name == "*" else self.sets.get(name, (name,))

    def _check(self, written: WrittenDemand, *at: str) -> None:
        if not (written.set or written.unset or written.not_before or written.values or written.iff or written.keeps):
            hint = "add one of set, unset, not-before, values, iff and keeps"
            self.problems.say("FSM133", f"[{'.'.join(at)}] requires nothing", hint, *at)
        for word, names in (("set", written.set), ("unset", written.unset), ("keeps", written.keeps)):
            numbers = _NUMBERS if word == "keeps" else _TIMES
            for index, name in enumerate(names):
                self._check_kind(name, (*numbers, *_TEXT), word, *at, word, index)
        for later, first in written.not_before.items():
            for name in (later, first):
                self._check_kind(name, _TIMES, "before another", *at, "not-before", later)
        valued = {"values": written.values, "iff": written.iff, "when": written.when, "unless": written.unless}
        for word, values in valued.items():
            self.check_values(values, *at, word)

    def check_values(self, values: Mapping[str, list[int | str]], *at: str) -> None:
        for name, those in values.items():
            for index, value in enumerate(those):
                self._check_kind(name, _TEXT if isinstance(value, str) else _NUMBERS, repr(value), *at, name, index)

    def _check_kind(self, name: str, kinds: Collection[FieldKind], wanted: str, *at: str | int) -> None:
        if self.problems.known("FSM132", "unknown field", name, self.kinds, *at) and self.kinds[name] not in kinds:
            what = f"'{name}' cannot be {wanted}: it is of kind {self.kinds[name]}"
            self.problems.say("FSM133", what, f"name a field of kind {' or '.join(kinds)}", *at)


def requirements(problems: Problems[Written], demands: Demands, clauses: Collection[str]) -> dict[str, Requirement]:
    """Return every clause on fields by name.  Report those that have the name of one in *clauses*."""
    made = {}
    for name, each in problems.model.written.requires.items():
        at = ("requires", name)
        if name in clauses:
            what = f"clause '{name}' is defined in two places"
            problems.say("FSM126", what, "choose another name for one of them", *at)
        level, source = cited(problems, each, *at)
        clause = Clause(name=name, says=each.says, level=level, source=source, link=each.link)
        made[name] = demands.requirement(clause, each, *at)
    return made


def exemptions(
    problems: Problems[Written], demands: Demands, profile: str, requires: Mapping[str, Requirement]
) -> Iterator[Exemption]:
    """Yield the exemptions that *profile* itself declares."""
    for name, each in problems.model.written.profile[profile].exempt.items():
        at = ("profile", profile, "exempt", name)
        demands.check_values(each.when, *at, "when")
        if problems.known("FSM108", "unknown clause", each.deviates, requires, *at, "deviates"):
            broken = deviation(name, profile, requires[each.deviates].clause, each)
            yield Exemption(deviation=broken, when=_values(each.when), since=each.since, until=each.until)


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
    return {name: tuple(those) for name, those in written.items()}


def deviation(
    name: str, profile: str, clause: Clause, written: WrittenExemption | WrittenOverride, event: str = ""
) -> Deviation:
    """Return the deviation *name* of *profile* from *clause*, for cells of *event* or, without one, for fields."""
    words = written.model_dump(include={"about", "since", "until", "link"})
    return Deviation(name=name, event=event, clause=clause, profile=profile, **words)
