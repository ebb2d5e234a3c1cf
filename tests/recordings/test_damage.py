"""Damaged recordings raise only ``InputError``, and missing lines cause no false violation."""

from __future__ import annotations

import bisect
import json
import random
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest
from judged import CALLS, EVENTS, LOGS, content, every_violation, judged, violations
from thorough import TIMES

from fsm.errors import InputError
from fsm.machine import LEVELS
from fsm.monitor.judgement import judge
from fsm.recordings.line_reader import LONGEST
from fsm.runtimes.recordings import pod_calls

if TYPE_CHECKING:
    from pathlib import Path

    from judged import Found

__all__ = ["every_violation"]

# -- recordings that are cut ------------------------------------------------------------


CROWDED = re.compile(r"-(?:contexts|random)\.")
"""Recordings with concurrent calls, of which even a part takes seconds to judge."""


@cache
def starts(name: str) -> list[int]:
    return [0] + [index + 1 for index, byte in enumerate(content(name)) if byte == ord("\n")]


def place(found: Found, above: int) -> tuple[object, ...]:
    return (found.line + above, found.machine, found.cause, found.event, found.reply)


@cache
def accused(name: str, folder: Path) -> dict[tuple[object, ...], int]:
    return {place(each, 0): LEVELS.index(each.level) for each in violations(judged(content(name), folder))}


def false_accusations(name: str, folder: Path, first: int, last: int) -> list[Found]:
    """Judge the bytes from *first* to *last*, and return the false violations.

    A violation is false if it is missing from the whole recording, or has a weaker level there.
    """
    above = bisect.bisect_right(starts(name), first) - 1
    whole = accused(name, folder)
    return [
        each
        for each in violations(judged(content(name)[first:last], folder))
        if LEVELS.index(each.level) > whole.get(place(each, above), -1)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LOGS, *EVENTS, *(name for name in CALLS if not CROWDED.search(name))])
def test_a_recording_cut_anywhere_accuses_nobody_falsely(name: str, folder: Path) -> None:
    """A recording that is cut anywhere, even within a line, has no new violation.

    This is not guaranteed for the recordings of clients, where a cut at the end removes the calls in progress
    without a trace.
    """
    chosen = random.Random(name)
    size = len(content(name))
    for _ in range(3 * TIMES):
        first = chosen.choice([0, chosen.choice(starts(name)), chosen.randrange(size)])
        last = chosen.choice([size, first + chosen.randrange(size - first + 1)])
        last = min(last, first + 80_000)

        assert [] == false_accusations(name, folder, first, last), (first, last)


@pytest.mark.parametrize("name", ["containerd-1.7.24.log", "2.1.9-orphan.log.gz"])
def test_a_log_cut_before_any_line_accuses_nobody_falsely(name: str, folder: Path) -> None:
    for first in starts(name)[:: 1 if TIMES > 1 else 4]:
        assert [] == false_accusations(name, folder, first, len(content(name))), first


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LOGS if CROWDED.search(name) or "restart" in name])
def test_doubts_that_end_within_a_log_accuse_nobody_falsely(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No false violation is found even after calls that began before the log are assumed to have ended.

    In this test, they are assumed to have ended after four seconds, because no call of the clients took longer.
    """
    monkeypatch.setattr(pod_calls, "WINDOW", 4_000_000_000)
    chosen = random.Random(name)
    for _ in range(4 * TIMES):
        first = chosen.choice(starts(name))

        assert [] == false_accusations(name, folder, first, first + 300_000), first


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LOGS if name.startswith("containerd-")])
def test_a_log_that_ends_anywhere_accuses_nobody_falsely(name: str, folder: Path) -> None:
    end = starts(name)[-40]
    for last in range(end - 900, end, 1 if TIMES > 1 else 9):
        assert [] == false_accusations(name, folder, 0, last), last


# -- artificial files; tests/cli/test_hostile_input.py damages realistic files --


def answered(data: bytes, folder: Path) -> bool:
    try:
        found = judged(data, folder)
    except InputError as error:
        return all(problem.code and problem.hint for problem in error.problems)
    return bool(found.judgements)


DEEP = b'{"MESSAGE": ' * 5_000 + b'"x"' + b"}" * 5_000
HUGE = b'time="T" level=info msg="StopContainer for \\"' + b"c" * (2 * LONGEST) + b'\\""'

ODD = {
    "nothing": b"",
    "one line end": b"\n",
    "only line ends": b"\n\r\n" * 1_000,
    "zeros": b"\x00" * 100_000,
    "a gzip head alone": b"\x1f\x8b",
    "a gzip head and noise": b"\x1f\x8b\x08" + bytes(range(256)),
    "deep json": DEEP,
    "deep arrays": b"[" * 100_000,
    "deep json in a trace": b'{"entity": "c1", "event": "stop"}\n' + DEEP + b"\n",
    "a frame around a frame around a frame": json.dumps(
        {"log": json.dumps({"log": json.dumps({"log": "x" * 9})})}
    ).encode(),
    "a huge line": HUGE,
    "a huge line between others": content("containerd-1.7.24.log")
    + b"\n"
    + HUGE
    + b"\n"
    + content("containerd-1.7.24.log"),
    "a huge number": b'{"op": "StopContainer", "id": "c", "code": "OK", "start": 99999999999999999999999999}',
    "a call that ends before it begins": b'{"op": "StopContainer", "id": "c", "code": "OK", "start": 9, "end": 1}',
    "a call at no time": b'{"op": "StopContainer", "id": "c", "code": "OK"}',
    "bytes that are none": b'{"MESSAGE": [300, -1, 99999999999999999999]}',
    "an escape that is none": b'time="T" level=info msg="StopContainer for \\"\\ud800\\xzz\\"" error="\\',
    "a date that is none": b'time="2026-99-99T99:99:99Z" level=info msg="StopContainer for \\"c\\""',
    "a date without a zone, then one with": b'time="2026-01-01T00:00:00" level=info msg="StopContainer for \\"c\\""\n'
    b'time="2027-01-01T00:00:00Z" level=info msg="StopContainer for \\"c\\""',
    "an event that lists nonsense": b'{"ts": 1, "event": "Synchronize", "containers": [1, null, {"id": 7}, {"id": "c", "state": []}]}',
}


@pytest.mark.parametrize("case", ODD)
def test_odd_files_have_an_answer(case: str, folder: Path) -> None:
    """Odd files, such as the zeros that a power failure leaves behind, are judged or refused with a hint."""
    assert answered(ODD[case], folder)


def test_what_is_no_file_is_a_mistake(folder: Path) -> None:
    with pytest.raises(InputError):
        judge(str(folder))
