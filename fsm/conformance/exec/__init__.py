"""Run the system under test in a separate process.

The process exchanges lines with fsm. Each exchange has a time limit, and no process is left behind.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

LONGEST: Final = 1 << 20  # maximum length of a line in bytes
KEPT: Final = 5  # number of lines to keep from the end of standard error, in addition to the first line of a Go panic
_PANICS: Final = ("panic:", "fatal error:")

SHOWN: Final = 200  # maximum number of characters to keep of a line of standard error, or to show of any line
AT_ONCE: Final = 1 << 16

FOLDER: Final = "FSM_FOLDER"
"""The environment variable that names the folder for files that outlive the process."""


class TalkError(Exception):
    """The command broke the protocol. The message is a clause in lower case: *the process wrote no line within 5 s*."""

    def __init__(self, text: str, right: str = "") -> None:
        super().__init__(text)
        self.right = right


class EndedError(TalkError):
    pass


class Process:
    """A command that runs under its own reaper (:mod:`fsm.conformance.exec.reaper`).

    The command inherits the file descriptors in *passed* under the same numbers. Raise :class:`OSError` if the
    reaper cannot be started.

    >>> cat = Process(["cat"], grace=1.0)
    >>> cat.write(b"hello\\n", timeout=5.0)
    >>> cat.read(timeout=5.0)
    b'hello'
    >>> cat.end(gently=True)
    >>> cat.ended()
    'ended with exit code 0'
    """

    def __init__(self, command: Sequence[str], *, grace: float, folder: str = "", passed: tuple[int, ...] = ()) -> None:
        self._grace = grace
        reaper = files("fsm.conformance.exec").joinpath("reaper.py").read_text(encoding="utf-8")
        self._reaper = subprocess.Popen(  # noqa: S603  (its purpose is to run a given command)
            [sys.executable, "-I", "-S", "-c", reaper, str(os.getpid()), str(grace), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            pass_fds=passed,
            env={**os.environ, FOLDER: folder},
        )
        streams = (self._reaper.stdin, self._reaper.stdout, self._reaper.stderr)
        self._in, self._out, self._err = (stream.fileno() for stream in streams if stream is not None)
        for each in (self._in, self._out, self._err):
            os.set_blocking(each, False)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)
        self._buffer = bytearray()
        self._looked = 0
        self._errors: deque[str] = deque(maxlen=KEPT)
        self._panic = ""
        self._error = b""

    def write(self, line: bytes, *, timeout: float) -> None:
        until = time.monotonic() + timeout
        poll = select.poll()  # Do not use self._poll here, because another thread may be using it to read.
        poll.register(self._in, select.POLLOUT)
        while line:
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise TalkError(f"the process did not read its standard input for {timeout:g} s")
            try:
                line = line[os.write(self._in, line) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                return  # A later read() returns the lines that the command wrote, or reports how it ended.

    def read(self, *, timeout: float) -> bytes:
        """Return the next line of standard output, or raise :class:`TalkError` after *timeout* seconds."""
        until = time.monotonic() + timeout
        while (found := self._buffer.find(b"\n", self._looked)) < 0:
            self._looked = len(self._buffer)
            start = shown(bytes(self._buffer))
            if self._looked > LONGEST:
                raise TalkError(f"the process wrote a line of more than {LONGEST:,} bytes: {start}")
            begun = f"; it has begun an incomplete line: {start}" if self._buffer else ""
            ready = {each for each, _ in self._poll.poll(max(0.0, until - time.monotonic()) * 1000)}
            if self._err in ready and not self._read_available(self._err):
                self._poll.unregister(self._err)
            if not ready or time.monotonic() > until:
                raise TalkError(f"the process wrote no line within {timeout:g} s{begun}")
            if self._out in ready and not self._read_available(self._out):
                raise self._closed_output_error()
        line = bytes(self._buffer[:found])
        del self._buffer[: found + 1]
        self._looked = 0
        return line

    def _read_available(self, file: int) -> bool:
        try:
            some = os.read(file, AT_ONCE)
        except BlockingIOError:
            return True
        if file == self._out:
            self._buffer += some
            return bool(some)
        *lines, rest = (self._error + some).split(b"\n")
        texts = [each[:SHOWN].decode(errors="replace").rstrip() for each in lines if each.strip()]
        self._panic = self._panic or next((each for each in texts if each.startswith(_PANICS)), "")
        self._errors += texts
        self._error = rest[:SHOWN]
        return bool(some)

    def _closed_output_error(self) -> TalkError:
        rest = f", after {shown(bytes(self._buffer))} without an end of line" if self._buffer else ""
        try:
            self._reaper.wait(min(1.0, self._grace))
        except subprocess.TimeoutExpired:
            return TalkError(f"the process has closed its standard output, but is still running{rest}")
        return EndedError(f"the process {self.ended()}{rest}")

    def errors(self) -> tuple[str, ...]:
        """Return the last lines of standard error. If a Go command has panicked, the panic message comes first."""
        last = (*self._errors, *filter(None, [self._error.decode(errors="replace").strip()]))
        return last if not self._panic or self._panic in last else (self._panic, "…", *last)

    def ended(self) -> str:
        """Describe how the command ended. Call this only when it is no longer running."""
        code = self._reaper.returncode or 0
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"

    def end(self, *, gently: bool) -> None:
        """End the command and every process that it has started. Calling this again does nothing.

        Standard input is closed. If *gently* is true, the command then has the grace period to exit by itself. If it
        is still running, or if *gently* is false, it receives SIGTERM, and after another grace period it is killed.
        """
        reaper = self._reaper
        if reaper.stdin is None or reaper.stdin.closed:
            return
        reaper.stdin.close()
        try:
            if not (gently and self._wait_for_exit(self._grace)):
                reaper.terminate()
                if not self._wait_for_exit(self._grace + 10.0):
                    reaper.kill()
                reaper.wait()
        finally:
            if reaper.returncode is None:
                reaper.terminate()  # After an interruption, the reaper finishes on its own.
            for each in (reaper.stdout, reaper.stderr):
                if each is not None:
                    each.close()

    def _wait_for_exit(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        poll = select.poll()
        left = {self._out, self._err}
        for each in left:
            poll.register(each, select.POLLIN)
        while left and (passing := until - time.monotonic()) > 0:
            for each, _ in poll.poll(passing * 1000):
                if not self._read_available(each):
                    poll.unregister(each)
                    left.remove(each)
                self._buffer.clear()
        try:
            self._reaper.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True


def shown(line: bytes) -> str:
    """Shorten and quote *line* for use in a message.

    >>> shown(b"ab\\x1b" + 300 * b"c")[:16]
    "'ab\\\\x1bccccccccc"
    """
    text = line[:SHOWN].decode(errors="backslashreplace")
    return f"{text!r}{'…' if len(line) > SHOWN else ''}"
