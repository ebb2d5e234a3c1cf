"""Group violations by cause.

The first few violations of each cause are kept in full. The others are only counted.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fsm.machine import Deviation, Level
from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.machine.calls.unobserved import ASSUMED
from fsm.machine.findings import Assumed, Deviated, Edit, Finding, Repair, Tolerated, Violation
from fsm.monitor.diagnosis import Explained
from fsm.trace import Line, Observation, key

WHOLE: Final = 3

CAUSES: Final = 1_000
"""Maximum number of causes to keep separately.  Violations of further causes are only counted, by level."""

NAMED: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A violation that waits for the next observation of its entity, which may show which edits are most likely."""

    observation: Observation
    place: Line
    before: Configurations
    explained: Explained

    def closed(self, dynamics: Dynamics, following: Observation | None) -> Violation:
        edits = list(self.explained.edits)
        if following is not None:
            after = key(following)
            edits.sort(key=lambda each: not dynamics.after(each[1], after))
            swapped = following.event != self.observation.event and dynamics.after(self.before, after)
            if swapped and dynamics.after(swapped, key(self.observation)):
                name = following.event or following.shows or following.output
                edits.insert(0, (Edit(repair=Repair.SWAPPED, instead=name), swapped))
        machine = dynamics.table.machine
        return self.explained.violation(machine, self.observation, (edit for edit, _ in edits), self.place)


@dataclass(slots=True)
class _Group:
    whole: list[Violation] = field(default_factory=list)
    count: int = 0
    entities: set[str] = field(default_factory=set)

    def copy(self) -> "_Group":
        return _Group([*self.whole], self.count, {*self.entities})


class Folder:
    """Collects violations and tolerated deviations by cause. Memory is bounded unless *every* is true.

    Only observations that are ``wanted`` are collected. ``found`` is called with each violation as soon as it is
    found.
    """

    def __init__(self, *, every: bool = False, wanted: Callable[[Observation], bool] = lambda _: True) -> None:
        self.found: Callable[[Violation], None] | None = None
        self.wanted = wanted
        self._every = every
        self._causes: dict[tuple[object, ...], _Group] = {}
        self._others: dict[Level, _Group] = {}
        self._tolerated: dict[tuple[str, ...], Deviated] = {}
        self._each: dict[tuple[str, ...], list[Tolerated]] = {}

    def copy(self) -> "Folder":
        other = Folder(every=self._every, wanted=self.wanted)
        other._causes = {cause: group.copy() for cause, group in self._causes.items()}
        other._others = {level: group.copy() for level, group in self._others.items()}
        other._tolerated.update(self._tolerated)
        return other

    def tell(self, violation: Callable[[], Violation]) -> None:
        if self.found is not None and self.wanted((told := violation()).observation):
            self.found(told)

    def fold(self, violation: Violation, *, told: bool = False) -> None:
        """Add *violation*. Call ``found`` with it unless *told* is true, because it was reported before."""
        seen = violation.observation
        if not self.wanted(seen):
            return
        if not told:
            self.tell(lambda: violation)
        # Violations that the same known deviation explains have one cause, regardless of the edits that make them
        # legal.
        apart = tuple(each.name for each in violation.resembles) or violation.edits[:1]
        cause = (violation.cause, seen.event, violation.illegal, violation.clause, apart)
        if cause in self._causes or len(self._causes) < CAUSES:
            group = self._causes.setdefault(cause, _Group())
        else:
            group = self._others.setdefault(violation.clause.level, _Group())
        group.count += 1
        if self._every or len(group.whole) < WHOLE:
            group.whole.append(violation)
        if len(group.entities) < NAMED:
            group.entities.add(seen.entity)

    def tolerate(self, machine: str, deviations: Sequence[Deviation], seen: Observation, place: Line) -> None:
        if not self.wanted(seen):
            return
        first, *others = deviations
        met = Tolerated(
            machine=machine, deviation=first, others=tuple(others), observation=seen, file=place.file, line=place.number
        )
        names = tuple(each.name for each in deviations)
        known = self._tolerated.setdefault(names, Deviated(first=met, count=0))
        self._tolerated[names] = replace(known, count=known.count + 1)
        if self._every:
            self._each.setdefault(names, []).append(met)

    def findings(self) -> tuple[Finding, ...]:
        """Return a finding for each cause in order of first appearance, then one per level for other causes."""
        groups = [(each, False) for each in self._causes.values()] + [(each, True) for each in self._others.values()]
        return tuple(
            Finding(first=tuple(each.whole), count=each.count, entities=len(each.entities), others=others)
            for each, others in groups
        )

    def tolerated(self) -> tuple[Deviated, ...]:
        return tuple(replace(each, whole=tuple(self._each.get(names, ()))) for names, each in self._tolerated.items())


@dataclass(slots=True)
class Assumptions:
    """Possible events in trace order, which each entity takes into account when it is next observed."""

    number: int = 0
    _possible: list[Assumed] = field(default_factory=list)
    _first: int = 0
    _latest: dict[str, tuple[int, Assumed]] = field(default_factory=dict)
    _needed: dict[tuple[object, ...], Assumed] = field(default_factory=dict)

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
        """Drop old events once more than twice *most* are stored.

        The latest *most* events and the last event of each kind are kept.
        """
        if len(self._possible) > 2 * most:
            self._first += len(self._possible) - most
            del self._possible[:-most]

    def need(self, among: Sequence[Assumed]) -> None:
        """Record that one of the events *among* must have happened.

        If none of them is needed already, the latest is recorded.
        """
        known = {_assumption_identity(each): each for each in among}
        if known and self._needed.keys().isdisjoint(known):
            self._needed.update([known.popitem()])

    def needed(self) -> tuple[Assumed, ...]:
        return tuple(self._needed.values())


def _assumption_identity(each: Assumed) -> tuple[object, ...]:
    """Identify an assumption by its event, entity and times, or by its file and line if it has no times."""
    seen = each.observation
    return (seen.event, seen.entity, seen.start, seen.end) if seen.start is not None else (each.file, each.line)


def depends_on_assumption(configurations: Configurations) -> bool:
    return any(is_one(name) for each in configurations for name in each.deviations)


def is_one(deviation: str) -> bool:
    return deviation.startswith(ASSUMED)
