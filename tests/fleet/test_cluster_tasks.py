"""Cluster tasks that run without a cluster have the same result as judging whole recordings."""

from __future__ import annotations

import json
import random
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import pyarrow as pa
import pytest
from commands import RECORDINGS, fsm
from judged import content
from msgspec.json import decode

from fsm.fleet import Summary, cluster_tasks, summarise, total
from fsm.fleet.cluster_tasks import ClusterTask, causes, put_together, sum_summaries
from fsm.machine.findings import NOTHING_CONCERNS
from fsm.monitor.judgement import judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAMES: Final = ("containerd-1.6.20.log", "cri-calls-1.6.20.jsonl", "1.7.24-killed-containers.log.gz")
KIND: Final = "container-status"
ENTITIES: Final = 5
NODE: Final = "node-1"

LINES: Final = ClusterTask(form="lines", models=(), profile=None)
EXPECTED: Final = total(summarise([judge(RECORDINGS / name)], node=name) for name in NAMES)

# Observations about all containers. The last one has an event that the machine does not know.
OF_ALL: Final = (
    {"event": "restart"},
    {"event": "restart", "phase": "maybe"},
    {"phase": "gap"},
    {"event": "restart", "phase": "assumed"},
    {"event": "no-such-event"},
)


def batches(rows: list[dict[str, Any]], chance: random.Random) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_pylist([{name: row.get(name) for name in dict.fromkeys(chain(*rows))} for row in rows])
    while table.num_rows:
        size = chance.randint(1, table.num_rows)
        yield from table.slice(0, size).combine_chunks().to_batches()
        table = table.slice(size)


def summed(judged: Iterable[pa.RecordBatch]) -> Summary:
    [row] = [row for batch in sum_summaries(judged) for row in batch.to_pylist()]
    assert row["problem"] == ""
    return decode(row["judged"], type=Summary)


