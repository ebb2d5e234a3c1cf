"""A machine together with what a property remembers of its runs, as one table.

The states of the product are the places of :mod:`~fsm.property_monitor.run_tracking`.
Beliefs about it (:mod:`fsm.machine.calls.belief`) are therefore beliefs about
the state of an entity and about the property at once: nothing else need be
known to follow a recording in which calls overlap, replies are lost and
events happen unobserved.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from fsm.checker.instants import InstantStep, StepCache, machine_table
from fsm.machine import ANY_ERROR
from fsm.machine.calls.belief import TooManyError
from fsm.machine.calls.rules import ASKED, CallInstant, Rules
from fsm.machine.table import Table, Way
from fsm.property.claims import Claim, conditions_of
from fsm.property_monitor.automata import Broken, memory
from fsm.property_monitor.run_tracking import RunPlace, advanced

PLACES: Final = 4_000
"""Places of one product; a larger one is not built."""


class PropertyProduct:
    """The product of the machine of *stepping* with *claim*, as *profile* has both.

    It has every place that a run comes to, from the initial state and from
    every state of which nothing else is known; :meth:`numbers` adds others.
    Numbers of places and of ways do not change.  An event and its reply, or
    nothing and an output, are in ``asking`` if they may put the claim to the
    test, in ``asking_later`` if they may after one that is in ``advancing``.  The end of a call where other
    events have moved the entity leads to where nothing else is known, as the
    checker does not follow calls there.  Raises :class:`TooManyError`
    where there are more than :data:`PLACES`.

    >>> from fsm.checker.instants import StepCache
    >>> from fsm.library import specification
    >>> from fsm.machine.table import tabulate
    >>> of = specification("container-status")
    >>> claim = next(each.claim for each in of.properties if each.name == "stop-is-idempotent")
    >>> product = PropertyProduct(StepCache(tabulate(of.machine)), claim, None)
    >>> len(product.machine.states), len(product.table.states)
    (11, 14)
    """

    def __init__(self, stepping: StepCache, claim: Claim, profile: str | None) -> None:
        self.machine = machine_table(stepping.table)
        self.steps = stepping.steps(written.means for written in conditions_of(claim))
        self.memory = memory(claim, stepping, profile)
        self.reached = frozenset(stepping.reached)
        self.places: list[RunPlace] = []
        self.asking: set[tuple[str, str]] = set()
        self.asking_later: set[tuple[str, str]] = set()
        self.advancing: set[tuple[str, str]] = set()
        self._number: dict[RunPlace, int] = {}
        self._ways: list[Way] = []
        self._origin: list[tuple[int, int]] = []
        self._cells: list[list[tuple[Way, ...] | None]] = [[] for _ in self.machine.rows]
        start = RunPlace(self.machine.initial, self.memory.start)
        self._rest = {self.memory.start, self.memory.restarted, None}
        self.initial, *self.unknown = self.numbers([start, *map(self._unknown, range(len(self.machine.states)))])

    @property
    def proved(self) -> bool:
        """Whether no run breaks the claim."""
        return not any(isinstance(place.progress, Broken) for place in self.places)

    def numbers(self, places: Iterable[RunPlace]) -> list[int]:
        """The numbers of *places*, which are added, with all that they lead to, where they are new."""
        known = len(self.places)
        found = [self._numbered(place) for place in places]
        while known < len(self.places):
            for row in self.machine.rows:
                self._cells[row.index].append(self._cell(known, row.index))
            known += 1
        if found:
            self.table = self._table()
            self.rules = _ProductRules(self)
        return found

    def after(self, place: RunPlace, step: InstantStep) -> RunPlace:
        """Where *step* leads from *place*."""
        return RunPlace(step.way.to, advanced(self.memory, self.reached, place.progress, step))

    def _unknown(self, state: int) -> RunPlace:
        """The place of a run of which only the *state* is known."""
        return RunPlace(state, self.memory.restarted if state in self.reached else None)

    def _numbered(self, place: RunPlace) -> int:
        number = self._number.setdefault(place, len(self.places))
        if number == len(self.places):
            if number == PLACES:
                raise TooManyError
            self.places.append(place)
        return number

    def _cell(self, number: int, row: int) -> tuple[Way, ...] | None:
        """What happens at a place: for each way of the machine, one for each reply that the property distinguishes."""
        place = self.places[number]
        ways = self.machine.step(place.state, row)
        if ways is None:
            return None
        first = len(self._ways)
        for way in ways:
            for reply in self.steps.replies(way):
                to = self._unknown(way.to)
                if not self.machine.rows[row].ends or (row, place.state) in self.machine.begun:
                    step = self.steps.step(place.state, row, way, reply)
                    to = self.after(place, step)
                    if isinstance(place.progress, tuple):
                        self._mark(place, step, to)
                replies = (reply,) if reply else ()
                self._ways.append(
                    replace(way, index=len(self._ways), to=self._numbered(to), reply=replies, deviation=None)
                )
                self._origin.append((row, number))
        return tuple(self._ways[first:])

    def _mark(self, place: RunPlace, step: InstantStep, to: RunPlace) -> None:
        """Note what an observation of *step* says of the claim."""
        asks = isinstance(place.progress, tuple) and self.memory.asks(place.progress, step)
        rests = place.progress in self._rest
        for seen in ((step.taken.event, step.taken.reply), *(("", output) for output in step.way.emits)):
            if asks and rests:
                self.asking.add(seen)
            if asks and not rests:
                self.asking_later.add(seen)
            if rests and to.progress not in self._rest:
                self.advancing.add(seen)

    def _table(self) -> Table:
        machine = self.machine
        return Table(
            machine=machine.machine,
            states=tuple(machine.states[place.state] for place in self.places),
            shows=tuple(machine.shows[place.state] for place in self.places),
            initial=0,
            rows=machine.rows,
            row=machine.row,
            end=machine.end,
            ways=tuple(self._ways),
            origin=tuple(self._origin),
            cells=tuple(cell for row in self._cells for cell in row),
            begun=frozenset(),
        )


class _ProductRules(Rules):
    """The rules on a product: where nothing is specified, nothing is known of the property afterwards."""

    def __init__(self, product: PropertyProduct) -> None:
        super().__init__(product.table)
        self._product = product

    def instants(self, state: int, row: int, stage: int = ASKED) -> tuple[CallInstant, ...]:
        """Every way of the machine, one for each reply that the property distinguishes."""
        found, product = super().instants(state, row, stage), self._product
        if not found or found[0].way is not None:
            return found
        silent = self.table.step(state, found[0].row) is None
        targets = product.unknown if silent else [product.unknown[product.places[state].state]]
        return tuple(found[0]._replace(to=to) for to in targets)

    def fits(self, stage: int, reply: str) -> bool:
        """Whether *reply* fits; an error that the property distinguishes has a way of its own."""
        distinguished = stage >= 0 and reply in self._product.steps.codes
        return super().fits(stage, reply) and not (distinguished and ANY_ERROR in self.table.ways[stage].reply)
