"""The product of a machine and the automaton of a property, as a single table.

A *place* is a state of the machine together with the progress of the property. A belief about the product
(:mod:`fsm.machine.calls.belief`) therefore covers both. Such beliefs can follow recordings and tests in which calls
overlap, replies are lost, and events happen unobserved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from fsm.checker.instants import InstantStep, StepCache
from fsm.machine import ANY_ERROR
from fsm.machine.calls import ASKED, CallInstant, Rules
from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configurations, Covering
from fsm.machine.calls.unobserved import TooManyError
from fsm.machine.claims import Claim, conditions_of
from fsm.machine.table import UNSPECIFIED, Table, Way
from fsm.machine.terms import Argument
from fsm.machine.traversal import Numbering
from fsm.monitor.property_watch.automata import (
    Broken,
    Passing,
    Progress,
    depends_on_values,
    memory,
    watched_table,
)

PLACES: Final = 4_000
"""Maximum number of places in a product. Larger products are not built."""


class RunPlace(NamedTuple):
    """The state and the progress of a run. In an unreachable state, the progress is ``None``.

    ``possible`` is the progress if unknown values are as they must be to break the claim, or ``None`` if they make no
    difference.
    """

    state: int
    progress: Progress | Broken | None
    possible: Progress | Broken | None = None


class PropertyProduct:
    """The product of the machine of *stepping* and the automaton of *claim*, both under *profile*.

    Its places and the steps between them, called ways, are numbered in the order in which they are reached, and keep
    their numbers. :meth:`explore` fills ``asking``, ``asking_later`` and ``advancing`` with pairs of an event and its
    reply, or of an empty event and an output. An observation in ``asking`` can always put the claim to the test, and an
    observation in ``asking_later`` can do so only after one in ``advancing``.
    """

    def __init__(self, stepping: StepCache, claim: Claim, profile: str | None) -> None:
        self.machine = machine = watched_table(stepping)
        self.steps = stepping.steps(written.means for written in conditions_of(claim))
        self.memory = memory(claim, stepping, profile)
        unsure = machine.data and depends_on_values(claim)
        self._unsure = memory(claim, stepping, profile, sure=False) if unsure else None
        self.reached, _ = stepping.bare
        self._number: Numbering[RunPlace] = Numbering()
        self.places = self._number.listed
        self.taken: list[InstantStep] = []
        """The machine step of each way."""
        self.asking, self.asking_later, self.advancing = (set[tuple[str, str]]() for _ in range(3))
        self._states, self._shows = list[str](), list[str]()
        self._ways, self._origin = list[Way](), list[tuple[int, int]]()
        self.step = cache(self._step)
        self.loosened = cache(self._loosened_way)
        self.anywhere = cache(self._move_anywhere)
        self._rest = {self.memory.start, self.memory.restarted, None}
        self.table = _ProductTable(
            machine=machine.machine,
            states=self._states,
            shows=self._shows,
            initial=self.number(
                RunPlace(machine.initial, self.memory.start, self._unsure.start if self._unsure else None)
            ),
            rows=machine.rows,
            row=machine.row,
            end=machine.end,
            ways=self._ways,
            origin=self._origin,
            cells=(),
            data=machine.data,
            product=self,
        )
        self.unknown = [self.number(self.unknown_place(state)) for state in machine.anywhere]
        self.rules: Rules = _ProductRules(self)

    def dynamics(self, machine: Dynamics) -> Dynamics:
        return dataclasses.replace(machine, rules=self.rules, covering=Covering(self.rules), timers=None)

    def progress_of(self, configurations: Configurations) -> set[Progress | Broken | None]:
        return {self.places[each.state].progress for each in configurations}

    def may_break(self, configurations: Configurations) -> bool:
        """Check whether the claim is broken in some of *configurations* if unknown values are as this requires."""
        return any(isinstance(self.places[each.state].possible, Broken) for each in configurations)

    def outputs(self, row: int, seen: tuple[str, ...] | None) -> Collection[tuple[str, ...]]:
        ways = [way for state in self.machine.anywhere for way in self.machine.step(state, row) or ()]
        return dict.fromkeys([(), *(way.emits for way in ways)]) if seen is None else [seen]

    @property
    def proved(self) -> bool:
        """Whether no run of the machine breaks the claim. This is not decided if there are data."""
        return self.machine.data is None and not any(isinstance(place.progress, Broken) for place in self.places)

    def explore(self) -> None:
        """Add every reachable place, or raise :class:`TooManyError` if there are more than :data:`PLACES`.

        If there are data, places are added only as they are needed, because values have no limit.
        """
        if self.machine.data:
            return
        for number, _ in enumerate(self.places):  # The list grows during the loop.
            if len(self.places) > PLACES:
                raise TooManyError
            for row in self.machine.rows:
                for way in self.step(number, row.index) or ():
                    self._mark(way.index)

    def number(self, place: RunPlace) -> int:
        number = self._number[place]
        if number == len(self._states):
            self._states.append(self.machine.states[place.state])
            self._shows.append(self.machine.shows[place.state])
        return number

    def after(self, place: RunPlace, step: InstantStep) -> RunPlace:
        progress, possible = place.progress, None
        if progress is None:
            return self.unknown_place(step.way.to)
        if isinstance(progress, Broken):
            return RunPlace(step.way.to, progress)
        if self._unsure is not None:
            earlier = place.possible if isinstance(place.possible, tuple) else self._unsure.restarted
            possible = self._unsure.after(earlier, step)
        return RunPlace(step.way.to, self.memory.after(progress, step), possible)

    def learned(self, number: int, shown: Mapping[str, Argument]) -> int:
        """Return the place with the values in *shown*, which may decide the claim, or -1 if it has other values."""
        state, progress, possible = place = self.places[number]
        to = self.machine.learned(state, shown)
        if to in {state, -1}:
            return number if to == state else to
        if isinstance(self.memory, Passing) and isinstance(progress, tuple):
            progress = self.memory.at_state(progress, to)
        if isinstance(self._unsure, Passing) and self._unsure.of_states:
            possible = self._unsure.at_state(self._unsure.restarted, to)
        return self.number(place._replace(state=to, progress=progress, possible=possible))

    def _loosened_way(self, index: int) -> Way:
        way, step, (row, number) = self._ways[index], self.taken[index], self._origin[index]
        loose = self.machine.loosened(step.way)
        if loose is step.way:
            return way
        place, reply = self.places[number], way.reply[0] if way.reply else ""
        return replace(way, to=self.number(self.after(place, self.steps.step(place.state, row, loose, reply))))

    def unspecified(
        self, place: RunPlace, row: int, to: int, *, reply: str, emits: tuple[str, ...], begins: bool = False
    ) -> tuple[RunPlace, InstantStep]:
        replies, given = (reply,) if reply else (), self.machine.given(row)
        way = Way(index=-1, name=UNSPECIFIED, to=to, reply=replies, emits=emits, begins=begins, given=given)
        step = self.steps.step(place.state, row, way, reply)
        return self.after(place, step), step

    def _move_anywhere(self, number: int, row: int, reply: str, emits: tuple[str, ...]) -> tuple[int, ...]:
        place = self.places[number]
        moved = (self.unspecified(place, row, to, reply=reply, emits=emits)[0] for to in sorted(self.reached))
        return tuple(map(self.number, moved))

    def unknown_place(self, state: int) -> RunPlace:
        reached = self.machine.bare(state) in self.reached
        possible = self._unsure.restarted if reached and self._unsure else None
        return RunPlace(state, self.memory.restarted if reached else None, possible)

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
                if self.machine.data:
                    self._mark(index)
        return tuple(self._ways[first:])

    def _mark(self, way: int) -> None:
        progress, step = self.places[self._origin[way][1]].progress, self.taken[way]
        if not isinstance(progress, tuple):
            return
        to = self.places[self._ways[way].to]
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

    def bare(self, state: int) -> int:
        return self.product.machine.bare(self.product.places[state].state)

    def placed(self, row: int, given: Mapping[str, Argument]) -> int:
        return self.product.machine.placed(row, given)

    def agree(self, row: int, other: int) -> bool:
        return self.product.machine.agree(row, other)

    def learned(self, state: int, shown: Mapping[str, Argument]) -> int:
        return self.product.learned(state, shown)

    def loosened(self, way: Way) -> Way:
        return self.product.loosened(way.index)


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
        targets = product.unknown if silent else [product.number(product.unknown_place(product.places[state].state))]
        stages = dict.fromkeys(each.stage for each in found)
        return tuple(found[0]._replace(to=to, stage=how) for how in stages for to in targets)

    def fits(self, stage: int, reply: str) -> bool:
        """Check whether *reply* fits. An error that the property names does not fit an outcome with any error."""
        distinguished = stage >= 0 and reply in self._product.steps.codes
        return super().fits(stage, reply) and not (distinguished and ANY_ERROR in self.table.ways[stage].reply)
