"""Convert observations to columns in the simplest way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fsm.trace import Batch, Columns, Key, Made, Observation, key, nanoseconds

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from fsm.trace import Line


class Columned:
    """Builds batches with columns from a recording. With *chance*, some observations are randomly omitted."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance
        self._kinds: list[Observation] = []
        self._numbers: dict[tuple[str, Key], int] = {}

    def batch(self, observations: Sequence[Observation], lines: Sequence[int | Line]) -> Batch:
        ids = {entity: number for number, entity in enumerate(dict.fromkeys(seen.entity for seen in observations))}
        columns = Columns(
            self._kinds,
            np.array([self._kind(seen) for seen in observations], np.int32),
            np.array([ids[seen.entity] for seen in observations], np.int32),
            [*ids],
            np.array([_time(seen) or 0 for seen in observations], np.int64),
        )
        return Batch(Made(len(observations), observations.__getitem__), Made(len(lines), lines.__getitem__), columns)

    def batches(self, observations: Sequence[Observation], size: int) -> Iterator[Batch]:
        """Split *observations* into batches of *size*.

        The number of an observation is its line number.
        """
        for first in range(0, len(observations), size):
            part = observations[first : first + size]
            yield self.batch(part, range(first + 1, first + 1 + len(part)))

    def _kind(self, seen: Observation) -> int:
        if seen.fields or _time(seen) is None or (self._chance is not None and self._chance.random() < 0.05):
            return -1
        number = self._numbers.setdefault((seen.of, key(seen)), len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(Observation(of=seen.of, **key(seen)._asdict()))
        return number


def _time(seen: Observation) -> int | None:
    at = nanoseconds(seen.at)
    return -1 if at is None else at if 0 <= at < 1 << 63 else None
