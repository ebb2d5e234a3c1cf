"""Which properties the mutants of a system break, and which mutants are equivalent to it.

A system of many copies has many states, and most mistakes are found with
one copy of each part: so a mutant is checked there first.  One that breaks no
property there is checked in the system itself, in the largest cone that the
properties need: it may take the same steps in every state, or be bisimilar; if
not, every property is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from fsm.checker import decide
from fsm.checker.cones import Cones, families
from fsm.equivalence.of_systems import bisimilar_systems, same_steps
from fsm.machine.graph import Graph, explore
from fsm.mutation.outcomes import MutationOutcome, as_stated
from fsm.mutation.system_mutants import JointMutant
from fsm.product import SystemTable, cone
from fsm.product.system import System
from fsm.property.claims import JointSpecification, Property


def joint_mutation_outcomes(
    specification: JointSpecification,
    mutants: Iterable[JointMutant],
    *,
    smaller: JointSpecification | None = None,
    profile: str | None = None,
    whole: bool = True,
    advanced: Callable[[], None] = lambda: None,
) -> Iterator[MutationOutcome[JointMutant]]:
    """The outcome of each of the *mutants* of the system as *profile* has it; *advanced* is called after each.

    *smaller* is the same system with fewer copies.  Without *whole* one killer is enough: others are not looked for.  Properties
    that are not as stated of the system that is checked first kill nothing there.
    """
    full = _Scope(specification=specification, profile=profile)
    small = _Scope(specification=smaller, profile=profile) if smaller else full
    asked = small.sound
    for mutant in mutants:
        likely = sorted(asked, key=lambda name: mutant.event not in small.mentioned[name])
        outcome = _outcome(mutant, full, small, likely, whole=whole)
        if outcome.killers:  # the next one is much like it
            asked.sort(key=lambda name: name != outcome.killers[0])
        yield outcome
        advanced()


def _outcome(
    mutant: JointMutant, full: _Scope, small: _Scope, asked: list[str], *, whole: bool
) -> MutationOutcome[JointMutant]:
    first = _Changed(scope=small, system=mutant.change(small.system))
    killers = () if first.same(named=True) else first.killers(asked, whole=whole)
    if killers:
        return MutationOutcome(mutant=mutant, killers=killers)
    then = first if full is small else _Changed(scope=full, system=mutant.system)
    if then.same(named=False) or (first.bisimilar and then.bisimilar):
        return MutationOutcome(mutant=mutant, equivalent=True)
    return MutationOutcome(mutant=mutant, killers=() if then is first else then.killers(list(full.stated), whole=whole))


@dataclass(slots=False, kw_only=True)
class _Scope:
    """The system with some number of copies, and its properties."""

    specification: JointSpecification
    profile: str | None

    @cached_property
    def system(self) -> System:
        system = self.specification.machine
        return system.under(self.profile)

    @cached_property
    def stated(self) -> dict[str, Property]:
        return {each.name: each for each in self.specification.properties}

    @cached_property
    def largest(self) -> frozenset[int]:
        """The largest cone that the properties need."""
        return Cones(system=self.system).largest(each.claim for each in self.specification.properties)

    @cached_property
    def sound(self) -> list[str]:
        """The properties that are as stated."""
        unchanged = _Changed(scope=self, system=self.system)
        return [name for name in self.stated if not unchanged.breaks(name)]

    @cached_property
    def mentioned(self) -> dict[str, frozenset[str]]:
        return {name: families(self.system, each.claim) for name, each in self.stated.items()}

    @cached_property
    def graph(self) -> Graph[SystemTable]:
        """All that can be reached in that cone."""
        return explore(SystemTable(self.system, cone=self.largest))


@dataclass(slots=False, kw_only=True)
class _Changed:
    """The *system* that a mutant is."""

    scope: _Scope
    system: System
    cones: Cones = field(init=False)

    def __post_init__(self) -> None:
        self.cones = Cones(system=self.system)

    def killers(self, asked: Iterable[str], *, whole: bool) -> tuple[str, ...]:
        """Those of the properties *asked* that it breaks, in the order of the file; unless *whole*, the first asked."""
        found: set[str] = set()
        for name in asked:
            if self.breaks(name):
                found.add(name)
                if not whole:
                    break
        return tuple(name for name in self.scope.stated if name in found)

    def breaks(self, name: str) -> bool:
        return not as_stated(decide(self.scope.stated[name], self.cones, profile=self.scope.profile))

    @cached_property
    def cone(self) -> frozenset[int]:
        """What the properties need of the original and of the mutant."""
        return cone(self.system, self.scope.largest)

    @cached_property
    def original(self) -> Graph[SystemTable]:
        """All that the original can reach there."""
        if self.cone == self.scope.largest:
            return self.scope.graph
        return explore(SystemTable(self.scope.system, cone=self.cone))

    def same(self, *, named: bool) -> bool:
        """Whether it takes the same steps in every state, with *named* in ways of the same names."""
        return same_steps(self.original, SystemTable(self.system, cone=self.cone), named=named)

    @cached_property
    def bisimilar(self) -> bool:
        """Whether no observation distinguishes it from the system."""
        return bisimilar_systems(self.original, explore(SystemTable(self.system, cone=self.cone)))
