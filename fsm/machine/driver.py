"""A runtime for code that follows a machine, based on the ``transitions`` library.

A :class:`Driver` holds the machine.  Each entity has a :class:`Position`, which is the only way to change its state.
The code asks the position for the possible outcomes of an event, and reports the actual outcome.  It can change its
own data in the effect of an event, or in callbacks for entering and leaving states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from transitions import Machine as Transitions

from fsm.machine import Machine, Outcome
from fsm.machine.product.flatten import machine_of
from fsm.machine.product.system import System
from fsm.machine.table import tabulate


class CannotHappenError(Exception):
    """The event cannot happen in the entity's current state, or the machine is silent about it."""

    def __init__(self, machine: str, event: str, state: str) -> None:
        super().__init__(f"{machine}: {event} cannot happen in state {state}")
        self.event = event
        self.state = state


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A step from state ``source`` to state ``target``, caused by ``event`` with ``outcome``."""

    event: str
    outcome: Outcome
    source: str
    target: str


Callback: TypeAlias = Callable[[Change], object]
Callbacks: TypeAlias = Callback | Mapping[str, Callback]


class Driver:
    """Executes the machine *machine* for any number of entities.  A joint state of a system is one state.

    >>> from fsm.language.library import load
    >>> driver = Driver(load("examples/models/washer.toml"))
    >>> washer = driver.position(enter=lambda change: print("now", change.target))
    >>> [outcome.name for outcome in washer.outcomes("start")]
    ['begins', 'refused']
    >>> washer.take("start", "refused").reply
    ('NO_WATER',)
    >>> washer.take("start", "begins").name, washer.state
    now filling
    ('begins', 'filling')
    """

    def __init__(self, machine: Machine | System) -> None:
        self.machine = machine = machine_of(machine)
        self._engine = Transitions(
            model=None,
            model_attribute="_state",
            states=list(machine.states),
            initial=machine.initial,
            auto_transitions=False,
        )
        table = tabulate(machine)
        for way, (row, state) in zip(table.ways, table.origin, strict=True):
            # With a target, the library would exit the state and enter it again.
            target = None if way.to == state else table.states[way.to]
            at = table.rows[row]
            self._engine.add_transition(_trigger(at.event.name, way.name, ends=at.ends), table.states[state], target)

    def position(self, at: str = "", *, enter: Callbacks | None = None, leave: Callbacks | None = None) -> Position:
        """Return the position of a new entity, which is in the state *at* or by default in the initial state.

        :meth:`Position.take` describes when *leave* and *enter* are called.  Raise ``ValueError`` if a state is
        unknown.
        """
        at = at or self.machine.initial
        entering, leaving = (
            {} if each is None else each if isinstance(each, Mapping) else dict.fromkeys(self.machine.states, each)
            for each in (enter, leave)
        )
        for state in (at, *entering, *leaving):
            if state not in self.machine.states:
                raise ValueError(f"{self.machine.name} has no state {state!r}; it has {', '.join(self.machine.states)}")
        # Don't add the position to the engine's models: the engine would keep it alive and add methods to it.
        return Position(self, at, enter=entering, leave=leaving)

    def fire(self, position: Position, step: str) -> None:
        self._engine.events[step].trigger(position)

    def offered(self, event: str, state: str) -> tuple[Outcome, ...]:
        return self.machine.step(state, event) or ()


class Position:
    """The current state of one entity, which :meth:`Driver.position` creates.  It is not thread-safe."""

    def __init__(
        self, driver: Driver, state: str, *, enter: Mapping[str, Callback], leave: Mapping[str, Callback]
    ) -> None:
        self._driver = driver
        self._state = state
        self._enter = enter
        self._leave = leave
        self._leaving = ""

    @property
    def state(self) -> str:
        return self._state

    @property
    def shows(self) -> str:
        return self._driver.machine.states[self.state].shows

    def outcomes(self, event: str, *, ends: bool = False) -> tuple[Outcome, ...]:
        """Return the outcomes that *event* may have in the current state, in the model's order.

        If *ends* is true, return the outcomes with which a call in progress may end.  Raise ``ValueError`` if *event*
        is unknown, and :class:`CannotHappenError` if it cannot happen or the machine is silent about it.
        """
        machine = self._driver.machine
        ways = machine.step(self.state, event, ends=ends)
        if not ways:
            raise CannotHappenError(machine.name, event, self.state)
        return ways

    def take(self, event: str, outcome: str = "", *, ends: bool = False, effect: Callback | None = None) -> Outcome:
        """Take *event* with *outcome* and return that outcome.

        If *event* has only one possible outcome, *outcome* is ignored and may be omitted.  First, the *leave*
        callback of the old state is called, then *effect*, and then the *enter* callback of the new state.  If the
        state does not change, only *effect* is called.  If *leave* or *effect* raises an exception, the entity stays
        in the old state.  If *enter* raises one, the entity is already in the new state.  Earlier callbacks are not
        undone.

        An *enter* callback may take the next event.  A *leave* or *effect* callback that takes an event raises
        ``RuntimeError``.  In addition to the errors of :meth:`outcomes`, this method raises ``ValueError`` if there
        are several possible outcomes and *outcome* is not one of them.
        """
        if self._leaving:
            raise RuntimeError(f"{event} cannot happen while {self._leaving} leaves state {self.state}")
        found = self.outcomes(event, ends=ends)
        taken = found[0] if len(found) == 1 else next((each for each in found if each.name == outcome), None)
        if taken is None:
            named = ", ".join(each.name for each in found)
            raise ValueError(f"{event} in state {self.state} has no outcome {outcome!r}; it has {named}")
        change = Change(event=event, outcome=taken, source=self.state, target=taken.to)
        moves = change.source != change.target
        self._leaving = event
        try:
            if moves and change.source in self._leave:
                self._leave[change.source](change)
            if effect is not None:
                effect(change)
            self._driver.fire(self, _trigger(event, taken.name, ends=ends))
        finally:
            self._leaving = ""
        if moves and change.target in self._enter:
            self._enter[change.target](change)
        return taken


def _trigger(event: str, outcome: str, *, ends: bool) -> str:
    return f"{'…' if ends else ''}{event}/{outcome}"
