"""A log has the same observations whether it is read in bulk or line by line."""

from __future__ import annotations

import gzip
import random
import re
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest
from commands import RECORDINGS
from damage import flipped, mixed
from thorough import amount

from fsm.errors import InputError
from fsm.monitor.judgement import judge
from fsm.monitor.judgement.part import WHOLE, Part
from fsm.monitor.provenance import provenance
from fsm.recordings import line_reader, open_recording
from fsm.recordings.line_reader import Piece
from fsm.recordings.sources import Followed, Rotated
from fsm.runtimes.recordings import log_in_bulk, log_reader, log_scanner, pod_calls
from fsm.runtimes.recordings.containerd_log import Log
from fsm.runtimes.recordings.line_templates import NOTHING, QUIET, SAYS, SLOW, LineForm, Templates, form, spans
from fsm.runtimes.recordings.log_in_bulk import Bulk, _Plain
from fsm.runtimes.recordings.log_reader import AHEAD
from fsm.runtimes.recordings.open_calls import OpenCalls, certain_part
from fsm.trace import key, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from fsm.trace import Batch, Observation

PLAIN = sorted(RECORDINGS.glob("containerd-*.log"))
MORE = [RECORDINGS / f"{name}.log.gz" for name in ("2.1.9-random", "1.7.24-restart-graceful", "1.6.20-debuglevel")]
SLOWER = sorted(set(RECORDINGS.glob("*.log.gz")) - set(MORE))
STOP = b'time="2026-11-20T11:03:25.27Z" level=info msg="StopContainer for \\"%064x\\" with timeout %d (s)"'
"""A line of a log with placeholders for an id and a number."""
ID = re.compile(rb"[0-9a-f]{64}")


