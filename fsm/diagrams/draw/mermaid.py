"""A picture as a Mermaid state diagram, which GitHub and GitLab display."""

import re
from collections.abc import Mapping
from typing import Final

from fsm.diagrams.draw.captions import footer, identifiers, origin, remarks, worded
from fsm.diagrams.draw.kinds import LOOKS, legend
from fsm.diagrams.draw.picture import Picture

# Styles of states.  A style that sets the fill also sets the text colour, because the page may be light or dark.
CLASSES: Final[Mapping[str, str]] = {
    **{kind: f"fill:{each.fill},color:#1f2328,stroke:#818b98,{each.mermaid}" for kind, each in LOOKS.items()},
    "only": "stroke:#8250df,stroke-dasharray:1 3",
    "passing": "stroke-dasharray:4",
    "marked": "stroke:#0969da,stroke-width:3px",
    "failed": "stroke:#cf222e,stroke-width:3px",
    "word": "fill:none,stroke:none,font-style:italic",
}


def mermaid(picture: Picture) -> str:
    """Return *picture* as a ``stateDiagram-v2``, ending in a newline.

    >>> from fsm.language.library import load
    >>> from fsm.diagrams.draw.picture import picture
    >>> mermaid(picture(load("examples/models/door.toml"))).splitlines()[:2]
    ['stateDiagram-v2', '    %% A door']
    """
    names = identifiers(picture)
    used: dict[str, list[str]] = {}
    shown = ("<br>".join(map(_mermaid_text, [*node.states, *remarks(node)])) for node in picture.nodes)
    lines = [f'    state "{text}" as {names[node.name]}' for text, node in zip(shown, picture.nodes, strict=True)]
    for node in picture.nodes:
        traits = {"only": node.only, "passing": node.passing and not node.kind}
        traits |= {node.kind or "": node.kind, "marked": node.marked, "failed": node.failed}
        for trait in filter(traits.get, traits):
            used.setdefault(trait, []).append(names[node.name])
    if picture.initial:
        lines.append(f"    [*] --> {names[picture.initial]}")
    for edge, word, words in worded(picture, _mermaid_text, "<br>"):
        name = names[origin(edge, picture)]
        if word:
            lines.append(f'    state "{word}" as {name}')
            used.setdefault("word", []).append(name)
        lines.append(f"    {name} --> {names[edge.target]}{f': {words}' if words else ''}")
    lines += [f"    classDef {kind} {CLASSES[kind]}" for kind in CLASSES if kind in used]
    lines += [f"    class {name} {kind}" for kind in CLASSES for name in used.get(kind, ())]
    if (kinds := legend(picture)) and picture.initial:
        words = "<br>".join(f"{kind}#58; {LOOKS[kind].line}" for kind in kinds)
        lines.append(f"    note left of {names[picture.initial]} : {words}")
    plain = re.sub(r"[^\x20-\uffff]", " ", picture.title)
    title = [f"    %% {line}" for line in [*filter(str.strip, plain.splitlines()), *footer(picture)]]
    return "\n".join(["stateDiagram-v2", *title, "    direction TB", *lines]) + "\n"


def _mermaid_text(words: str) -> str:
    """Replace Mermaid's syntax in *words* with character codes, which begin with ``#``."""
    return re.sub(r"[^\w \-./,()…?✗↗]", lambda found: f"#{ord(found[0])};", words)
