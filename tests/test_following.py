"""A followed recording has the same verdict as the complete file, even if it is cut or delayed."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest
from commands import FSM, fsm
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm.language.library import load
from fsm.machine.findings import Illegal, Violation
from fsm.monitor import OPEN, Monitor
from fsm.monitor.judgement import Judging, judge
from fsm.recordings import open_recording
from fsm.recordings.line_reader import LineReader, Piece
from fsm.runtimes.recordings import nri_events
from fsm.trace import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fsm.machine.findings import Judgement
    from fsm.monitor.judgement import Judged

RECORDINGS = Path(__file__).resolve().parent / "recordings"
NAMES = (
    "1.6.20-deadlines.log.gz",
    "1.7.24-restart-kill9.log.gz",
    "2.1.9-forgotten.nri.jsonl.gz",
    "2.1.9-nri.nri.jsonl.gz",
    "1.6.20-killed-containers.calls.jsonl.gz",
    "1.7.24-restart-graceful.calls.jsonl.gz",
    "2.1.9-deadlines.calls.jsonl.gz",
    "containerd-1.6.20.log",
)
MINUTE = 60_000_000_000


class Pieces:
    """A stream of bytes with pauses at the positions in *cuts*."""

    def __init__(self, data: bytes, cuts: Sequence[int], quiet: int) -> None:
        self._data, self._cuts, self._quiet = data, sorted(cuts), quiet

    def _parts(self) -> Iterator[bytes]:
        for start, end in zip([0, *self._cuts], [*self._cuts, len(self._data)], strict=True):
            yield self._data[start:end]
            yield b""

    def pieces(self, notes: Counter[str], advanced: Callable[[int], None] = lambda _: None) -> Iterator[Piece]:
        for piece in LineReader(name="", notes=notes, advanced=advanced).pieces(self._parts()):
            piece.quiet = 0 if piece.lines else self._quiet
            yield piece


@cache
def _data(name: str) -> bytes:
    path = RECORDINGS / name
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@cache
def _whole(name: str) -> Judged:
    return judge(RECORDINGS / name, every=True)


def _what(violation: Violation) -> tuple[object, ...]:
    return violation.machine, violation.line, violation.observation.entity, violation.cause, violation.clause.name


def _found(judgement: Judgement) -> list[Violation]:
    verdict = judgement.verdict
    return [each for finding in verdict.findings for each in finding.first] if isinstance(verdict, Illegal) else []


def _alike(one: Judged, other: Judged) -> None:
    for mine, theirs in zip(one.judgements, other.judgements, strict=True):
        assert mine.verdict == theirs.verdict
        assert (mine.covered.cells, mine.tolerated, mine.assumed) == (
            theirs.covered.cells,
            theirs.tolerated,
            theirs.assumed,
        )
        assert (mine.entities, mine.observations, mine.notes) == (theirs.entities, theirs.observations, theirs.notes)
    assert one.notes == other.notes


def _followed(
    data: bytes, cuts: Sequence[int], *, quiet: int = 0, settle: int = 10 * MINUTE
) -> tuple[Judged, list[Violation]]:
    told: list[Violation] = []
    judging = Judging(open_recording("log", source=Pieces(data, cuts, quiet), settle=settle), every=True)
    judging.tell(told.append)
    for number, batch in enumerate(judging.recording.batches):
        judging.take(batch)
        judging.shed()
        if number % 7 == 0:
            judging.judged(over=False)
    return judging.judged(), told


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(cut=st.lists(st.floats(0, 1), max_size=8), quiet=st.integers(0, MINUTE))
def test_in_pieces_as_the_whole(name: str, cut: list[float], quiet: int) -> None:
    """Reading a recording in pieces changes no verdict, violation or count, and reports each violation once."""
    data = _data(name)[:20_000]
    data = data[: data.rfind(b"\n") + 1]

    followed, told = _followed(data, [int(each * len(data)) for each in cut], quiet=quiet)
    whole, _ = _followed(data, [])

    _alike(followed, whole)
    found = [each for judgement in whole.judgements for each in _found(judgement)]
    assert Counter(map(_what, told)) == Counter(map(_what, found))


@pytest.mark.parametrize("name", NAMES)
def test_a_line_at_a_time(name: str) -> None:
    data = _data(name)
    cuts = [at for at, byte in enumerate(data) if byte == ord("\n")][::3]

    followed, told = _followed(data, cuts, settle=MINUTE)

    whole = _whole(name)
    for mine, theirs in zip(followed.judgements, whole.judgements, strict=True):
        assert list(map(_what, _found(mine))) == list(map(_what, _found(theirs)))
        assert mine.covered.cells == theirs.covered.cells
    assert len(told) == sum(len(_found(each)) for each in whole.judgements)


CALLS = """{"op": "RunPodSandbox", "id": "p1", "start": 1, "end": 2, "code": "OK"}
{"op": "CreateContainer", "id": "c1", "pod": "p1", "start": 3, "end": 4, "code": "OK"}
"""
START = '{"op": "StartContainer", "id": "c1", "start": 5000000000, "end": %d, "code": "OK"}\n'
STATUS = """{"op": "ContainerStatus", "id": "c1", "start": 6000000000, "end": 6000000001, "code": "OK"}
{"op": "status", "id": "c1", "state": "CONTAINER_RUNNING"}
"""


def test_a_call_is_judged_once_none_that_began_before_it_is_awaited() -> None:
    """A call is judged only when the monitor no longer waits for calls that began earlier.

    A call is recorded when it ends, so a status may show a running container before its start is recorded.
    """
    early, late = (CALLS + STATUS).encode(), (START % 9_000_000_000).encode()

    for settle, count in ((10_000_000_000, 0), (1_000_000_000, 1)):
        _, told = _followed(early + late, [len(early)], quiet=5_000_000_000, settle=settle)
        assert len(told) == count
    # The late start is correct, because the violation is in an earlier line.
    (violation,) = told
    assert violation.line < 5


def test_what_comes_too_late_breaks_nothing() -> None:
    early = (CALLS + STATUS).replace("RUNNING", "CREATED").encode()
    late = (START % 5_500_000_000).encode()

    followed, told = _followed(early + late, [len(early)], quiet=5_000_000_000, settle=1_000_000_000)

    assert not told
    assert followed.notes["calls told too late"] == 1


def test_memory_does_not_grow_with_what_is_never_over() -> None:
    monitor = Monitor(load("cri-container"), fresh=True)
    number = 2 * OPEN
    seen = [Observation(entity=f"c{each}", event="stop", reply="NOT_FOUND") for each in range(number)]

    monitor.feed(seen, range(1, number + 1))
    monitor.shed()

    assert len(monitor._open) == OPEN  # noqa: SLF001  (that is what would grow)
    (finding,) = monitor.judgement().verdict.findings  # type: ignore[union-attr]
    assert finding.count == number


LINES = _data("containerd-1.6.20.log").splitlines(keepends=True)
VIOLATION = 14
"""The line number of the first violation."""


def _lines_of(stream: IO[str], until: str) -> list[str]:
    found = []
    for line in stream:
        found.append(line)
        if until in line:
            break
    return found


def test_a_violation_is_printed_at_once_and_a_signal_ends_with_the_verdict(tmp_path: Path) -> None:
    log = tmp_path / "containerd.log"
    with subprocess.Popen(
        [FSM, "judge", "--follow", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "waiting for it" in process.stderr.readline()
        log.write_bytes(b"".join(LINES[:VIOLATION]))
        first = _lines_of(process.stdout, "containerd.log:")
        process.send_signal(signal.SIGUSR1)
        summary = _lines_of(process.stdout, "verdict:")
        log.rename(tmp_path / "containerd.log.1")
        log.write_bytes(b"".join(LINES[VIOLATION : VIOLATION + 2]))
        second = _lines_of(process.stdout, "containerd.log:2")
        process.terminate()
        rest, _ = process.communicate(timeout=20)

    assert first[0].strip().startswith("violation: StopContainer replied NOT_FOUND")
    assert first[-1].split()[1].endswith(f"containerd.log:{VIOLATION}")
    assert summary[-1].startswith("  verdict: fails, 1 violation. ")
    assert any("1 violation," in line for line in summary)
    assert "— again, container" in second[-1]
    assert "2 violations," in rest
    assert "  verdict: fails, 2 violations. " in rest
    assert process.returncode == 1


def test_the_end_of_a_pipe_is_the_end() -> None:
    holds = fsm("judge", "--follow", "-", stdin=_data("containerd-1.7.24.log"))
    fails = fsm("judge", "--follow", "--format", "json", "-", stdin=_data("containerd-1.6.20.log"))
    empty = fsm("judge", "--follow", "-", stdin=b"")

    assert (0, 1, 3) == (holds.returncode, fails.returncode, empty.returncode)
    assert all(line.startswith("{") for line in fails.stdout.splitlines())
    assert len(fails.stdout.splitlines()) > 10


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--with", "x"], "before its end"),
        (["--properties"], "before its end"),
        (["--format", "sarif"], "--follow prints text or json"),
        (["another"], "only one TRACE can be followed"),
    ],
)
def test_what_is_found_only_in_the_whole_is_refused(options: list[str], why: str) -> None:
    """An option that needs the complete recording is refused while following, with a reason and exit code 2."""
    done = fsm("judge", "--follow", "-", *options)

    assert (2, "") == (done.returncode, done.stdout)
    assert why in " ".join(done.stderr.split())


def test_pods_of_containers_that_are_over_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nri_events, "REMEMBERED", 2)
    reader = nri_events.NriEventReader()

    def take(event: str, **what: object) -> None:
        tuple(reader.observations(json.dumps({"ts": 1, "event": event, **what}).encode(), 1))

    for number in range(9):
        take("RUN_POD_SANDBOX", pod=f"p{number}")
        take("CreateContainer", pod=f"p{number}", container=f"c{number}")
        if number % 3 == 0:
            take("REMOVE_CONTAINER", pod=f"p{number}", container=f"c{number}")
        elif number % 3 == 1:
            take("REMOVE_POD_SANDBOX", pod=f"p{number}")
    kept = set(reader.pods)
    take("Configure")
    take("Synchronize", containers=[{"id": "c2", "pod": "p2", "state": "CONTAINER_RUNNING"}])

    assert {"c2", "c5", "c8", "c6", "c7"} == kept
    assert {"c2", "c8", "c5"} == set(reader.pods)
