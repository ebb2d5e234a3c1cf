"""How far the outputs of an entity have come: those that were seen, or all that could have been."""

from collections.abc import Iterable
from typing import Protocol


class Outputs(Protocol):
    """What came out of an entity, or could have; how far that is, is a number, and 0 at the beginning."""

    def after(self, came: int, emits: tuple[str, ...]) -> int | None:
        """How far it is when *emits* came too; ``None`` if they cannot have come."""

    def anything(self, came: int) -> Iterable[int]:
        """How far it may be when nothing is specified of what came."""

    def whole(self, came: int) -> bool:
        """Whether nothing is missing."""


class Seen:
    """The outputs that were seen."""

    def __init__(self, seen: tuple[str, ...]) -> None:
        self._seen = seen

    def after(self, came: int, emits: tuple[str, ...]) -> int | None:
        after = came + len(emits)
        return after if self._seen[came:after] == emits else None

    def anything(self, came: int) -> Iterable[int]:
        return range(came, len(self._seen) + 1)

    def whole(self, came: int) -> bool:
        return came == len(self._seen)


class Possible:
    """All sequences of up to ``longest`` outputs, whatever was seen."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._known: dict[tuple[str, ...], int] = {(): 0}
        self.sequences: list[tuple[str, ...]] = [()]

    def after(self, came: int, emits: tuple[str, ...]) -> int | None:
        """The number of the sequence with *emits* at its end; ``None`` if that is too long."""
        after = self.sequences[came] + emits
        if len(after) > self._longest:
            return None
        if after not in self._known:
            self._known[after] = len(self.sequences)
            self.sequences.append(after)
        return self._known[after]

    def anything(self, came: int) -> Iterable[int]:
        """Just this one: what is not specified cannot be listed."""
        return (came,)

    def whole(self, _came: int) -> bool:
        return True
