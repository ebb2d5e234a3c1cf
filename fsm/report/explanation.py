"""Rules for inputs as text: one in full, or all in a list."""

import textwrap
from collections.abc import Callable, Mapping

from fsm.errors import Rule
from fsm.report.layout import plain, wrapped


def text(code: str, rule: Rule, *, width: int, style: Callable[[str, str], str] = plain) -> str:
    """What the rule *code* finds, why that is wrong, and its example before and after, ending in a newline.

    >>> from fsm.language.codes import RULES
    >>> print(text("FSM004", RULES["FSM004"], width=80), end="")
    FSM004: text that is not TOML
    <BLANKLINE>
      The rest of the file cannot be trusted.
    <BLANKLINE>
      wrong
        initial = shut
    <BLANKLINE>
      right
        initial = "shut"
    """
    head = wrapped(f"{code}: {rule.finds}", width, "", "  ")
    head[0] = head[0].replace(code, style(code, "bold"), 1)
    why = wrapped(f"{rule.why[0].upper()}{rule.why[1:]}.", width)
    example = [
        line
        for label, how, part in (("wrong", "red", rule.wrong), ("right", "green", rule.right))
        for line in ("", f"  {style(label, how)}", *textwrap.indent(part, "    ").split("\n"))
    ]
    return "\n".join([*head, "", *why, *example]) + "\n"


def listing(
    rules: Mapping[str, Rule], families: Mapping[str, str], *, width: int, style: Callable[[str, str], str] = plain
) -> str:
    """What each of *rules* finds, below the name of its family, ending in a newline."""
    lines: list[str] = []
    for family, about in families.items():
        lines += ["", style(about, "bold")] if lines else [style(about, "bold")]
        for code, rule in rules.items():
            if code.startswith(family):
                lines += wrapped(f"{code}  {rule.finds}", width, "  ", " " * 10)
    return "\n".join(lines) + "\n"
