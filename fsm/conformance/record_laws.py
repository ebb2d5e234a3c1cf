"""Rules that apply in every lifecycle to the record that a SUT keeps in addition to its state.

A call must not change the record if it is ignored or refused, or if it fails without changing the state. An
interruption that does not change the state must not change the record either. Reading the record must return a copy.
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
    """The record of ``sut`` before a step. ``sut`` is ``None`` if the SUT has no record."""

    sut: Remembering | None
    record: Any = None
    writing: str = ""

    def look(self) -> None:
        """Read the record, then overwrite the result to check that it is a copy."""
        self.writing = ""
        if self.sut is None:
            return
        given = self.sut.record()
        self.record = deepcopy(given)
        if scribble(given) and self.sut.record() != self.record:
            self.writing = "a reader of its record can write to it: it changes with what was read"

    def fault(self, table: Table, went: Edge | None, seen: Response) -> str:
        """Return the fault in the record after a step by the edge *went*, or an empty string if there is none."""
        if self.sut is None:
            return ""
        before = self.record
        self.look()
        if self.writing or went is None or self.record == before:
            return self.writing
        why = _unchanging(table, went, seen)
        return f"{why}, and changed its record: {difference(before, self.record)}" if why else ""


def _unchanging(table: Table, went: Edge, seen: Response) -> str:
    """Return the reason why the record must not change, or an empty string if it may."""
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
    """Describe the first difference between two records.

    >>> difference({"pid": 7, "limits": {"cpu": 1}}, {"pid": 7, "limits": {"cpu": 2}})
    'limits.cpu was 1, and is 2'
    """
    if isinstance(before, MutableMapping) and isinstance(after, MutableMapping):
        for key in dict.fromkeys([*before, *after]):
            if before.get(key) != after.get(key) or (key in before) != (key in after):
                return difference(before.get(key), after.get(key), f"{at}.{key}" if at else str(key))
    return f"{at or 'it'} was {before!r}, and is {after!r}"


def scribble(given: Any) -> bool:  # noqa: ANN401  (records are anything)
    """Overwrite everything in *given* that is mutable. Return whether anything was.

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
    except AttributeError:  # frozen
        return False
    return True
