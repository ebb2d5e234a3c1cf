"""Pictures as text: Mermaid, PlantUML, and the complete table in Markdown."""

import re
from collections.abc import Collection, Mapping
from typing import Final, assert_never

from fsm.diagrams.draw.captions import LOOKS, footer, identifiers, legend, look, origin, remarks, worded
from fsm.diagrams.draw.picture import ANY, ELSEWHERE, Marks, Picture, PictureNode
from fsm.machine import Cannot, Cell, Ignores, Machine, Moves, Outcome, Refuses, Silent

LEGEND = (
    "`→` moves to, and replies `ok` unless another reply is given; `…` a call has begun and is in progress; "
    "`·` ok, nothing changes; `✗` an error, nothing changes; `—` does not happen; `?` not specified; "
    "`/` emits. Rows with `…` are the ends of a call that has begun."
)


def markdown(machine: Machine, *, events: Collection[str] | None = None, marks: Marks | None = None) -> str:
    """Return all cells of *machine* as a table with a row for each event.  *marks* adds use counts.

    >>> from fsm.language.library import load
    >>> markdown(load("examples/models/door.toml")).splitlines()[0]
    '# A door'
    """
    states = list(machine.states)
    lines = [f"# {_text(machine.title)}", "", _text(machine.about), "", LEGEND, ""]
    shown = {
        each.name: f"<br>{_text(each.shows)}" if each.shows != each.name else "" for each in machine.states.values()
    }
    lines.append(_row(["", *(f"**{name}**{shows}" for name, shows in shown.items())]))
    lines.append(_row(["---"] * (len(states) + 1)))
    counts = marks.counts if marks else {}
    for event in machine.events.values():
        if events is not None and event.name not in events:
            continue
        for name, cells in ((event.name, event.cells), (f"…{event.name}", event.ends)):
            row = []
            for state in states:
                count = counts.get((name, state), 0)
                met = f"<br>{count:,} times" if count else ""
                row.append(f"{_cell(cells[state])}{met}" if state in cells else "")
            lines += [_row([f"**{name}**", *row])] if cells else []
    return "\n".join(lines) + "\n"


def _text(words: str) -> str:
    return re.sub(r"([\\`*\[\]<>&#|]|(?<!\w)_|_(?!\w))", r"\\\1", " ".join(words.split()))


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    match cell:
        case Moves(outcomes=ways):
            return "<br>".join(dict.fromkeys(map(_way, ways)))
        case Ignores():
            return "·"
        case Refuses(codes=codes):
            return f"✗{_codes(codes)}"
        case Cannot():
            return "—"
        case Silent():
            return "?"
        case _:
            assert_never(cell)


def _way(way: Outcome) -> str:
    words = f"{'… ' if way.begins else '→ '}{way.to}"
    if way.reply and way.reply != ("ok",):
        words += f", ok or ✗{_codes(way.reply)}" if "ok" in way.reply else f", ✗{_codes(way.reply)}"
    if way.emits:
        words += f" / {', '.join(way.emits)}"
    return f"{words} (deviation)" if way.deviation else words


def _codes(codes: tuple[str, ...]) -> str:
    named = [code for code in codes if code not in {"error", "ok"}]
    return f" {' or '.join(named)}" if named else ""


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


# Style of a word that an edge starts from. In PlantUML, such a word can only be a state without a box.
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
