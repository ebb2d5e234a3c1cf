"""Write a picture as Graphviz DOT.

If edges lead back to the initial state, that state is drawn twice, at the top and at the bottom. Otherwise, half of the
edges would run up the page. Edges from every state, or from states that are not drawn, start at a word beside their
target, which several such edges share.

Nodes and edges have an ``id``, so that a page can find them in the SVG.
"""

import hashlib
import math
import subprocess
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import graphviz

from fsm.diagrams.draw.picture import ANY, ELSEWHERE, EdgeLabel, Picture, PictureEdge, PictureNode
from fsm.diagrams.draw.text_pictures import (
    DEVIATE,
    FAILS,
    LOOKS,
    UNSTATED,
    Look,
    fill_shows_count,
    footer,
    happening,
    legend,
    look,
    origin,
    outputs,
    remarks,
    times,
)
from fsm.machine.hierarchy import Above, level
from fsm.scratch import ScratchFolder

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
# Suffix for the name of the second node of the initial state. It is unique, as no state has brackets in its name.
AGAIN: Final = "(again)"


def dot(picture: Picture) -> str:
    """Return *picture* as a DOT digraph. The text is the same on every run.

    >>> from fsm.language.library import load
    >>> from fsm.diagrams.draw.picture import picture
    >>> dot(picture(load("examples/models/door.toml"))).splitlines()[0]
    'digraph door {'
    """
    graph = graphviz.Digraph(picture.name)
    graph.attr("graph", nodesep="0.2", ranksep="0.42", bgcolor="transparent", fontname=FONT, fontsize="11")
    graph.attr("node", shape="box", style="rounded,filled", fontname=FONT, fontsize="13", margin="0.15,0.07")
    graph.attr("edge", fontname=FONT, fontsize="11", arrowsize="0.7", color=LINE, fontcolor=INK, penwidth="1.2")
    if below := _legend_and_footer(picture):
        graph.attr("graph", label=below)
    for number, region in enumerate(picture.regions):
        style = {"label": f"<<b>{escape(region.title)}</b>>", "style": "rounded", "color": LINE, "fontcolor": INK}
        with graph.subgraph(name=f"cluster_{number}", graph_attr=style) as cluster:
            _states(cluster, region)
    if not picture.regions:
        _states(graph, picture)
    text: str = graph.source
    return text.replace("\t", "  ")


def _states(graph: graphviz.Digraph, picture: Picture) -> None:
    returns = any(edge.target == picture.initial != edge.source for edge in picture.edges)
    if picture.initial:
        with graph.subgraph(graph_attr={"rank": "source"}) as first:
            style = {"label": "", "shape": "circle", "width": "0.14", "style": "filled", "fillcolor": INK, "color": INK}
            first.node(picture.region + START, id=identity(picture, "start"), **style)
        graph.edge(picture.region + START, picture.initial, id=identity(picture, "edge", "", picture.initial))
    _nodes(graph, picture, {node.name: node.above for node in picture.nodes})
    if returns:
        initial = next(node for node in picture.nodes if node.name == picture.initial)
        with graph.subgraph(graph_attr={"rank": "sink"}) as last:
            _node(last, initial, f"{initial.name} {AGAIN}", identity(picture, "again", initial.name))
    words: set[str] = set()
    for edge in picture.edges:
        back = returns and edge.target == picture.initial != edge.source
        _edge(graph, picture, edge, f"{edge.target} {AGAIN}" if back else edge.target, words)


def identity(picture: Picture, *parts: str) -> str:
    return ":".join((picture.name, *parts))


def _legend_and_footer(picture: Picture) -> str:
    swatches = "".join(_swatch(kind, LOOKS[kind], plain=fill_shows_count(picture)) for kind in legend(picture))
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


def _nodes(graph: graphviz.Digraph, picture: Picture, states: Above, depth: int = 0) -> None:
    nodes = {node.name: node for node in picture.nodes}
    for name, inside in level(states, depth).items():
        if name in nodes:
            _node(graph, nodes[name], name, identity(picture, "state", name))
            continue
        style = {"label": name, "style": "rounded", "color": LINE, "fontcolor": INK}
        with graph.subgraph(name=f"cluster_{name}", graph_attr=style) as parent:
            _nodes(parent, picture, inside, depth + 1)


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
    """Return the rows of each label of *edge*. A count has its own row, as do the outputs of a long label."""
    found = []
    for label, count in zip(edge.labels, times(edge), strict=True):
        own = OTHER if label.deviates else RED if label.error else DIM if label.cell == "ignores" else ""
        rows = list(_rows(label, DIM if edge.source == ELSEWHERE else BAD if edge.failed else own))
        found.append([*rows, *([_font(count, DIM)] if count else [])])
    return found


def _rows(label: EdgeLabel, colour: str) -> Iterator[str]:
    words, emits = happening(label), outputs(label)
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


HOW_TO_GET_DOT: Final = "apt-get install graphviz, dnf install graphviz or brew install graphviz"

_SVG: Final = "http://www.w3.org/2000/svg"
_LINK: Final = "http://www.w3.org/1999/xlink"

