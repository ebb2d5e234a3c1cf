"""Find the variants of states that remember where a parent was left, so that a machine with history needs no memory.

A state has one variant for each state of the parent that may be remembered: ``lost(idle)`` and ``lost(busy)`` differ
only in where the history leads.  A state keeps its name if it does not matter what is remembered, or if only one state
can be.  Before a parent is entered for the first time, the state that it enters first is remembered.
"""

from dataclasses import replace
from itertools import islice, product
from typing import TypeAlias

from fsm.machine import Machine, Moves, Silent
from fsm.machine.hierarchy import HISTORY, Hierarchy
from fsm.machine.traversal import LimitError, closure

_Memory: TypeAlias = tuple[str, tuple[str, ...]]  # a state, and what it remembers of each parent that matters there


def with_variants(machine: Machine, *, most: int) -> tuple[Hierarchy, str]:
    """Return the hierarchy of *machine* with variants of its states, and the variant in which the machine begins.

    Outcomes of *machine* may lead to histories.  Raise :class:`LimitError` if there would be more than *most* variants.
    """
    tree = machine.hierarchy
    named = tree.named(machine.states)
    leaves = {name: named[name] for name, parent in tree.parents.items() if parent.history}
    overrides = (each for profile in machine.profiles.values() for each in profile.overrides)
    rows = [each for row in (*machine.events.values(), *overrides) for each in (*row.cells.items(), *row.ends.items())]
    leads: dict[str, dict[str, None]] = {state: {} for state in machine.states}
    before: dict[str, dict[str, None]] = {state: {} for state in machine.states}
    for state, to in ((state, way.to) for state, cell in rows if isinstance(cell, Moves) for way in cell.outcomes):
        leads[state][to] = None
        for target in leaves.get(to.removesuffix(HISTORY), (to,)):
            before[target][state] = None
    matters: dict[str, list[str]] = {state: [] for state in machine.states}
    for parent, own in leaves.items():
        outside = {state: [each for each in before[state] if each not in own] for state in before if state not in own}
        for state in closure((each for each in outside if parent + HISTORY in leads[each]), outside.__getitem__):
            matters[state].append(parent)

    def after(at: _Memory, to: str) -> _Memory:
        known = {**dict(zip(matters[at[0]], at[1], strict=True)), **dict.fromkeys(tree.above(at[0]), at[0])}
        state = known.get(to.removesuffix(HISTORY), to)
        return state, tuple(known[parent] for parent in matters[state])

    def following(at: _Memory) -> list[_Memory]:
        met.update(those := dict.fromkeys(after(at, to) for to in leads[at[0]]))
        if len(met) > most:
            raise LimitError(most)
        return [*those]

    starts = [(state, tuple(map(tree.entered, parents))) for state, parents in matters.items()]
    first = next(each for each in starts if each[0] == machine.initial)
    # After a silent cell, the machine may be in any state and remember anything.
    silent = any(isinstance(cell, Silent) for _, cell in rows)
    anything = ((state, of) for state, those in matters.items() for of in product(*map(leaves.__getitem__, those)))
    met = dict.fromkeys(islice(anything, most + 1) if silent else [first])
    reached = {state for state, _ in closure([*met], following)}
    found = closure([*met, *(each for each in starts if each[0] not in reached)], following)
    order = {state: index for index, state in enumerate(machine.states)}
    names: dict[_Memory, str] = {}
    for at in sorted(found, key=lambda at: [order[state] for state in (at[0], *at[1])]):
        alike = zip(*(of for state, of in found if state == at[0]), strict=True)
        words = "+".join(leaf for leaf, those in zip(at[1], alike, strict=True) if len({*those}) > 1)
        names[at] = f"{at[0]}({words})" if words else at[0]
    variants = {name: state for (state, _), name in names.items()}
    targets = {(name, to): names[after(at, to)] for at, name in names.items() for to in leads[at[0]]}
    return replace(tree, variants=variants, leads=targets, written=machine), names[first]
