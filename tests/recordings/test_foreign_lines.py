"""Unrecognized lines are counted, and the first of them are shown."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from commands import fsm

from fsm.monitor.judgement import judge
from fsm.recordings.line_reader import FOREIGN, LISTED
from fsm.trace import Line

RECORDINGS = Path(__file__).parent
CALLS = RECORDINGS / "1.7.24-nri.calls.jsonl.gz"
EVENTS = RECORDINGS / "1.7.24-nri.nri.jsonl.gz"
GARBAGE = (b"garbage", b'{"broken', b"7", b"\xff\xfe{}", b"[]", b"\x00" * 9)


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines()


def damaged(lines: list[bytes], path: Path, count: int) -> list[int]:
    chance = random.Random(count)
    whole = [(line, False) for line in lines]
    for _ in range(count):
        whole.insert(chance.randint(1, len(whole)), (chance.choice(GARBAGE), True))
    path.write_bytes(b"\n".join(line for line, _ in whole) + b"\n")
    return [number for number, (_, foreign) in enumerate(whole, 1) if foreign]


TRACE = [b'{"trace": 1, "machine": "container-status"}'] + [
    json.dumps({"entity": f"c{number}", "event": event, "reply": "ok"}).encode()
    for number in range(20)
    for event in ("create", "start")
]


@pytest.mark.parametrize("count", [0, 1, LISTED, LISTED + 3])
@pytest.mark.parametrize("lines", [lines_of(CALLS), lines_of(EVENTS), TRACE], ids=["calls", "events", "trace"])
def test_the_first_are_named(lines: list[bytes], count: int, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    foreign = damaged(lines, path, count)

    found = judge(path, lenient=True)

    assert found.notes.get(FOREIGN, 0) == count
    assert found.places.get(FOREIGN, ()) == tuple(Line(str(path), number) for number in foreign[:LISTED])


def test_those_of_two_files_name_the_file(tmp_path: Path) -> None:
    events, calls = tmp_path / "events.jsonl", tmp_path / "calls.jsonl"
    [of_events], [of_calls] = damaged(lines_of(EVENTS), events, 1), damaged(lines_of(CALLS), calls, 1)

    told = fsm("judge", str(events), "--with", str(calls), cwd=tmp_path)
    asked = fsm("judge", str(events), "--with", str(calls), "--format", "json", cwd=tmp_path)

    assert f"2 foreign or damaged lines ({of_events}, {calls}:{of_calls})" in " ".join(told.stdout.split())
    [recording] = json.loads(asked.stdout)["recordings"]
    assert recording["foreign"] == [{"file": str(events), "line": of_events}, {"file": str(calls), "line": of_calls}]
