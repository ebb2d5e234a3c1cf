"""What a plugin was told, judged by the calls of the same run: real recordings, cut and edited."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from judged import Found, content, every_violation, profile, violations
from thorough import TIMES

from fsm.errors import InputError
from fsm.judgement import judge
from fsm.report import Report
from fsm.report.github import github
from fsm.verdict import Holds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fsm.judgement import Judged
    from fsm.verdict import Violation

__all__ = ["every_violation"]

RUNS = {
    "2.1.9-forgotten": {
        "no-start-after-stop": 1,
        "pod stop-is-relayed": 2,
        "pod removal-is-relayed": 2,
        "removal-is-relayed": 2,
    },
    "1.7.24-forgotten": {
        "no-start-after-stop": 1,
        "pod stop-is-relayed": 2,
        "pod removal-is-relayed": 2,
        "removal-is-relayed": 2,
    },
    "2.1.9-nri": {
        "no-start-after-stop": 3,
        "pod stop-is-relayed": 1,
        "pod removal-is-relayed": 6,
        "removal-is-relayed": 12,
    },
    "1.7.24-nri": {
        "no-start-after-stop": 1,
        "pod stop-is-relayed": 1,
        "pod removal-is-relayed": 6,
        "removal-is-relayed": 13,
    },
}
"""How often each clause is broken; those of pods are marked."""


def together(events: bytes, calls: bytes, folder: Path, **how: object) -> Judged:
    """The verdicts on *events*, judged with *calls*."""
    (folder / "events").write_bytes(events)
    (folder / "calls").write_bytes(calls)
    return judge(str(folder / "events"), calls=str(folder / "calls"), **how)  # type: ignore[arg-type]


def clauses(found: list[Found]) -> Counter[str]:
    """How often each clause is broken; those of pods are marked."""
    return Counter(f"{'pod ' if each.machine == 'plugin-pod' else ''}{each.clause}" for each in found)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("calls", ["calls.jsonl.gz", "log.gz"])
def test_what_containerd_forgets_is_found(run: str, calls: str, tmp_path: Path) -> None:
    """Whether the calls were recorded by their client or by the daemon; and it is known of that version."""
    events, called = content(f"{run}.nri.jsonl.gz"), content(f"{run}.{calls}")

    assert clauses(violations(together(events, called, tmp_path))) == RUNS[run]

    known = together(events, called, tmp_path, profile=profile(run))
    assert {Holds()} == {each.verdict for each in known.judgements}
    tolerated = Counter[str]()
    for judgement in known.judgements:
        for each in judgement.tolerated:
            tolerated[each.first.deviation.name] += each.count
    assert tolerated == {
        "started-after-stop": RUNS[run]["no-start-after-stop"],
        "stop-forgotten": RUNS[run]["pod stop-is-relayed"],
        "removal-forgotten": RUNS[run]["pod removal-is-relayed"] + RUNS[run]["removal-is-relayed"],
    }


def test_without_a_restart_nothing_is_forgotten(tmp_path: Path) -> None:
    """A plugin that is there all the time is told everything, but a start after a stop."""
    found = together(content("nri-events-2.1.9.jsonl"), content("cri-calls-with-nri-2.1.9.jsonl"), tmp_path)

    assert clauses(violations(found)) == {"no-start-after-stop": 1}


EVENTS = content("nri-events-2.1.9.jsonl").splitlines(keepends=True)
CALLS = content("cri-calls-with-nri-2.1.9.jsonl")
REMOVALS = [
    number
    for number, line in enumerate(EVENTS)
    if json.loads(line)["event"] in {"REMOVE_CONTAINER", "REMOVE_POD_SANDBOX"}
]


@pytest.mark.parametrize("number", REMOVALS[:-1])
def test_a_removal_that_is_not_told_is_found(number: int, tmp_path: Path) -> None:
    """With no restart before it no version is known for that."""
    events = b"".join(EVENTS[:number] + EVENTS[number + 1 :])

    for profiled in (None, "containerd-2.1"):
        found = violations(together(events, CALLS, tmp_path, profile=profiled))
        assert clauses(found)["removal-is-relayed"] + clauses(found)["pod removal-is-relayed"] == 1


STARTED = [json.loads(line) for line in CALLS.splitlines()]
SUCCEEDED = {
    (call["op"], call["id"]): call["end"] for call in STARTED if call.get("code") == "OK" and call["op"] != "status"
}
TOLD = {
    "RUN_POD_SANDBOX": "RunPodSandbox",
    "POST_CREATE_CONTAINER": "CreateContainer",
    "START_CONTAINER": "StartContainer",
    "POST_START_CONTAINER": "StartContainer",
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("number", [number for number, line in enumerate(EVENTS) if json.loads(line)["event"] in TOLD])
def test_what_is_told_after_the_reply_is_found(number: int, tmp_path: Path, *, late: bool) -> None:
    """A microsecond after it, and not one before it."""
    event = json.loads(EVENTS[number])
    end = SUCCEEDED[TOLD[event["event"]], event.get("container") or event["pod"]]
    event["ts"] = max(event["ts"], end + (1_000 if late else -1_000))
    events = [json.loads(line) for line in EVENTS]
    events[number] = event
    written = "".join(json.dumps(each) + "\n" for each in sorted(events, key=lambda each: int(each["ts"])))

    found = clauses(violations(together(written.encode(), CALLS, tmp_path)))

    assert late == ("success-is-relayed" in found or "pod success-is-relayed" in found)


def test_whether_a_plugin_was_there_at_the_end_is_not_known(tmp_path: Path) -> None:
    """If what it was told of on the same connection goes without a word, it may have left."""
    found = together(b"".join(EVENTS[: REMOVALS[-1]]), CALLS, tmp_path)

    assert clauses(violations(found)) == {"no-start-after-stop": 1}
    assert found.notes["calls after the last event of the plugin"]


def test_each_finding_is_where_it_stands(tmp_path: Path) -> None:
    """In the one file or in the other, in every format."""
    events, calls = content("2.1.9-forgotten.nri.jsonl.gz"), content("2.1.9-forgotten.log.gz")
    found = together(events, calls, tmp_path)
    written = github(Report(judged=(found,), fail_on="MUST"))

    places = {(violation.observation.event, violation.file.rpartition("/")[2]) for violation in _violations(found)}
    assert places == {("StartContainer", "events"), ("stop-succeeds", "calls"), ("removal-succeeds", "calls")}
    for violation in _violations(found, most=1):
        assert f"file={violation.file},line={violation.line}," in written


@pytest.mark.parametrize("run", RUNS)
def test_parts_accuse_nobody_whom_the_whole_does_not(run: str, tmp_path: Path) -> None:
    """Wherever the one recording or the other begins or ends: a plugin may leave at any time, and so may clients."""
    events = content(f"{run}.nri.jsonl.gz").splitlines(keepends=True)
    calls = content(f"{run}.calls.jsonl.gz").splitlines(keepends=True)
    whole = _accused(together(b"".join(events), b"".join(calls), tmp_path))
    chosen = random.Random(run)
    for _ in range(8 * TIMES):
        cut = chosen.randrange(1, len(events))
        other = chosen.randrange(1, len(calls))
        for some, called in (
            (events[:cut], calls),
            (events[cut:], calls),
            (events, calls[:other]),
            (events, calls[other:]),
        ):
            part = _accused(together(b"".join(some), b"".join(called), tmp_path))
            assert part <= whole, (cut, other)


def _accused(found: Judged) -> set[tuple[str, str]]:
    """Who is accused of what."""
    return {(violation.observation.entity, violation.clause.name) for violation in _violations(found)}


def _violations(found: Judged, most: int | None = None) -> Iterator[Violation]:
    """All violations, or the *most* first of each finding."""
    for judgement in found.judgements:
        for finding in getattr(judgement.verdict, "findings", ()):
            yield from finding.first[:most]


CONNECTS = '{"ts": 10, "event": "Configure"}\n{"ts": 11, "event": "Synchronize", "pods": %s, "containers": []}\n'
STOPPED = '{"op": "StopPodSandbox", "id": "%s", "start": %d, "end": %d, "code": "OK"}\n'
POD, OTHER = "a" * 64, "b" * 64


@pytest.mark.parametrize(
    ("pods", "asked", "accused"),
    [
        ([POD], 12, 1),  # it was listed, and may have been stopped before; but not removed
        ([{"id": POD}], 12, 1),
        ([POD], 5, 0),  # the plugin came when the call was on its way
        ([], 12, 0),  # it was never told of that pod
    ],
)
def test_a_pod_that_was_listed_counts(pods: list[object], asked: int, accused: int, tmp_path: Path) -> None:
    """From then on, for a plugin that was there for all of the call."""
    removed = STOPPED.replace("Stop", "Remove") % (POD, asked, 20)

    found = together((CONNECTS % json.dumps(pods)).encode(), removed.encode(), tmp_path)

    assert len(violations(found)) == accused


def test_an_id_may_be_shortened(tmp_path: Path) -> None:
    """A pod that only the plugin knows is meant by the beginning of its id, and then nothing is certain."""
    events = (CONNECTS % json.dumps([POD, OTHER])).encode()
    removed = STOPPED.replace("Stop", "Remove")

    for identity, accused in ((POD, 1), (POD[:12], 0)):
        assert len(violations(together(events, (removed % (identity, 12, 20)).encode(), tmp_path))) == accused


@pytest.mark.parametrize(
    ("events", "calls", "file", "says"),
    [
        ("calls.jsonl", "calls.jsonl", "calls.jsonl", "holds CRI calls"),
        ("events.jsonl", "events.jsonl", "events.jsonl", "holds NRI events"),
        ("events.jsonl", "-", "-", "cannot be read twice"),
        ("none.jsonl", "calls.jsonl", "none.jsonl", "cannot be opened"),
    ],
)
def test_other_files_are_refused(events: str, calls: str, file: str, says: str, tmp_path: Path) -> None:
    """With the file that is wrong, and what it should be."""
    (tmp_path / "events.jsonl").write_text(CONNECTS % "[]", encoding="utf-8")
    (tmp_path / "calls.jsonl").write_text(STOPPED % (POD, 1, 2), encoding="utf-8")
    place = {each: str(tmp_path / each) if each != "-" else each for each in (events, calls, file)}

    with pytest.raises(InputError) as caught:
        judge(place[events], calls=place[calls])

    [problem] = caught.value.problems
    assert (problem.path, problem.code) == (place[file], "FSM201" if "opened" in says else "FSM206")
    assert says in problem.what
    assert problem.hint
