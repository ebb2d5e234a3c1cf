"""Events that may have happened to all entities unobserved, and those without which the trace is not legal."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fsm.machine.calls.configuration import Configurations
from fsm.machine.calls.unobserved import ASSUMED
from fsm.machine.findings import Assumed
from fsm.trace import Observation


@dataclass(slots=True)
class Assumptions:
    """What is possible, in the order of the trace; entities take it into account when they are next observed."""

    number: int = 0
    """How many were possible so far; they are counted from 0."""
    _possible: list[Assumed] = field(default_factory=list)
    _first: int = 0
    _latest: dict[str, tuple[int, Assumed]] = field(default_factory=dict)
    _needed: dict[tuple[object, ...], Assumed] = field(default_factory=dict)

    def take(self, possible: Assumed) -> None:
        """One more was *possible*."""
        self._possible.append(possible)
        self._latest[possible.observation.event] = (self.number, possible)
        self.number += 1

    def between(self, first: int, end: int) -> Sequence[Assumed]:
        """Those from number *first* on that are before the *end*, but for what was shed."""
        return self._possible[max(0, first - self._first) : max(0, end - self._first)]

    def since(self, first: int) -> Collection[Observation]:
        """The last event of each kind, of those from number *first* on."""
        shed = {event: each for event, (at, each) in self._latest.items() if first <= at < self._first}
        kept = {each.observation.event: each for each in self.between(first, self.number)}
        return [each.observation for each in (shed | kept).values()]

    def shed(self, most: int) -> None:
        """Keep the last of each kind, and *most* in all."""
        if len(self._possible) > 2 * most:
            self._first += len(self._possible) - most
            del self._possible[:-most]

    def need(self, among: Sequence[Assumed]) -> None:
        """One of those *among* these happened: one that is needed anyway, or the latest."""
        known = {_which(each): each for each in among}
        if known and self._needed.keys().isdisjoint(known):
            self._needed.update([known.popitem()])

    def needed(self) -> tuple[Assumed, ...]:
        """Those without which the trace is not legal, in the order in which that was found."""
        return tuple(self._needed.values())


def _which(each: Assumed) -> tuple[object, ...]:
    """What two observations have in common that are of the same assumption: its times, or else its line."""
    seen = each.observation
    return (seen.event, seen.entity, seen.start, seen.end) if seen.start is not None else (each.file, each.line)


def rests_on_one(configurations: Configurations) -> bool:
    """Whether any of *configurations* is possible only by an assumption."""
    return any(is_one(name) for each in configurations for name in each.deviations)


def is_one(deviation: str) -> bool:
    """Whether *deviation*, on which a configuration rests, is an assumption."""
    return deviation.startswith(ASSUMED)
