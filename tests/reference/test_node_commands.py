"""Simulated containers run the supported shell commands, and refuse any other text."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.runtimes.reference.driven import CallError, WorldError
from fsm.runtimes.reference.node import ServedNode
from fsm.runtimes.reference.node.commands import script

if TYPE_CHECKING:
    from pathlib import Path

WORDS = st.sampled_from(
    [
        "sh",
        "-c",
        "sleep",
        "exit",
        "exit 3",
        "trap",
        "read a < b",
        "while true",
        "kill",
        "1",
        "-9",
        ";",
        "&&",
        "||",
        "exec",
    ]
) | st.text(max_size=12)


@pytest.mark.parametrize(
    ("line", "seconds", "code"),
    [
        ("sleep 1; exit 3", 1, 3),
        ("false && exit 3", 0, 1),
        ("false || exit 3", 0, 3),
        ("true\nexec sleep 2m", 120, 0),
        ("no-such-command", 0, 127),
        ("no-such-command; true", 0, 0),
        ("while true; do sleep 1; done", inf, 0),
        ("exit 3; sleep 60", 0, 3),
        ("echo hello > /dev/null && exit 256", 0, 0),
        ("unbalanced '", 0, 2),
    ],
)
def test_lines_of_a_shell(line: str, seconds: float, code: int) -> None:
    found = script(["sh", "-c", line])

    assert (seconds, code) == (found.seconds, found.code)


@given(st.lists(WORDS, max_size=6))
def test_whatever_is_sent_is_a_command_or_is_not(words: list[str]) -> None:
    """Every command either ends with an exit code from 0 to 255, or is refused because it does not exist."""
    for command in (words, ["sh", "-c", " ".join(words)]):
        with suppress(WorldError):
            found = script(command)
            assert 0 <= found.code <= 255
            assert found.seconds >= 0


def test_numbers_may_be_long() -> None:
    assert 2 == script(["exit", "9" * 5_000]).code
    assert 15 == script(["kill", f"-{'9' * 5_000}", "1"]).kills


@pytest.mark.parametrize("call", ["stop_pod", "remove_pod"])
async def test_no_call_is_about_a_pod_without_an_id(tmp_path: Path, call: str) -> None:
    async with ServedNode(tmp_path) as node:
        with pytest.raises(CallError, match="prefix can't be empty"):
            await getattr(node, call)("")
