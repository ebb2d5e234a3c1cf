"""Traces yield the same results whether they are judged in bulk or line by line."""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import amount

pytest.importorskip("numba", reason="the extra 'fast' is not installed")

import numpy as np

from fsm.errors import InputError
from fsm.machine.findings import Illegal
from fsm.monitor import Monitor
from fsm.monitor.judgement import judge
from fsm.recordings import decoded_columns, json_lines, line_reader, open_recording, tables
from fsm.recordings.json_lines import Trace, TraceHeader
from fsm.recordings.line_reader import FOREIGN
from fsm.recordings.time_order import Restarts
from fsm.trace import Columns, Key, Observation, key, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fsm.errors import Problem
    from fsm.trace import Line

IDS = ("c1", "c2", "a" * 64, "a" * 63 + "b", "", "ü", 'a"b', "a\\", "\u2028", "12345678")
TIMES = (
    *(0, 1, -5, 10**17, 10**18, 1795172600 * 10**9, 10**30, 1.5, 1.8e18, True, None, "", "ü", "0"),
    *(
        "2026-11-20T11:03:20Z",
        "2026-02-29T11:03:20Z",
        "2028-02-29T11:03:20Z",
        "2026-11-20 11:03",
        "2026-11-31T11:03:20Z",
        "2026-11-20T11:03:20,5Z",
        "2026-11-20T11:03:20.12345678901Z",
    ),
    *("2026-11-20T11:03:20.5+01:00", "2026-11-20T24:03:20Z", "2026-11-20T11:03:20.Z", "yesterday"),
    *(
        "1969-12-31T23:59:59.999999999Z",
        "2026-11-20T11:03Z",
        "1906-01-01T00:00:00Z",
        "now",
        "NaT",
        "2299-01-01T00:00:00Z",
    ),
)
WHOLE_LINES = (
    "",
    "   ",
    "{}",
    "[]",
    "7",
    "{",
    '{"entity"',
    '{"entity": "c1"',
    '{"entity": "c1",}',
    '{"entity": "c1"} {}',
    '{"entity": "c1"}{"entity": "c2"}',
    '{"entity":',
    '"c1"}',
    '{"entity": "\\ud800"}',
    '{"entity": "c1", "entity": "c2", "event": "start"}',
    '{"entity": "c1", "at": 1, "at": 2}',
    '{"\\u0065ntity": "c1", "event": "start"}',
    '{"entity": "c1", "at": 01}',
    '{"entity": "c1", "at": -}',
    '{"entity": "c1", "at": 1e3}',
    '{"entity": "c1", "at": NaN}',
    '{"entity": c1}',
    '{"trace": 1, "machine": "door"}',
    '{"trace": 2}',
    '{"entity": "c1", "event": 7}',
    '{"entity": "c1", "event": "st\tart"}',
    '{"event": "{\\"entity\\": \\"c9\\"}", "entity": "c1"}',
    '{"other": {"entity": "c9", "more": ["}", "]"]}, "entity": "c1"}',
    '{"entity": {"entity": "c9"}}',
    '\ufeff{"entity": "c1"}',
    '\t{"entity" : "c1" ,"event":"start"}  ',
    '{"entity": "c1", "line": "3"}',
    '{"entity": "c1", "event": "start", "phase": "nothing"}',
    '{"entity": "c1", "emits": ["x", "y"], "fields": {"started": 1, "reason": "x"}}',
    "panic: runtime error",
)
EVENTS = ("create", "start", "stop", "stop", "remove")
BYTES = (b'{"entity": "\xff"}', b'{"entity": "c1", "detail": "\xff"}', b'{"entity": "c1\x00"}', b'{"entity": "c1"\x0c}')


