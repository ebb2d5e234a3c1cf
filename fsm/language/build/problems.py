"""Collect all errors in a file instead of stopping at the first error."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Self, TypeAlias

from fsm.errors import InputError, Problem, nearest
from fsm.language.machine_file import Cited, Happening, Header, WrittenClause, WrittenEvent, WrittenRest
from fsm.language.read import F, File
from fsm.language.read.toml import Keys
from fsm.language.vocabularies import SystemHeader
from fsm.machine import LEVELS, Clause, Level
from fsm.machine.hierarchy import FLAT, Hierarchy
from fsm.machine.traversal import closure


@dataclass(frozen=True, slots=True, kw_only=True)
class Problems(Generic[F]):
    """Collects the errors below the path ``at``, without duplicates. ``place`` maps paths to places in the file."""

    model: File[F]
    tree: Hierarchy = FLAT
    at: Keys = ()
    place: Callable[[Keys], Keys] = lambda keys: keys
    _found: dict[Problem, None] = field(default_factory=dict)

    def below(self, *at: str | int) -> Self:
        return replace(self, at=(*self.at, *at))

    @property
    def table(self) -> str:
        return f"[{'.'.join(map(str, self.at))}]"

    def line(self, *at: str | int) -> int:
        return self.model.lines.find(*self.place((*self.at, *at)))

    def say(self, code: str, what: str, hint: str, *at: str | int) -> None:
        self.say_at(self.line(*at), code, what, hint)

    def say_at(self, line: int, code: str, what: str, hint: str) -> None:
        self._found[Problem(path=self.model.path, line=line, code=code, what=what, hint=hint)] = None

    def known(self, code: str, what: str, word: str | None, names: Collection[str], *at: str | int) -> bool:
        """Return whether *word* is ``None`` or in *names*. If not, add an error that begins with *what*."""
        if word is None or word in names:
            return True
        self.say(code, f"{what} '{word}'", nearest(word, names, of=f"{what.rsplit(' ', 1)[-1]}s"), *at)
        return False

    @property
    def found(self) -> bool:
        return bool(self._found)

    def refuse(self) -> None:
        if self._found:
            raise InputError(sorted(self._found, key=lambda problem: problem.line))


def citation(problems: Problems[F], written: Cited) -> tuple[Level, str] | None:
    sources = zip(reversed(LEVELS), (written.MUST, written.SHOULD, written.MAY, written.observed), strict=True)
    given = [(level, source) for level, source in sources if source is not None]
    if len(given) > 1:
        what = f"{problems.table} has several levels: {' and '.join(level for level, _ in given)}"
        problems.say("FSM131", what, "keep only the intended level", given[-1][0])
    return given[0] if given else None


def clause_of(problems: Problems[F], name: str, written: Cited, says: str, link: str) -> Clause:
    found = citation(problems, written)
    if found is None:
        hint = "add one of MUST, SHOULD, MAY and observed, with the source as its value: MUST = …"
        problems.say("FSM011", f"{problems.table} has no level and no source", hint)
    level, source = found or ("MUST", "")
    return Clause(name=name, says=says, level=level, source=source, link=link)


def implied(problems: Problems[F], header: Header | SystemHeader, name: str, about: str, written: Happening) -> Clause:
    """Return the clause of the event *name* if the event names no clause. *problems* collects the event's errors."""
    given = citation(problems, written) if written.clause is None else None
    level, source = given or (header.level, header.source)
    return Clause(name=name, says=about, level=level, source=source)


