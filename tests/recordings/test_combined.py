"""Plugin events are judged together with the calls of the same run, in real, cut and edited recordings."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from judged import Found, content, every_violation, profile, violations
from thorough import TIMES

from fsm.errors import InputError
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.report import Report
from fsm.report.cases import cases as as_cases
from fsm.report.cases import github
from fsm.report.text import text
from fsm.verdict import Holds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fsm.machine.findings import Violation
    from fsm.monitor.judgement import Judged

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
        "created-in-running-pods": 2,
    },
    "1.7.24-nri": {
        "no-start-after-stop": 1,
        "pod stop-is-relayed": 1,
        "pod removal-is-relayed": 6,
        "removal-is-relayed": 13,
    },
}
"""The number of violations of each clause in each run.

Clauses about pods are marked with ``pod``.
"""


def together(events: bytes, calls: bytes, folder: Path, **how: object) -> Judged:
    (folder / "events").write_bytes(events)
    (folder / "calls").write_bytes(calls)
    return judge(str(folder / "events"), calls=str(folder / "calls"), **how)  # type: ignore[arg-type]


def clauses(found: list[Found]) -> Counter[str]:
    """Count the violations of each clause.

    Clauses about pods are marked with ``pod``.
    """
    return Counter(f"{'pod ' if each.machine == 'plugin-pod' else ''}{each.clause}" for each in found)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("calls", ["calls.jsonl.gz", "log.gz"])
def test_what_containerd_forgets_is_found(run: str, calls: str, tmp_path: Path) -> None:
    """The calls in a client's recording or in a log reveal what containerd forgets, which its profile tolerates."""
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
        **({"create-container": created} if (created := RUNS[run].get("created-in-running-pods")) else {}),
        "stop-forgotten": RUNS[run]["pod stop-is-relayed"],
        "removal-forgotten": RUNS[run]["pod removal-is-relayed"] + RUNS[run]["removal-is-relayed"],
    }


def test_without_a_restart_nothing_is_forgotten(tmp_path: Path) -> None:
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
    """A missing removal event is a violation, which a profile tolerates only after a restart."""
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
    """An event is late if it comes a microsecond after the reply, but not a microsecond before it."""
    event = json.loads(EVENTS[number])
    end = SUCCEEDED[TOLD[event["event"]], event.get("container") or event["pod"]]
    event["ts"] = max(event["ts"], end + (1_000 if late else -1_000))
    events = [json.loads(line) for line in EVENTS]
    events[number] = event
    written = "".join(json.dumps(each) + "\n" for each in sorted(events, key=lambda each: int(each["ts"])))

    found = clauses(violations(together(written.encode(), CALLS, tmp_path)))

    assert late == ("success-is-relayed" in found or "pod success-is-relayed" in found)


def test_whether_a_plugin_was_there_at_the_end_is_not_known(tmp_path: Path) -> None:
    """A missing event at the end is not a violation, because the plugin may have left."""
    found = together(b"".join(EVENTS[: REMOVALS[-1]]), CALLS, tmp_path)

    assert clauses(violations(found)) == {"no-start-after-stop": 1}
    assert found.notes["calls after the last event of the plugin"]


def test_each_finding_is_where_it_stands(tmp_path: Path) -> None:
    events, calls = content("2.1.9-forgotten.nri.jsonl.gz"), content("2.1.9-forgotten.log.gz")
    found = together(events, calls, tmp_path)
    written = github(as_cases(Report(judged=(found,), fail_on="MUST")))

    places = {(violation.observation.event, violation.file.rpartition("/")[2]) for violation in _violations(found)}
    assert places == {("StartContainer", "events"), ("stop-succeeds", "calls"), ("removal-succeeds", "calls")}
    for violation in _violations(found, most=1):
        assert f"file={violation.file},line={violation.line}," in written


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_parts_accuse_nobody_whom_the_whole_does_not(run: str, tmp_path: Path) -> None:
    """A part of a recording has only violations that the whole recording also has."""
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
    return {(violation.observation.entity, violation.clause.name) for violation in _violations(found)}


def _violations(found: Judged, most: int | None = None) -> Iterator[Violation]:
    for judgement in found.judgements:
        for finding in getattr(judgement.verdict, "findings", ()):
            yield from finding.first[:most]


