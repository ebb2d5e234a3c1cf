"""Read fsm's own trace format, which has a JSON observation on each line.

``docs/reference/trace-format.md`` describes the fields. If the first line has the key ``trace``, it is a header, which
specifies, for example, the machine and the signals that the trace does not show.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from fsm.errors import InputError, Problem, documented, nearest
from fsm.recordings.line_reader import INCOMPLETE, Notes, Piece, decoded
from fsm.recordings.time_order import Ordering
from fsm.trace import Batch, Columns, Line, Observation, batch, nanoseconds, shown_text

OWN: Final = "x-"
"""Prefix of keys that authors of traces may use freely."""

EARLIEST: Final = 946_684_800 * 10**9
"""2000-01-01 in nanoseconds since the epoch. A smaller time has another unit or comes from a relative clock."""

_LAST: Final = 4_102_444_800 * 10**9

_PAGE: Final = documented("reference/trace-format")
_FORM: Final = "write nanoseconds since the epoch, or RFC 3339"
_UNITS: Final = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3}
_KEYS: Final = Observation.__struct_fields__
_PARTS: Final = dict[Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+$")], str]
DECODER: Final = msgspec.json.Decoder(Observation)
_ANYTHING: Final = msgspec.json.Decoder(object)
_PLACE: Final = re.compile(r"(.+) - at `\$\.(\w+).*`")

_DAY: Final = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
)
_USUAL: Final = (
    rf"(?:19|2[01])\d\d-{_DAY}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
)
"""Pattern for times in the usual format, which need no further checks. Other times take longer to check."""

_TIME: Final = re.compile(_USUAL, re.ASCII)

LineMistake: TypeAlias = tuple[str, str]


def own(line: bytes) -> dict[str, object] | None:
    """Return the JSON object in *line* without keys that begin with ``x-``, or ``None`` if *line* is not an object."""
    found = decoded(line, _ANYTHING)
    return {key: each for key, each in found.items() if not key.startswith(OWN)} if isinstance(found, dict) else None


def is_plain(seen: Observation, *, relative: bool) -> bool:
    """Check whether the times of *seen* are valid, and whether it has both a file and a line or neither."""
    at, start, end = seen.at, seen.start, seen.end
    if bool(seen.file) != bool(seen.line) or (isinstance(at, str) and _TIME.fullmatch(at) is None):
        return False
    early = isinstance(at, int) and at < EARLIEST
    return relative or not (early or (start is not None and start < EARLIEST) or (end is not None and end < EARLIEST))


def reading(line: bytes, *, relative: bool) -> tuple[Observation | None, list[LineMistake]]:
    """Return the observation in *line*, or ``None`` and the errors. If *relative* is true, times may have any origin.

    >>> [what for what, _ in reading(b'{"entity": "c1", "evnt": "stop"}', relative=False)[1]]
    ["unknown key 'evnt'"]
    """
    found = decoded(line, DECODER)
    if found is not None and is_plain(found, relative=relative):
        return found, []
    given = own(line)
    if given is None:
        return None, [("the line is not a JSON object", f"each line of a trace must be a JSON object; see {_PAGE}")]
    unknown = [key for key in given if key not in _KEYS]
    free = f"; keys that begin with '{OWN}' are free"
    mistakes = [(f"unknown key '{key}'", nearest(key, _KEYS, of="keys") + free) for key in unknown]
    known = {key: each for key, each in given.items() if key in _KEYS}
    for key in ("shows", "met"):
        try:
            known |= {key: shown_text(msgspec.convert(known[key], _PARTS))} if key in known else {}
        except msgspec.ValidationError:
            continue  # a text, or an error that _convert_valid() reports
    for key in [each for each in ("at", "start", "end") if each in known]:
        known[key], wrong = _time(key, known[key], relative=relative)
        mistakes += [wrong] if wrong else []
    if bool(known.get("file")) != bool(known.get("line")):
        mistakes.append(
            ("the line has only one of the keys 'file' and 'line'", "give both 'file' and 'line', or neither of them")
        )
    seen = _convert_valid(known, mistakes)
    return (None if mistakes else seen), mistakes


def _convert_valid(known: dict[str, object], mistakes: list[LineMistake]) -> Observation | None:
    while True:
        try:
            return msgspec.convert(known, Observation)
        except msgspec.ValidationError as error:
            place = _PLACE.fullmatch(str(error))
            if place is None:
                raise
            what, key = place.groups()
            known.pop(key)
            mistakes.append((f"'{key}': {what[:1].lower()}{what[1:]}", f"{_PAGE} lists the types of the keys"))


def _time(key: str, value: object, *, relative: bool) -> tuple[object, LineMistake | None]:
    if isinstance(value, str):
        if (at := nanoseconds(value)) is None:
            return None, (f"'{key}' is not a time: '{value}'", _FORM)
        return (value if key == "at" else at), None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return value, None
    return (int(value), None) if value >= EARLIEST or relative else (None, too_small_error(key, value))


def too_small_error(key: str, value: float) -> LineMistake:
    """Return an error for a time that is too small to be in nanoseconds, with the likely unit."""
    unit = next((name for name, factor in _UNITS.items() if EARLIEST <= value * factor < _LAST), "")
    what = f"'{key}' is {value}, which is too small for nanoseconds of this century"
    meant = f"; it may be {unit}" if unit else ""
    times = f"multiply by {_UNITS[unit]:,}" if unit else _FORM
    return (f"{what}{meant}", f'{times}; if the clock is relative, write "clock": "relative" in the header')


if TYPE_CHECKING:
    from fsm.recordings.decoded_columns import DecodedColumns


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The header of a trace.

    ``unseen`` lists the signals that happen without an observation. If ``fresh`` is true, every entity starts in the
    initial state. If ``clock`` is ``relative``, times do not count from the epoch.
    """

    trace: Literal[1]
    machine: str = ""
    fresh: bool = False
    unseen: tuple[str, ...] = ()
    clock: Literal["epoch", "relative"] = "epoch"

    @property
    def relative(self) -> bool:
        return self.clock == "relative"


