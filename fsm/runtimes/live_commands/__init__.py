"""The commands for live container runtimes, and the options that they share."""

from collections.abc import Callable
from typing import Final, TypeVar

import click

from fsm.entry_points import DomainCommand
from fsm.machine import LEVELS

FC = TypeVar("FC", bound=Callable[..., object] | click.Command)

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


def profile_option(about: str) -> Callable[[FC], FC]:
    """Return the option ``--profile``. Repeated names are combined."""
    about = f"{about} Repeat to combine profiles that do not conflict."
    return click.option("--profile", "-p", multiple=True, callback=_combined, metavar="NAME", help=about)


def _combined(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> str | None:
    return "+".join(dict.fromkeys(names)) or None


fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(LEVELS[::-1]),
    default="MUST",
    help="Weakest level of a clause whose breach counts as a violation. Breaches of weaker clauses are reported as "
    "surprises.",
)


def counted(number: int, what: str) -> str:
    """Return *number* with the noun *what*.

    >>> counted(1, "call"), counted(1200, "call")
    ('1 call', '1,200 calls')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
