"""A picture in Graphviz's language.

If edges lead back to the initial state, it is drawn twice, at the top and at the bottom; otherwise half of the edges
would run up the page.  An edge from any state, or from states that are not drawn, begins in a word beside its target.
"""

from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Final

import graphviz

from fsm.diagrams.draw.captions import TIMES, caption, footer, origin
from fsm.diagrams.draw.picture import ANY, ELSEWHERE, EdgeLabel, Picture, PictureEdge, PictureNode

FONT: Final = "DejaVu Sans,Verdana,sans-serif"
INK: Final = "#1f2328"
DIM: Final = "#59636e"
LINE: Final = "#818b98"
FILL: Final = "#f6f8fa"
RED: Final = "#bc4c00"
OTHER: Final = "#8250df"
MARK: Final = "#0969da"
BAD: Final = "#cf222e"
ALONE: Final = "#dafbe1"
TINTS: Final = ("#ddf4ff", "#fff8c5", "#fbefff", "#ffebe9")
"""The fills of states that show the same as others, in the order of what they show; ``ALONE`` is for all others."""
HEAT: Final = ("#ffffff", "#ddf4fe", "#b6e3ff", "#80ccff", "#54aeff")
"""The fills of states by the number of times they were visited: 0, below ten, below a hundred and so on."""

LONG: Final = 30
"""Largest number of characters of a label on one line."""

START: Final = "(start)"
AGAIN: Final = "(again)"
"""Added to the name of the initial state for its second node; no state has brackets in its name."""


def dot(picture: Picture) -> str:
    """*picture* as a digraph, the same text on every run.

    >>> from fsm.library import load
    >>> from fsm.diagrams.draw.picture import picture
    >>> dot(picture(load("cri-pod"))).splitlines()[0]
    'digraph "cri-pod" {'
    """
    graph = graphviz.Digraph(picture.name)
    graph.attr("graph", nodesep="0.25", ranksep="0.42", bgcolor="transparent", fontname=FONT, fontsize="11")
    graph.attr("node", shape="box", style="rounded,filled", fontname=FONT, fontsize="13", margin="0.15,0.07")
    graph.attr("edge", fontname=FONT, fontsize="11", arrowsize="0.7", color=LINE, fontcolor=INK, penwidth="1.2")
    if below := footer(picture):
        graph.attr("graph", label="".join(f"{graphviz.escape(line)}\\n" for line in below), fontcolor=DIM)
    tints = _tints(picture)
    returns = any(edge.target == picture.initial != edge.source for edge in picture.edges)
    if picture.initial:
        with graph.subgraph(graph_attr={"rank": "source"}) as first:
            first.node(START, label="", shape="circle", width="0.14", style="filled", fillcolor=INK, color=INK)
        graph.edge(START, picture.initial)
    for node in picture.nodes:
        _node(graph, node, node.name, tints)
    if returns:
        initial = next(node for node in picture.nodes if node.name == picture.initial)
        with graph.subgraph(graph_attr={"rank": "sink"}) as last:
            _node(last, initial, f"{initial.name} {AGAIN}", tints)
    for edge in picture.edges:
        back = returns and edge.target == picture.initial != edge.source
        _edge(graph, edge, f"{edge.target} {AGAIN}" if back else edge.target)
    text: str = graph.source
    return text.replace("\t", "  ")


def _tints(picture: Picture) -> dict[str, str]:
    """The fill for each of what states show, if several states show the same."""
    shown = Counter(node.shows for node in picture.nodes if node.shows for _ in node.states)
    shared = [shows for shows, count in shown.items() if count > 1]
    if not 0 < len(shared) <= len(TINTS):
        return {}
    return dict.fromkeys(shown, ALONE) | dict(zip(shared, TINTS, strict=False))


def _node(graph: graphviz.Digraph, node: PictureNode, name: str, tints: dict[str, str]) -> None:
    lines = [f"<b>{escape(state)}</b>" for state in node.states]
    if node.shows:
        lines.append(f'<font point-size="10" color="{DIM}">{escape(node.shows)}</font>')
    if node.count is not None:
        lines.append(f'<font point-size="10">met {node.count:,}</font>')
    heat = HEAT[min(len(str(node.count)), len(HEAT) - 1) if node.count else 0]
    graph.node(
        name,
        label=f"<{'<br/>'.join(lines)}>",
        style="rounded,filled,dashed" if node.passing else "rounded,filled",
        fillcolor=tints.get(node.shows, FILL) if node.count is None else heat,
        color=BAD if node.failed else MARK if node.marked else LINE,
        fontcolor=INK,
        penwidth="2.6" if node.marked or node.failed else "1.2",
        tooltip=graphviz.escape(node.about),
    )


def _edge(graph: graphviz.Digraph, edge: PictureEdge, target: str) -> None:
    style = {}
    if edge.failed:
        style = {"color": BAD, "penwidth": "2.4"}
    elif edge.marked:
        style = {"color": MARK, "penwidth": "2.4"}
    elif all(label.deviates for label in edge.labels):
        style = {"color": OTHER}
    if edge.counts and not any(edge.counts):
        style |= {"style": "dotted"}
    elif all(label.error for label in edge.labels):
        style |= {"style": "dashed"}
    rows: list[str] = []
    for index, label in enumerate(edge.labels):
        rows += _rows(label, DIM if edge.source == ELSEWHERE else BAD if edge.failed else _colour(label))
        if edge.counts and edge.counts[index]:
            rows.append(_row(f"&#160;{_font(f'{edge.counts[index]:,}{TIMES}', DIM)}"))
    table = f'<<table border="0" cellborder="0" cellspacing="0" cellpadding="1">{"".join(rows)}</table>>'
    source = origin(edge)
    if edge.source in {ANY, ELSEWHERE}:
        word = f"<{_font('any state', DIM)}>" if edge.source == ANY else table
        graph.node(source, label=word, shape="plain", style="", fontsize="11")
    graph.edge(source, target, label=None if edge.source == ELSEWHERE else table, **style)


def _colour(label: EdgeLabel) -> str:
    return OTHER if label.deviates else RED if label.error else DIM if label.cell == "ignores" else ""


def _rows(label: EdgeLabel, colour: str) -> Iterator[str]:
    """*label* on one line; on two if its outputs make it long."""
    words = caption(label, emits=False)
    emits = caption(label).removeprefix(words).strip()
    long = len(words) + len(emits) > LONG
    words = f"<i>{escape(words)}</i>" if label.kind != "call" else escape(words)
    if colour:
        words = _font(words, colour)
    beside = f"&#160;{_font(escape(emits), DIM)}" if emits else ""
    yield _row(words if long else f"{words}{beside}")
    if emits and long:
        yield _row(f"&#160;{beside}")


def _row(words: str) -> str:
    return f'<tr><td align="left">&#160;{words}</td></tr>'


def _font(words: str, colour: str) -> str:
    return f'<font color="{colour}">{words}</font>'
