"""A trace with an error, such as a misspelt key or a wrong unit of time, is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import fsm

from fsm.errors import InputError
from fsm.language.library import load
from fsm.machine.findings import Illegal
from fsm.monitor import Monitor
from fsm.monitor.judgement import judge
from fsm.recordings import open_recording
from fsm.recordings.line_reader import FOREIGN, INCOMPLETE
from fsm.trace import Line, Observation, nanoseconds
from fsm.verdict import Holds, Unknown

HEADER = {"trace": 1, "machine": "cri-container", "fresh": True}
GOOD: dict[str, object] = {"entity": "c1", "event": "create", "reply": "ok"}
NOW = 1_795_172_600 * 10**9

WRONG: dict[str, tuple[object, str, str]] = {
    "key": ({"entity": "c2", "evnt": "create", "reply": "ok"}, "unknown key 'evnt'", "did you mean 'event'?"),
    "entity": (GOOD | {"entity": 7}, "'entity': expected `str`, got `int`", "lists the types of the keys"),
    "emits": (GOOD | {"emits": "x"}, "'emits': expected `array | null`, got `str`", "lists the types of the keys"),
    "nested": (GOOD | {"emits": ["x", 1]}, "'emits': expected `str`, got `int`", "lists the types of the keys"),
    "phase": (GOOD | {"phase": "requets"}, "'phase': invalid enum value 'requets'", "lists the types of the keys"),
    "null": (GOOD | {"reply": None}, "'reply': expected `str`, got `null`", "lists the types of the keys"),
    "bool": (GOOD | {"at": True}, "'at': expected `int | str | null`, got `bool`", "lists the types of the keys"),
    "word": (GOOD | {"at": "yesterday"}, "'at' is not a time: 'yesterday'", "nanoseconds since the epoch"),
    "day": (GOOD | {"at": "2026-02-30T09:00:00Z"}, "'at' is not a time", "RFC 3339"),
    "time.time()": (GOOD | {"at": NOW / 1e9 + 0.5}, "it may be seconds", "multiply by 1,000,000,000"),
    "seconds": (GOOD | {"at": NOW // 10**9}, "it may be seconds", "multiply by 1,000,000,000"),
    "milliseconds": (GOOD | {"start": NOW // 10**6, "end": NOW}, "'start' is 1795172600000, which is too small", "1,000,000"),
    "microseconds": (GOOD | {"start": NOW, "end": NOW // 10**3}, "it may be microseconds", "multiply by 1,000;"),
    "counted": (GOOD | {"at": 3}, "'at' is 3, which is too small for nanoseconds of this century", '"clock": "relative"'),
    "file": (GOOD | {"file": "app.log"}, "the line has only one of the keys 'file' and 'line'", "give both"),
    "list": ([1, 2], "the line is not a JSON object", "reference/trace-format"),
    "second header": (HEADER | {"machine": "cri-pod"}, "unknown key 'trace'", "keys"),
}  # fmt: skip


def written(path: Path, *lines: object, header: dict[str, object] = HEADER, end: str = "\n") -> Path:
    """Write a trace. Strings in *lines* are written unchanged, and other objects as JSON."""
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in (header, *lines)) + end)
    return path


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_read_is_an_error(case: str, tmp_path: Path) -> None:
    """A line that cannot be read is an error with a remedy.

    With --lenient, the line is only counted and the verdict is unknown.
    """
    line, what, hint = WRONG[case]
    trace = written(tmp_path / "t.jsonl", GOOD, line, "", GOOD | {"entity": "c9"})

    with pytest.raises(InputError) as refused:
        judge(trace)
    problem = refused.value.problems[0]
    assert (problem.code, problem.path, problem.line) == ("FSM219", str(trace), 3)
    assert what in problem.what
    assert hint in problem.hint

    lenient = judge(trace, lenient=True)
    assert (lenient.notes[FOREIGN], lenient.places[FOREIGN]) == (1, (Line(str(trace), 3),))
    assert lenient.judgements[0].verdict == Unknown(why="1 line of the trace could not be read")
    assert lenient.judgements[0].observations == 2


def test_all_errors_are_reported_together(tmp_path: Path) -> None:
    """All errors are reported, even several in one line, and the exit code is 2.

    With --lenient, the exit code is 1 if the trace has a violation.
    """
    illegal = {"entity": "c3", "event": "stop", "reply": "NOT_FOUND"}
    wrong = {"entity": 7, "evnt": "create", "at": 5}
    trace = written(tmp_path / "t.jsonl", wrong, GOOD, "garbage", illegal)

    strict, lenient = fsm("judge", str(trace)), fsm("judge", "--lenient", str(trace))

    assert (strict.returncode, strict.stdout) == (2, "")
    assert [each.split(": ")[1] for each in strict.stderr.splitlines() if "FSM219" in each] == [
        "unknown key 'evnt' [FSM219]",
        "'at' is 5, which is too small for nanoseconds of this century [FSM219]",
        "'entity'",
        "the line is not a JSON object [FSM219]",
    ]
    assert lenient.returncode == 1
    assert "2 foreign or damaged lines (2, 4)" in lenient.stdout
    assert "not judged in full: 2 lines of the trace could not be read" in " ".join(lenient.stdout.split())


def test_a_trace_of_mistakes_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Reading stops after a thousand errors."""
    trace = written(tmp_path / "t.jsonl", *[GOOD | {"evnt": "x"}] * 3_000)

    with pytest.raises(InputError, match="and 900 more") as refused:
        judge(trace)
    assert len(refused.value.problems) == 1_000


