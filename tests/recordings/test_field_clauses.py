"""Clauses about the fields of statuses are judged in recorded calls and in traces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from judged import content, judged, violations
from msgspec import structs

from fsm.language.library import load
from fsm.machine.findings import Cause
from fsm.monitor import Monitor
from fsm.report import Report
from fsm.report.cases import cases as as_cases
from fsm.report.cases import github, junit, sarif
from fsm.report.json_report import json as json_report
from fsm.report.text import text
from fsm.trace import Observation

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.machine.findings import Violation
    from fsm.trace import Phase

ZERO = -6795364578871345152
"""Go's zero time, in nanoseconds since 1970."""


def status(**fields: object) -> bytes:
    shown = {"created_at": 5, "started_at": 7, "finished_at": 9, "exit_code": 0, "reason": "Completed"} | fields
    return json.dumps({"op": "status", "id": "c" * 64, "start": 11, "state": "CONTAINER_EXITED"} | shown).encode()


def test_says_which_field_what_it_was_and_what_it_was_to_be(tmp_path: Path) -> None:
    report = Report(judged=(judged(status(finished_at=0), tmp_path),))

    assert "violation: CONTAINER_EXITED was shown with finished 0" in text(report)
    assert "expected   finished set" in text(report)
    assert "clause     exited-has-an-end (MUST): A container that has exited has an end time" in text(report)
    assert "tested 3 of 9 clauses on fields: creation-is-dated, exited-has-an-end, completed-is-zero" in text(report)
    assert "running-has-a-start 0" in text(report, coverage=True)
    machine = json.loads(json_report(report))["recordings"][0]["machines"][0]
    (first,) = machine["findings"][0]["first"]
    assert ("fields", "finished", "finished 0") == (first["cause"], first["illegal"], first["found"])
    assert (1, 0) == (machine["fields"]["exited-has-an-end"], machine["fields"]["running-has-a-start"])
    assert "CONTAINER_EXITED was shown with finished 0 (once)\\nexpected: finished set" in sarif(as_cases(report))
    assert "CONTAINER_EXITED was shown with finished 0 (once)%0Aexpected: finished set" in github(as_cases(report))
    cases = {each.split('"')[1]: each for each in junit(as_cases(report)).split("<testcase ")[1:]}
    assert "<failure" in cases["exited-has-an-end (MUST)"]
    assert "<skipped" in cases["running-has-a-start (MUST)"]
    assert "<skipped" not in cases["completed-is-zero (observed)"]


def test_what_a_profile_is_known_for_is_tolerated_and_reported(tmp_path: Path) -> None:
    zero = status(finished_at=ZERO)
    (judgement, _) = judged(zero, tmp_path, profile="containerd-1.7.24").judgements
    assert ["zero-exit-time"] == [each.first.deviation.name for each in judgement.tolerated]

    report = Report(judged=(judged(zero, tmp_path),))
    assert "known      zero-exit-time of containerd-1.6" in text(report)
    assert "It looks like a known deviation of containerd-1.6" in text(report)
    assert [] == violations(judged(zero, tmp_path, profile="containerd-main"))
    assert ["exited-has-an-end"] == [each.clause for each in violations(judged(status(finished_at=-1), tmp_path))]


@pytest.mark.parametrize(
    ("fields", "clauses"),
    [
        ('{"finished": "1970-01-01T00:00:02Z", "started": "1970-01-01T00:00:01Z", "created": 5}', []),
        ('{"finished": "0001-01-01T00:00:00Z", "started": "1970-01-01T00:00:01Z"}', ["exited-has-an-end"]),
        ('{"started": 7, "created": 9}', ["exited-has-an-end"]),
        ('{"pid": 7}', []),
        ("{}", []),
    ],
)
def test_a_trace_may_have_fields(fields: str, clauses: list[str], tmp_path: Path) -> None:
    """Fields in a trace have the names in the model, with times as nanoseconds or in RFC 3339.

    Unknown fields are ignored.
    """
    line = f'{{"entity": "c1", "event": "status", "reply": "ok", "shows": "CONTAINER_EXITED", "fields": {fields}}}'

    found = judged(line.encode(), tmp_path, models=["cri-container"])

    assert clauses == [each.clause for each in violations(found)]


