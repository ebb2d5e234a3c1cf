"""What is made in order, and taken back in the opposite one."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Final, NamedTuple

from fsm.reference.container.world import WorldError
from fsm.reference.driven import CallError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    Act: TypeAlias = Callable[[], object]

FAULTS: Final = (WorldError, OSError, CallError)
"""What goes wrong in the world, on the disk, or where others are asked."""


class Stage(NamedTuple):
    """How something is made, and how that is taken back, whether it was made, or half, or not at all."""

    make: Act
    unmake: Act = bool


class BackwardsError(Exception):
    """Not all could be made, and the first ``kept`` stages of it could not be taken back."""

    def __init__(self, why: str, kept: int = 0) -> None:
        """It failed: *why*."""
        super().__init__(why)
        self.kept = kept


async def make(stages: Iterable[Stage]) -> None:
    """Make them all, or none; from the first on that cannot be taken back all that was made before it is kept.

    Raises :class:`BackwardsError`.

    >>> import asyncio
    >>> def fail() -> None:
    ...     raise WorldError("no")
    >>> said = []
    >>> stages = [Stage(lambda: said.append("made"), lambda: said.append("unmade")), Stage(fail)]
    >>> try:
    ...     asyncio.run(make(stages))
    ... except BackwardsError as error:
    ...     print(error, said)
    no ['made', 'unmade']
    """
    begun: list[Stage] = []
    for stage in stages:
        begun.append(stage)
        try:
            await done(stage.make)
        except FAULTS as error:
            raise BackwardsError(str(error), await unmake(begun)) from error


async def unmake(stages: Sequence[Stage]) -> int:
    """Take *stages* back, the last first, until one cannot be: how many are left."""
    for left in range(len(stages), 0, -1):
        try:
            await done(stages[left - 1].unmake)
        except FAULTS:
            return left
    return 0


async def done(act: Act) -> None:
    """Do it, and wait for it if need be."""
    result = act()
    if isawaitable(result):
        await result
