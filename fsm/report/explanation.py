"""Rules for inputs as text: one rule in full, or a list of all rules."""

import textwrap
from collections.abc import Mapping

from fsm.errors import Rule, about_code
from fsm.report.layout import PLAIN, Layout


def text(code: str, rule: Rule, layout: Layout = PLAIN) -> str:
    """Return what the rule *code* finds, why that is wrong, and its example before and after, ending in a newline.

    >>> from fsm.language.codes import RULES
    >>> print(text("FSM004", RULES["FSM004"]), end="")
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
    head = layout.kept(f"{code}: {rule.finds}", "", "  ", marked=code, how="bold")
    why = layout.kept(f"{rule.why[0].upper()}{rule.why[1:]}.")
    example = [
        line
        for label, how, part in (("wrong", "red", rule.wrong), ("right", "green", rule.right))
        for line in ("", f"  {layout.style(label, how)}", *textwrap.indent(part, "    ").split("\n"))
    ]
    return "\n".join([*head, "", *why, *example, "", f"  {about_code(code)}"]) + "\n"


def listing(rules: Mapping[str, Rule], families: Mapping[str, str], layout: Layout) -> str:
    """Return the list of *rules* below the names of their families, ending in a newline."""
    lines: list[str] = []
    for family, about in families.items():
        lines += ["", layout.style(about, "bold")] if lines else [layout.style(about, "bold")]
        for code, rule in rules.items():
            if code.startswith(family):
                lines += layout.kept(f"{code}  {rule.finds}", "  ", " " * 10)
    return "\n".join(lines) + "\n"
