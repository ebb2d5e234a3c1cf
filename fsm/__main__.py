"""``python -m fsm``, and the command ``fsm``: signals are taken before anything slow is imported."""

from fsm.interruption import INTERRUPTION


def main() -> None:
    """Run the command; its result is the exit code."""
    INTERRUPTION.expect()
    try:
        from fsm import cli  # noqa: PLC0415  (an interrupt may come while it is imported)

        cli.main()
    except BaseException as error:  # a library may be missing; what is tested may raise anything
        if INTERRUPTION.came or not isinstance(error, SystemExit):
            INTERRUPTION.end(error)
        raise


if __name__ == "__main__":
    main()
