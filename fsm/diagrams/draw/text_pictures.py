"""Write pictures as Mermaid or PlantUML. Both formats use the same captions and identifiers."""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fsm.diagrams.draw.picture import ANY, ELSEWHERE, EdgeLabel, Picture, PictureEdge, PictureNode
from fsm.machine import StateKind
from fsm.machine.hierarchy import Above, level

OWN: Final = "↗"  # sign for an output that has the same name as its event
WIDTH: Final = 80

FAILS: Final = "✗"  # sign for an error reply
DEVIATE: Final = "deviations"  # first word of the line that names the profiles whose deviations are drawn
GATHERED: Final = 3  # if at least this number of edges start from "any state", they share a single label
TIMES: Final = "\N{MULTIPLICATION SIGN}"

# Reserved words of Mermaid or PlantUML. They cannot name a state.
_RESERVED: Final = re.compile(
    "acc(descr|title)|(de)?activate|as|class(def)?|click|default|direction|else|end(if|legend|note|uml)?|footer|fork"
    "|frame|hide|href|if|join|json|legend|namespace|note|rect|remove|root_(end|start)|scale|skinparam|start|state"
    "|statediagram|stop|style|subgraph|tb|then|title",
    re.IGNORECASE,
)


def caption(label: EdgeLabel) -> str:
    """Return *label* in a few words.

    >>> caption(EdgeLabel(event="finish", kind="signal", emits=("Finished",)))
    'finish / Finished'
    >>> caption(EdgeLabel(event="stop-wash", kind="call", emits=("StopWash",)))
    'stop-wash ↗'
    >>> caption(EdgeLabel(event="start", kind="call", ends=True, outcome="failed", error="error"))
    'start: failed ✗'
    >>> caption(EdgeLabel(event="retry", kind="call", guard="tries < 2", effect="tries := tries + 1"))
    'retry [tries < 2] / tries := tries + 1'
    """
    return " ".join(filter(None, (happening(label), outputs(label))))


def happening(label: EdgeLabel) -> str:
    words = ": ".join(filter(None, (label.event, label.outcome)))
    if label.ends and not label.outcome and not label.error:
        words += " ends"
    if label.cell == "silent":
        words += " ?"
    if label.cell == "ignores":
        words = f"({words})"
    if label.error:
        words += f" {FAILS}" if label.error == "error" else f" {FAILS} {label.error}"
    return f"{words} [{label.guard}]" if label.guard else words


def outputs(label: EdgeLabel) -> str:
    own = [_letters_and_digits(each) for each in label.emits] == [_letters_and_digits(label.event)]
    if own and not label.effect:
        return OWN
    done = ", ".join((*label.emits, *filter(None, [label.effect])))
    return f"/ {done}" if done else ""


def captioned_edges(
    picture: Picture, line: Callable[[str], str], separator: str
) -> Iterator[tuple[PictureEdge, str, str]]:
    """Yield each edge, the word at its start, and its caption. *line* formats each label.

    The word, such as "any state", is empty if the edge starts from a node, or if an earlier edge already has the word.
    """
    told: set[str] = set()
    for edge in picture.edges:
        words = (", " if edge.source == ELSEWHERE else separator).join(
            line(" ".join(filter(None, (caption(label), count))))
            for label, count in zip(edge.labels, times(edge), strict=True)
        )
        begins = origin(edge, picture)
        word = {ANY: "any state", ELSEWHERE: words}.get(edge.source, "") if begins not in told else ""
        told.add(begins)
        yield edge, word, "" if edge.source == ELSEWHERE else words


def times(edge: PictureEdge) -> list[str]:
    if not edge.counts:
        return [""] * len(edge.labels)
    return [
        f"{count.met:,}{TIMES}{' in all' if count.shared else ''}" if count.met and count.told else ""
        for count in edge.counts
    ]


def remarks(node: PictureNode) -> list[str]:
    only = f"only under {' or '.join(node.only)}" if node.only else ""
    return [*filter(None, (node.shows, only, "" if node.count is None else f"met {node.count:,}"))]


def footer(picture: Picture) -> list[str]:
    labels = [label for edge in picture.edges for label in edge.labels]
    lines = []
    if any(outputs(label) == OWN for label in labels):
        lines.append(f"{OWN} emits an output of its own name")
    if any(label.error for label in labels):
        lines.append(f"{FAILS} replies an error")
    lines += picture.timers
    if picture.profiles:
        lines.append(f"{DEVIATE} of {', '.join(picture.profiles)} included")
    if fill_shows_count(picture):
        lines.append("darker: visited more often")
    if any(edge.counts for edge in picture.edges):
        lines.append(f"{TIMES}: how often the event occurred there; in all: with any outcome")
    for profiles in dict.fromkeys(names for _, names in picture.unreached):
        states = [state for state, names in picture.unreached if names == profiles]
        lines.append(f"only under {' or '.join(profiles)}: {', '.join(states)}")
    strays = {label.event for edge in picture.edges if edge.source == ELSEWHERE for label in edge.labels}
    for says, left_out in (
        ("not drawn", [event for event in picture.left_out if event not in strays]),
        ("drawn only to states that nothing else leads to", [event for event in picture.left_out if event in strays]),
    ):
        if left_out:
            lines.append(f"{says}: {', '.join(left_out)}")
    return [short for line in lines for short in textwrap.wrap(line, WIDTH, break_on_hyphens=False)]


