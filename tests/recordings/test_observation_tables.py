"""Tables are judged like the recordings from which they were converted, and other tables are refused."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from commands import RECORDINGS, fsm
from judged import CALLS, EVENTS, LOGS
from pyarrow import feather, fs, ipc, parquet

from fsm.errors import InputError
from fsm.monitor.judgement import judge
from fsm.recordings import observation_columns, open_recording, tables
from fsm.recordings.form import RecordingForm, own_forms
from fsm.recordings.observation_columns import SCHEMA, ObservationColumns
from fsm.recordings.tables import ORIGIN, write
from fsm.recordings.time_order import Restarts
from fsm.report import Report
from fsm.report.json_report import json as reported
from fsm.trace import Batch, Line, Observation, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

SOME: Final = (
    "containerd-1.6.20.log",
    "2.1.9-restart-kill9.log.gz",
    "1.7.24-jsonlog.log.gz",
    "cri-calls-1.7.24.jsonl",
    "1.6.20-deadlines.calls.jsonl.gz",
    "nri-events-2.1.9.jsonl",
)
ALL: Final = tuple(dict.fromkeys((*LOGS, *CALLS, *EVENTS)))
TIMES: Final = ("at", "after", "before")

STOP: Final = {"entity": "c1", "event": "stop", "reply": "ok"}
REMOVE: Final = {"entity": "c1", "event": "remove", "reply": "ok"}
START: Final = {"entity": "c1", "event": "start", "reply": "ok"}


def converted(name: str, folder: Path) -> Path:
    table = folder / "recording.parquet"
    with table.open("wb") as file:
        write(open_recording(name), file, Restarts())
    return table


def in_groups(table: Path) -> None:
    known, rows = parquet.read_metadata(table).metadata[ORIGIN], parquet.read_table(table)
    with parquet.ParquetWriter(table, rows.schema) as writer:
        writer.write_table(rows, 50)
        writer.add_key_value_metadata({ORIGIN: known})


def found(name: str, file: str, models: Sequence[str] = ()) -> dict[str, Any]:
    report = Report(judged=(judge(file, every=True, models=models),), every=True)

    def plain(value: object) -> object:
        if isinstance(value, list):
            return list(map(plain, value))
        if isinstance(value, dict):
            return {key: nanoseconds(of) if key in TIMES and of else plain(of) for key, of in value.items()}
        return name if value == file else value

    whole: dict[str, Any] = {key: plain(each) for key, each in json.loads(reported(report)).items()}
    return whole


def table(folder: Path, rows: list[dict[str, Any]], schema: pa.Schema | None = None) -> str:
    name = str(folder / "own.parquet")
    parquet.write_table(pa.Table.from_pylist(rows, schema), name)
    return name


@pytest.mark.parametrize("name", SOME)
def test_a_table_is_judged_as_its_recording(name: str, tmp_path: Path) -> None:
    recording = str(RECORDINGS / name)
    expected, table = with_files(found(name, recording), recording, name), converted(recording, tmp_path)

    assert found(name, str(table)) == expected
    in_groups(table)
    assert found(name, str(table)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in ALL if each not in SOME])
def test_any_table_is_judged_as_its_recording(name: str, tmp_path: Path) -> None:
    test_a_table_is_judged_as_its_recording(name, tmp_path)


def with_files(report: object, recording: str, name: str) -> object:
    if isinstance(report, list):
        return [with_files(each, recording, name) for each in report]
    if isinstance(report, dict):
        lines = report.get("line") or report.get("lines")
        own = {"file": recording} if report.get("file") == name and lines and "kind" not in report else {}
        return {key: with_files(value, recording, name) for key, value in report.items()} | own
    return report


def test_a_violation_is_not_lost(tmp_path: Path) -> None:
    """A table and a different recording have different reports, which shows that the comparison can fail."""
    one, other = (str(RECORDINGS / name) for name in SOME[:2])

    assert found("", str(converted(one, tmp_path))) != found("", other)


@pytest.mark.parametrize("model", ["nri-plugin-contract", "cri-container"])
def test_under_any_model(model: str, tmp_path: Path) -> None:
    name = str(
        RECORDINGS / "2.1.9-nri.nri.jsonl.gz"
        if model == "nri-plugin-contract"
        else RECORDINGS / "cri-calls-2.1.9.jsonl"
    )

    assert found("", str(converted(name, tmp_path)), [model]) == with_files(found("", name, [model]), name, "")


def test_rows_that_were_chosen_are_still_of_a_log(tmp_path: Path) -> None:
    """Rows of a log are still recognised after another tool has selected them and dropped the table's metadata."""
    whole = parquet.read_table(converted(str(RECORDINGS / "containerd-1.6.20.log"), tmp_path))
    entities = whole["entity"].to_pylist()
    chosen = whole.filter(pa.array([each == entities[1] for each in entities])).replace_schema_metadata(None)
    name = str(tmp_path / "chosen.parquet")
    parquet.write_table(chosen, name)

    recording = open_recording(name)

    assert recording.form.title == "containerd log"
    assert recording.shown == open_recording(str(RECORDINGS / "containerd-1.6.20.log")).shown


