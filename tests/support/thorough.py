"""Scale the number of random inputs with the Hypothesis profile.

There are few by default, and many with ``--hypothesis-profile thorough`` (``.ci/nightly``).
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

TIMES: Final = settings().max_examples // 100
"""The ratio of random inputs in this run to those in the default run."""


def amount(quick: int, *, night: int) -> int:
    return quick if TIMES == 1 else night
