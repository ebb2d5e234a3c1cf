"""A picture in Graphviz's language.

The initial state is drawn twice where others lead back to it: where life
begins, and at the end; otherwise half of the edges would run up the page.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import graphviz

from fsm.rendering.picture import ANY

if TYPE_CHECKING:
    from fsm.rendering.picture import Edge, Label, Node, Picture

FONT: Final = "DejaVu Sans,Verdana,sans-serif"
INK: Final = "#1f2328"
DIM: Final = "#6e7781"
LINE: Final = "#8c959f"
FILL: Final = "#f6f8fa"
RED: Final = "#b35900"
MARK: Final = "#0969da"
BAD: Final = "#cf222e"
GONE: Final = "again"
"""Added to the name of the initial state for the node at the end."""

HEAT: Final = ("#f6f8fa", "#ddf4ff", "#b6e3ff", "#80ccff", "#54aeff")


def dot(picture: Picture) -> str:
    """*picture* as a digraph, the same text on every run.

    >>> from fsm.library import load
    >>> from fsm.rendering.picture import picture
    >>> dot(picture(load("cri-pod"))).splitlines()[0]
    'digraph "cri-pod" {'
    """
    graph = graphviz.Digraph(picture.name)
    graph.attr(
        "graph", rankdir="TB", nodesep="0.35", ranksep="0.5", fontname=FONT, fontsize="10", bgcolor="transparent"
    )
    graph.attr(
        "node", shape="box", style="rounded,filled", fontname=FONT, fontsize="12", margin="0.16,0.08", penwidth="1.2"
    )
    graph.attr("edge", fontname=FONT, fontsize="10", arrowsize="0.7", color=LINE, fontcolor=INK)
    if picture.left_out:
        graph.attr("graph", label=f"not drawn: {', '.join(picture.left_out)}", fontcolor=DIM, labelloc="b")
    returns = any(edge.target == picture.initial != edge.source for edge in picture.edges)
    graph.node("start", label="", shape="circle", width="0.14", style="filled", fillcolor=INK, color=INK)
    graph.edge("start", picture.initial)
    for node in picture.nodes:
        _node(graph, node, node.name)
        if node.initial and returns:
            _node(graph, node, f"{node.name} {GONE}")
    for edge in picture.edges:
        back = returns and edge.target == picture.initial and edge.source != picture.initial
        _edge(graph, edge, f"{edge.target} {GONE}" if back else edge.target)
    text: str = graph.source
    return text.replace("\t", "  ")


def _node(graph: graphviz.Digraph, node: Node, name: str) -> None:
    if node.name == ANY:
        graph.node(name, label="any state", shape="plain", style="", fontcolor=DIM, fontsize="11")
        return
    lines = [f"<b>{escape(node.name)}</b>"]
    if node.shows:
        lines.append(f'<font point-size="9" color="{DIM}">{escape(node.shows)}</font>')
    if node.count is not None:
        lines.append(f'<font point-size="9" color="{DIM}">met {node.count:,}</font>')
    style = {
        "style": "rounded,filled,dashed" if node.passing else "rounded,filled",
        "fillcolor": _heat(node.count) if node.count is not None else FILL,
        "color": BAD if node.failed else MARK if node.marked else LINE,
        "fontcolor": INK,
        "penwidth": "2.6" if node.marked or node.failed else "1.2",
        "tooltip": node.about,
    }
    graph.node(name, label=f"<{'<br/>'.join(lines)}>", **style)


def _edge(graph: graphviz.Digraph, edge: Edge, target: str) -> None:
    failing = all(label.error for label in edge.labels)
    style = {"color": MARK if edge.marked else LINE, "penwidth": "2.4" if edge.marked else "1.2"}
    if failing:
        style |= {"style": "dashed"}
    if edge.count == 0:
        style |= {"style": "dotted"}
    rows = [_row(label) for label in edge.labels]
    if edge.count:
        rows.append(f'<tr><td align="left"><font color="{DIM}">{edge.count:,} times</font></td></tr>')
    label = f'<<table border="0" cellborder="0" cellspacing="0" cellpadding="1">{"".join(rows)}</table>>'
    graph.edge(edge.source, target, label=label, **style)


def _row(label: Label) -> str:
    words = escape(label.event)
    if label.ends:
        words += f": {escape(label.outcome)}" if label.outcome else " ends" if not label.error else ""
    if label.kind != "call":
        words = f"<i>{words}</i>"
    if label.cell == "silent":
        words += " ?"
    if label.cell == "ignores":
        words = f'<font color="{DIM}">({words})</font>'
    if label.error:
        said = "" if label.error == "error" else f" {escape(label.error)}"
        words = f'<font color="{RED}">{words} ✗{said}</font>'
    if label.emits:
        words += f' <font color="{DIM}">/ {escape(", ".join(label.emits))}</font>'
    if label.deviates:
        words += f' <font color="{RED}">(deviation)</font>'
    return f'<tr><td align="left">{words}</td></tr>'


def _degree(count: int) -> int:
    """How often in five degrees: never, a few times, and up by tens."""
    return min(len(str(count)), len(HEAT) - 1) if count else 0


def _heat(count: int) -> str:
    return HEAT[_degree(count)]
