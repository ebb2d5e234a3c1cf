"""Choose the number of random inputs by the Hypothesis profile.

The default number is small. ``--hypothesis-profile thorough``, as in ``.ci/nightly``, makes it large.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

TIMES: Final = settings().max_examples // 100
"""The number of random inputs in this run, as a multiple of the default number."""


def amount(quick: int, *, night: int) -> int:
    return quick if TIMES == 1 else night
