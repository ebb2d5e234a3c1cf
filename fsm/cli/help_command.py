"""``fsm help``: the help of a command, or of all."""

import click

from fsm.cli import COMMANDS, completion, group
from fsm.cli.options import unknown


@click.command("help")
@click.argument("name", metavar="[COMMAND]", required=False, shell_complete=completion.commands)
@click.pass_context
def command(ctx: click.Context, name: str | None) -> int:
    """Show the help of COMMAND, as 'fsm COMMAND --help' does; without one that of fsm.

    \b
    fsm help judge
    """
    root = ctx.find_root()
    if name is None:
        click.echo(root.get_help())
        return 0
    found = group.get_command(root, name)
    if found is None:
        raise unknown(name, COMMANDS, of="commands", hint="COMMAND")
    with click.Context(found, info_name=name, parent=root) as inner:
        click.echo(found.get_help(inner))
    return 0
