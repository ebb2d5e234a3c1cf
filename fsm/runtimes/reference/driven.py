"""Shared bases of the reference implementation: for code driven by a machine, and for the SUTs that test this code.

Code has its driver, choice of outcomes, and conversion of errors to replies. SUTs have replies, faults, a scratch
directory, and event loop turns.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from os import O_RDWR, O_WRONLY, W_OK, PathLike, access
from pathlib import Path
from typing import ClassVar, Final, Generic, TypeAlias, TypeVar

from fsm.language.library import load
from fsm.machine import ANY_ERROR, Outcome
from fsm.machine.driver import CannotHappenError, Driver, Position
from fsm.runtimes.reference.clock import cancel_others, perform
from fsm.scratch import ScratchFolder
from fsm.sut import UnsupportedError, drained

ABSENT: Final = "absent"
"""Name of the state in which an entity does not exist. All machines of entities use this name."""

UNKNOWN: Final = "UNKNOWN"
"""Error code used when containerd returns no specific code."""


class ReplyError(Exception):
    """Raised to answer a call with the error ``code``."""

    code: str = UNKNOWN


class CallError(ReplyError):
    """The call ``event`` was refused or failed."""

    def __init__(self, event: str, code: str, why: str) -> None:
        super().__init__(f"{event}: {code}: {why}")
        self.event = event
        self.code = code
        self.why = why


class WorldError(Exception):
    """The environment refused or failed to perform a request, or did not answer."""


@cache
def driver(name: str, profile: str = "") -> Driver:
    """Return the driver of the machine called *name*, under *profile* if it is not empty."""
    return Driver(load(name).under(profile))


class Driven:
    """An object that a machine drives. The state of the object is the state of its ``position``.

    >>> exited = Driven(driver("container-status", "containerd-1.6").position("exited"))
    >>> exited.state, exited.offered("stop"), exited.is_noop("stop"), exited.take("stop").reply
    ('exited', {'ignored'}, True, ('ok',))
    >>> Driven(driver("container-status", "containerd-1.6").position()).take("stop").reply
    ('NOT_FOUND',)
    """

    def __init__(self, position: Position) -> None:
        self.position = position

    @property
    def state(self) -> str:
        return self.position.state

    @property
    def shows(self) -> str:
        """The state that an observer sees."""
        return self.position.shows

    def choices(self, event: str, *, ends: bool = False) -> tuple[Outcome, ...]:
        """Return the outcomes among which the code can choose.

        They are outcomes of *event* or, if *ends* is true, of the end of the call *event*. Deviations are excluded,
        because the environment of an entity decides whether the entity deviates. An absent entity has no environment.
        If an absent entity can deviate, only its deviations are returned.
        """
        ways = self.position.outcomes(event, ends=ends)
        deviating = self.position.shows == ABSENT and any(way.deviation for way in ways)
        return tuple(way for way in ways if bool(way.deviation) == deviating)

    def offered(self, event: str) -> set[str]:
        """Return the names of the outcomes of *event* among which the code can choose."""
        return {way.name for way in self.choices(event)}

    def is_noop(self, event: str) -> bool:
        """Check whether *event* must leave the entity's state unchanged. Such an event has no effect on data."""
        ways = self.choices(event)
        return len(ways) == 1 and ways[0].to == self.state

    def refusal(self, event: str) -> Outcome | None:
        """Return a deviation that refuses *event*, or ``None`` if there is none. An absent entity has none.

        >>> refused = Driven(driver("container-status", "containerd-1.6").position("exited")).refusal("stop")
        >>> refused and refused.reply
        ('NOT_FOUND',)
        """
        ways = () if self.position.shows == ABSENT else self.position.outcomes(event)
        return next(
            (way for way in ways if way.deviation and way.reply and not way.replies("ok") and way.to == self.state),
            None,
        )

    def take(self, event: str, outcome: str = "", *, ends: bool = False) -> Outcome:
        """Let *event* happen with *outcome*. By default, use the only possible outcome."""
        if not outcome and len(ways := self.choices(event, ends=ends)) == 1:
            outcome = ways[0].name
        return self.position.take(event, outcome, ends=ends)


