"""``fsm list``: the shipped models."""

from __future__ import annotations

import click

from fsm.cli.options import width
from fsm.library import load, names
from fsm.reporting.data import dumped
from fsm.reporting.words import plural


@click.command("list")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to write the list.",
)
def command(form: str) -> int:
    """List the models, with the profiles of each."""
    machines = [load(name) for name in names()]
    if form == "json":
        click.echo(
            dumped(
                [
                    {
                        "name": each.name,
                        "title": each.title,
                        "entity": each.entity,
                        "states": list(each.states),
                        "events": list(each.events),
                        "profiles": list(each.profiles),
                    }
                    for each in machines
                ]
            ),
            nl=False,
        )
        return 0
    formatter = click.HelpFormatter(width=width())
    rows = []
    for each in machines:
        profiles = f" Profiles: {', '.join(each.profiles)}." if each.profiles else ""
        rows.append(
            (
                each.name,
                f"{each.title}: {plural(len(each.states), 'state')}, {plural(len(each.events), 'event')}.{profiles}",
            )
        )
    formatter.write_dl(rows)
    click.echo(formatter.getvalue(), nl=False)
    return 0
