"""A picture as SVG or PNG, made by Graphviz's program ``dot``.

A page finds the parts of an SVG by the ids and classes below.  An id begins with the picture's name, such as
``cri-pod:state:ready``.  Names in a model have no colon; a script reads them from the attributes:

``NAME:state:STATE``, ``NAME:again:STATE``
    a node, and the second one of the initial state: class ``node`` and, if the model says so, ``kind-KIND``;
    ``data-states`` has all states that are drawn as this one, ``data-kind`` their kind
``NAME:edge:SOURCE:TARGET``
    an edge: class ``edge``, with ``data-from`` and ``data-to``; the source is ``*`` for any state, ``…`` if the
    edge begins in a word for events that are not drawn, and empty for the edge into the initial state
``NAME:cell:SOURCE:TARGET:NUMBER``
    the words of one event on an edge, or in the word where it begins: class ``cell``, with ``data-event``,
    ``data-state`` (the source), ``data-to``, ``data-ends`` for the end of a call, and ``data-outcome`` and
    ``data-deviates`` if they apply
"""

import hashlib
import math
import subprocess
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import graphviz

from fsm.diagrams.draw import dot
from fsm.diagrams.draw.captions import origin
from fsm.diagrams.draw.kinds import LOOKS, UNSTATED
from fsm.diagrams.draw.picture import ELSEWHERE, Picture, PictureEdge
from fsm.scratch import ScratchFolder

HOW_TO_GET_DOT: Final = "apt-get install graphviz, dnf install graphviz or brew install graphviz"

_SVG: Final = "http://www.w3.org/2000/svg"
_LINK: Final = "http://www.w3.org/1999/xlink"

DARK: Final = {
    dot.INK: "#e6edf3",
    dot.DIM: "#9198a1",
    dot.LINE: "#7d8590",
    dot.RED: "#f0883e",
    dot.MARK: "#58a6ff",
    dot.OTHER: "#ab7df8",
    dot.BAD: "#f85149",
    **{each.fill: each.dark for each in (UNSTATED, *LOOKS.values())},
    **dict(zip(dot.HEAT, ("#0d1117", "#0c2d6b", "#0d419d", "#1158c7", "#1763d4"), strict=True)),
}
"""Colours on a dark page, by the colours that they replace."""


class NoDotError(Exception):
    """Graphviz's program ``dot`` is not installed."""


class DotFailedError(Exception):
    """Graphviz's program ``dot`` failed."""


def svg(picture: Picture) -> bytes:
    """Return *picture* as SVG that suits light and dark pages.

    Its attribute ``data-source`` is the digest of the DOT text, to check without ``dot`` whether it is up to date.
    """
    text = dot.dot(picture)
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _LINK)
    root = ET.fromstring(image(text, "svg"))  # noqa: S314  (dot wrote it)
    _identify(root, picture)
    for side, length in zip(("width", "height"), root.attrib["viewBox"].split()[2:], strict=True):
        root.set(side, f"{math.ceil(float(length))}")  # in pixels, so that text is as large as the page's
    root.set("role", "img")
    root.set("aria-label", picture.title)
    root.set("data-source", digest(text))
    style = ET.Element(f"{{{_SVG}}}style")
    rules = "".join(f'[fill="{old}"]{{fill:{new}}}[stroke="{old}"]{{stroke:{new}}}' for old, new in DARK.items())
    style.text = f"@media (prefers-color-scheme:dark){{text:not([fill]){{fill:{DARK[dot.INK]}}}{rules}}}"
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
            if (group := groups.get(dot.identity(picture, part, node.name))) is not None:
                group.set("class", f"node kind-{node.kind}" if node.kind else "node")
                group.attrib.update({"data-states": " ".join(node.states), "data-kind": node.kind or ""})
    for edge in picture.edges:
        group = groups[dot.identity(picture, "edge", edge.source, edge.target)]
        group.attrib.update({"data-from": edge.source, "data-to": edge.target})
        word = groups.get(dot.identity(picture, "word", origin(edge, picture)))
        _cells(word if word is not None and edge.source == ELSEWHERE else group, picture, edge)


def _cells(group: ET.Element, picture: Picture, edge: PictureEdge) -> None:
    words = list(group.iter(f"{{{_SVG}}}text"))
    (parent,) = {each for each in group.iter() if set(words) & set(each)}
    for number, (label, texts) in enumerate(zip(edge.labels, _by_label(words, edge), strict=True)):
        about = {"data-event": label.event, "data-state": edge.source, "data-to": edge.target}
        about |= {"data-ends": "true"} if label.ends else {}
        about |= {"data-outcome": label.outcome} if label.outcome not in {"", ELSEWHERE} else {}
        about |= {"data-deviates": "true"} if label.deviates else {}
        identity = dot.identity(picture, "cell", edge.source, edge.target, str(number))
        cell = ET.SubElement(parent, f"{{{_SVG}}}g", {"id": identity, "class": "cell", **about})
        for text in texts:
            parent.remove(text)
            cell.append(text)


def _by_label(words: list[ET.Element], edge: PictureEdge) -> list[list[ET.Element]]:
    """Split the texts by label: an edge has rows for each, a word has one row with commas in between."""
    if edge.source == ELSEWHERE:
        found: list[list[ET.Element]] = [[]]
        for text in words:
            found[-1].append(text)
            found += [[]] if (text.text or "").endswith(",") else []
        return found
    lines = {line: [text for text in words if text.get("y") == line] for line in (each.get("y") for each in words)}
    rows = iter(lines.values())
    return [[text for _ in taken for text in next(rows)] for taken in dot.labelled(edge)]


def png(picture: Picture) -> bytes:
    """Return *picture* as PNG on white, in a resolution for print."""
    return image(dot.dot(picture).replace("bgcolor=transparent", "bgcolor=white dpi=144", 1), "png")


def digest(text: str) -> str:
    """Return the digest of the text from which an image is made."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def image(text: str, form: str) -> bytes:
    """Return the image that ``dot`` makes of *text*; raises :class:`NoDotError` or :class:`DotFailedError`."""
    # Not through a pipe: if dot ends before it has read everything, SIGPIPE
    # would silently end a process that does not catch it.
    with ScratchFolder() as folder:
        try:
            made = graphviz.Source(text).render(filename="picture", directory=folder, format=form, quiet=True)
        except graphviz.ExecutableNotFound as error:
            raise NoDotError from error
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors="replace").strip() if error.stderr else str(error)
            raise DotFailedError(f"Graphviz's program 'dot' could not make {form}: {reason}") from error
        return Path(made).read_bytes()
