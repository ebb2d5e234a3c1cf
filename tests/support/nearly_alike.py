"""Machines that are hard to distinguish."""

from __future__ import annotations

from machines import DOOR, edited

NO_WARP = edited(DOOR, 'moves  = { shut = "ajar" }\ncannot = ["*"]', 'cannot = ["*"]')
TOSS = """\
[machine]
name = "coin"
title = "A coin"
about = "Falls."
source = "a purse"
initial = "held"
[states]
held = { about = "In the hand.", shows = "-" }
one = { about = "Fell.", shows = "-" }
two = { about = "Fell.", shows = "-" }
[event.toss]
kind = "signal"
about = "It is tossed."
moves = { held = EARLY }
cannot = ["*"]
[event.head]
kind = "signal"
about = "Head."
moves = { one = "held" }
cannot = ["*"]
[event.tail]
kind = "signal"
about = "Tail."
moves = { two = "held"LATE }
cannot = ["*"]
"""
EARLY = TOSS.replace("EARLY", '[{ name = "a", to = "one" }, { name = "b", to = "two" }]').replace("LATE", "")
LATE = TOSS.replace("EARLY", '"one"').replace("LATE", ', one = "held"')


def undecided(size: int) -> str:
    """Return a machine for which the number of sets of possible states grows exponentially with *size*.

    At any call of ``a``, the machine may silently decide that it will refuse the *size*-th call after this one.
    """
    states = "\n".join(f'n{n} = {{ about = "{n}.", shows = "-" }}' for n in range(size + 1))
    ways = [f'n{n} = "n{n + 1}"' for n in range(1, size)]
    return f"""\
[machine]
name = "undecided"
title = "Undecided"
about = "Guesses."
source = "automata theory"
initial = "n0"
[states]
{states}
[event.a]
kind = "call"
about = "This or that."
moves = {{ n0 = [{{ name = "on", to = "n0" }}, {{ name = "off", to = "n1" }}], {", ".join(ways)} }}
refuses = {{ n{size} = "FULL" }}
[event.b]
kind = "call"
about = "The other."
moves = {{ n0 = "n0", {", ".join(ways)} }}
refuses = {{ n{size} = "FULL" }}
"""
