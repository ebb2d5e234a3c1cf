"""Parse JSON and YAML into values that have line numbers.

JSON is read as YAML, because the YAML parser records line numbers.  Scalars become strings, booleans or null.  Words
such as ``on`` and ``007`` stay strings, because they may be names of states.  Aliases are rejected, because they
allow a small file to expand without limit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias

import yaml

from fsm.errors import InputError, Problem, control_character, nearest
from fsm.language.build import LARGEST_TABLE

LARGEST: Final = 1024 * 1024  # maximum size of a file in bytes; the files of real state machines are smaller
DEEPEST: Final = 32  # maximum nesting depth of lists, mappings and elements; configurations need only five levels
FLAT: Final = "replace them by one flat state for each, because a model is in one state at a time"
MOST_NAMES: Final = 20  # maximum number of states in the hint for a misspelt state


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProblems:
    path: str
    found: list[Problem] = field(default_factory=list)

    def add(self, code: str, line: int, what: str, hint: str) -> None:
        self.found.append(Problem(path=self.path, line=line, code=code, what=what, hint=hint))

    def unknown(self, line: int, what: str, state: str, states: Iterable[str]) -> None:
        names = tuple(states)
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        hint = nearest(state, names[:MOST_NAMES], of="states") + more
        self.add("FSM510", line, f"{what} unknown state '{state}'", hint)

    def check_text(self, line: int, text: str) -> None:
        if found := control_character(text):
            self.add("FSM516", line, f"{text!r} has the control character U+{ord(found):04X}", "remove the character")

    def abort(self, code: str, line: int, what: str, hint: str) -> NoReturn:
        self.add(code, line, what, hint)
        raise InputError(self.found)

    def check_size(self, line: int, states: int, transitions: int) -> None:
        if states * transitions > LARGEST_TABLE:
            what = f"{transitions} transitions in {states} states have more than {LARGEST_TABLE} outcomes"
            self.abort("FSM515", line, what, "split the machine into several machines")

    def raise_found(self) -> None:
        if self.found:
            raise InputError(sorted(dict.fromkeys(self.found), key=lambda problem: problem.line))


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_WORDS: Final = {"": None, "~": None, "null": None, "true": True, "True": True, "false": False, "False": False}

# Matches text that JSON and YAML write differently: surrogates, tabs, and characters that YAML escapes.
_OTHERWISE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\[^u]"
    r"|[\t\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"
)

Scalar: TypeAlias = "str | bool | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlNode:
    """A scalar, a list of nodes or a mapping of nodes, with the line on which it begins.

    The methods add a problem for each value of the wrong type, in which *of* is the name of the value, or else its key.
    """

    value: Scalar | list[YamlNode] | dict[str, YamlNode]
    line: int
    problems: SourceProblems
    text: str = ""  # the scalar as written
    keys: dict[str, int] = field(default_factory=dict)  # maps keys to their lines

    @property
    def entries(self) -> dict[str, YamlNode]:
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[YamlNode]:
        """The items of a list. Null counts as an empty list, and any other value as a list with one item."""
        return self.value if isinstance(self.value, list) else [self] if self.value is not None else []

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
                return repr(self.text) if len(self.text) <= 60 else f"{self.text[:57]!r}..."  # noqa: PLR2004  (a line)

    def check_flat(self, nested: Iterable[str], *, of: str, so: str) -> None:
        for word in nested:
            if word in self.entries and self.entries[word].value not in (None, False, [], {}):
                self.problems.add("FSM511", self.keys[word], f"{of} has '{word}', so it {so}", FLAT)

    def check_keys(self, known: Collection[str], *, of: str) -> None:
        for key in self.entries:
            if key not in known:
                hint = nearest(key, sorted(known), of="words")
                self.problems.add("FSM508", self.keys[key], f"{of} has an unknown word {key!r}", hint)

    def as_text(self, *, of: str) -> str:
        if isinstance(self.value, str) and self.value:
            return self.value
        self.problems.add("FSM508", self.line, f"{of} is {self.kind}", "give a name")
        return ""

    def text_at(self, key: str, *, of: str = "") -> str:
        return self.entries[key].as_text(of=of or key) if key in self.entries else ""

    def optional_text_at(self, key: str, *, of: str) -> str:
        return "" if key in self.entries and self.entries[key].value is None else self.text_at(key, of=of)

    def items_at(self, key: str) -> list[YamlNode]:
        return self.entries[key].items if key in self.entries else []

    def texts_at(self, key: str, *, of: str = "") -> tuple[str, ...]:
        return tuple(text for each in self.items_at(key) if (text := each.as_text(of=of or key)))

    def notes(self, words: Mapping[str, str], *, of: str) -> tuple[str, ...]:
        found = {heading: self.texts_at(word, of=f"'{word}' of {of}") for word, heading in words.items()}
        return tuple(f"{heading}: {', '.join(texts)}." for heading, texts in found.items() if texts)

    def flag_at(self, key: str, *, of: str = "") -> bool | None:
        node = self.entries.get(key)
        if node is not None and isinstance(node.value, bool):
            return node.value
        if node is not None and node.value is not None:
            self.problems.add("FSM508", node.line, f"{of or key} is {node.kind}", "give true or false")
        return None


def node_of(text: str, problems: SourceProblems) -> YamlNode:
    text = _OTHERWISE.sub(_escape_for_yaml, text) if text.lstrip()[:1] in {"{", "["} else text
    try:
        _check(text, problems)
        top = yaml.compose(text, _LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else text.count("\n", 0, getattr(error, "position", 0)) + 1
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "the text cannot be read"
        hint = "see https://yaml.org and https://json.org"
        problems.abort("FSM504", line, f"the file is neither JSON nor YAML: {reason}", hint)
    return _node(top, problems) if top else YamlNode(value=None, line=1, problems=problems)


def _check(text: str, problems: SourceProblems) -> None:
    """Reject aliases, deep nesting and multiple documents before the nodes are created."""
    documents = depth = 0
    for event in yaml.parse(text, _LOADER):
        line = event.start_mark.line + 1
        match event:
            case yaml.AliasEvent():
                hint = "replace the alias by the value for which it stands"
                problems.abort("FSM506", line, f"the file has an alias, *{event.anchor}", hint)
            case yaml.CollectionStartEvent():
                depth += 1
                if depth > DEEPEST:
                    what = f"the file is nested more than {DEEPEST} deep"
                    problems.abort("FSM505", line, what, "a flat machine needs five levels")
            case yaml.CollectionEndEvent():
                depth -= 1
            case yaml.DocumentStartEvent():
                documents += 1
                if documents > 1:
                    hint = "write each machine in a file of its own"
                    problems.abort("FSM504", line, "the file contains several documents", hint)


def _escape_for_yaml(found: re.Match[str]) -> str:
    piece = found[0]
    if piece.startswith("\\u"):
        halves = "".join(chr(int(each, 16)) for each in piece.split("\\u")[1:])
        return halves.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if piece.startswith("\\"):
        return piece
    return " " if piece == "\t" else f"\\u{ord(piece):04x}"


def _node(node: yaml.Node, problems: SourceProblems) -> YamlNode:
    line = node.start_mark.line + 1
    match node:
        case yaml.ScalarNode():
            text = node.value.encode(errors="replace").decode()  # the Python parser accepts lone surrogates
            problems.check_text(line, text)
            value = text if node.style else _WORDS.get(text, text)
            return YamlNode(value=value, line=line, problems=problems, text=text)
        case yaml.SequenceNode():
            return YamlNode(value=[_node(each, problems) for each in node.value], line=line, problems=problems)
    entries: dict[str, YamlNode] = {}
    keys: dict[str, int] = {}
    for key, value in ((_node(key, problems), value) for key, value in node.value):
        if isinstance(key.value, list | dict):
            problems.abort("FSM504", key.line, f"the file has {key.kind} as a key", "a key must be a text")
        if key.text in entries:
            problems.add("FSM513", key.line, f"key {key.text!r} occurs twice in one mapping", "keep one of them")
        entries[key.text], keys[key.text] = _node(value, problems), key.line
    return YamlNode(value=entries, line=line, problems=problems, keys=keys)
