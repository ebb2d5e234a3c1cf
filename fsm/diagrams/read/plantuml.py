"""PlantUML state diagrams, from ``@startuml`` to ``@enduml``, in a file or in a comment.

State and transition statements are those of Mermaid, except for arrow shapes, colours and stereotypes, which are
ignored.  Other PlantUML diagrams are skipped.  The grammar is that of https://plantuml.com/state-diagram.
"""

import re
from collections.abc import Iterator
from typing import Final

from fsm.diagrams.read.drawing import Drawing
from fsm.diagrams.read.mermaid import StateDiagram, blocks

_STARTUML: Final = re.compile(r"^\s*+(?P<mark>//+!?|\*|#+|;+|)\s*+@startuml\b.*$")
_ENDUML: Final = re.compile(r"\s*@enduml\s*$")
_OF_STATES: Final = re.compile(r"^\s*(?:\[\*\]|state\b|.*-->\s*\[\*\])")
_SHAFT: Final = re.compile(r"\s-+(?:\[[^\]]*\]-*)?(?:(?:left|right|up|down|le|ri|do|[lrud])-+)?(?:\[[^\]]*\]-*)?>\s")
_DRESS: Final = re.compile(
    r"\s*(?:<<(?!choice|fork|join|start|end|history|entry|exit|input|output|expansion)[^<>]*>>|"
    r"\[\[[^\]]*\]\]|##?(?:\[[^\]]+\]\w*|[\w;:.\\/|-]+))"
)
_SKIPPED: Final = re.compile(
    r"^(?:'|!|title\b|hide\b|show\b|skinparam\b|scale\b|header\b|footer\b|"
    r"caption\b|mainframe\b|left to right\b|top to bottom\b)"
)
_BLOCK: Final = re.compile(
    r"^(?:(?:skinparam\b.*|<style>.*)(?<!\})|(?:title|header|footer|legend\b.*|note\b[^:]*|/'.*))$"
)
_BLOCK_ENDS: Final = re.compile(r"^(?:\}|end ?\w+|</style>)$|'/$")


def plantuml_drawings(text: str, path: str) -> Iterator[Drawing]:
    """Yield the state diagrams in *text*."""
    for line, below in blocks(text, _STARTUML, _ENDUML, ends_with_comment=False):
        lines = list(below)
        if any(_OF_STATES.match(row) for _, row in lines):
            yield StateDiagram(path).read(line, _statements(lines))


def _statements(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the statements in *lines* that define states and arrows, in Mermaid's syntax."""
    inside = False
    for number, line in lines:
        statement = line.strip()
        if inside or _BLOCK.match(statement):
            one_line = not inside and statement.startswith("skinparam") and not statement.endswith("{")
            inside = not one_line and not _BLOCK_ENDS.search(statement)
        elif not _SKIPPED.match(statement):
            bare = _DRESS.sub("", line) if statement.startswith("state ") else line
            head, colon, label = bare.partition(" : " if " : " in bare else ":")
            yield number, f"{_DRESS.sub('', _SHAFT.sub(' --> ', head))}{colon}{label}"
