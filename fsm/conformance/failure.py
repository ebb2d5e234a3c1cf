"""Failed tests: their steps, the response to each step, and the reason for the failure."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from fsm.conformance.plan import Point
from fsm.machine import Clause
from fsm.machine.findings import Violation
from fsm.monitor.property_watch import Violated
from fsm.sut import Response, Stimulus

WITHOUT_STATES: Final = 4
"""Length of the prefix of :attr:`Failure.kind` that does not depend on the states before the failing step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A step, its response, and the point before it. ``came`` is the step with the outcome that occurred instead."""

    step: Stimulus
    seen: Response | None
    point: Point | None = None
    came: Stimulus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A test that failed at its last step, and the reason.

    If the failure does not always recur, ``repeated`` is the number of repetitions that failed and the number of all
    repetitions. If the SUT has broken a promise (``broken``), ``clause`` is the clause of the cell concerned. ``hint``
    suggests a fix if the adapter is probably at fault. ``also`` lists the states, where known, from which other tests
    failed with the same cause.
    """

    trace: tuple[Taken, ...] = ()
    violation: Violation | None = None
    breaks: Violated | None = None
    broken: str = ""
    hint: str = ""
    clause: Clause | None = None
    repeated: tuple[int, int] | None = None
    also: tuple[tuple[str, ...], ...] = ()

    @property
    def steps(self) -> tuple[Stimulus, ...]:
        return tuple(taken.step for taken in self.trace)

    @property
    def began(self) -> tuple[tuple[str, ...], ...]:
        """A tuple with one element, the states possible before the last step; empty if they are not known."""
        return () if self.violation is None else (self.violation.before,)

    @property
    def kind(self) -> tuple[object, ...]:
        """A key shared by failures that have the same cause."""
        where = self.trace[-1].step[:2] if self.trace else ()  # the event and its stage
        if self.breaks is not None:
            return ("breaks", self.breaks.of.name)
        if (found := self.violation) is None:
            return (*where, "broken")
        return (*where, found.cause, found.clause.name, found.before)


@dataclass(slots=True, kw_only=True)
class Causes:
    """Collects the shortest failure of each cause. ``shrunk`` shrinks a failure. Testing ends after ``most`` causes."""

    most: int
    shrunk: Callable[[Failure], Failure] = lambda failure: failure
    found: dict[tuple[object, ...], Failure] = field(default_factory=dict)

    def add(self, failure: Failure) -> bool:
        """Add *failure*. Return whether testing should end."""
        cause = failure.kind[:WITHOUT_STATES]
        known = self.found.get(cause)
        shortest = self.shrunk(failure) if known is None or len(failure.steps) < len(known.steps) else known
        states = dict.fromkeys((*known.also, *known.began, *failure.began) if known else ())
        also = tuple(each for each in states if each not in shortest.began)
        self.found[cause] = replace(shortest, also=also)
        return not failure.trace or len(self.found) >= self.most

    def failures(self) -> list[Failure]:
        return list(self.found.values())


class FailedError(Exception):
    """A step was not legal. ``failure`` has the details."""

    def __init__(self, failure: Failure) -> None:
        super().__init__()
        self.failure = failure
