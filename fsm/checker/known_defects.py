"""Known defects: properties that fail in one profile and hold in another one.

Both results are verified.  In one case, the property fails in the model as shipped and holds in the profile with the
fix.  In the other case, the property fails in a profile that reproduces the upstream behaviour, and holds in the
model itself.  A defect without a counterexample run is listed only if it is not :attr:`~KnownDefect.proved`.
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
"""Profile that reproduces the defects of the modelled code."""

MENDED: Final = "mended"
"""Profile in which the defects are fixed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDefect:
    """A property that fails under the profile ``profile`` and should hold under ``mend``.

    ``None`` means no profile.
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
        """Whether the property fails as documented and holds with the fix."""
        return not self.broken.unexpected and isinstance(self.mended.verdict, Proved)


def known_defects(*names: str) -> Iterator[KnownDefect]:
    """Yield the known defects of the machines and systems in *names*.

    If *names* is empty, use all bundled machines and systems.

    >>> [each.stated.name for each in known_defects("event-backoff")]
    ['nothing-is-lost']
    """
    for name in names or (*systems(), *specified()):
        yield from _found(claims(name))


def _found(of: Specification[Machine | System]) -> Iterator[KnownDefect]:
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
