"""Judge recordings that are given as bytes, and list every violation."""

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
    """A violation: its line, its machine, the broken clause, and the first edit that would fix it."""

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
    """Keep every violation, instead of only counting violations that have the same cause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "WHOLE", 1_000_000)
        patch.setattr(grouping, "CAUSES", 1_000_000)
        yield


@cache
def content(name: str) -> bytes:
    """Return the recording *name*, uncompressed."""
    data = (RECORDINGS / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


def profile(name: str) -> str:
    """Return the profile of the version from which the recording *name* was made."""
    version = next(each for each in VERSIONS if each in name)
    return f"containerd-{version.rpartition('.')[0]}"


def judged(data: bytes, folder: Path, **how: object) -> Judged:
    """Write *data* into *folder*, and return its judgements."""
    file = folder / "recording"
    file.write_bytes(data)
    return judge(str(file), **how)  # type: ignore[arg-type]  # keywords are passed on


def violations(found: Judged) -> list[Found]:
    """Return every violation and every surprise, in the order of the file."""
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
    """Return the reasons of all undecided judgements."""
    return [each.verdict.why for each in found.judgements if isinstance(each.verdict, Unknown)]
