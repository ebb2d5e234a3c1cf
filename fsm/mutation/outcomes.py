"""Which properties the mutants of a machine break, and which mutants are equivalent to it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from fsm.checker import decide
from fsm.checker.cones import Cones
from fsm.checker.instants import StepCache
from fsm.equivalence import bisimilar
from fsm.machine import Machine
from fsm.machine.table import tabulate
from fsm.mutation.cell_mutants import Mutant, mutants
from fsm.mutation.system_mutants import JointMutant
from fsm.property.claims import Follows, MatchesDiagram, Property, Refines
from fsm.property.evidence import Checked, Proved, Undecided

M_co = TypeVar("M_co", bound=Mutant | JointMutant, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationOutcome(Generic[M_co]):
    """The properties that a mutant breaks, or that it is equivalent to the original."""

    mutant: M_co
    killers: tuple[str, ...] = ()
    equivalent: bool = False

    @property
    def survives(self) -> bool:
        """Whether it is not equivalent, and breaks no property."""
        return not self.killers and not self.equivalent


def mutation_outcomes(
    machine: Machine,
    properties: Sequence[Property],
    *,
    profile: str | None = None,
    whole: bool = True,
    advanced: Callable[[], None] = lambda: None,
) -> Iterator[MutationOutcome[Mutant]]:
    """The outcome of each mutant of *machine*, as *profile* has it; *advanced* is called after each.

    Without *whole* one killer is enough: others are not looked for.  Properties that compare the machine with another
    take long, and are checked only for mutants that break none of the others.
    """
    slow = [each for each in properties if isinstance(each.claim, Refines | Follows | MatchesDiagram)]
    quick = [each for each in properties if each not in slow]
    profiled = machine.under(profile)
    table = tabulate(profiled)
    stepping = StepCache(table)
    for mutant in mutants(profiled):
        changed = tabulate(mutant.machine, like=table)
        # Where calls begin elsewhere, steps have changed in other states too.
        alike = changed.begun == table.begun and len(changed.rows) == len(table.rows)
        steps = StepCache(changed, like=stepping if alike else None, but=table.states.index(mutant.state))
        found = killers(quick, steps, profile, whole=whole)
        equivalent = not found and bisimilar(table, changed)
        if not found and not equivalent:
            found = killers(slow, steps, profile, whole=whole)
        if found and not whole:  # the next one is much like it
            quick.sort(key=lambda each: each.name != found[0])
        yield MutationOutcome(mutant=mutant, killers=found, equivalent=equivalent)
        advanced()


def killers(
    properties: Iterable[Property], steps: StepCache | Cones, profile: str | None, *, whole: bool = True
) -> tuple[str, ...]:
    """The names of those of *properties* that are not as stated; unless *whole*, of the first of them."""
    broken = (each.name for each in properties if not as_stated(decide(each, steps, profile=profile)))
    return tuple(islice(broken, None if whole else 1))


def as_stated(checked: Checked) -> bool:
    """Whether the property is proved, or fails as is known."""
    return not checked.unexpected if checked.expected else isinstance(checked.verdict, Proved | Undecided)
