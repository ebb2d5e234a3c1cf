"""What the specification has found: what is known to fail, and the change that mends it, both proved anew.

A finding is a property that fails in a system or a machine as it is and holds
in the profile that mends it, or fails in a machine as it was written and holds
in the machine as it should be.  That something cannot happen at all has no run to
show, and is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fsm.checker import check
from fsm.checker.cones import Cones
from fsm.checker.instants import StepCache
from fsm.library import claims, specified, systems
from fsm.machine.table import tabulate
from fsm.property.claims import JointSpecification
from fsm.property.evidence import Proved, Refuted, Run, Unexplained

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.property.claims import KnownFailure, Property, Specification
    from fsm.property.evidence import Checked

AS_WRITTEN: Final = "as-written"
"""The profile of a machine that has the defects of what it was made from."""

MENDED: Final = "mended"
"""The profile of a system, or of a machine, that mends what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDefect:
    """That a property fails, with the run that shows it; and whether it holds with the change that is to mend it.

    ``profile`` is where it fails, ``mend`` where it holds; ``None`` is
    without a profile.
    """

    of: Specification | JointSpecification
    stated: Property
    known: KnownFailure
    profile: str | None
    mend: str | None
    broken: Checked
    mended: Checked

    @property
    def run(self) -> Run | None:
        """The shortest run that shows it, if there is one to show."""
        if not isinstance(self.broken.verdict, Refuted):
            return None
        evidence = self.broken.verdict.evidence
        run = evidence.run if isinstance(evidence, Unexplained) else evidence
        return run if isinstance(run, Run) else None

    @property
    def proved(self) -> bool:
        """Whether all of it is so: it fails as is known, and holds where it is mended."""
        return not self.broken.unexpected and isinstance(self.mended.verdict, Proved)


def known_defects(*names: str) -> Iterator[KnownDefect]:
    """What was found in the machines and systems called *names*; in all that are shipped if there is none.

    >>> [each.stated.name for each in known_defects("event-backoff")]
    ['nothing-is-lost']
    """
    for name in names or (*systems(), *specified()):
        yield from _found(claims(name))


def _found(of: Specification | JointSpecification) -> Iterator[KnownDefect]:
    profiles = of.machine.profiles
    if not {AS_WRITTEN, MENDED} & set(profiles):
        return
    known = AS_WRITTEN if AS_WRITTEN in profiles else None
    mend = MENDED if known is None else None
    here, there = _steps(of, known), _steps(of, mend)
    for stated in of.properties:
        failure = stated.expected(known)
        if failure is not None and stated.expected(mend) is None:
            broken, mended = check(stated, here, profile=known), check(stated, there, profile=mend)
            found = KnownDefect(
                of=of, stated=stated, known=failure, profile=known, mend=mend, broken=broken, mended=mended
            )
            if found.run is not None or not found.proved:
                yield found


def _steps(of: Specification | JointSpecification, profile: str | None) -> StepCache | Cones:
    if isinstance(of, JointSpecification):
        return Cones(system=of.machine.profiles[profile].system if profile else of.machine)
    return StepCache(tabulate(of.machine.under(profile)))
