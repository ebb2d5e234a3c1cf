"""A trace: observations of many entities, in order.

An *observation* is a single thing that was observed: a request, a reply, a signal, a state that was shown, an output.
:mod:`fsm.recordings` turns logs and other recordings into observations; :mod:`fsm.monitor` judges them.  The JSON
form of an observation, field by field, is the trace format of ``docs/reference/trace-format.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias, TypeVar, overload

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


class Line(NamedTuple):
    """A line of one of several files."""

    file: str
    number: int

    @classmethod
    def of(cls, line: int | Line, file: str) -> Line:
        """Return *line* itself, or the line of *file* with the number *line*."""
        return line if isinstance(line, Line) else cls(file, line)


ABSENT: Final = "absent"
"""Value of ``met`` in a reply saying that the entity does not exist, whatever the machine calls that state."""

FRACTION: Final = re.compile(r"[.,](\d{1,9})\d*")
"""The fraction of a second in a time."""

LATEST: Final = (1 << 63) - 1
"""The latest time, and the longest duration, in columns and compiled code."""

NEVER: Final = -LATEST - 1
"""Value in a column for a time that is missing."""

Nanoseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=-LATEST, le=LATEST)]
"""Nanoseconds since the epoch, in the range of every reader: the lowest 64-bit number is :data:`NEVER`."""

Phase: TypeAlias = Literal["", "request", "reply", "lost", "answered", "noticed", "maybe", "assumed", "gap"]
"""The part of an event that was observed.

empty
    All of it: a call with its reply, a signal, or only a state or an output.
request, reply
    The two ends of a call; it acts at some instant between them.
lost
    The caller gave up: no reply will be observed, and the call may still act.
answered
    A reply to a call whose request was not recorded; the call acted at some instant before.
noticed
    A signal that may happen now, with or without its effect; the trace does not show whether it acts later.
maybe
    A signal that may have happened, or a call that may have been made.
assumed
    An event that nothing shows, but that may have happened since the last observation, once or repeatedly. If the trace
    is legal only because it did, the judgement reports that assumption.
gap
    Observations are missing: from here on nothing is known about the entity, or about any entity if none is named.
"""


class Observation(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A single thing that was observed.

    A ``msgspec`` struct, not a dataclass: a trace has millions, and the decoder makes them straight from bytes.

    ``of`` is the kind of entity (``container``).  ``event`` is the model's name for the event or its name on the wire.
    ``shows`` is the state that was shown just after; ``met`` the state in which the call was executed, if the reply
    reports it; ``emits`` the outputs that came with the event; ``output`` an output observed on its own.  An empty
    ``entity`` stands for every entity.  Times are nanoseconds since the epoch or RFC 3339; ``fields`` are shown beside
    the state, under the machine's names for them.  ``start`` and ``end`` are the interval of a whole call.  ``process``
    is the client that called, in a history of concurrent operations.  ``file`` and ``line`` are the place from which
    the observation was taken, if that is not its place in the trace.
    """

    entity: str = ""
    of: str = ""
    event: str = ""
    phase: Phase = ""
    reply: str = ""
    shows: str = ""
    met: str = ""
    output: str = ""
    emits: tuple[str, ...] | None = None
    at: Nanoseconds | str | None = None
    start: Nanoseconds | None = None
    end: Nanoseconds | None = None
    process: int | str | None = None
    detail: str = ""
    fields: dict[str, int | str] | None = None
    file: str = ""
    line: int = 0


class Columns(NamedTuple):
    """The observations of a batch as arrays, for compiled code.

    Observation ``i`` is of the kind ``kinds[kind[i]]``: an observation with everything that bears on legality
    (:class:`Key`) and ``of``, and nothing else.  If ``kind[i]`` is -1, only the observation itself has its content: it
    has fields, or a rare form.  ``kinds`` is one list for all batches of a recording, and only grows at its end.

    If ``kind[i]`` is not -1, the entity's id, in UTF-8, is ``text[starts[e]:ends[e]]``, with ``e = entity[i]``;
    entities are numbered separately in each batch, preferably once each.  ``at[i]`` is the time in nanoseconds since
    the epoch, or less than 0 if there is none; times before the epoch are only in the observation itself.
    """

    kinds: Sequence[Observation]
    kind: NDArray[np.int32]
    entity: NDArray[np.int32]
    text: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    at: NDArray[np.int64]


class Batch(NamedTuple):
    """Observations in order, and the line of each; with ``columns``, both may be :class:`Made` one by one."""

    observations: Sequence[Observation]
    lines: Sequence[int | Line]
    columns: Columns | None = None


class Made(Sequence[T]):
    """A sequence of *length* items, each created by *item* whenever it is accessed.

    >>> squares = Made(4, lambda index: index * index)
    >>> squares[-1], squares[1:3], list(squares)
    (9, [1, 4], [0, 1, 4, 9])
    """

    __slots__ = ("_item", "_length")

    def __init__(self, length: int, item: Callable[[int], T]) -> None:
        self._length, self._item = length, item

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        at = range(self._length)[index]
        return self._item(at) if isinstance(at, int) else list(map(self._item, at))


def batch(found: Iterable[tuple[int | Line, Observation]]) -> Batch:
    """Return the observations *found*, each with its line, as a batch."""
    listed = list(found)
    return Batch([seen for _, seen in listed], [line for line, _ in listed])


class Key(NamedTuple):
    """The fields of an observation that bear on legality: not the entity, the time or the line."""

    event: str = ""
    phase: Phase = ""
    reply: str = ""
    shows: str = ""
    met: str = ""
    output: str = ""
    emits: tuple[str, ...] | None = None


def key(seen: Observation) -> Key:
    """Return the part of *seen* that bears on legality.

    >>> key(Observation(entity="c1", event="stop", reply="ok")) == Key(event="stop", reply="ok")
    True
    """
    return Key(seen.event, seen.phase, seen.reply, seen.shows, seen.met, seen.output, seen.emits)


def seen_at(seen: Observation) -> int | None:
    """Return the time of *seen*, or the end of its interval, in nanoseconds since the epoch.

    >>> seen_at(Observation(start=1, end=2)), seen_at(Observation())
    (2, None)
    """
    return nanoseconds(seen.at if seen.at is not None else seen.end)


def nanoseconds(at: int | str | None) -> int | None:
    """Return *at* in nanoseconds since the epoch; ``None`` if it is not a time, or not in :data:`Nanoseconds`.

    >>> nanoseconds("1970-01-01T00:00:01.000000002Z")
    1000000002
    """
    if not isinstance(at, str):
        return at
    fraction = FRACTION.search(at)
    try:
        moment = datetime.fromisoformat(FRACTION.sub("", at) if fraction else at)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    found = int(moment.timestamp()) * 1_000_000_000 + (int(fraction[1].ljust(9, "0")) if fraction else 0)
    return found if -LATEST <= found <= LATEST else None
