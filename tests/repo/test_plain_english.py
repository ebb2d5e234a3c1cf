"""Phrases that sound translated must become rarer.

Such a phrase is only a hint that the sentence should be reconsidered.
"""

from __future__ import annotations

import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
AREAS = ("fsm", "docs", "models", "properties", "tests")

PHRASES: Final = {
    "a docstring that opens with a question word": r'"""(?:What|Which|Who|Whose|How|Where|Why)\b(?! if)',
    "a docstring without a subject": r'"""(?:Of|Those|That|The ones?|One|By|As|Also|Not) (?!no )[a-z*:`]',
    "what should be 'no longer'": r"\bany[ ]more\b",
    "what should be 'returns'": r'(?:; |""")[Gg]ives\b|\bgives[ ](?:what|which|whether|how)\b',
    "what should be 'continue'": r"\b[Gg]o(?:es|ing)?[ ]on\b|\bwent[ ]on\b",
    "what should be 'is'": r"\bstands?[ ](?:at|in|behind|below|beside|there|above|under|around|on|together|apart|where|before)\b",
    "a number that is not named": r"\b(?:of|in|by|to|with|after|for|than) (?:so|as) (?:many|much|few|long|often)\b|\bso many \w+s\b",
}

MOST: Final = {
    "a docstring that opens with a question word": (0, 0, 0, 0, 0),
    "a docstring without a subject": (0, 0, 0, 0, 0),
    "what should be 'no longer'": (0, 0, 0, 0, 2),
    "what should be 'returns'": (0, 0, 0, 0, 0),
    "what should be 'continue'": (4, 9, 0, 3, 17),
    "what should be 'is'": (0, 0, 0, 0, 1),
    "a number that is not named": (0, 1, 0, 0, 0),
}
"""The maximum number of each phrase in each area.

The numbers may only be lowered.
"""


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of prose in a file: comments and strings in Python, and text outside code blocks on a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in {tokenize.COMMENT, tokenize.STRING}:
                yield from token.string.splitlines()
        return
    prose = True
    for line in text.splitlines():
        if path.suffix == ".md" and line.lstrip().startswith("```"):
            prose = not prose
        elif prose:
            yield line


@cache
def _prose(area: str) -> tuple[str, ...]:
    files = (path for path in sorted((ROOT / area).rglob("*")) if path.suffix in {".py", ".md", ".toml"})
    ours = (path for path in files if "_shipped" not in path.parts)
    return tuple(line for path in ours for line in _lines(path))


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_becomes_rarer(phrase: str) -> None:
    """The number of uses of *phrase* must equal the recorded number, so that every improvement is recorded."""
    found = tuple(sum(len(re.findall(PHRASES[phrase], line)) for line in _prose(area)) for area in AREAS)

    assert MOST[phrase] == found, f"{phrase}, in {', '.join(AREAS)}: word the new ones differently, or lower the counts"
