"""The commands that work on live container runtimes: ``fsm record``, ``fsm proxy`` and ``fsm serve``."""

from contextlib import suppress
from typing import Final

import click

from fsm.entry_points import DomainCommand
from fsm.errors import visible


def _command(module: str, about: str) -> DomainCommand:
    target = f"fsm.runtimes.live_commands.{module}:command"
    return DomainCommand(about=about, heading="Live runtimes", target=target, endless=True)


RECORD: Final = _command("recording_events", "Record what a runtime tells NRI plugins.")
PROXY: Final = _command("proxying", "Record and judge the calls between clients and a runtime, and inject faults.")
SERVE: Final = _command("serve", "Run the reference implementation as a container runtime.")


def say(command: str, what: str) -> None:
    """Print *what* to standard error, preceded by the name of the *command*. Errors in printing are ignored."""
    with suppress(OSError):
        click.echo(f"fsm {command}: {visible(what)}", err=True)