def random_line(chance: random.Random) -> bytes:
    if chance.random() < 0.1:
        return chance.choice([*(line.encode() for line in WHOLE_LINES), *BYTES])
    said: dict[str, object] = {"entity": chance.choice(IDS)} if chance.random() < 0.95 else {}
    if chance.random() < 0.7:
        said["at"] = chance.choice(TIMES) if chance.random() < 0.3 else chance.getrandbits(50)
    said["event"] = chance.choice(["start", "stop", "é", 'a "quoted" one'])
    if chance.random() < 0.3:
        said["reply"], said["of"] = "ok", chance.choice(["container", "pod"])
    if chance.random() < 0.1:
        said |= {"line": chance.randint(0, 10**6), "file": chance.choice(["app.log", "ü"])}
    if chance.random() < 0.1:
        said[chance.choice(["file", "line", "x-host", "x-é", "evnt"])] = chance.choice(["app.log", 7])
    if chance.random() < 0.1:
        said["fields"] = {"started": chance.randint(0, 2)}
    if chance.random() < 0.1:
        said = dict(chance.sample(sorted(said.items(), key=str), len(said)))
    return json.dumps(said, ensure_ascii=chance.random() < 0.5).encode()


class Found(NamedTuple):
    seen: list[tuple[int | Line, Observation]]
    notes: Counter[str]
    foreign: list[int | Line]
    problems: tuple[Problem, ...]


def read(pieces: list[bytes], *, lenient: bool = True, relative: bool = True, large: bool = True) -> Found:
    title = TraceHeader(trace=1, machine="door", clock="relative" if relative else "epoch")
    trace = Trace(title=title, lenient=lenient, size=1 << 60 if large else -(1 << 60))
    found: list[tuple[int | Line, Observation]] = []
    first = 1
    for piece in pieces:
        batch = trace.observations(piece, first)
        assert batch.columns is None or large
        for index, seen in enumerate(batch.observations):
            if batch.columns is not None:
                _same(batch.columns, index, seen)
        found += zip(batch.lines, batch.observations, strict=True)
        first += piece.count(b"\n") + 1
    problems: tuple[Problem, ...] = ()
    try:
        rest = trace.rest()
        found += zip(rest.lines, rest.observations, strict=True)
    except InputError as error:
        problems = error.problems
    return Found(found, trace.notes, trace.notes.places.get(FOREIGN, []), problems)


def _same(columns: Columns, index: int, seen: Observation) -> None:
    kind, at, time = columns.kind[index], columns.at[index], nanoseconds(seen.at)
    assert (kind < 0) == (bool(seen.fields) or (time is not None and time < 0))
    if kind >= 0:
        assert columns.kinds[kind] == type(seen)(of=seen.of, **key(seen)._asdict())
        assert seen.entity == columns.ids[columns.entity[index]]
        assert (at < 0) if time is None else (at == time)


def pieces_of(chance: random.Random) -> list[bytes]:
    return [b"\n".join(random_line(chance) for _ in range(chance.randint(1, 120))) for _ in range(chance.randint(1, 4))]


