"""``fsm explore``: a model or a recording as a page to look at."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fsm.checker import examine
from fsm.cli import completion
from fsm.cli.check_command import WHY
from fsm.cli.options import of_one, profile_option, progress, under
from fsm.cli.output import put
from fsm.cli.search_progress import SearchProgress
from fsm.diagrams.draw.image import HOW_TO_GET_DOT, DotFailedError, NoDotError
from fsm.errors import InputError
from fsm.interruption import INTERRUPTION
from fsm.library import claims, load
from fsm.machine import Machine
from fsm.property.evidence import Examined
from fsm.report.page.model_page import machine_page

NO_PROPERTIES = "FSM306"


@click.command("explore")
@click.argument("name", metavar="MODEL|FILE", shell_complete=completion.models)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write; it is complete or not there. Into a pipe it may be left out.",
)
@profile_option("Begin with this profile; the page has them all.")
@click.option(
    "--properties/--no-properties", default=True, help="Whether to decide what is claimed of the model, for the page."
)
def command(name: str, profile: str | None, output: Path | None, *, properties: bool) -> int:
    """Make a page to look at, for any browser: one file that loads nothing from anywhere.

    MODEL is a name from 'fsm list', FILE a model file. The page has the state chart, every event in every state with its
    clause and what each profile changes, walks step by step, and what is claimed with the runs that show it. Where one
    is, is in the link.

    \b
    fsm explore container-status -o container-status.html
    fsm explore models/door.toml -o door.html
    """
    if output is None and sys.stdout.isatty():
        raise click.UsageError("a page is for a browser: use -o PAGE.html, or a pipe")
    try:
        written = _model(name, profile, properties=properties)
    except NoDotError as error:
        what = f"Graphviz's program 'dot' is not there, so there is no page: {HOW_TO_GET_DOT}"
        raise click.ClickException(what) from error
    except DotFailedError as error:
        raise click.ClickException(str(error)) from error
    put(written.encode("utf-8"), output)
    return 0


def _model(name: str, profile: str | None, *, properties: bool) -> str:
    machine = load(name)
    of_one([profile], [machine.profiles])
    under(machine, profile)  # refuses profiles that contradict each other
    return machine_page(machine, _examined(machine, profile) if properties else (), profile=profile)


def _examined(machine: Machine, profile: str | None) -> list[Examined]:
    """What is concluded of *machine* without a profile and under each; nothing where nothing is claimed of it."""
    try:
        stated = claims(machine.path)
    except InputError as error:
        if {each.code for each in error.problems} != {NO_PROPERTIES}:
            raise
        return []
    names = dict.fromkeys((None, *machine.profiles, profile))
    with INTERRUPTION.softly() as excess, progress("checking", len(names) * len(stated.properties)) as bar:
        ending = SearchProgress(bar, lambda: WHY[excess()])
        found = [examine(stated, each, ending=ending, advanced=lambda: bar.update(1)) for each in names]
        if over := excess():
            click.echo(over, err=True)
    return found
