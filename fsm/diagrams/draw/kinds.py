"""Styles of states by kind.  Fill and border both differ, so that kinds also differ without colour."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fsm.diagrams.draw.picture import Picture, PictureNode
from fsm.machine import StateKind


@dataclass(frozen=True, slots=True)
class Look:
    """Style of a box.  An empty ``style`` means square corners.  ``line`` describes the border for a legend."""

    fill: str
    dark: str
    style: str = "rounded"
    width: str = "1.2"
    lines: int = 1
    mermaid: str = ""
    plantuml: str = ""
    line: str = ""


_ERROR: Final = "stroke-width:3px,stroke-dasharray:1 3"
LOOKS: Final[Mapping[StateKind, Look]] = {
    "initial": Look("#ffffff", "#0d1117", mermaid="stroke-width:1px", line="a thin line"),
    "pending": Look("#fff3bf", "#3a2f0b", "rounded,dashed", "1.2", 1, "stroke-dasharray:4", "dashed", "dashed"),
    "active": Look("#cfe6ff", "#0c3566", width="2.4", mermaid="stroke-width:3px", line="a thick line"),
    "final": Look("#dfe3e8", "#30363d", "rounded", "1.2", 2, "stroke-width:6px", "bold", "the thickest line"),
    "error": Look("#ffd9cc", "#5a1e10", "", "2.4", 1, _ERROR, "dotted", "dotted"),
}
# Styles of a state whose kind the model does not state, and of one in which a call is in progress.
UNSTATED: Final = Look("#f6f8fa", "#161b22")
PASSING: Final = Look("#f6f8fa", "#161b22", "rounded,dashed", mermaid="stroke-dasharray:4", plantuml="dashed")


def look(node: PictureNode) -> Look:
    """Return the style of *node*."""
    return LOOKS[node.kind] if node.kind else PASSING if node.passing else UNSTATED


def legend(picture: Picture) -> tuple[StateKind, ...]:
    """Return the kinds to explain: those of the nodes, or none if all of them are initial."""
    met = {node.kind for node in picture.nodes}
    return tuple(kind for kind in LOOKS if kind in met) if met - {"initial", None} else ()


def ink(picture: Picture) -> bool:
    """Check whether fills show how often states were met instead of their kinds."""
    return any(node.count is not None for node in picture.nodes)
