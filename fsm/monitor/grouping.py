"""Group violations by cause. The first few violations of each cause are kept, and the others are only counted."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, Generic, TypeVar

from fsm.machine import Deviation, Level
from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.machine.calls.unobserved import ASSUMED
from fsm.machine.findings import Assumed, Deviated, Edit, Finding, Repair, Tolerated, Violation
from fsm.monitor.diagnosis import Explained
from fsm.trace import Line, Observation

T = TypeVar("T")

WHOLE: Final = 3

CAUSES: Final = 1_000
"""Maximum number of causes with their own group.  Violations with other causes are grouped by level."""

NAMED: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A violation that waits for the next observation of its entity, which helps to find the likely edits."""

    observation: Observation
    place: Line
    before: Configurations
    explained: Explained

    def closed(self, dynamics: Dynamics, following: Observation | None) -> Violation:
        edits = list(self.explained.edits)
        if following is not None:
            after = dynamics.key(following)
            edits.sort(key=lambda each: not dynamics.after(each[1], after))
            swapped = following.event != self.observation.event and dynamics.after(self.before, after)
            if swapped and dynamics.after(swapped, dynamics.key(self.observation)):
                name = following.event or following.shows or following.output
                edits.insert(0, (Edit(repair=Repair.SWAPPED, instead=name), swapped))
        machine = dynamics.table.machine
        return replace(self.explained, edits=tuple(edits)).violation(machine, self.observation, self.place)


@dataclass(slots=True)
class FindingGroup(Generic[T]):
    """Violations or deviations with the same cause. Only the first few are kept, but all are counted."""

    whole: list[T] = field(default_factory=list)
    count: int = 0
    entities: set[str] = field(default_factory=set)

    def add(self, each: T, entity: str, most: float = WHOLE) -> None:
        self.count += 1
        if len(self.whole) < most:
            self.whole.append(each)
        if len(self.entities) < NAMED:
            self.entities.add(entity)


class Folder:
    """Collects violations and tolerated deviations by cause. Memory is bounded unless *every* is true.

    Observations that are not ``wanted`` are ignored. ``found`` is called with each violation as soon as it is found.
    """

    def __init__(self, *, every: bool = False, wanted: Callable[[Observation], bool] = lambda _: True) -> None:
        self.found: Callable[[Violation], None] | None = None
        self.wanted = wanted
        self._every = every
        self._violations: dict[tuple[object, ...] | Level, FindingGroup[Violation]] = {}
        """The violations of each cause and, for the remaining causes, the violations at each level."""
        self._tolerated: dict[tuple[str, ...], FindingGroup[Tolerated]] = {}

    def copy(self) -> "Folder":
        """Return a copy with only the violations."""
        other = Folder(every=self._every, wanted=self.wanted)
        groups = self._violations.items()
        other._violations = {cause: FindingGroup([*each.whole], each.count, {*each.entities}) for cause, each in groups}
        return other

    def tell(self, violation: Callable[[], Violation]) -> None:
        if self.found is not None and self.wanted((told := violation()).observation):
            self.found(told)

    def fold(self, violation: Violation, *, reported: bool = False) -> None:
        """Add *violation*. If it has not been *reported* yet, call ``found`` with it."""
        seen = violation.observation
        if not self.wanted(seen):
            return
        if not reported:
            self.tell(lambda: violation)
        # Violations that the same known deviations explain have the same cause, whatever edits would fix them.
        apart = tuple(each.name for each in violation.resembles) or violation.edits[:1]
        cause = (violation.cause, seen.event, violation.illegal, violation.clause, apart)
        known = cause in self._violations or len(self._violations) < CAUSES
        group = self._violations.setdefault(cause if known else violation.clause.level, FindingGroup())
        group.add(violation, seen.entity, inf if self._every else WHOLE)

    def tolerate(self, machine: str, deviations: Sequence[Deviation], seen: Observation, place: Line) -> None:
        if not self.wanted(seen):
            return
        first, *others = deviations
        met = Tolerated(
            machine=machine, deviation=first, others=tuple(others), observation=seen, file=place.file, line=place.number
        )
        group = self._tolerated.setdefault(tuple(each.name for each in deviations), FindingGroup())
        group.add(met, seen.entity, inf if self._every else 1)

    def findings(self) -> tuple[Finding, ...]:
        """Return a finding per cause in order of first appearance, then one per level for the remaining causes."""
        return tuple(
            Finding(
                first=tuple(each.whole), count=each.count, entities=len(each.entities), others=isinstance(cause, str)
            )
            for cause, each in self._violations.items()
        )

    def tolerated(self) -> tuple[Deviated, ...]:
        return tuple(
            Deviated(first=each.whole[0], count=each.count, whole=tuple(each.whole) if self._every else ())
            for each in self._tolerated.values()
        )


@dataclass(slots=True)
class Assumptions:
    """Possible events in trace order. An entity takes them into account when it is next observed."""

    number: int = 0
    needed: dict[tuple[object, ...], Assumed] = field(default_factory=dict)
    """The events that must have happened."""
    _possible: list[Assumed] = field(default_factory=list)
    _first: int = 0
    _latest: dict[str, tuple[int, Assumed]] = field(default_factory=dict)

    def take(self, possible: Assumed) -> None:
        self._possible.append(possible)
        self._latest[possible.observation.event] = (self.number, possible)
        self.number += 1

    def between(self, first: int, end: int) -> Sequence[Assumed]:
        return self._possible[max(0, first - self._first) : max(0, end - self._first)]

    def since(self, first: int) -> Collection[Observation]:
        shed = {event: each for event, (at, each) in self._latest.items() if first <= at < self._first}
        kept = {each.observation.event: each for each in self.between(first, self.number)}
        return [each.observation for each in (shed | kept).values()]

    def shed(self, most: int) -> None:
        """If more than twice *most* events are stored, keep only the latest *most* and the last event of each kind."""
        if len(self._possible) > 2 * most:
            self._first += len(self._possible) - most
            del self._possible[:-most]

    def need(self, among: Sequence[Assumed]) -> None:
        """Record that at least one event in *among* must have happened.

        If none of these events is in ``needed`` yet, add the latest one.
        """
        known = dict[tuple[object, ...], Assumed]()
        for each in among:
            seen, place = each.observation, (each.file, each.line)
            known[place if seen.start is None else (seen.event, seen.entity, seen.start, seen.end)] = each
        if known and self.needed.keys().isdisjoint(known):
            self.needed.update([known.popitem()])


def depends_on_assumption(configurations: Configurations) -> bool:
    return any(name.startswith(ASSUMED) for each in configurations for name in each.deviations)