def lines_of(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()


def read_slowly(lines: Sequence[bytes]) -> tuple[Log, list[tuple[int, Observation]]]:
    log = Log()
    return log, [(number, seen) for number, line in enumerate(lines, 1) for seen in log.observations(line)]


def read(lines: Sequence[bytes], sizes: Iterator[int]) -> tuple[Log, list[tuple[int, Observation]], int]:
    log, found, at, in_bulk = Log(), list[tuple[Any, "Observation"]](), 0, 0
    bulk, parts = Bulk(log), list[Any]()
    while at < len(lines):
        parts.append(lines[at : at + next(sizes)])
        at += len(parts[-1])
    cuts = [bulk.scan(b"\n".join(part)) for part in parts[:AHEAD]]
    at = 0
    for number, part in enumerate(parts):
        cuts += [bulk.scan(b"\n".join(each)) for each in parts[number + AHEAD : number + AHEAD + 1]]
        batch = bulk.batch(cuts[number], at + 1)
        if batch is None:
            found += [(number, seen) for number, line in enumerate(part, at + 1) for seen in log.observations(line)]
        else:
            in_bulk += len(part)
            found += zip(batch.lines, batch.observations, strict=True)
            columns = batch.columns
            assert columns is not None
            assert columns.at is not None
            for index, (kind, entity) in enumerate(zip(columns.kind, columns.entity, strict=True)):
                seen = batch.observations[index]
                assert columns.ids[entity] == seen.entity
                assert kind < 0 or columns.at[index] == (-1 if seen.at is None else nanoseconds(seen.at))
                assert kind < 0 or (columns.kinds[kind].of, key(columns.kinds[kind])) == (seen.of, key(seen))
        at += len(part)
    return log, found, in_bulk


def differ(lines: Sequence[bytes], chosen: random.Random, least: int = 64) -> tuple[bool, int]:
    log, found = read_slowly(lines)
    other, in_bulk, count = read(lines, iter(lambda: chosen.randrange(least, 700), None))
    return (log, found) != (other, in_bulk), count


def in_bulk_alike(lines: Sequence[bytes]) -> bool:
    differs, count = differ(lines, random.Random(len(lines)))
    return not differs and count > 0.7 * len(lines)


@pytest.mark.parametrize("path", [*PLAIN, *MORE], ids=lambda path: path.name)
def test_a_recording_says_in_bulk_what_it_says_line_by_line(path: Path) -> None:
    lines = lines_of(path)
    differs, count = differ(lines, random.Random(path.name))
    assert not differs
    assert count > 0 or "debuglevel" in path.name


@pytest.mark.slow
@pytest.mark.parametrize("path", SLOWER, ids=lambda path: path.name)
def test_every_recording_says_in_bulk_what_it_says_line_by_line(path: Path) -> None:
    assert not differ(lines_of(path), random.Random(path.name))[0]


def again(lines: Sequence[bytes], turns: int, minutes: int) -> list[bytes]:
    found = []
    for turn in range(turns):
        for line in lines:
            other = re.sub(rb"[0-9a-f]{64}", lambda each, turn=turn: b"%02x" % turn + each[0][2:], line)  # type: ignore[misc]
            hour, minute = divmod(turn * minutes, 60)
            found.append(re.sub(rb"T\d\d:\d\d:", b"T%02d:%02d:" % (hour, minute), other))
    return found


def test_a_long_log_says_the_same_when_no_call_from_before_it_is_in_progress_any_more() -> None:
    lines = again(lines_of(PLAIN[1]), 6, 7)
    assert in_bulk_alike(lines)
    assert any(seen.phase == "gap" for _, seen in read_slowly(lines)[1])


@pytest.mark.parametrize("seed", range(6))
def test_damaged_lines_say_the_same(seed: int) -> None:
    chosen = random.Random(seed)
    data = b"\n".join(again(lines_of(PLAIN[seed % 3]), 2, 13))
    data = mixed(data, chosen) if seed % 2 else flipped(data, chosen)
    assert not differ(data.split(b"\n"), chosen)[0]


@pytest.mark.parametrize("seed", range(amount(5, night=300)))
def test_lines_with_exchanged_ids_say_the_same(seed: int) -> None:
    """Reading in bulk makes no difference even if ids are exchanged, so that a container call names a pod."""
    chosen = random.Random(seed)
    lines = lines_of(chosen.choice([*PLAIN, *MORE]))[: chosen.choice((200, 400, 2_000))]
    ids = sorted({each for line in lines for each in ID.findall(line)})
    for at in chosen.sample(range(len(lines)), k=len(lines) // 8):
        old = chosen.choice(ID.findall(lines[at]) or [b"-"])
        lines[at] = lines[at].replace(old, chosen.choice(ids))  # at any position in the line

    assert not differ(lines, chosen)[0]


def test_a_log_from_a_time_that_is_too_late_for_compiled_code_says_the_same() -> None:
    lines = lines_of(PLAIN[1])
    far = [line.replace(b"2026-", b"2300-") for line in lines]
    assert not differ(far, random.Random(1))[0]
    assert in_bulk_alike([far[0], *again(lines, 3, 7)])


def test_logs_that_are_mixed_line_by_line_say_the_same() -> None:
    parts = [lines_of(path) for path in PLAIN]
    lines = [line for each in zip(*parts, strict=False) for line in each]
    assert in_bulk_alike(lines)


def test_where_few_that_were_removed_are_remembered_the_same_is_said() -> None:
    with patch.object(pod_calls, "UNRECORDED", 34):
        assert in_bulk_alike(forgotten_lines())


def forgotten_lines() -> list[bytes]:
    """Return interleaved recordings, followed by calls on removed pods.

    Some of these calls end after their pod is forgotten.
    """
    parts = [lines_of(path) for path in PLAIN]
    lines = [line for each in zip(*parts, strict=False) for line in each]
    time = b'time="2026-11-20T11:30:%02d.5Z" level=info msg="'
    for turn in range(6):
        pods = [b"%064x" % (16**63 + 100 * turn + each) for each in range(36)]
        run = b'RunPodSandbox for &PodSandboxMetadata{Name:p,Uid:u,Namespace:d,Attempt:0,} returns sandbox id \\"%s\\""'
        asked, done = b'RemovePodSandbox for \\"%s\\""', b'RemovePodSandbox \\"%s\\" returns successfully"'
        lines += [time % turn + run % pod for pod in pods]
        lines += [time % turn + asked % pods[0], time % turn + done % pods[0], time % turn + asked % pods[0]]
        lines += [time % turn + each % pod for pod in pods[1:] for each in (asked, done)]
        lines += [time % turn + done % pods[0], time % turn + asked % pods[0], time % turn + done % pods[0]]
    return lines


FEW_TEMPLATES = patch.object(log_in_bulk, "_TEMPLATES", 128)


@pytest.fixture(scope="module")
def many_templates() -> list[bytes]:
    lines = again(lines_of(PLAIN[1]), 3, 1)
    return [each for at, line in enumerate(lines) for each in (b"word%s" % (b"x" * (at % 90)), line)]


def test_where_templates_are_numbered_anew_the_same_is_said(many_templates: list[bytes]) -> None:
    with FEW_TEMPLATES:
        assert not differ(many_templates, random.Random(1))[0]


def test_that_templates_are_numbered_anew_has_to_be_known(many_templates: list[bytes]) -> None:
    scan = Templates.scan
    unnoticed = patch.object(Templates, "scan", lambda *asked: scan(*asked)._replace(anew=0))
    with FEW_TEMPLATES, unnoticed, pytest.raises(IndexError):
        differ(many_templates, random.Random(1))


def test_crashes_and_lost_lines_say_the_same() -> None:
    lines = again(lines_of(PLAIN[2]), 3, 1)
    lines[500] = b"panic: runtime error: index out of range"
    lines[250] = b"Nov 20 11:03:20 n1 systemd-journald[1]: Suppressed 12 messages from containerd.service"
    lines[700] = lines[701] = b'time="2026-11-20T11:03:25Z" level=info msg="starting containerd" version=1.7.24'
    assert differ(lines, random.Random(3))[0] is False
    assert {seen.phase for _, seen in read_slowly(lines)[1]} >= {"gap"}


@pytest.mark.parametrize("wrap", ["json", "cri", "journal"])
def test_wrapped_lines_say_the_same(wrap: str) -> None:
    log = read_slowly(lines_of(PLAIN[1]))[1]
    lines = [wrapped(line, wrap) for line in lines_of(PLAIN[1])]
    assert [seen.event for _, seen in read_slowly(lines)[1]] == [seen.event for _, seen in log]
    assert in_bulk_alike(lines)


def wrapped(line: bytes, wrap: str) -> bytes:
    match wrap:
        case "json":
            text = line.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
            return b'{"log":"' + text + b'\\n","stream":"stderr","time":"2026-11-20T11:03:25.2Z"}'
        case "cri":
            return b"2026-11-20T11:03:26.123456789+01:00 stderr F " + line
        case _:
            return b"Nov 20 11:03:20 n1 containerd[7]: " + line


# -- templates -------------------------------------------------------------------


def test_a_template_stands_for_lines_that_say_the_same() -> None:
    assert form(STOP % (7, 3)) == form(STOP % (2**200, 90))
    assert form(STOP % (7, 3)).does == SAYS
    assert form(b'time="2026-11-20T11:03:25.27Z" level=info msg="cleaning up dead shim"').does == NOTHING
    run = b'time="2026-11-20T11:03:25Z" level=info msg="RunPodSandbox for &PodSandboxMetadata{Name:p0,Uid:u,Namespace:d,Attempt:0,}"'
    assert form(run).does == QUIET


def test_code_that_was_kept_runs_in_a_process_that_compiles_nothing() -> None:
    """Cached machine code runs in a new process that does not load Numba's compiler."""
    code = "from fsm.runtimes.recordings.line_templates import Templates; print(Templates(8).scan(b'one 1\\none 2', 2).templates)"
    for _ in range(2):  # the first call may compile it
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "[0 0]\n")


def test_what_is_sensitive_to_an_id_or_a_number_has_no_template() -> None:
    assert form((STOP % (7, 3)).replace(b"%064x" % 7, b"c1")).does == SLOW
    assert form(b'{"log": "x", "count": 1e5, "msg": "StopContainer for \\"%064x\\""}' % 7).does == SLOW
    assert form(b'{"time":"2026-11-20T11:03:25.27Z","msg":"StopContainer for \\"%064x\\"","n":00}' % 7).does == SLOW


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-28T23:59:59.999999999Z",
        "2024-02-29T00:00:00.12Z",
        "1970-01-01T00:00:00Z",
        "2000-12-31T11:22:33.654321-11:30",
        "2261-12-31T23:59:59.999999999-23:59",
    ],
)
def test_a_time_is_read_as_python_reads_it(text: str) -> None:
    assert scanned_time(text) == nanoseconds(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:00",
        "2262-01-01T00:00:00Z",
    ],
)
def test_what_is_no_time_is_not_read_as_one(text: str) -> None:
    assert scanned_time(text) is None


