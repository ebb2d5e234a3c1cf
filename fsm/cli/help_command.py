"""``fsm help``: the help of a command, or of all."""

import click

from fsm.cli import completion
from fsm.cli.options import unknown


@click.command("help")
@click.argument("name", metavar="[COMMAND]", required=False, shell_complete=completion.commands)
@click.pass_context
def command(ctx: click.Context, name: str | None) -> int:
    """Show the help of COMMAND, as 'fsm COMMAND --help' does; without one that of fsm.

    \b
    fsm help judge
    """
    parent = ctx.parent
    if parent is None or not isinstance(parent.command, click.Group):
        raise AssertionError
    if name is None:
        click.echo(parent.get_help())
        return 0
    found = parent.command.get_command(parent, name)
    if found is None:
        raise unknown(name, parent.command.list_commands(parent), of="commands", hint="COMMAND")
    with click.Context(found, info_name=name, parent=parent) as inner:
        click.echo(found.get_help(inner))
    return 0
