"""Diagrams of Mermaid and PlantUML with states inside states mean what a naive interpreter of such a tree says."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from drawn import drawing_of
from machines import machine_of
from naive_hierarchy import REST, Naive, Tree, random_tree, text_of

from fsm.diagrams.compare import compare
from fsm.diagrams.draw.picture import picture
from fsm.diagrams.draw.text_pictures import mermaid, plantuml
from fsm.diagrams.read import parse

FENCES = {"stateDiagram-v2\n": "", "@startuml\n": "@enduml\n"}


def _drawable_tree(seed: int) -> Tree:
    """Return a random tree without what the arrows of a diagram cannot say: histories, and cells with a word."""
    tree = random_tree(random.Random(seed))
    names = {*tree.leaves, *tree.first}
    cells: dict[str, dict[str, str | list[str]]] = {}
    for event, row in tree.cells.items():
        moves = {key: [to for to in effect if to in names] for key, effect in row.items() if isinstance(effect, list)}
        cells[event] = {REST: "cannot"} | {key: targets for key, targets in moves.items() if targets}
    return replace(tree, cells=cells, histories=frozenset(), shows={})


def _diagram(tree: Tree) -> str:
    arrows = [
        (key, to, event)
        for event, row in tree.cells.items()
        for key, targets in row.items()
        if isinstance(targets, list)
        for to in targets
    ]

    def block(parent: str) -> list[str]:
        lines = [f"[*] --> {tree.first.get(parent, tree.initial)}"]
        for name in (*tree.first, *tree.leaves):
            if tree.above.get(name, "") == parent:
                lines += [f"state {name} {{", *block(name), "}"] if name in tree.first else [f"state {name}"]
        own = [each for each in arrows if {tree.above.get(name, "") for name in each[:2]} == {parent}]
        mixed = [each for each in arrows if len({tree.above.get(name, "") for name in each[:2]}) > 1]
        return lines + [f"{key} --> {to} : {event}" for key, to, event in (own if parent else [*own, *mixed])]

    # The initial state of the whole may be inside another one, so its arrow comes last.
    first, *rest = block("")
    return "\n".join([*rest, first])


def _arrows_of(text: str) -> set[tuple[str | None, str, str]]:
    return {
        (arrow.source, label, arrow.target) for arrow in drawing_of(text).arrows for label in arrow.labels or ("start",)
    }


def _naive_arrows(tree: Tree, *, outer: bool = False) -> set[tuple[str | None, str, str]]:
    found: set[tuple[str | None, str, str]] = {(None, "start", tree.entered(tree.initial))}
    for leaf in tree.leaves:
        for event in tree.cells:
            effect = Naive(tree, leaf, outer=outer).cell(event)
            found |= {(leaf, event, tree.entered(to)) for to in effect if isinstance(effect, list)}
    return found


@pytest.mark.parametrize("fence", FENCES, ids=["mermaid", "plantuml"])
@pytest.mark.parametrize("seed", range(150))
def test_arrows_are_those_of_the_tree(seed: int, fence: str) -> None:
    tree = _drawable_tree(seed)

    assert _naive_arrows(tree) == _arrows_of(f"{fence}{_diagram(tree)}\n{FENCES[fence]}")


def test_an_interpreter_with_a_mistake_is_noticed() -> None:
    trees = [_drawable_tree(seed) for seed in range(150)]

    assert sum(_naive_arrows(tree, outer=True) != _arrows_of(f"stateDiagram\n{_diagram(tree)}") for tree in trees) > 10


@pytest.mark.parametrize("seed", range(60))
def test_a_machine_equals_its_diagram_and_its_picture(seed: int) -> None:
    tree = _drawable_tree(seed)
    machine = machine_of(text_of(tree))
    drawn = picture(machine, show=["stays"])

    for text in (f"stateDiagram-v2\n{_diagram(tree)}", mermaid(drawn), plantuml(drawn)):
        assert compare(machine, drawing_of(text), complete=True).equal


HEAD = "stateDiagram-v2\nstate on {\n[*] --> low\nlow --> high : up\n}\n"


@pytest.mark.parametrize(
    ("rest", "line", "what"),
    [
        ("state off {\noff --> low : up\n}", 7, "'off' is inside 'off' here, but line 6 is not"),
        ("state off {\nlow --> high : up\n}", 7, "'low' is inside 'off' here, but line 3 is not"),
        ("low --> off\nstate off {", 7, "the block of 'off' is not closed"),
        ("state off {\na --> b : up\n}\nlow --> off : down", 9, "the arrow leads to 'off', which has no initial state"),
        ("state off {\n[*] --> a\n[*] --> b\n}", 8, "'off' has two initial states"),
        ("state off {\na --> [*]\n}", 7, "this is not a statement of a state diagram: 'a --> [*]'"),
        ("state off {\na --> b : up\n--\n}", 8, "this is not a statement of a state diagram: '--'"),
        ("}", 6, "this is not a statement of a state diagram: '}'"),
        ("state x {\n" * 33, 38, "this is not a statement of a state diagram: 'state x {'"),
    ],
)
def test_what_cannot_be_read_is_refused(rest: str, line: int, what: str) -> None:
    (found,) = parse(HEAD + rest, "x.mmd")

    assert (line, "FSM408", what) in [(each.line, each.code, each.what.split(": ", 1)[1]) for each in found.problems]


def test_too_many_arrows_are_refused_at_once() -> None:
    """Each arrow from a state with substates stands for many arrows."""
    inside = "".join(f"s{number}\n" for number in range(1_000))
    text = f"stateDiagram\nstate on {{\n{inside}}}\n" + "".join(f"on --> off : e{number}\n" for number in range(100))
    (found,) = parse(text, "x.mmd")

    assert ["FSM411"] == [each.code for each in found.problems]
