"""A machine at the level of detail of a drawing: states under their drawn names, and the moves between them.

Several states may be drawn as one, and events that stay within it are then invisible.  A call that takes time is a move
if it leads to a state that is drawn differently, whether or not the call has returned by then.  A drawing may instead
show where the call ends.

An event that leaves the state unchanged is a move only if it has no other outcome.  For example, a stop that may fail
is not drawn as an arrow from a state to itself, but executing a process in a container is.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from fsm.machine import Ignores, Machine, Moves, Omission
from fsm.machine.table import Row, Table, Way, tabulate
from fsm.machine.traversal import closure


class Move(NamedTuple):
    """A move between drawn states.  ``source`` is empty for an arrow without a source."""

    source: str
    event: str
    target: str


class Act(NamedTuple):
    """One outcome of an event in one state of the machine, as part of a move."""

    state: str
    outcome: str
    named: bool  # drawings have a separate label for it
    failed: bool  # the caller gets an error


class Abstraction:
    """*machine* with its states drawn under *names*.  A state that is not in *names* is drawn under its own name.

    ``must`` holds the moves of a complete drawing, in the machine's order, and ``may`` the moves that a drawing can
    omit.  ``shown`` maps each state to its drawn name.  Events in *nowhere* interrupt the machine.  They are drawn
    without a source because the state before them does not matter.  ``ends`` maps a move that begins a call to the
    moves with which the call may end.  ``begun`` holds the outcomes that begin a call without changing the state.  A
    drawing may show them as loops.

    >>> from fsm.diagrams.abstraction.drawn_names import proposed
    >>> from fsm.language.library import load
    >>> machine = load("examples/models/door.toml")
    >>> [key.target for key in Abstraction(machine, proposed(machine)).must if key.event == "push"]
    ['open']
    """

    def __init__(self, machine: Machine, names: Mapping[str, tuple[str, ...]], nowhere: Collection[str] = ()) -> None:
        drawn = {state: name for name, states in names.items() for state in states}
        self.table = tabulate(machine)
        self.shown = drawn | {state: state for state in machine.states if state not in drawn}
        self.nowhere = nowhere
        self.must: dict[Move, list[Act]] = {}
        self.may: dict[Move, list[Act]] = {}
        self.ends: dict[Move, set[Move]] = {}
        self.begun: set[tuple[Move, str]] = set()
        outcomes = [(event.name, way) for event in machine.events.values() for way in event.outcomes()]
        self._labelled = {(event, way.name) for event, way in outcomes if way.aliases}
        for row in self.table.rows:
            for number in range(len(self.table.states)):
                self._add_cell(row, number)

    def _add_cell(self, row: Row, number: int) -> None:
        table, cell = self.table, self.table.cell(number, row.index)
        ways = table.step(number, row.index) or ()
        if not isinstance(cell, Moves | Ignores):
            return
        finals = [end for way in ways for end in _final_outcomes(table, row, way)]
        # Ignore deviations here. They may turn an ignored event into a move, but a drawing shows the machine itself.
        stays = all(end.to == number and end.deviation is None for end in finals) and not row.ends
        for way in ways:
            key = self._key(row, number, way)
            moves = self.shown[table.states[way.to]] != self.shown[table.states[number]]
            if way.begins and not moves:
                if way.to == number:
                    self.begun |= {(key, way.name), (key, "")}
                continue
            self._add_act(row, number, way, must=isinstance(cell, Moves) and (moves or stays))
            if way.begins:
                self.ends.setdefault(key, set()).update(
                    self._key(row, number, end) for end in _final_outcomes(table, row, way)
                )
        for end in finals:
            if end not in ways:
                self._add_act(row, number, end, must=False)

    def _key(self, row: Row, number: int, way: Way) -> Move:
        event = row.event.name
        source = "" if event in self.nowhere else self.shown[self.table.states[number]]
        return Move(source, event, self.shown[self.table.states[way.to]])

    def _add_act(self, row: Row, number: int, way: Way, *, must: bool) -> None:
        event = row.event.name
        named = (event, way.name) in self._labelled
        unconditional = event in self.nowhere and isinstance(self.table.cell(number, row.index), Moves)
        into = self.must if must or unconditional or named else self.may
        failed = bool(way.reply) and "ok" not in way.reply
        act = Act(state=self.table.states[number], outcome=way.name, named=named, failed=failed)
        into.setdefault(self._key(row, number, way), []).append(act)

    def acts(self, key: Move) -> tuple[Act, ...]:
        return (*self.must.get(key, ()), *self.may.get(key, ()))

    def omitted(self, act: Act, event: str) -> bool:
        """Check whether the model lists *act* among the things that drawings leave out."""
        omission = (self.table.machine.omits or {}).get(event, Omission())
        alike = {state for state, name in self.shown.items() if name == self.shown[act.state]}
        return act.outcome in omission.outcomes or bool(alike & omission.states)

    def allows(self, key: Move, outcome: str) -> bool:
        """Check whether the machine has the move, by *outcome* if one is named."""
        return (key, outcome) in self.begun or any(outcome in {"", act.outcome} for act in self.acts(key))


def _final_outcomes(table: Table, row: Row, way: Way) -> list[Way]:
    """Return the specified outcomes with which a call that begins with *way* may end."""
    if not way.begins:
        return [way]
    end = table.end.get(row.index, row.index)

    def ways(state: int, *, begin: bool) -> list[Way]:
        return [each for each in table.step(state, end) or () if each.begins == begin]

    between = closure([way.to], lambda state: (each.to for each in ways(state, begin=True)))
    return [each for state in between for each in ways(state, begin=False)]
