"""Read recordings from Parquet and Arrow files, and write recordings as Parquet.

The files are local or in a store such as S3. A table may consist of several files in a folder or several files that
match a pattern. They are read in the order of their names.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache, partial
from threading import Lock
from typing import BinaryIO, Final, Literal, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
from pyarrow import fs, ipc, parquet

from fsm.errors import refused
from fsm.recordings import ARROW, PARQUET, SUFFIXES
from fsm.recordings.form import TRACE, Recording, RecordingForm, form_of_title, recorded
from fsm.recordings.json_lines import Trace, TraceHeader
from fsm.recordings.line_reader import STDIN, Notes, decode
from fsm.recordings.observation_columns import ABOUT, ENCODED, ROW, SCHEMA, TIMES, ObservationColumns, recording_title
from fsm.recordings.time_order import HELD, Restarts
from fsm.trace import Batch, Line, Observation, nanoseconds

ORIGIN: Final = b"container-fsm"
"""Metadata key under which a table stores the :class:`Origin` of its recording."""

GROUP: Final = 1 << 19
"""Number of rows to read at a time, and the size of a row group. Each row group is compressed separately."""

ENOUGH: Final = 1 << 17
"""Maximum number of rows in a table that is judged without compiled code, because loading it would take longer."""

HOW: Final = {
    "compression": "zstd",
    "use_dictionary": [*ENCODED, "detail", "fields", "args"],
    "column_encoding": dict.fromkeys((ROW, "line", *TIMES), "DELTA_BINARY_PACKED"),
    "dictionary_pagesize_limit": 128 * GROUP,
}
"""Options for writing a table. Dictionary encoding stores each 64-digit id only once per row group."""

LATER: Final = {"detail": pa.types.is_string, "file": pa.types.is_string, "line": pa.types.is_int64}
"""Type checks for the columns that judging does not need. A column that passes its check is read later."""

_STREAM: Final = b"\xff\xff\xff\xff"
"""Magic bytes of the Arrow streaming format, which files with an Arrow suffix may also have."""

_DIGITS: Final = re.compile(r"(\d+)")
_HINT: Final = (
    "give the path of a Parquet or Arrow file, of a folder of them, or a pattern such as s3://bucket/*.parquet"
)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a recording apart from its observations, as in :class:`fsm.recordings.form.Recording`.

    ``about`` is the form or trace header that is repeated in each row. ``restarts`` is the setting with which the calls
    were read. ``version`` is the version at the end of the recording. ``first`` is the first version that it showed,
    or an empty string if the first :data:`HELD` observations showed no version.
    """

    about: str
    restarts: Restarts
    fresh: bool = False
    version: str = ""
    first: str | None = None
    notes: Mapping[str, int] = {}
    within: Mapping[str, str] | None = None
    names: Mapping[str, tuple[str, ...]] = {}


_ORIGIN: Final = msgspec.json.Decoder(Origin)


def recording(
    name: str,
    notes: Notes,
    advanced: Callable[[int], None] = lambda _: None,
    *,
    restarts: Restarts,
    as_called: bool = False,
) -> Recording:
    """Open the recording in the table *name*, like :func:`fsm.recordings.open_recording`.

    Raise :class:`InputError` if the file cannot be opened or is not a table of observations. For a converted
    recording, also raise it if *as_called* is true or if the calls were read with a different setting of *restarts*.
    """
    table = _Table(name)
    batches = table.batches(notes, advanced)
    if table.origin is None:
        known = form_of_title(table.about, name)
        table.epoch = isinstance(known, TraceHeader) and not known.relative
        return recorded(known, name, Trace(notes=notes).ordered(batches), notes)
    origin = table.origin
    if as_called:
        what = "the file is a table, which does not contain the original calls"
        raise refused(name, "FSM201", what, "give the recording from which the table was converted")
    known = form_of_title(origin.about, name)
    if isinstance(known, RecordingForm) and known.calls_only and origin.restarts != restarts:
        made = origin.restarts
        what = f"the table was converted with --restarts {made.assume} --shortest-restart {made.shortest // 1_000_000}"
        raise refused(name, "FSM201", what, "use the same options, or convert the recording again")
    return replace(
        recorded(known, name, batches, notes),
        fresh=origin.fresh,
        version=lambda: origin.version if table.read or origin.first is None else origin.first,
        within=origin.within,
        names=origin.names,
    )