CONNECTS = '{"ts": 10, "event": "Configure"}\n{"ts": 11, "event": "Synchronize", "pods": %s, "containers": []}\n'
STOPPED = '{"op": "StopPodSandbox", "id": "%s", "start": %d, "end": %d, "code": "OK"}\n'
POD, OTHER = "a" * 64, "b" * 64


@pytest.mark.parametrize(
    ("pods", "asked", "accused"),
    [
        ([POD], 12, 1),  # the pod was listed, so it may have been stopped before, but not removed
        ([{"id": POD}], 12, 1),
        ([POD], 5, 0),  # the plugin connected while the call was in progress
        ([], 12, 0),  # the plugin was never notified of that pod
    ],
)
def test_a_pod_that_was_listed_counts(pods: list[object], asked: int, accused: int, tmp_path: Path) -> None:
    """A plugin must be notified when a listed pod is removed, if the plugin was connected the whole time."""
    removed = STOPPED.replace("Stop", "Remove") % (POD, asked, 20)

    found = together((CONNECTS % json.dumps(pods)).encode(), removed.encode(), tmp_path)

    assert len(violations(found)) == accused


def test_an_id_may_be_shortened(tmp_path: Path) -> None:
    """An abbreviated id causes no violation, as it may belong to another pod that only the plugin knows."""
    events = (CONNECTS % json.dumps([POD, OTHER])).encode()
    removed = STOPPED.replace("Stop", "Remove")

    for identity, accused in ((POD, 1), (POD[:12], 0)):
        assert len(violations(together(events, (removed % (identity, 12, 20)).encode(), tmp_path))) == accused