def lines_of(name: str) -> list[dict[str, Any]]:
    lines = enumerate(content(name).splitlines(), 1)
    return [{"node": name, "file": str(RECORDINGS / name), "line": number, "value": line} for number, line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_lines_in_any_batches_come_to_what_their_files_do(seed: int) -> None:
    chance = random.Random(seed)
    rows = [row for name in NAMES for row in lines_of(name)]

    found = summed(LINES.judged(batches(rows, chance)))

    assert found == EXPECTED
    assert found.shares
    swapped = [*rows[:40], *rows[80:120], *rows[40:80], *rows[120:]]
    assert summed(LINES.judged(batches(swapped, chance))) != EXPECTED


def test_lines_stand_where_their_numbers_say() -> None:
    rows = [row for row in lines_of(NAMES[0]) if b"level=debug" not in row["value"] and row["line"] != 3]
    rows[0]["value"] += b"\nand more of it"
    [whole] = total([EXPECTED]).of_all().shares[:1]

    found = summed(LINES.judged(batches(rows, random.Random(1))))

    known = {place.line for share in EXPECTED.shares for cause in share.found for place in cause.first}
    assert {place.line for share in found.shares for cause in share.found for place in cause.first} <= known
    assert whole.found
    assert found.notes["lines"] == len(rows)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    chance = random.Random(7)
    made = fsm(
        *("simulate", KIND, "--length", "600", "--entities", str(ENTITIES)),
        *("--profile", "containerd-1.6", "--seed", "2"),
    ).stdout.splitlines()
    rows = list(map(json.loads, made[1:]))
    for each in OF_ALL * 2:
        rows.insert(chance.randrange(100, len(rows)), dict(each))
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    path.write_text("\n".join([made[0], *map(json.dumps, rows)]), encoding="utf-8")
    return path, [{"node": NODE, "file": str(path), "line": number, **row} for number, row in enumerate(rows, 2)]


def in_parts(rows: list[dict[str, Any]], number: int, *, everywhere: bool = True) -> list[dict[str, Any]]:
    """Divide *rows* by entity into *number* parts.

    Rows about all entities go into each part, or only into the first if *everywhere* is false.
    """
    return [
        {**row, "part": part}
        for part in range(number)
        for row in rows
        if (everywhere or not part if not row.get("entity") else crc32(row["entity"].encode()) % number == part)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_entities_in_any_parts_come_to_the_whole(trace: tuple[Path, list[dict[str, Any]]], number: int) -> None:
    chance = random.Random(number)
    path, rows = trace
    task = ClusterTask(form="observations", models=(KIND,), profile=None, fresh=True, parts=True)
    expected = summarise([judge(path)], node=NODE)

    def judged(those: list[dict[str, Any]]) -> Summary:
        return summed(put_together(task.judged(batches(those, chance))))

    found = judged(in_parts(rows, number))

    assert found.shares == expected.shares
    assert found.shares[0].found
    if number > 1:
        assert judged(in_parts(rows, number, everywhere=False)).shares != expected.shares


def test_what_is_of_all_is_counted_once(
    trace: tuple[Path, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If repeats were not removed, rows about all entities would be counted in each part."""
    path, rows = trace
    task = ClusterTask(form="observations", models=(KIND,), profile=None, fresh=True, parts=True)
    monkeypatch.setattr(cluster_tasks, "_without_repeats", lambda counts, *_: dict(counts))

    found = summed(put_together(task.judged(batches(in_parts(rows, 3), random.Random(1)))))

    assert found.shares != summarise([judge(path)], node=NODE).shares


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([{"event": "restart"}], "the trace mentions no container"),
        ([{"event": "no-such-event"}], "line 2: "),
        ([{"entity": "c1", "phase": "gap"}, {"entity": "c2", "phase": "gap"}], NOTHING_CONCERNS),
        ([{"phase": "gap"}], "the trace mentions no container"),
        ([{"entity": "c1", "event": "no-such-event"}, {"entity": "c2", "event": "create", "reply": "ok"}], "line 2: "),
        ([{"entity": "c1", "event": "create", "reply": "ok"}], ""),
        ([{"entity": "c1", "event": "stoop"}, {"entity": "c2", "event": "remoove"}], "line 2: "),
    ],
)
def test_why_parts_are_unknown_is_why_the_whole_is(rows: list[dict[str, Any]], why: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"trace": 1, "machine": KIND, "fresh": True}, *rows])), encoding="utf-8")
    task = ClusterTask(form="observations", models=(KIND,), profile=None, fresh=True, parts=True)
    expected = summarise([judge(path)], node=NODE)
    keyed = [
        {"node": NODE, "file": str(path), "line": number, "entity": "", **row} for number, row in enumerate(rows, 2)
    ]

    found = summed(put_together(task.judged(batches(in_parts(keyed, 4), random.Random(1)))))

    assert found.shares == expected.shares
    assert [*found.shares[0].unknown] == [each for each in expected.shares[0].unknown if each.startswith(why)]
    assert bool(found.shares[0].unknown) == bool(why)


def test_causes_are_rows() -> None:
    rows = [
        row
        for batch in causes(LINES.judged(batches(lines_of(NAMES[0]), random.Random(1))))
        for row in batch.to_pylist()
    ]

    assert {row["clause"] for row in rows} == {"stop-is-idempotent"}
    assert all(row["count"] >= len(row["first"]) > 0 and not row["tolerated"] for row in rows)
    assert {row["node"] for row in rows} == {NAMES[0]}


def test_a_recording_with_a_problem_leaves_the_others(tmp_path: Path) -> None:
    good, bad = RECORDINGS / NAMES[0], tmp_path / "none.log"
    rows = [{"node": each.name, "file": str(each)} for each in (bad, good)]
    task = ClusterTask(form="files", models=(), profile=None)

    found = [row for batch in sum_summaries(task.judged(batches(rows, random.Random(1)))) for row in batch.to_pylist()]

    assert sorted(bool(row["problem"]) for row in found) == [False, True]
    [problem] = [row["problem"] for row in found if row["problem"]]
    assert problem.startswith(f"{bad}: the file cannot be opened: no such file")
    [summary] = [decode(row["judged"], type=Summary) for row in found if row["judged"]]
    assert summary == summarise([judge(good)], node=good.name)
