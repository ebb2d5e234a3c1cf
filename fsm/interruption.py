"""End commands early on a signal, after an internal error, or when they exceed a limit of time or memory."""

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
INTERNAL_ERROR: Final = 70  # exit code for bugs in fsm itself, as in sysexits.h (EX_SOFTWARE); there is no verdict

OUT_OF_TIME: Final = (
    "unknown: the command ran out of time; 'fsm --seconds N COMMAND ...' allows more seconds of computing"
)
_MORE_MEMORY: Final = "the command ran out of memory; 'fsm --memory MIB COMMAND ...' allows more"
OUT_OF_MEMORY: Final = f"unknown: {_MORE_MEMORY}"
_STARVED: Final = f"unknown: there is no verdict, probably because {_MORE_MEMORY}"

_CHECKING: Final = 0.05
"""CPU seconds between checks of the limits. This limits how much memory can be allocated in between."""

_GRACE: Final = 10.0  # CPU seconds in which a command may end by itself after it has exceeded a limit

_ECHO: Final = 1.0  # seconds in which a repeated signal is ignored: timeout(1) signals the process, and then its group


class Interruption:
    """A signal handler that raises ``KeyboardInterrupt``, so that the command can clean up.

    The exception can get lost, for example in a finalizer, or look like a failure of the system under test. The first
    signal therefore also discards further output and determines the exit code.
    """

    def __init__(self) -> None:
        self.came = False
        self.over = ""
        self._ends, self._most = 0.0, 0
        self._excess: list[str] | None = None
        self._end: Callable[[], object] | None = None
        self._last = 0, -math.inf  # the last signal and its time
        self._left_to_loop = False
        self._code: int | None = None
        self._supervisor: int | None = None

    def supervise(self) -> None:
        """Fork a child that runs the command, and exit with the code that the child reports.

        If it reports no code, exit with ``UNDECIDED``. Under a memory limit, libraries can end the process in
        ways that Python cannot catch, such as ``exit(1)``.
        """
        reading, writing = os.pipe()
        os.set_blocking(reading, False)  # a process left behind by the child may keep the write end open
        awaited = {signal.SIGCHLD, *_ending_signals()}
        signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
        child = os.fork()
        if not child:
            self._supervisor = writing
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # OpenBLAS allocates memory for each thread.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
            return
        # Keep the signals blocked and use sigwait. With handlers, a signal just before a blocking wait would be
        # forwarded only after the child has exited.
        signal.signal(signal.SIGCHLD, lambda *_: None)  # Without a handler, even a blocked SIGCHLD may be discarded.
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if (number := signal.sigwait(awaited)) != signal.SIGCHLD:
                os.kill(child, number)
        code = os.waitstatus_to_exitcode(ended[1])
        with suppress(BlockingIOError):
            if reported := os.read(reading, 1):
                os._exit(reported[0])
        if code == -signal.SIGPIPE:
            os.kill(os.getpid(), signal.SIGPIPE)
        with suppress(OSError):
            os.write(2, f"{_STARVED}\n".encode())
        os._exit(3)  # the value of UNDECIDED, whose module is not imported here

    def expect(self) -> None:
        handled = _ending_signals()
        for number in handled:
            signal.signal(number, self)
        # Ignore signals at exit, because Python restores the default handlers before it frees modules, and a signal
        # in between would change the exit code.
        atexit.register(lambda: [signal.signal(number, signal.SIG_IGN) for number in handled])

    def settle(self, code: int) -> None:
        """Fix the exit code after the verdict has been printed, unless a signal has already arrived.

        Signals are then ignored for a second. After that, a signal ends the process, in case the clean-up hangs.
        """
        if not self.came:
            self._last = 0, time.monotonic()
            self._code = code
            if self._supervisor is not None and code != INTERNAL_ERROR:
                os.write(self._supervisor, bytes([code]))

    @contextmanager
    def limited(self, seconds: float, memory: int) -> Iterator[None]:
        """Interrupt the command if it exceeds a limit on CPU time (in seconds) or on memory (in bytes).

        Child processes do not count. The limit ``RLIMIT_DATA`` prevents very large allocations. It is higher
        than *memory*, because Python may loop forever if it has no memory to handle an error.
        """
        try:
            import resource  # noqa: PLC0415
        except ImportError:  # Windows does not have timers either.
            yield
            return
        data = resource.getrlimit(resource.RLIMIT_DATA)
        lowest = min(limit for limit in (*data, memory * 5 // 4) if limit >= 0)
        resource.setrlimit(resource.RLIMIT_DATA, (lowest, data[1]))
        before = signal.signal(signal.SIGPROF, self._check)
        self._ends, self._most = time.process_time() + seconds, memory
        signal.setitimer(signal.ITIMER_PROF, min(_CHECKING, seconds), _CHECKING)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
            resource.setrlimit(resource.RLIMIT_DATA, data)

    @contextmanager
    def soft_limits(self) -> Iterator[Callable[[], str]]:
        """Yield a function that returns :data:`OUT_OF_TIME` or :data:`OUT_OF_MEMORY` once a limit has been exceeded.

        The command is then interrupted only if it exceeds the memory limit by 10 % or continues for :data:`_GRACE`.
        """
        excess: list[str] = []
        self._excess = excess
        try:
            yield lambda: excess[0] if excess else ""
        finally:
            self._excess = None

    @contextmanager
    def ends(self, end: Callable[[], object]) -> Iterator[None]:
        """Call *end* on the first signal. A later signal interrupts the command.

        If the first signal is repeated within a second, the repetition is ignored.
        """
        self._end = end
        try:
            yield
        finally:
            self._end = None

    @contextmanager
    def sets(self) -> Iterator[Event]:
        """Yield an asyncio event that is set on the first signal. A second signal interrupts the command."""
        from asyncio import Event, get_running_loop  # noqa: PLC0415  (other commands need no loop)
        from socket import socketpair  # noqa: PLC0415

        over, loop = Event(), get_running_loop()
        woken, waking = socketpair()
        with woken, waking, self.ends(lambda: loop.call_soon_threadsafe(over.set)):
            for end in (woken, waking):
                end.setblocking(False)  # noqa: FBT003
            # Without this reader, a signal that arrives just before the loop blocks would not wake the loop.
            loop.add_reader(woken, woken.recv, 64)
            before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
            try:
                yield over
            finally:
                signal.set_wakeup_fd(before)
                loop.remove_reader(woken)

    def without_end(self) -> None:
        self._ends = math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del frame
        now = time.monotonic()
        if self._code is not None:
            if now > self._last[1] + _ECHO:
                os._exit(self._code)
        elif self._end is not None and not self.over:
            end, self._end, self._last = self._end, None, (number, now)
            end()
        elif number != self._last[0] or now > self._last[1] + _ECHO:
            self._last = number, now
            self._interrupt()

    def _interrupt(self) -> None:
        if not self.came:
            self.came = True
            discard(sys.stdout)
            # Do not print errors about abandoned work.
            sys.unraisablehook = lambda _: None
            threading.excepthook = lambda _: None
            warnings.simplefilter("ignore")
            if "logging" in sys.modules:
                sys.modules["logging"].disable()
        # Raise the exception in a callback. Between two callbacks, asyncio would lose the next one, and code that
        # awaits it would wait forever.
        running = getattr(sys.modules.get("asyncio.events"), "get_running_loop", None)
        if running is not None and not self._left_to_loop:
            with suppress(RuntimeError):  # There is no running loop.
                running().call_soon_threadsafe(self._raise)
                self._left_to_loop = True  # raise on the next signal, in case the current callback never returns
                return
        self._raise()

    def _raise(self) -> NoReturn:
        self._left_to_loop = False
        raise KeyboardInterrupt(*filter(None, [self.over]))

    def _check(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the command if it exceeds a limit, unless a signal has interrupted it before.

        The interruption is repeated after each further second of CPU time.
        """
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
        if isinstance(error, SystemExit) and not self.came:
            self.settle(error.code if isinstance(error.code, int) else 0)
            raise error
        code, why = INTERRUPTED, "interrupted"  # Do not import anything here, because another signal may arrive.
        if self.over:
            from fsm.errors import UNDECIDED  # noqa: PLC0415

            code, why = UNDECIDED, self.over
        if not self.came and not isinstance(error, KeyboardInterrupt):
            code, why = INTERNAL_ERROR, internal(error)
        if code == INTERRUPTED and not self.came:  # Python may raise this without a signal if memory runs out.
            self._supervisor = None
        self.came = False
        self.settle(code)
        discard(sys.stdout)
        if sys.stderr is not None:
            with suppress(OSError):
                os.write(sys.stderr.fileno(), f"{why}\n".encode())
        sys.exit(code)


def _ending_signals() -> list[signal.Signals]:
    """Return the signals that end the command, except ignored ones such as SIGHUP under nohup."""
    ending = (number for number in signal.Signals if number.name in {"SIGINT", "SIGTERM", "SIGHUP"})
    return [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]


def internal(error: BaseException) -> str:
    import traceback  # noqa: PLC0415  (seldom needed, and every command would wait for it)
    from importlib.metadata import version  # noqa: PLC0415

    from fsm.errors import printable  # noqa: PLC0415

    above = "".join(traceback.format_exception(error)) if "--debug" in sys.argv else ""
    what = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    hint = "please report this error together with the output of 'fsm --debug COMMAND ...'"
    return f"{above}internal error of fsm {version('container-fsm')}, so there is no verdict: {what}; {hint}"


def discard(stream: TextIO | None) -> None:
    """Discard all output to *stream*, so that flushing it at exit cannot fail."""
    if stream is not None:  # The stream is None if the caller closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def resident() -> int:
    """Return the memory that this process uses, in bytes, or 0 if it is unknown."""
    with suppress(OSError), open("/proc/self/statm", "rb") as file:  # noqa: PTH123  (text may import a codec now)
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


INTERRUPTION: Final = Interruption()
