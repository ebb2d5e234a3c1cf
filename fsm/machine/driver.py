"""Running code driven by a machine: `transitions` executes it, and code asks what may happen and says what did.

One :class:`Driver` holds the machine; each entity has a :class:`Position`,
which is moved by nothing else.  Whether a call may happen, what follows, what
is replied and what is sent out is read from the :class:`~fsm.machine.Outcome`
that is taken; code adds only what it does to data, and which of several
outcomes the world has chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transitions import Machine as Transitions

from fsm.machine import outcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from transitions import EventData

    from fsm.machine import Machine, Outcome

ENDS: Final = "…"
"""Before the name of a call whose end is meant."""


class NoWayError(Exception):
    """The machine has no way for an event in the state that the entity is in."""

    def __init__(self, machine: str, event: str, state: str) -> None:
        """*event* of *machine* cannot happen in *state*, or nothing is said of it."""
        super().__init__(f"{machine}: {event} cannot happen in state {state}")
        self.event = event
        self.state = state


class Driver:
    """*machine* as it is executed.

    >>> from fsm.library import load
    >>> container = Driver(load("container-status")).position()
    >>> [way.name for way in container.ways("create")]
    ['created', 'failed']
    >>> container.take("create", "created").reply, container.state
    (('ok',), 'created')
    >>> container.take("stop").name, container.state
    ('ignored', 'created')
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._ways = dict(_ways(machine))
        self._engine = Transitions(
            model=None,
            states=list(machine.states),
            initial=machine.initial,
            auto_transitions=False,
            send_event=True,
        )
        for (event, state), ways in self._ways.items():
            for way in ways:
                # Without a target nothing is left and entered again.
                target = None if way.to == state else way.to
                self._engine.add_transition(event, state, target, conditions=_meant(way.name))

    def position(self, at: str = "") -> Position:
        """Where a new entity stands: in the initial state, or in state *at*."""
        if at and at not in self.machine.states:
            states = ", ".join(self.machine.states)
            message = f"{self.machine.name} has no state {at!r}; it has {states}"
            raise ValueError(message)
        # Not a model of the engine, which would keep it for ever, and make methods of its own for it every time.
        return Position(self, _Place(at or self.machine.initial))

    def fire(self, place: _Place, event: str, outcome: str) -> None:
        """Let *event* happen at *place*, and go the way that *outcome* names."""
        self._engine.events[event].trigger(place, outcome=outcome)

    def offered(self, event: str, state: str) -> tuple[Outcome, ...]:
        """Every way in which *event*, the end of a call with :data:`ENDS` before it, may go in *state*."""
        return self._ways.get((event, state), ())


class Position:
    """Where one entity stands.  Not locked: whoever owns it sees to that."""

    def __init__(self, driver: Driver, place: _Place) -> None:
        self._driver = driver
        self._place = place

    @property
    def state(self) -> str:
        """The machine's name for it."""
        return self._place.state

    @property
    def shows(self) -> str:
        """What an observer reads there."""
        return self._driver.machine.states[self.state].shows

    def ways(self, event: str, *, ends: bool = False) -> tuple[Outcome, ...]:
        """Every way in which *event* may go here, in the order of the model.

        With ``ends``, in which a call that has begun may end.  Raises
        :class:`ValueError` for what is no event, :class:`NoWayError` where
        it cannot happen, or the machine is silent.
        """
        machine = self._driver.machine
        if event not in machine.events:
            message = f"{machine.name} has no event {event!r}; it has {', '.join(machine.events)}"
            raise ValueError(message)
        ways = self._driver.offered(ENDS + event if ends else event, self.state)
        if not ways:
            raise NoWayError(machine.name, event, self.state)
        return ways

    def take(self, event: str, outcome: str = "", *, ends: bool = False) -> Outcome:
        """Let *event* happen here, and go the way that *outcome* names.

        Where there is one way only it is that one, whatever it is called:
        what is ignored or refused is so however the world would choose.
        """
        ways = self.ways(event, ends=ends)
        way = ways[0] if len(ways) == 1 else next((each for each in ways if each.name == outcome), None)
        if way is None:
            named = ", ".join(each.name for each in ways)
            message = f"{event} in state {self.state} has no outcome {outcome!r}; it has {named}"
            raise ValueError(message)
        self._driver.fire(self._place, ENDS + event if ends else event, way.name)
        return way


class _Place:
    """What `transitions` moves."""

    __slots__ = ("state",)

    def __init__(self, state: str) -> None:
        self.state = state


def _ways(machine: Machine) -> Iterator[tuple[tuple[str, str], tuple[Outcome, ...]]]:
    for event in machine.events.values():
        for name, cells in ((event.name, event.cells), (ENDS + event.name, event.ends)):
            for state, cell in cells.items():
                yield (name, state), outcomes(cell, state, event.kind) or ()


def _meant(outcome: str) -> Callable[[EventData], bool]:
    """A condition of `transitions`: whether *outcome* is what was chosen."""

    def meant(told: EventData) -> bool:
        return bool(told.kwargs["outcome"] == outcome)

    return meant