@given(seed=st.integers(0, 1 << 32), lenient=st.booleans(), relative=st.booleans())
@settings(max_examples=amount(80, night=4_000))
def test_the_same_observations(seed: int, *, lenient: bool, relative: bool) -> None:
    """Reading in bulk yields the same lines, notes and errors as reading line by line, and its columns match them."""
    pieces = pieces_of(random.Random(seed))
    alone = [line for piece in pieces for line in piece.split(b"\n")]

    whole, apart = (read(each, lenient=lenient, relative=relative) for each in (pieces, alone))

    assert whole == apart == read(pieces, lenient=lenient, relative=relative, large=False)
    assert not whole.problems if lenient else not whole.foreign


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_times", lambda times, **_: np.full(len(times), 7)),
        ("Columns", lambda kinds, kind, entity, ids, at: Columns(kinds, kind, entity, ids[::-1], at)),
        ("key", lambda _: Key()),
    ],
)
def test_a_mistake_is_noticed(name: str, wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect planted in the columns changes the result, which shows that the comparison can fail."""
    monkeypatch.setattr(decoded_columns, name, wrong)

    with pytest.raises((AssertionError, TypeError, ValueError)):
        read([piece for seed in range(20) for piece in pieces_of(random.Random(seed))])


def test_few_kinds_are_numbered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are too many kinds of observations, the earliest kinds are forgotten, which changes no result."""
    monkeypatch.setattr(decoded_columns, "_MANY", 2)
    pieces = pieces_of(random.Random(4))
    trace = Trace(size=1 << 60)

    found = [trace.observations(b'{"entity": "c1", "reply": "%d"}' % each, each).columns for each in range(9)]

    assert read(pieces) == read(pieces, large=False)
    assert all(each is not None and len(each.kinds) == 3 for each in found)


@pytest.mark.parametrize("lines", [["{}", "{} {}", "", "{}"], ["{}", '{"entity":', '"c1"} {}'], ["{}{}", ""]])
def test_each_line_is_one_object(lines: list[str]) -> None:
    """A line with two objects is an error, even if there are as many objects as lines in total."""
    found = read(["\n".join(lines).encode()], lenient=False)

    assert [each.line for each in found.problems] == [
        number for number, line in enumerate(lines, 1) if line not in {"", "{}"}
    ]


def test_intervals_are_put_in_order() -> None:
    lines = [f'{{"entity": "c{n % 3}", "event": "start", "reply": "ok"}}' for n in range(50)]
    timed = [f'{{"entity": "c{n % 3}", "event": "stop", "start": {n}, "end": {n + 5}}}' for n in range(50)]
    pieces = ["\n".join(each).encode() for each in (lines, [*lines, *timed], lines)]

    assert read(pieces) == read(pieces, large=False)
    assert len(read(pieces)[0]) == 50 + 50 + 2 * 50 + 50
    assert len(read([timed[0].replace("end", "\\u0065nd").encode()])[0]) == 2


@pytest.mark.parametrize("time", ["none", "number", "text"])
@pytest.mark.parametrize("table", [False, True])
def test_time_limits_are_judged_by_compiled_code(
    time: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, table: bool
) -> None:
    """Compiled code judges almost all observations even if a machine has time limits."""
    trace, large = tmp_path / "trace.jsonl", tmp_path / ("trace.parquet" if table else "trace.jsonl")
    lines = ['{"trace": 1, "machine": "container-status", "fresh": true}']
    for number in range(3_000):
        said: dict[str, object] = {"entity": f"c{number // 5}", "event": EVENTS[number % 5], "reply": "ok"}
        if time != "none":
            at = 1_795_172_600 + number
            said["at"] = at * 10**9 if time == "number" else f"{datetime.fromtimestamp(at, UTC):%FT%TZ}"
        lines.append(json.dumps(said))
    trace.write_text("\n".join(lines))
    slowly = judge(trace)
    if table:
        with large.open("wb") as file:
            tables.write(open_recording(str(trace)), file, Restarts())
    monkeypatch.setattr(json_lines, "LARGE", 0)
    monkeypatch.setattr(tables, "ENOUGH", 0)
    fed, feed = list[Observation](), Monitor._feed  # noqa: SLF001

    def counted(monitor: Monitor, seen: Sequence[Observation], lines: Sequence[int | Line]) -> None:
        fed.extend(seen)
        feed(monitor, seen, lines)

    monkeypatch.setattr(Monitor, "_feed", counted)

    fast = judge(large)

    assert (fast.judgements[0].verdict, fast.judgements[0].covered) == (
        slowly.judgements[0].verdict,
        slowly.judgements[0].covered,
    )
    assert len(fed) < 100


@pytest.mark.parametrize("size", [50, 1 << 20])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_judging_is_the_same(size: int, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "PIECE", size)
    monkeypatch.setattr(line_reader, "LONGEST", 150)
    chance = random.Random(size)
    events = ("create", "start", "status", "stop", "stop", "remove", "oops")
    lines = ['{"trace": 1, "machine": "container-status", "fresh": true, "clock": "relative"}']
    for number in range(3_000):
        said: dict[str, object] = {
            "at": number * 10 ** chance.choice([9, 10]),
            "entity": f"c{number // 50}-{number % 5}",
            "event": events[number // 5 % 6],
        }
        if chance.random() < 0.02:
            said |= {"event": chance.choice(events), "detail": "x" * chance.choice([1, 200])}
        lines.append(
            json.dumps(said | {"reply": "ok"})
            if chance.random() < 0.98
            else random_line(chance).decode(errors="replace")
        )
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(ending.join([*lines, ""]).encode())
    packed = tmp_path / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    found = []
    for large in (0, 1 << 60):
        monkeypatch.setattr(json_lines, "LARGE", large)
        found += [judge(each, lenient=True) for each in (trace, packed)]

    assert found[:2] == found[2:]


def test_a_time_limit_runs_from_a_line_of_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time limit starts at a line of the trace, even if the line that breaks it names another file."""
    trace = tmp_path / "trace.jsonl"
    at = 1_795_172_600 * 10**9
    lines: list[dict[str, object]] = [
        {"event": event, "reply": "ok", "at": at} for event in ("create", "start", "stop")
    ]
    late: dict[str, object] = {"event": "status", "reply": "ok", "shows": "CONTAINER_RUNNING", "at": at + 10**12}
    lines += [late | {"file": "app.log", "line": 7}]
    found = []
    for large in (0, 1 << 60):
        monkeypatch.setattr(json_lines, "LARGE", large)
        heads: list[dict[str, object]] = [{"trace": 1, "machine": "container-status", "fresh": True}]
        trace.write_text(
            "\n".join(map(json.dumps, heads + [each | {"entity": f"c{n}"} for n in range(9) for each in lines]))
        )
        found.append(judge(trace))

    assert found[0] == found[1]
    [judgement] = found[0].judgements
    assert isinstance(judgement.verdict, Illegal)
    places = [(one.limit.line.file, one.line) for one in judgement.verdict.findings[0].first if one.limit]
    assert places == [(str(trace), 7)] * len(places)
    assert places


def test_without_the_libraries_lines_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        '{"trace": 1, "machine": "container-status"}\n' + '{"entity": "c1", "event": "status", "reply": "ok"}\n' * 99
    )
    monkeypatch.setattr(json_lines, "LARGE", 0)
    fast = judge(trace)
    for module in ("fsm.recordings.decoded_columns", "fsm.monitor.automaton"):
        monkeypatch.setitem(sys.modules, module, None)
    recording = open_recording(str(trace))

    assert [None] == [batch.columns for batch in recording.batches if batch.observations]
    assert judge(trace) == fast


@pytest.mark.parametrize(
    ("size", "expected"), [(0, [False, False, True]), (29, [False, False, True]), (30, [True] * 3)]
)
def test_a_file_is_read_one_way(size: int, expected: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a file decides whether it is read in bulk, unless the file has grown."""
    monkeypatch.setattr(json_lines, "LARGE", 30)
    trace = Trace(size=size)

    read = [trace.observations(b'{"at":1}\n{}', 1).columns is not None for _ in range(3)]

    assert expected == read


def test_sizes_of_files(tmp_path: Path) -> None:
    """A compressed file is estimated to be larger than its size on disk. An unknown size counts as zero."""
    plain, compressed = tmp_path / "one.jsonl", tmp_path / "one.jsonl.gz"
    plain.write_bytes(bytes(100))
    compressed.write_bytes(bytes(100))

    assert (100, 800, 0, 0) == tuple(
        line_reader.estimated_size(str(each)) for each in (plain, compressed, tmp_path, tmp_path / "\0")
    )
