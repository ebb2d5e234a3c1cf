"""``fsm judge`` reports only the requested part of a recording, but uses all earlier lines."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from commands import FAILING, HOLDING, RECORDINGS, fsm

from fsm.monitor.judgement import judge

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CALLS = str(RECORDINGS / "cri-calls-1.6.20.jsonl")
TRACE = """{"trace": 1, "machine": "cri-container", "fresh": true}
{"entity": "c1", "event": "create", "reply": "ok", "at": "2026-11-20T10:00:00Z"}
{"entity": "c1", "event": "start", "reply": "ok", "at": "2026-11-20T10:01:00Z"}
{"entity": "c1", "event": "remove", "reply": "ok", "at": "2026-11-20T10:02:00Z"}
{"entity": "c1", "event": "stop", "reply": "NOT_FOUND", "at": "2026-11-20T10:03:00Z"}
{"entity": "c2", "event": "stop", "reply": "NOT_FOUND", "at": "2026-11-20T10:04:00Z"}
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.jsonl"
    path.write_text(TRACE, encoding="utf-8")
    return str(path)


def _judged(*arguments: str, **environment: str) -> dict[str, Any]:
    done = fsm("judge", "--format", "json", *arguments, env=environment)
    assert done.returncode in {0, 1, 3}, done.stderr
    (recording,) = json.loads(done.stdout)["recordings"]
    return dict(recording)


def _lines(recording: dict[str, Any]) -> list[int]:
    found = (each for machine in recording["machines"] for finding in machine["findings"] for each in finding["first"])
    return sorted(each["line"] for each in found)


@pytest.mark.parametrize(
    ("options", "lines", "verdict"),
    [
        ([], [5, 6], "fails"),
        (["--since", "2026-11-20T10:03:00Z"], [5, 6], "fails"),
        (["--since", "2026-11-20T10:03:00.000001Z"], [6], "fails"),
        (["--since", "2026-11-20T11:04:00+01:00"], [6], "fails"),
        (["--until", "2026-11-20T10:03:00Z"], [5], "fails"),
        (["--until", "2026-11-20T10:02:59Z"], [], "holds"),
        (["--since", "2026-11-20T10:00:00Z", "--until", "2026-11-20T10:02:00Z"], [], "holds"),
        (["--since", "2026-11-21"], [], "unknown"),
        (["--until", "2026-11-19"], [], "unknown"),
        (["--since", "1h"], [], "unknown"),
    ],
)
def test_a_time(trace: str, options: list[str], lines: list[int], verdict: str) -> None:
    """Only violations in the selected period are reported.

    If the period has no observations, the verdict is unknown.
    """
    recording = _judged("--all", *options, trace)

    assert (lines, verdict) == (_lines(recording), recording["verdict"])


def test_where_nothing_was_observed_the_times_of_the_recording_are_told(trace: str) -> None:
    old, twin = (" ".join(fsm("judge", "--since", since, trace).stdout.split()) for since in ("1h", "2026-11-20"))

    said = "nothing was observed in the requested time: the first observation is of 2026-11-20T10:"
    assert said in old
    assert re.search(r"the last of 2026-11-20T10:\d\d:\d\dZ", old)
    assert "the first observation" not in twin


def test_the_state_before_the_time_is_known(tmp_path: Path) -> None:
    lines = TRACE.splitlines(keepends=True)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.write_text("".join(lines[:5]), encoding="utf-8")
    cut.write_text(lines[0].replace("true", "false") + lines[4], encoding="utf-8")

    assert _judged("--since", "2026-11-20T10:03:00Z", str(whole))["verdict"] == "fails"
    alone = _judged(str(cut))
    assert (alone["verdict"], _lines(alone)) == ("unknown", [])