def clauses_of(
    problems: Problems[F], separate: Mapping[str, WrittenClause], events: Mapping[str, Happening]
) -> dict[str, Clause]:
    found = {
        name: clause_of(problems.below("clause", name), name, clause, clause.says, clause.link)
        for name, clause in separate.items()
    }
    named: list[tuple[Problems[F], str, WrittenRest | Happening]] = []
    for event, written in events.items():
        here = problems.below("event", event)
        words = [word for word in ("says", "link") if word in written.model_fields_set]
        if written.clause is not None:
            named.append((here, written.clause, written))
        elif words:
            what = f"'clause' is missing from {here.table}, which has '{words[0]}'"
            here.say("FSM011", what, "add clause = …, with the name of the clause", words[0])
        rests = written.clauses if isinstance(written, WrittenEvent) else {}
        named += ((here.below("clauses", name), name, rest) for name, rest in rests.items())
    for here, name, other in named:
        if other.says is None:
            if citation(here, other) or "link" in other.model_fields_set:
                what = f"'says' is missing from {here.table}, which has the source of clause '{name}'"
                here.say("FSM011", what, "add says = …, or leave out the source and give only the name of the clause")
                found.setdefault(name, Clause(name=name, says="", level="MUST", source=""))
            continue
        if name in found:
            what = f"clause '{name}' is defined in two places"
            here.say("FSM126", what, "define the clause in one place; elsewhere its name is enough", "says")
        found[name] = clause_of(here, name, other, other.says, other.link)
    return found


def check_used(problems: Problems[F], clauses: Iterable[str], used: Collection[str | None], what: str, by: str) -> None:
    for name in clauses:
        if name not in used:
            hint = f"name the clause in {by}, or remove it"
            problems.say("FSM119", f"{what} refers to clause '{name}'", hint, "clause", name)


_WORD: Final = re.compile(r"[A-Za-z0-9_.-]+")

Definitions: TypeAlias = "Mapping[str, str | tuple[str, ...]]"


def definitions(
    problems: Problems[F],
    define: Mapping[str, str | Sequence[str]],
    *,
    states: Collection[str],
    taken: Mapping[str, Collection[str]],
    texts: Iterable[str],
) -> dict[str, str | tuple[str, ...]]:
    """Return the definitions in *define*, and report errors in them.

    Conditions are returned as written, and sets within a set are replaced by their states. It is an error if a name
    is also the name of a state or is in *taken*, which maps kinds to names, and such definitions are left out. Other
    errors are definitions that none of *texts* uses, members of sets that are not states, and circular definitions.
    Names in the hierarchy that stand for several states are defined, too.
    """
    leaves = problems.tree.names
    states = (*states, *leaves)
    sets = {name: value for name, value in define.items() if not isinstance(value, str)}
    needs = {name: _words(value) & define.keys() for name, value in define.items()}
    for name in define:
        for kind, names in {"state": states, **taken}.items():
            if name in names:
                what = f"'{name}' is defined here, but is also the name of {'an' if kind[0] in 'aeiou' else 'a'} {kind}"
                problems.say("FSM128", what, "choose a name that is not used for anything else", "define", name)
        for index, each in enumerate(sets.get(name, ())):
            problems.known("FSM102", "unknown state", each, (*states, *sets), "define", name, index)
    _check_circles(problems, needs)
    used = {*closure(set().union(*map(_words, texts)) & define.keys(), needs.__getitem__)}
    for name in define:
        if name not in used:
            what = f"nothing uses the definition '{name}'"
            problems.say("FSM129", what, "use the definition, or remove it", "define", name)
    return {**leaves} | {
        name: value
        if isinstance(value, str)
        else tuple(
            dict.fromkeys(at for each in _members(sets, name) if each in states for at in leaves.get(each, (each,)))
        )
        for name, value in define.items()
        if not any(name in names for names in (states, *taken.values()))
    }


def _words(value: str | Sequence[str]) -> set[str]:
    return set(_WORD.findall(value) if isinstance(value, str) else value)


def _check_circles(problems: Problems[F], needs: Mapping[str, Collection[str]]) -> None:
    below = {name: {*closure(each, needs.__getitem__)} for name, each in needs.items()}
    noted: set[str] = set()
    for name, names in below.items():
        if name in names and name not in noted:
            circle = [each for each in needs if each in names and name in below[each]]
            noted.update(circle)
            listed = " and ".join(f"'{each}'" for each in circle)
            verb = "refers to itself" if len(circle) == 1 else "refer to each other in a circle"
            problems.say("FSM130", f"{listed} {verb}", "define one of these names without the others", "define", name)


def _members(sets: Mapping[str, Sequence[str]], name: str, met: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the members of a set in the order in which they are written, each followed by its own members."""
    for each in () if name in met else sets.get(name, ()):
        yield each
        yield from _members(sets, each, met | {name})
