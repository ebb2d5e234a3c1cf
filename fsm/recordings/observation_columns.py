"""Convert Arrow rows to batches of observations.

The words in each column are encoded as numbers, and rows with the same words have the same kind.
"""

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fsm.errors import documented, refused
from fsm.recordings.form import RecordingForm, form_of_title
from fsm.recordings.json_lines import EARLIEST, too_small_error
from fsm.recordings.line_reader import decode
from fsm.trace import LATEST, NEVER, Batch, Columns, Line, Made, Observation

ABOUT: Final = "recording"
"""Name of the column that contains the form or trace header of the recording, which is the same in every row."""
ROW: Final = "row"
"""Name of the column of row numbers. Rows must be in this order, which some tools do not preserve."""
TIMES: Final = ("at", "start", "end")
"""Names of the time columns, in nanoseconds since the epoch. Some tools do not support nanosecond timestamps."""
WORDS: Final = ("of", "event", "phase", "reply", "shows", "met", "output")
_TYPES: Final = {"emits": pa.list_(pa.string()), **dict.fromkeys((ROW, *TIMES, "line"), pa.int64())}
_NAMES: Final = (ROW, ABOUT, "entity", *WORDS, "emits", *TIMES, "detail", "fields", "args", "file", "line")
SCHEMA: Final = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _NAMES])
"""The columns of a table of observations.

``fields`` and ``args`` are JSON objects. ``file`` and ``line`` are the origin of the row.
"""
ENCODED: Final = (ABOUT, "entity", "file", *WORDS)
_MANY: Final = 1 << 16
"""Maximum number of kinds of rows. Rows of other kinds are converted one by one."""

_BETWEEN: Final = "\x1f"
_OWN: Final = (*WORDS, *TIMES, "entity", "emits", "detail", "fields", "args")
_RARE: Final = ("start", "end", "fields", "args")
_FIELDS: Final = msgspec.json.Decoder(dict[str, int | bool | str])
_HINT: Final = f"{documented('reference/trace-format#tables')} describes the columns; 'fsm convert' makes such a table"


class _RowDetails:
    def __init__(self, columns: Callable[[], dict[str, pa.Array]], first: int, count: int) -> None:
        self._read, self._first, self._count = columns, first, count

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        return {name: each for name, each in self._read().items() if each.null_count < self._count}

    @cached_property
    def _lines(self) -> NDArray[np.int64] | None:
        return _integers(self.columns["line"]) if "line" in self.columns else None

    def line(self, index: int) -> int:
        return self._first + index if self._lines is None else int(self._lines[index])

    def word(self, name: str, index: int) -> str:
        column = self.columns.get(name)
        return (column[index].as_py() or "") if column is not None else ""