@pytest.mark.parametrize("form", own_forms(), ids=lambda each: each.name)
def test_when_a_call_began_is_not_for_compiled_code(form: RecordingForm) -> None:
    """Compiled code ignores when a call began, so it judges every table except tables of calls with intervals."""
    rows = pa.RecordBatch.from_pylist([{"recording": form.title, "entity": "c1", "event": "StartContainer"}])
    columns = ObservationColumns("t.parquet").batch(rows).columns

    assert (columns is None) == form.intervals


def kinds(columns: ObservationColumns, rows: pa.RecordBatch) -> list[Observation | None]:
    found = columns.batch(rows).columns
    assert found is not None
    return [None if each < 0 else found.kinds[each] for each in found.kind]


@pytest.mark.parametrize("many", [observation_columns._MANY, 20])  # noqa: SLF001
def test_rows_have_the_same_kinds_alone_and_in_bulk(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row has the same kind if it is read alone or in bulk. In bulk, only distinct rows are examined."""
    monkeypatch.setattr(observation_columns, "_MANY", many)
    chance = random.Random(1)
    words: dict[str, list[Any]] = {
        "event": ["start", "stop", None, "", "remove", "kill"],
        "reply": ["ok", None, "é"],
        "shows": [None, "A", "B", "C"],
        "emits": [None, [], ["one"], ["one", "two"]],
    }
    found = [{name: chance.choice(each) for name, each in words.items()} for _ in range(2_000)]
    rows = pa.RecordBatch.from_pylist(found, pa.schema([each for each in SCHEMA if each.name in words]))
    alone, bulk = ObservationColumns("t.parquet"), ObservationColumns("t.parquet")

    one_by_one = [each for at in range(len(rows)) for each in kinds(alone, rows.slice(at, 1))]

    at_once = kinds(bulk, rows)
    assert many == 20 or at_once == one_by_one
    for row, *both in zip(found, one_by_one, at_once, strict=True):
        kind = msgspec.convert({name: word or "" for name, word in row.items() if name != "emits"}, Observation)
        own = msgspec.structs.replace(kind, emits=None if row["emits"] is None else tuple(row["emits"]))
        assert all(each in (None, own) for each in both)
    assert (None in at_once) == (many == 20)
    monkeypatch.setattr(observation_columns, "_fill_nulls", lambda indices, _: np.zeros(len(indices), np.int32))
    assert kinds(bulk, rows) != at_once


def test_a_column_may_be_empty_in_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = str(tmp_path / "own.parquet")
    rows = [{"entity": "c1", "event": "start", "reply": reply} for reply in (None, None, "ok", None, "UNKNOWN")]
    parquet.write_table(pa.Table.from_pylist(rows), name, row_group_size=2)

    def replies() -> list[str]:
        return [each.reply for batch in open_recording(name).batches for each in batch.observations]

    assert replies() == ["", "", "ok", "", "UNKNOWN"]
    monkeypatch.setattr(tables, "_validated", lambda rows: rows.drop_columns(["reply"]))
    assert replies() != ["", "", "ok", "", "UNKNOWN"]


def test_ids_of_a_group_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal ids in a row group are written once. Parquet would by default stop sharing ids after a megabyte."""
    lines, ids = tmp_path / "trace.jsonl", 17_000
    rows = [json.dumps({"entity": f"{each:064x}", "event": "stop", "reply": "ok"}) for each in range(ids)]
    lines.write_text("\n".join(rows * 2))

    def size() -> int:
        group = parquet.read_metadata(converted(str(lines), tmp_path)).row_group(0)
        return int(group.column(SCHEMA.get_field_index("entity")).total_uncompressed_size)

    assert size() < 75 * ids
    monkeypatch.setitem(tables.HOW, "dictionary_pagesize_limit", 1 << 20)
    assert size() > 75 * ids


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    """If a table has no line numbers, its rows are counted. Unknown columns are ignored."""
    name = table(tmp_path, [{**START, "node": "n1"}, {**REMOVE, "node": "n1"}])

    batches = list(open_recording(name).batches)

    assert [
        (each.event, line) for found in batches for each, line in zip(found.observations, found.lines, strict=True)
    ] == [
        ("start", 1),
        ("remove", 2),
    ]


def test_fields_and_times_come_back(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    at = 1_795_172_600_000_000_001
    rows = [
        {"entity": "c1", "shows": "CONTAINER_EXITED", "fields": {"started": 0}, "at": at},
        {"entity": "c1", "event": "stop", "emits": ["one", "two"], "at": "2026-11-20T11:03:20.859050588+01:00"},
        {"entity": "c1", "event": "stop", "emits": []},
        {"phase": "gap"},
        {"entity": "é", "event": "exit", "detail": "text", "met": "RUNNING", "output": "out", "of": "container"},
    ]
    trace.write_text("\n".join(map(json.dumps, rows)))

    again = [
        each for batch in open_recording(str(converted(str(trace), tmp_path))).batches for each in batch.observations
    ]
    expected = [each for batch in open_recording(str(trace)).batches for each in batch.observations]

    assert [each.at for each in again] == [nanoseconds(each.at) for each in expected]
    assert [(each.fields, each.emits, each.entity, each.detail, each.met, each.output, each.of) for each in again] == [
        (each.fields, each.emits, each.entity, each.detail, each.met, each.output, each.of) for each in expected
    ]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.uint64(), pa.string()])
