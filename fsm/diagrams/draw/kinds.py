"""How pictures show what a state is in its lifecycle: by a fill and by a line, so that it is told apart without colours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fsm.diagrams.draw.picture import Picture, PictureNode
from fsm.machine import StateKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The fill of a state's box, that on a dark page, and its line: Graphviz's, Mermaid's and PlantUML's.

    An empty ``style`` has square corners.  ``line`` is what it is called where a legend has words only.
    """

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
"""Of a state of which the model does not say what it is."""

PASSING: Final = Look(
    fill="#f6f8fa", dark="#161b22", style="rounded,dashed", mermaid="stroke-dasharray:4", plantuml="dashed"
)
"""Of one in which a call is in progress."""


def look(node: PictureNode) -> Look:
    """How *node* is drawn."""
    return LOOKS[node.kind] if node.kind else PASSING if node.passing else UNSTATED


def legend(picture: Picture) -> tuple[StateKind, ...]:
    """The kinds that are to be explained: those of its nodes, if there is more than the initial one."""
    met = {node.kind for node in picture.nodes}
    return tuple(kind for kind in LOOKS if kind in met) if met - {"initial", None} else ()


def ink(picture: Picture) -> bool:
    """Whether fills say how often states were met, and not what they are."""
    return any(node.count is not None for node in picture.nodes)
