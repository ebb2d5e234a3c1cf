"""``fsm help`` and ``fsm explain``: show the help of commands, and explain error codes."""

import difflib
import textwrap
from collections.abc import Iterator, Mapping

import click

from fsm.cli import group, options
from fsm.cli.options import complete_codes, complete_commands
from fsm.errors import Rule, code_url
from fsm.language.codes import FAMILIES, RULES
from fsm.report.layout import Layout, joined


@click.command("help")
@click.argument("name", metavar="[COMMAND]", required=False, shell_complete=complete_commands)
@click.pass_context
def help_command(ctx: click.Context, name: str | None) -> int:
    """Show the help of COMMAND, like 'fsm COMMAND --help'. Without a COMMAND, show the help of fsm.

    \b
    fsm help judge
    """
    asked = ["--help"] if name is None else [name, "--help"]
    answer: int = group.main(asked, prog_name=ctx.find_root().info_name, standalone_mode=False)
    return answer


@click.command("explain")
@click.argument("codes", metavar="[CODE]...", nargs=-1, shell_complete=complete_codes)
def explain_command(codes: tuple[str, ...]) -> int:
    """Explain an error code such as FSM104. Each error in an input has a code.

    The explanation says what the rule finds and why that is wrong, and shows an example before and after the fix.
    Without a CODE, all rules are listed.

    \b
    fsm explain FSM104
    fsm explain
    """
    if not codes:
        click.echo(_listing(RULES, FAMILIES, options.layout()), nl=False)
    for number, given in enumerate(codes):
        code = given.upper()
        if code not in RULES:
            near = difflib.get_close_matches(code, RULES, n=1, cutoff=0.6)
            hint = (f"did you mean {near[0]}? " if near else "") + "'fsm explain' lists all codes"
            what = f"there is no code '{given}'; {hint}, {min(RULES)} to {max(RULES)}"
            raise click.BadParameter(what, param_hint="CODE")
        click.echo(("\n" if number else "") + _text(code, RULES[code], options.layout()), nl=False)
    return 0


@joined
def _text(code: str, rule: Rule, layout: Layout) -> Iterator[str]:
    """Return an explanation of the rule *code*, with an example before and after the fix.

    >>> print(_text("FSM004", RULES["FSM004"], Layout()), end="")
    FSM004: text that is not TOML
    <BLANKLINE>
      The rest of the file cannot be trusted.
    <BLANKLINE>
      wrong
        initial = shut
    <BLANKLINE>
      right
        initial = "shut"
    <BLANKLINE>
      https://container-fsm.readthedocs.io/en/latest/reference/codes.html#fsm004
    """
    yield from layout.kept(f"{code}: {rule.finds}", "", "  ", marked=code, how="bold")
    yield from ("", *layout.kept(f"{rule.why[0].upper()}{rule.why[1:]}."))
    for label, how, part in (("wrong", "red", rule.wrong), ("right", "green", rule.right)):
        yield from ("", f"  {layout.style(label, how)}", *textwrap.indent(part, "    ").split("\n"))
    yield from ("", f"  {code_url(code)}")


@joined
def _listing(rules: Mapping[str, Rule], families: Mapping[str, str], layout: Layout) -> Iterator[str]:
    for number, (family, about) in enumerate(families.items()):
        if number:
            yield ""
        yield layout.style(about, "bold")
        for code, rule in rules.items():
            if code.startswith(family):
                yield from layout.kept(f"{code}  {rule.finds}", "  ", " " * 10)
