"""``fsm schema``: the language of model files, for editors."""

from __future__ import annotations

import click

from fsm.reporting.data import dumped
from fsm.schema import schema


@click.command("schema")
def command() -> int:
    """Print the JSON Schema of model files, for editors.

    \b
    fsm schema > fsm.schema.json
    Then let the editor's TOML extension use it for models/*.toml.
    """
    click.echo(dumped(schema()), nl=False)
    return 0
