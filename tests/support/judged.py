"""Judge recordings given as bytes, and list every violation."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from fsm.machine.findings import Illegal
from fsm.monitor import grouping
from fsm.monitor.judgement import judge
from fsm.verdict import Unknown

if TYPE_CHECKING:
    from fsm.monitor.judgement import Judged

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
VERSIONS = ("1.6.20", "1.7.24", "2.1.9")
LOGS = tuple(sorted(path.name for path in RECORDINGS.iterdir() if path.name.endswith((".log", ".log.gz"))))
CALLS = tuple(sorted(path.name for path in RECORDINGS.iterdir() if "calls" in path.name))
EVENTS = tuple(sorted(path.name for path in RECORDINGS.iterdir() if "nri-events" in path.name or ".nri." in path.name))


class Found(NamedTuple):
    line: int
    machine: str
    cause: str
    event: str
    reply: str
    clause: str
    level: str
    edit: str = ""


@pytest.fixture(scope="module", autouse=True)
def every_violation() -> object:
    """Report every violation, instead of one for each cause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "WHOLE", 1_000_000)
        patch.setattr(grouping, "CAUSES", 1_000_000)
        yield


@cache
def content(name: str) -> bytes:
    data = (RECORDINGS / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


def profile(name: str) -> str:
    version = next(each for each in VERSIONS if each in name)
    return f"containerd-{version.rpartition('.')[0]}"


def judged(data: bytes, folder: Path, **how: object) -> Judged:
    file = folder / "recording"
    file.write_bytes(data)
    return judge(str(file), **how)  # type: ignore[arg-type]  # keywords are passed on


def violations(found: Judged) -> list[Found]:
    return sorted(
        Found(
            line=violation.line,
            machine=violation.machine,
            cause=violation.cause.value,
            event=violation.observation.event or violation.observation.output,
            reply=violation.observation.reply,
            clause=violation.clause.name,
            level=violation.clause.level,
            edit=" ".join(filter(None, (violation.edits[0].repair.value, violation.edits[0].instead)))
            if violation.edits
            else "",
        )
        for judgement in found.judgements
        if isinstance(judgement.verdict, Illegal)
        for finding in judgement.verdict.findings
        for violation in finding.first
    )


def undecided(found: Judged) -> list[str]:
    return [each.verdict.why for each in found.judgements if isinstance(each.verdict, Unknown)]