@pytest.mark.parametrize(
    ("events", "calls", "file", "says"),
    [
        ("calls.jsonl", "calls.jsonl", "calls.jsonl", "the form of the file is CRI calls"),
        ("events.jsonl", "events.jsonl", "events.jsonl", "the form of the file is NRI events"),
        ("events.jsonl", "-", "-", "cannot be read twice"),
        ("none.jsonl", "calls.jsonl", "none.jsonl", "cannot be opened"),
    ],
)
def test_other_files_are_refused(events: str, calls: str, file: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(CONNECTS % "[]", encoding="utf-8")
    (tmp_path / "calls.jsonl").write_text(STOPPED % (POD, 1, 2), encoding="utf-8")
    place = {each: str(tmp_path / each) if each != "-" else each for each in (events, calls, file)}

    with pytest.raises(InputError) as caught:
        judge(place[events], calls=place[calls])

    [problem] = caught.value.problems
    assert (problem.path, problem.code) == (place[file], "FSM201" if "opened" in says else "FSM206")
    assert says in problem.what
    assert problem.hint


def _at(number: int, **changed: object) -> bytes:
    return json.dumps({**json.loads(EVENTS[number]), **changed}).encode() + b"\n"


def _moved(number: int, by: int) -> bytes:
    late = _at(number, ts=json.loads(EVENTS[number])["ts"] + by)
    lines = [*EVENTS[:number], *EVENTS[number + 1 :], late]
    return b"".join(sorted(lines, key=lambda line: int(json.loads(bytes(line))["ts"])))


RELAYED = [
    number for number, line in enumerate(EVENTS) if json.loads(line)["event"] not in {"Configure", "Synchronize"}
]
FIRST = {json.loads(EVENTS[number])["event"]: number for number in reversed(RELAYED)}


@pytest.mark.parametrize("number", RELAYED[:-1])
def test_what_is_not_relayed_or_too_late_is_found(number: int, tmp_path: Path) -> None:
    """Every missing or late event is a violation, except for a missing stop of a container that is removed.

    The profile tolerates this, because another plugin may have refused the stop.
    """
    for events in (b"".join(EVENTS[:number] + EVENTS[number + 1 :]), _moved(number, 400_000_000)):
        found = together(events, CALLS, tmp_path, profile="containerd-2.1")
        known = {each.first.deviation.name for judgement in found.judgements for each in judgement.tolerated}
        assert violations(found) or "stop-unannounced" in known


@pytest.mark.parametrize(
    ("event", "clause"),
    [
        ("POST_CREATE_CONTAINER", "success-is-relayed"),
        ("POST_START_CONTAINER", "success-is-relayed"),
        ("RUN_POD_SANDBOX", "pod success-is-relayed"),
        ("CreateContainer", "success-is-relayed"),
    ],
)
def test_a_success_needs_its_outcome(event: str, clause: str, tmp_path: Path) -> None:
    number = FIRST[event]
    events = b"".join(EVENTS[:number] + EVENTS[number + 1 :])

    assert clause in clauses(violations(together(events, CALLS, tmp_path, profile="containerd-2.1")))


def test_an_update_needs_an_outcome_of_its_own(tmp_path: Path) -> None:
    """The events of an earlier update do not count for a later update."""
    event = '{"ts": %d, "event": "%s", "pod": "%s", "container": "%s"}\n'
    update = '{"op": "UpdateContainerResources", "id": "%s", "start": %d, "end": %d, "code": "OK"}\n'
    listed = (
        '{"ts": 11, "event": "Synchronize", "pods": ["%s"], "containers": [{"id": "%s", "state": "CONTAINER_RUNNING"}]}'
    )
    events = [
        *['{"ts": 10, "event": "Configure"}\n', listed % (POD, OTHER) + "\n"],
        *[event % (at, name, POD, OTHER) for at, name in ((13, "UpdateContainer"), (14, "PostUpdateContainer"))],
        *[event % (at, name, POD, OTHER) for at, name in ((23, "UpdateContainer"), (24, "PostUpdateContainer"))],
        event % (33, "UpdateContainer", POD, OTHER),
    ]
    calls = "".join(update % (OTHER, at + 2, at + 9) for at in (10, 20))

    assert clauses(violations(together("".join(events[:-1]).encode(), calls.encode(), tmp_path))) == {}
    without = "".join(events[:5] + events[6:])
    found = clauses(violations(together(without.encode(), (calls + update % (OTHER, 32, 39)).encode(), tmp_path)))
    assert found == {"success-is-relayed": 1}


@pytest.mark.parametrize("event", ["UpdateContainer", "PostUpdateContainer", "StopContainer"])
def test_what_is_relayed_without_a_call_is_found(event: str, tmp_path: Path) -> None:
    """After the creation of a container, an event is a violation unless a matching call is in progress."""
    number = FIRST["POST_CREATE_CONTAINER"]
    calls = [json.loads(line) for line in CALLS.splitlines()]
    created = next(each for each in calls if each["op"] == "CreateContainer" and each["code"] == "OK")
    alone = _at(number, event=event, ts=created["end"] + 10)
    call = {
        "op": event.removeprefix("Post").replace("UpdateContainer", "UpdateContainerResources"),
        "id": created["id"],
        "start": created["end"] + 1,
        "end": created["end"] + 20,
        "code": "UNKNOWN",
    }
    events = b"".join([*EVENTS[: number + 1], alone, *EVENTS[number + 1 :]])
    called = sorted(
        [*CALLS.splitlines(), json.dumps(call).encode()], key=lambda line: int(json.loads(line).get("end", 0))
    )

    assert clauses(violations(together(events, CALLS, tmp_path)))["calls-come-first"] == 1
    assert clauses(violations(together(events, b"\n".join(called), tmp_path)))["calls-come-first"] == 0


def test_an_end_needs_no_call(tmp_path: Path) -> None:
    found = together(content("1.7.24-nri.nri.jsonl.gz"), content("1.7.24-nri.calls.jsonl.gz"), tmp_path)

    assert "calls-come-first" not in clauses(violations(found))


RAN = STOPPED.replace("Stop", "Run") % (POD, 1, 5)


@pytest.mark.parametrize(("before", "accused"), [(RAN, 1), ("", 0), (RAN + STOPPED % (POD, 6, 8), 0)])
def test_a_listed_pod_that_runs_is_stopped_with_a_word(before: str, accused: int, tmp_path: Path) -> None:
    """The stop of a listed pod must be relayed if the calls show that the pod was running."""
    events = (CONNECTS % json.dumps([POD])) + '{"ts": 30, "event": "StateChange"}\n'
    found = violations(together(events.encode(), (before + STOPPED % (POD, 12, 20)).encode(), tmp_path))

    assert clauses(found) == ({"pod stop-is-relayed": 1} if accused else {})


LIFE = [
    ("RunPodSandbox", ""),
    ("CreateContainer", OTHER),
    ("PostCreateContainer", OTHER),
    ("StopPodSandbox", ""),
    ("StopContainer", OTHER),
    ("RemoveContainer", OTHER),
    ("RemovePodSandbox", ""),
]


@pytest.mark.parametrize(
    ("order", "finds", "known"),
    [
        ((0, 1, 2, 3, 4, 5, 6), set(), set()),
        ((0, 3, 1, 2, 4, 5, 6), {"created-in-running-pods"}, {"create-container"}),
        ((0, 1, 2, 3, 4, 6, 5), {"pod containers-first", "pods-first"}, {"remove-pod-sandbox", "remove-container"}),
    ],
)
@pytest.mark.parametrize("profiled", [None, "containerd-1.7", "containerd-2.1"])
def test_pods_and_containers_are_judged_together(
    order: tuple[int, ...], finds: set[str], known: set[str], profiled: str | None, tmp_path: Path
) -> None:
    """Pods and containers are judged together, even if a recording has only events.

    The conditions of the system count as clauses, and the profile of a containerd version includes its deviations.
    """
    file = tmp_path / "events"
    line = '{"ts": %d, "event": "%s", "pod": "%s", "container": "%s"}\n'
    lines = [line % (at, LIFE[each][0], POD, LIFE[each][1]) for at, each in enumerate(order, 20)]
    file.write_text(CONNECTS % "[]" + "".join(lines), encoding="utf-8")

    found = judge(str(file), profile=profiled)

    tolerated = {each.first.deviation.name for judgement in found.judgements for each in judgement.tolerated}
    assert (set(clauses(violations(found))), tolerated) == ((finds, set()) if profiled is None else (set(), known))


@pytest.mark.parametrize("profiled", [None, "containerd-1.7", "containerd-2.1"])
@pytest.mark.parametrize(
    ("late", "clause", "known"),
    [
        (("UpdateContainer", OTHER), "removed-last", "updated-after-removal"),
        (("PostCreateContainer", OTHER), "relayed-after-the-fact", "created-too-late"),
        (("PostStartContainer", OTHER), "relayed-after-the-fact", "started-too-late"),
    ],
)
def test_what_is_relayed_after_the_removal_is_known(
    late: tuple[str, str], clause: str, known: str, profiled: str | None, tmp_path: Path
) -> None:
    """An event that is relayed after a removal is a known deviation.

    It does not break the clause that a creation comes first.
    """
    file = tmp_path / "events"
    line = '{"ts": %d, "event": "%s", "pod": "%s", "container": "%s"}\n'
    names = [LIFE[0], LIFE[1], LIFE[2], LIFE[4], LIFE[5], late]
    lines = [line % (at, name, POD, container) for at, (name, container) in enumerate(names, 20)]
    file.write_text(CONNECTS % "[]" + "".join(lines), encoding="utf-8")

    found = judge(str(file), profile=profiled)

    tolerated = {each.first.deviation.name for judgement in found.judgements for each in judgement.tolerated}
    assert clauses(violations(found)) == ({clause: 1} if profiled is None else {})
    assert tolerated == (set() if profiled is None else {known})


MINUTE = 60 * 1_000_000_000
LATER = STOPPED.replace("Stop", "Run") % (POD, 2 * MINUTE, 2 * MINUTE)


@pytest.mark.parametrize(
    ("pods", "calls", "says"),
    [
        ([POD], RAN, []),
        ([OTHER], RAN, ["has no pod in common"]),
        ([OTHER], STOPPED % (POD, 1, 5), []),  # a pod that was stopped need not be listed
        ([], RAN, []),
        ([POD], LATER, ["ends before"]),
        (
            [OTHER],
            LATER,
            ["no pod in common", "ends before"],
        ),
        ([], STOPPED % (POD, MINUTE, MINUTE), []),
    ],
)
def test_files_of_two_runs_are_refused(pods: list[str], calls: str, says: list[str], tmp_path: Path) -> None:
    """Two files are refused if their ids or times show that they belong to different runs."""
    try:
        together((CONNECTS % json.dumps(pods)).encode(), calls.encode(), tmp_path)
    except InputError as error:
        problems = error.problems
    else:
        problems = ()

    assert [each.code for each in problems] == ["FSM206"] * len(says)
    assert all(said in each.what for said, each in zip(says, problems, strict=True))


def test_recordings_of_two_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="in common"):
        together(content("2.1.9-nri.nri.jsonl.gz"), content("1.7.24-random.calls.jsonl.gz"), tmp_path)


