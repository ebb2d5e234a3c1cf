"""The number of random inputs: few by default, many with ``--hypothesis-profile thorough`` (``.ci/nightly``)."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

TIMES: Final = settings().max_examples // 100
"""Ratio of the number of random inputs in this run to the number in a run forevery change; it is 1 by default."""


def amount(quick: int, *, night: int) -> int:
    """Return *quick* if this run tests a change, or *night* if it is a nightly run."""
    return quick if TIMES == 1 else night
