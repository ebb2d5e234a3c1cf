"""Histories of operations that several threads performed concurrently on one system.

An *operation* is either an event that a caller triggered, with its reply, or a look at the shown state.  It takes
effect at some instant between its call and its return.  :mod:`fsm.linearizability` decides whether a history is
legal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An event or a look at the shown state, between the times ``called`` and ``returned``.

    The times are integers of one clock, in any unit.  ``returned`` is ``None`` if the operation never returned.
    ``event`` is the machine's name for the event, or empty for a look.  ``reply`` is empty if it is unknown or the
    event is not a call.  ``shows`` is a value that was read after the event and before the return, or empty.
    ``thread`` is the caller and only matters for drawings.
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
            raise ValueError("an operation needs an event or an observed state")

    def __str__(self) -> str:
        seen = f"shows {self.shows}" if self.shows else ""
        if not self.event:
            return seen
        answer = "…" if self.returned is None else ", ".join(filter(None, (self.reply, seen)))
        return f"{self.event}: {answer}" if answer else self.event


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Operations on any number of entities, in any order.

    ``outputs`` maps each entity to its outputs in order.  The outputs of an entity that is missing here were not
    observed.

    >>> history = History(operations=(Operation(called=1, returned=4, event="push", reply="ok"),))
    >>> [(entity, len(part.operations)) for entity, part in history.parts()]
    [('', 1)]
    """

    operations: tuple[Operation, ...]
    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def parts(self) -> Iterator[tuple[str, History]]:
        """Yield each entity and its history, in order of first appearance."""
        for entity in dict.fromkeys([*(each.entity for each in self.operations), *self.outputs]):
            operations = tuple(each for each in self.operations if each.entity == entity)
            outputs = {entity: self.outputs[entity]} if entity in self.outputs else {}
            yield entity, History(operations=operations, outputs=outputs)
