"""Arguments and options that several commands take."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from fsm.errors import nearest
from fsm.library import load, load_system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fsm.machine import Machine
    from fsm.product.system import System

WIDEST = 100


def width() -> int:
    """Columns to write in: the terminal's, at most :data:`WIDEST`."""
    return min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)


def style(value: str, how: str) -> str:
    """*value* in the colour *how*, or ``bold``; what is red is bold too."""
    return click.style(value, bold=True) if how == "bold" else click.style(value, fg=how, bold=how == "red")


def watched() -> bool:
    """Whether standard error is a terminal; it may even be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def progress(label: str, size: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, over *size* pieces of work, and what to call after each; nothing in a pipe."""
    if not watched():
        yield lambda: None
        return
    with click.progressbar(length=size, label=label, file=sys.stderr) as bar:
        yield lambda: bar.update(1)


def choices(word: str, known: Iterable[str], *, of: str) -> str:
    """What is wrong with *word*, which is none of the *known* ones, and the way out."""
    return f"'{word}': {nearest(word, known, of=of)}"


def machine_under(name: str, profile: str | None) -> Machine:
    """The machine of the model *name*, as *profile* has it if one is given."""
    machine = load(name)
    if profile is None:
        return machine
    if profile not in machine.profiles:
        raise click.BadParameter(choices(profile, machine.profiles, of="profiles"), param_hint="--profile")
    return machine.under(profile)


def system_under(name: str, profile: str | None) -> System:
    """The system *name*, as *profile* has it if one is given."""
    system = load_system(name)
    if profile is None:
        return system
    if profile not in system.profiles:
        raise click.BadParameter(choices(profile, system.profiles, of="profiles"), param_hint="--profile")
    return system.under(profile)
