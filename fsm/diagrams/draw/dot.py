"""A picture as Graphviz DOT.

If edges lead back to the initial state, it is drawn twice, at the top and at the bottom.  With a single node, half of
the edges would run up the page.  An edge from any state, or from states that are not drawn, starts from a word beside
its target.  Several edges from any state start from the same word.

Nodes and edges have an ``id``, which an SVG made from the text keeps.  See :mod:`fsm.diagrams.draw.image`.
"""

from collections.abc import Iterator
from html import escape
from typing import Final

import graphviz

from fsm.diagrams.draw.captions import DEVIATE, FAILS, caption, footer, origin, remarks, times
from fsm.diagrams.draw.kinds import LOOKS, Look, ink, legend, look
from fsm.diagrams.draw.picture import ANY, ELSEWHERE, EdgeLabel, Picture, PictureEdge, PictureNode

FONT: Final = "DejaVu Sans,Verdana,sans-serif"
INK: Final = "#1f2328"
DIM: Final = "#59636e"
LINE: Final = "#818b98"
RED: Final = "#bc4c00"
OTHER: Final = "#8250df"
MARK: Final = "#0969da"
BAD: Final = "#cf222e"
# Fill colours of states by number of visits: 0, below ten, below a hundred and so on.
HEAT: Final = ("#ffffff", "#ddf4fe", "#b6e3ff", "#80ccff", "#54aeff")

LONG: Final = 30  # maximum number of characters of a label on one line
DASHED: Final = ",dashed"

_TABLE: Final = '<table border="0" cellborder="0" cellspacing="0" cellpadding="2">'
_WORD_STYLE: Final = {
    "shape": "none",
    "margin": "0.04,0.04",
    "height": "0",
    "width": "0",
    "style": "",
    "fontsize": "11",
}
START: Final = "(start)"
# Suffix of the initial state's name for its second node.  No state has brackets in its name.
AGAIN: Final = "(again)"


def dot(picture: Picture) -> str:
    """Return *picture* as a DOT digraph.  The text is the same on every run.

    >>> from fsm.language.library import load
    >>> from fsm.diagrams.draw.picture import picture
    >>> dot(picture(load("examples/models/door.toml"))).splitlines()[0]
    'digraph door {'
    """
    graph = graphviz.Digraph(picture.name)
    graph.attr("graph", nodesep="0.2", ranksep="0.42", bgcolor="transparent", fontname=FONT, fontsize="11")
    graph.attr("node", shape="box", style="rounded,filled", fontname=FONT, fontsize="13", margin="0.15,0.07")
    graph.attr("edge", fontname=FONT, fontsize="11", arrowsize="0.7", color=LINE, fontcolor=INK, penwidth="1.2")
    if below := _below(picture):
        graph.attr("graph", label=below)
    returns = any(edge.target == picture.initial != edge.source for edge in picture.edges)
    if picture.initial:
        with graph.subgraph(graph_attr={"rank": "source"}) as first:
            style = {"label": "", "shape": "circle", "width": "0.14", "style": "filled", "fillcolor": INK, "color": INK}
            first.node(START, id=identity(picture, "start"), **style)
        graph.edge(START, picture.initial, id=identity(picture, "edge", "", picture.initial))
    for node in picture.nodes:
        _node(graph, node, node.name, identity(picture, "state", node.name))
    if returns:
        initial = next(node for node in picture.nodes if node.name == picture.initial)
        with graph.subgraph(graph_attr={"rank": "sink"}) as last:
            _node(last, initial, f"{initial.name} {AGAIN}", identity(picture, "again", initial.name))
    words: set[str] = set()
    for edge in picture.edges:
        back = returns and edge.target == picture.initial != edge.source
        _edge(graph, picture, edge, f"{edge.target} {AGAIN}" if back else edge.target, words)
    text: str = graph.source
    return text.replace("\t", "  ")


def identity(picture: Picture, *parts: str) -> str:
    """Return a unique id for a drawn part.  Names never contain a colon."""
    return ":".join((picture.name, *parts))


def _below(picture: Picture) -> str:
    swatches = "".join(_swatch(kind, LOOKS[kind], plain=ink(picture)) for kind in legend(picture))
    rows = [f'<table border="0" cellspacing="8" cellpadding="3"><tr>{swatches}</tr></table>'] if swatches else []
    colours = {FAILS: RED, DEVIATE: OTHER}
    rows += [_font(escape(line), colours.get(line.partition(" ")[0], DIM)) for line in footer(picture)]
    cells = "".join(f"<tr><td>{row}</td></tr>" for row in rows)
    return f'<<table border="0" cellspacing="0" cellpadding="1">{cells}</table>>' if rows else ""


