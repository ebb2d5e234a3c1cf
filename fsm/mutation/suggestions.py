"""Suggest properties to the author of a machine: properties that the machine has and some of its mutants lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Final

import tomlkit

from fsm.checker import decide
from fsm.checker.instants import StepCache
from fsm.language.build.specification import specify
from fsm.language.read import parse
from fsm.language.vocabularies import Stated
from fsm.language.write import array_of
from fsm.machine import Machine
from fsm.machine.claims import NO_PROFILE, Property
from fsm.machine.evidence import Proved, Refuted
from fsm.machine.table import tabulate
from fsm.mutation import mutants
from fsm.mutation.candidates import Candidate, candidates
from fsm.mutation.outcomes import killers, steps_of

CATCHES: Final = 2  # maximum number of mutants that a suggested property names
DEVIATES: Final = "This profile differs from the model here."


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A proved property and the mutants that it ``kills``."""

    candidate: Candidate
    kills: tuple[str, ...]
    # Maps the profiles under which the property does not hold to the lengths of the counterexamples.
    fails: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """Properties that kill survivors, the most effective first, and the survivors that are ``left``."""

    suggestions: tuple[Suggestion, ...]
    left: tuple[str, ...]


def suggested(
    machine: Machine,
    survivors: Collection[str],
    *,
    profile: str | None = None,
    taken: Iterable[str] = (),
    advanced: Callable[[], None] = lambda: None,
) -> Suggested:
    """Return properties of *machine* under *profile* that kill the mutants named in *survivors*.

    Each property is proved for the machine, and its name is not in *taken*. The properties are chosen greedily, so
    that few of them are needed. *advanced* is called for each survivor.

    >>> from fsm.language.library import load
    >>> found = suggested(load("examples/models/door.toml"), ["pull in gone: to open"])
    >>> [each.candidate.name for each in found.suggestions], found.left
    (['gone-is-final'], ())
    """
    profiled = machine.under(profile)
    found = holding(profiled, taken)
    fails = {name: _failing_profiles(stated, machine, profile) for name, (_, stated) in found.items()}
    stepping = StepCache(tabulate(profiled))
    decided = [name for name in found if fails[name] is not None]
    kills: dict[str, list[str]] = {name: [] for name in sorted(decided, key=lambda name: bool(fails[name]))}
    for mutant in (each for each in mutants(profiled) if each.name in survivors):
        asked = [found[name][1] for name in kills if found[name][0].event in {"", mutant.event}]
        for name in killers(asked, steps_of(mutant, stepping), None):
            kills[name].append(mutant.name)
        advanced()
    fewest = _smallest_cover({name: frozenset(killed) for name, killed in kills.items()})
    suggestions = [
        Suggestion(candidate=found[name][0], kills=tuple(kills[name]), fails=fails[name] or {})
        for name in sorted(fewest, key=lambda name: -len(kills[name]))
    ]
    killed = {name for each in suggestions for name in each.kills}
    return Suggested(suggestions=tuple(suggestions), left=tuple(name for name in survivors if name not in killed))


def _failing_profiles(stated: Property, machine: Machine, proved_under: str | None) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for profile in (None, *machine.profiles):
        if profile == proved_under:
            continue
        verdict = decide(stated, tabulate(machine.under(profile)), profile=profile).verdict
        if isinstance(verdict, Refuted):
            found[profile or NO_PROFILE] = verdict.length
        elif not isinstance(verdict, Proved):
            return None
    return found


def first_properties(machine: Machine, most: int) -> tuple[Suggestion, ...]:
    """Return up to *most* strong properties of *machine*, of many kinds, with the mutants that they kill."""
    found = holding(machine)
    stepping = StepCache(tabulate(machine))
    kinds: dict[str, list[str]] = {}
    for name, (each, _) in found.items():
        kinds.setdefault(each.kind, []).append(name)
    chosen: dict[str, Suggestion] = {}
    times: Counter[str] = Counter()
    while len(chosen) < most and any(kinds.values()):
        for names in filter(None, kinds.values()):
            name = min(names, key=lambda name: times[found[name][0].event])
            names.remove(name)
            each, stated = found[name]
            some = islice(_killed_mutants(each, stated, machine, stepping), CATCHES if len(chosen) < most else 0)
            if kills := tuple(some):
                chosen[name] = Suggestion(candidate=each, kills=kills)
                times[each.event] += 1
    return tuple(chosen[name] for name in found if name in chosen)


def _killed_mutants(candidate: Candidate, stated: Property, machine: Machine, stepping: StepCache) -> Iterator[str]:
    for mutant in mutants(machine):
        asked = candidate.event in {"", mutant.event}
        if asked and isinstance(decide(stated, steps_of(mutant, stepping)).verdict, Refuted):
            yield mutant.name


def holding(machine: Machine, taken: Iterable[str] = ()) -> dict[str, tuple[Candidate, Property]]:
    named: dict[str, Candidate] = {}
    used = Counter(taken)
    for each in candidates(machine):
        used[each.name] += 1
        name = each.name if used[each.name] == 1 else f"{each.name}-{used[each.name]}"
        used[name] += name != each.name
        named[name] = replace(each, name=name)
    if not named:
        return {}
    file = parse(written(machine.name, named.values()).encode(), Stated, path=machine.path or machine.name)
    stepping = StepCache(tabulate(machine))
    stated = specify(file, lambda _: machine).properties
    proved = (each for each in stated if isinstance(decide(each, stepping).verdict, Proved))
    return {each.name: (named[each.name], each) for each in proved}


def written(machine: str, found: Iterable[Candidate]) -> str:
    document = tomlkit.document()
    document["machine"] = machine
    document["property"] = {each.name: table_of(each) for each in found}
    return tomlkit.dumps(document)


def table_of(
    candidate: Candidate, catches: Sequence[str] = (), fails: Mapping[str, int] = MappingProxyType({})
) -> dict[str, object]:
    """Return *candidate* as a table of a property file. *catches* lists the mutants that the property detects."""
    table: dict[str, object] = {"says": candidate.says, candidate.level: candidate.source}
    table |= {word: value if isinstance(value, str) else array_of(value) for word, value in candidate.claim.items()}
    if catches:
        table["catches"] = array_of(catches)
    known = []
    for length in dict.fromkeys(fails.values()):
        known.append(tomlkit.inline_table())
        under = [profile for profile, steps in fails.items() if steps == length]
        known[-1].update({"under": under, "alone": True, "length": length, "about": DEVIATES})
    if known:
        table["fails"] = array_of(known)
    return table


def _smallest_cover(kills: Mapping[str, frozenset[str]]) -> list[str]:
    left = frozenset().union(*kills.values())
    chosen: list[str] = []
    while left:
        best = max(kills, key=lambda name: len(kills[name] & left))
        chosen.append(best)
        left -= kills[best]
    others = {name: frozenset().union(*(kills[other] for other in chosen if other != name)) for name in chosen}
    return [name for name in chosen if kills[name] - others[name]]
