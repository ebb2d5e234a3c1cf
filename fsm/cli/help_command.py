"""``fsm help``: show the help of fsm or of one command."""

import click

from fsm.cli import group
from fsm.cli.options import complete_commands


@click.command("help")
@click.argument("name", metavar="[COMMAND]", required=False, shell_complete=complete_commands)
@click.pass_context
def command(ctx: click.Context, name: str | None) -> int:
    """Show the help of COMMAND, like 'fsm COMMAND --help', or the help of fsm without a COMMAND.

    \b
    fsm help judge
    """
    asked = ["--help"] if name is None else [name, "--help"]
    answer: int = group.main(asked, prog_name=ctx.find_root().info_name, standalone_mode=False)
    return answer
