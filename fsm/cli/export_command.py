"""``fsm export``: a model and its properties in the languages of other tools."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from fsm.cli import completion
from fsm.cli.options import name_option, output_option, profile_option, require, under
from fsm.cli.output import put
from fsm.interop.dot import dot
from fsm.interop.promela import promela
from fsm.interop.promela.vocabulary import CannotExportError
from fsm.interop.python_statemachine import python_statemachine
from fsm.interop.scxml import scxml
from fsm.interop.transitions import transitions
from fsm.language.library import load, specification
from fsm.machine import Machine
from fsm.machine.property.claims import Property
from fsm.report import machine_report

_WRITERS: Final[Mapping[str, Callable[[Machine], str]]] = {
    "dot": dot,
    "json": machine_report.json,
    "scxml": scxml,
    "transitions": transitions,
    "python-statemachine": python_statemachine,
}


@click.command("export")
@click.argument("name", metavar="MODEL|FILE", shell_complete=completion.models)
@click.option(
    "--to",
    "-t",
    "form",
    type=click.Choice(["promela", *_WRITERS]),
    required=True,
    help="The language: of the model checker SPIN, of Graphviz, plain data, state charts of the W3C, "
    "or of a Python library of that name.",
)
@profile_option("Export the machine as this profile has it.")
@name_option(
    "property", "P", "With promela: export this property of the machine too.", completion.properties, to="wanted"
)
@output_option
def command(name: str, form: str, profile: str | None, wanted: str | None, output: Path | None) -> int:
    """Write a model in the language of another tool.

    MODEL is a name from 'fsm list', FILE a model file; with --property, FILE may be a property file too. What a text
    is good for, and which commands to run, stands at its head.

    \b
    promela  for SPIN, which decides a property again: a second opinion
    dot      every outcome as an edge of a graph
    json     all that the model states, as data
    scxml    a state chart; each outcome is an event of its own
    transitions, python-statemachine
             what these libraries load; each outcome is an event of its own

    \b
    fsm export container-status --to promela -o status.pml
    fsm export container-status --to promela --property exited-is-final -o final.pml
    fsm export my/door.toml --to scxml
    fsm export my/door.toml --to transitions -o door.json
    """
    machine, stated = _asked(name, form, wanted)
    machine = under(machine, profile)
    file = output.name if output else f"{machine.name}.pml"
    try:
        text = promela(machine, stated, file=file) if form == "promela" else _WRITERS[form](machine)
    except CannotExportError as error:
        raise click.UsageError(str(error)) from error
    put(text, output)
    return 0


def _asked(name: str, form: str, wanted: str | None) -> tuple[Machine, Property | None]:
    if wanted is None:
        return load(name), None
    if form != "promela":
        raise click.UsageError(f"--property has no meaning with --to {form}: leave it out, or use --to promela")
    found = specification(name)
    named = {each.name: each for each in found.properties}
    require([wanted], named, of="properties", hint="--property")
    return found.machine, named[wanted]
