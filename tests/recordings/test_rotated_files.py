"""The files of a rotated recording are judged as one run, in any order, with their own line numbers."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from commands import RECORDINGS, fsm

from fsm.errors import InputError
from fsm.machine.findings import Illegal, Violation
from fsm.monitor.judgement import judge
from fsm.recordings.form import TRACE, Opening
from fsm.recordings.line_reader import Notes, Piece
from fsm.recordings.sources import Rotated
from fsm.trace import Line, Observation

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.monitor.judgement import Judged

NAMES = ("containerd-1.6.20.log", "cri-calls-1.6.20.jsonl", "1.7.24-forgotten.nri.jsonl.gz")


def _data(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def _rotated(folder: Path, name: str, *, parts: int = 3) -> list[Path]:
    """Split the recording as log rotation would.

    The newest part has no number, and older ones are compressed.
    """
    lines = _data(RECORDINGS / name).splitlines(keepends=True)
    size = -(-len(lines) // parts)
    files = []
    for number in range(parts):
        data = b"".join(lines[size * (parts - 1 - number) : size * (parts - number)])
        path = folder / ("log" if not number else f"log.{number}" if number == 1 else f"log.{number}.gz")
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        files.append(path)
    return files


def _judged(files: list[Path]) -> Judged:
    names = [str(each) for each in files]
    return judge(", ".join(names), source=Rotated(names=names), every=True)


def _found(judged: Judged) -> list[Violation]:
    verdicts = (each.verdict for each in judged.judgements)
    return [
        one for found in verdicts if isinstance(found, Illegal) for finding in found.findings for one in finding.first
    ]


@pytest.mark.parametrize("name", NAMES)
def test_as_the_whole(name: str, tmp_path: Path) -> None:
    files = _rotated(tmp_path, name)
    rotated, whole = _judged(files), judge(RECORDINGS / name, every=True)

    for mine, theirs in zip(rotated.judgements, whole.judgements, strict=True):
        assert (mine.covered, mine.entities, mine.observations) == (
            theirs.covered,
            theirs.entities,
            theirs.observations,
        )
    assert rotated.notes == whole.notes
    assert len(_found(rotated)) == len(_found(whole)) > 0
    lines = {str(each): _data(each).splitlines() for each in files}
    all_lines = _data(RECORDINGS / name).splitlines()
    for one, other in zip(_found(rotated), _found(whole), strict=True):
        assert lines[one.file][one.line - 1] == all_lines[other.line - 1]


def test_one_after_another_by_themselves_are_judged_otherwise(tmp_path: Path) -> None:
    """Judging the files separately leads to a different result, because lifecycles continue from file to file."""
    files = _rotated(tmp_path, NAMES[0])
    (first, second, third) = (judge(each).judgements[0].covered.cells for each in files)
    together = _judged(files).judgements[0].covered.cells

    assert {cell: first[cell] + second[cell] + third[cell] for cell in together} != together


def test_a_number_that_is_not_there(tmp_path: Path) -> None:
    """A missing file is noted. The states after it are unknown, so there are fewer violations."""
    newest, middle, oldest = _rotated(tmp_path, NAMES[0])
    middle.unlink()
    found = _judged([newest, oldest])
    told = tmp_path / "older"
    oldest.rename(told)
    unaware = _judged([newest, told])

    assert found.notes["rotated files that are missing"] == 1
    assert "rotated files that are missing" not in unaware.notes
    assert len(_found(found)) < len(_found(unaware))


def test_files_that_are_not_of_one_recording(tmp_path: Path) -> None:
    log = str(RECORDINGS / NAMES[0])
    other = tmp_path / "other.log"
    other.write_bytes(b"".join(_data(RECORDINGS / NAMES[0]).splitlines(keepends=True)[:2]))
    text = tmp_path / "text"
    text.write_text("some text\n", encoding="utf-8")
    late = tmp_path / "late.log"
    late.write_bytes(_data(RECORDINGS / NAMES[0]).replace(b"11:03:20", b"11:13:20", 1).replace(b"11:03:2", b"11:33:2"))
    inside = tmp_path / "inside.log"
    inside.write_bytes(_data(RECORDINGS / NAMES[0]).replace(b"T11:03:2", b"T11:20:0"))
    for wrong, what in (
        (str(RECORDINGS / NAMES[1]), "the form of the file is CRI calls, but"),
        (str(text), "nothing known"),
        ("-", "cannot be sorted by time"),
        (str(tmp_path / "none"), "cannot be opened"),
    ):
        with pytest.raises(InputError, match=what):
            tuple(judge("x", source=Rotated(names=[log, wrong])).judgements)
    with pytest.raises(InputError, match="begins long before"):
        judge("x", source=Rotated(names=[str(late), str(inside)]))
    text.write_text("\n", encoding="utf-8")

    assert len(_found(judge("x", source=Rotated(names=[log, str(text)]), every=True))) == 28


def test_the_command(tmp_path: Path) -> None:
    files = [str(each) for each in _rotated(tmp_path, NAMES[0])]
    done = fsm("judge", "--rotated", "--all", "--format", "json", *files)
    text = fsm("judge", "--rotated", *files)
    (recording,) = json.loads(done.stdout)["recordings"]
    places = {
        each["file"] for machine in recording["machines"] for found in machine["findings"] for each in found["first"]
    }

    assert (1, 1) == (done.returncode, text.returncode)
    assert set(files) == places
    assert text.stdout.startswith(", ".join(files))
    assert text.stdout.count("verdict: ") == 1
    assert fsm("judge", "--rotated", "--follow", *files).returncode == 2


class Late:
    """A reader that holds every observation back until the end, and numbers lines without naming their files."""

    def paused(self, _quiet: int) -> list[tuple[int, Observation]]:
        return []

    def gap(self) -> list[tuple[int, Observation]]:
        return [(0, Observation(phase="gap"))]


def test_a_bare_line_number_is_one_of_the_file_that_is_being_read() -> None:
    pieces = [Piece(file="log.1", data=b"a"), Piece(file="log", data=b"b", gap=True)]
    opening = Opening(name="log and 1 more", form=TRACE, pieces=iter(pieces), notes=Notes())
    batches = opening.batches(
        lambda line, _: [(7, Observation(event=line.decode()))], Late(), rest=lambda: [(9, Observation(event="late"))]
    )

    assert [line for batch in batches for line in batch.lines] == [
        *(Line("log.1", 7), Line("log.1", 0)),
        *(Line("log", 7), Line("log", 9)),
    ]
