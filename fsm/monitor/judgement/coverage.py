"""Merge the cell coverage of several recordings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from fsm.machine import Machine
from fsm.monitor.judgement import Judged

CellName: TypeAlias = tuple[str, str]
"""The names of an event and a state. If the event ends a call, its name starts with ``…``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCoverage:
    """The coverage of a machine's cells by recordings.

    ``cells`` maps each cell, in model order, to the number of times that each recording, by name, has exercised the
    cell. ``unseen`` contains the events that recordings of these forms cannot show. ``seen`` contains the signals that
    recordings always show when they happen, or is ``None`` if recordings show all signals.
    """

    machine: Machine
    cells: Mapping[CellName, dict[str, int]]
    unseen: frozenset[str] = frozenset()
    seen: frozenset[str] | None = None

    @property
    def covered(self) -> frozenset[CellName]:
        return frozenset(cell for cell, counts in self.cells.items() if counts)

    @property
    def share(self) -> float:
        """The percentage of cells that at least one recording exercised."""
        return 100 * len(self.covered) / max(len(self.cells), 1)

    def same(self, other: MachineCoverage) -> bool:
        return self.machine.name == other.machine.name and [*self.cells] == [*other.cells]


def merged(recordings: Iterable[Judged]) -> tuple[MachineCoverage, ...]:
    """Return the coverage of each machine that judged a recording, in order of first appearance.

    Recordings with the same name count once. Machines with the same name but different cells are listed separately.
    """
    found: dict[tuple[str, tuple[CellName, ...]], MachineCoverage] = {}
    for judged in recordings:
        seen = judged.form.recorded
        for judgement in judged.judgements:
            machine, cells = judgement.machine, judgement.covered.cells
            signals = (event.name for event in machine.events.values() if event.kind != "call")
            unseen = frozenset(signals if judged.form.calls_only else ()) - (seen or frozenset())
            empty = MachineCoverage(machine=machine, cells={cell: {} for cell in cells}, unseen=unseen, seen=seen)
            at = (machine.name, tuple(cells))
            whole = found.setdefault(at, empty)
            found[at] = replace(whole, unseen=whole.unseen & unseen, seen=seen and whole.seen)
            for cell, count in cells.items():
                if count:
                    whole.cells[cell][judged.name] = count
    return tuple(found.values())
