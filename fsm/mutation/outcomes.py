"""Which properties the mutants of a machine break, and which mutants are equivalent to it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fsm.checker import decide
from fsm.checker.instants import StepCache
from fsm.equivalence import bisimilar
from fsm.machine import Machine
from fsm.machine.table import tabulate
from fsm.mutation.cell_mutants import Mutant, mutants
from fsm.mutation.system_mutants import JointMutant
from fsm.property.claims import Follows, MatchesDiagram, Property, Refines
from fsm.property.evidence import Checked, Proved

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

    Without *whole* one killer is enough: others are not looked for.
    Properties that compare the machine with another take long, and are checked
    only for mutants that break none of the others.
    """
    quick = [each for each in properties if not isinstance(each.claim, Refines | Follows | MatchesDiagram)]
    slow = [each for each in properties if isinstance(each.claim, Refines | Follows | MatchesDiagram)]
    profiled = machine.under(profile)
    table = tabulate(profiled)
    stepping = StepCache(table)
    for mutant in mutants(profiled):
        changed = tabulate(mutant.machine, like=table)
        # Where calls begin elsewhere, steps have changed in other states too.
        alike = changed.begun == table.begun and len(changed.rows) == len(table.rows)
        steps = StepCache(changed, like=stepping if alike else None, but=table.states.index(mutant.state))
        killers = _killers(quick, steps, profile, whole=whole)
        equivalent = not killers and bisimilar(table, changed)
        if not killers and not equivalent:
            killers = _killers(slow, steps, profile, whole=whole)
        if killers and not whole:  # the next one is much like it
            quick.sort(key=lambda each: each.name != killers[0])
        yield MutationOutcome(mutant=mutant, killers=killers, equivalent=equivalent)
        advanced()


def _killers(properties: Sequence[Property], steps: StepCache, profile: str | None, *, whole: bool) -> tuple[str, ...]:
    """Those of *properties* that are not as stated; unless *whole*, the first of them."""
    found: list[str] = []
    for each in properties:
        if not as_stated(decide(each, steps, profile=profile)):
            found.append(each.name)
            if not whole:
                break
    return tuple(found)


def as_stated(checked: Checked) -> bool:
    """Whether the property is proved, or fails as is known."""
    return not checked.unexpected if checked.expected else isinstance(checked.verdict, Proved)
