"""How much is tried: once what is quick, many times that with ``--hypothesis-profile thorough``, as ``.ci/nightly`` has it."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

TIMES: Final = settings().max_examples // 100
"""Times as many random inputs as in a run for every change."""


def amount(quick: int, *, night: int) -> int:
    """*quick* for every change, and *night* where more is tried."""
    return quick if TIMES == 1 else night
