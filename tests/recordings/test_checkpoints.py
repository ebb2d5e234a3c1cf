"""Checkpoints are judged, whether they are given as files or in a folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from commands import fsm
from judged import RECORDINGS, violations

from fsm.errors import InputError
from fsm.monitor.judgement import judge
from fsm.runtimes.recordings.runtime_forms import CHECKPOINTS, files, observations
from fsm.verdict import Holds

if TYPE_CHECKING:
    from pathlib import Path

HERE = RECORDINGS / "checkpoints"
RAN = {"Version": "v1", "CreatedAt": 5, "StartedAt": 7, "FinishedAt": 9, "ExitCode": 0, "Reason": "", "Message": ""}


def record(folder: Path, name: str, **changed: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(RAN | changed), encoding="utf-8")
    return path


@pytest.mark.parametrize("version", ["1.6.20", "2.1.9"])
@pytest.mark.parametrize("model", ["container-status", "cri-container"])
def test_those_of_containerd_hold_and_exercise_every_clause(version: str, model: str) -> None:
    found = judge(HERE / version, models=[model], profile=f"containerd-{version}")

    (judgement,) = found.judgements
    assert (CHECKPOINTS, 6, 6) == (found.form, judgement.entities, found.notes["lines"])
    # Each container has only one file, so the clauses about fields that keep their values are not exercised.
    untested = {name for name, count in judgement.covered.fields.items() if not count}
    assert {name for name, each in judgement.machine.requires.items() if each.keeps} == untested
    # If containerd would show the reason *Completed*, the file contains no reason.
    assert {"completed-is-zero"} >= {each.clause for each in violations(found)}
    assert model != "container-status" or judgement.verdict == Holds()


@pytest.mark.parametrize(
    ("changed", "clauses"),
    [
        ({}, []),
        ({"FinishedAt": 4}, ["exited-has-an-end"]),
        ({"FinishedAt": -6795364578871345152}, []),
        ({"StartedAt": 2_000_000_000}, ["ends-after-the-start"]),
        ({"Reason": "StartError", "ExitCode": 1}, ["start-error-is-128"]),
        ({"Reason": "StartError", "ExitCode": 128, "StartedAt": 2_000_000_000}, []),
        ({"FinishedAt": 0, "StartedAt": 4}, ["running-has-a-start"]),
        ({"CreatedAt": 0, "StartedAt": 0, "FinishedAt": 0}, []),
    ],
)
def test_a_record_that_containerd_does_not_write_is_found(
    changed: dict[str, object], clauses: list[str], tmp_path: Path
) -> None:
    path = record(tmp_path, "containers/c1/status", **changed)
    record(tmp_path, "containers/c2/status")

    found = judge(tmp_path)
    assert clauses == [each.clause for each in violations(found)]
    for judgement in found.judgements:
        for finding in getattr(judgement.verdict, "findings", ()):
            assert (str(path), "c1") == (finding.first[0].file, finding.first[0].observation.entity)
    assert clauses == [each.clause for each in violations(judge(path))]


@pytest.mark.parametrize(
    "name",
    [
        "status",
        "c1.status.json",
        "c1/status",
        "containers/c1/status",
        "io.containerd.grpc.v1.cri/containers/c1/status",
    ],
)
def test_they_are_found_where_containerd_has_them(name: str, tmp_path: Path) -> None:
    """Checkpoints are searched for only where containerd keeps them, as other folders may be large."""
    path = record(tmp_path, name)
    record(tmp_path, "other/place/c2/status")

    assert [path] == files(str(tmp_path))


def unicode(text: str) -> bool:
    whole = json.dumps(json.loads(text, object_pairs_hook=list), ensure_ascii=False)
    return whole == whole.encode(errors="replace").decode()


@pytest.mark.parametrize("version", ["1.6", "2.1"])
def test_what_go_reads_is_read_alike(version: str, tmp_path: Path) -> None:
    """Fsm and Go read the same values from random files that Go can read, except that Go replaces invalid Unicode."""
    keys = ("CreatedAt", "StartedAt", "FinishedAt", "ExitCode", "Reason", "Message")
    cases = [json.loads(line) for line in (HERE / "go.jsonl").read_text(encoding="utf-8").splitlines()]
    read, path = 0, tmp_path / "status"
    for case in cases:
        path.write_bytes(case["file"].encode(errors="surrogateescape"))
        if case[version] is not None and unicode(case["file"]):
            go = json.loads(case[version])
            ((_, seen),) = observations([path])
            assert [go[key] for key in keys] == [*(seen.fields or {}).values()]
            read += 1

    assert read > len(cases) / 5


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "0 bytes, and no record in them"),
        ("{}", "a record without a version; only 'v1' can be read"),
        ('{"Version": "v2"}', "a record of version 'v2'; only 'v1' can be read"),
        ('{"Version": "v1", "Crea', "no JSON at byte 18 of 23: Unterminated string starting at"),
        ('{"Version": "v1", "ExitCode": "1"}', "ExitCode is '1': input should be a valid integer"),
        ("[]", "an object was expected, and this is []"),
    ],
)
def test_a_file_that_containerd_could_not_read_is_an_error(content: str, what: str, tmp_path: Path) -> None:
    for name in ("c1", "c2"):
        record(tmp_path, f"{name}/status").write_text(content, encoding="utf-8")
    record(tmp_path, "c3/status")

    with pytest.raises(InputError) as caught:
        judge(tmp_path)

    assert [str(tmp_path / name / "status") for name in ("c1", "c2")] == [each.path for each in caught.value.problems]
    assert {("FSM213", f"the file is not a checkpoint: {what}")} == {
        (each.code, each.what) for each in caught.value.problems
    }
    ran = fsm("judge", str(tmp_path))
    assert (2, 2) == (ran.returncode, ran.stderr.count("move the file away to judge the others"))


def test_a_directory_without_checkpoints_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the file cannot be opened: is a directory"):
        judge(tmp_path)
