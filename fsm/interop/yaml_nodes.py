"""JSON and YAML as values with their lines.

JSON is read as YAML, since the YAML parser knows lines.  Scalars become text, truth
values or null and nothing else: ``on`` and ``007`` may be names of states.  Aliases are
refused: with them a small file may expand without limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import yaml

from fsm.interop.source_text import DEEPEST, SourceProblems

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C, if PyYAML has it."""

_WORDS: Final = {"": None, "~": None, "null": None, "true": True, "True": True, "false": False, "False": False}
"""Plain scalars that are not text."""

_OTHERWISE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\[^u]"
    r"|[\t\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"
)
"""What JSON and YAML write differently: surrogate pairs, tabs, and characters that YAML requires escaped."""

Scalar: TypeAlias = "str | bool | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlNode:
    """A value: a scalar, a list of nodes, or nodes by key; and the line on which it begins.

    ``keys`` has the line of each key; ``text`` is a scalar as written.
    """

    value: Scalar | list[YamlNode] | dict[str, YamlNode]
    line: int
    text: str = ""
    keys: dict[str, int] = field(default_factory=dict)

    @property
    def entries(self) -> dict[str, YamlNode]:
        """The nodes by key; empty if it is no mapping."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[YamlNode]:
        """The nodes of a list; for anything else, the node itself."""
        return self.value if isinstance(self.value, list) else [self]

    @property
    def kind(self) -> str:
        match self.value:
            case dict():
                return "a mapping"
            case list():
                return "a list"
            case None:
                return "null"
            case _:
                return repr(self.text) if len(self.text) <= 60 else f"{self.text[:57]!r}..."  # noqa: PLR2004  (a line's worth)


@dataclass(slots=True, kw_only=True)
class _Open:
    """A list or mapping that is being read; ``key`` is the one whose value comes next."""

    node: YamlNode
    key: YamlNode | None = None


def node_of(text: str, problems: SourceProblems) -> YamlNode:
    """The one document in *text*."""
    try:
        return _document(_events(text), problems)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        line = mark.line + 1 if mark else 0
        problems.abort(
            "FSM504", line, f"is neither JSON nor YAML: {reason}", "see https://yaml.org and https://json.org"
        )


def _events(text: str) -> Iterator[yaml.Event]:
    loader = _LOADER(_OTHERWISE.sub(_as_yaml, text) if text.lstrip()[:1] in {"{", "["} else text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _as_yaml(found: re.Match[str]) -> str:
    """A piece of JSON as YAML writes it."""
    piece = found[0]
    if piece.startswith("\\u"):
        halves = "".join(chr(int(each, 16)) for each in piece.split("\\u")[1:])
        return halves.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if piece.startswith("\\"):
        return piece
    return " " if piece == "\t" else f"\\u{ord(piece):04x}"


def _document(events: Iterator[yaml.Event], problems: SourceProblems) -> YamlNode:
    """The value that *events* make; iteratively, since the nesting is not bounded yet."""
    top = _Open(node=YamlNode(value=[], line=1))
    stack = [top]
    for event in events:
        line = event.start_mark.line + 1
        match event:
            case yaml.AliasEvent():
                problems.abort("FSM506", line, f"has an alias, *{event.anchor}", "write out what it stands for")
            case yaml.ScalarEvent():
                _add(stack[-1], _scalar(event, line), problems)
            case yaml.CollectionStartEvent():
                opened = _Open(node=YamlNode(value={} if isinstance(event, yaml.MappingStartEvent) else [], line=line))
                _add(stack[-1], opened.node, problems)
                stack.append(opened)
                if len(stack) > DEEPEST + 1:
                    problems.abort(
                        "FSM505", line, f"is nested more than {DEEPEST} deep", "flat machines need five levels"
                    )
            case yaml.CollectionEndEvent():
                stack.pop()
            case yaml.DocumentStartEvent() if top.node.value:
                problems.abort("FSM504", line, "holds several documents", "keep one machine in a file")
    return top.node.items[0] if top.node.value else YamlNode(value=None, line=1)


def _scalar(event: yaml.ScalarEvent, line: int) -> YamlNode:
    text = event.value.encode(errors="replace").decode()  # the parser in Python accepts lone surrogates
    return YamlNode(value=text if event.style else _WORDS.get(text, text), line=line, text=text)


def _add(opened: _Open, node: YamlNode, problems: SourceProblems) -> None:
    key = opened.key
    match opened.node.value:
        case list() as items:
            items.append(node)
        case dict() if key is None:
            if isinstance(node.value, list | dict):
                problems.abort("FSM504", node.line, f"has {node.kind} as a key", "keys are texts")
            if node.text in opened.node.entries:
                problems.add("FSM513", node.line, f"key {node.text!r} occurs twice in one mapping", "keep one of them")
            opened.key = node
        case dict() as entries if key is not None:
            entries[key.text] = node
            opened.node.keys[key.text] = key.line
            opened.key = None
