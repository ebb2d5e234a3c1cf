"""Rules for property files."""

from collections.abc import Mapping
from typing import Final

from fsm.errors import Rule

PROPERTIES: Final[Mapping[str, Rule]] = {
    "FSM301": Rule(
        finds="a property file without properties, or a property that makes no claim, or several",
        why="a property is one sentence that is true or false",
        wrong=('always = "open"\nnever  = "gone then open"'),
        right='never = "gone then open"',
    ),
    "FSM302": Rule(
        finds="a word that does not go with the claim, or one that the claim lacks",
        why="it would have no effect, and look as if it had",
        wrong=('always = "open or not open"\nuntil  = "gone"'),
        right=('never = "open then shut"\nuntil = "gone"'),
    ),
    "FSM303": Rule(
        finds="a condition that cannot be read, or that names what the machine does not have",
        why="a condition that is never true makes every property hold",
        wrong='never = "gone then opne"    # the states are shut, open, ajar and gone',
        right='never = "gone then open"',
    ),
    "FSM304": Rule(
        finds="a machine that cannot be found, or has nothing in common with the first",
        why="there is nothing to compare",
        wrong='refines = "dor"',
        right='refines = "door"',
    ),
    "FSM305": Rule(
        finds="a profile that the machine does not have",
        why="no failure would be expected anywhere",
        wrong='fails = { under = "older", about = "Ghosts.", length = 2 }    # there is [profile.old]',
        right='fails = { under = "old", about = "Ghosts.", length = 2 }',
    ),
    "FSM306": Rule(
        finds="a model without a property file",
        why="it has no properties that could be checked",
        wrong="fsm check lonely.toml",
        right="fsm check models/door.toml    # there is properties/door.toml",
    ),
    "FSM307": Rule(
        finds="a property that is known to fail under no profile, or under one in two ways",
        why="the length of its counterexample would be unknown",
        wrong='fails = { under = [], about = "Ghosts.", length = 2 }',
        right='fails = { under = "old", about = "Ghosts.", length = 2 }',
    ),
}
