"""Styles of states by kind.  Fill and border both differ, so that kinds also differ without colour."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fsm.diagrams.draw.picture import Picture, PictureNode
from fsm.machine import StateKind


@dataclass(frozen=True, slots=True, kw_only=True)
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


LOOKS: Final[Mapping[StateKind, Look]] = {
    "initial": Look(fill="#ffffff", dark="#0d1117", mermaid="stroke-width:1px", line="a thin line"),
    "pending": Look(
        fill="#fff3bf",
        dark="#3a2f0b",
        style="rounded,dashed",
        mermaid="stroke-dasharray:4",
        plantuml="dashed",
        line="dashed",
    ),
    "active": Look(fill="#cfe6ff", dark="#0c3566", width="2.4", mermaid="stroke-width:3px", line="a thick line"),
    "final": Look(
        fill="#dfe3e8",
        dark="#30363d",
        lines=2,
        mermaid="stroke-width:6px",
        plantuml="bold",
        line="the thickest line",
    ),
    "error": Look(
        fill="#ffd9cc",
        dark="#5a1e10",
        style="",
        width="2.4",
        mermaid="stroke-width:3px,stroke-dasharray:1 3",
        plantuml="dotted",
        line="dotted",
    ),
}

UNSTATED: Final = Look(fill="#f6f8fa", dark="#161b22", mermaid="")
"""Style of a state whose kind the model does not state."""

PASSING: Final = Look(
    fill="#f6f8fa", dark="#161b22", style="rounded,dashed", mermaid="stroke-dasharray:4", plantuml="dashed"
)
"""Style of a state in which a call is in progress."""


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
