"""What the SUTs of all references share: replies, a scratch folder, turns of the event loop."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from os import W_OK, access
from pathlib import Path
from typing import Final

from fsm.machine.driver import CannotHappenError
from fsm.reference.driven import ReplyError, driver
from fsm.sut import UnsupportedError, drained

MEMORY: Final = "/dev/shm"  # noqa: S108  (names in it are random)
"""A file system in memory, where syncing a file takes no time; to a process that crashes it is a disk."""


class ScopedSUT:
    """A SUT that keeps what it has to release in ``_scope``, which is closed at each reset and at the end."""

    def __init__(self) -> None:
        self._scope = ExitStack()
        self.reset()

    def reset(self) -> None:
        self._scope.close()

    def close(self) -> None:
        self._scope.close()


class EmittingSUT(ScopedSUT):
    """A SUT that collects its outputs in ``_outputs``."""

    def reset(self) -> None:
        super().reset()
        self._outputs: list[str] = []

    def outputs(self) -> list[str]:
        return drained(self._outputs)


def reply(machine: str, event: str, act: Callable[[], object]) -> str:
    """The reply of *event* of the machine called *machine*, which *act* makes happen.

    It is ``ok``, the code of an error, or the empty string if *event* is not
    a call.  Raises :class:`~fsm.sut.UnsupportedError` for an event that the
    machine has not, or that is not possible now.

    >>> reply("event-monitor", "start", lambda: None), reply("cri-pod", "stop", lambda: None)
    ('', 'ok')
    """
    known = driver(machine).machine.events.get(event)
    if known is None:
        raise UnsupportedError(f"the reference of {machine} has no event {event!r}")
    try:
        act()
    except ReplyError as error:
        return error.code
    except CannotHappenError as error:
        raise UnsupportedError(str(error)) from error
    return "ok" if known.kind == "call" else ""


def dispatch(machine: str, event: str, actions: Mapping[str, Callable[[], object]]) -> str:
    """The reply of *event* as :func:`reply` has it; *actions* has the function for each event."""

    def act() -> None:
        actions[event]()

    return reply(machine, event, act)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder for the files of a SUT, in memory if possible; it is deleted at the end."""
    home = Path(tempfile.mkdtemp(prefix="fsm-", dir=MEMORY if access(MEMORY, W_OK) else None))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def turns(count: int) -> None:
    """Let the other tasks of the event loop run *count* times."""
    for _ in range(count):
        await asyncio.sleep(0)
