"""The reference reads and writes checkpoints as containerd does, even if they are damaged or unusual."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.runtimes.reference.container.record import (
    CheckpointError,
    CpuGroupAffinity,
    HugepageLimit,
    LinuxResources,
    Resources,
    Status,
    WindowsResources,
    decode,
    encode,
)

HERE = Path(__file__).parent.parent / "recordings" / "checkpoints"
RECORDED = sorted(HERE.glob("*/*.json"))
GO = [json.loads(line) for line in (HERE / "go.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name} {path.name}")
def test_files_of_containerd_are_written_identically(path: Path) -> None:
    data = path.read_bytes()

    assert data == encode(decode(data))


def test_files_of_containerd_have_the_right_state() -> None:
    states = {(path.parent.name, path.name.split(".")[0]): decode(path.read_bytes()).state().name for path in RECORDED}
    situations = {
        "created": "CREATED",
        "running": "RUNNING",
        "exited-0": "EXITED",
        "exited-1": "EXITED",
        "killed": "EXITED",
        "start-failed": "EXITED",
    }

    assert {(version, name): state for version in ("1.6.20", "2.1.9") for name, state in situations.items()} == states


def test_go_reads_and_writes_the_same() -> None:
    for case in GO:
        data = case["file"].encode(errors="surrogateescape")
        if case["1.6"] is None:
            with pytest.raises(CheckpointError):
                decode(data)
            continue
        status = decode(data)
        later = status.model_copy(update={"restore": bool(status.restore)})
        before = status.model_copy(update={"restore": None})

        assert (case["1.6"], case["2.1"]) == (encode(before).decode(), encode(later).decode()), data
    assert 150 == sum(case["1.6"] is None for case in GO)


INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -(2**63), 2**63 - 1]))
UINT32 = st.integers(0, 2**32 - 1)
UINT64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LINUX = st.builds(
    LinuxResources,
    cpu_period=INT64,
    cpuset_cpus=TEXT,
    hugepage_limits=st.lists(st.none() | st.builds(HugepageLimit, page_size=TEXT, limit=UINT64), max_size=3),
    unified=st.dictionaries(TEXT, TEXT, max_size=3),
    memory_swap_limit_in_bytes=INT64,
)
WINDOWS = st.builds(
    WindowsResources,
    cpu_count=INT64,
    affinity_cpus=st.lists(st.builds(CpuGroupAffinity, cpu_mask=UINT64, cpu_group=UINT32), max_size=2),
)
RECORDS = st.builds(
    Status,
    pid=UINT32,
    created_at=INT64,
    started_at=INT64,
    finished_at=INT64,
    exit_code=INT32,
    reason=TEXT,
    message=TEXT,
    resources=st.none() | st.builds(Resources, linux=st.none() | LINUX, windows=st.none() | WINDOWS),
    restore=st.none() | st.booleans(),
    starting=st.booleans(),
    removing=st.booleans(),
    unknown=st.booleans(),
)


@given(RECORDS)
def test_a_written_record_can_be_read(status: Status) -> None:
    """The record is read back as it was written, except for the flags, which are never written."""
    kept = status.model_copy(update={"starting": False, "removing": False, "unknown": False})

    assert kept == decode(encode(status))


@given(RECORDS, st.data())
def test_a_truncated_file_is_damaged(status: Status, data: st.DataObject) -> None:
    whole = encode(status)
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]

    with pytest.raises(CheckpointError, match=r"no record in them|no JSON at byte"):
        decode(part)


@given(st.binary(max_size=50))
def test_any_damage_is_a_checkpoint_error(data: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"^/run/c1/status: "):
        decode(data, "/run/c1/status")


DEEP = b"[" * 100_000
DAMAGED = [
    (b"", "0 bytes, and no record in them"),
    (b"\n\n", "2 bytes, and no record in them"),
    (b"[]", "an object was expected, and this is []"),
    (b'{"Version":"v1"', "no JSON at byte 15 of 15: Expecting ',' delimiter"),
    (b'{"Version":"v1"} {}', "no JSON at byte 17 of 19: Extra data"),
    (b'{"Version":"v1","Message":"\xc3\xa9\xff" x}', "no JSON at byte 32 of 34: Expecting ',' delimiter"),
    (b'{"Version":1}', "Version is 1: text was expected"),
    (b'{"Version":"v1","Pid":NaN}', "no JSON: NaN is no number"),
    (b'{"Version":"v1","Pid":-1}', "Pid is -1: input should be greater than or equal to 0"),
    (b'{"Version":"v1","Pid":1.0}', "Pid is 1.0: input should be a valid integer"),
    (b'{"Version":"v1","ExitCode":2147483648}', "ExitCode is 2147483648: input should be less than 2147483648"),
    (b'{"Version":"v1","Pid":' + b"9" * 5000 + b"}", "Pid is inf: input should be a valid integer"),
    (b'{"Version":"v1","Resources":{"linux":{"unified":{"a":[]}}}}', "Resources.linux.unified.a is []: input should be a valid string"),
    (b'{"Version":"v1","Message":["' + b"x" * 99 + b'"]}', "Message is ['" + "x" * 58 + "…: input should be a valid string"),
    (DEEP, "nested too deep"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "found"), DAMAGED, ids=[found[:40] for _, found in DAMAGED])
def test_the_error_describes_the_damage(data: bytes, found: str) -> None:
    with pytest.raises(CheckpointError) as raised:
        decode(data, "/run/c1/status")

    assert f"/run/c1/status: {found}" == str(raised.value)


@pytest.mark.parametrize("data", [b"{}", b"null", b'{"Version":""}', b'{"Version":"v2"}', b'{"Version":"V1","Pid":1}'])
def test_other_versions_are_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="only 'v1' can be read"):
        decode(data)


def test_the_last_of_duplicate_keys_counts() -> None:
    assert 3 == decode(b'{"Version":"v1","Pid":1,"pid":2,"Pid":3}').pid
    assert 2 == decode(b'{"Version":"v1","Pid":1,"Pid":3,"PID":2}').pid


def test_keys_match_without_case_letter_by_letter() -> None:
    """Keys match letter by letter, regardless of case: a long s matches s, but a sharp s does not match ss."""
    status = decode('{"Version":"v1","Meßage":"no","Rea\u017fon":"yes"}'.encode())

    assert ("", "yes") == (status.message, status.reason)


def test_bytes_that_are_not_utf_8_are_written_as_by_go() -> None:
    """Messages may contain the output of any program, which need not be UTF-8."""
    status = Status(message=b"\xff<\x08\\b".decode(errors="surrogateescape"))

    assert rb'"Message":"\ufffd\u003c\u0008\\b"' in encode(status)
    assert rb'"Message":"\ufffd\u003c\b\\b"' in encode(status.model_copy(update={"restore": False}))


def test_an_invalid_record_is_not_written() -> None:
    with pytest.raises(ValueError, match="pid"):
        encode(Status().model_copy(update={"pid": -1}))
