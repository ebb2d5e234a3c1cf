"""``fsm import``: a machine of another tool as a model."""

from pathlib import Path

import click

from fsm.cli.options import output_option
from fsm.cli.output import put
from fsm.errors import contents
from fsm.interop.formats import FORMS, ToolFormat, imported
from fsm.interop.source_text import LARGEST


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--from", "-f", "form", type=click.Choice(FORMS), help="The tool it is of; by default recognised from the text."
)
@click.option("--outcomes", is_flag=True, help="EVENT.OUTCOME is an outcome of EVENT, as 'fsm export' writes it.")
@output_option
def command(file: Path, form: ToolFormat | None, *, outcomes: bool, output: Path | None) -> int:
    """Make a model of a machine that another tool has.

    FILE is a configuration of the Python library transitions (the dictionary of its markup, JSON or YAML), a
    definition of python-statemachine (JSON or YAML), or a state chart in SCXML; - is standard input. What it does not
    say is filled in as that library behaves, and the model says so at its head. A state chart that 'fsm export' wrote
    comes back with its steps and what they emit; replies, clauses and profiles are not in it.

    \b
    fsm import door.json -o models/door.toml
    fsm export cri-pod --to transitions | fsm import - --outcomes
    """
    data = contents(str(file), most=LARGEST, code="FSM501", hint="give the path of a file", dash=True)
    path = "stdin" if str(file) == "-" else str(file)
    put(imported(data, path=path, form=form, outcomes=outcomes), output)
    return 0
