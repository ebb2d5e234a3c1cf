"""Read state diagrams of Mermaid and PlantUML.

A diagram may be a whole file, or be between Markdown fences or in a comment. The name of a state is its text
(``state "TEXT" as id``), or else its id. Text after a colon is a remark. An arrow from a state with substates starts in
each of them that has no arrow with the same label, and an arrow to it leads to its initial substate. Regions, history,
choices and forks are problems, and so is a state that Mermaid and PlantUML put inside different states.
https://mermaid.js.org/syntax/stateDiagram.html and https://plantuml.com/state-diagram describe the grammars.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from fsm.diagrams.drawing import MOST, Arrow, Drawing, Location, single_label
from fsm.errors import Problem

NOWHERE: Final = "[*]"  # the pseudostate; as a source, it means the initial state, and as a target, a final state
_HEADING: Final = re.compile(r"^\s*+(?P<mark>//+!?|\*|#+|;+|)\s*+stateDiagram(?:-v2)?\s*;?\s*$")
_FENCE: Final = re.compile(r"^\s*(?:```|~~~|\"\"\"|'''|\*/)")
_ID: Final = r"(?:\[\*\]|[^\s:{}\[\]\"<>-](?:[^\s:{}\[\]\"<>]*[^\s:{}\[\]\"<>-])?)"
_CLASS: Final = r"(?:\s*:::\s*[\w-]+)?"
_ARROW: Final = re.compile(rf"^(?P<source>{_ID}){_CLASS}\s*-->\s*(?P<target>{_ID}){_CLASS}\s*(?::\s*(?P<label>.*?))?$")
_NAMED: Final = re.compile(rf"^state\s+\"(?P<text>[^\"]*)\"\s+as\s+(?P<id>{_ID}){_CLASS}$")
_OPENS: Final = re.compile(rf"^state\s+(?:\"(?P<text>[^\"]*)\"\s+as\s+)?(?P<id>{_ID}){_CLASS}\s*\{{$")
_DEEPEST: Final = 32  # maximum nesting of states
_PLAIN: Final = re.compile(rf"^(?:state\s+)?(?P<id>{_ID}){_CLASS}\s*(?::(?!:)\s*(?P<text>.*?))?$")
_PASSED: Final = re.compile(
    r"^(?:direction\b|classDef\b|class\b|style\b|click\b|hide\b|scale\b|accTitle\b|accDescr\b|note\b.*:|%%)"
)
_NOTE: Final = re.compile(r"^note\b[^:]*$")
_BREAK: Final = re.compile(r"<br\s*/?>|\\n")
_CODE: Final = re.compile(r"&?#(\d{1,7}|\w{1,9});", re.ASCII)
_ENDS_IN_CODE: Final = re.compile(_CODE.pattern + r"\s*$", re.ASCII)
_CODES: Final = {"quot": '"', "lt": "<", "gt": ">", "amp": "&", "colon": ":", "semi": ";", "num": "#"}


@dataclass(frozen=True, slots=True)
class StateDiagram:
    path: str
    problems: list[Problem] = field(default_factory=list)
    states: dict[str, Location] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    arrows: list[tuple[str, str, str, Location]] = field(default_factory=list)
    open: list[tuple[str, Location]] = field(default_factory=list)  # the states in whose blocks the statement is
    above: dict[str, tuple[str, ...]] = field(default_factory=dict)  # what each state is inside, from the outside in
    initial: dict[str, str] = field(default_factory=dict)  # the first substate of each state

    def read(self, heading: int, lines: Iterable[tuple[int, str]]) -> Drawing:
        note, line = False, heading
        for line, text in lines:
            statement = text.strip() if _ENDS_IN_CODE.search(text) else text.strip().rstrip(";").strip()
            place = Location(line=line, column=len(text) - len(text.lstrip()) + 1)
            if note or _NOTE.match(statement):
                note = statement != "end note"
            elif statement and not _PASSED.match(statement):
                self._statement(statement, place)
            if len(self.arrows) + len(self.states) > MOST:
                self._too_large(line)
                break
        for name, place in self.open:
            self._problem(place, f"the block of '{name}' is not closed", "add a line with }")
        texts = {name: tuple(map(_plain, _BREAK.split(self.texts.get(name, name)))) for name in self.states}
        parents = {name for path in self.above.values() for name in path}
        return Drawing(
            path=self.path,
            line=heading,
            last=line,
            states={texts[name][0]: place for name, place in self.states.items() if name not in parents},
            arrows=tuple(
                Arrow(
                    source=None if source == NOWHERE else texts[source][0],
                    target=texts[target][0],
                    steps=single_label(map(_plain, labels), place),
                    place=place,
                )
                for source, target, labels, place in self._innermost_arrows(parents)
            ),
            below={text[0]: text[1:] for name, text in texts.items() if name not in parents},
            problems=tuple(self.problems),
        )

    def _statement(self, statement: str, place: Location) -> None:
        inside = self.open[-1][0] if self.open else ""
        if (arrow := _ARROW.match(statement)) and not (inside and arrow["target"] == NOWHERE):
            source, target = arrow["source"], arrow["target"]
            for name in (source, target):
                if name != NOWHERE or name == target:
                    self._add_state(name, place)
            if not inside or source != NOWHERE:
                self.arrows.append((source, target, arrow["label"] or "", place))
            elif self.initial.setdefault(inside, target) != target:
                self._problem(place, f"'{inside}' has two initial states", "regions cannot be read; draw one of them")
        elif len(self.open) < _DEEPEST and (opened := _OPENS.match(statement)):
            self._add_state(opened["id"], place, opened["text"])
            self.open.append((opened["id"], place))
        elif inside and statement == "}":
            self.open.pop()
        elif (named := _NAMED.match(statement)) or (named := _PLAIN.match(statement)):
            self._add_state(named["id"], place, named["text"] if named.re is _NAMED else None)
        else:
            hint = "a transition is 'A --> B : event', a state is 'state \"NAME\" as A' or 'state A {', and then '}'"
            self._problem(place, f"this is not a statement of a state diagram: {statement!r}", hint)

    def _add_state(self, name: str, place: Location, text: str | None = None) -> None:
        here = tuple(inside for inside, _ in self.open)
        self.states.setdefault(name, place)
        if text is not None:
            self.texts.setdefault(name, text)
        if self.above.setdefault(name, here)[: len(here)] != here:
            what = f"'{name}' is inside '{here[-1]}' here, but line {self.states[name].line} is not"
            hint = f"write '{name}' first where it belongs, and arrows that leave '{here[-1]}' behind its block"
            self._problem(place, what, hint)

    def _innermost_arrows(self, parents: set[str]) -> Iterator[tuple[str, str, list[str], Location]]:
        inner: dict[str, list[str]] = {}
        for state, above in self.above.items():
            for parent in above if state not in parents else ():
                inner.setdefault(parent, []).append(state)
        arrows = [
            (source, target, list(filter(str.strip, _BREAK.split(label))), place)
            for source, target, label, place in self.arrows
        ]
        if sum(len(inner.get(source, "1")) for source, *_ in arrows) > MOST:
            self._too_large(0)
            return
        own = {(source, label) for source, _, labels, _ in arrows for label in labels}
        for source, target, labels, place in arrows:
            to = self._entered(target, place, parents)
            for state in inner.get(source, [source]):
                path = (*self.above.get(state, ()), state)
                below = path[path.index(source) + 1 :]
                left = [label for label in labels if not any((name, label) in own for name in below)]
                if left or not labels:
                    yield state, to, left, place

    def _entered(self, name: str, place: Location, parents: set[str]) -> str:
        while name in parents:
            if name not in self.initial:
                hint = f"add '[*] --> STATE' inside '{name}', or let the arrow lead to a state inside it"
                self._problem(place, f"the arrow leads to '{name}', which has no initial state", hint)
                return name
            name = self.initial[name]
        return name

    def _problem(self, place: Location, what: str, hint: str) -> None:
        what = f"column {place.column}: {what}"
        self.problems.append(Problem(path=self.path, line=place.line, code="FSM408", what=what, hint=hint))

    def _too_large(self, line: int) -> None:
        what = f"the diagram has more than {MOST:,} names and arrows"
        hint = "remove the parts that are not needed"
        self.problems.append(Problem(path=self.path, line=line, code="FSM411", what=what, hint=hint))


def _plain(text: str) -> str:
    """Replace the character codes of Mermaid and PlantUML in *text* with the characters that they represent.

    >>> _plain("a#colon; #35;1")
    'a: #1'
    """

    def char(code: re.Match[str]) -> str:
        number = int(code[1]) if code[1].isdigit() else 0
        valid = 0 < number <= sys.maxunicode and chr(number).isprintable()
        return chr(number) if valid else _CODES.get(code[1], code[0])

    return " ".join(_CODE.sub(char, text).split())


def blocks(
    text: str, heading: re.Pattern[str], end: re.Pattern[str], *, ends_with_comment: bool
) -> Iterator[tuple[int, Iterator[tuple[int, str]]]]:
    """Yield the line number of each *heading* in *text*, and the numbered lines between the heading and *end*.

    If the group ``mark`` of the pattern *heading* matches a comment mark, blanks replace this mark in the lines.
    """
    rows = iter(enumerate(text.split("\n"), 1))

    def below(mark: str) -> Iterator[tuple[int, str]]:
        for number, row in rows:
            bare = row.replace(mark, " " * len(mark), 1) if row.lstrip().startswith(mark) else row
            if end.match(bare) or (ends_with_comment and mark and bare == row):
                return
            yield number, bare

    for line, row in rows:
        if found := heading.match(row):
            yield line, below(found["mark"])


def mermaid_drawings(text: str, path: str) -> Iterator[Drawing]:
    for line, lines in blocks(text, _HEADING, _FENCE, ends_with_comment=True):
        yield StateDiagram(path).read(line, lines)


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
    for line, below in blocks(text, _STARTUML, _ENDUML, ends_with_comment=False):
        lines = list(below)
        if any(_OF_STATES.match(row) for _, row in lines):
            yield StateDiagram(path).read(line, _statements(lines))


def _statements(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
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
