"""A machine with substates is flattened as a naive interpreter, which keeps the tree and a memory, understands it."""

from __future__ import annotations

import random

import pytest
from machines import machine_of, problems_of
from naive_hierarchy import Naive, Tree, random_tree, text_of

from fsm.language.write import toml
from fsm.machine import Cannot, Ignores, Machine, Moves, Silent

WORDS = {Ignores: "ignores", Cannot: "cannot", Silent: "silent"}


def _differences(machine: Machine, tree: Tree, **mistakes: bool) -> list[str]:
    """Compare every cell in every situation that any sequence of events reaches."""
    found = []
    plain = {state: machine.hierarchy.inside.get(state, "") for state in machine.states}
    plain = {state: name if name in tree.leaves else state for state, name in plain.items()}
    start = Naive(tree, tree.entered(tree.initial), **mistakes)
    todo = [(start, machine.initial)]
    met = {(start.key, machine.initial)}
    for naive, state in todo:
        if plain[state] != naive.leaf or machine.states[state].shows != tree.shown(naive.leaf):
            found.append(f"{naive.key} is {state}")
            continue
        for event in tree.cells:
            expected, cell = naive.cell(event), machine.events[event].cells[state]
            if isinstance(expected, str) or not isinstance(cell, Moves):
                if expected != WORDS.get(type(cell)):
                    found.append(f"{event} in {naive.key}: {cell}")
                continue
            if len(expected) != len(cell.outcomes):
                found.append(f"{event} in {naive.key}: {cell}")
                continue
            for target, way in zip(expected, cell.outcomes, strict=True):
                after = naive.moved(target)
                if (after.key, way.to) not in met:
                    met.add((after.key, way.to))
                    todo.append((after, way.to))
    silent = any(isinstance(cell, Silent) for each in machine.events.values() for cell in each.cells.values())
    reached = {state for _, state in met}
    # An unreachable state leads to situations that are as unreachable, and a silent cell leads to all of them.
    if not silent and {plain[state] for state in reached} == {*tree.leaves}:
        found += [f"{state} is superfluous" for state in machine.states if state not in reached]
    return found


@pytest.mark.parametrize("seed", range(300))
def test_every_cell_is_that_of_the_tree_in_every_situation(seed: int) -> None:
    tree = random_tree(random.Random(seed), silent=seed % 3 == 0)

    assert [] == _differences(machine_of(text_of(tree)), tree)


@pytest.mark.parametrize("mistake", ["forgets", "outer"])
def test_an_interpreter_with_a_mistake_is_noticed(mistake: str) -> None:
    trees = [random_tree(random.Random(seed)) for seed in range(100)]

    noticed = [tree for tree in trees if _differences(machine_of(text_of(tree)), tree, **{mistake: True})]

    assert len(noticed) > 10