@pytest.mark.parametrize("name", [FAILING, CALLS])
def test_two_times_have_what_the_whole_has(name: str) -> None:
    whole = _judged("--all", name)
    moments = sorted(each["at"] for each in _violations(whole))
    middle = moments[len(moments) // 2]
    first, second = _judged("--all", "--until", middle, name), _judged("--all", "--since", middle, name)

    assert set(_lines(whole)) == {*_lines(first), *_lines(second)}
    assert len(_lines(first)) < len(_lines(whole)) > len(_lines(second)) > 0


def _violations(recording: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return (each for machine in recording["machines"] for finding in machine["findings"] for each in finding["first"])


@pytest.mark.parametrize(("zone", "lines"), [("UTC", []), ("UTC-1", [6]), ("UTC-2", [5, 6])])
def test_a_time_without_an_offset_is_local(
    trace: str, zone: str, lines: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time without an offset is in the time zone of the process.

    The zone ``UTC-1`` is one hour ahead of UTC.
    """
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        recording = _judged("--all", "--since", "2026-11-20 11:03:30", trace, TZ=zone)
    finally:
        monkeypatch.undo()
        time.tzset()

    assert lines == _lines(recording)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--since", "yesterday"], "'yesterday' is not a time, such as 2026-11-23T14:05:00Z"),
        (["--until", "10 minutes"], "is not a time"),
        (["--since", ""], "is not a time"),
        (["--since", "10m", "--until", "1h"], "the time of --until is before the time of --since"),
        (["--since", "10m", "--properties"], "only against the whole recording"),
    ],
)
def test_what_is_no_part_is_refused(options: list[str], what: str) -> None:
    """A wrong option is refused, and the message shows an example of a time or names the conflicting options."""
    done = fsm("judge", *options, HOLDING)

    assert (2, "") == (done.returncode, done.stdout)
    assert what in " ".join(done.stderr.split())


def test_the_story_of_an_entity() -> None:
    whole = judge(FAILING, every=True)
    found = [each for machine in whole.judgements for each in machine.verdict.findings]  # type: ignore[union-attr]
    entity = found[0].first[0].observation.entity
    recording = _judged("--all", "--entity", entity[:12], FAILING)
    (story,) = recording["stories"]
    own = sorted(each.line for finding in found for each in finding.first if each.observation.entity == entity)

    assert (entity, ["c0", "p1/c0", "d/p1/c0"]) == (story["entity"], story["names"])
    assert own == _lines(recording) == [step["line"] for step in story["steps"] for _ in step["violations"]]
    assert len(own) < sum(len(each.first) for each in found)
    for one, other in zip(story["steps"], story["steps"][1:], strict=False):
        assert one["line"] <= other["line"]
        assert set(other["before"]) <= set(one["after"]) or other["before"] == one["after"]
    assert story["steps"][0]["after"] == ["created"]
    assert {(each["event"], tuple(each["allowed"])) for step in story["steps"] for each in step["violations"]} == {
        ("StopContainer", ("absent",))
    }


def test_a_story_by_name_as_text() -> None:
    done = fsm("judge", "--entity", "d/p0", HOLDING)

    assert done.returncode == 0
    assert ", d/p0: " in done.stdout
    assert "RunPodSandbox replied ok → ready" in " ".join(done.stdout.split())
    assert "violation" not in done.stdout


def test_tolerated_steps_are_marked() -> None:
    done = fsm("judge", "--entity", "d/p1/c0", "--profile", "containerd-1.6", FAILING)

    assert done.returncode == 0
    assert "tolerated  stop-of-removed" in done.stdout


@pytest.mark.parametrize(
    ("entity", "code", "what"),
    [
        ("nginx", 2, "the recording mentions no entity 'nginx'"),
        ("c", 2, "give a longer part of one id: container c1, container c2"),
        ("c1", 1, "violation"),
        ("", 1, "violation"),
    ],
)
def test_an_entity_that_is_none_or_several(trace: str, entity: str, code: int, what: str) -> None:
    done = fsm("judge", "--entity", entity, trace)

    assert (code, True) == (done.returncode, what in done.stdout + done.stderr)


def test_what_is_followed_has_a_part() -> None:
    with open(FAILING, "rb") as log:  # noqa: PTH123  (a recording)
        done = fsm(
            "judge", "--follow", "--entity", "d/p1/c0", "--since", "2026-11-20T11:03:20.9Z", "-", stdin=log.read()
        )

    assert done.returncode == 1
    assert "container d1d12d2e084c, d/p1/c0: " in done.stdout
    assert "stdin:14" not in done.stdout
    assert "stdin:51" in done.stdout
