"""Convert the decoded observations of a trace to columns."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fsm.trace import NEVER, Columns, Observation, key, nanoseconds

_MANY: Final = 1 << 16


class DecodedColumns:
    def __init__(self) -> None:
        self._kinds: list[Observation] = []
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, found: Sequence[Observation], *, plain: bool) -> Columns:
        if len(self._kinds) > _MANY:
            self._kinds, self._numbers = [], {}
        numbers, ids = self._numbers, dict[str, int]()
        kinds = [
            numbers.setdefault(
                (each.event, each.phase, each.reply, each.shows, each.met, each.output, each.emits, each.of),
                len(numbers),
            )
            for each in found
        ]
        if len(numbers) > len(self._kinds):
            examples = dict(zip(kinds, found, strict=True))
            new = [examples[number] for number in range(len(self._kinds), len(numbers))]
            self._kinds += [Observation(of=seen.of, **key(seen)._asdict()) for seen in new]
        entities = np.array([ids.setdefault(each.entity, len(ids)) for each in found], np.int32)
        at = _times([each.at for each in found], plain=plain)
        alone = (at < 0) & (at != NEVER)
        alone |= np.array([bool(each.fields or each.args) for each in found], np.bool_)
        return Columns(self._kinds, np.where(alone, -1, np.array(kinds, np.int32)), entities, [*ids], at)


def _times(times: list[int | str | None], *, plain: bool) -> NDArray[np.int64]:
    texts = [each[:-1] for each in times if isinstance(each, str) and each[-1:] == "Z"] if plain else []
    if len(texts) == len(times):
        return np.array(texts, "datetime64[ns]").astype(np.int64)
    return np.array([NEVER if (at := nanoseconds(each)) is None else at for each in times], np.int64)