class ObservationColumns:
    """Converts the rows of a recording, part by part, to batches of observations.

    If *epoch* is true, times that are too small to be nanoseconds since the epoch are rejected.

    >>> columns = ObservationColumns("trace.parquet")
    >>> rows = pa.RecordBatch.from_pylist([{"entity": "c1", "event": "stop"}, {"entity": "c2", "event": "stop"}])
    >>> found = columns.batch(rows)
    >>> found.observations[1].entity, found.lines[1], [found.columns.kinds[each].event for each in found.columns.kind]
    ('c2', 2, ['stop', 'stop'])
    """

    def __init__(self, name: str, *, epoch: bool = False) -> None:
        self._name, self._epoch = name, epoch
        self._count = 1
        self._said = set[str | None]()
        self._intervals = False
        self._row = NEVER
        self._kinds: list[Observation] = []
        self._numbers: dict[Observation, int] = {}

    def batch(self, rows: pa.RecordBatch, later: Callable[[], Mapping[str, pa.Array]] = dict) -> Batch:
        """Return the observations in *rows*, which are the next rows of the recording.

        Rows without line numbers are numbered consecutively. *later* returns the columns that judging does not need,
        and is called only when such a column is used. Raise :class:`InputError` if a column has the wrong type, or if
        fields are not JSON.
        """
        count, given = rows.num_rows, dict(zip(rows.schema.names, rows.columns, strict=True))
        columns = {name: column for name, column in self._columns(given).items() if column.null_count < count}
        beside = _RowDetails(lambda: columns | self._columns(later()), self._count, count)
        if self._epoch:
            self._check_times(given)
        self._count += count
        self._check(columns, count)
        kind, kinds = self._kind(columns, count), self._kinds
        for rare in filter(None, map(columns.get, _RARE)):
            kind[np.array(rare.is_valid())] = -1
        at = _integers(columns["at"]) if "at" in columns else np.full(count, NEVER)
        kind[(at < 0) & (at != NEVER)] = -1
        entity, ids = _ids(columns.get("entity"), count)

        def observation(index: int) -> Observation:
            if kind[index] < 0:
                whole = beside.columns
                alone = {name: whole[name][index] for name in _OWN if name in whole}
                given: dict[str, object] = {name: value.as_py() for name, value in alone.items() if value.is_valid}
                return self._to_observation(given, beside.line(index))
            seen: Observation = msgspec.structs.replace(
                kinds[kind[index]],
                entity=ids[entity[index]],
                at=None if at[index] == NEVER else int(at[index]),
                detail=beside.word("detail", index),
            )
            return seen

        def line(index: int) -> int | Line:
            file = beside.word("file", index)
            return Line(file, beside.line(index)) if file else beside.line(index)

        found = Columns(kinds, kind, entity, ids, at)
        # Compiled code does not know when a call began, so it cannot tell whether the id of the call is new.
        own = None if self._intervals else found
        return Batch(Made(count, observation), Made(count, line), own)

    def _columns(self, found: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        return {name: self._cast_column(name, found[name]) for name in SCHEMA.names if name in found}

    def _check(self, columns: Mapping[str, pa.Array], count: int) -> None:
        about = columns.get(ABOUT)
        self._said.update([None] * bool(count) if about is None else pc.unique(about).to_pylist())
        if len(self._said) > 1:
            one, other, *_ = sorted(f"'{each}'" if each else "none" for each in self._said)
            what = f"the table has rows of several recordings: column '{ABOUT}' has the values {one} and {other}"
            raise refused(self._name, "FSM212", what, "judge the rows of each recording separately")
        for known in (form_of_title(each or "", self._name) for each in self._said if not self._intervals):
            self._intervals = isinstance(known, RecordingForm) and known.intervals
        if ROW in columns:
            numbers = _integers(columns[ROW])
            if (numbers[1:] <= numbers[:-1]).any() or (len(numbers) and numbers[0] <= self._row):
                what = f"the rows of the table are not in the order of column '{ROW}'"
                raise refused(self._name, "FSM212", what, f"sort the table by '{ROW}'")
            self._row = int(numbers[-1]) if len(numbers) else self._row

    def _check_times(self, columns: Mapping[str, pa.Array]) -> None:
        for name in TIMES:
            kind = columns[name].type if name in columns else pa.null()
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                least = pc.min(columns[name]).as_py()
                if least is not None and least < EARLIEST:
                    what, hint = too_small_error(name, least)
                    raise refused(self._name, "FSM219", f"column {what}", hint)

    def _kind(self, columns: dict[str, pa.Array], count: int) -> NDArray[np.int32]:
        coded = {name: _dictionary_encode(column) for name, column in columns.items() if name in {*WORDS, "emits"}}
        words = {name: [*each.dictionary.to_pylist(), None] for name, each in coded.items()}
        combinations = math.prod(map(len, words.values()))
        if combinations > LATEST:
            return np.full(count, -1, np.int32)
        place = np.zeros(count, "int32" if combinations < 1 << 31 else "int64")
        for name, each in coded.items():
            place *= len(words[name])
            place += _fill_nulls(each.indices, len(each.dictionary))
        distinct = pa.array(place).dictionary_encode()
        numbers = [self._number(self._observation(each, words)) for each in distinct.dictionary.to_pylist()]
        kind: NDArray[np.int32] = np.array(numbers, np.int32).take(distinct.indices)
        return kind

    def _number(self, kind: Observation) -> int:
        if kind not in self._numbers and len(self._kinds) < _MANY:
            self._numbers[kind] = len(self._kinds)
            self._kinds.append(kind)
        return self._numbers.get(kind, -1)

    def _observation(self, place: int, words: dict[str, list[str | None]]) -> Observation:
        found: dict[str, object] = {}
        for name, each in reversed(words.items()):
            place, index = divmod(place, len(each))
            found[name] = each[index] or ""
        if emits := found.pop("emits", None):
            found["emits"] = tuple(filter(None, str(emits)[1:].split(_BETWEEN)))
        return self._to_observation(found)

    def _to_observation(self, values: dict[str, object], line: int = 0) -> Observation:
        try:
            for name in ("fields", "args"):
                if given := values.get(name):
                    values[name] = decode(str(given), _FIELDS)
            return msgspec.convert(values, Observation)
        except ValueError as error:
            raise refused(
                self._name, "FSM212", f"the file is not a table of observations: {error}", _HINT, line=line
            ) from error

    def _cast_column(self, name: str, column: pa.Array) -> pa.Array:
        wanted = SCHEMA.field(name).type
        if pa.types.is_dictionary(column.type) and wanted == pa.string():
            return column
        try:
            if name in {"fields", "args"} and pa.types.is_nested(column.type):
                column = pa.array([_json(each) for each in column.to_pylist(maps_as_pydicts="lossy")], pa.string())
            if name in TIMES and (pa.types.is_timestamp(column.type) or pa.types.is_string(column.type)):
                column = column.cast(pa.timestamp("ns", "UTC"))
            return column.cast(wanted)
        except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:  # e.g. dates in nested fields
            needed = "nanoseconds, a timestamp, or RFC 3339" if name in TIMES else wanted
            what = f"column '{name}' of type {column.type} has the wrong type or a wrong value; it needs {needed}"
            raise refused(self._name, "FSM212", what, _HINT) from error


def recording_title(rows: pa.RecordBatch) -> str:
    if ABOUT not in rows.schema.names or not rows.num_rows:
        return ""
    return str(rows[ABOUT].slice(0, 1).cast(pa.string())[0].as_py() or "")


def _json(fields: object) -> str | None:
    if not isinstance(fields, dict):
        return None
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None}).decode()


