"""Recordings of real containerd: what each is expected to give, and edits of them that must be found."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest
from judged import CALLS, EVENTS, LOGS, Found, content, judged, profile, quickly, undecided, violations

from fsm.verdict import Holds

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["quickly"]

CROWDED = tuple(name for name in CALLS if "-contexts" in name)
"""Eight threads at one container: without a profile, minutes."""

NOT_IDEMPOTENT = {
    "1.6.20-contexts.log.gz": (1, 0),
    "1.6.20-corrupt-checkpoints.calls.jsonl.gz": (9, 0),
    "1.6.20-corrupt-checkpoints.log.gz": (9, 0),
    "1.6.20-jsonlog.calls.jsonl.gz": (10, 0),
    "1.6.20-jsonlog.log.gz": (10, 0),
    "1.6.20-killed-containers.calls.jsonl.gz": (1, 0),
    "1.6.20-killed-containers.log.gz": (1, 0),
    "1.6.20-orphan.calls.jsonl.gz": (0, 2),
    "1.6.20-orphan.log.gz": (0, 2),
    "1.6.20-random.calls.jsonl.gz": (12, 8),
    "1.6.20-random.log.gz": (17, 8),
    "1.6.20-restart-graceful.calls.jsonl.gz": (4, 1),
    "1.6.20-restart-graceful.log.gz": (6, 1),
    "1.6.20-restart-kill9.calls.jsonl.gz": (22, 1),
    "1.6.20-restart-kill9.log.gz": (35, 1),
    "containerd-1.6.20.log": (27, 1),
    "cri-calls-1.6.20.jsonl": (27, 1),
}
"""Stops of containers and of pods that were gone already, and that 1.6 answers NOT_FOUND."""


@pytest.mark.parametrize("name", [name for name in (*LOGS, *CALLS, *EVENTS) if name not in CROWDED])
def test_gives_the_expected_verdict(name: str, tmp_path: Path) -> None:
    """Only 1.6 breaks the contract, and only in that stopping what is gone fails."""
    found = judged(content(name), tmp_path)

    stops = Counter(each.event for each in violations(found))
    assert NOT_IDEMPOTENT.get(name, (0, 0)) == (stops.pop("StopContainer", 0), stops.pop("StopPodSandbox", 0))
    assert Counter() == stops
    assert {"NOT_FOUND"} >= {each.reply for each in violations(found)}
    assert {"stop-is-idempotent"} >= {each.clause for each in violations(found) if each.level == "MUST"}
    assert [] == undecided(found)


@pytest.mark.parametrize("name", [*LOGS, *CALLS, *EVENTS])
def test_holds_with_the_profile_of_its_version(name: str, tmp_path: Path) -> None:
    """Whatever a version is known for is tolerated and reported; nothing else is found."""
    found = judged(content(name), tmp_path, profile=profile(name))

    assert {Holds()} == {each.verdict for each in found.judgements}
    assert {"stop-of-removed"} >= {
        each.first.deviation.name for judgement in found.judgements for each in judgement.tolerated
    }


@pytest.mark.parametrize("name", LOGS)
def test_a_log_tells_its_version(name: str, tmp_path: Path) -> None:
    """The line that containerd begins with names it."""
    assert judged(content(name), tmp_path, profile=profile(name)).version.startswith(name.lstrip("containerd-")[:3])


# -- planted edits -----------------------------------------------------------

LOG = "2.1.9-killed-containers.log.gz"
CLIENT = "2.1.9-killed-containers.calls.jsonl.gz"
PLUGIN = "nri-events-2.1.9.jsonl"

POD = "a2b44"
GONE_POD = "14288"
RAN = "21c0d"
"""Created on line 123 of the log, started on 126, refused a second start on 128, stopped on 132, removed on 134."""


class Edit(NamedTuple):
    """What is done to a recording: ``drop`` lines after line ``after``, put ``lines`` there."""

    name: str
    recording: str
    after: int
    lines: tuple[str, ...]
    finds: tuple[Found, ...]
    drop: int = 0


def info(message: str) -> str:
    """A line of the log; ids are written short, and between apostrophes."""
    return f'time="2026-11-21T03:12:52.9Z" level=info msg="{message}"'


def failed(call: str, identity: str, error: str) -> str:
    """The line of a call that failed."""
    return f'time="2026-11-21T03:12:52.9Z" level=error msg="{call} for \'{identity}\' failed" error="{error}"'


def asked(call: str, identity: str) -> str:
    """The line of a request."""
    return info(f"{call} for '{identity}'")


def replied(call: str, identity: str) -> str:
    """The line of a success."""
    return info(f"{call} for '{identity}' returns successfully")


GONE = f"rpc error: code = NotFound desc = an error occurred when try to find container '{RAN}': not found"
GONE_POD_TOO = "rpc error: code = NotFound desc = an error occurred when try to find sandbox: not found"
BROKEN = "rpc error: code = Unknown desc = something broke"

PLANTED: tuple[Edit, ...] = ()
