"""A restart of the runtime is assumed only in a pause that is long enough, and the verdict reports the assumption."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner
from judged import CALLS, content, judged, profile, violations

from fsm.cli.judge_command import command
from fsm.recordings import open_recording
from fsm.recordings.time_order import Restarts, Stretches
from fsm.report import words

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
BEGINNING = 1_795_230_856_000_000_000
RESTARTED = ("corrupt", "forgotten", "orphan", "restart")
"""Words in the names of recordings in which the runtime was restarted or killed."""


class Call(NamedTuple):
    """A call from *start* to *end*, in milliseconds."""

    start: int
    end: int
    op: str
    code: str = "OK"
    shows: str = ""
    id: str = "c" * 64
    detail: str = ""

    def lines(self) -> list[dict[str, object]]:
        times = {"start": BEGINNING + self.start * MS, "end": BEGINNING + self.end * MS}
        call = {"op": self.op, "id": self.id, "pod": "p" * 64, **times, "code": self.code, "detail": self.detail}
        shown = {"op": "status", "id": self.id, "start": times["end"], "state": f"CONTAINER_{self.shows}"}
        return [call, shown] if self.shows else [call]


def recorded(*calls: Call) -> bytes:
    return "".join(f"{json.dumps(line)}\n" for call in calls for line in call.lines()).encode()


CREATED = (
    Call(0, 1, "RunPodSandbox", id="p" * 64),
    Call(2, 3, "CreateContainer"),
    Call(4, 5, "ContainerStatus", shows="CREATED"),
)


def assumed(*calls: Call, folder: Path, **how: object) -> list[tuple[int, int]] | None:
    """Return the intervals of assumed restarts in milliseconds, or ``None`` if *calls* are illegal."""
    found = judged(recorded(*calls), folder, **how)
    if violations(found):
        return None
    times = [(each.observation.start or 0, each.observation.end or 0) for each in found.judgements[0].assumed]
    return [((start - BEGINNING) // MS, (end - BEGINNING) // MS) for start, end in times]


def test_a_pause_leaves_room_for_a_restart(tmp_path: Path) -> None:
    after = Call(205, 206, "ContainerStatus", shows="UNKNOWN")

    assert [(5, 205)] == assumed(*CREATED, after, folder=tmp_path)
    assert assumed(*CREATED, after, folder=tmp_path, restarts="none") is None
    assert assumed(*CREATED, after, folder=tmp_path, restarts="seen") is None
    assert assumed(*CREATED, after, folder=tmp_path, shortest_restart=0.3) is None


@pytest.mark.parametrize(
    "unsent",
    [
        "failed to connect to all addresses; last error: UNKNOWN: unix:/run/containerd.sock: Connection refused",
        'connection error: desc = "transport: Error while dialing: dial unix /run/containerd.sock: connect: refused"',
    ],
)
def test_a_call_that_was_not_sent_does_nothing(unsent: str, tmp_path: Path) -> None:
    """A call that was never sent does not act, unlike a call that was cut off."""
    lost = Call(6, 7, "StartContainer", "UNAVAILABLE", detail="Stream removed")
    runs = Call(8, 9, "ContainerStatus", shows="RUNNING")

    assert assumed(*CREATED, lost, runs, folder=tmp_path, restarts="none") == []
    assert assumed(*CREATED, lost._replace(detail=unsent), runs, folder=tmp_path, restarts="none") is None


def test_what_needs_no_restart_assumes_none(tmp_path: Path) -> None:
    assert [] == assumed(*CREATED, Call(205, 206, "ContainerStatus", shows="CREATED"), folder=tmp_path)


def test_no_room_where_calls_follow_each_other(tmp_path: Path) -> None:
    assert assumed(*CREATED, Call(6, 7, "ContainerStatus", shows="UNKNOWN"), folder=tmp_path) is None


def test_no_room_while_a_call_is_in_progress_that_is_answered(tmp_path: Path) -> None:
    """No restart is assumed during a call that is answered, because the restart would have cut off the call."""
    other = Call(5, 204, "StopContainer", id="d" * 64)
    after = Call(205, 206, "ContainerStatus", shows="UNKNOWN")

    assert assumed(*CREATED, other, after, folder=tmp_path) is None
    assert [(5, 205)] == assumed(*CREATED, other._replace(code="UNAVAILABLE"), after, folder=tmp_path)


def test_a_call_that_finds_no_runtime_shows_a_restart(tmp_path: Path) -> None:
    """A call that finds no runtime shows a restart, however short the pause is."""
    down, after = Call(6, 7, "Version", "UNAVAILABLE", id=""), Call(8, 9, "ContainerStatus", shows="UNKNOWN")

    assert [(5, 8)] == assumed(*CREATED, down, after, folder=tmp_path, restarts="seen")
    assert assumed(*CREATED, down, after, folder=tmp_path, restarts="none") is None
    assert assumed(*CREATED, down._replace(code="OK"), after, folder=tmp_path) is None


def test_one_restart_explains_several_containers(tmp_path: Path) -> None:
    other = Call(5, 6, "CreateContainer", id="d" * 64)
    after = Call(205, 206, "ContainerStatus", shows="UNKNOWN")

    assert [(6, 205)] == assumed(*CREATED, other, after, after._replace(id="d" * 64), folder=tmp_path)


def test_a_restart_that_is_not_there_explains_no_second_start(tmp_path: Path) -> None:
    ops = ["StartContainer", "StopContainer", "StartContainer"]
    calls = [Call(10 * place, 10 * place + 1, op) for place, op in enumerate(ops, 1)]

    assert assumed(*CREATED, *calls, folder=tmp_path) is None
    assert [] == assumed(*CREATED, *calls[:-1], folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_real_runtimes_are_restarted_where_they_were(name: str, tmp_path: Path) -> None:
    """Recordings without a restart have no violations, even if no restart is assumed."""
    verdicts = {
        how: not violations(judged(content(name), tmp_path, profile=profile(name), restarts=how))
        for how in ("none", "seen", "maybe")
    }

    assert verdicts["maybe"]
    assert verdicts["none"] or any(part in name for part in RESTARTED)
    assert "corrupt" not in name or not verdicts["seen"]


def test_stretches_are_found_among_overlapping_calls() -> None:
    stretches: Stretches[str] = Stretches(restarts=Restarts(shortest=10))
    points = [(0, "a", 1), (5, "b", 1), (6, "a", -1), (30, "b", -1), (35, "c", 1), (36, "c", -1), (50, "d", 1)]
    found = [each for at, name, change in points for each in stretches.take(at, name, change=change)]

    assert ["d"] == [name for name, restart in found if restart is not None]
    assert [name for _, name, _ in points] == [name for name, _ in found]


def test_an_assumption_about_one_entity_is_reported(tmp_path: Path) -> None:
    """A restart that is assumed for one entity is reported with its line, unless it was unnecessary."""
    header = (
        '{"trace": 1, "machine": "cri-container", "fresh": true}\n{"entity": "c1", "event": "create", "reply": "ok"}\n'
    )
    line = '{"entity": "c1", "event": "restart", "phase": "assumed"}\n'
    unread = '{"entity": "c1", "shows": "CONTAINER_UNKNOWN"}\n'
    found = judged((header + line + unread).encode(), tmp_path, restarts="none")

    assert [] == violations(found)
    assert ["a restart before line 3"] == [words.assumed(each) for each in found.judgements[0].assumed]
    assert () == judged((header + line).encode(), tmp_path, restarts="none").judgements[0].assumed
    assert violations(judged((header + unread).encode(), tmp_path, restarts="none"))


@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif", "github"])
def test_every_format_has_what_is_assumed(form: str, tmp_path: Path) -> None:
    (tmp_path / "calls").write_bytes(recorded(*CREATED, Call(205, 206, "ContainerStatus", shows="UNKNOWN")))
    ran = CliRunner().invoke(command, [str(tmp_path / "calls"), "--format", form], standalone_mode=False)

    assert 0 == ran.return_value
    assert "2026-11-21T03:14:16.005" in " ".join(ran.output.split())


@pytest.mark.parametrize("wrong", ["nan", "inf", "-1", "1e300", "0.5"])
def test_a_pause_is_milliseconds(wrong: str) -> None:
    ran = CliRunner().invoke(command, ["calls", "--shortest-restart", wrong])

    assert 2 == ran.exit_code
    assert "--shortest-restart" in ran.output


def test_the_end_of_a_stream_is_no_restart(tmp_path: Path) -> None:
    """A stream may end with UNAVAILABLE while the runtime stays up, so no restart is assumed after it."""
    lost = {"op": "event", "stream": 1, "start": BEGINNING + 2, "code": "UNAVAILABLE", "detail": "error reading: EOF"}
    lines = [*Call(0, 1, "StopContainer").lines(), lost | {"start": BEGINNING + 2 * MS}]
    lines += Call(3, 4, "RemoveContainer").lines()
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    recording = open_recording(str(path), as_called=True)

    assert {"StopContainer", "RemoveContainer"} == {
        seen.event for each in recording.batches for seen in each.observations
    }