def _dictionary_encode(column: pa.Array) -> pa.DictionaryArray:
    words = column
    if pa.types.is_list(column.type):  # The "=" distinguishes an empty list from null.
        words = pc.binary_join_element_wise("=", pc.binary_join(column, _BETWEEN), "")
    return words if pa.types.is_dictionary(words.type) else words.dictionary_encode()


def _fill_nulls(indices: pa.Array, empty: int) -> NDArray[np.int32]:
    found = indices.cast(pa.int32())
    return np.asarray(found.fill_null(empty) if found.null_count else found, np.int32)


def _integers(column: pa.Array) -> NDArray[np.int64]:
    return np.asarray(column.fill_null(NEVER) if column.null_count else column, np.int64)


def _ids(column: pa.Array | None, count: int) -> tuple[NDArray[np.int32], list[str]]:
    if column is None:
        return np.zeros(count, np.int32), [""]
    found = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    words = found.dictionary.cast(pa.large_string())
    if len(words) > count or words.null_count:  # Encode the ids again to drop unused ids.
        found = found.cast(pa.large_string()).dictionary_encode()
        words = found.dictionary
    empty = pc.index(words, "").as_py() if found.indices.null_count else 0
    if empty < 0:
        empty, words = len(words), pa.concat_arrays([words, pa.array([""], pa.large_string())])
    return _fill_nulls(found.indices, empty), words.to_numpy(zero_copy_only=False).tolist()
