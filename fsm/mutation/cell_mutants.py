"""Machines that differ from an original in a single cell.

The change is an error that an author could make: a wrong target, kind, reply or output, or a missing alternative.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from fsm import machine as model
from fsm.language.build.events import endless, in_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A machine with one change to the cell of ``event`` in ``state``, or to the end of the call if ``ends``."""

    name: str
    event: str
    state: str
    ends: bool
    line: int
    machine: model.Machine


def mutants(machine: model.Machine) -> Iterator[Mutant]:
    """Yield every mutant of *machine*, in the order of its events and states, each with a unique name.

    Each mutant is well formed, and its changed cell has a different meaning. Two mutants may be equal.

    >>> from fsm.language.library import load
    >>> door = load("examples/models/door.toml")
    >>> [each.name for each in mutants(door) if each.event == "pull" and each.state == "shut"][:3]
    ['pull in shut: refused', 'pull in shut: silent', 'pull in shut: to open']
    """
    outputs = machine.outputs()
    for event in machine.events.values():
        for ends, row in ((False, event.cells), (True, event.ends)):
            for state, cell in row.items():
                making = _CellMutants(machine=machine, event=event, state=state, ends=ends, outputs=outputs)
                own = _meaning(cell, state, event.kind)
                names: dict[model.Cell, str] = {}
                for name, changed in making.changes(cell):
                    if changed != cell and _meaning(changed, state, event.kind) != own:
                        names.setdefault(changed, name)
                yield from filter(None, (making.mutant(name, changed) for changed, name in names.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CellMutants:
    machine: model.Machine
    event: model.Event
    state: str
    ends: bool
    outputs: tuple[str, ...]

    def mutant(self, name: str, cell: model.Cell) -> Mutant | None:
        """Return the machine with *cell* in this place, or ``None`` if some call would then never end."""
        event = self.event
        if isinstance(cell, model.Moves) and self.ends:
            changed = replace(event, ends={**event.ends, self.state: cell})
        else:
            changed = replace(event, cells={**event.cells, self.state: cell})
        machine = _trimmed(replace(self.machine, events={**self.machine.events, event.name: changed}, profiles={}))
        if any(endless(each) for each in machine.events.values()):
            return None
        return Mutant(name=name, event=event.name, state=self.state, ends=self.ends, line=cell.line, machine=machine)

    def changes(self, cell: model.Cell) -> Iterator[tuple[str, model.Cell]]:
        """Yield changed cells with their names. The same cell may occur under several names."""
        yield from self._kinds(cell)
        match cell:
            case model.Moves(outcomes=ways):
                for index, way in enumerate(ways):
                    for change, changed in self._ways(way):
                        others = (*ways[:index], changed, *ways[index + 1 :])
                        yield self._name(change, way if len(ways) > 1 else None), replace(cell, outcomes=others)
                    if len(ways) > 1:
                        yield self._name("dropped", way), replace(cell, outcomes=(*ways[:index], *ways[index + 1 :]))
            case model.Ignores() | model.Refuses():
                for change, changed in self._ways(self._still(cell)):
                    yield self._name(change), self._moves(cell, changed)
            case model.Cannot() | model.Silent():
                for state in self.machine.states:
                    if state != self.state:
                        moved = replace(self._still(cell), name="moved", to=state)
                        yield self._name(f"to {state}"), self._moves(cell, moved)
            case _:
                assert_never(cell)

    def _kinds(self, cell: model.Cell) -> Iterator[tuple[str, model.Cell]]:
        """Yield cells of other kinds. The end of a call has none, because it is always of kind ``Moves``."""
        clause, line = cell.clause, cell.line
        kinds: dict[str, model.Cell] = {"ignored": model.Ignores(clause=clause, line=line)}
        if self.event.kind == "call":
            kinds["refused"] = model.Refuses(codes=(model.ANY_ERROR,), clause=clause, line=line)
        else:
            kinds["cannot"] = model.Cannot(clause=clause, line=line)
        kinds["silent"] = model.Silent(clause=clause, line=line)
        for name, changed in kinds.items() if not self.ends else ():
            if type(changed) is not type(cell):
                yield self._name(name), changed

    @staticmethod
    def _moves(cell: model.Cell, way: model.Outcome) -> model.Moves:
        return model.Moves(outcomes=(way,), clause=cell.clause, line=cell.line)

    def _still(self, cell: model.Cell) -> model.Outcome:
        reply = cell.codes if isinstance(cell, model.Refuses) else ("ok",) if self.event.kind == "call" else ()
        return model.Outcome(name="still", to=self.state, reply=reply)

    def _ways(self, way: model.Outcome) -> Iterator[tuple[str, model.Outcome]]:
        verb = "begins" if way.begins else "to"
        for state in self.event.ends if way.begins else self.machine.states:
            if state != way.to:
                yield f"{verb} {state}", replace(way, to=state)
        if way.begins:
            return
        for each in dict.fromkeys(("ok", model.ANY_ERROR, *way.reply)) if way.reply else ():
            if way.reply != (each,):
                yield f"replies {each}", replace(way, reply=(each,))
        for index, output in enumerate(way.emits):
            yield f"drops {output}", replace(way, emits=(*way.emits[:index], *way.emits[index + 1 :]))
            if index and output != way.emits[index - 1]:
                swapped = (*way.emits[: index - 1], output, way.emits[index - 1], *way.emits[index + 1 :])
                yield f"swaps {way.emits[index - 1]} and {output}", replace(way, emits=swapped)
        for output in self.outputs:
            verb = "repeats" if output in way.emits else "adds"
            yield f"{verb} {output}", replace(way, emits=(*way.emits, output))

    def _name(self, change: str, way: model.Outcome | None = None) -> str:
        outcome = f"/{way.name}" if way is not None else ""
        return f"{self.event.name}{outcome}{' ends' if self.ends else ''} in {self.state}: {change}"


def _meaning(cell: model.Cell, state: str, kind: model.Kind) -> object:
    """Return the effect of *cell* in *state*, ignoring the names of its outcomes."""
    ways = model.outcomes(cell, state, kind)
    return ways and frozenset((way.to, frozenset(way.reply), way.emits, way.begins) for way in ways)


def _trimmed(machine: model.Machine) -> model.Machine:
    """Return *machine* without the ends that no call can reach."""
    for event in machine.events.values():
        if event.ends:
            found = in_progress(machine, event)
            if not event.ends.keys() <= found:
                ends = {state: end for state, end in event.ends.items() if state in found}
                return _trimmed(replace(machine, events={**machine.events, event.name: replace(event, ends=ends)}))
    return machine
