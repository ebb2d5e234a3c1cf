"""Event loop tasks that end with the object that started them, and calls that may be coroutines."""

import asyncio
from collections.abc import Callable, Coroutine
from inspect import isawaitable
from typing import Any, TypeVar

T = TypeVar("T")


class Tasks(set[asyncio.Task[Any]]):
    """A set of running tasks.

    >>> async def example() -> int:
    ...     tasks = Tasks()
    ...     first, second = tasks.start(asyncio.sleep(0, 7)), tasks.start(asyncio.sleep(3600))
    ...     result = await first
    ...     await tasks.cancel()
    ...     return result if second.cancelled() else 0
    >>> asyncio.run(example()), len(Tasks())
    (7, 0)
    """

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(coroutine)
        self.add(task)
        task.add_done_callback(self.discard)
        return task

    async def cancel(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for each in self:
            each.cancel()
        await asyncio.gather(*self, return_exceptions=True)


async def cancel_others() -> None:
    """Cancel all other tasks of the event loop, and wait until they have ended."""
    await Tasks(asyncio.all_tasks() - {asyncio.current_task()}).cancel()


async def perform(act: Callable[[], object]) -> None:
    """Call *act*, and await its result if that is awaitable.

    >>> asyncio.run(perform(lambda: asyncio.sleep(0)))
    """
    result = act()
    if isawaitable(result):
        await result