_WORDS: Final = TraceHeader.__struct_fields__

MANY: Final = 1_000


def header(line: bytes) -> TraceHeader | None:
    try:
        return msgspec.convert(own(line), TraceHeader)
    except msgspec.ValidationError:
        return None


def mistake(line: bytes) -> str:
    """Describe the error in the header *line*, or return an empty string if *line* is valid or not a header.

    >>> mistake(b'{"trace": 1, "machine": 7}')
    'Expected `str`, got `int` - at `$.machine`'
    """
    found = own(line)
    if found is None or "trace" not in found:
        return ""
    try:
        msgspec.convert(found, TraceHeader)
    except msgspec.ValidationError as error:
        unknown = next((key for key in found if key not in _WORDS), "")
        if unknown and isinstance(found["trace"], int):
            return f"unknown key '{unknown}', {nearest(unknown, _WORDS, of='keys')}"
        return "" if unknown else str(error)  # A line with an unknown key and no version is not a header.
    return ""


LARGE: Final = 80 << 20
"""Minimum size in bytes of a trace to judge with compiled code. Loading the code pays off above 50 to 190 MiB."""


@dataclass(slots=True, kw_only=True)
class Trace:
    """Converts the lines of the trace ``name`` to observations.

    ``size`` is the size of the trace in bytes, or 0 if it is unknown. Unreadable lines are reported together at the end
    or, if ``lenient`` is true, only counted. An incomplete last line is never an error.
    """

    name: str = ""
    title: TraceHeader = field(default_factory=lambda: TraceHeader(trace=1))
    lenient: bool = False
    notes: Notes = field(default_factory=Notes)
    settle: int | None = None
    size: int = 0
    _read: int = 0
    _columns: DecodedColumns | None = None
    _late: Ordering[tuple[int | Line, Observation]] = field(default_factory=Ordering)
    _timed: bool = False
    _latest: int = 0
    _problems: list[Problem] = field(default_factory=list)

    def observations(self, data: bytes, first: int, *, partial: bool = False) -> Batch:
        if first == 1 and header(data.partition(b"\n")[0]) is not None:
            data, first = data.partition(b"\n")[2], 2
        found: Sequence[Observation] = ()
        count = data.count(b"\n") + 1
        numbers: Sequence[int | Line] = range(first, first + count)
        if data.count(b"}\n{") == count - 1:  # otherwise, one line may have two objects and another line none
            with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                found = DECODER.decode_lines(data)
        relative = self.title.relative
        plain = len(found) == count and all(is_plain(each, relative=relative) for each in found)
        if not plain:
            found, numbers = self._read_each_line(data.split(b"\n"), first, partial=partial)
        if any(seen.file for seen in found):
            places = zip(found, numbers, strict=True)
            numbers = [Line(seen.file, seen.line) if seen.file else number for seen, number in places]
        if self._timed or any(seen.end is not None for seen in found):
            return self._sort_by_time(found, numbers)
        self._read += len(data)
        return Batch(found, numbers, self._as_columns(found, plain=plain))

    def _as_columns(self, found: Sequence[Observation], *, plain: bool) -> Columns | None:
        if max(self._read, self.size) < LARGE or not found:
            return None
        if self._columns is None:
            try:
                from fsm.recordings.decoded_columns import DecodedColumns  # noqa: PLC0415  (slow; in an extra)
            except ImportError:
                return None
            self._columns = DecodedColumns()
        return self._columns.of(found, plain=plain)

    def _read_each_line(
        self, lines: Sequence[bytes], first: int, *, partial: bool
    ) -> tuple[list[Observation], list[int]]:
        found: list[Observation] = []
        numbers: list[int] = []
        for number, line in enumerate(lines, first):
            seen, mistakes = reading(line, relative=self.title.relative)
            if seen is not None:
                found.append(seen)
                numbers.append(number)
            elif line.strip() and header(line) != self.title:
                self._drop(line, number, mistakes, partial=partial and number == first + len(lines) - 1)
        return found, numbers

    def _drop(self, line: bytes, number: int, mistakes: Iterable[LineMistake], *, partial: bool) -> None:
        if partial and own(line) is None:
            self.notes[INCOMPLETE] += 1
        elif self.lenient:
            self.notes.add(number)
        else:
            self._problems += [
                Problem(path=self.name, line=number, code="FSM219", what=what, hint=hint) for what, hint in mistakes
            ]
            if len(self._problems) >= MANY:
                raise InputError(self._problems)

    def _sort_by_time(self, found: Sequence[Observation], numbers: Sequence[int | Line]) -> Batch:
        """Split each call with an interval into request and reply, sort by time, and return the part in final order."""
        self._timed = True
        for seen, number in zip(found, numbers, strict=True):
            if seen.start is not None and seen.end is not None and seen.event:
                start, end = seen.start, max(seen.start, seen.end)
                reply = replace(seen, phase="reply", start=None, end=None, at=end)
                ask = replace(reply, phase="request", reply="", shows="", met="", emits=None, fields=None, at=start)
                self._late.add(start, (number, ask))
                self._late.add(end, (number, reply))
                self._latest = max(self._latest, seen.end)
            else:
                at = nanoseconds(seen.at)
                self._latest = self._latest if at is None else max(self._latest, at)
                self._late.add(self._latest if at is None else at, (number, seen))
        return batch(self._late.settled() if self.settle is None else ())

    def ordered(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the *batches* of a table. Start to sort by time at the first batch that has a call with an interval."""
        for table in batches:
            rare = table.columns is None or (table.columns.kind < 0).any()
            if self._timed or (rare and any(seen.end is not None for seen in table.observations)):
                yield self._sort_by_time(table.observations, table.lines)
            else:
                yield table
        yield self.rest()

    def batches(self, pieces: Iterable[Piece]) -> Iterator[Batch]:
        """Yield the observations in *pieces*. At the end, raise :class:`InputError` if some lines were unreadable."""
        for piece in pieces:
            if piece.gap:
                yield batch([*self._late.rest(), (0, Observation(phase="gap"))])
            yield self.observations(piece.data, piece.first, partial=piece.partial)
            yield batch(self._late.due(self.settle, piece.quiet) if self.settle is not None else ())
        yield self.rest()

    def rest(self) -> Batch:
        if self._problems:
            raise InputError(self._problems)
        return batch(self._late.rest())
