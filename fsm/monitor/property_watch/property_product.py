"""The product of a machine and the automaton of a property, as a single table.

A *place* is a state of the machine together with the progress of the property. A belief about the product
(:mod:`fsm.machine.calls.belief`) therefore covers both. Such beliefs can follow recordings and tests in which calls
overlap, replies are lost, and events happen unobserved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from fsm.checker.instants import InstantStep, StepCache, machine_table
from fsm.machine import ANY_ERROR
from fsm.machine.calls import ASKED, CallInstant, Rules
from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configurations, Covering
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.claims import Claim, conditions_of
from fsm.machine.table import UNSPECIFIED, Table, Way
from fsm.machine.traversal import Numbering
from fsm.monitor.property_watch.automata import Broken, Progress, memory

PLACES: Final = 4_000
"""Maximum number of places in a product. Larger products are not built."""


class RunPlace(NamedTuple):
    """The state and the progress of a run. In an unreachable state, the progress is ``None``."""

    state: int
    progress: Progress | Broken | None


class PropertyProduct:
    """The product of the machine of *stepping* and the automaton of *claim*, both under *profile*.

    Its places and the steps between them, called ways, are numbered in the order in which they are reached, and keep
    their numbers. :meth:`explore` fills ``asking``, ``asking_later`` and ``advancing`` with pairs of an event and its
    reply, or of an empty event and an output. An observation in ``asking`` can always put the claim to the test, and an
    observation in ``asking_later`` can do so only after one in ``advancing``.
    """

    def __init__(self, stepping: StepCache, claim: Claim, profile: str | None) -> None:
        self.machine = machine = machine_table(stepping.table)
        self.steps = stepping.steps(written.means for written in conditions_of(claim))
        self.memory = memory(claim, stepping, profile)
        self.reached = frozenset(map(stepping.table.bare, stepping.reached))
        self._number: Numbering[RunPlace] = Numbering()
        self.places = self._number.listed
        self.taken: list[InstantStep] = []
        """The machine step of each way."""
        self.asking, self.asking_later, self.advancing = (set[tuple[str, str]]() for _ in range(3))
        self._states, self._shows = list[str](), list[str]()
        self._ways, self._origin = list[Way](), list[tuple[int, int]]()
        self.step = cache(self._step)
        self.anywhere = cache(self._move_anywhere)
        self._rest = {self.memory.start, self.memory.restarted, None}
        self.table = _ProductTable(
            machine=machine.machine,
            states=self._states,
            shows=self._shows,
            initial=self.number(RunPlace(machine.initial, self.memory.start)),
            rows=machine.rows,
            row=machine.row,
            end=machine.end,
            ways=self._ways,
            origin=self._origin,
            cells=(),
            product=self,
        )
        self.unknown = [self.number(self._unknown_place(state)) for state in range(len(machine.states))]
        self.rules: Rules = _ProductRules(self)

    def dynamics(self, machine: Dynamics) -> Dynamics:
        return dataclasses.replace(machine, rules=self.rules, covering=Covering(self.rules), timers=None)

    def progress_of(self, configurations: Configurations) -> set[Progress | Broken | None]:
        return {self.places[each.state].progress for each in configurations}

    def outputs(self, row: int, seen: tuple[str, ...] | None) -> Collection[tuple[str, ...]]:
        ways = [way for state in range(len(self.machine.states)) for way in self.machine.step(state, row) or ()]
        return dict.fromkeys([(), *(way.emits for way in ways)]) if seen is None else [seen]

    @property
    def proved(self) -> bool:
        return not any(isinstance(place.progress, Broken) for place in self.places)

    def explore(self) -> None:
        """Add every reachable place, or raise :class:`TooManyError` if there are more than :data:`PLACES`."""
        for number, place in enumerate(self.places):  # The list grows during the loop.
            if len(self.places) > PLACES:
                raise TooManyError
            for row in self.machine.rows:
                for way in self.step(number, row.index) or ():
                    if isinstance(place.progress, tuple):
                        self._mark(place.progress, self.taken[way.index], self.places[way.to])

    def number(self, place: RunPlace) -> int:
        number = self._number[place]
        if number == len(self._states):
            self._states.append(self.machine.states[place.state])
            self._shows.append(self.machine.shows[place.state])
        return number

    def after(self, place: RunPlace, step: InstantStep) -> RunPlace:
        progress = place.progress
        if progress is None:
            return self._unknown_place(step.way.to)
        return RunPlace(step.way.to, progress if isinstance(progress, Broken) else self.memory.after(progress, step))

    def unspecified(
        self, place: RunPlace, row: int, to: int, *, reply: str, emits: tuple[str, ...], begins: bool = False
    ) -> tuple[RunPlace, InstantStep]:
        way = Way(index=-1, name=UNSPECIFIED, to=to, reply=(reply,) if reply else (), emits=emits, begins=begins)
        step = self.steps.step(place.state, row, way, reply)
        return self.after(place, step), step

    def _move_anywhere(self, number: int, row: int, reply: str, emits: tuple[str, ...]) -> tuple[int, ...]:
        place = self.places[number]
        moved = (self.unspecified(place, row, to, reply=reply, emits=emits)[0] for to in sorted(self.reached))
        return tuple(map(self.number, moved))

    def _unknown_place(self, state: int) -> RunPlace:
        return RunPlace(state, self.memory.restarted if state in self.reached else None)

    def _step(self, number: int, row: int) -> tuple[Way, ...] | None:
        place, first = self.places[number], len(self._ways)
        ways = self.machine.step(place.state, row)
        if ways is None:
            return None
        for way in ways:
            for reply in self.steps.replies(way):
                step = self.steps.step(place.state, row, way, reply)
                index, replies, to = len(self._ways), (reply,) if reply else (), self.number(self.after(place, step))
                self._ways.append(replace(way, index=index, to=to, reply=replies, deviation=None))
                self._origin.append((row, number))
                self.taken.append(step)
        return tuple(self._ways[first:])

    def _mark(self, progress: Progress, step: InstantStep, to: RunPlace) -> None:
        asks, rests = self.memory.asks(progress, step), progress in self._rest
        for seen in ((step.taken.event, step.taken.reply), *(("", output) for output in step.way.emits)):
            if asks:
                (self.asking if rests else self.asking_later).add(seen)
            if rests and to.progress not in self._rest:
                self.advancing.add(seen)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ProductTable(Table):
    product: PropertyProduct

    def step(self, state: int, row: int) -> tuple[Way, ...] | None:
        return self.product.step(state, row)


class _ProductRules(Rules):
    """Rules for calls in a product. An unspecified step makes the progress of the property unknown."""

    def __init__(self, product: PropertyProduct) -> None:
        super().__init__(product.table)
        self._product = product

    def _instants(self, state: int, row: int, stage: int = ASKED) -> tuple[CallInstant, ...]:
        found, product = super()._instants(state, row, stage), self._product
        if not found or found[0].way is not None:
            return found
        silent = self.table.step(state, found[0].row) is None
        targets = product.unknown if silent else [product.unknown[product.places[state].state]]
        stages = dict.fromkeys(each.stage for each in found)
        return tuple(found[0]._replace(to=to, stage=how) for how in stages for to in targets)

    def fits(self, stage: int, reply: str) -> bool:
        """Check whether *reply* fits. An error that the property names does not fit an outcome with any error."""
        distinguished = stage >= 0 and reply in self._product.steps.codes
        return super().fits(stage, reply) and not (distinguished and ANY_ERROR in self.table.ways[stage].reply)
