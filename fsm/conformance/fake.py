"""Fakes for what lies outside of an async class, whose calls a test completes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, cast


@dataclass(eq=False, slots=True, kw_only=True)
class Call:
    """A call of the tested class, with the outcomes that its next stages should have.

    ``waiting`` and ``timers`` belong to the call and to the tasks that it has started. ``as_arranged`` is false if the
    call has returned although it should be in progress.
    """

    event: str
    outcomes: list[str] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    cancelled: bool = False
    as_arranged: bool = True
    task: asyncio.Task[Any] = field(init=False)


CALL: Final[ContextVar[Call | None]] = ContextVar("fsm_call", default=None)
"""The call during which the current task was started."""


class Waiting:
    """A call of a fake that waits for its result."""

    def __init__(self, fake: Fake, args: tuple[object, ...], options: Mapping[str, object]) -> None:
        self.fake, self._args, self._options = fake, args, options
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.task, self.call, self.hangs = asyncio.current_task(), CALL.get(), False

    @property
    def pending(self) -> bool:
        return not self.future.done() and not self.hangs

    def complete(self, outcome: str) -> None:
        result = self.fake.outcomes.get(outcome, self.fake.result)
        self.hangs = result is Fake.HANG
        try:
            if callable(result) and not _is_error(result):
                result = result(*self._args, **self._options)
        except Exception as error:  # noqa: BLE001  (it is what the fake raises)
            result = error
        if _is_error(result):
            raises: BaseException = result() if isinstance(result, type) else cast("BaseException", result)
            self.future.set_exception(raises.with_traceback(None))
        elif not self.hangs:
            self.future.set_result(result)


class Fake:
    """An async function that stands for something outside of the tested class, such as a function that connects.

    Each call waits until a test completes it, with *result* or with the result of one of the *outcomes*, which are
    named as in the model. A result that is an exception is raised; if it is callable, it is called with the arguments
    of the call. With the result :attr:`HANG`, the call never ends.

    >>> connect = Fake(outcomes={"connected": "a stream", "refused": OSError("refused")})
    >>> async def use() -> str:
    ...     connecting = asyncio.create_task(connect())
    ...     await asyncio.sleep(0)
    ...     assert connect.waiting == 1
    ...     connect.complete("connected")
    ...     return await connecting
    >>> asyncio.run(use())
    'a stream'
    """

    HANG: Final = object()

    def __init__(self, result: object = None, *, outcomes: Mapping[str, object] | None = None) -> None:
        self.result, self.outcomes = result, dict(outcomes or {})
        self._waiting: list[Waiting] = []

    async def __call__(self, *args: object, **options: object) -> Any:  # noqa: ANN401
        waiting = Waiting(self, args, options)
        lists = [self._waiting, *([waiting.call.waiting] if waiting.call is not None else [])]
        for each in lists:
            each.append(waiting)
        try:
            return await waiting.future
        finally:
            for each in lists:
                each.remove(waiting)

    @property
    def waiting(self) -> int:
        """The number of calls that wait for their result."""
        return sum(not each.future.done() for each in self._waiting)

    def complete(self, outcome: str = "") -> bool:
        """Complete the oldest waiting call with *outcome*. Return whether there was one."""
        return self.complete_where(lambda _: True, outcome)

    def complete_where(self, chosen: Callable[[Waiting], bool], outcome: str) -> bool:
        oldest = next((each for each in self._waiting if each.pending and chosen(each)), None)
        if oldest is not None:
            oldest.complete(outcome)
        return oldest is not None


def _is_error(result: object) -> bool:
    return isinstance(result, BaseException) or (isinstance(result, type) and issubclass(result, BaseException))
