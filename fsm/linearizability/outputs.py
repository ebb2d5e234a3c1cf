"""How far the outputs of an entity have come: those that were seen, or all that could have been."""

from collections.abc import Iterable
from typing import TypeAlias

from fsm.machine.traversal import Numbering


class Seen:
    """The outputs that were seen.  How far they have come is a number, and 0 at the beginning."""

    def __init__(self, seen: tuple[str, ...]) -> None:
        self._seen = seen

    def after(self, came: int, emits: tuple[str, ...]) -> int | None:
        """How far they have come when *emits* came too; ``None`` if they cannot have come."""
        after = came + len(emits)
        return after if self._seen[came:after] == emits else None

    def anything(self, came: int) -> Iterable[int]:
        """How far they may have come when nothing is specified of what came."""
        return range(came, len(self._seen) + 1)

    def whole(self, came: int) -> bool:
        """Whether nothing is missing."""
        return came == len(self._seen)


class Possible:
    """All sequences of up to *longest* outputs, by number, whatever was seen; as far as they have come."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._numbers = Numbering[tuple[str, ...]]([()])
        self.sequences = self._numbers.listed

    def after(self, came: int, emits: tuple[str, ...]) -> int | None:
        """The number of the sequence with *emits* at its end; ``None`` if that is too long."""
        after = self.sequences[came] + emits
        return self._numbers[after] if len(after) <= self._longest else None

    def anything(self, came: int) -> Iterable[int]:
        """Just this one: what is not specified cannot be listed."""
        return (came,)

    def whole(self, _came: int) -> bool:
        return True


Outputs: TypeAlias = Seen | Possible
