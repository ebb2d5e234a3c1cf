"""Known defects, which are properties that fail in one profile and hold in another.

Either the model as shipped has the defect and the profile has the fix, or the profile has the upstream behaviour and
the property holds in the model.  A defect that is proved but has no counterexample run is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fsm.checker import decide, stepping_of
from fsm.language.library import claims, specified, systems
from fsm.machine import Machine
from fsm.machine.claims import KnownFailure, Property, Specification
from fsm.machine.evidence import Checked, Proved, Refuted, Run
from fsm.machine.product.system import System

UPSTREAM: Final = "upstream"

MENDED: Final = "mended"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDefect:
    """A property that fails under ``profile`` and should hold under ``mend``.

    ``None`` represents the model without a profile.
    """

    of: Specification[Machine | System]
    stated: Property
    known: KnownFailure
    profile: str | None
    mend: str | None
    broken: Checked
    mended: Checked

    @property
    def run(self) -> Run | None:
        return self.broken.verdict.run if isinstance(self.broken.verdict, Refuted) else None

    @property
    def proved(self) -> bool:
        return not self.broken.unexpected and isinstance(self.mended.verdict, Proved)


def known_defects(*names: str) -> Iterator[KnownDefect]:
    """Yield the known defects of the machines and systems in *names*, or in all bundled models.

    >>> [each.stated.name for each in known_defects("event-backoff")]
    ['nothing-is-lost']
    """
    for name in names or (*systems(), *specified()):
        yield from _find_defects(claims(name))


def _find_defects(of: Specification[Machine | System]) -> Iterator[KnownDefect]:
    profiles = of.machine.profiles
    if not {UPSTREAM, MENDED} & set(profiles):
        return
    known = UPSTREAM if UPSTREAM in profiles else None
    mend = MENDED if known is None else None
    here, there = stepping_of(of.machine.under(known)), stepping_of(of.machine.under(mend))
    for stated in of.properties:
        failure = stated.expected(known)
        if failure is not None and stated.expected(mend) is None:
            broken, mended = decide(stated, here, profile=known), decide(stated, there, profile=mend)
            found = KnownDefect(
                of=of, stated=stated, known=failure, profile=known, mend=mend, broken=broken, mended=mended
            )
            if found.run is not None or not found.proved:
                yield found
