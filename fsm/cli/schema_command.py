"""``fsm schema``: the language of model and property files, for editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from fsm.composition import WrittenSystem
from fsm.model import Written
from fsm.reporting.data import dumped
from fsm.schema import schema
from fsm.statement import Stated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsm.model import Form

FORMS: Final[Mapping[str, type[Form]]] = {"models": Written, "systems": WrittenSystem, "properties": Stated}


@click.command("schema")
@click.option(
    "--of", "form", type=click.Choice(list(FORMS)), default="models", show_default=True, help="Which kind of file."
)
def command(form: str) -> int:
    """Print the JSON Schema of model, system or property files, for editors.

    \b
    fsm schema > fsm.schema.json
    fsm schema --of properties > fsm-properties.schema.json
    Then let the editor's TOML extension use it for models/*.toml.
    """
    click.echo(dumped(schema(FORMS[form])), nl=False)
    return 0
