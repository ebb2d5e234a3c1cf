"""``fsm import``: convert a machine of another tool to a model."""

from pathlib import Path

import click

from fsm.cli.options import output_option
from fsm.cli.output import put
from fsm.errors import contents
from fsm.interop.formats import FORMS, ToolFormat, imported
from fsm.interop.yaml_nodes import LARGEST


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--from", "-f", "form", type=click.Choice(FORMS), help="Format of FILE. Default: recognised from its text."
)
@click.option("--outcomes", is_flag=True, help="Read EVENT.OUTCOME as an outcome of EVENT, as 'fsm export' writes it.")
@output_option
def command(file: Path, form: ToolFormat | None, *, outcomes: bool, output: Path | None) -> int:
    """Convert a machine of another tool to a model.

    FILE is a configuration of the Python library transitions (the dictionary of its markup, as JSON or YAML), a
    definition of python-statemachine (JSON or YAML), or a state chart in SCXML; - is standard input. Everything that
    FILE leaves out is filled in according to the behaviour of that library, and a comment at the top of the model says
    so. A state chart that 'fsm export' wrote keeps its steps and outputs, but has no replies, clauses or profiles.

    \b
    fsm import door.json -o models/door.toml
    fsm export models/door.toml --to transitions | fsm import - --outcomes
    """
    data = contents(str(file), most=LARGEST, code="FSM501", hint="give the path of a file", dash=True)
    path = "stdin" if str(file) == "-" else str(file)
    put(imported(data, path=path, form=form, outcomes=outcomes), output)
    return 0
