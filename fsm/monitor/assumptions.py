"""Events that may have happened to all entities unobserved, and those without which the trace is not legal."""

from collections.abc import Collection
from dataclasses import dataclass, field

from fsm.machine.calls.belief import ASSUMED
from fsm.machine.calls.configuration import Configurations
from fsm.trace import Observation
from fsm.verdict import Assumed


@dataclass(slots=True)
class Assumptions:
    """What is ``possible``, in the order of the trace; entities take it into account when they are next observed."""

    possible: list[Assumed] = field(default_factory=list)
    _needed: dict[tuple[int | None, int | None], Assumed] = field(default_factory=dict)

    def since(self, first: int) -> Collection[Observation]:
        """The last event of each kind, of those from number *first* on."""
        return {each.observation.event: each.observation for each in self.possible[first:]}.values()

    def need(self, first: int, last: int) -> None:
        """One of those from number *first* to *last*, excluded, happened: one that is needed anyway, or the latest."""
        among = {(each.observation.start, each.observation.end): each for each in self.possible[first:last]}
        if self._needed.keys().isdisjoint(among):
            self._needed.update([among.popitem()])

    def needed(self) -> tuple[Assumed, ...]:
        """Those without which the trace is not legal, in the order in which that was found."""
        return tuple(self._needed.values())


def rests_on_one(configurations: Configurations) -> bool:
    """Whether any of *configurations* is possible only by an assumption."""
    return any(is_one(name) for each in configurations for name in each.deviations)


def is_one(deviation: str) -> bool:
    """Whether *deviation*, on which a configuration rests, is an assumption."""
    return deviation.startswith(ASSUMED)
