"""What happened when several threads used a system at once: operations, each from one instant to another.

An *operation* is an event that was made to happen, with its reply; or a look at what is shown.  It acts at some instant
between the two that were measured.  :mod:`fsm.linearizability` says whether a history is legal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An event between the instants ``called`` and ``returned``, which is ``None`` if it never returned.

    Instants are integers of one clock, in any unit.  ``event`` is the name that the machine has for it; without one the
    operation is a look only.  ``reply`` is empty for what is no call, and where it is unknown.  ``shows`` is what was
    seen when the event had happened, still before the operation returned; empty where it was not read.  ``thread``, the
    caller, affects only the drawing.
    """

    called: int
    returned: int | None
    event: str = ""
    reply: str = ""
    shows: str = ""
    entity: str = ""
    thread: int = 0

    def __post_init__(self) -> None:
        if self.returned is not None and self.returned < self.called:
            raise ValueError(f"{self} returned at {self.returned}, before it was called at {self.called}")
        if not self.event and not self.shows:
            raise ValueError("an operation has an event, or shows something")

    def __str__(self) -> str:
        """As in ``start: ok``."""
        seen = f"shows {self.shows}" if self.shows else ""
        if not self.event:
            return seen
        answer = "…" if self.returned is None else ", ".join(filter(None, (self.reply, seen)))
        return f"{self.event}: {answer}" if answer else self.event


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Operations in any order, on any number of entities.

    ``outputs`` are by entity all that came out, in order; of an entity that is not named there they were not observed.

    >>> history = History(operations=(Operation(called=1, returned=4, event="push", reply="ok"),))
    >>> [(entity, len(part.operations)) for entity, part in history.parts()]
    [('', 1)]
    """

    operations: tuple[Operation, ...]
    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def parts(self) -> Iterator[tuple[str, History]]:
        """The history of each entity, in the order in which they are met."""
        for entity in dict.fromkeys([*(each.entity for each in self.operations), *self.outputs]):
            operations = tuple(each for each in self.operations if each.entity == entity)
            outputs = {entity: self.outputs[entity]} if entity in self.outputs else {}
            yield entity, History(operations=operations, outputs=outputs)