@pytest.mark.parametrize(
    ("header", "what"),
    [
        (HEADER | {"fesh": True}, "unknown key 'fesh', did you mean 'fresh'?"),
        (HEADER | {"clock": "monotonic"}, "Invalid enum value 'monotonic' - at `$.clock`"),
    ],
)
def test_a_header_is_read_as_strictly(header: dict[str, object], what: str, tmp_path: Path) -> None:
    """Unknown keys are errors, unless they begin with ``x-``."""
    with pytest.raises(InputError, match="the header of the trace cannot be read") as refused:
        judge(written(tmp_path / "t.jsonl", GOOD, header=header))
    assert what in refused.value.problems[0].what
    assert Holds() == judge(written(tmp_path / "t.jsonl", GOOD, header=HEADER | {"x-by": "me"})).judgements[0].verdict


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (NOW, NOW),
        (float(NOW), NOW),
        ("2026-11-20T11:03:20Z", NOW),
        ("2026-11-20T12:03:20.000+01:00", NOW),
        ("2026-11-20 11:03:20", NOW),
        ("2028-02-29T00:00:00Z", 1_835_395_200 * 10**9),
    ],
)
def test_times_in_any_form_are_the_same(at: object, expected: int, tmp_path: Path) -> None:
    trace = written(tmp_path / "t.jsonl", GOOD | {"at": at, "x-host": "n7"}, {**GOOD, "start": at, "end": at})

    seen = [each for batch in open_recording(str(trace)).batches for each in batch.observations]

    assert nanoseconds(seen[0].at) == expected
    assert [each.phase for each in seen] == ["", "request", "reply"]


def test_a_relative_clock_begins_anywhere(tmp_path: Path) -> None:
    """Small numbers are valid times only if the clock is relative."""
    lines = [GOOD | {"at": 3}, GOOD | {"entity": "c2", "start": -7, "end": 0.5}]

    judged = judge(written(tmp_path / "t.jsonl", *lines, header=HEADER | {"clock": "relative"}))

    assert isinstance(judged.judgements[0].verdict, Holds)
    with pytest.raises(InputError, match="too small"):
        judge(written(tmp_path / "t.jsonl", *lines))


@pytest.mark.parametrize("lenient", [False, True])
def test_a_last_line_that_breaks_off_is_counted(*, lenient: bool, tmp_path: Path) -> None:
    """If the last line breaks off, it may not have been written completely yet, so the verdict is unknown.

    A complete line must be correct even without a line break.
    """
    trace = tmp_path / "t.jsonl"
    cut = judge(written(trace, GOOD, json.dumps(GOOD)[:30], end=""), lenient=lenient)
    whole = judge(written(trace, GOOD, GOOD | {"entity": "c2"}, end=""), lenient=lenient)

    assert (cut.notes[INCOMPLETE], cut.notes.get(FOREIGN, 0)) == (1, 0)
    assert cut.judgements[0].verdict == Unknown(why="1 line of the trace could not be read")
    assert (whole.notes, whole.judgements[0].verdict) == ({"lines": 3}, Holds())
    with pytest.raises(InputError, match="unknown key 'evnt'"):
        judge(written(trace, GOOD, {"entity": "c2", "evnt": "x"}, end=""))


