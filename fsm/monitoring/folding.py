"""Violations with one cause, told once: the first few whole, the others counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fsm.trace import key
from fsm.verdict import Cause, Deviated, Edit, Finding, Repair, Violation

if TYPE_CHECKING:
    from fsm.monitoring.belief import Dynamics
    from fsm.monitoring.explaining import Explained
    from fsm.monitoring.possibility import Possibilities
    from fsm.trace import Observation
    from fsm.verdict import Tolerated

WHOLE: Final = 3
"""Violations of one cause that are kept whole."""

CAUSES: Final = 1_000
"""Causes that are told apart; a trace with more is not one of this machine."""

NAMED: Final = 1_000
"""Entities of one cause that are told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A violation that waits for the next observation of its entity, which may tell the edits apart."""

    observation: Observation
    file: str
    line: int
    before: Possibilities
    explained: Explained

    def closed(self, dynamics: Dynamics, following: Observation | None) -> Violation:
        """The violation, its edits weighed by what followed."""
        edits = list(self.explained.edits)
        if following is not None:
            after = key(following)
            edits.sort(key=lambda each: not dynamics.allows(each[1], after))
            said = key(self.observation)
            if following.event != self.observation.event and dynamics.allows(self.before, after):
                swapped = dynamics.after(self.before, after)
                if swapped and dynamics.allows(swapped, said):
                    name = following.event or following.shows or following.output
                    edits.insert(0, (Edit(repair=Repair.SWAPPED, instead=name), swapped))
        return Violation(
            machine=dynamics.table.machine.name,
            cause=self.explained.cause,
            observation=self.observation,
            file=self.file,
            line=self.line,
            before=self.explained.before,
            permitted=self.explained.permitted,
            clause=self.explained.clause,
            edits=tuple(edit for edit, _ in edits),
            resembles=self.explained.resembles,
        )


class Folder:
    """Collects violations and tolerated deviations by cause; memory does not grow with their number."""

    def __init__(self) -> None:
        self._groups: dict[tuple[object, ...], list[Violation]] = {}
        self._counts: dict[tuple[object, ...], int] = {}
        self._entities: dict[tuple[object, ...], set[str]] = {}
        self._tolerated: dict[str, Deviated] = {}

    def fold(self, violation: Violation) -> None:
        """Take one more *violation*."""
        seen = violation.observation
        said = seen.shows if violation.cause is Cause.STATE else seen.reply or seen.output
        group: tuple[object, ...] = (violation.cause, seen.event, said, violation.clause, violation.edits[:1])
        if group not in self._groups and len(self._groups) >= CAUSES:
            group = next(reversed(self._groups))
        whole = self._groups.setdefault(group, [])
        if len(whole) < WHOLE:
            whole.append(violation)
        self._counts[group] = self._counts.get(group, 0) + 1
        entities = self._entities.setdefault(group, set())
        if len(entities) < NAMED:
            entities.add(seen.entity)

    def tolerate(self, met: Tolerated) -> None:
        """Take one more deviation that the profile declares."""
        name = met.deviation.name
        known = self._tolerated.get(name)
        self._tolerated[name] = Deviated(first=known.first if known else met, count=known.count + 1 if known else 1)

    def findings(self) -> tuple[Finding, ...]:
        """Every cause, in the order of first appearance."""
        return tuple(
            Finding(first=tuple(whole), count=self._counts[group], entities=len(self._entities[group]))
            for group, whole in self._groups.items()
        )

    def tolerated(self) -> tuple[Deviated, ...]:
        """Every tolerated deviation, in the order of first appearance."""
        return tuple(self._tolerated.values())
