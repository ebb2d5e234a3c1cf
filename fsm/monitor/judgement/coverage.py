"""What several recordings cover of the machines that judge them: their counts of cells, merged.

Which of the other cells could be covered is left to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from fsm.machine import Machine
from fsm.monitor.judgement import Judged
from fsm.recordings import RecordingKind
from fsm.recordings.cri_calls import SHOWN

_OF_RUNTIMES: Final = frozenset({RecordingKind.CALLS, RecordingKind.LOG, RecordingKind.COMBINED})
"""Recordings of runtimes, whose containers may exit without a line."""

CellName: TypeAlias = tuple[str, str]
"""An event, with ``…`` before it for its ends, and a state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCoverage:
    """How often each recording met each cell of a machine, in the order of the model; a recording that did not is left out.

    ``unseen`` are the events that no recording of these kinds shows, ``seen`` the signals that happen nowhere but where
    they have them, ``None`` for all.
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
        """The percentage of the pairs that some recording met."""
        return 100 * len(self.covered) / max(len(self.cells), 1)

    def same(self, other: MachineCoverage) -> bool:
        """Whether *other* is of the same machine: its cells may be compared with these."""
        return self.machine.name == other.machine.name and [*self.cells] == [*other.cells]


def merged(recordings: Iterable[Judged]) -> tuple[MachineCoverage, ...]:
    """What all of *recordings* cover, for each machine that judged one of them, in that order.

    A recording that stands there twice counts once.  Machines of one name and different cells are kept apart.
    """
    found: dict[tuple[str, tuple[CellName, ...]], MachineCoverage] = {}
    for judged in recordings:
        for judgement in judged.judgements:
            cells = judgement.covered.cells
            machine, unseen = judgement.machine, _unseen(judgement.machine, judged.kind)
            seen = SHOWN if judged.kind in _OF_RUNTIMES else None
            of = (machine.name, tuple(cells))
            empty = MachineCoverage(machine=machine, cells={cell: {} for cell in cells}, unseen=unseen, seen=seen)
            whole = found.setdefault(of, empty)
            found[of] = replace(whole, unseen=whole.unseen & unseen, seen=seen and whole.seen)
            for cell, count in cells.items():
                if count:
                    whole.cells[cell][judged.name] = count
    return tuple(found.values())


def _unseen(machine: Machine, kind: RecordingKind) -> frozenset[str]:
    """The events of *machine* that no recording of *kind* shows: what happens without a call, where there are only calls."""
    if kind is not RecordingKind.CALLS:
        return frozenset()
    return frozenset(event.name for event in machine.events.values() if event.kind != "call") - SHOWN
