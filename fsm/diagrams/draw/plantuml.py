"""A picture as a PlantUML state diagram."""

import re
from typing import Final

from fsm.diagrams.draw.captions import footer, identifiers, origin, remarks, worded
from fsm.diagrams.draw.kinds import LOOKS, legend, look
from fsm.diagrams.draw.picture import ANY, ELSEWHERE, Picture, PictureNode

# Style of a word that an edge starts from.  PlantUML has nothing for this but a state without a box.
WORD: Final = (
    "hide stereotype",
    "skinparam state {",
    "BackgroundColor<<word>> transparent",
    "BorderColor<<word>> transparent",
    "FontStyle<<word>> italic",
    "}",
)

# Names of PlantUML's line styles in a legend.
_LINE_NAMES: Final = {"": "a thin line", "bold": "a thick line", "dashed": "dashed", "dotted": "dotted"}


def plantuml(picture: Picture) -> str:
    """Return *picture* between ``@startuml`` and ``@enduml``, ending in a newline.

    >>> from fsm.language.library import load
    >>> from fsm.diagrams.draw.picture import picture
    >>> plantuml(picture(load("examples/models/door.toml"))).splitlines()[0]
    '@startuml'
    """
    names = identifiers(picture)
    lines = ["@startuml", f"title {_plantuml_text(picture.title)}", "hide empty description"]
    lines += WORD if any(edge.source in {ANY, ELSEWHERE} for edge in picture.edges) else ()
    for node in picture.nodes:
        lines += _plantuml_node(node, names[node.name])
    if picture.initial:
        lines.append(f"[*] --> {names[picture.initial]}")
    for edge, word, words in worded(picture, _plantuml_text, "\\n"):
        name = names[origin(edge, picture)]
        if word:
            lines.append(f'state "{word}" as {name} <<word>>')
        arrow = "-[bold]->" if edge.marked else "-[dashed]->" if all(label.error for label in edge.labels) else "-->"
        lines.append(f"{name} {arrow} {names[edge.target]}{f' : {words}' if words else ''}")
    if kinds := legend(picture):
        rows = (f"<back:{LOOKS[kind].fill}> {kind} </back> {_LINE_NAMES[LOOKS[kind].plantuml]}" for kind in kinds)
        lines += ["legend", *rows, "endlegend"]
    if below := footer(picture):
        lines += ["footer", *map(_plantuml_text, below), "endfooter"]
    return "\n".join([*lines, "@enduml"]) + "\n"


def _plantuml_node(node: PictureNode, name: str) -> list[str]:
    shape = look(node)
    line = f" ##[{shape.plantuml}]" if shape.plantuml else ""
    colours = {" ##[bold]red": node.failed, " ##[bold]blue": node.marked, " ##[dotted]purple": node.only}
    line = next((style for style, drawn in colours.items() if drawn), line)
    style = f"{f' {shape.fill}' if node.kind and node.count is None else ''}{line}"
    states = "\\n".join(map(_plantuml_text, node.states))
    return [f'state "{states}" as {name}{style}', *(f"{name} : {_plantuml_text(remark)}" for remark in remarks(node))]


def _plantuml_text(words: str) -> str:
    return re.sub(r"[^\w \-./,():…?✗↗]", lambda found: f"&#{ord(found[0])};", words)
