"""A picture as a PlantUML state diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.rendering.labels import labelled
from fsm.rendering.mermaid import identifier
from fsm.rendering.picture import ANY

if TYPE_CHECKING:
    from fsm.rendering.picture import Node, Picture


def plantuml(picture: Picture) -> str:
    """*picture* between ``@startuml`` and ``@enduml``, ending in a newline.

    >>> from fsm.library import load
    >>> from fsm.rendering.picture import picture
    >>> plantuml(picture(load("cri-pod"))).splitlines()[0]
    '@startuml'
    """
    lines = ["@startuml", f"title {picture.title}", "hide empty description"]
    lines += [line for node in picture.nodes for line in _node(node)]
    lines.append(f"[*] --> {identifier(picture.initial)}")
    for edge in picture.edges:
        words = "\\n".join(map(labelled, edge.labels))
        arrow = "-[bold]->" if edge.marked else "-->"
        lines.append(f"{identifier(edge.source)} {arrow} {identifier(edge.target)} : {words}")
    if picture.left_out:
        lines.append(f"footer not drawn: {', '.join(picture.left_out)}")
    return "\n".join([*lines, "@enduml"]) + "\n"


def _node(node: Node) -> list[str]:
    name = "any state" if node.name == ANY else node.name
    style = " ##[dashed]" if node.passing else " ##[bold]" if node.marked else ""
    lines = [f'state "{name}" as {identifier(node.name)}{style}']
    return [*lines, f"{identifier(node.name)} : {node.shows}"] if node.shows else lines