@pytest.mark.parametrize(("line", "code"), [(GOOD | {"entity": "c2"}, 0), (GOOD | {"evnt": "x"}, 3), ("garbage", 3)])
def test_lines_that_are_followed_are_counted(line: object, code: int, tmp_path: Path) -> None:
    trace = written(tmp_path / "t.jsonl", GOOD, line)

    followed = fsm("judge", "--follow", "-", stdin=trace.read_bytes())

    assert (followed.returncode, followed.stderr) == (code, "")


def test_a_line_has_its_place_in_the_original(tmp_path: Path) -> None:
    stop = {"entity": "c3", "event": "stop", "reply": "NOT_FOUND", "file": "app.log", "line": 77}
    trace = written(tmp_path / "t.jsonl", GOOD, stop)

    told = fsm("judge", str(trace))

    assert (told.returncode, "where      app.log:77" in told.stdout) == (1, True)
    verdict = judge(trace).judgements[0].verdict
    assert isinstance(verdict, Illegal)
    assert (verdict.findings[0].first[0].file, verdict.findings[0].first[0].line) == ("app.log", 77)


def test_a_call_whose_reply_was_not_recorded_has_acted(tmp_path: Path) -> None:
    """A call without a recorded reply is assumed to have acted, and is noted."""
    bare = {"entity": "c1", "event": "create"}
    trace = written(tmp_path / "t.jsonl", GOOD | {"entity": "c2"}, bare)

    (judgement,) = judge(trace).judgements
    assert judgement.notes == {"reply not recorded": 1}
    assert judgement.covered.cells["create", "absent"] == 1
    assert isinstance(judgement.verdict, Holds)

    door = load("container-status")
    monitor = Monitor(door, fresh=True)
    for event in ("create", "start"):
        assert not monitor.observe(Observation(entity="c", event=event, reply="ok"))
    assert not monitor.observe(Observation(entity="c", event="stop"))
    assert monitor.states("c").isdisjoint({"absent"})


@pytest.mark.parametrize(
    "lines",
    [
        [{"entity": "c1", "event": "create"}, {"entity": "c1", "event": "stop"}],
        [{"entity": "c1", "event": "create", "phase": "request"}],
        [{"entity": "c1", "shows": "CONTAINER_RUNNING"}],
    ],
)
def test_where_no_cell_was_met_nothing_holds(lines: list[object], tmp_path: Path) -> None:
    header = {"trace": 1, "machine": "cri-container"}
    none = judge(written(tmp_path / "t.jsonl", *lines, header=header))
    some = judge(written(tmp_path / "t.jsonl", *lines, GOOD | {"entity": "c9"}, header=header | {"fresh": True}))

    assert not any(none.judgements[0].covered.cells.values())
    verdict = none.judgements[0].verdict
    assert isinstance(verdict, Unknown)
    assert verdict.why.startswith("no observation shows for certain")
    assert any(some.judgements[0].covered.cells.values())


def test_a_table_of_times_in_another_unit_is_refused(tmp_path: Path) -> None:
    """Times that may be seconds are refused, except in a table that fsm convert wrote with a relative clock."""
    pa = pytest.importorskip("pyarrow", reason="the extra 'fast' is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = tmp_path / "own.parquet"
    rows = {"entity": ["c1", "c2"], "event": ["create"] * 2, "reply": ["ok"] * 2, "at": [NOW, NOW // 10**9]}
    parquet.write_table(pa.table(rows), table)

    with pytest.raises(InputError, match=r"column 'at' is 1795172600, which is too small .* it may be seconds"):
        judge(table, models=["cri-container"], fresh=True)
    parquet.write_table(pa.table(rows | {"at": [NOW, NOW]}), table)
    assert isinstance(judge(table, models=["cri-container"], fresh=True).judgements[0].verdict, Holds)

    trace = written(tmp_path / "t.jsonl", GOOD | {"at": 3}, header=HEADER | {"clock": "relative"})
    assert fsm("convert", str(trace), "-o", str(tmp_path / "t.parquet")).returncode == 0
    assert judge(tmp_path / "t.parquet").judgements == judge(trace).judgements
    assert fsm("convert", str(written(trace, GOOD | {"evnt": 1})), "-o", str(table)).returncode == 2
