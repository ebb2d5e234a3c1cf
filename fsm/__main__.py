"""``python -m fsm``, and the command ``fsm``: signals are taken before anything slow is imported."""

import os
import signal
import sys
import threading
import warnings
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

INTERRUPTED: Final = 130
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interruption:
    """What a signal does: the command cleans up and ends, and nothing that it still finds is a verdict.

    One of them says that the seconds of computing are over which :mod:`fsm.cli` has set: the answer is unknown.

    The exception may be lost on its way, as in a finalizer, or be met by code that takes it for a failure of what it
    tests.  So from the first signal on nothing is written to standard output, and the exit code is settled.
    """

    def __init__(self) -> None:
        self.came = False
        self.over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del frame
        if not self.came:
            self.came = True
            self.over = number == signal.SIGPROF
            if sys.stdout is not None:  # closed by the caller
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            # Of what is abandoned half-way no word is of use.
            sys.unraisablehook = lambda _: None
            threading.excepthook = lambda _: None
            warnings.simplefilter("ignore")
            if "logging" in sys.modules:
                sys.modules["logging"].disable()
        raise KeyboardInterrupt(*(["out of time"] if self.over else []))

    def end(self) -> NoReturn:
        """Say why the command ends, and end it."""
        more = b"unknown: out of time; 'fsm --seconds N COMMAND ...' gives it more seconds of computing\n"
        if sys.stderr is not None:
            with suppress(OSError):
                os.write(sys.stderr.fileno(), more if self.over else b"interrupted\n")
        from fsm.errors import UNDECIDED  # noqa: PLC0415  (as below)

        sys.exit(UNDECIDED if self.over else INTERRUPTED)


def main() -> None:
    """Run the command; its result is the exit code."""
    interruption = _Interruption()
    signal.signal(signal.SIGPROF, interruption)
    for each in _ENDING:
        if signal.getsignal(each) is not signal.SIG_IGN:  # as with nohup, or in the background
            signal.signal(each, interruption)
    try:
        from fsm import cli  # noqa: PLC0415  (an interrupt may come while it is imported)

        cli.main()
    finally:
        if interruption.came:
            interruption.end()


if __name__ == "__main__":
    main()
