"""``--why`` explains the verdicts of ``fsm judge`` and ``fsm check``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from commands import FAILING, HOLDING, RECORDINGS, fsm

if TYPE_CHECKING:
    from pathlib import Path

CALLS = str(RECORDINGS / "2.1.9-nri.calls.jsonl.gz")
EVENTS = str(RECORDINGS / "2.1.9-nri.nri.jsonl.gz")
TRACE = """{"trace": 1, "machine": "cri-container", "fresh": true}
{"entity": "c1", "event": "create", "reply": "ok", "at": "2026-11-20T10:00:00Z"}
{"entity": "c1", "event": "start", "phase": "request", "at": "2026-11-20T10:01:00Z"}
{"entity": "c2", "event": "create", "reply": "ok", "at": "2026-11-20T10:01:30Z"}
{"entity": "c1", "shows": "CONTAINER_RUNNING", "at": "2026-11-20T10:02:00Z"}
{"entity": "c1", "event": "remove", "reply": "ok", "at": "2026-11-20T10:03:00Z"}
{"entity": "c1", "event": "stop", "reply": "NOT_FOUND", "at": "2026-11-20T10:04:00Z"}
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.jsonl"
    path.write_text(TRACE, encoding="utf-8")
    return str(path)


def told(*arguments: str, code: int) -> str:
    done = fsm("judge", *arguments)
    assert done.returncode == code, done.stderr
    return " ".join(done.stdout.split())


def stories(*arguments: str) -> list[dict[str, Any]]:
    done = fsm("judge", "--format", "json", *arguments)
    return [story for each in json.loads(done.stdout)["recordings"] for story in each["stories"]]


def test_the_chain_of_beliefs_up_to_a_violation() -> None:
    text = told("--entity", "d1d12d2e084c", "--why", "14", FAILING, code=1)

    for said in (
        ":8 CreateContainer replied ok before absent, created, starting, running and 10 more",
        "after created: create in absent → created [fresh-id]",
        "created-removing, if a call in progress has acted: remove in created → created-removing (begins)",
        ":10 RemoveContainer replied ok after absent, as the call has acted: remove in created → absent (no-record)",
        "ruled out absent: StopContainer would reply ok [stop-is-idempotent]",
        "violation: StopContainer replied NOT_FOUND in state absent known stop-of-removed",
        "stop-is-idempotent (MUST): Stopping a container that has stopped",
        "verdict: fails",
    ):
        assert said in text
    assert ":15 " not in text


def test_an_observation_before_is_explained_with_the_same_exit_code() -> None:
    text = told("--entity", "d1d12d2e084c", "--why", "10", FAILING, code=1)

    assert "created: RemoveContainer would reply any error [remove-ends-it]" in text
    assert "created-removing: RemoveContainer would not have ended" in text
    assert "violation" not in text


def test_the_profile_that_permits_it_is_named() -> None:
    text = told("--entity", "d1d12d2e084c", "--why", "14", "--profile", "containerd-1.6", FAILING, code=0)

    assert "stop in absent (deviation stop-of-removed of containerd-1.6) [stop-is-idempotent]" in text
    assert "tolerated only stop-of-removed explains this observation" in text


def test_an_assumed_restart_is_named(tmp_path: Path) -> None:
    lines = [
        '{"trace": 1, "machine": "cri-container", "fresh": true}',
        '{"entity": "c1", "event": "create", "reply": "ok"}',
        '{"event": "restart", "phase": "assumed"}',
        '{"entity": "c1", "shows": "CONTAINER_UNKNOWN"}',
    ]
    path = tmp_path / "restarted.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = told("--entity", "c1", "--why", "4", "--restarts", "seen", str(path), code=0)

    assert "assumed restart may have happened unobserved before this" in text
    assert "restart in created → unknown-created (unreadable)" in text
    assert "assumed only restart explains this observation" in text


def test_lines_of_a_client_and_of_a_plugin_have_files() -> None:
    chosen = ("--entity", "35ad797d7248", EVENTS, "--with", CALLS)
    text = told(*chosen, "--why", f"{CALLS}:214", code=1)

    assert f"{CALLS}:214 removal-succeeds happened" in text
    assert "ruled out unlisted: removal-succeeds cannot happen [removal-is-relayed]" in text
    assert "StartContainer happened" in told(*chosen, "--why", "123", code=1)


def test_outputs_of_a_plugin_are_observed() -> None:
    text = told("--entity", "35ad797d7248", "--why", "118", EVENTS, code=0)

    assert ":118 StopContainer after halted: stop-container in created → halted [stopped-once]" in text


