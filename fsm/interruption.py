"""Early ends of a command: interrupted, out of time, out of memory, or an error in fsm."""

from __future__ import annotations

import atexit
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

if TYPE_CHECKING:
    from asyncio import Event

INTERRUPTED: Final = 130
INTERNAL_ERROR: Final = 70
"""From ``sysexits.h``: an error in fsm itself; there is no verdict."""

OUT_OF_TIME: Final = "unknown: out of time; 'fsm --seconds N COMMAND ...' gives it more seconds of computing"
OUT_OF_MEMORY: Final = "unknown: out of memory; 'fsm --memory MIB COMMAND ...' gives it more"

_STARVED: Final = (
    "unknown: ended without a verdict, probably out of memory; 'fsm --memory MIB COMMAND ...' gives it more"
)

_ENDING: Final = tuple(each for each in signal.Signals if each.name in {"SIGINT", "SIGTERM", "SIGHUP"})
_LOOK: Final = 0.05
"""Seconds of computing between two checks of what was used: less than it takes to fill much memory."""


_GRACE: Final = 10.0
"""Seconds of computing after which a command that was asked to end is interrupted."""

_ECHO: Final = 1.0
"""Seconds in which a repeated signal is ignored: ``timeout`` sends its signal to a process and then to its group."""


class Interruption:
    """Lets a signal end the command, which cleans up; nothing that it still finds is a verdict.

    The exception may get lost, for example in a finalizer, or be caught by code that treats it as a failure of the
    system under test.  So from the first signal on nothing is written to standard output, and the exit code is settled.
    """

    def __init__(self) -> None:
        self.came = False
        self.over = ""
        self._ends, self._most = 0.0, 0
        self._excess: list[str] | None = None
        self._end: Callable[[], object] | None = None
        self._asked: tuple[int, float] | None = None
        self._left_to_loop = False
        self._code: int | None = None
        self._supervisor: int | None = None

    def supervise(self) -> None:
        """Continue in a child process, whose end becomes *unknown* unless it has told the parent its exit code.

        Under a memory limit, libraries end a process in ways it cannot catch: OpenBLAS calls ``exit(1)``, C++ aborts.
        """
        reading, writing = os.pipe()
        os.set_blocking(reading, False)  # processes left behind by the child may keep the other end open
        awaited = {signal.SIGCHLD, *(each for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN)}
        signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
        child = os.fork()
        if not child:
            self._supervisor = writing
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # OpenBLAS takes memory for each thread
            signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
            return
        # The signals stay blocked and are awaited: a signal just before a wait for the child would be handled only
        # after it.
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler it may be dropped, although it is blocked
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if (number := signal.sigwait(awaited)) != signal.SIGCHLD:
                os.kill(child, number)
        code = os.waitstatus_to_exitcode(ended[1])
        with suppress(BlockingIOError):
            if told := os.read(reading, 1):
                os._exit(told[0])
        if code == -signal.SIGPIPE:
            os.kill(os.getpid(), signal.SIGPIPE)
        with suppress(OSError):
            os.write(2, f"{_STARVED}\n".encode())
        os._exit(3)  # UNDECIDED, whose module is not imported here

    def expect(self) -> None:
        """Handle the signals that end a command."""
        handled = [each for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN]  # nohup ignores SIGHUP
        for each in handled:
            signal.signal(each, self)
        # Python resets handlers before it frees modules; a signal in these milliseconds would change the exit code.
        atexit.register(lambda: [signal.signal(each, signal.SIG_IGN) for each in handled])

    def settle(self, code: int) -> None:
        """Make *code* the exit code, whatever signal follows, unless one came already: the verdict has been printed.

        A signal within a second is ignored; a later one ends the process immediately, in case the clean-up hangs.
        """
        if not self.came:
            self._asked = 0, time.monotonic()
            self._code = code
            if self._supervisor is not None and code != INTERNAL_ERROR:
                os.write(self._supervisor, bytes([code]))

    @contextmanager
    def limited(self, seconds: float, memory: int) -> Iterator[None]:
        """Interrupt a command that computes for more than *seconds*, or takes more than *memory* bytes.

        Child processes do not count.  The system refuses a single allocation that far exceeds *memory*.  Its limit
        cannot be lower, because Python may loop for ever if there is not even memory for handling an error.
        """
        try:
            import resource  # noqa: PLC0415
        except ImportError:  # Windows, which has no timers either
            yield
            return
        data = resource.getrlimit(resource.RLIMIT_DATA)
        lowest = min(each for each in (*data, memory * 5 // 4) if each >= 0)
        resource.setrlimit(resource.RLIMIT_DATA, (lowest, data[1]))
        before = signal.signal(signal.SIGPROF, self._look)
        self._ends, self._most = time.process_time() + seconds, memory
        signal.setitimer(signal.ITIMER_PROF, min(_LOOK, seconds), _LOOK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
            resource.setrlimit(resource.RLIMIT_DATA, data)

    @contextmanager
    def softly(self) -> Iterator[Callable[[], str]]:
        """Yield a function that returns :data:`OUT_OF_TIME` or :data:`OUT_OF_MEMORY` once a limit is exceeded, else "".

        A command that then ends is not interrupted, unless it takes a tenth more memory, or some more seconds.
        """
        excess: list[str] = []
        self._excess = excess
        try:
            yield lambda: excess[0] if excess else ""
        finally:
            self._excess = None

    @contextmanager
    def ends(self, end: Callable[[], object]) -> Iterator[None]:
        """Let a signal call *end*, for a command that does not end by itself; another signal interrupts the command.

        The same signal within a second does not count as another one.
        """
        self._end = end
        try:
            yield
        finally:
            self._end = None

    @contextmanager
    def sets(self) -> Iterator[Event]:
        """Yield an event of the running loop that a signal sets, like :meth:`ends`."""
        from asyncio import Event, get_running_loop  # noqa: PLC0415  (other commands need no loop)
        from socket import socketpair  # noqa: PLC0415

        over, loop = Event(), get_running_loop()
        woken, waking = socketpair()
        with woken, waking, self.ends(lambda: loop.call_soon_threadsafe(over.set)):
            woken.setblocking(False)  # noqa: FBT003
            waking.setblocking(False)  # noqa: FBT003
            # A signal just before the loop waits would be handled only when something else wakes it.
            loop.add_reader(woken, woken.recv, 64)
            before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
            try:
                yield over
            finally:
                signal.set_wakeup_fd(before)
                loop.remove_reader(woken)

    def without_end(self) -> None:
        """Remove the limit on computing time."""
        self._ends = math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del frame
        now = time.monotonic()
        if self._code is not None:
            if self._asked is not None and now > self._asked[1] + _ECHO:
                os._exit(self._code)
        elif self._end is not None and not self.over:
            end, self._end, self._asked = self._end, None, (number, now)
            end()
        elif self._asked is None or number != self._asked[0] or now > self._asked[1] + _ECHO:
            self._asked = number, now
            self._interrupt()

    def _interrupt(self) -> None:
        if not self.came:
            self.came = True
            discard(sys.stdout)
            # Messages about what is abandoned half-way are of no use.
            sys.unraisablehook = lambda _: None
            threading.excepthook = lambda _: None
            warnings.simplefilter("ignore")
            if "logging" in sys.modules:
                sys.modules["logging"].disable()
        # An exception raised between two steps of a loop loses the next step, and whatever awaits it waits for ever.
        running = getattr(sys.modules.get("asyncio.events"), "get_running_loop", None)
        if running is not None and not self._left_to_loop:
            with suppress(RuntimeError):  # no loop runs
                running().call_soon_threadsafe(self._raise)
                self._left_to_loop = True  # then another signal interrupts a step that never ends
                return
        self._raise()

    def _raise(self) -> NoReturn:
        self._left_to_loop = False
        raise KeyboardInterrupt(*filter(None, [self.over]))

    def _look(self, number: int, frame: FrameType | None) -> None:
        """Interrupt a command that has exceeded a limit, again each second, unless a signal has interrupted it."""
        del number, frame
        over = ""
        if not self.came and (now := time.process_time()) >= self._ends:
            over = OUT_OF_TIME
        elif not self.came and resident() > self._most:
            over = OUT_OF_MEMORY
        if over and self._excess == []:
            self._excess.append(over)
            self._ends, self._most = min(self._ends, now) + _GRACE, self._most * 11 // 10
        elif over:
            self.over = over
        if self.over:
            signal.setitimer(signal.ITIMER_PROF, 1, 1)
            self._interrupt()

    def end(self, error: BaseException) -> NoReturn:
        """Print why the command ends, interrupted or by *error*, and exit."""
        if isinstance(error, SystemExit) and not self.came:
            self.settle(error.code if isinstance(error.code, int) else 0)
            raise error
        code, why = INTERRUPTED, "interrupted"  # no import for these: another signal may come
        if self.over:
            from fsm.errors import UNDECIDED  # noqa: PLC0415

            code, why = UNDECIDED, self.over
        if not self.came and not isinstance(error, KeyboardInterrupt):
            code, why = INTERNAL_ERROR, internal(error)
        if code == INTERRUPTED and not self.came:  # no signal: Python may do so if memory runs out
            self._supervisor = None
        self.came = False
        self.settle(code)
        discard(sys.stdout)
        if sys.stderr is not None:
            with suppress(OSError):
                os.write(sys.stderr.fileno(), f"{why}\n".encode())
        sys.exit(code)


def internal(error: BaseException) -> str:
    """Return the line that reports *error*, an error in fsm itself; with ``--debug``, below its traceback."""
    import traceback  # noqa: PLC0415  (seldom needed, and every command would wait for it)
    from importlib.metadata import version  # noqa: PLC0415

    from fsm.errors import printable  # noqa: PLC0415

    above = "".join(traceback.format_exception(error)) if "--debug" in sys.argv else ""
    what = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    way = "report it with what 'fsm --debug COMMAND ...' prints"
    return f"{above}error in fsm {version('container-fsm')} itself, no verdict: {what}; {way}"


def discard(stream: TextIO | None) -> None:
    """Discard what is still to be written to *stream*, so that no second message appears at exit."""
    if stream is not None:  # None if the caller closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def resident() -> int:
    """Return the bytes of memory that this process uses; 0 if the system does not say."""
    with suppress(OSError), open("/proc/self/statm", "rb") as file:  # noqa: PTH123  (text may import a codec now)
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


INTERRUPTION: Final = Interruption()
