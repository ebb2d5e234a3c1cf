"""Histories in fsm's own format, which :mod:`fsm.recordings.histories` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from fsm.linearizability.history import History


def written(machine: str, history: History, entity: str) -> bytes:
    """Return the file content for *history*, of one *entity*.  *machine* is a name or path for the header.

    >>> from fsm.linearizability.history import History, Operation
    >>> push = Operation(called=1, returned=3, event="push", reply="ok", thread=2)
    >>> print(written("door", History(operations=(push,)), "d").decode(), end="")
    {"history":1,"machine":"door"}
    {"process":2,"entity":"d","start":1,"event":"push","reply":"ok","end":3}
    """
    lines: list[dict[str, str | int]] = [{"history": 1, "machine": machine}]
    for each in history.operations:
        line: dict[str, str | int] = {"process": each.thread, "entity": entity, "start": each.called}
        line |= {key: value for key in ("event", "reply", "shows") if (value := getattr(each, key))}
        lines.append(line if each.returned is None else line | {"end": each.returned})
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
