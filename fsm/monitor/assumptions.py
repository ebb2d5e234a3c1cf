"""Events that may have happened to all entities unobserved, and those that the trace needs to be legal."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fsm.machine.calls.configuration import Configurations
from fsm.machine.calls.unobserved import ASSUMED
from fsm.machine.findings import Assumed
from fsm.trace import Observation


@dataclass(slots=True)
class Assumptions:
    """The possible events, in trace order.  An entity takes them into account when it is next observed."""

    number: int = 0
    """Number of possible events so far.  They are numbered from 0."""
    _possible: list[Assumed] = field(default_factory=list)
    _first: int = 0
    _latest: dict[str, tuple[int, Assumed]] = field(default_factory=dict)
    _needed: dict[tuple[object, ...], Assumed] = field(default_factory=dict)

    def take(self, possible: Assumed) -> None:
        """Add a possible event."""
        self._possible.append(possible)
        self._latest[possible.observation.event] = (self.number, possible)
        self.number += 1

    def between(self, first: int, end: int) -> Sequence[Assumed]:
        """Return the possible events from number *first* up to but excluding *end*, except those that were shed."""
        return self._possible[max(0, first - self._first) : max(0, end - self._first)]

    def since(self, first: int) -> Collection[Observation]:
        """Return the last possible event of each kind, starting at number *first*."""
        shed = {event: each for event, (at, each) in self._latest.items() if first <= at < self._first}
        kept = {each.observation.event: each for each in self.between(first, self.number)}
        return [each.observation for each in (shed | kept).values()]

    def shed(self, most: int) -> None:
        """If there are more than twice *most* events, drop all but the latest *most* and the last of each kind."""
        if len(self._possible) > 2 * most:
            self._first += len(self._possible) - most
            del self._possible[:-most]

    def need(self, among: Sequence[Assumed]) -> None:
        """Record that one of *among* must have happened.  If none of them is needed already, choose the latest."""
        known = {_which(each): each for each in among}
        if known and self._needed.keys().isdisjoint(known):
            self._needed.update([known.popitem()])

    def needed(self) -> tuple[Assumed, ...]:
        """Return the events without which the trace is illegal, in the order they were found."""
        return tuple(self._needed.values())


def _which(each: Assumed) -> tuple[object, ...]:
    """Return the identity of an assumption: its event, entity and times, or its file and line if it has no times."""
    seen = each.observation
    return (seen.event, seen.entity, seen.start, seen.end) if seen.start is not None else (each.file, each.line)


def rests_on_one(configurations: Configurations) -> bool:
    """Check whether any of *configurations* rests on an assumption."""
    return any(is_one(name) for each in configurations for name in each.deviations)


def is_one(deviation: str) -> bool:
    """Check whether the name *deviation* stands for an assumption."""
    return deviation.startswith(ASSUMED)