# Maps colours on a light page to the colours that replace them on a dark page.
DARK: Final = {
    INK: "#e6edf3",
    DIM: "#9198a1",
    LINE: "#7d8590",
    RED: "#f0883e",
    MARK: "#58a6ff",
    OTHER: "#ab7df8",
    BAD: "#f85149",
    **{each.fill: each.dark for each in (UNSTATED, *LOOKS.values())},
    **dict(zip(HEAT, ("#0d1117", "#0c2d6b", "#0d419d", "#1158c7", "#1763d4"), strict=True)),
}


class NoDotError(Exception):
    pass


class DotFailedError(Exception):
    pass


def svg(picture: Picture) -> bytes:
    """Return *picture* as SVG that suits light and dark pages.

    The attribute ``data-source`` is the digest of the DOT text, which shows whether the SVG is up to date.
    """
    text = dot(picture)
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _LINK)
    root = ET.fromstring(image(text, "svg"))  # noqa: S314  (dot wrote it)
    _identify(root, picture)
    for side, length in zip(("width", "height"), root.attrib["viewBox"].split()[2:], strict=True):
        root.set(side, f"{math.ceil(float(length))}")  # in pixels, so that the SVG's text is as large as the page's
    root.set("role", "img")
    root.set("aria-label", picture.title)
    root.set("data-source", digest(text))
    style = ET.Element(f"{{{_SVG}}}style")
    rules = "".join(f'[fill="{old}"]{{fill:{new}}}[stroke="{old}"]{{stroke:{new}}}' for old, new in DARK.items())
    style.text = f"@media (prefers-color-scheme:dark){{text:not([fill]){{fill:{DARK[INK]}}}{rules}}}"
    root.insert(0, style)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _identify(root: ET.Element, picture: Picture) -> None:
    groups = {each.get("id", ""): each for each in root.iter(f"{{{_SVG}}}g")}
    for each in root.iter():
        if not each.get("id", "").startswith((f"{picture.name}:", f"{picture.name}.")):
            each.attrib.pop("id", None)
    for region in picture.regions or (picture,):
        _name_groups(groups, region)


def _name_groups(groups: Mapping[str, ET.Element], picture: Picture) -> None:
    for node in picture.nodes:
        for part in ("state", "again"):
            if (group := groups.get(identity(picture, part, node.name))) is not None:
                group.set("class", f"node kind-{node.kind}" if node.kind else "node")
                group.attrib.update({"data-states": " ".join(node.states), "data-kind": node.kind or ""})
    for edge in picture.edges:
        group = groups[identity(picture, "edge", edge.source, edge.target)]
        group.attrib.update({"data-from": edge.source, "data-to": edge.target})
        word = groups.get(identity(picture, "word", origin(edge, picture)))
        _group_cells(word if word is not None and edge.source == ELSEWHERE else group, picture, edge)


def _group_cells(group: ET.Element, picture: Picture, edge: PictureEdge) -> None:
    words = list(group.iter(f"{{{_SVG}}}text"))
    (parent,) = {each for each in group.iter() if set(words) & set(each)}
    for number, (label, texts) in enumerate(zip(edge.labels, _split_by_label(words, edge), strict=True)):
        about = {"id": identity(picture, "cell", edge.source, edge.target, str(number)), "class": "cell"}
        about |= {"data-event": label.event, "data-state": edge.source, "data-to": edge.target}
        about |= {"data-ends": "true"} if label.ends else {}
        about |= {"data-outcome": label.outcome} if label.outcome not in {"", ELSEWHERE} else {}
        about |= {"data-deviates": "true"} if label.deviates else {}
        cell = ET.SubElement(parent, f"{{{_SVG}}}g", about)
        for text in texts:
            parent.remove(text)
            cell.append(text)


def _split_by_label(words: list[ET.Element], edge: PictureEdge) -> list[list[ET.Element]]:
    if edge.source == ELSEWHERE:
        found: list[list[ET.Element]] = [[]]
        for text in words:
            found[-1].append(text)
            found += [[]] if (text.text or "").endswith(",") else []
        return found
    lines = {line: [text for text in words if text.get("y") == line] for line in (each.get("y") for each in words)}
    rows = iter(lines.values())
    return [[text for _ in taken for text in next(rows)] for taken in labelled(edge)]


def png(picture: Picture) -> bytes:
    return image(dot(picture).replace("bgcolor=transparent", "bgcolor=white dpi=144", 1), "png")


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def image(text: str, form: str) -> bytes:
    """Return the image that ``dot`` makes from *text*.

    Raise :class:`NoDotError` if Graphviz is not installed, and :class:`DotFailedError` if it fails.
    """
    # Do not use a pipe. If dot exits before it has read all of its input, a process that does not catch SIGPIPE is
    # killed without a message.
    with ScratchFolder() as folder:
        try:
            made = graphviz.Source(text).render(filename="picture", directory=folder, format=form, quiet=True)
        except graphviz.ExecutableNotFound as error:
            raise NoDotError from error
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors="replace").strip() if error.stderr else str(error)
            raise DotFailedError(f"Graphviz's program 'dot' could not make {form}: {reason}") from error
        return Path(made).read_bytes()
