"""``fsm explain``: explain an error code."""

import difflib

import click

from fsm.cli import completion
from fsm.cli.options import layout
from fsm.language.codes import FAMILIES, RULES
from fsm.report import explanation


@click.command("explain")
@click.argument("codes", metavar="[CODE]...", nargs=-1, shell_complete=completion.codes)
def command(codes: tuple[str, ...]) -> int:
    """Explain an error code such as FSM104. Each error in an input has a code.

    Shows what the rule finds, why that is wrong, and an example before and after the fix. Without a CODE, lists all
    rules.

    \b
    fsm explain FSM104
    fsm explain
    """
    if not codes:
        click.echo(explanation.listing(RULES, FAMILIES, layout()), nl=False)
    for number, given in enumerate(codes):
        code = given.upper()
        if code not in RULES:
            near = difflib.get_close_matches(code, RULES, n=1, cutoff=0.6)
            hint = (f"did you mean {near[0]}? " if near else "") + "'fsm explain' lists all codes"
            what = f"there is no code '{given}'; {hint}, {min(RULES)} to {max(RULES)}"
            raise click.BadParameter(what, param_hint="CODE")
        click.echo(("\n" if number else "") + explanation.text(code, RULES[code], layout()), nl=False)
    return 0
