"""The commands that work on live container runtimes: ``fsm record``, ``fsm proxy`` and ``fsm serve``."""

from contextlib import suppress
from typing import Final

import click

from fsm.entry_points import DomainCommand
from fsm.errors import visible

_HEADING: Final = "Live runtimes"

RECORD: Final = DomainCommand(
    about="Record what a runtime tells NRI plugins.",
    heading=_HEADING,
    target="fsm.runtimes.live_commands.recording_events:command",
    endless=True,
)
PROXY: Final = DomainCommand(
    about="Record and judge the calls between clients and a runtime, and inject faults.",
    heading=_HEADING,
    target="fsm.runtimes.live_commands.proxying:command",
    endless=True,
)
SERVE: Final = DomainCommand(
    about="Run the reference implementation as a container runtime.",
    heading=_HEADING,
    target="fsm.runtimes.live_commands.serve:command",
    endless=True,
)


def say(command: str, what: str) -> None:
    """Print *what* to standard error, after the name of the *command*. Errors in printing are ignored."""
    with suppress(OSError):
        click.echo(f"fsm {command}: {visible(what)}", err=True)
