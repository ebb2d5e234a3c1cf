"""A command answers any input or explains its error, and prints nothing harmful to the terminal.

``tests/support/hostile.py`` lists the readers of files. The folder ``corpus`` holds files that a reader
once handled wrongly.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hostile import READERS, UNREAD, answered, place, seeds, tried
from thorough import TIMES, amount

CORPUS = Path(__file__).with_name("corpus")
FIRST = 0 if TIMES == 1 else random.SystemRandom().randrange(1 << 32)
"""The number of the first input, which is random at night."""


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_damaged_inputs_are_answered(name: str, tmp_path: Path) -> None:
    refused: Counter[str] = Counter()
    count = amount(READERS[name].quick, night=150 * READERS[name].quick)
    for number in range(FIRST, FIRST + count):
        result = tried(name, number, tmp_path)
        refused[result.refused] += 1

        assert result.offence == "", (name, number, result.damaged)
    assert sum(times for code, times in refused.items() if code in UNREAD) < count / 2, refused


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(CORPUS.glob("*/*")), ids=lambda file: f"{file.parent.name}-{file.name}")
def test_what_was_answered_wrongly_once_is_answered(file: Path, tmp_path: Path) -> None:
    name = file.parent.name
    seed = seeds(name)[0]
    place(tmp_path, seed.beside | {seed.name: file.read_bytes()})

    assert answered(READERS[name], seed.name, tmp_path)[1] == ""
