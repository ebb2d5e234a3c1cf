"""Find the properties that each mutant of a machine or system breaks, and the mutants that are equivalent.

A system with many copies has many states, but most errors show up with one copy of each part. A mutant is therefore
checked in a smaller system first. If it breaks no property there, it is checked in the full system, restricted to the
largest cone that the properties need. It is equivalent if it takes the same steps in every state of that cone, or if it
is bisimilar to the original. Otherwise, every property is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Final, Generic, TypeVar

from fsm.checker import decide
from fsm.checker.cones import Cones, families
from fsm.checker.equivalence import StepsOf, bisimilar, bisimilar_systems
from fsm.checker.instants import StepCache, machine_table
from fsm.machine import Machine
from fsm.machine.claims import Follows, MatchesDiagram, Property, Refines, Specification
from fsm.machine.evidence import Checked, Proved, Undecided
from fsm.machine.graph import explore
from fsm.machine.product import SystemTable, tables_of
from fsm.machine.product.reduction import Influence
from fsm.machine.product.system import System
from fsm.machine.table import tabulate
from fsm.mutation import JointMutant, Mutant, mutants

_CONES: Final = 4  # maximum number of cones of a system whose reachable states are cached
M_co = TypeVar("M_co", bound=Mutant | JointMutant, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationOutcome(Generic[M_co]):
    """A mutant, and its ``killers``: the properties among ``asked`` that it breaks."""

    mutant: M_co
    killers: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()
    equivalent: bool = False

    @property
    def survives(self) -> bool:
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

    Properties that do not hold as stated on the original machine cannot kill mutants; *unsound* receives their names.
    Properties that compare two machines are slow, so they are checked only for mutants that no other property kills.
    If *whole* is false, only the first killer of each mutant is found. *advanced* is called after each mutant.
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
        if found and not whole:  # The next mutant is similar, so try the same killer first.
            quick.sort(key=lambda each: each.name != found[0])
        names = frozenset(each.name for each in asked)
        yield MutationOutcome(mutant=mutant, killers=found, asked=names, equivalent=equivalent)
        advanced()


def steps_of(mutant: Mutant, stepping: StepCache) -> StepCache:
    table = machine_table(stepping.table)
    changed = tabulate(mutant.machine, like=table)
    # If a call takes time in only one of the machines, the tables have different rows.
    alike = len(changed.rows) == len(table.rows)
    return StepCache(changed, like=stepping if alike else None, but=table.states.index(mutant.state))


def killers(
    properties: Iterable[Property], steps: StepCache | Cones, profile: str | None, *, whole: bool = True
) -> tuple[str, ...]:
    broken = (each.name for each in properties if not as_stated(decide(each, steps, profile=profile)))
    return tuple(islice(broken, None if whole else 1))


def as_stated(checked: Checked) -> bool:
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
    """Yield the outcome of each of *mutants* under *profile*, as :func:`mutation_outcomes` does.

    *smaller* specifies the same system with fewer copies, where most mutants can be killed at a lower cost.
    """
    full = _Scope(specification, profile)
    small = _Scope(smaller, profile) if smaller else full
    mentioned = {name: families(small.system, each.claim) for name, each in small.stated.items()}
    unsound(full.broken if small.broken else ())
    asked = small.sound
    for mutant in mutants:
        likely = sorted(asked, key=lambda name: mutant.event not in mentioned[name])
        outcome = _outcome(mutant, full, small, likely, whole=whole)
        if outcome.killers:  # The next mutant is similar, so try the same killer first.
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
        return killers(self.stated.values(), self.cones(self.system), self.profile)

    @property
    def sound(self) -> list[str]:
        return [name for name in self.stated if name not in self.broken]

    def cones(self, system: System) -> Cones:
        return Cones(system=system, tables=self.tables)

    def table(self, system: System, cone: frozenset[int]) -> SystemTable:
        return SystemTable(system, cone=cone, tables=self.tables)


class _ChangedSystem:
    """A mutated system, restricted to the copies that can affect the properties in the mutant or in the original."""

    def __init__(self, scope: _Scope, system: System) -> None:
        self.scope = scope
        self.system = system
        self.cone = Influence(system, scope.tables).cone(scope.largest)

    def killers(self, asked: Iterable[str], *, whole: bool) -> tuple[str, ...]:
        stated, cones = self.scope.stated, self.scope.cones(self.system)
        found = killers((stated[name] for name in asked), cones, self.scope.profile, whole=whole)
        return tuple(name for name in stated if name in found)

    def same(self, *, named: bool) -> bool:
        return self.scope.steps(self.cone).same(self.scope.table(self.system, self.cone), named=named)

    @cached_property
    def bisimilar(self) -> bool:
        return bisimilar_systems(self.scope.graph(self.cone), explore(self.scope.table(self.system, self.cone)))
