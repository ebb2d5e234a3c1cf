"""Check which properties each mutant of a machine or system breaks, and which mutants are equivalent.

A system with many copies has many states, and most errors show up with one copy of each part. So a mutant is first
checked in a smaller system. If it breaks no property there, it is checked in the full system, within the largest cone
that the properties need. It is equivalent if it takes the same steps in every state of the cone or is bisimilar.
Otherwise, every property is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import tomlkit

from fsm.checker import decide
from fsm.checker.cones import Cones, families
from fsm.checker.equivalence import StepsOf, bisimilar, bisimilar_systems
from fsm.checker.instants import StepCache, machine_table
from fsm.language.build.specification import specify
from fsm.language.read import parse
from fsm.language.vocabularies import Stated
from fsm.language.write import array_of
from fsm.machine import Machine
from fsm.machine.graph import explore
from fsm.machine.product import SystemTable, tables_of
from fsm.machine.product.influence import Influence
from fsm.machine.product.system import System
from fsm.machine.property.claims import NO_PROFILE, Follows, MatchesDiagram, Property, Refines, Specification
from fsm.machine.property.evidence import Checked, Proved, Refuted, Undecided
from fsm.machine.table import tabulate
from fsm.mutation.candidates import Candidate, candidates
from fsm.mutation.mutants import JointMutant, Mutant, mutants

_CONES: Final = 4  # maximum number of cones of a system whose reachable states are cached

M_co = TypeVar("M_co", bound=Mutant | JointMutant, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationOutcome(Generic[M_co]):
    """The properties among ``asked`` that a mutant breaks (its ``killers``), and whether it is ``equivalent``."""

    mutant: M_co
    killers: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()
    equivalent: bool = False

    @property
    def survives(self) -> bool:
        """True if the mutant is not equivalent and breaks no property."""
        return not self.killers and not self.equivalent


def mutation_outcomes(
    machine: Machine,
    properties: Sequence[Property],
    *,
    profile: str | None = None,
    whole: bool = True,
    advanced: Callable[[], None] = lambda: None,
    unsound: Callable[[tuple[str, ...]], None] = lambda _: None,
) -> Iterator[MutationOutcome[Mutant]]:
    """Yield the outcome of each mutant of *machine* under *profile*.

    Properties that do not hold as stated on the original machine are not used, and *unsound* is called with their
    names. Properties that compare two machines are slow, so they are checked only for mutants that no other property
    kills. If *whole* is false, stop at the first property that kills a mutant. *advanced* is called after each mutant.
    """
    profiled = machine.under(profile)
    table = tabulate(profiled)
    stepping = StepCache(table)
    broken = killers(properties, stepping, profile)
    unsound(broken)
    sound = [each for each in properties if each.name not in broken]
    slow = [each for each in sound if isinstance(each.claim, Refines | Follows | MatchesDiagram)]
    quick = [each for each in sound if each not in slow]
    for mutant in mutants(profiled):
        steps = steps_of(mutant, stepping)
        found = killers(quick, steps, profile, whole=whole)
        equivalent = not found and bisimilar(table, machine_table(steps.table))
        asked = quick
        if not found and not equivalent:
            asked = sound
            found = killers(slow, steps, profile, whole=whole)
        if found and not whole:  # the next mutant is similar, so try this killer first
            quick.sort(key=lambda each: each.name != found[0])
        names = frozenset(each.name for each in asked)
        yield MutationOutcome(mutant=mutant, killers=found, asked=names, equivalent=equivalent)
        advanced()


def steps_of(mutant: Mutant, stepping: StepCache) -> StepCache:
    """Return the steps of *mutant*. Steps that it shares with the original machine are taken from *stepping*."""
    table = machine_table(stepping.table)
    changed = tabulate(mutant.machine, like=table)
    # The tables have different numbers of rows if a call takes time in only one of the machines.
    alike = len(changed.rows) == len(table.rows)
    return StepCache(changed, like=stepping if alike else None, but=table.states.index(mutant.state))


def killers(
    properties: Iterable[Property], steps: StepCache | Cones, profile: str | None, *, whole: bool = True
) -> tuple[str, ...]:
    """Return the names of the *properties* that do not hold as stated, or only the first one if *whole* is false."""
    broken = (each.name for each in properties if not as_stated(decide(each, steps, profile=profile)))
    return tuple(islice(broken, None if whole else 1))


def as_stated(checked: Checked) -> bool:
    """Check whether the property is proved, is undecided, or fails in the way that its file expects."""
    return not checked.unexpected if checked.expected else isinstance(checked.verdict, Proved | Undecided)


def joint_mutation_outcomes(
    specification: Specification[System],
    mutants: Iterable[JointMutant],
    *,
    smaller: Specification[System] | None = None,
    profile: str | None = None,
    whole: bool = True,
    advanced: Callable[[], None] = lambda: None,
    unsound: Callable[[tuple[str, ...]], None] = lambda _: None,
) -> Iterator[MutationOutcome[JointMutant]]:
    """Yield the outcome of each of *mutants* of the system under *profile*.

    *smaller* is the same system with fewer copies. Properties that do not hold as stated on the original system are not
    used, and *unsound* is called with their names. If *whole* is false, stop at the first property that kills a mutant.
    *advanced* is called after each mutant.
    """
    full = _Scope(specification, profile)
    small = _Scope(smaller, profile) if smaller else full
    mentioned = {name: families(small.system, each.claim) for name, each in small.stated.items()}
    unsound(full.broken if small.broken else ())
    asked = small.sound
    for mutant in mutants:
        likely = sorted(asked, key=lambda name: mutant.event not in mentioned[name])
        outcome = _outcome(mutant, full, small, likely, whole=whole)
        if outcome.killers:  # the next mutant is similar, so try this killer first
            asked.sort(key=lambda name: name != outcome.killers[0])
        yield outcome
        advanced()


def _outcome(
    mutant: JointMutant, full: _Scope, small: _Scope, asked: list[str], *, whole: bool
) -> MutationOutcome[JointMutant]:
    first = _ChangedSystem(small, mutant.change(small.system))
    found = () if first.same(named=True) else first.killers(asked, whole=whole)
    if found:
        return MutationOutcome(mutant=mutant, killers=found)
    then = first if full is small else _ChangedSystem(full, mutant.change(full.system))
    if then.same(named=False) or (first.bisimilar and then.bisimilar):
        return MutationOutcome(mutant=mutant, equivalent=True)
    return MutationOutcome(mutant=mutant, killers=() if then is first else then.killers(full.sound, whole=whole))


class _Scope:
    """A system, its properties, the largest cone that they need, and cached results that all mutants share."""

    def __init__(self, specification: Specification[System], profile: str | None) -> None:
        self.profile = profile
        self.system: System = specification.machine.under(profile)
        self.stated = {each.name: each for each in specification.properties}
        self.tables = tables_of(self.system)
        self.largest = self.cones(self.system).largest(each.claim for each in specification.properties)
        self.graph = lru_cache(maxsize=_CONES)(lambda cone: explore(self.table(self.system, cone)))
        self.steps = lru_cache(maxsize=_CONES)(lambda cone: StepsOf(self.graph(cone)))

    @cached_property
    def broken(self) -> tuple[str, ...]:
        """The names of the properties that do not hold as stated on the original system."""
        return killers(self.stated.values(), self.cones(self.system), self.profile)

    @property
    def sound(self) -> list[str]:
        """The names of the properties that hold as stated on the original system."""
        return [name for name in self.stated if name not in self.broken]

    def cones(self, system: System) -> Cones:
        """Return the cones of *system*, which must have the same parts as the original."""
        return Cones(system=system, tables=self.tables)

    def table(self, system: System, cone: frozenset[int]) -> SystemTable:
        """Return the table of *cone* of *system*, which must have the same parts as the original."""
        return SystemTable(system, cone=cone, tables=self.tables)


class _ChangedSystem:
    """A mutated *system*, restricted to the cone that the properties need in it and in the original."""

    def __init__(self, scope: _Scope, system: System) -> None:
        self.scope = scope
        self.system = system
        self.cone = Influence(system, scope.tables).cone(scope.largest)

    def killers(self, asked: Iterable[str], *, whole: bool) -> tuple[str, ...]:
        """Return the properties in *asked* that are broken, in file order. Stop at the first if *whole* is false."""
        stated, cones = self.scope.stated, self.scope.cones(self.system)
        found = killers((stated[name] for name in asked), cones, self.scope.profile, whole=whole)
        return tuple(name for name in stated if name in found)

    def same(self, *, named: bool) -> bool:
        """Check whether the mutant takes the same steps in all reachable states, with the same ways if *named*."""
        return self.scope.steps(self.cone).same(self.scope.table(self.system, self.cone), named=named)

    @cached_property
    def bisimilar(self) -> bool:
        """True if no observation distinguishes the mutant from the original."""
        return bisimilar_systems(self.scope.graph(self.cone), explore(self.scope.table(self.system, self.cone)))


CATCHES: Final = 2  # maximum number of mutants that a suggested property names

DEVIATES: Final = "This profile differs from the model here."
"""The remark on a suggested property that fails under a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A proved property, the mutants that it ``kills``, and its counterexample lengths by profile (``fails``)."""

    candidate: Candidate
    kills: tuple[str, ...]
    fails: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """Properties that kill a machine's survivors, most effective first, and the survivors that are ``left``."""

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
    """Return properties of *machine* under *profile* that break the mutants named in *survivors*.

    No property gets a name in *taken*. Every property is proved, and was checked on each mutant that it is said to
    kill. A greedy choice keeps their number small. *advanced* is called for each survivor.

    >>> from fsm.language.library import load
    >>> found = suggested(load("examples/models/door.toml"), ["pull in gone: to open"])
    >>> [each.candidate.name for each in found.suggestions], found.left
    (['gone-is-final'], ())
    """
    profiled = machine.under(profile)
    found = holding(profiled, taken)
    fails = {name: _fails(stated, machine, profile) for name, (_, stated) in found.items()}
    stepping = StepCache(tabulate(profiled))
    decided = [name for name in found if fails[name] is not None]
    kills: dict[str, list[str]] = {name: [] for name in sorted(decided, key=lambda name: bool(fails[name]))}
    for mutant in (each for each in mutants(profiled) if each.name in survivors):
        asked = [found[name][1] for name in kills if found[name][0].event in {"", mutant.event}]
        for name in killers(asked, steps_of(mutant, stepping), None):
            kills[name].append(mutant.name)
        advanced()
    fewest = _fewest({name: frozenset(killed) for name, killed in kills.items()})
    suggestions = [
        Suggestion(candidate=found[name][0], kills=tuple(kills[name]), fails=fails[name] or {})
        for name in sorted(fewest, key=lambda name: -len(kills[name]))
    ]
    killed = {name for each in suggestions for name in each.kills}
    return Suggested(suggestions=tuple(suggestions), left=tuple(name for name in survivors if name not in killed))


