"""Number of random inputs to try: few by default, many with ``--hypothesis-profile thorough`` (``.ci/nightly``)."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

TIMES: Final = settings().max_examples // 100
"""Factor by which a nightly run tries more random inputs than a run for every change."""


def amount(quick: int, *, night: int) -> int:
    """Return *quick* in runs before a change lands, and *night* in a nightly run."""
    return quick if TIMES == 1 else night
