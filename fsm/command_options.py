"""Command-line options for fsm's own commands and for commands of domains, which cannot import :mod:`fsm.cli`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem

from fsm.errors import InputError
from fsm.language.library import load, load_any, names, names_a_model
from fsm.machine import LEVELS, Machine
from fsm.machine.product.system import System

FC = TypeVar("FC", bound=Callable[..., object] | click.Command)
Offered: TypeAlias = list[str | CompletionItem]
Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], Offered]

fail_on_option: Final = click.option(
    "--fail-on",
    type=click.Choice(LEVELS[::-1]),
    default="MUST",
    help="Weakest level of a clause whose breach counts as a violation. Breaches of weaker clauses are reported as "
    "surprises.",
)


def completer(words: Callable[[click.Context], Iterable[str]], *, files: bool = False) -> Completer:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Offered:
        del param
        start = incomplete.lower()
        offered: Offered = [word for word in dict.fromkeys(words(ctx)) if word.lower().startswith(start)]
        return offered or ([CompletionItem(incomplete, type="file")] if files else [])

    return complete


def named_models(ctx: click.Context) -> Iterator[Machine | System]:
    # If an option has no value, click stops parsing and leaves the earlier arguments in ctx.args.
    for value in (*ctx.params.values(), *ctx.args):
        for name in value if isinstance(value, tuple) else (value,):
            if isinstance(name, str) and names_a_model(name, foreign=False):
                try:
                    yield load_any(name)
                except InputError:
                    continue


@completer
def complete_profiles(ctx: click.Context) -> Iterator[str]:
    for model in tuple(named_models(ctx)) or map(load, names()):
        yield from model.profiles


def profile_option(about: str) -> Callable[[FC], FC]:
    return click.option(
        "--profile",
        "-p",
        multiple=True,
        callback=lambda _context, _option, names: "+".join(dict.fromkeys(names)) or None,
        metavar="NAME",
        shell_complete=complete_profiles,
        help=f"{about} Repeat to combine profiles that do not conflict.",
    )
