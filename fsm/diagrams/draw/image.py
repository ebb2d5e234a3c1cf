"""A picture as SVG or PNG, made by Graphviz's ``dot`` program.

A page finds the parts of an SVG by the ids and classes below.  An id begins with the picture's name, such as
``door:state:open``.  Names in a model never contain a colon.  A script reads them from the attributes:

``NAME:state:STATE``, ``NAME:again:STATE``
    A node, and the second node of the initial state, of class ``node`` and, if the model states its kind,
    ``kind-KIND``.  ``data-states`` lists all states that are drawn as this node, and ``data-kind`` is their kind.
``NAME:edge:SOURCE:TARGET``
    An edge of class ``edge`` with ``data-from`` and ``data-to``.  The source is ``*`` for any state, ``…`` if the
    edge starts from a word for events that are not drawn, and empty for the edge into the initial state.
``NAME:cell:SOURCE:TARGET:NUMBER``
    The caption of one event on an edge, or in the word that the edge starts from, of class ``cell``.  It has
    ``data-event``, ``data-state`` (the source), ``data-to``, ``data-ends`` for the end of a call, and
    ``data-outcome`` and ``data-deviates`` if they apply.
"""

import hashlib
import math
import subprocess
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import graphviz

from fsm.diagrams.draw.captions import origin
from fsm.diagrams.draw.dot import BAD, DIM, HEAT, INK, LINE, MARK, OTHER, RED, dot, identity, labelled
from fsm.diagrams.draw.kinds import LOOKS, UNSTATED
from fsm.diagrams.draw.picture import ELSEWHERE, Picture, PictureEdge
from fsm.scratch import ScratchFolder

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
    """Graphviz's ``dot`` program is not installed."""


class DotFailedError(Exception):
    """Graphviz's ``dot`` program failed."""


def svg(picture: Picture) -> bytes:
    """Return *picture* as SVG that suits light and dark pages.

    Its ``data-source`` attribute is the digest of the DOT text, so that it can be checked without ``dot`` whether the
    image is up to date.
    """
    text = dot(picture)
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _LINK)
    root = ET.fromstring(image(text, "svg"))  # noqa: S314  (dot wrote it)
    _identify(root, picture)
    for side, length in zip(("width", "height"), root.attrib["viewBox"].split()[2:], strict=True):
        root.set(side, f"{math.ceil(float(length))}")  # in pixels, so that the text is as large as that of the page
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
        if not each.get("id", "").startswith(f"{picture.name}:"):
            each.attrib.pop("id", None)
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
    for number, (label, texts) in enumerate(zip(edge.labels, _by_label(words, edge), strict=True)):
        about = {"id": identity(picture, "cell", edge.source, edge.target, str(number)), "class": "cell"}
        about |= {"data-event": label.event, "data-state": edge.source, "data-to": edge.target}
        about |= {"data-ends": "true"} if label.ends else {}
        about |= {"data-outcome": label.outcome} if label.outcome not in {"", ELSEWHERE} else {}
        about |= {"data-deviates": "true"} if label.deviates else {}
        cell = ET.SubElement(parent, f"{{{_SVG}}}g", about)
        for text in texts:
            parent.remove(text)
            cell.append(text)


def _by_label(words: list[ET.Element], edge: PictureEdge) -> list[list[ET.Element]]:
    """Split the text elements by label.  An edge has rows for each label, and a word has one comma-separated row."""
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
    """Return *picture* as PNG on white, at print resolution."""
    return image(dot(picture).replace("bgcolor=transparent", "bgcolor=white dpi=144", 1), "png")


def digest(text: str) -> str:
    """Return the digest of the text that an image is made from."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def image(text: str, form: str) -> bytes:
    """Return the image that ``dot`` makes of *text*.

    Raise :class:`NoDotError` if it is not installed, or :class:`DotFailedError` if it fails.
    """
    # Don't use a pipe. If dot exits before it has read all of its input, SIGPIPE silently kills a process that does not
    # catch it.
    with ScratchFolder() as folder:
        try:
            made = graphviz.Source(text).render(filename="picture", directory=folder, format=form, quiet=True)
        except graphviz.ExecutableNotFound as error:
            raise NoDotError from error
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors="replace").strip() if error.stderr else str(error)
            raise DotFailedError(f"Graphviz's program 'dot' could not make {form}: {reason}") from error
        return Path(made).read_bytes()