EVENT = '{"ts": %d, "event": "%s", "pod": "%s", "container": "%s"}\n'
CALL = '{"op": "%s", "id": "%s", "start": %d, "end": %d, "code": "OK"}\n'


def test_the_entity_may_be_gone_before_the_reply_is_read(tmp_path: Path) -> None:
    listed = (
        '{"ts": 11, "event": "Synchronize", "pods": ["%s"], "containers": [{"id": "%s", "state": "CONTAINER_RUNNING"}]}'
    )
    names = ["UpdateContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer", "StateChange"]
    events = [listed % (POD, OTHER) + "\n", *[EVENT % (at, name, POD, OTHER) for at, name in enumerate(names, 20)]]
    calls = CALL % ("RemoveContainer", OTHER, 15, 26) + CALL % ("UpdateContainerResources", OTHER, 12, 27)

    assert clauses(violations(together("".join(events).encode(), calls.encode(), tmp_path))) == {}


def test_of_two_removals_one_relays(tmp_path: Path) -> None:
    """If two removals of a pod overlap, only one of them has to be relayed.

    The pod disappears before the relay, so the other removal may return earlier.
    """
    names = ["StopPodSandbox", "RemovePodSandbox", "StateChange"]
    events = [
        CONNECTS % json.dumps([POD]),
        *[EVENT % (at, name, POD, "") for at, name in zip((20, 40, 60), names, strict=True)],
    ]
    calls = CALL % ("RemovePodSandbox", POD, 15, 30) + CALL % ("RemovePodSandbox", POD, 16, 50)

    assert clauses(violations(together("".join(events).encode(), calls.encode(), tmp_path))) == {}
    del events[2]
    found = clauses(violations(together("".join(events).encode(), calls.encode(), tmp_path)))
    assert found == {"pod removal-is-relayed": 1}