def test_a_status_that_shows_a_wrong_state_is_one_finding() -> None:
    """If a status shows a wrong state, its fields are not a second finding."""
    monitor = Monitor(load("cri-container"), fresh=True)
    fields: dict[str, int | str] = {"created": 5, "started": 7, "finished": 0}
    for event in ("create", "start"):
        assert () == monitor.observe(Observation(entity="c1", event=event, reply="ok"))

    assert () == monitor.observe(Observation(entity="c1", shows="CONTAINER_RUNNING", fields=fields))
    (state,) = monitor.observe(Observation(entity="c1", shows="CONTAINER_CREATED", fields=fields))
    assert Cause.STATE is state.cause
    monitor.observe(Observation(entity="c1", event="start", reply="ok"))
    (broken,) = monitor.observe(Observation(entity="c1", shows="CONTAINER_RUNNING", fields=fields | {"finished": 8}))
    assert (Cause.FIELDS, "finished 8") == (broken.cause, broken.found)


RUNS = {"created": 5, "started": 7}
ENDED = RUNS | {"finished": 9, "exit-code": 3}


@pytest.mark.parametrize(
    ("lines", "clauses"),
    [
        ([("CONTAINER_RUNNING", RUNS), ("CONTAINER_RUNNING", RUNS)], []),
        ([("CONTAINER_RUNNING", RUNS), ("CONTAINER_RUNNING", RUNS | {"started": 8})], ["happens-once"]),
        ([("CONTAINER_RUNNING", RUNS | {"exit-code": 0}), ("CONTAINER_EXITED", ENDED)], []),
        ([("CONTAINER_EXITED", ENDED), ("CONTAINER_EXITED", ENDED | {"exit-code": 0})], ["exit-code-stays"]),
        ([("CONTAINER_EXITED", ENDED), ("CONTAINER_EXITED", {"finished": 10})], ["happens-once"]),
        ([("CONTAINER_EXITED", ENDED), ("CONTAINER_UNKNOWN", {"created": 6})], ["happens-once"]),
        ([("CONTAINER_EXITED", ENDED), ("restart", {}), ("CONTAINER_EXITED", ENDED | {"exit-code": 255})], []),
        ([("CONTAINER_EXITED", ENDED), ("remove", {}), ("create", {}), ("CONTAINER_CREATED", {"created": 50})], []),
    ],
)
def test_what_was_shown_stays(lines: list[tuple[str, dict[str, int | str]]], clauses: list[str]) -> None:
    """The value of a field must not change until the entity is gone or the runtime restarts."""
    monitor = Monitor(load("cri-container"))
    found: list[Violation] = []
    for what, fields in lines:
        event = "" if what.startswith("CONTAINER") else what
        phase: Phase = "noticed" if event == "restart" else ""
        shows = "" if event else what
        entity = "" if event == "restart" else "c1"
        reply = "ok" if event in {"remove", "create"} else ""
        seen = Observation(entity=entity, event=event, phase=phase, reply=reply, shows=shows, fields=fields or None)
        found += monitor.observe(seen)
        monitor.observe(structs.replace(seen, entity="c2" if entity else "", fields=None))

    assert clauses == [each.clause.name for each in found if each.cause is Cause.FIELDS]


@pytest.mark.parametrize("version", ["1.6.20", "1.7.24", "2.1.9"])
def test_containerd_keeps_every_clause_but_for_the_times_that_nothing_has_put_to_the_test(
    version: str, tmp_path: Path
) -> None:
    """The recordings of each version exercise every clause about fields, and break none."""
    found = judged(content(f"{version}-random.calls.jsonl.gz"), tmp_path, profile=f"containerd-{version}")

    (container, _) = found.judgements
    assert [] == [each for each in violations(found) if each.cause == "fields"]
    assert all(container.covered.fields.values())
