"""The states of all pods, or of all containers, as the layer remembers them."""

from collections.abc import Iterable
from typing import Final

from fsm.machine import Outcome
from fsm.machine.driver import Position
from fsm.machine.table import tabulate
from fsm.reference.driven import driver
from fsm.reference.nri.messages import Container


class EntityStates:
    """The states of the entities of the machine called *name*, under *profile* if one is named.  Not thread-safe.

    >>> pods = EntityStates("nri-pod")
    >>> pods.take("p1", "run-pod-sandbox", "ok").to, pods.state("p1"), pods.state("p2")
    ('running', 'running', 'absent')
    """

    def __init__(self, name: str, profile: str = "") -> None:
        self._driver: Final = driver(name, profile)
        self._positions: dict[str, Position] = {}

    @property
    def outputs(self) -> frozenset[str]:
        return frozenset(output for way in tabulate(self._driver.machine).ways for output in way.emits)

    def state(self, entity: str) -> str:
        known = self._positions.get(entity)
        return known.state if known else self._driver.machine.initial

    def outcomes(self, entity: str, event: str) -> tuple[Outcome, ...]:
        return self._driver.offered(event, self.state(entity))

    def take(self, entity: str, event: str, outcome: str = "") -> Outcome:
        """Take *outcome* of *event* for *entity*, which is forgotten if it returns to the initial state."""
        position = self._positions.pop(entity, None) or self._driver.position()
        try:
            return position.take(event, outcome)
        finally:
            if position.state != self._driver.machine.initial:
                self._positions[entity] = position

    def synchronise(self, containers: Iterable[Container]) -> None:
        """Set the states of *containers* as they are listed; those that are not listed keep theirs."""
        for container in containers:
            self.take(container.id, container.state.event)
