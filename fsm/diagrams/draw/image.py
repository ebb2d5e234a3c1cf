"""A picture as SVG or PNG, made by Graphviz's program ``dot``."""

import hashlib
import math
import subprocess
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import graphviz

from fsm.diagrams.draw import dot
from fsm.diagrams.draw.picture import Picture
from fsm.scratch import ScratchFolder

HOW_TO_GET_DOT: Final = "apt-get install graphviz, dnf install graphviz or brew install graphviz"

_SVG: Final = "http://www.w3.org/2000/svg"
_LINK: Final = "http://www.w3.org/1999/xlink"

_DARK: Final = {
    dot.INK: "#e6edf3",
    dot.DIM: "#9198a1",
    dot.LINE: "#7d8590",
    dot.FILL: "#161b22",
    dot.RED: "#f0883e",
    dot.MARK: "#58a6ff",
    dot.OTHER: "#ab7df8",
    dot.BAD: "#f85149",
    dot.ALONE: "#12301f",
    **dict(zip(dot.TINTS, ("#11284a", "#332a10", "#2c1f4a", "#3c1618"), strict=True)),
    **dict(zip(dot.HEAT, ("#0d1117", "#0c2d6b", "#0d419d", "#1158c7", "#1f6feb"), strict=True)),
}
"""What each colour is replaced by on a dark page."""


class NoDotError(Exception):
    """Graphviz's program ``dot`` is not installed."""


class DotFailedError(Exception):
    """Graphviz's program ``dot`` failed."""


def svg(picture: Picture) -> bytes:
    """*picture* as SVG that suits light and dark pages.

    Its attribute ``data-source`` is the digest of the text it was made from, so whether
    it is up to date can be checked without ``dot``.
    """
    text = dot.dot(picture)
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _LINK)
    root = ET.fromstring(image(text, "svg"))  # noqa: S314  (dot wrote it)
    for each in root.iter():
        each.attrib.pop("id", None)
    for side, length in zip(("width", "height"), root.attrib["viewBox"].split()[2:], strict=True):
        root.set(side, f"{math.ceil(float(length))}")  # pixels, so that text has the size of the page's
    root.set("role", "img")
    root.set("aria-label", picture.title)
    root.set("data-source", digest(text))
    style = ET.Element(f"{{{_SVG}}}style")
    rules = "".join(f'[fill="{old}"]{{fill:{new}}}[stroke="{old}"]{{stroke:{new}}}' for old, new in _DARK.items())
    style.text = f"@media (prefers-color-scheme:dark){{text:not([fill]){{fill:{_DARK[dot.INK]}}}{rules}}}"
    root.insert(0, style)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def png(picture: Picture) -> bytes:
    """*picture* as PNG on white, in a resolution for print."""
    return image(dot.dot(picture).replace("bgcolor=transparent", "bgcolor=white dpi=144", 1), "png")


def digest(text: str) -> str:
    """The digest of the text that an image is made from."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def image(text: str, form: str) -> bytes:
    """The image that ``dot`` makes of *text*; raises :class:`NoDotError` or :class:`DotFailedError`."""
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
