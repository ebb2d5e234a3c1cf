"""Stages that are made in order, and undone in reverse order."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from fsm.runtimes.reference.driven import CallError, WorldError
from fsm.runtimes.reference.tasks import perform

FAILURES: Final = (WorldError, OSError, CallError)
"""Errors of the world, of the disk, and of calls to other components."""


class Stage(NamedTuple):
    """A function that makes something, and one that unmakes it even if it was made only partly or not at all."""

    make: Callable[[], object]
    unmake: Callable[[], object] = bool


class MakeError(Exception):
    """A stage could not be made, and the first ``left`` stages could not be unmade."""

    def __init__(self, why: str, left: int = 0) -> None:
        super().__init__(why)
        self.left = left


async def make(stages: Iterable[Stage]) -> None:
    """Make all stages. If one fails, unmake it and those before it, up to the first that cannot be unmade.

    Raise :class:`MakeError` if a stage fails.

    >>> import asyncio
    >>> def fail() -> None:
    ...     raise WorldError("no")
    >>> done = []
    >>> stages = [Stage(lambda: done.append("made"), lambda: done.append("unmade")), Stage(fail)]
    >>> try:
    ...     asyncio.run(make(stages))
    ... except MakeError as error:
    ...     print(error, done)
    no ['made', 'unmade']
    """
    begun: list[Stage] = []
    for stage in stages:
        begun.append(stage)
        try:
            await perform(stage.make)
        except FAILURES as error:
            raise MakeError(str(error), await unmake(begun)) from error


async def unmake(stages: Sequence[Stage]) -> int:
    """Unmake *stages* in reverse order until one fails. Return the number of stages that are left."""
    for left in range(len(stages), 0, -1):
        try:
            await perform(stages[left - 1].unmake)
        except FAILURES:
            return left
    return 0
