"""Moves: steps of joint events, with what they may do to their copy and when they end the joint event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TypeAlias

from msgspec import structs

from fsm.machine.conditions import Condition
from fsm.machine.product.system import Part, PartStep
from fsm.machine.table import Done, Table, Way

Locals: TypeAlias = tuple[int, ...]
"""The state of each copy, indexed by digit.  Copies outside the cone are in their initial states."""

_Test: TypeAlias = "Callable[[Condition | None], Callable[[Locals], bool] | None]"
_Option: TypeAlias = "tuple[int, tuple[str, ...], Done, Done]"
"""The new state, the error replies that end the joint event, and what is done, with outputs and without them."""


class JointMove:
    """A *step* of a way, applied to the *table* of its *part*.

    If *call* is true, an error reply may end the joint event.  ``when`` checks whether the step is taken, and ``heard``
    whether its outputs are delivered; both depend on the states before the step.  ``options`` returns the options in a
    local state, and ``blocked`` those that are possible but left out.
    """

    def __init__(self, step: PartStep, table: Table, part: Part, test: _Test, *, call: bool) -> None:
        row = table.row[step.event] if step.event else -1
        self.step = step
        self.part = part
        self.at = step.copy.digit
        self.when = test(step.when)
        self.heard = test(part.heard)
        self.emitted = cache(self._emitted)
        self.options = cache(self._options)
        self.blocked = cache(self._blocked)
        self.states = len(table.states)
        self._ends = call and not step.goes_on
        self._table = table
        self._row = table.end[row] if step.ends else row
        self._reset = Way(index=-1, name="", to=table.states.index(part.initial), reply=(), emits=())

    @property
    def key(self) -> tuple[object, ...]:
        """A cache key.  Moves of one system table with equal keys have the same options."""
        return self.at, self.step.event, self.step.ends, self.step.outcomes, self._ends

    def _emitted(self) -> dict[tuple[str, ...], None]:
        """Return all outputs of the move, in the order of local states, as the keys of a dict."""
        options = (option for local in range(self.states) for option in self.options(local))
        return {done.emits: None for _, _, done, _ in options if done.emits}

    def _options(self, local: int) -> tuple[_Option, ...]:
        if self._row < 0:
            return tuple(self._each(local, self._reset))
        return self._offered(local, self._table.step(local, self._row) or ())

    def _blocked(self, local: int) -> tuple[_Option, ...]:
        return self._offered(local, self._table.blocked(local, self._row)) if self._row >= 0 else ()

    def _offered(self, local: int, ways: Iterable[Way]) -> tuple[_Option, ...]:
        possible = offered(ways, self.step.outcomes, self.part.without)
        return tuple(option for way in possible for option in self._each(local, way))

    def _each(self, local: int, way: Way) -> Iterator[_Option]:
        """Yield the options of *way*: to continue the joint event, to end it with an error reply, or both."""
        states, copy = self._table.states, self.step.copy
        done = Done(
            copy=copy.name,
            digit=copy.digit,
            event=self.step.event,
            ends=self.step.ends,
            outcome=way.name,
            source=states[local],
            target=states[way.to],
            emits=tuple(f"{output}{copy.suffix}" for output in way.emits),
            reply=way.reply,
        )
        silent = structs.replace(done, emits=())
        errors = tuple(reply for reply in way.reply if reply != "ok") if self._ends else ()
        if len(errors) < len(way.reply) or not way.reply:
            yield way.to, (), done, silent
        if errors:
            yield way.to, errors, done, silent


def offered(ways: Iterable[Way], outcomes: frozenset[str], without: frozenset[str]) -> Iterator[Way]:
    """Yield the *ways* whose name is in *outcomes* and not in *without*.  Empty *outcomes* allow any name."""
    for way in ways:
        if way.name not in without and (not outcomes or way.name in outcomes):
            yield way
