"""The number of random inputs: few by default, many with ``--hypothesis-profile thorough`` (``.ci/nightly``)."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

TIMES: Final = settings().max_examples // 100
"""Ratio of the number of random inputs of this run to that of the default run."""


def amount(quick: int, *, night: int) -> int:
    return quick if TIMES == 1 else night
