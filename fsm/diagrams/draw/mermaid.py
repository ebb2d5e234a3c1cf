"""A picture as a Mermaid state diagram, which GitHub and GitLab display."""

import re
from typing import Final

from fsm.diagrams.draw.captions import footer, identifiers, origin, worded
from fsm.diagrams.draw.picture import Picture, PictureNode

CLASSES: Final = {
    "passing": "stroke-dasharray:4",
    "marked": "stroke:#0969da,stroke-width:3px",
    "failed": "stroke:#cf222e,stroke-width:3px",
    "word": "fill:none,stroke:none,font-style:italic",
}
"""The styles of states; few colours, since the page's theme may be light or dark."""


def mermaid(picture: Picture) -> str:
    """*picture* as a ``stateDiagram-v2``, ending in a newline.

    >>> from fsm.library import load
    >>> from fsm.diagrams.draw.picture import picture
    >>> mermaid(picture(load("cri-pod"))).splitlines()[:2]
    ['stateDiagram-v2', '    %% A pod as the CRI promises it']
    """
    names = identifiers(picture)
    used: dict[str, list[str]] = {}
    lines = [f"    state {_quoted(node)} as {names[node.name]}" for node in picture.nodes]
    for node in picture.nodes:
        for kind in ("passing", "marked", "failed"):
            if getattr(node, kind):
                used.setdefault(kind, []).append(names[node.name])
    if picture.initial:
        lines.append(f"    [*] --> {names[picture.initial]}")
    for edge, word, words in worded(picture, _text, "<br>"):
        name = names[origin(edge)]
        if word:
            lines.append(f'    state "{word}" as {name}')
            used.setdefault("word", []).append(name)
        lines.append(f"    {name} --> {names[edge.target]}{f': {words}' if words else ''}")
    lines += [f"    classDef {kind} {CLASSES[kind]}" for kind in CLASSES if kind in used]
    lines += [f"    class {name} {kind}" for kind in CLASSES for name in used.get(kind, ())]
    plain = re.sub(r"[^\x20-\uffff]", " ", picture.title)
    title = [f"    %% {line}" for line in [*filter(str.strip, plain.splitlines()), *footer(picture)]]
    return "\n".join(["stateDiagram-v2", *title, "    direction TB", *lines]) + "\n"


def _quoted(node: PictureNode) -> str:
    met = [f"met {node.count:,}"] if node.count is not None else []
    return f'"{"<br>".join(map(_text, [*node.states, *filter(None, [node.shows]), *met]))}"'


def _text(words: str) -> str:
    """*words* with what is syntax in Mermaid as character codes, which begin with ``#``."""
    return re.sub(r"[^\w \-./,()…?✗↗]", lambda found: f"#{ord(found[0])};", words)
