"""A second opinion on properties of machines with data: the number of conditions that have held is part of the state.

A state of the machine without data (:mod:`naive_data`) is written once for each number of conditions of a sequence.
Conditions are evaluated by Python from their texts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from naive import beliefs
from naive_data import DataAsking, Unrolled

from fsm.machine import Moves, Silent, outcomes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsm.machine import Cell, Kind, Machine
    from fsm.trace import Observation


class Counted(Unrolled):
    """The machine in which ``STATE#N`` means that N of the conditions in *sequence* have held in order."""

    def __init__(self, machine: Machine, sequence: Sequence[str], until: str = "") -> None:
        super().__init__(machine)
        self.sequence, self.until, plain = sequence, until, self.plain
        every = range(len(sequence) + 1)
        self.values |= {f"{state}#{number}": values for state, values in [*self.values.items()] for number in every}
        events = {}
        for event in plain.events.values():
            cells = {
                f"{state}#{number}": self._counting(cell, state, event.kind, number)
                for state, cell in event.cells.items()
                for number in every
            }
            ends = {
                f"{state}#{number}": self._counting(cell, state, event.kind, number)
                for state, cell in event.ends.items()
                for number in every
                if state in self.values  # an event with unknown arguments has only the states of the machine
            }
            events[event.name] = replace(
                event,
                cells=cells,
                ends={state: cell for state, cell in ends.items() if isinstance(cell, Moves)} or event.ends,
            )
        states = {
            f"{name}#{number}": replace(each, name=f"{name}#{number}")
            for name, each in plain.states.items()
            for number in every
        }
        initial = f"{plain.initial}#{self.later(0, plain.initial)}"
        self.plain = replace(plain, states=states, events=events, initial=initial)

    def _counting(self, cell: Cell, state: str, kind: Kind, number: int) -> Cell:
        ways = outcomes(cell, state, kind)
        if ways is None:
            return Silent(clause=cell.clause, line=cell.line)
        made = (replace(way, to=f"{way.to}#{self.later(number, way.to)}") for way in ways)
        return Moves(clause=cell.clause, line=cell.line, outcomes=tuple(made))

    def later(self, number: int, state: str) -> int:
        if number == len(self.sequence):
            return number
        if number == len(self.sequence) - 1 and self.holds(self.sequence[number], state):
            return number + 1
        number = 0 if number and self.until and self.holds(self.until, state) else number
        return number + (number < len(self.sequence) - 1 and self.holds(self.sequence[number], state))

    def holds(self, condition: str, state: str) -> bool:
        bare = state.partition("(")[0]
        frame = {**self.words, "true": True, "false": False, "at": bare, **self.values[state]}
        return bool(eval(condition, {}, frame))  # noqa: S307  (our own texts)


def first_breach(
    machine: Machine, sequence: Sequence[str], until: str, trace: Sequence[Observation]
) -> tuple[int | None, int]:
    """Return the first observation after which every behaviour contains *sequence*, and the number of legal ones."""
    counted = Counted(machine, sequence, until)
    found = [*beliefs(DataAsking(counted), [counted.renamed(each) for each in trace], fresh=True)]
    legal = [after for _, after in found if after]
    done = f"#{len(sequence)}"
    broken = (index for index, after in enumerate(legal) if all(here.state.endswith(done) for here in after))
    return next(broken, None), len(legal)