def write(found: Recording, sink: BinaryIO, restarts: Restarts) -> int:
    known = found.form.title
    if found.form is TRACE:
        clock: Literal["epoch", "relative"] = "relative" if found.relative else "epoch"
        title = TraceHeader(trace=1, machine="".join(found.machines[:1]), unseen=found.hidden, clock=clock)
        known = msgspec.json.encode(title).decode()
    rows, waiting, size = 0, list[pa.RecordBatch](), 0
    first: str | None = None
    with parquet.ParquetWriter(sink, SCHEMA, **HOW) as writer:
        for batch in found.batches:
            waiting.append(_rows(batch, rows + size, found.name, known))
            size += waiting[-1].num_rows
            if first is None and (found.version() or rows + size > HELD):
                first = found.version()
            if size >= GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                rows, waiting, size = rows + size, [], 0
        writer.write_table(pa.Table.from_batches(waiting, SCHEMA))
        origin = Origin(
            about=known,
            restarts=restarts,
            fresh=found.fresh,
            version=found.version(),
            first=first,
            notes=found.notes,
            within=found.within,
            names=found.names,
        )
        writer.add_key_value_metadata({ORIGIN: msgspec.json.encode(origin)})
    return rows + size


def matching(name: str) -> list[str]:
    path, mark, options = name.partition("?")
    place, _, pattern = path.rpartition("/")
    with _convert_read_errors(name):
        store, folder = _store(f"{place}{mark}{options}")
        found = [each for each in store.get_file_info(fs.FileSelector(folder)) if fnmatch(each.base_name, pattern)]
    if not found:
        raise refused(name, "FSM201", "the file cannot be opened: no file matches", _HINT)
    return sorted(f"{place}/{each.base_name}{mark}{options}" for each in found)


class _Table:
    def __init__(self, name: str) -> None:
        self.name = name
        self.origin: Origin | None = None
        self.about = ""
        self.read = self.epoch = False
        with _convert_read_errors(name):
            self._store, path = _store(name)
            for column, equal, _ in (each.partition("=") for each in path.split("/")):
                if equal and column in SCHEMA.names:  # The files lack this column, which the rows need.
                    what = f"the file is a part of a table that was divided by '{column}', but lacks this column"
                    raise refused(name, "FSM212", what, _HINT)
            self._files = _files(self._store, path)
        for each in self._files:
            with _convert_read_errors(self._file_name(each)):
                self._begin(each)
        if not self._files:
            raise refused(name, "FSM201", "the folder contains no Parquet or Arrow file", _HINT)

    def _file_name(self, file: fs.FileInfo) -> str:
        return self.name if len(self._files) == 1 else f"{self.name.rstrip('/')}/{file.base_name}"

    def _begin(self, file: fs.FileInfo) -> None:
        with self._store.open_input_file(file.path) as opened:
            metadata, names, _, pieces = _reader(opened, self.name)
            if ORIGIN in metadata:
                if len(self._files) > 1:
                    what = f"the folder contains several recordings, such as {file.base_name}"
                    raise refused(self.name, "FSM212", what, "give the files, not the folder")
                self.origin = decode(metadata[ORIGIN], _ORIGIN)
            elif ABOUT in names and not self.about:
                self.about = next((recording_title(rows) for rows, _ in pieces), "")

    def batches(self, notes: Counter[str], advanced: Callable[[int], None]) -> Iterator[Batch]:
        columns, read = ObservationColumns(self.name, epoch=self.epoch), 0
        for each in self._files:
            with _convert_read_errors(self._file_name(each)):
                # Leave the file open, because some of its columns may be read later.
                _, _, rows, pieces = _reader(self._store.open_input_file(each.path), self._file_name(each))
                for piece, later in _read_ahead(pieces):
                    read += piece.num_rows
                    found = columns.batch(piece, later)
                    yield found if max(read, rows) > ENOUGH else found._replace(columns=None)
                    if self.origin is None:
                        notes["lines"] += piece.num_rows
                    advanced(each.size * piece.num_rows // max(1, rows))
        if self.origin is not None:
            notes.update(self.origin.notes)
        self.read = True


@contextmanager
def _convert_read_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ImportError, ValueError, ArithmeticError, pa.ArrowException) as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise refused(name, "FSM201", f"the table cannot be read: {said}", _HINT) from error


def _rows(batch: Batch, first: int, name: str, known: str) -> pa.RecordBatch:
    seen = list(batch.observations)
    lines = [Line.of(line, "" if name == STDIN else name) for line in batch.lines]
    own = [name for name in SCHEMA.names if name in Observation.__struct_fields__]
    found: dict[str, Sequence[object]] = {name: [getattr(one, name) or None for one in seen] for name in own}
    found |= {
        ROW: range(first, first + len(seen)),
        ABOUT: [known] * len(seen),
        "emits": [one.emits for one in seen],
        "at": [nanoseconds(one.at) for one in seen],
        "fields": [msgspec.json.encode(one.fields).decode() if one.fields else None for one in seen],
        "args": [msgspec.json.encode(one.args).decode() if one.args else None for one in seen],
        "file": [line.file or None for line in lines],
        "line": [line.number for line in lines],
    }
    return pa.RecordBatch.from_pydict(found, SCHEMA)


