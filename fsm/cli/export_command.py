"""``fsm export``: write a model and its properties in the language of another tool."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from fsm.cli.options import complete_models, complete_properties, name_option, output_option, require, under
from fsm.cli.output import put
from fsm.command_options import profile_option
from fsm.interop.charts import python_statemachine, scxml
from fsm.interop.formats import dot
from fsm.interop.promela import promela
from fsm.interop.promela.vocabulary import CannotExportError
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
@click.argument("name", metavar="MODEL|FILE", shell_complete=complete_models)
@click.option(
    "--to",
    "-t",
    "form",
    type=click.Choice(["promela", *_WRITERS]),
    required=True,
    help="Language to write; see above.",
)
@profile_option("Apply this profile to the model.")
@name_option("property", "P", "With --to promela: also export this property.", complete_properties, to="wanted")
@output_option
def command(name: str, form: str, profile: str | None, wanted: str | None, output: Path | None) -> int:
    """Write a model in the language of another tool.

    MODEL is a name from 'fsm list', FILE a model file; with --property, FILE may also be a property file. The text for
    SPIN begins with a comment on its purpose and the commands to run.

    \b
    promela              for the model checker SPIN, as a second opinion
    dot                  for Graphviz; every outcome is an edge
    json                 everything that the model states, as data
    scxml                a state chart of the W3C; each outcome is an event
    transitions          for this Python library; each outcome is an event
    python-statemachine  the same for this Python library

    \b
    fsm export models/door.toml --to promela -o door.pml
    fsm export models/door.toml --to promela --property gone-is-gone -o gone.pml
    fsm export models/door.toml --to scxml
    fsm export models/door.toml --to transitions -o door.json
    """
    machine, stated = _machine_and_property(name, form, wanted)
    machine = under(machine, profile)
    file = output.name if output else f"{machine.name}.pml"
    try:
        text = promela(machine, stated, file=file) if form == "promela" else _WRITERS[form](machine)
    except CannotExportError as error:
        raise click.UsageError(str(error)) from error
    put(text, output)
    return 0


def _machine_and_property(name: str, form: str, wanted: str | None) -> tuple[Machine, Property | None]:
    if wanted is None:
        return load(name), None
    if form != "promela":
        raise click.UsageError(f"--property has no meaning with --to {form}: leave it out, or use --to promela")
    found = specification(name)
    named = {stated.name: stated for stated in found.properties}
    require([wanted], named, of="properties", hint="--property")
    return found.machine, named[wanted]
