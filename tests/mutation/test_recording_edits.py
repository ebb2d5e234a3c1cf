"""Each edit of a recording makes exactly the change that its name describes."""

from __future__ import annotations

import json

import pytest
from judged import content

from fsm.mutation.power import RecordingEdit
from fsm.runtimes.recordings.illegal_edits import edits_of_calls, edits_of_events, edits_of_log
from fsm.runtimes.recordings.recorded_acts import timed

LINES = {
    "calls": content("2.1.9-killed-containers.calls.jsonl.gz").splitlines(),
    "log": content("containerd-2.1.9.log").splitlines(),
    "json log": content("2.1.9-jsonlog.log.gz").splitlines(),
    "events": content("nri-events-2.1.9.jsonl").splitlines(),
}
CALLS = timed(content("cri-calls-with-nri-2.1.9.jsonl").splitlines())
SOURCES = {
    "calls": [*edits_of_calls(LINES["calls"])],
    "log": [*edits_of_log(LINES["log"])],
    "json log": [*edits_of_log(LINES["json log"])],
    "events": [*edits_of_events(LINES["events"], CALLS)],
}
EVERYWHERE = {"line dropped", "line doubled", "lines moved", "id exchanged"}
KINDS = {
    "calls": EVERYWHERE | {"reply flipped", "state changed", "data changed"},
    "log": EVERYWHERE | {"reply flipped"},
    "json log": EVERYWHERE | {"reply flipped"},
    "events": EVERYWHERE | {"told late"},
}


def of(source: str, kind: str) -> list[RecordingEdit]:
    return [each for each in SOURCES[source] if each.kind == kind]


@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_is_made(source: str) -> None:
    assert KINDS[source] == {each.kind for each in SOURCES[source]}


@pytest.mark.parametrize("source", SOURCES)
def test_each_changes_the_recording(source: str) -> None:
    lines = LINES[source]
    for edit in SOURCES[source]:
        edited = edit.applied(lines)
        first = next(
            (index for index, (old, new) in enumerate(zip(lines, edited, strict=False)) if old != new), len(edited)
        )
        more = {"line dropped": (-1, -2), "line doubled": (1, 2)}.get(edit.kind, (0,))
        assert len(edited) - len(lines) in more, edit
        assert edited != lines, edit
        assert first + 1 >= edit.line, edit


def test_a_reply_is_flipped_both_ways() -> None:
    lines = LINES["calls"]
    for edit in of("calls", "reply flipped"):
        ((index, (line,)),) = edit.changes.items()
        old, new = json.loads(lines[index]), json.loads(line)
        assert (old["code"] == "OK") == (new["code"] != "OK")
        assert old | {"code": new["code"], "detail": ""} == new
    assert any("OK →" in each.what for each in of("calls", "reply flipped"))
    assert any("→ OK" in each.what for each in of("calls", "reply flipped"))


@pytest.mark.parametrize("source", ["log", "json log"])
def test_an_edited_log_is_one(source: str) -> None:
    lines = LINES[source]
    for edit in of(source, "reply flipped"):
        ((index, (line,)),) = edit.changes.items()
        assert (b"returns successfully" in lines[index]) == (b'failed"' in line) == (b"rpc error" in line)
        assert source == "log" or json.loads(line)["msg"]


def test_times_go_with_the_place() -> None:
    lines = LINES["calls"]
    for edit in of("calls", "lines moved"):
        before = sorted(
            json.loads(lines[index])["start"] for index in edit.changes if "end" in json.loads(lines[index])
        )
        moved = [json.loads(line) for news in edit.changes.values() for line in news]
        assert before == sorted(each["start"] for each in moved if "end" in each)


def test_late_is_after_the_call() -> None:
    lines = LINES["events"]
    for edit in of("events", "told late"):
        times = [json.loads(line)["ts"] for line in edit.applied(lines)]
        assert sorted(times) == times
