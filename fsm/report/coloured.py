"""Two lifecycles in one picture: what both have in grey, what only one has in its colour, what is not drawn dotted."""

from html import escape
from typing import Final

import graphviz

from fsm.diagrams.compare import ComparedMove, Comparison, Where
from fsm.diagrams.draw.dot import DIM, FONT, INK, LINE

FIRST: Final = "#cf222e"
SECOND: Final = "#1a7f37"

_COLOURS: Final = {Where.BOTH: LINE, Where.FIRST: FIRST, Where.SECOND: SECOND, Where.UNDRAWN: LINE}


def dot(found: Comparison) -> str:
    """*found* as a digraph in Graphviz's language, the same text on every run.

    >>> from fsm.diagrams.compare import compare
    >>> from fsm.library import load
    >>> dot(compare(load("cri-pod"), load("cri-pod"))).splitlines()[0]
    'digraph difference {'
    """
    graph = graphviz.Digraph("difference")
    legend = (
        f'<<font color="{FIRST}">only {escape(found.first)}</font>   '
        f'<font color="{SECOND}">only {escape(found.second)}</font>   '
        f'<font color="{DIM}">both; dotted: not drawn</font>>'
    )
    graph.attr(
        "graph", rankdir="TB", nodesep="0.35", ranksep="0.5", fontname=FONT, fontsize="10", bgcolor="transparent"
    )
    graph.attr("graph", label=legend, labelloc="b")
    graph.attr("node", shape="box", style="rounded", fontname=FONT, fontsize="12", margin="0.16,0.08")
    graph.attr("edge", fontname=FONT, fontsize="10", arrowsize="0.7")
    for state in found.states:
        style = "rounded,dotted" if state.where is Where.UNDRAWN else "rounded"
        colour = _COLOURS[state.where]
        font = INK if state.where is Where.BOTH else colour
        graph.node(f"={state.name}", label=graphviz.escape(state.name), style=style, color=colour, fontcolor=font)
    bundles: dict[tuple[str, str, Where], dict[str, None]] = {}
    for move in found.moves:
        # What both ignore or refuse is no arrow.
        if move.where is not Where.BOTH or move.source != move.target or any(move.places):
            bundles.setdefault((move.source, move.target, move.where), {})[_label(move)] = None
    if any(not source for source, _, _ in bundles):
        graph.node("nowhere", label="", shape="circle", width="0.14", style="filled", fillcolor=INK, color=INK)
    for (source, target, where), labels in bundles.items():
        colour = _COLOURS[where]
        graph.edge(
            f"={source}" if source else "nowhere",
            f"={target}",
            label="\n".join(graphviz.escape(label) for label in labels),
            color=colour,
            fontcolor=DIM if colour == LINE else colour,
            style="dotted" if where is Where.UNDRAWN else "solid",
            penwidth="1.2" if colour == LINE else "2",
        )
    text: str = graph.source
    return text.replace("\t", "  ")


def _label(move: ComparedMove) -> str:
    """The event as it is drawn, or with what distinguishes it where two machines are compared."""
    words = move.label or move.event or "?"
    if move.silent:
        words += " ?"
    if move.reply not in {"", "ok"}:
        words += f" ✗ {move.reply}"
    if move.emits:
        words += f" / {', '.join(move.emits)}"
    return words
