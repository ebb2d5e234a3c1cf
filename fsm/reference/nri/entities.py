"""What the layer remembers of all entities of one kind: for each, where it stands in the machine."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from fsm.library import load
from fsm.machine.driver import Driver

if TYPE_CHECKING:
    from fsm.machine import Outcome
    from fsm.machine.driver import Position


class Memory:
    """The entities of the machine called *name*, under *profile* if one is named.

    Not locked: whoever owns it sees to that.

    >>> pods = Memory("nri-pod")
    >>> pods.take("p1", "run-pod-sandbox", "ok").to, pods.state("p1"), pods.state("p2")
    ('running', 'running', 'absent')
    """

    def __init__(self, name: str, profile: str = "") -> None:
        self._driver: Final = driver(name, profile)
        self._positions: dict[str, Position] = {}

    @property
    def outputs(self) -> frozenset[str]:
        """All that the machine ever puts out."""
        machine = self._driver.machine
        every = (
            way for name in machine.events for state in machine.states for way in self._driver.offered(name, state)
        )
        return frozenset(output for way in every for output in way.emits)

    def state(self, entity: str) -> str:
        """Where *entity* stands."""
        known = self._positions.get(entity)
        return known.state if known else self._driver.machine.initial

    def ways(self, entity: str, event: str) -> tuple[Outcome, ...]:
        """Every way in which *event* may go for *entity*."""
        return self._driver.offered(event, self.state(entity))

    def take(self, entity: str, event: str, outcome: str = "") -> Outcome:
        """Let *event* happen to *entity*, and go the way that *outcome* names.

        One that is back in the initial state is forgotten: it is as if never seen.
        """
        position = self._positions.pop(entity, None) or self._driver.position()
        try:
            return position.take(event, outcome)
        finally:
            if position.state != self._driver.machine.initial:
                self._positions[entity] = position


@cache
def driver(name: str, profile: str) -> Driver:
    """What drives all entities of the machine called *name*, under *profile* if one is named; it holds none."""
    machine = load(name)
    return Driver(machine.under(profile))