def test_json_has_what_the_text_has() -> None:
    (story,) = stories("--entity", "d1d12d2e084c", "--why", "14", FAILING)
    first, last = story["steps"][0], story["steps"][-1]
    ((one,), (broken,)) = first["why"], last["why"]

    assert (last["line"], broken["legal"], broken["derivations"]) == (14, False, [])
    assert [(each["state"], each["cause"], each["clause"]["name"]) for each in broken["ruled_out"]] == [
        ("absent", "reply", "stop-is-idempotent")
    ]
    assert [each["state"] for each in one["derivations"]] == first["after"] == ["created"]
    assert one["derivations"][0]["uses"][0]["step"]["source"] == "absent"
    assert all(each["why"] == [] for each in stories("--entity", "d1d12d2e084c", FAILING)[0]["steps"])


def test_a_call_without_a_reply(trace: str) -> None:
    """A state that is shown later can prove that a call without a reply has acted.

    States in which the call has not acted are then ruled out.
    """
    text = told("--entity", "c1", "--why", "5", trace, code=1)

    assert "after running as before" in text
    assert "ruled out absent or lost-exited: would show absent" in text
    assert "running, if a call in progress has acted: start in created → running (started) [start-runs]" in text


def test_several_recordings(trace: str, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(TRACE.replace('"c1"', '"c9"'), encoding="utf-8")
    alone = fsm("judge", "--entity", "c1", "--why", "5", trace, str(other))
    both = fsm("judge", "--entity", "c2", "--why", "4", trace, str(other))
    chosen = fsm("judge", "--entity", "c2", "--why", f"{other.name}:4", trace, str(other))

    assert "CONTAINER_RUNNING" in alone.stdout
    assert (both.returncode, f"write FILE:LINE, such as {trace}:4" in both.stderr) == (2, True)
    assert chosen.returncode == 0
    assert "create replied ok" in chosen.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--entity", "c1", "--why", "4"], "line 4 has no observation of that entity"),
        (["--entity", "c1", "--why", "4"], "the nearest lines are 2, 3, 5, 6"),
        (["--entity", "c1", "--why", "elsewhere.log:2"], "no line of this file has an observation of the entity"),
        (["--why", "4"], "add --entity ID"),
        (["--entity", "c1", "--why", "4", "--follow"], "of a complete recording"),
        (["--entity", "c1", "--why", "4", "--format", "sarif"], "as text, json or html"),
        (["--entity", "c1", "--why", "four"], "'four' is not the number of a line, such as 14 or doors.jsonl:14"),
        (["--entity", "c1", "--why", ""], "'' is not the number of a line"),
    ],
)
def test_what_is_no_line_of_the_entity_is_refused(trace: str, options: list[str], said: str) -> None:
    """A line that does not mention the entity is refused, and the message lists the nearest lines that do."""
    done = fsm("judge", *options, trace)

    assert (2, "") == (done.returncode, done.stdout)
    assert said in " ".join(done.stderr.split())


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    for asked, meant in (("d1d12d2e08ff", "d1d12d2e084c"), ("p1/c00", "p1/c0")):
        assert f"did you mean '{meant}'?" in fsm("judge", "--entity", asked, FAILING).stderr
    assert "did you mean" not in fsm("judge", "--entity", "qqqqqq", FAILING).stderr


@pytest.mark.parametrize("columns", [60, 80])
def test_it_fits_a_narrow_terminal(columns: int) -> None:
    log = str(RECORDINGS / "2.1.9-contexts.log.gz")
    done = fsm("judge", "--entity", "55edca5ff989", "--why", "182", log, env={"COLUMNS": str(columns)})

    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    long = [line for line in done.stdout.splitlines()[1:] if len(line) > columns and not re.fullmatch(r" *\S+", line)]
    assert long == []


def test_a_recording_that_holds_is_explained_too() -> None:
    story = stories("--entity", "d/p0", HOLDING)[0]
    line = str(story["steps"][-1]["line"])

    assert "verdict: holds" in told("--entity", "d/p0", "--why", line, HOLDING, code=0)


def test_check_explains_a_step() -> None:
    chosen = ("check", "container-status", "--profile", "containerd-1.6", "--property", "stop-is-idempotent")
    done = fsm(*chosen, "--why", "2")
    (found,) = json.loads(fsm(*chosen, "--why", "2", "--format", "json").stdout)["machines"][0]["properties"]
    text = " ".join(done.stdout.split())

    assert done.returncode == 0
    assert "step 2 stop in absent (deviation stop-of-removed of containerd-1.6) [stop-is-idempotent]" in text
    assert "stop-is-idempotent (MUST): Stopping a container that has stopped" in text
    assert [each["clause"]["level"] for each in found["why_step"]] == ["MUST"]
    assert fsm(*chosen, "--why", "3").returncode == 2
    assert "the longest one has 2 steps" in fsm(*chosen, "--why", "3").stderr


def test_check_explains_a_joint_step() -> None:
    text = " ".join(fsm("check", "shared-ids", "--profile", "none", "--why", "1").stdout.split())

    assert re.search(r"step 1 [\w.-]+ .*?\[", text)
    assert " clauses " in text
