"""What a SUT remembers beside its state, under laws that hold of every lifecycle.

A call that is ignored or refused, or that fails and moves nothing, changes nothing of it; what survives a restart is what
was there before it; and what a reader was given is a copy.
"""

from collections.abc import MutableMapping, MutableSequence, MutableSet
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from fsm.conformance.plan import Edge
from fsm.machine import Ignores, Refuses
from fsm.machine.table import Table
from fsm.sut import Remembering, Response

SCRIBBLE: Final = "scribbled over by the test"


@dataclass(slots=True)
class RecordSnapshot:
    """The record of *sut* before a step; ``None`` is one that shows none."""

    sut: Remembering | None
    record: Any = None
    writing: str = ""

    def look(self) -> None:
        """Read the record, and write all over what was read."""
        self.writing = ""
        if self.sut is None:
            return
        given = self.sut.record()
        self.record = deepcopy(given)
        if scribble(given) and self.sut.record() != self.record:
            self.writing = "a reader of its record can write to it: it changes with what was read"

    def fault(self, table: Table, went: Edge | None, seen: Response) -> str:
        """What is wrong with the record after the step that took the edge *went*; nothing if it is as it should be."""
        if self.sut is None:
            return ""
        before = self.record
        self.look()
        if self.writing or went is None or self.record == before:
            return self.writing
        why = _unchanging(table, went, seen)
        return f"{why}, and changed its record: {difference(before, self.record)}" if why else ""


def _unchanging(table: Table, went: Edge, seen: Response) -> str:
    """Why the record may not change, if it may not."""
    row, state = went.cells[0]
    event = table.rows[row].event
    cell = table.cell(state, row)
    if isinstance(cell, Ignores | Refuses):
        return f"{event.name} was {'ignored' if isinstance(cell, Ignores) else 'refused'}"
    if went.to is None:
        return ""
    same = went.to.state == went.source.state
    if event.kind == "call" and same and went.step.stage == "do" and seen.reply not in {None, "ok"}:
        return f"{event.name} failed"
    if event.interrupts and same:
        return f"it came through {event.name} as it was"
    return ""


def difference(before: Any, after: Any, at: str = "") -> str:  # noqa: ANN401  (records are anything)
    """The first place where two records differ.

    >>> difference({"pid": 7, "limits": {"cpu": 1}}, {"pid": 7, "limits": {"cpu": 2}})
    'limits.cpu was 1, and is 2'
    """
    if isinstance(before, MutableMapping) and isinstance(after, MutableMapping):
        for key in dict.fromkeys([*before, *after]):
            if before.get(key) != after.get(key) or (key in before) != (key in after):
                return difference(before.get(key), after.get(key), f"{at}.{key}" if at else str(key))
    return f"{at or 'it'} was {before!r}, and is {after!r}"


def scribble(given: Any) -> bool:  # noqa: ANN401  (records are anything)
    """Write into all of *given* that can be written to; whether anything could.

    >>> record = {"names": ["a"], "pid": 7}
    >>> scribble(record), record["names"][0] == SCRIBBLE
    (True, True)
    """
    match given:
        case MutableMapping():
            for key, value in list(given.items()):
                if not scribble(value):
                    given[key] = SCRIBBLE
            given[SCRIBBLE] = SCRIBBLE
        case MutableSequence():
            for index, value in enumerate(given):
                if not isinstance(given, bytearray) and not scribble(value):
                    given[index] = SCRIBBLE
            given.append(0 if isinstance(given, bytearray) else SCRIBBLE)
        case MutableSet():
            given.add(SCRIBBLE)
        case _ if is_dataclass(given) and not isinstance(given, type):
            written = False
            for field in fields(given):
                written |= scribble(getattr(given, field.name)) or _set(given, field.name)
            return written
        case _:
            return False
    return True


def _set(given: Any, name: str) -> bool:  # noqa: ANN401  (a dataclass)
    try:
        setattr(given, name, SCRIBBLE)
    except AttributeError:  # it is frozen
        return False
    return True
