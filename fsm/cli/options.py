"""Arguments and options that several commands take."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from fsm.errors import InputError
from fsm.library import load, names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.shell_completion import CompletionItem as Item

WIDEST = 100


def width() -> int:
    """Columns to write in: the terminal's, at most :data:`WIDEST`."""
    return min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)


def style(value: str, how: str) -> str:
    """*value* in the colour *how*, or ``bold``; what is red is bold too."""
    return click.style(value, bold=True) if how == "bold" else click.style(value, fg=how, bold=how == "red")


@contextmanager
def progress(label: str, size: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, over *size* pieces of work, and what to call after each; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    with click.progressbar(length=size, label=label, file=sys.stderr) as bar:
        yield lambda: bar.update(1)


def complete_models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str | Item]:
    """Names of shipped models that begin with *incomplete*."""
    del ctx, param
    return [name for name in names() if name.startswith(incomplete)]


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str | Item]:
    """Names of profiles that begin with *incomplete*."""
    del ctx, param
    found: dict[str, None] = {}
    for name in names():
        try:
            found.update(dict.fromkeys(load(name).profiles))
        except InputError:
            continue
    return [name for name in found if name.startswith(incomplete)]
