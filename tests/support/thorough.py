"""Choose the number of random inputs according to the Hypothesis profile.

The default number is small. The profile ``thorough``, which ``.ci/nightly`` uses, makes it large; the profile
``moderate`` makes it a quarter as large as ``thorough`` does.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

TIMES: Final = settings().max_examples // 100
"""The number of random inputs in this run, as a multiple of the default number."""

_THOROUGH: Final = 20  # TIMES with the profile ``thorough``


def amount(quick: int, *, night: int) -> int:
    """Return *quick* for the default profile, and *night* for the profile ``thorough``.

    For a profile in between, return a proportional part of *night*. The result is never less than *quick*.
    """
    return quick if TIMES == 1 else max(quick, night * TIMES // _THOROUGH)