@pytest.mark.parametrize("meanwhile", [True, False])
def test_calls_that_a_restart_ends_cause_events(tmp_path: Path, *, meanwhile: bool) -> None:
    """An event may have been caused by a call that an assumed restart cut off.

    The restart is assumed at the latest possible time, which may be long after the caller received the error.
    """
    listed = (
        '{"ts": 1, "event": "Synchronize", "pods": ["%s"], "containers": [{"id": "%s", "state": "CONTAINER_RUNNING"}]}'
    )
    events = [
        listed % (POD, OTHER) + "\n",
        EVENT % (20_000_000, "UpdateContainer", POD, OTHER),
        '{"ts": 950000000, "event": "Configure"}\n',
    ]
    lost = '{"op": "%s", "id": "%s", "start": %d, "end": %d, "code": "UNAVAILABLE", "detail": "Stream removed"}\n'
    update = lost % ("UpdateContainerResources", OTHER, 15_000_000, 21_000_000)
    refused = CALL.replace("OK", "UNKNOWN")
    calls = [
        refused % ("UpdateContainerResources", OTHER, 900_000, 900_001),
        *([update] if meanwhile else []),
        lost % ("ContainerStatus", OTHER, 900_000_000, 900_000_100),
        refused % ("UpdateContainerResources", OTHER, 960_000_000, 960_000_100),
    ]

    found = clauses(violations(together("".join(events).encode(), "".join(calls).encode(), tmp_path)))
    assert ("calls-come-first" in found) is not meanwhile


