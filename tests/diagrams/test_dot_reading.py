"""DOT graphs are read as Graphviz reads them, and graphs that are too large or too deeply nested are refused."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from real_parts import program

from fsm.diagrams.read import parse

if TYPE_CHECKING:
    from fsm.diagrams.read import Drawing

WORDS = ["a", '"b c"', "d", '"e"', "f", '"g" + "h"', "i_1", "2", "-3.5", "é", '"x -> y"', '"{"']


def written(random: Random, depth: int = 0) -> str:
    def word() -> str:
        return random.choice(WORDS)

    def attributes() -> str:
        those = [f"label={word()}", "label=<<i>l</i>>", 'label="two\\nlines"', "shape=point", "shape=box", "src=c"]
        return random.choice(
            ["", "", f"[{random.choice(those)}]", f"[obj_dict=x, {random.choice(those)};] [color=red]"]
        )

    def group() -> str:
        head = random.choice(["", "subgraph ", f"subgraph s{random.randrange(99)} "])
        return f"{head}{{ {' '.join(written(random, depth + 1) for _ in range(random.randrange(3)))} }}"

    def end() -> str:
        return group() if depth < 2 and random.random() < 0.2 else f"{word()}{random.choice(['', '', ':p', ':p:n'])}"

    match random.randrange(8):
        case 0 | 1 | 2 | 3:
            text = f"{' -> '.join(end() for _ in range(random.randrange(2, 4)))} {attributes()}"
        case 4 | 5:
            text = f"{word()} {attributes()}"
        case 6:
            text = (
                f"{random.choice(['node', 'EDGE', 'graph'])} [{random.choice(['color=red', 'label=w', 'fontsize=9'])}]"
            )
        case _:
            text = group() if depth < 2 else f"rankdir = {word()}"
    return text + random.choice([";", "\n", ";\n# c -> d {\n", " /* } -> */ ;", " // }\n"])


def lines(label: str) -> tuple[str, ...]:
    return tuple(label.replace("<i>", "").replace("</i>", "").split("\\n"))


def by_graphviz(graph: dict[str, list[dict[str, str]]]) -> Counter[tuple[str | None, str, tuple[str, ...]]]:
    """Return the arrows of a graph that Graphviz has written as JSON."""
    texts = {
        each["_gvid"]: None
        if each.get("shape") == "point"
        else lines(each.get("label", r"\N").replace(r"\N", each["name"]))[0]
        for each in graph.get("objects", [])
        if "nodes" not in each and "label" in each
    }
    return Counter(
        (texts[edge["tail"]], texts[edge["head"]] or "[*]", lines(edge.get("label", "")))
        for edge in graph.get("edges", [])
    )


def read(drawing: Drawing) -> Counter[tuple[str | None, str, tuple[str, ...]]]:
    return Counter(
        (arrow.source, arrow.target, arrow.steps[0].names if arrow.steps else ("",)) for arrow in drawing.arrows
    )


def test_arrows_are_those_of_graphviz() -> None:
    random = Random(12)
    texts = [f"digraph {{\n{''.join(written(random) for _ in range(5))}}}\n" for _ in range(200)]
    run = subprocess.run(
        [program("dot"), "-Tdot_json"], input="".join(texts), capture_output=True, text=True, check=True
    )
    decoder, at = json.JSONDecoder(), 0
    for text in texts:
        graph, at = decoder.raw_decode(run.stdout, at + len(run.stdout[at:]) - len(run.stdout[at:].lstrip()))
        (found,) = parse(text, "x.dot")

        assert not found.problems, (text, found.problems)
        assert by_graphviz(graph) == read(found), text


@pytest.mark.parametrize("name", ["name", "src", "dst", "obj_dict", "points", "graph_type", "strict_", "parent_graph"])
def test_attributes_may_have_any_name(name: str) -> None:
    (found,) = parse(f"digraph {{ node [{name}=x]; a [{name}=b]; a -> c [{name}=d, label=go] }}", "x.dot")

    assert not found.problems
    assert [("a", "c", ("go",))] == [(each.source, each.target, each.labels) for each in found.arrows]


@pytest.mark.parametrize(
    ("deep", "what"),
    [(99, None), (100, "column 1210: groups are nested deeper than 100"), (5_000, "groups are nested deeper than 100")],
)
@pytest.mark.parametrize("rest", ["a -> b", "a -> ", "a -> b }"])
def test_groups_are_read_to_a_depth(deep: int, what: str | None, rest: str) -> None:
    """Groups that are nested too deeply are refused immediately, with or without another error."""
    (found, *_) = parse(f"digraph {{{'subgraph x {' * deep}{rest}{'}' * deep}}}", "x.dot")

    assert bool(found.problems) == bool(what or rest == "a -> ")
    assert all((what or "is not DOT") in each.what for each in found.problems)


def test_a_graph_of_too_many_arrows_is_refused() -> None:
    """An edge between two groups of 200 nodes counts as 40,000 arrows, more than a graph may have."""
    names = " ".join(f"n{number}" for number in range(200))
    (found,) = parse(f"digraph {{\n{{ {names} }} -> {{ {names} }} }}", "x.dot")

    assert ["the graph has more than 30,000 names and arrows"] == [each.what.split(": ")[1] for each in found.problems]


def test_a_mistake_in_one_graph_leaves_the_next() -> None:
    texts = ['digraph { a -> { b [label="}"] -> } /* } */ # }\n }', "digraph { c -> d }"]
    first, second = parse("\n".join(texts), "x.dot")

    assert (len(first.problems), first.last) == (1, 2)
    assert (second.line, list(second.states), second.problems) == (3, ["c", "d"], ())
