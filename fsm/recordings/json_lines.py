"""The project's own trace format: one JSON observation per line.

``docs/reference/trace-format.md`` describes the fields. If the first line has the key ``trace``, it is a header with
the machine and the signals that the trace does not show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

from fsm.errors import InputError, Problem, nearest
from fsm.recordings.line_reader import LineSequence, Piece
from fsm.recordings.notes import INCOMPLETE, Notes
from fsm.recordings.time_order import Ordering
from fsm.recordings.trace_lines import DECODER, LineMistake, is_plain, own, reading
from fsm.trace import Batch, Columns, Line, Observation, batch, nanoseconds

if TYPE_CHECKING:
    from fsm.recordings.decoded_columns import DecodedColumns


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The header of a trace.

    ``unseen`` lists signals that happen without an observation. If ``fresh`` is true, every entity starts in the
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
"""Number of errors after which the rest of a trace is not read."""


def header(line: bytes) -> TraceHeader | None:
    """Return the header in *line*, or ``None`` if it is not a header."""
    try:
        return msgspec.convert(own(line), TraceHeader)
    except msgspec.ValidationError:
        return None


def mistake(line: bytes) -> str:
    """Return what is wrong with the header in *line*, or an empty string if it is valid or not a header.

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
        return "" if unknown else str(error)  # an unknown key means that this is not a header
    return ""


LARGE: Final = 80 << 20
"""Size in bytes from which compiled code judges traces. Loading it pays off above 50 to 190 MiB."""


@dataclass(slots=True, kw_only=True)
class Trace:
    """Turns the lines of the trace ``name`` into observations.

    If ``clocked`` is true, both ends of a call have times. ``size`` is the size of the trace in bytes, or 0 if unknown.
    Unreadable lines are reported together at the end. If ``lenient`` is true, they are only counted. An incomplete last
    line is never an error.
    """

    name: str = ""
    title: TraceHeader = field(default_factory=lambda: TraceHeader(trace=1))
    lenient: bool = False
    notes: Notes = field(default_factory=Notes)
    clocked: bool = False
    settle: int | None = None
    size: int = 0
    _read: int = 0
    _columns: DecodedColumns | None = None
    _late: Ordering[tuple[int | Line, Observation]] = field(default_factory=Ordering)
    _timed: bool = False
    _latest: int = 0
    _problems: list[Problem] = field(default_factory=list)

    def observations(self, lines: Sequence[bytes], first: int, *, partial: bool = False) -> Batch:
        """Return the observations in *lines*, numbered from *first*. If *partial*, the last line has no line ending."""
        if first == 1 and lines and header(lines[0]) is not None:
            lines, first = lines[1:], 2
        data = lines.data if isinstance(lines, LineSequence) else b"\n".join(lines)
        found: Sequence[Observation] = ()
        numbers: Sequence[int | Line] = range(first, first + len(lines))
        if data.count(b"}\n{") == len(lines) - 1:  # otherwise one line may have two objects and another none
            with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                found = DECODER.decode_lines(data)
        relative = self.title.relative
        plain = len(found) == len(lines) and all(is_plain(each, relative=relative) for each in found)
        if not plain:
            found, numbers = self._one_by_one(lines, first, partial=partial)
        if any(seen.file for seen in found):
            places = zip(found, numbers, strict=True)
            numbers = [Line(seen.file, seen.line) if seen.file else number for seen, number in places]
        if self._timed or any(seen.end is not None for seen in found):
            return self._in_order(found, numbers)
        self._read += len(data)
        return Batch(found, numbers, self._as_columns(found, plain=plain))

    def _as_columns(self, found: Sequence[Observation], *, plain: bool) -> Columns | None:
        """Return *found* as columns, or ``None`` if compiled code is not worth loading or not installed."""
        if max(self._read, self.size) < LARGE or not found:
            return None
        if self._columns is None:
            try:
                from fsm.recordings.decoded_columns import DecodedColumns  # noqa: PLC0415  (needs the extra "fast")
            except ImportError:
                return None
            self._columns = DecodedColumns()
        return self._columns.of(found, plain=plain)

    def _one_by_one(self, lines: Sequence[bytes], first: int, *, partial: bool) -> tuple[list[Observation], list[int]]:
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
            self.notes.add_foreign(number)
        else:
            self._problems += [
                Problem(path=self.name, line=number, code="FSM219", what=what, hint=hint) for what, hint in mistakes
            ]
            if len(self._problems) >= MANY:
                raise InputError(self._problems)

    def _in_order(self, found: Sequence[Observation], numbers: Sequence[int | Line]) -> Batch:
        """Sort the observations by time, splitting calls with intervals in two. Return those that are final."""
        self._timed = True
        for seen, number in zip(found, numbers, strict=True):
            if seen.start is not None and seen.end is not None and seen.event:
                start, end = seen.start, max(seen.start, seen.end)
                reply = replace(seen, phase="reply", start=None, end=None, at=end if self.clocked else seen.at)
                ask = replace(reply, phase="request", reply="", shows="", met="", emits=None)
                self._late.add(start, (number, replace(ask, at=start) if self.clocked else ask))
                self._late.add(end, (number, reply))
                self._latest = max(self._latest, seen.end)
            else:
                at = nanoseconds(seen.at)
                self._latest = self._latest if at is None else max(self._latest, at)
                self._late.add(self._latest if at is None else at, (number, seen))
        return batch(self._late.settled() if self.settle is None else ())

    def ordered(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield *batches* of a table, sorted by time from the first call with an interval on."""
        for table in batches:
            rare = table.columns is None or (table.columns.kind < 0).any()
            if self._timed or (rare and any(seen.end is not None for seen in table.observations)):
                yield self._in_order(table.observations, table.lines)
            else:
                yield table
        yield self.rest()

    def batches(self, pieces: Iterable[Piece]) -> Iterator[Batch]:
        """Yield the observations of *pieces*. At the end, raise :class:`InputError` if lines could not be read."""
        for piece in pieces:
            if piece.gap:
                yield batch([*self._late.rest(), (0, Observation(phase="gap"))])
            yield self.observations(piece.lines, piece.first, partial=piece.partial)
            yield batch(self._late.due(self.settle, piece.quiet) if self.settle is not None else ())
        yield self.rest()

    def rest(self) -> Batch:
        """Return the remaining observations. Raise :class:`InputError` if any lines could not be read."""
        if self._problems:
            raise InputError(self._problems)
        return batch(self._late.rest())
