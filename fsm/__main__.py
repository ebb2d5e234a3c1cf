"""The entry point of the ``fsm`` command. Signal handlers are installed before any slow import."""

import os
import sys


def main() -> None:
    try:
        import signal  # noqa: PLC0415  (this import itself takes some milliseconds)

        for number in signal.Signals:
            if number.name in {"SIGINT", "SIGTERM", "SIGHUP"} and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: _leave())
        from fsm.interruption import INTERRUPTION  # noqa: PLC0415  (this one takes 20 ms)

        INTERRUPTION.expect()
        if hasattr(os, "fork") and any(word.startswith("--memory") for word in sys.argv[1:]):
            INTERRUPTION.supervise()
    except KeyboardInterrupt:
        _leave()
    try:
        try:
            from fsm import cli  # noqa: PLC0415  (an interrupt may come while it is imported)

            cli.main()
        except BaseException as error:  # noqa: BLE001  (a library may be missing; a SUT may raise anything)
            INTERRUPTION.end(error)
    except KeyboardInterrupt as error:  # A second signal arrived before end() ignored signals.
        INTERRUPTION.end(error)


def _leave() -> None:
    """Exit immediately. There is nothing to clean up yet."""
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(130)  # the value of INTERRUPTED, whose module may not be imported yet


if __name__ == "__main__":
    main()
