"""A picture as a Mermaid state diagram, which GitHub and GitLab draw by themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fsm.rendering.labels import labelled
from fsm.rendering.picture import ANY

if TYPE_CHECKING:
    from fsm.rendering.picture import Picture


def mermaid(picture: Picture) -> str:
    """*picture* as a ``stateDiagram-v2``, ending in a newline.

    >>> from fsm.library import load
    >>> from fsm.rendering.picture import picture
    >>> mermaid(picture(load("cri-pod"))).splitlines()[:2]
    ['stateDiagram-v2', '    direction TB']
    """
    lines = [
        "stateDiagram-v2",
        "    direction TB",
        "    classDef passing stroke-dasharray:4",
        "    classDef marked stroke-width:3px",
    ]
    for node in picture.nodes:
        name = "any state" if node.name == ANY else node.name
        lines.append(f'    state "{name}" as {identifier(node.name)}')
        if node.shows:
            lines.append(f"    {identifier(node.name)}: {node.shows}")
        if node.passing:
            lines.append(f"    class {identifier(node.name)} passing")
        if node.marked:
            lines.append(f"    class {identifier(node.name)} marked")
    lines.append(f"    [*] --> {identifier(picture.initial)}")
    lines += [
        f"    {identifier(edge.source)} --> {identifier(edge.target)}: {_quoted(', '.join(map(labelled, edge.labels)))}"
        for edge in picture.edges
    ]
    return "\n".join(lines) + "\n"


def identifier(name: str) -> str:
    """*name* with what Mermaid and PlantUML do not take in a name written as underscores.

    >>> identifier("unknown-running"), identifier("end")
    ('unknown_running', 'end_')
    """
    if name == ANY:
        return "any_state"
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"{plain}_" if plain.lower() in {"end", "state", "note", "class", "direction", "default"} else plain


def _quoted(text: str) -> str:
    """*text* without what ends a label."""
    return text.replace(":", " -").replace(";", ",").replace("#", "no.")
