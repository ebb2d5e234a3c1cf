"""Base classes for code that a machine drives, and for the SUTs that test this code."""

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
    """A request to the environment was refused, failed or was not answered."""


@cache
def driver(name: str, profile: str = "") -> Driver:
    return Driver(load(name).under(profile))


class Driven:
    """Base class of objects whose state is kept by a machine.

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
        return self.position.shows

    def choices(self, event: str, *, ends: bool = False) -> tuple[Outcome, ...]:
        """Return the outcomes of *event* that the code may choose.

        If *ends* is true, return the outcomes of the end of the event. Deviations are left out, because the
        environment decides about them. An absent entity has no environment, so if it can deviate, only its deviations
        are returned.
        """
        ways = self.position.outcomes(event, ends=ends)
        deviating = self.position.shows == ABSENT and any(way.deviation for way in ways)
        return tuple(way for way in ways if bool(way.deviation) == deviating)

    def offered(self, event: str) -> set[str]:
        return {way.name for way in self.choices(event)}

    def is_noop(self, event: str) -> bool:
        """Check whether *event* leaves the entity's state unchanged. Such an event does not change its data either."""
        ways = self.choices(event)
        return len(ways) == 1 and ways[0].to == self.state

    def take(self, event: str, outcome: str = "", *, ends: bool = False) -> Outcome:
        if not outcome and len(ways := self.choices(event, ends=ends)) == 1:
            outcome = ways[0].name
        return self.position.take(event, outcome, ends=ends)


def first_of(names: Collection[str], *wanted: str) -> str:
    """Return the first outcome in *wanted* that is also in *names*, or an empty string if there is none.

    >>> first_of({"created", "failed"}, "started", "failed")
    'failed'
    """
    return next((name for name in wanted if name in names), "")


def raise_reply(event: str, way: Outcome, why: str, code: str = UNKNOWN) -> None:
    """Raise :class:`CallError` if the outcome *way* replies with an error. If it allows any error, use *code*."""
    if not way.begins and way.reply and not way.replies("ok"):
        raise CallError(event, code if way.reply[0] == ANY_ERROR else way.reply[0], why)


Damage: TypeAlias = Callable[[bytes], bytes | None]

EFFECTS: Final = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})

DAMAGE: Final[tuple[Damage, ...]] = (lambda data: data[: len(data) // 2], lambda _: None, lambda _: b"")
"""Functions that damage a file's content, as a crash might. The result ``None`` means that the file is deleted."""


class CrashedError(BaseException):
    """A simulated crash of the process. It is not an :class:`Exception`, so that no error handler catches it."""


class Faults(set[str]):
    """The failures to inject: the names of steps that fail, and possibly a crash of the process under test.

    The process crashes just before an effect, which is a change to its environment or to the directory *home*. After
    the crash, ``crashed`` is true and every further effect fails, so that cleanup code cannot hide the crash.
    """

    def __init__(self, home: Path | None = None) -> None:
        super().__init__()
        self._home = home
        self._left: int | None = None
        self.crashed = False

    def point(self, name: str, *, effect: bool = True) -> None:
        """Raise :class:`WorldError` if the step *name* is to fail. Otherwise, if *effect* is true, count an effect."""
        if name in self:
            raise WorldError(f"cannot {name}")
        if effect:
            self.effect()

    @contextmanager
    def crash_at(self, effect: int) -> Iterator[None]:
        """Crash this thread within the context, just before the effect with the index *effect*."""
        _install_audit_hook()
        self._left, self.crashed = effect, False
        _THREAD.faults = self
        try:
            yield
        finally:
            _THREAD.faults = None
            self._left = None

    def effect(self) -> None:
        if self._left is None:
            return
        if self._left == 0:
            self.crashed = True
            raise CrashedError
        self._left -= 1

    def count_audit_event(self, event: str, path: object, *arguments: object) -> None:
        reads = event == "open" and isinstance(arguments[1], int) and not arguments[1] & (O_WRONLY | O_RDWR)
        if isinstance(path, str | PathLike) and str(path).startswith(f"{self._home}/") and not reads:
            self.effect()


class _Thread(threading.local):
    faults: Faults | None = None


_THREAD: Final = _Thread()


@cache
def _install_audit_hook() -> None:
    """Install the audit hook when it is first needed, because it slows down the process and cannot be removed."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in EFFECTS and _THREAD.faults is not None:
            _THREAD.faults.count_audit_event(event, *arguments)

    sys.addaudithook(hook)


def damage(file: Path, how: Damage) -> None:
    data = how(file.read_bytes())
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)


def hide(folder: Path) -> None:
    folder.rename(folder.with_name("away"))


def restore(folder: Path) -> None:
    away = folder.with_name("away")
    if away.exists():
        away.rename(folder)


MEMORY: Final = "/dev/shm"  # noqa: S108  (the file names are random)
"""An in-memory file system, where syncing is free. Like a disk, it survives a crash of the process."""

Action = Callable[[], object]

K = TypeVar("K")


class ReferenceSUT(Generic[K]):
    """Base class of the SUTs of the reference implementation.

    ``_actions`` maps events to functions that make them happen, and ``_outputs`` collects the outputs. ``faults`` apply
    to one event. ``_scope`` is closed at each reset and at the end.

    *kind* is the class under test, for example one with a planted bug. By default, it is the last class in ``kinds`` if
    *profile* includes one of ``profiles``, and the first class otherwise.
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
        """Map events to the functions that make them happen. A :class:`LoopSUT` may use coroutine functions."""
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
        with self.faults.crash_at(point), suppress(CrashedError):
            self._attempt(event, lambda: self._happen(event))

    def _run(self, act: Action) -> None:
        act()

    def _clear_faults(self) -> None:
        self.faults.clear()


class LoopSUT(ReferenceSUT[K]):
    """Base class of SUTs whose events happen on an event loop, which then runs for ``turns`` more iterations.

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
    """Map each event to the equally named method of *subject*, called with *arguments*. Hyphens become underscores.

    >>> methods([3, 4], "count", arguments=(4,))["count"]()
    1
    """
    return {event: partial(getattr(subject, event.replace("-", "_")), *arguments) for event in events}


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