def first_of(names: Collection[str], *wanted: str) -> str:
    """Return the first of the *wanted* outcomes that is in *names*, or an empty string.

    >>> first_of({"created", "failed"}, "started", "failed")
    'failed'
    """
    return next((name for name in wanted if name in names), "")


def raise_reply(event: str, way: Outcome, why: str, code: str = UNKNOWN) -> None:
    """Raise :class:`CallError` if the reply of *way* is an error. *code* is used if the reply is "any error".

    >>> raise_reply("create", driver("container-status").position().take("create", "failed"), "disk full")
    Traceback (most recent call last):
    fsm.runtimes.reference.driven.CallError: create: UNKNOWN: disk full
    """
    if not way.begins and way.reply and not way.replies("ok"):
        raise CallError(event, code if way.reply[0] == ANY_ERROR else way.reply[0], why)


Damage: TypeAlias = Callable[[bytes], bytes | None]

EFFECTS: Final = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})
"""Python audit events of operations that change the disk."""

DAMAGE: Final[tuple[Damage, ...]] = (lambda data: data[: len(data) // 2], lambda _: None, lambda _: b"")
"""Kinds of damage that a crash may do to a file: the file is cut in half, deleted, or emptied."""


class CrashedError(BaseException):
    """Raised where the process crashes. It is not an :class:`Exception`, so that no error handler catches it."""


class Faults(set[str]):
    """The names of the points that fail, and an optional crash of the process under test.

    The process crashes before one of its effects. An effect changes the environment of the process or the disk below
    *home*. Once ``crashed`` is true, every further effect fails too, so that cleanup has no effect either.
    """

    def __init__(self, home: Path | None = None) -> None:
        super().__init__()
        self._home = home
        self._left: int | None = None
        self.crashed = False

    def point(self, name: str, *, effect: bool = True) -> None:
        """Raise :class:`WorldError` if *name* is a fault. Otherwise, count an effect unless *effect* is false."""
        if name in self:
            raise WorldError(f"cannot {name}")
        if effect:
            self.effect()

    @contextmanager
    def crash_at(self, effect: int) -> Iterator[None]:
        """Within the context, crash this thread before its effect number *effect*. Effects are counted from 0."""
        _audit()
        self._left, self.crashed = effect, False
        _THREAD.faults = self
        try:
            yield
        finally:
            _THREAD.faults = None
            self._left = None

    def effect(self) -> None:
        """Count an effect that will happen next. Raise :class:`CrashedError` if the process must crash before it."""
        if self._left is None:
            return
        if self._left == 0:
            self.crashed = True
            raise CrashedError
        self._left -= 1

    def audited(self, event: str, path: object, *arguments: object) -> None:
        """Count the audit event *event*, one of :data:`EFFECTS`, as an effect if it writes below *home*."""
        reads = event == "open" and isinstance(arguments[1], int) and not arguments[1] & (O_WRONLY | O_RDWR)
        if isinstance(path, str | PathLike) and str(path).startswith(f"{self._home}/") and not reads:
            self.effect()


class _Thread(threading.local):
    faults: Faults | None = None


_THREAD: Final = _Thread()


@cache
def _audit() -> None:
    """Install the audit hook at the first call only. The hook cannot be removed, and slows down the whole process."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in EFFECTS and _THREAD.faults is not None:
            _THREAD.faults.audited(event, *arguments)

    sys.addaudithook(hook)


def damage(file: Path, how: Damage) -> None:
    """Replace the content of *file* with the result of *how(content)*. Delete the file if the result is ``None``."""
    data = how(file.read_bytes())
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)


def hide(folder: Path) -> None:
    """Move *folder* away, so that nothing can be written to it."""
    folder.rename(folder.with_name("away"))


def restore(folder: Path) -> None:
    """Move *folder* back if it was hidden."""
    away = folder.with_name("away")
    if away.exists():
        away.rename(folder)


MEMORY: Final = "/dev/shm"  # noqa: S108  (names in it are random)
"""An in-memory file system, where syncing is free. Like a disk, it survives a crash of the process."""

Action = Callable[[], object]

K = TypeVar("K")


class ReferenceSUT(Generic[K]):
    """A SUT that makes events happen through ``_actions`` and collects their outputs in ``_outputs``.

    ``_scope`` is closed at each reset and at the end. ``faults`` apply to one event. *kind* is the class under test,
    which may have planted bugs. By default, it is the last class in ``kinds`` if *profile* includes one of
    ``profiles``, and the first class in ``kinds`` if it does not.
    """

    machine: ClassVar[str]
    kinds: tuple[type[K], ...]
    profiles: ClassVar[tuple[str, ...]] = ("upstream",)

    def __init__(self, profile: str = "", kind: type[K] | None = None) -> None:
        self._profile = profile
        self._kind = kind or self.kinds[-1 if {*profile.split("+")} & {*self.profiles} else 0]
        self._scope = ExitStack()
        self.reset()

    def reset(self) -> None:
        self._scope.close()
        self._outputs: list[str] = []
        self.faults = Faults()

    def _new_folder(self) -> Path:
        return Path(self._scope.enter_context(ScratchFolder(MEMORY if access(MEMORY, W_OK) else None)))

    def outputs(self) -> Sequence[str]:
        return drained(self._outputs)

    def close(self) -> None:
        self._scope.close()

    def do(self, event: str) -> str:
        return self._reply(event, lambda: self._happen(event))

    def _happen(self, event: str) -> object:
        actions = self._actions()
        if event not in actions:
            raise UnsupportedError(f"the reference of {self.machine} has no event {event!r}")
        return actions[event]()

    def _actions(self) -> Mapping[str, Action]:
        """Map each event to the function that makes it happen. On an event loop, this may be a coroutine function."""
        raise NotImplementedError

    def _reply(self, event: str, act: Action) -> str:
        try:
            return self._attempt(event, act)
        finally:
            self._clear_faults()

    def _attempt(self, event: str, act: Action) -> str:
        known = driver(self.machine).machine.events.get(event)
        if known is None:
            raise UnsupportedError(f"the reference of {self.machine} has no event {event!r}")
        code = "ok"
        try:
            self._run(act)
        except ReplyError as error:
            code = error.code
        except CannotHappenError as error:
            raise UnsupportedError(str(error)) from error
        return code if known.kind == "call" else ""

    def _crash(self, event: str, point: int) -> None:
        """Let *event* happen, but crash before its effect number *point*. :class:`CrashedError` is not raised."""
        with self.faults.crash_at(point), suppress(CrashedError):
            self._attempt(event, lambda: self._happen(event))

    def _run(self, act: Action) -> None:
        act()

    def _clear_faults(self) -> None:
        self.faults.clear()


class LoopSUT(ReferenceSUT[K]):
    """A SUT whose events happen on one event loop. After each event, the loop runs ``turns`` turns.

    The resources in ``_lasting`` are released only when the SUT is closed.
    """

    turns: ClassVar[int] = 0

    def __init__(self, profile: str = "", kind: type[K] | None = None) -> None:
        self._lasting = ExitStack()
        self._runner = self._lasting.enter_context(asyncio.Runner())
        super().__init__(profile, kind)

    def reset(self) -> None:
        super().reset()
        self._runner.run(cancel_others())

    def close(self) -> None:
        super().close()
        self._lasting.close()

    def _run(self, act: Action) -> None:
        self._runner.run(self._settle(act))

    async def _settle(self, act: Action) -> None:
        await perform(act)
        await turns(self.turns)


def methods(subject: object, *events: str, arguments: tuple[object, ...] = ()) -> dict[str, Action]:
    """Map each event in *events* to a function that calls the method of *subject* with that name and *arguments*.

    >>> methods([3, 4], "count", arguments=(4,))["count"]()
    1
    """
    return {event: partial(getattr(subject, event.replace("-", "_")), *arguments) for event in events}


async def turns(count: int) -> None:
    """Let the other tasks of the event loop run *count* times."""
    for _ in range(count):
        await asyncio.sleep(0)