@pytest.mark.parametrize(("stopped", "accused"), [(True, 0), (False, 1)])
def test_a_stop_may_have_acted_before_a_start_that_overlaps_it(tmp_path: Path, *, stopped: bool, accused: int) -> None:
    """A stop that overlaps a start must be relayed unless an earlier stop was relayed."""
    events = [
        CONNECTS % json.dumps([POD]),
        *[EVENT % (at, name, POD, OTHER) for at, name in ((12, "CreateContainer"), (13, "PostCreateContainer"))],
        *([EVENT % (17, "StopContainer", POD, OTHER)] if stopped else []),
        *[EVENT % (at, name, POD, OTHER) for at, name in ((27, "StartContainer"), (29, "PostStartContainer"))],
        EVENT % (40, "StateChange", POD, OTHER),
    ]
    stops = [(16, 18)] if stopped else []
    calls = [CALL % ("StopContainer", OTHER, start, end) for start, end in [*stops, (25, 28)]]
    creation = f'{{"op": "CreateContainer", "id": "{OTHER}", "pod": "{POD}", "start": 11, "end": 14, "code": "OK"}}\n'
    calls = [creation, *calls, CALL % ("StartContainer", OTHER, 24, 30)]

    known = "containerd-2.1"  # under this profile, a container may be started after its stop
    found = clauses(violations(together("".join(events).encode(), "".join(calls).encode(), tmp_path, profile=known)))
    assert found["stop-is-relayed"] == accused


def test_what_calls_have_done_is_worded_as_calls(tmp_path: Path) -> None:
    """Reports use the names of calls, such as RemovePodSandbox, and not those of the model's signals."""
    found = together(content("2.1.9-nri.nri.jsonl.gz"), content("2.1.9-nri.calls.jsonl.gz"), tmp_path)
    report = text(Report(judged=(found,)))

    assert {"RemovePodSandbox succeeded", "StopPodSandbox succeeded", "RemoveContainer succeeded"} <= set(
        re.findall("violation: ([A-Za-z ]+) —", report)
    )
    assert "removal-succeeds happened" not in report
    assert "legal if   RemovePodSandbox comes before it" in report
    findings = [each for of in found.judgements if isinstance(of.verdict, Illegal) for each in of.verdict.findings]
    listed = {name for each in findings for permitted in each.first[0].permitted for name in permitted.what}
    assert {"StopPodSandbox", "PostCreateContainer"} <= listed
    assert all(name[0].isupper() for name in listed)

    late = b"".join(line for line in EVENTS if b"POST_START_CONTAINER" not in line)
    report = text(Report(judged=(together(late, CALLS, tmp_path),)))
    assert "violation: StartContainer succeeded before PostStartContainer was relayed" in report


@pytest.mark.parametrize(("pods", "accused"), [([POD], 0), ([], 1)])
def test_a_removal_may_fail_after_it_was_relayed(pods: list[str], accused: int, tmp_path: Path) -> None:
    """A removal fails after its relay if the daemon is killed before it removes the container.

    The restarted daemon may then list the container to plugins, but only if the pod still exists.
    """
    names = ["CreateContainer", "PostCreateContainer", "StopContainer", "RemoveContainer", "StopPodSandbox"]
    names += [] if pods else ["RemovePodSandbox"]
    listed = (
        '{"ts": 31, "event": "Synchronize", "pods": %s, "containers": [{"id": "%s", "state": "CONTAINER_CREATED"}]}\n'
    )
    events = [
        CONNECTS % json.dumps([POD]),
        *[EVENT % (at, name, POD, OTHER if "Container" in name else "") for at, name in enumerate(names, 20)],
        '{"ts": 30, "event": "Configure"}\n',
        listed % (json.dumps(pods), OTHER),
    ]
    creation = f'{{"op": "CreateContainer", "id": "{OTHER}", "pod": "{POD}", "start": 19, "end": 22, "code": "OK"}}\n'
    calls = [
        creation,
        CALL % ("StopContainer", OTHER, 22, 23),
        CALL.replace("OK", "UNAVAILABLE") % ("RemovePodSandbox", POD, 23, 27),
        CALL.replace("OK", "UNKNOWN") % ("UpdateContainerResources", OTHER, 35, 36),
    ]

    found = clauses(violations(together("".join(events).encode(), "".join(calls).encode(), tmp_path)))
    assert found["given-what-is-there"] == accused, found
