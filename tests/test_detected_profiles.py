"""``--profile auto`` selects the profile of the version in a recording, and the report names it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import FAILING, HOLDING, RECORDINGS, fsm

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.verdict import Holds

if TYPE_CHECKING:
    from collections.abc import Sequence

START = 'time="2026-11-20T11:03:2{}Z" level=info msg="starting containerd" revision="1" version="{}"\n'


def _started(*versions: str) -> bytes:
    """Return the failing log, cut into parts that each begin with the start of one of the *versions* of containerd."""
    lines = Path(FAILING).read_bytes().splitlines(keepends=True)
    size = -(-len(lines) // len(versions))
    parts = [lines[at : at + size] for at in range(0, len(lines), size)]
    found = zip(versions, parts, strict=True)
    return b"".join(
        START.format(f"{number}.2", version).encode() * bool(version) + b"".join(part)
        for number, (version, part) in enumerate(found)
    )


@pytest.mark.parametrize(
    ("versions", "tolerates", "said"),
    [
        (["1.6.20~ds1"], True, "profile containerd-1.6.20, because the recording shows this version"),
        (["v1.7.27"], False, "profile containerd-1.7.27, because the recording shows this version"),
        (["2.99.0"], False, "no model has a profile for containerd-2.99.0"),
        (["main"], False, "the recording does not show its version"),
        ([""], False, "the recording does not show its version"),
        (["1.6.20", "1.7.27"], True, "containerd 1.7.27 was started later, and is judged under the same profile"),
    ],
)
def test_the_version_that_a_log_shows(versions: Sequence[str], tolerates: bool, said: str, tmp_path: Path) -> None:  # noqa: FBT001  (a row of the table)
    log = tmp_path / "containerd.log"
    log.write_bytes(_started(*versions))
    judged = judge(log, profile="auto")
    text = fsm("judge", "--profile", "auto", "-", stdin=log.read_bytes())

    kind = Holds if tolerates else Illegal
    assert {kind} == {type(each.verdict) for each in judged.judgements}
    assert said in judged.detected
    assert said in " ".join(text.stdout.split())
    assert (0 if tolerates else 1) == text.returncode


def test_as_with_the_profile_by_name() -> None:
    name = RECORDINGS / "1.6.20-deadlines.log.gz"
    auto, named = judge(name, profile="auto"), judge(name, profile="containerd-1.6.20")

    assert auto.judgements == named.judgements
    assert auto.judgements != judge(name).judgements


def test_events_and_calls_show_it_too() -> None:
    call = '{"op": "Version", "start": 1, "end": 2, "code": "OK", "detail": "", "version": "1.7.24"}\n'
    calls = (RECORDINGS / "cri-calls-1.7.24.jsonl").read_text(encoding="utf-8")

    assert "containerd-2.1.9" in judge(RECORDINGS / "nri-events-2.1.9.jsonl", profile="auto").detected
    done = fsm("judge", "--profile", "auto", "--format", "json", "-", stdin=(call + calls).encode())
    (recording,) = json.loads(done.stdout)["recordings"]
    assert ("containerd 1.7.24", 0) == (recording["version"], done.returncode)
    assert "containerd-1.7.24" in recording["detected"] or "none of containerd-1.7.24" in recording["detected"]


def test_what_is_followed_changes_its_profile_at_a_restart() -> None:
    follow = ("judge", "--follow", "--profile", "auto", "-")
    upgraded = fsm(*follow, stdin=_started("1.6.20", "1.7.27"))
    downgraded = fsm(*follow, stdin=_started("1.7.27", "1.6.20"))
    same = fsm(*follow, stdin=_started("1.6.20", "1.6.20"))

    for done in (upgraded, downgraded):
        assert 1 == done.returncode
        assert ["holds", "fails"] == sorted(re.findall(r"verdict: (\w+)", done.stdout), reverse=True)
        assert 2 == done.stderr.count("because the recording shows this version")
    assert (0, 1) == (same.returncode, same.stdout.count("verdict:"))


def test_a_recording_without_a_version_is_followed_without_a_profile() -> None:
    done = fsm("judge", "--follow", "--profile", "auto", "-", stdin=Path(HOLDING).read_bytes())

    assert 0 == done.returncode
    assert "the recording does not show its version" in done.stderr
    assert "the recording does not show its version" in " ".join(done.stdout.split())
