"""A machine as a drawing shows it: states under their drawn names, and the moves between them.

Several states may be drawn as one.  What happens within it is not seen: a
call that takes time is a move when it leads to a state that is drawn as
another, whether it has ended by then or not.  A drawing may as well show
where such a call leads in the end.

An event after which the state is as before is a move only where nothing else
can come of it: that a stop may fail is no arrow, that a process can be run in
a container is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from fsm.diagrams.abstraction.drawn_names import outcomes_of
from fsm.machine import Ignores, Moves, Omission
from fsm.machine.table import tabulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fsm.machine import Machine
    from fsm.machine.table import Row, Table, Way


class Move(NamedTuple):
    """A move between drawn states; ``source`` is empty for "from nowhere"."""

    source: str
    event: str
    target: str


class Act(NamedTuple):
    """What makes up a move: an outcome of its event in one of the machine's states.

    ``named`` says that drawings have a label of their own for it, ``failed``
    that its caller gets an error.
    """

    state: str
    outcome: str
    named: bool
    failed: bool


@dataclass(slots=True)
class Abstraction:
    """``must`` are the moves of a full drawing, in the machine's order; it ``may`` have others.

    ``names`` are the drawn states with those that they stand for; ``nowhere``
    the interrupting events that are drawn from nowhere, since what was before
    does not matter.  ``ends`` maps a move that begins a call to those that it
    may be in the end.  ``begun`` are the outcomes that begin a call in the
    very state in which it goes on: a loop may show that.
    """

    machine: Machine
    names: Mapping[str, tuple[str, ...]]
    nowhere: frozenset[str] = frozenset()
    named: frozenset[tuple[str, str]] = frozenset()
    shown: dict[str, str] = field(default_factory=dict)
    must: dict[Move, list[Act]] = field(default_factory=dict)
    may: dict[Move, list[Act]] = field(default_factory=dict)
    ends: dict[Move, set[Move]] = field(default_factory=dict)
    begun: set[tuple[Move, str]] = field(default_factory=set)

    def act(self) -> None:
        """Find all moves."""
        self.shown = {state: name for name, states in self.names.items() for state in states}
        for state in self.machine.states:
            self.shown.setdefault(state, state)
        table = tabulate(self.machine)
        for row in table.rows:
            for number in range(len(table.states)):
                self._cell(table, row, number)

    def _cell(self, table: Table, row: Row, number: int) -> None:
        cell, ways = table.cell(number, row.index), table.step(number, row.index) or ()
        if not isinstance(cell, Moves | Ignores):
            return
        finals = [end for way in ways for end in _finals(table, row, way)]
        here = self.shown[table.states[number]]
        # A deviation may make a move of what is ignored; a drawing shows the machine.
        stays = all(end.to == number and end.deviation is None for end in finals) and not row.ends
        for way in ways:
            moves = self.shown[table.states[way.to]] != here
            if way.begins and not moves:
                if way.to == number:
                    key = self._key(table, row, number, way)
                    self.begun |= {(key, way.name), (key, "")}
                continue
            key = self._note(table, row, number, way, must=isinstance(cell, Moves) and (moves or stays))
            if way.begins:
                leads = (self._key(table, row, number, end) for end in _finals(table, row, way))
                self.ends.setdefault(key, set()).update(leads)
        for end in finals:
            if end not in ways:
                self._note(table, row, number, end, must=False)

    def _key(self, table: Table, row: Row, number: int, way: Way) -> Move:
        event = row.event.name
        source = "" if event in self.nowhere else self.shown[table.states[number]]
        return Move(source, event, self.shown[table.states[way.to]])

    def _note(self, table: Table, row: Row, number: int, way: Way, *, must: bool) -> Move:
        event, key, state = row.event.name, self._key(table, row, number, way), table.states[number]
        named = (event, way.name) in self.named
        anyhow = event in self.nowhere and isinstance(table.cell(number, row.index), Moves)
        into = self.must if must or anyhow or named else self.may
        failed = bool(way.reply) and "ok" not in way.reply
        into.setdefault(key, []).append(Act(state=state, outcome=way.name, named=named, failed=failed))
        return key

    def omitted(self, act: Act, event: str) -> bool:
        """Whether the machine says that drawings leave *act* out."""
        omission = (self.machine.omits or {}).get(event, Omission())
        alike = {state for state, name in self.shown.items() if name == self.shown[act.state]}
        return act.outcome in omission.outcomes or bool(alike & omission.states)

    def allows(self, key: Move, outcome: str) -> bool:
        """Whether the machine has the move, by that outcome if one is named."""
        acts = (*self.must.get(key, ()), *self.may.get(key, ()))
        return (key, outcome) in self.begun or any(outcome in {"", act.outcome} for act in acts)


def _finals(table: Table, row: Row, way: Way) -> list[Way]:
    """The outcomes in which a call that goes *way* may end in the end, as far as the machine says."""
    if not way.begins:
        return [way]
    end = table.end.get(row.index, row.index)
    seen, front = {way.to}, [way.to]
    found: list[Way] = []
    for state in front:
        for each in table.step(state, end) or ():
            if not each.begins:
                found.append(each)
            elif each.to not in seen:
                seen.add(each.to)
                front.append(each.to)
    return found


def abstract(machine: Machine, names: Mapping[str, tuple[str, ...]], nowhere: Iterable[str] = ()) -> Abstraction:
    """*machine* under these names.

    >>> from fsm.diagrams.abstraction.drawn_names import proposed
    >>> from fsm.library import load
    >>> machine = load("cri-pod")
    >>> [key.target for key in abstract(machine, proposed(machine)).must if key.event == "run"]
    ['ready', 'SANDBOX_NOTREADY']
    """
    found = Abstraction(
        machine=machine,
        names=names,
        nowhere=frozenset(nowhere),
        named=frozenset(
            (event.name, way.name) for event in machine.events.values() for way in outcomes_of(event) if way.aliases
        ),
    )
    found.act()
    return found