def _fails(stated: Property, machine: Machine, proved_under: str | None) -> dict[str, int] | None:
    """Return the profiles under which the property fails, with counterexample lengths; ``None`` if one is undecided."""
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
    """Return up to *most* strong properties of *machine*, of many kinds, each with mutants that break it."""
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
            kills = tuple(islice(_refuting(each, stated, machine, stepping), CATCHES)) if len(chosen) < most else ()
            if kills:
                chosen[name] = Suggestion(candidate=each, kills=kills)
                times[each.event] += 1
    return tuple(chosen[name] for name in found if name in chosen)


def _refuting(candidate: Candidate, stated: Property, machine: Machine, stepping: StepCache) -> Iterator[str]:
    for mutant in mutants(machine):
        asked = candidate.event in {"", mutant.event}
        if asked and isinstance(decide(stated, steps_of(mutant, stepping)).verdict, Refuted):
            yield mutant.name


def holding(machine: Machine, taken: Iterable[str] = ()) -> dict[str, tuple[Candidate, Property]]:
    """Return the candidates proved of *machine*, each with its property, under names that are not in *taken*."""
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
    """Return a property file for *machine* with the candidates *found*."""
    document = tomlkit.document()
    document["machine"] = machine
    document["property"] = {each.name: table_of(each) for each in found}
    return tomlkit.dumps(document)


def table_of(
    candidate: Candidate, catches: Sequence[str] = (), fails: Mapping[str, int] = MappingProxyType({})
) -> dict[str, object]:
    """Return the table for *candidate*, with the mutants it *catches* and the profiles under which it *fails*."""
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


def _fewest(kills: Mapping[str, frozenset[str]]) -> list[str]:
    """Greedily choose a small set of names that together kill every mutant that any name kills."""
    left = frozenset().union(*kills.values())
    chosen: list[str] = []
    while left:
        best = max(kills, key=lambda name: len(kills[name] & left))
        chosen.append(best)
        left -= kills[best]
    others = {name: frozenset().union(*(kills[other] for other in chosen if other != name)) for name in chosen}
    return [name for name in chosen if kills[name] - others[name]]