def test_random_times_are_read_as_python_reads_them() -> None:
    chosen = random.Random(5)
    for _ in range(300):
        moment = datetime.fromtimestamp(chosen.randrange(2**31), UTC).replace(microsecond=chosen.randrange(10**6))
        assert scanned_time(moment.isoformat(timespec="microseconds")) == round(moment.timestamp() * 1e6) * 1_000


def scanned_time(text: str) -> int | None:
    cut = spans(text.encode())
    times = Templates(1).scan(text.encode(), 1).times
    return int(times[0, 0, 0]) if cut and cut[0].kind == log_scanner.TIME else None


# -- planted defects; some recording shows each of them ---------------------------


MISTAKES: dict[str, Any] = {
    "every template is known by one line": patch.object(
        log_in_bulk, "form", lambda line: LineForm(NOTHING) if b"failed" in line else form(line)
    ),
    "names are not kept": patch.object(Log, "store_names", lambda *_: None),
    "a call that was made before changes nothing": patch.object(
        log_in_bulk, "certain_part", lambda seen, calls: ([seen], calls or OpenCalls())
    ),
    "no call is in progress on what was removed": patch.object(
        log_in_bulk, "certain_part", lambda seen, _: certain_part(seen, OpenCalls())
    ),
    "replies are not remembered": patch.object(Bulk, "_report_replies", lambda *_: None),
    "calls from before may go on for ever": patch.object(Bulk, "_late_rows", lambda *_: np.empty(0, np.int64)),
    "a start changes nothing": patch.object(log_in_bulk, "_Plain", lambda _, removed: _Plain(removed, removed)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str) -> None:
    long = again(lines_of(PLAIN[1]), 5, 9)
    lines = [*long, *lines_of(MORE[0]), *long]
    log, found = read_slowly(lines)
    with MISTAKES[mistake]:
        other, in_bulk, _ = read(lines, iter([200] * 100))
    assert (log, found) != (other, in_bulk)


# -- the reader -----------------------------------------------------------------


def judged(path: Path, part: Part = WHOLE) -> object:
    found = judge(path, part=part)
    stories = [
        (
            each.entity,
            each.names,
            [one._asdict() | {"followed": [*map(provenance, one.followed)]} for one in each.steps],
        )
        for each in found.stories
    ]
    return found.judgements, found.notes, found.version, stories


def in_bulk() -> ExitStack:
    stack = ExitStack()
    stack.enter_context(patch.multiple(log_reader, ENOUGH=-1, UNCOMPILED=-1))
    stack.enter_context(patch.object(line_reader, "PIECE", 1 << 14))
    return stack


@pytest.mark.parametrize("path", [*PLAIN, MORE[1]], ids=lambda path: path.name)
def test_judging_is_the_same(path: Path) -> None:
    expected = judged(path)
    with in_bulk():
        assert judged(path) == expected


def test_one_entity_and_a_time_are_judged_the_same() -> None:
    entity = re.findall(rb"[0-9a-f]{64}", PLAIN[1].read_bytes())[0].decode()
    expected = judged(PLAIN[1], part=Part(entity=entity, since=nanoseconds("2026-11-20T11:03:25.3Z")))
    with in_bulk():
        assert judged(PLAIN[1], part=Part(entity=entity, since=nanoseconds("2026-11-20T11:03:25.3Z"))) == expected


def test_rotated_and_followed_files_say_the_same(tmp_path: Path) -> None:
    lines = again(lines_of(PLAIN[1]), 4, 1)
    (tmp_path / "c.log.3").write_bytes(b"\n".join(lines[:500]))
    (tmp_path / "c.log.1").write_bytes(b"\n".join(lines[500:900]))
    (tmp_path / "c.log").write_bytes(b"\n".join(lines[900:]))
    names = [str(each) for each in tmp_path.iterdir()]

    def found(source: Rotated | Followed) -> object:
        recording = open_recording("c.log", source=source)
        batches = [(list(each.observations), list(each.lines)) for each in recording.batches]
        return [each for seen, at in batches for each in zip(seen, at, strict=True)], recording.notes

    sources: list[Callable[[], Rotated | Followed]] = [
        lambda: Rotated(names=names),
        lambda: Followed(name=names[0], over=Once()),
    ]
    for source in sources:
        expected = found(source())
        with in_bulk():
            assert found(source()) == expected


class Once:
    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked > 4


def wholes(reader: log_reader.LogReader, pieces: Iterable[Piece], ahead: int = AHEAD) -> list[Batch | None]:
    return [reader.whole(piece) for piece in reader.scanned(pieces, ahead)]


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_pieces_are_asked_for_so_far_ahead_and_no_thread_is_left(ahead: int) -> None:
    asked: list[int] = []

    def pieces() -> Iterator[Piece]:
        for number in range(20):
            asked.append(number)
            yield Piece(first=number, data=b"\n".join(lines_of(PLAIN[0])[:200]))

    before = threading.active_count()
    with in_bulk():
        scanned = log_reader.LogReader(log=Log()).scanned(pieces(), ahead)
        assert [next(scanned).first for _ in range(3)] == [0, 1, 2]
        assert asked == list(range(3 + ahead))
    del scanned
    assert threading.active_count() == before


def test_a_file_that_cannot_be_read_on_is_refused_and_no_thread_is_left() -> None:
    def pieces() -> Iterator[Piece]:
        yield Piece(first=1, data=b"\n".join(lines_of(PLAIN[0])))
        raise InputError([])

    before = threading.active_count()
    with in_bulk(), pytest.raises(InputError):
        wholes(log_reader.LogReader(log=Log()), pieces())
    assert threading.active_count() == before


def test_short_logs_load_no_library_and_long_ones_need_none() -> None:
    reader = log_reader.LogReader(log=Log())
    piece = Piece(first=1, data=b"\n".join(lines_of(PLAIN[0])))
    assert wholes(reader, [piece]) == [None]
    with in_bulk(), patch.object(log_reader, "import_module", side_effect=ImportError):
        assert wholes(log_reader.LogReader(log=Log()), [piece]) == [None]
    with in_bulk():
        batch, *_ = wholes(log_reader.LogReader(log=Log()), [piece])
    assert batch is not None
    assert Counter(each.of for each in batch.observations)["pod"] > 0