def _swatch(kind: str, look: Look, *, plain: bool) -> str:
    # Remove the dashes, because dashed cells make dot 2.43 crash.
    style = look.style.removesuffix(DASHED) or "solid"
    words = f"&#160;{kind}{' (dashed)' if look.style.endswith(DASHED) else ''}&#160;"
    fill = HEAT[0] if plain else look.fill
    box = f'color="{LINE}" bgcolor="{fill}" style="{style}" border="{round(float(look.width))}"'
    if look.lines == 1:
        return f"<td {box}>{words}</td>"
    inner = f'<tr><td {box} cellpadding="1">{words}</td></tr>'
    return f'<td border="0" cellpadding="0"><table {box} cellspacing="2">{inner}</table></td>'


def _node(graph: graphviz.Digraph, node: PictureNode, name: str, identity: str) -> None:
    lines = [f"<b>{escape(state)}</b>" for state in node.states]
    lines += (f'<font point-size="10">{escape(remark)}</font>' for remark in remarks(node))
    heat = HEAT[min(len(str(node.count)), len(HEAT) - 1) if node.count else 0]
    shape = look(node)
    line = OTHER if node.only else LINE
    graph.node(
        name,
        id=identity,
        label=f"<{'<br/>'.join(lines)}>",
        style=",".join(filter(None, (shape.style, "filled", "dotted" if node.only else ""))),
        fillcolor=shape.fill if node.count is None else heat,
        color=BAD if node.failed else MARK if node.marked else line,
        fontcolor=INK,
        penwidth="3.2" if node.marked or node.failed else shape.width,
        peripheries=str(shape.lines),
        tooltip=graphviz.escape(node.about),
    )


def _edge(graph: graphviz.Digraph, picture: Picture, edge: PictureEdge, target: str, words: set[str]) -> None:
    style = {"color": OTHER} if all(label.deviates for label in edge.labels) else {}
    if edge.failed or edge.marked:
        style = {"color": BAD if edge.failed else MARK, "penwidth": "2.4"}
    if edge.counts and not any(count.met for count in edge.counts):
        style |= {"style": "dotted"}
    elif all(label.error for label in edge.labels):
        style |= {"style": "dashed"}
    rows = [f'<tr><td align="left">&#160;{row}&#160;</td></tr>' for label in labelled(edge) for row in label]
    table = f"<{_TABLE}{''.join(rows)}</table>>"
    source = origin(edge, picture)
    if edge.source in {ANY, ELSEWHERE} and source not in words:
        words.add(source)
        word = f"<{_font('any state', DIM)}>" if edge.source == ANY else f"<{_word(edge)}>"
        graph.node(source, id=identity(picture, "word", source), label=word, **_WORD_STYLE)
    named = identity(picture, "edge", edge.source, edge.target)
    graph.edge(source, target, id=named, label=None if edge.source == ELSEWHERE else table, **style)


def _word(edge: PictureEdge) -> str:
    texts = [" ".join(rows) for rows in labelled(edge)]
    cells = (f"<td>{text}{',' if number < len(texts) else ''}</td>" for number, text in enumerate(texts, 1))
    return f"{_TABLE}<tr>{''.join(cells)}</tr></table>"


def labelled(edge: PictureEdge) -> list[list[str]]:
    """Return the rows of each label of *edge*: one, or two if its outputs make it long, plus one for its count."""
    found = []
    for label, count in zip(edge.labels, times(edge), strict=True):
        own = OTHER if label.deviates else RED if label.error else DIM if label.cell == "ignores" else ""
        rows = list(_rows(label, DIM if edge.source == ELSEWHERE else BAD if edge.failed else own))
        found.append([*rows, *([_font(count, DIM)] if count else [])])
    return found


def _rows(label: EdgeLabel, colour: str) -> Iterator[str]:
    words = caption(label, emits=False)
    emits = caption(label).removeprefix(words).strip()
    long = len(words) + len(emits) > LONG
    words = f"<i>{escape(words)}</i>" if label.kind != "call" else escape(words)
    if colour:
        words = _font(words, colour)
    beside = f"&#160;{_font(escape(emits), DIM)}" if emits else ""
    yield words if long else f"{words}{beside}"
    if emits and long:
        yield f"&#160;{beside}"


def _font(words: str, colour: str) -> str:
    return f'<font color="{colour}">{words}</font>'