def _store(name: str) -> tuple[fs.FileSystem, str]:
    if "://" not in name:
        return fs.LocalFileSystem(), name
    try:
        store, path = fs.FileSystem.from_uri(name)
    except pa.ArrowInvalid:  # Arrow itself does not support this store.
        import fsspec  # noqa: PLC0415  (only other stores need it)

        own, path = fsspec.core.url_to_fs(name)
        store = fs.PyFileSystem(fs.FSSpecHandler(own))
    return store, path


def _files(store: fs.FileSystem, path: str) -> list[fs.FileInfo]:
    """Return the files of a table in natural order of their names, in which 2 comes before 10."""
    info = store.get_file_info(path)
    if info.type is fs.FileType.NotFound:
        raise FileNotFoundError("no such file")
    if info.type is not fs.FileType.Directory:
        return [info]
    found = [file for file in store.get_file_info(fs.FileSelector(path)) if file.is_file]
    files = (file for file in found if file.base_name.endswith(SUFFIXES) and file.base_name[0] not in "._")
    return sorted(
        files, key=lambda file: [int(part) if part.isdecimal() else part for part in _DIGITS.split(file.path)]
    )


_Pieces: TypeAlias = Iterator[tuple[pa.RecordBatch, Callable[[], Mapping[str, pa.Array]]]]
"""Batches of rows, each with a function that returns the columns to be read later."""


class _Opened(NamedTuple):
    metadata: Mapping[bytes, bytes]
    names: list[str]
    rows: int
    pieces: _Pieces


def _reader(file: pa.NativeFile, name: str) -> _Opened:
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(PARQUET):
        metadata = parquet.read_metadata(file)
        own = _check_schema(metadata.schema.to_arrow_schema())
        words = [each for each in ENCODED if each in own.names and pa.types.is_string(own.field(each).type)]
        found = parquet.ParquetFile(file, metadata=metadata, read_dictionary=words)
        return _Opened(metadata.metadata or {}, own.names, metadata.num_rows, _pieces(found, name))
    if magic.startswith((ARROW, _STREAM)):
        stream = magic.startswith(_STREAM)
        opened = ipc.open_stream(file) if stream else ipc.open_file(file)
        _check_schema(opened.schema)
        whole = map(_validated, opened if stream else map(opened.get_batch, range(opened.num_record_batches)))
        pieces = (each.slice(start, GROUP) for each in whole for start in range(0, each.num_rows, GROUP))
        return _Opened(opened.schema.metadata or {}, opened.schema.names, 0, ((each, dict) for each in pieces))
    raise pa.ArrowInvalid("the file is neither a Parquet file nor an Arrow file")


def _check_schema(schema: pa.Schema) -> pa.Schema:
    names = [each for each in schema.names if each in SCHEMA.names]
    if twice := [each for each, count in Counter(names).items() if count > 1]:
        raise pa.ArrowInvalid(f"the table has two columns '{twice[0]}'")
    if not {*names} & {*ENCODED, "emits"}:
        raise pa.ArrowInvalid("the table has no column that an observation needs")
    return schema


def _validated(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Validate *rows* and return their known columns.

    With invalid offsets, Arrow would read out of bounds.
    """
    found = rows.select([each for each in rows.schema.names if each in SCHEMA.names])
    found.validate(full=True)
    return found


def _read_ahead(pieces: _Pieces) -> _Pieces:
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, pieces, None)
        while (piece := coming.result()) is not None:
            coming = thread.submit(next, pieces, None)
            yield piece


def _pieces(file: parquet.ParquetFile, name: str) -> _Pieces:
    own = [each for each in file.schema_arrow if each.name in SCHEMA.names]
    later = [each.name for each in own if each.name in LATER and LATER[each.name](each.type)]
    first = [each.name for each in own if each.name not in later] or later
    alone = Lock()  # the thread that reads ahead must not use the file while other columns are read
    for group in range(file.num_row_groups):
        rest, start = _later_columns(file, group, later, name, alone), 0
        batches = file.iter_batches(batch_size=GROUP, row_groups=[group], columns=first, use_threads=False)
        while (rows := _next(batches, alone)) is not None:
            yield rows, partial(rest, start, rows.num_rows)
            start += rows.num_rows


def _next(batches: Iterator[pa.RecordBatch], alone: Lock) -> pa.RecordBatch | None:
    with alone:
        rows = next(batches, None)
    return rows and _validated(rows)


def _later_columns(
    file: parquet.ParquetFile, group: int, names: list[str], name: str, alone: Lock
) -> Callable[[int, int], dict[str, pa.Array]]:
    """Return a function that reads the columns *names* of some rows. Its first call reads the whole group."""

    @cache
    def table() -> pa.Table:
        with alone, _convert_read_errors(name):
            found = file.read_row_group(group, columns=names, use_threads=False)
            found.validate(full=True)
            return found

    def columns(start: int, count: int) -> dict[str, pa.Array]:
        rows = table().slice(start, count).combine_chunks()
        return {each: pa.concat_arrays(rows[each].chunks) for each in names}

    return columns
