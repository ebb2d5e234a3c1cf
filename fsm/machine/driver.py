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
from fsm.machine.guards import encoded, may_agree
from fsm.machine.product.flatten import machine_of
from fsm.machine.product.system import System
from fsm.machine.table import tabulate
from fsm.machine.terms import Argument, Values


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
        self.table = table = tabulate(machine)
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

    def possible(
        self, state: str, event: str, values: Values, arguments: Values, *, ends: bool
    ) -> list[tuple[Outcome, Values]]:
        """Return the outcomes that the data allow, each with the values after it."""
        outcomes = self.machine.step(state, event, ends=ends) or ()
        if self.table.data is None or not outcomes:
            return [(each, values) for each in outcomes]
        row = self.table.row[event]
        row = self.table.end[row] if ends else row
        ways = self.table.step(self.table.states.index(state), row)
        found = self.table.data.outcomes(ways, row, values, arguments) or ()
        numbered = {way.index: each for way, each in zip(ways or (), outcomes, strict=True)}
        return [(numbered[way.index], after) for way, after in found]


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

        self._values = driver.table.data.initial if driver.table.data else ()
        self._calls: list[tuple[str, Values]] = []  # the calls in progress, with their arguments

    @property
    def state(self) -> str:
        return self._state

    @property
    def data(self) -> dict[str, Argument | None]:
        """The values of the variables.  A value that depends on an argument that was not given is ``None``."""
        variables = self._driver.machine.data.values()
        pairs = zip(variables, self._values, strict=True)
        return {each.name: None if value is None else each.written(value) for each, value in pairs}

    @property
    def shows(self) -> str:
        return self._driver.machine.states[self.state].shows

    def outcomes(self, event: str, *, ends: bool = False, **arguments: Argument) -> tuple[Outcome, ...]:
        """Return the outcomes that *event* with *arguments* may have in the current state, in the model's order.

        If *ends* is true, return the outcomes with which a call in progress may end.  It has the arguments with which
        it began; *arguments* only tell it from other calls of *event* that are in progress.  Raise ``ValueError`` if
        *event* or an argument is unknown, and :class:`CannotHappenError` if the event cannot happen, or if the machine
        is silent about it.
        """
        return tuple(each for each, _ in self._possible(event, arguments, ends=ends)[0])

    def _possible(
        self, event: str, arguments: Mapping[str, Argument], *, ends: bool
    ) -> tuple[list[tuple[Outcome, Values]], Values]:
        machine = self._driver.machine
        machine.step(self.state, event, ends=ends)  # raises ValueError if there is no such event
        given = encoded(machine.events[event], arguments)
        if ends and machine.events[event].arguments and any(name == event for name, _ in self._calls):
            those = {began for name, began in self._calls if name == event and may_agree([given], [began])}
            if len(those) != 1:
                which = f"{len(those)} different calls" if those else "no call"
                raise ValueError(f"{which} of {event} with these arguments can end; give those that one began with")
            (given,) = those
        found = self._driver.possible(self.state, event, self._values, given, ends=ends)
        if not found:
            raise CannotHappenError(machine.name, event, self.state)
        return found, given

    def take(
        self,
        event: str,
        outcome: str = "",
        *,
        ends: bool = False,
        effect: Callback | None = None,
        **arguments: Argument,
    ) -> Outcome:
        """Take *event* with *outcome* and *arguments*, and return that outcome.

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
        possible, given = self._possible(event, arguments, ends=ends)
        one = len(possible) == 1
        taken, values = next(((each, after) for each, after in possible if one or each.name == outcome), (None, ()))
        if taken is None:
            named = ", ".join(each.name for each, _ in possible)
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
            self._values = values
            if ends and (event, given) in self._calls:
                self._calls.remove((event, given))
            if self._driver.machine.events[event].interrupts:
                self._calls.clear()
            if taken.begins:
                self._calls.append((event, given))
        finally:
            self._leaving = ""
        if moves and change.target in self._enter:
            self._enter[change.target](change)
        return taken


def _trigger(event: str, outcome: str, *, ends: bool) -> str:
    return f"{'…' if ends else ''}{event}/{outcome}"
