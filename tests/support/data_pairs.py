"""Pairs of machines with data that differ in one place, and a second opinion on whether one refines the other.

For the second opinion, both machines are unrolled: every state is written once for all values, and every event for all
arguments.  :mod:`naive_refinement` then compares two machines without data.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from machines import machine_of
from naive_data import Unrolled
from naive_refinement import Refining
from random_data_machines import random_data_text

from fsm.errors import InputError

if TYPE_CHECKING:
    import random
    from collections.abc import Collection

    from fsm.machine import Machine


class DataPair(NamedTuple):
    machine: Machine
    other: Machine
    overlap: int


def random_data_pair(chance: random.Random) -> DataPair:
    """Return a random machine and a variant of it, either of which may be the first one."""
    while True:
        text = re.sub(r", scope = true", "", random_data_text(chance))
        variant = text
        for _ in range(chance.choice((0, 1, 1, 2))):
            variant = changed(chance, variant)
        try:
            pair = [machine_of(text), machine_of(variant)]
        except InputError:  # an update leaves the range, or conditions no longer fit together
            continue
        chance.shuffle(pair)
        return DataPair(pair[0], pair[1], chance.choice((0, 1, 1, 2)))


def changed(chance: random.Random, text: str) -> str:
    """Change a number, a comparison, a reply or the target of an outcome, or hide a variable."""
    places = [
        each
        for pattern in (
            r"(?<=[=<>] )[012](?=[\s)\"])",
            r"==|!=|<=|>=|<|>",
            r'(?<=to = ")s\d',
            r"BUSY|GONE",
            ", shown = true",
        )
        for each in [*re.finditer(pattern, text)]
        if text[: each.start()].rpartition("\n")[2].startswith(("moves", "ends")) or "shown" in each[0]
    ]
    if not places:
        return text
    at = chance.choice(places)
    options = {"s": ("s0", "s1", "s2"), "B": ("GONE",), "G": ("BUSY",), ",": ("",)}
    new = options.get(at[0][0], ("0", "1", "2") if at[0].isdigit() else ("==", "!=", "<=", ">=", "<", ">"))
    return text[: at.start()] + chance.choice(new) + text[at.end() :]


def unrolled(machine: Machine, shown: Collection[str]) -> Machine:
    """Return *machine* without data, whose states also show the values of the variables in *shown*."""
    found = Unrolled(machine)
    complete = {name for names in found.complete.values() for name in names}
    states = {
        name: replace(state, shows=f"{state.shows} {[found.values[name][each] for each in shown]}")
        for name, state in found.plain.states.items()
    }
    events = {name: event for name, event in found.plain.events.items() if name in complete}
    return replace(found.plain, states=states, events=events)


def shown_by(machine: Machine) -> list[str]:
    return [name for name, each in machine.data.items() if each.shown]


def second_opinion(pair: DataPair) -> Refining:
    shown = shown_by(pair.other)
    return Refining(unrolled(pair.machine, shown), unrolled(pair.other, shown), pair.overlap)