def test_times_of_other_tools(kind: pa.DataType, tmp_path: Path) -> None:
    """Other tools write times as timestamps, nanoseconds or text."""
    at = 1_795_172_600_000_000_000
    value = (
        at
        if kind == pa.uint64()
        else "2026-11-20T11:03:20Z"
        if kind == pa.string()
        else datetime.fromtimestamp(at // 10**9, UTC)
    )
    name = table(tmp_path, [{**STOP, "at": value}], pa.schema([*((each, pa.string()) for each in STOP), ("at", kind)]))

    [seen] = [each for batch in open_recording(name).batches for each in batch.observations]

    assert seen.at == nanoseconds("2026-11-20T11:03:20Z")


def test_whole_calls_are_put_in_the_order_of_time(tmp_path: Path) -> None:
    at = 1_795_172_600 * 10**9
    begun = {"entity": "c1", "event": "create", "reply": "ok", "start": at + 1, "end": at + 2}
    rows = [{**START, "start": at + 20, "end": at + 30}, begun]
    lines = tmp_path / "calls.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)))

    [expected] = (batch for batch in open_recording(str(lines)).batches if batch.observations)
    [mine] = (batch for batch in open_recording(table(tmp_path, rows)).batches if batch.observations)

    assert [*mine.observations] == [*expected.observations]
    assert [*mine.lines] == [*expected.lines] == [2, 2, 1, 1]


@pytest.mark.parametrize(
    ("rows", "schema", "said"),
    [
        ([{"entity": "c1", "event": {"name": "stop"}}], None, "column 'event' of type struct<name: string>"),
        (
            [{"entity": "c1", "at": 1.5}],
            None,
            "column 'at' of type double has the wrong type or a wrong value; it needs nanoseconds",
        ),
        ([{"entity": "c1", "at": "noon"}], None, "column 'at' of type string"),
        ([{"entity": "c1", "phase": "halfway"}], None, "Invalid enum value 'halfway'"),
        ([{"entity": "c1", "fields": "{"}], None, "Input data was truncated"),
        ([{"recording": "a film", "event": "stop"}], None, "'a film', which is neither a form of recording"),
        ([{"recording": each} for each in ("CRI calls", "containerd log")], None, "has rows of several recordings"),
    ],
)
def test_rows_that_are_no_observations(
    rows: list[dict[str, Any]], schema: pa.Schema, said: str, tmp_path: Path
) -> None:
    name = table(tmp_path, rows, schema)

    with pytest.raises(InputError) as raised:
        judge(name, models=["container-status"])

    [problem] = raised.value.problems
    assert (problem.path, problem.code) == (name, "FSM212")
    assert said in problem.what


def test_a_damaged_table(tmp_path: Path) -> None:
    whole = converted(str(RECORDINGS / "containerd-1.6.20.log"), tmp_path).read_bytes()
    for size in (8, len(whole) // 2, len(whole) - 4):
        (tmp_path / "cut.parquet").write_bytes(whole[:size])
        done = fsm("judge", str(tmp_path / "cut.parquet"))
        assert (2, "") == (done.returncode, done.stdout)
        assert "cannot be read" in done.stderr
        assert "Traceback" not in done.stderr


def test_groups_are_read_ahead_and_no_thread_is_left(tmp_path: Path) -> None:
    """No thread is left if reading stops early or if a row group is damaged.

    The groups before the damaged one are still read.
    """
    name = converted(str(RECORDINGS / "containerd-1.6.20.log"), tmp_path)
    in_groups(name)
    groups, threads = parquet.read_metadata(name).num_row_groups, threading.active_count()
    begun = iter(open_recording(str(name)).batches)
    first = next(begun)
    del begun
    assert threading.active_count() == threads

    column = parquet.read_metadata(name).row_group(groups - 1).column(SCHEMA.get_field_index("event"))
    data = bytearray(name.read_bytes())
    place = column.dictionary_page_offset
    data[place : place + column.total_compressed_size] = bytes(column.total_compressed_size)
    name.write_bytes(data)
    batches = list[Batch]()
    with pytest.raises(InputError, match="cannot be read"):
        batches += (each for each in open_recording(str(name)).batches)  # keep batches before the error
    assert groups > 3
    assert len(batches) == groups - 1
    assert list(batches[0].observations) == list(first.observations)
    assert threading.active_count() == threads


def test_a_folder_of_files_is_one_table(tmp_path: Path) -> None:
    """The Parquet and Arrow files in a folder are read as one table, in the order of their file names.

    The folder is refused if the files are separate recordings.
    """
    folder = tmp_path / "parts"
    folder.mkdir()
    rows = [pa.Table.from_pylist([each]) for each in (START, STOP, REMOVE)]
    parquet.write_table(rows[0], folder / "part-0.parquet")
    with ipc.new_file(folder / "part-1.arrow", rows[1].schema) as writer:
        writer.write_table(rows[1])
    parquet.write_table(rows[2], folder / "part-2.parquet")

    events = [each.event for batch in open_recording(str(folder)).batches for each in batch.observations]

    assert events == ["start", "stop", "remove"]
    for part in folder.iterdir():
        part.unlink()
    for each in SOME[:2]:
        converted(str(RECORDINGS / each), tmp_path).rename(folder / f"{each}.parquet")
    with pytest.raises(InputError, match="the folder contains several recordings"):
        open_recording(str(folder))


def test_a_batch_that_is_read_ahead_of(tmp_path: Path) -> None:
    """A batch does not change while later batches are read, and its lines name the original file."""
    name = str(RECORDINGS / "containerd-1.6.20.log")
    batches = list(open_recording(str(converted(name, tmp_path))).batches)

    lines = [line for batch in batches for line in batch.lines]

    assert all(isinstance(each, Line) and each.file == name for each in lines)


def test_the_command(tmp_path: Path) -> None:
    log = str(RECORDINGS / "containerd-1.6.20.log")
    done = fsm("convert", log, "-o", "log.parquet", cwd=tmp_path)
    assert (0, "log.parquet: 271 observations, of containerd log\n") == (done.returncode, done.stdout)
    assert fsm("judge", "log.parquet", cwd=tmp_path).returncode == 1

    (tmp_path / "prose.txt").write_text("nothing\nknown\n")
    (tmp_path / "history.edn").write_text("{:process 0, :type :invoke, :f :stop, :value nil}\n")
    for arguments, said in (
        (["prose.txt", "-o", "out.parquet"], "is not a recording"),
        (["history.edn", "-o", "out.parquet"], "history"),
        ([log, "-o", "out.csv"], "must end in .parquet"),
        ([log, "prose.txt", "-o", "out.parquet"], "--rotated"),
        (["missing.log", "-o", "out.parquet"], "cannot be opened"),
        ([log, "-o", "missing/out.parquet"], "no such file or directory"),
    ):
        done = fsm("convert", *arguments, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
    assert {each.name for each in tmp_path.iterdir()} == {"log.parquet", "prose.txt", "history.edn"}


def test_what_a_table_cannot_do_is_refused(tmp_path: Path) -> None:
    """A table is refused if an option needs the original calls, or has another value than in the conversion."""
    calls, events = RECORDINGS / "cri-calls-with-nri-2.1.9.jsonl", RECORDINGS / "nri-events-2.1.9.jsonl"
    for name in (calls, events):
        assert fsm("convert", str(name), "-o", f"{name.name}.parquet", cwd=tmp_path).returncode == 0
    for arguments, said in (
        (
            ["judge", str(events), "--with", f"{calls.name}.parquet"],
            "the file is a table, which does not contain the original calls",
        ),
        (
            ["judge", f"{events.name}.parquet", "--with", str(calls)],
            "the file is a table, which does not contain the original calls",
        ),
        (
            ["draw", "--sequence", f"{calls.name}.parquet"],
            "the file is a table, which does not contain the original calls",
        ),
        (
            ["judge", "--restarts", "none", f"{calls.name}.parquet"],
            "the table was converted with --restarts maybe --shortest-restart 50",
        ),
        (["judge", "--rotated", f"{calls.name}.parquet"], "cannot be sorted by time"),
        (["judge", "--follow", f"{calls.name}.parquet"], "a table is complete"),
        (["judge", f"{calls.name}.parquet", "-o", f"{calls.name}.parquet"], "the report would overwrite a TRACE"),
    ):
        done = fsm(*arguments, cwd=tmp_path)
        assert (2, "") == (done.returncode, done.stdout), arguments
        assert said in " ".join(done.stderr.split())
    done = fsm("judge", "-", stdin=(tmp_path / f"{calls.name}.parquet").read_bytes())
    assert (2, "") == (done.returncode, done.stdout)
    assert "the file is a table, which cannot be read by lines" in done.stderr


def test_restarts_are_those_of_the_conversion(tmp_path: Path) -> None:
    name = str(RECORDINGS / "2.1.9-forgotten.calls.jsonl.gz")
    assert fsm("convert", "--restarts", "none", name, "-o", "none.parquet", cwd=tmp_path).returncode == 0

    mine = fsm("judge", "--restarts", "none", "none.parquet", cwd=tmp_path)

    assert mine.returncode == fsm("judge", "--restarts", "none", name).returncode
    assert fsm("judge", "none.parquet", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("older", ["1.6.20", "2.1.9"])
def test_the_profile_is_that_of_the_version_before_an_update(older: str, tmp_path: Path) -> None:
    """A log in which the runtime is updated is judged, like its table, under the profile of the first version."""
    log, table = tmp_path / "both.log", str(tmp_path / "both.parquet")
    parts = (
        gzip.decompress((RECORDINGS / f"{each}-restart-graceful.log.gz").read_bytes()) for each in (older, "1.7.24")
    )
    log.write_bytes(b"".join(parts))
    assert fsm("convert", str(log), "-o", table).returncode == 0
    found = [judge(name, profile="auto") for name in (str(log), table)]

    assert (
        f"profile containerd-{older}, because the recording shows this version; containerd 1.7.24" in found[0].detected
    )
    assert found[0].detected == found[1].detected
    assert [each.verdict for each in found[0].judgements] == [each.verdict for each in found[1].judgements]


def test_a_part_of_a_recording_says_what_came_before(tmp_path: Path) -> None:
    name = str(RECORDINGS / "containerd-1.6.20.log")
    found = [fsm("judge", "--since", "2026-11-21T00:00:00Z", each) for each in (name, str(converted(name, tmp_path)))]

    assert found[0].returncode == found[1].returncode
    assert all("271 observations before the time asked for" in " ".join(each.stdout.split()) for each in found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda whole: whole.take(pa.array([*range(5, 9), *range(5)])),
            "the rows of the table are not in the order of column 'row'",
        ),
        (lambda whole: whole.append_column("entity", whole["entity"]), "the table has two columns 'entity'"),
        (lambda whole: pa.table({"Entity": whole["entity"]}), "the table has no column that an observation needs"),
        (
            lambda whole: whole.set_column(1, "recording", pa.array([None, *whole["recording"].to_pylist()[1:]])),
            "column 'recording' has the values",
        ),
        (lambda whole: whole.set_column(1, "recording", pa.array([7] * len(whole))), "has rows of '7'"),
    ],
)
def test_tables_that_another_tool_has_spoilt(change: Callable[[pa.Table], pa.Table], said: str, tmp_path: Path) -> None:
    whole = parquet.read_table(converted(str(RECORDINGS / "containerd-1.6.20.log"), tmp_path))
    for write_it in (parquet.write_table, feather.write_feather):
        name = str(tmp_path / "spoilt.parquet")
        write_it(change(whole).replace_schema_metadata(None), name)

        done = fsm("judge", "--model", "container-status", name)

        assert (2, "") == (done.returncode, done.stdout)
        assert said in done.stderr


def test_parts_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Parts are read in the order of their numbers: part-10 comes after part-9.

    Hidden files are ignored. Parts are refused if they separate rows that depend on each other.
    """
    folder = tmp_path / "parts"
    folder.mkdir()
    whole = parquet.read_table(converted(str(RECORDINGS / "containerd-1.6.20.log"), tmp_path)).replace_schema_metadata(
        None
    )
    for number in range(12):
        parquet.write_table(whole.slice(number * 25, 25), folder / f"part-{number}.parquet")
    parquet.write_table(whole.slice(0, 5), folder / ".part-0.parquet")

    rows = [each for batch in open_recording(str(folder)).batches for each in batch.lines]

    assert len(rows) == len(whole)
    divided = tmp_path / "event=stop"
    divided.mkdir()
    parquet.write_table(whole.slice(0, 5), divided / "part-0.parquet")
    with pytest.raises(InputError, match="divided by 'event'"):
        open_recording(str(divided))


def test_an_arrow_stream(tmp_path: Path) -> None:
    name = tmp_path / "stream.arrow"
    rows = pa.Table.from_pylist([START, STOP])
    with ipc.new_stream(name, rows.schema) as writer:
        writer.write_table(rows)

    assert [each.event for batch in open_recording(str(name)).batches for each in batch.observations] == [
        "start",
        "stop",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_compressed_lines(compression: str, tmp_path: Path) -> None:
    data = (RECORDINGS / "containerd-1.6.20.log").read_bytes() * 20
    packed = b"".join(pa.compress(each, compression, asbytes=True) for each in (data[:5_000], data[5_000:]))
    one, notes = tmp_path / "log", Counter[str]()
    one.write_bytes(data)
    expected = found("", str(one))
    one.write_bytes(packed)
    assert found("", str(one)) == expected

    one.write_bytes(packed[:-10])
    notes = Counter(judge(str(one)).notes)
    assert notes["breaks in the compressed data: the rest is missing"] == 1
    assert notes["lines"] > data.count(b"\n") // 2


def test_a_store_that_fsspec_knows(tmp_path: Path) -> None:
    import fsspec  # noqa: PLC0415

    name = str(RECORDINGS / "cri-calls-1.6.20.jsonl")
    with fsspec.open("memory://logs/calls.parquet", "wb") as file:
        file.write(converted(name, tmp_path).read_bytes())

    assert judge("memory://logs/calls.parquet").judgements == judge(str(tmp_path / "recording.parquet")).judgements
    with pytest.raises(InputError, match="no such file"):
        judge("memory://logs/missing.parquet")
    with pytest.raises(InputError, match="cannot be read"):
        judge("nothing://logs/calls.parquet")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[fs.S3FileSystem]:
    from moto.server import ThreadedMotoServer  # noqa: PLC0415  (takes a second)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    store = fs.S3FileSystem(allow_bucket_creation=True, endpoint_override=f"{host}:{port}", scheme="http")
    store.create_dir("logs")
    yield store
    server.stop()


@pytest.mark.slow
def test_a_bucket(bucket: fs.S3FileSystem, tmp_path: Path) -> None:
    for each in SOME[:2]:
        with bucket.open_output_stream(f"logs/nodes/{each}.parquet") as file:
            file.write(converted(str(RECORDINGS / each), tmp_path).read_bytes())

    every = fsm("judge", "--format", "json", "s3://logs/nodes/*.parquet", env=dict(os.environ))
    missing = fsm("judge", "s3://logs/nodes/*.arrow", env=dict(os.environ))

    assert [each["file"] for each in json.loads(every.stdout)["recordings"]] == [
        f"s3://logs/nodes/{each}.parquet" for each in sorted(SOME[:2])
    ]
    assert (2, "") == (missing.returncode, missing.stdout)
    assert "no file matches" in missing.stderr
