"""``fsm schema``: print the JSON Schemas of fsm's files, for editors."""

from collections.abc import Mapping
from typing import Final

import click

from fsm.language.machine_file import Form, Written
from fsm.language.schema import schema
from fsm.language.vocabularies import Stated, WrittenFaults, WrittenSystem
from fsm.report.json_report import dumped

FORMS: Final[Mapping[str, type[Form]]] = {
    "models": Written,
    "systems": WrittenSystem,
    "properties": Stated,
    "faults": WrittenFaults,
}


@click.command("schema")
@click.option("--of", "form", type=click.Choice(list(FORMS)), default="models", help="Kind of file.")
def command(form: str) -> int:
    """Print the JSON Schema of model, system, property or fault files, for editors.

    \b
    fsm schema > fsm-models.schema.json
    fsm schema --of properties > fsm-properties.schema.json

    Then configure the TOML extension of your editor to use the schema for models/*.toml.
    """
    click.echo(dumped(schema(FORMS[form])), nl=False)
    return 0
