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
            self.silence()
            # Of what is abandoned half-way no word is of use.
            sys.unraisablehook = lambda _: None
            threading.excepthook = lambda _: None
            warnings.simplefilter("ignore")
            if "logging" in sys.modules:
                sys.modules["logging"].disable()
        raise KeyboardInterrupt(*(["out of time"] if self.over else []))

    @staticmethod
    def silence() -> None:
        """Discard what is still written to standard output."""
        if sys.stdout is not None:  # closed by the caller
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def end(self, error: BaseException) -> NoReturn:
        """Say why the command ends, interrupted or by *error*, and end it."""
        from fsm.errors import INTERNAL_ERROR, UNDECIDED, internal  # noqa: PLC0415  (as below)

        code, why = INTERRUPTED, "interrupted"
        if self.over:
            code, why = (
                UNDECIDED,
                "unknown: out of time; 'fsm --seconds N COMMAND ...' gives it more seconds of computing",
            )
        elif not self.came and not isinstance(error, KeyboardInterrupt):
            code, why = INTERNAL_ERROR, internal(error)
        self.silence()
        if sys.stderr is not None:
            with suppress(OSError):
                os.write(sys.stderr.fileno(), f"{why}\n".encode())
        sys.exit(code)


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
    except BaseException as error:  # a library may be missing; what is tested may raise anything
        if interruption.came or not isinstance(error, SystemExit):
            interruption.end(error)
        raise


if __name__ == "__main__":
    main()