def identifiers(picture: Picture) -> dict[str, str]:
    """Return unique identifiers for the nodes, and for words such as "any state" at the start of an edge."""
    names: dict[str, str] = {}
    wanted = {name: name for node in picture.nodes for name in (node.name, *node.above)}
    for edge in picture.edges:
        if edge.source in {ANY, ELSEWHERE}:
            word = "before" if edge.source == ELSEWHERE else "any"
            begins = origin(edge, picture)
            wanted[begins] = f"{word}_{edge.target}" if begins.endswith(edge.target) else f"{picture.region}{word}"
    for name, wish in wanted.items():
        plain = re.sub(r"[^A-Za-z0-9_]", "_", wish)
        while _RESERVED.fullmatch(plain) or plain in names.values():
            plain += "_"
        names[name] = plain
    return names


def origin(edge: PictureEdge, picture: Picture) -> str:
    gathered = sum(each.source == ANY for each in picture.edges) >= GATHERED
    alone = edge.source == ELSEWHERE or (edge.source == ANY and not gathered)
    return f"{edge.source} {edge.target}" if alone else f"{picture.region * (edge.source == ANY)}{edge.source}"


def _letters_and_digits(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


@dataclass(frozen=True, slots=True)
class Look:
    """The style of a box."""

    fill: str
    dark: str
    style: str = "rounded"  # empty for square corners
    width: str = "1.2"
    lines: int = 1
    mermaid: str = ""
    plantuml: str = ""
    line: str = ""  # describes the border in a legend


_ERROR: Final = "stroke-width:3px,stroke-dasharray:1 3"
LOOKS: Final[Mapping[StateKind, Look]] = {
    "initial": Look("#ffffff", "#0d1117", mermaid="stroke-width:1px", line="a thin line"),
    "pending": Look("#fff3bf", "#3a2f0b", "rounded,dashed", "1.2", 1, "stroke-dasharray:4", "dashed", "dashed"),
    "active": Look("#cfe6ff", "#0c3566", width="2.4", mermaid="stroke-width:3px", line="a thick line"),
    "final": Look("#dfe3e8", "#30363d", "rounded", "1.2", 2, "stroke-width:6px", "bold", "the thickest line"),
    "error": Look("#ffd9cc", "#5a1e10", "", "2.4", 1, _ERROR, "dotted", "dotted"),
}
# Styles of a state of unknown kind, and of a state in which a call is in progress.
UNSTATED: Final = Look("#f6f8fa", "#161b22")
PASSING: Final = Look("#f6f8fa", "#161b22", "rounded,dashed", mermaid="stroke-dasharray:4", plantuml="dashed")


def look(node: PictureNode) -> Look:
    return LOOKS[node.kind] if node.kind else PASSING if node.passing else UNSTATED


def legend(picture: Picture) -> tuple[StateKind, ...]:
    met = {node.kind for node in picture.nodes}
    return tuple(kind for kind in LOOKS if kind in met) if met - {"initial", None} else ()


def fill_shows_count(picture: Picture) -> bool:
    return any(node.count is not None for node in picture.nodes)


# Styles of states. A style that sets the fill also sets the text colour, because the page may be light or dark.
CLASSES: Final[Mapping[str, str]] = {
    **{kind: f"fill:{each.fill},color:#1f2328,stroke:#818b98,{each.mermaid}" for kind, each in LOOKS.items()},
    "only": "stroke:#8250df,stroke-dasharray:1 3",
    "passing": "stroke-dasharray:4",
    "marked": "stroke:#0969da,stroke-width:3px",
    "failed": "stroke:#cf222e,stroke-width:3px",
    "word": "fill:none,stroke:none,font-style:italic",
}


def mermaid(picture: Picture) -> str:
    """Return *picture* as a ``stateDiagram-v2``. The text ends in a newline.

    >>> from fsm.language.library import load
    >>> from fsm.diagrams.draw.picture import picture
    >>> mermaid(picture(load("examples/models/door.toml"))).splitlines()[:2]
    ['stateDiagram-v2', '    %% A door']
    """
    used: dict[str, list[str]] = {}
    lines: list[str] = []
    for region in picture.regions:
        lines.append(f'    state "{_mermaid_text(region.title)}" as {_identifier(region)} {{')
        lines += [*(f"    {line}" for line in _mermaid_states(region, used)), "    }"]
    lines += [] if picture.regions else _mermaid_states(picture, used)
    lines += [f"    classDef {kind} {CLASSES[kind]}" for kind in CLASSES if kind in used]
    lines += [f"    class {name} {kind}" for kind in CLASSES for name in used.get(kind, ())]
    if (kinds := legend(picture)) and picture.initial:
        words = "<br>".join(f"{kind}#58; {LOOKS[kind].line}" for kind in kinds)
        lines.append(f"    note left of {identifiers(picture)[picture.initial]} : {words}")
    plain = re.sub(r"[^\x20-\uffff]", " ", picture.title)
    title = [f"    %% {line}" for line in [*filter(str.strip, plain.splitlines()), *footer(picture)]]
    return "\n".join(["stateDiagram-v2", *title, "    direction TB", *lines]) + "\n"


def _mermaid_states(picture: Picture, used: dict[str, list[str]]) -> list[str]:
    names = identifiers(picture)
    lines: list[str] = []
    statements: dict[str, list[str]] = {}
    for node in picture.nodes:
        text = "<br>".join(map(_mermaid_text, [*node.states, *remarks(node)]))
        statements[node.name] = [f'state "{text}" as {names[node.name]}']
        traits = {"only": node.only, "passing": node.passing and not node.kind}
        traits |= {node.kind or "": node.kind, "marked": node.marked, "failed": node.failed}
        for trait in filter(traits.get, traits):
            used.setdefault(trait, []).append(names[node.name])
    lines += (f"    {line}" for line in _nested({node.name: node.above for node in picture.nodes}, names, statements))
    if picture.initial:
        lines.append(f"    [*] --> {names[picture.initial]}")
    for edge, word, words in captioned_edges(picture, _mermaid_text, "<br>"):
        name = names[origin(edge, picture)]
        if word:
            lines.append(f'    state "{word}" as {name}')
            used.setdefault("word", []).append(name)
        lines.append(f"    {name} --> {names[edge.target]}{f': {words}' if words else ''}")
    return lines


def _identifier(region: Picture) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", f"{region.name}_region")


def _nested(states: Above, names: Mapping[str, str], lines: Mapping[str, list[str]], depth: int = 0) -> Iterator[str]:
    for name, inside in level(states, depth).items():
        if name in lines:
            yield from lines[name]
        else:
            yield f'state "{name}" as {names[name]} {{'
            yield from (f"    {line}" for line in _nested(inside, names, lines, depth + 1))
            yield "}"


def _mermaid_text(words: str) -> str:
    return re.sub(r"[^\w \-./,()…?✗↗]", lambda found: f"#{ord(found[0])};", words)


# Style of a word, such as "any state", at the start of an edge. PlantUML allows only states there, so hide the box.
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
    """Return *picture* as PlantUML text from ``@startuml`` to ``@enduml`` and a newline.

    >>> from fsm.language.library import load
    >>> from fsm.diagrams.draw.picture import picture
    >>> plantuml(picture(load("examples/models/door.toml"))).splitlines()[0]
    '@startuml'
    """
    lines = ["@startuml", f"title {_plantuml_text(picture.title)}", "hide empty description"]
    lines += WORD if any(edge.source in {ANY, ELSEWHERE} for edge in picture.edges) else ()
    for region in picture.regions:
        lines += [f'state "{_plantuml_text(region.title)}" as {_identifier(region)} {{', *_plantuml_states(region), "}"]
    lines += [] if picture.regions else _plantuml_states(picture)
    if kinds := legend(picture):
        rows = (f"<back:{LOOKS[kind].fill}> {kind} </back> {_LINE_NAMES[LOOKS[kind].plantuml]}" for kind in kinds)
        lines += ["legend", *rows, "endlegend"]
    if below := footer(picture):
        lines += ["footer", *map(_plantuml_text, below), "endfooter"]
    return "\n".join([*lines, "@enduml"]) + "\n"


def _plantuml_states(picture: Picture) -> list[str]:
    names = identifiers(picture)
    lines: list[str] = []
    states = {node.name: _plantuml_node(node, names[node.name]) for node in picture.nodes}
    lines += _nested({node.name: node.above for node in picture.nodes}, names, states)
    if picture.initial:
        lines.append(f"[*] --> {names[picture.initial]}")
    for edge, word, words in captioned_edges(picture, _plantuml_text, "\\n"):
        name = names[origin(edge, picture)]
        if word:
            lines.append(f'state "{word}" as {name} <<word>>')
        arrow = "-[bold]->" if edge.marked else "-[dashed]->" if all(label.error for label in edge.labels) else "-->"
        lines.append(f"{name} {arrow} {names[edge.target]}{f' : {words}' if words else ''}")
    return lines


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
