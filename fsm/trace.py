"""Traces, which are sequences of observations of one or more entities.

An *observation* is a single thing that was observed, such as a request, a reply, a signal, a state or an output.
:mod:`fsm.recordings` converts logs and other recordings to observations, and :mod:`fsm.monitor` checks them. The JSON
format of traces is described in ``docs/reference/trace-format.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias, TypeVar, overload

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


class Line(NamedTuple):
    """A line of a file."""

    file: str
    number: int

    @classmethod
    def of(cls, line: int | Line, file: str) -> Line:
        return line if isinstance(line, Line) else cls(file, line)


ABSENT: Final = "absent"
"""The value of ``met`` if the reply says that the entity does not exist. It is the same for all machines."""

FRACTION: Final = re.compile(r"[.,](\d{1,9})\d*")

_PART: Final = re.compile(r'([\w.-]+)=("(?:[^"\\]|\\.)*"|[^\s"]+)(?: +|$)')
_PLAIN: Final = re.compile(r'[^\s"]+')

LATEST: Final = (1 << 63) - 1
"""The latest time and the longest duration, in nanoseconds, that compiled code can represent."""

NEVER: Final = -LATEST - 1  # the value for a missing time in a column

Nanoseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=-LATEST, le=LATEST)]
"""Nanoseconds since the epoch, as a 64-bit integer. The value :data:`NEVER` is reserved."""

Phase: TypeAlias = Literal["", "request", "reply", "lost", "answered", "noticed", "maybe", "assumed", "gap"]
"""The part of an event that was observed.

- empty: the whole event, which is a call with its reply or a signal, or a single state or output.
- request, reply: the start and end of a call, which takes effect at some instant in between.
- lost: the caller gave up. No reply will be observed, but the call may still take effect.
- answered: the reply to a call whose request was not recorded. The call took effect at some earlier instant.
- noticed: a signal that may happen now, with or without its effect. The trace does not show whether it takes effect
  later.
- maybe: a signal that may have happened, or a call that may have been made.
- assumed: an unobserved event that may have happened since the last observation, once or repeatedly. The judgement
  reports it if the trace is legal only because it happened.
- gap: observations are missing. Nothing is known about the entity, or about any entity if none is named.
"""


class Observation(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A single thing that was observed.

    ``of`` is the kind of entity, such as ``door``. If ``entity`` is empty, the observation concerns all entities.
    ``event`` is the model's name for the event, or the RPC name. ``shows`` is the state shown just after the event.
    ``met`` is the state in which the call was executed, if the reply reports it. ``emits`` lists the outputs observed
    with the event, and ``output`` is an output observed without one. ``fields`` maps the names of the machine's fields
    and variables to the values shown with the state. ``args`` maps the event's arguments to their values.

    Times are RFC 3339 or nanoseconds since the epoch. ``start`` and ``end`` are the interval of a whole call. In a
    history of concurrent operations, ``process`` is the calling client. ``file`` and ``line`` are the place
    where the observation was recorded, unless that place is the observation's own line of the trace.

    This is a ``msgspec`` struct because traces can have millions of observations, and ``msgspec`` decodes them
    directly from bytes.
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
    fields: dict[str, int | bool | str] | None = None
    args: dict[str, int | bool | str] | None = None
    file: str = ""
    line: int = 0


class Columns(NamedTuple):
    """The observations of a batch as arrays, for compiled code.

    ``kinds[kind[i]]`` is the kind of observation ``i``: its ``of`` and the attributes that affect legality
    (:class:`Key`). If ``kind[i]`` is -1, the arrays do not describe the observation, because it has ``fields``,
    ``args`` or a rare form. All batches of a recording share the list ``kinds``, which only grows. ``ids[entity[i]]``
    is the id of the entity, and ``at[i]`` is the time in nanoseconds since the epoch, or negative if it is unknown.
    """

    kinds: Sequence[Observation]
    kind: NDArray[np.int32]
    entity: NDArray[np.int32]
    ids: Sequence[str]
    at: NDArray[np.int64]


class Batch(NamedTuple):
    """A batch of observations and their lines. If there are ``columns``, both may be :class:`Made` sequences."""

    observations: Sequence[Observation]
    lines: Sequence[int | Line]
    columns: Columns | None = None


class Made(Sequence[T]):
    """A lazy sequence of *length* items. Each item is computed by ``item(index)`` when it is accessed.

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
    listed = list(found)
    return Batch([seen for _, seen in listed], [line for line, _ in listed])


class Key(NamedTuple):
    """The fields of an observation that affect legality. They do not include the entity, the time or the line.

    ``args`` are sorted. They may include the shown values of variables.
    """

    event: str = ""
    phase: Phase = ""
    reply: str = ""
    shows: str = ""
    met: str = ""
    output: str = ""
    emits: tuple[str, ...] | None = None
    args: tuple[tuple[str, int | bool | str], ...] = ()


def key(seen: Observation) -> Key:
    args = tuple(sorted(seen.args.items())) if seen.args else ()
    return Key(seen.event, seen.phase, seen.reply, seen.shows, seen.met, seen.output, seen.emits, args)


def shown_text(shows: str | Mapping[str, str]) -> str:
    r"""Return the text for a state that an observer of a system sees, from the states of its parts.

    A text is returned as it is.  Values with spaces or quotes are quoted as in JSON.

    >>> print(shown_text({"door": "OPEN", "lock": "not ready"}), shown_text("OPEN"))
    door=OPEN lock="not ready" OPEN
    """
    if isinstance(shows, str):
        return shows
    return " ".join(
        f"{part}={value if _PLAIN.fullmatch(value) else msgspec.json.encode(value).decode()}"
        for part, value in shows.items()
    )


@lru_cache(maxsize=4_096)
def shown_parts(text: str) -> Mapping[str, str]:
    """Return the states of parts in a text that :func:`shown_text` may return; empty for any other text.

    >>> dict(shown_parts('door=OPEN lock="not ready"')), dict(shown_parts("OPEN"))
    ({'door': 'OPEN', 'lock': 'not ready'}, {})
    """
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or part[1] in found:
            return MappingProxyType({})
        try:
            found[part[1]] = msgspec.json.decode(part[2], type=str) if part[2].startswith('"') else part[2]
        except msgspec.DecodeError:
            return MappingProxyType({})
        at = part.end()
    return MappingProxyType(found)


def seen_at(seen: Observation) -> int | None:
    """Return the time of an observation, or else the end of its interval, in nanoseconds since the epoch.

    >>> seen_at(Observation(start=1, end=2)), seen_at(Observation())
    (2, None)
    """
    return nanoseconds(seen.at if seen.at is not None else seen.end)


def nanoseconds(at: int | str | None) -> int | None:
    """Convert a time to nanoseconds since the epoch. Return ``None`` if it is missing, invalid or out of range.

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
