"""Options that commands of fsm share with commands of domains, which are below the command line."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from fsm.machine import LEVELS

FC = TypeVar("FC", bound=Callable[..., object] | click.Command)

fail_on_option: Final = click.option(
    "--fail-on",
    type=click.Choice(LEVELS[::-1]),
    default="MUST",
    help="Weakest level of a clause whose breach counts as a violation. Breaches of weaker clauses are reported as "
    "surprises.",
)


def profile_option(about: str, complete: Callable[..., Any] | None = None) -> Callable[[FC], FC]:
    """Return the option ``--profile``, with names from *complete*. Repeated names are combined."""
    about = f"{about} Repeat to combine profiles that do not conflict."
    names = ("--profile", "-p")
    return click.option(*names, multiple=True, callback=_combined, metavar="NAME", shell_complete=complete, help=about)


def _combined(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> str | None:
    return "+".join(dict.fromkeys(names)) or None
