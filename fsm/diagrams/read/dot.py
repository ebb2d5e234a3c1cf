"""Read DOT graphs. Nodes are states, and edges are arrows.

The name of a state is the first line of the node's label, or the node's name if it has no label. An arrow from a point,
or from a node with an empty label, has no source. https://graphviz.org/doc/info/lang.html describes the grammar; in
addition, unquoted names may contain dots and begin with a digit.
"""

import itertools
import re
from bisect import bisect
from collections.abc import Iterator
from html import unescape
from typing import Final, NamedTuple

from fsm.diagrams.drawing import MOST, Arrow, ArrowLabel, Drawing, Location, single_label
from fsm.diagrams.read.state_diagrams import NOWHERE
from fsm.errors import InputError, refused

_HEADING: Final = re.compile(
    r'^[ \t]*+(?:strict\s++)?+(?:di)?graph\b(?:"(?:\\.|[^"\\])*+"|[^;={}()"]){0,200}+\{', re.IGNORECASE | re.MULTILINE
)
_TOKEN: Final = re.compile(
    r"\s++|//[^\n]*+|\#[^\n]*+|/\*.*?\*/"
    r"|(?P<mark>->|--|[{}\[\]=;,:+])"
    r'|(?P<quoted>"(?:\\.|[^"\\])*+")|(?P<name>-?(?:[\w.]|[^\x00-\x7f\s])++)'
    r'|(?P<html><)|(?P<open>"|/\*)|(?P<other>.)',
    re.DOTALL,
)
_KEYWORDS: Final = frozenset({"strict", "graph", "digraph", "subgraph", "node", "edge"})
_NAMES: Final = ("name", "quoted")
_GROUPS: Final = ("subgraph", "{")
_KEPT: Final = frozenset({"label", "shape"})  # attributes that the reader needs

_DEEPEST: Final = 100  # maximum nesting depth of groups
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_BREAK: Final = re.compile(r"<br\s*/?>|</tr>", re.IGNORECASE)
_TAG: Final = re.compile(r"<[^<>]*>")


def drawings(text: str, path: str) -> Iterator[Drawing]:
    starts, end = [0, *(found.end() for found in re.finditer("\n", text))], 0
    for heading in _HEADING.finditer(text):
        if heading.start() >= end:
            graph = _Graph(text, heading.start(), path, starts)
            yield graph.read()
            end = graph.end


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Graph:
    """A parser for the graph at the index *start* of *text*. *starts* contains the indices where its lines start."""

    def __init__(self, text: str, start: int, path: str, starts: list[int]) -> None:
        self.text, self.start, self.path, self.starts = text, start, path, starts
        self.end = len(text)  # the index immediately after the graph
        self.nodes: dict[str, dict[str, str]] = {}  # attributes of each node
        self.mentions: list[tuple[str, int]] = []  # every mention of a node, with the index of the mention
        self.edges: list[tuple[str, str, tuple[ArrowLabel, ...], Location]] = []
        self.size = self.depth = 0
        self.default: dict[str, dict[str, str]] = {"node": {}, "edge": {}, "graph": {}}
        self.tokens = self._tokens()
        self.token = next(self.tokens)

    def read(self) -> Drawing:
        line = self._place(self.start).line
        try:
            self._graph()
        except InputError as error:
            for token in itertools.chain([self.token], self.tokens):
                self.depth += {"{": 1, "}": -1}.get(token.kind, 0)
                if token.kind == "}" and self.depth <= 0:
                    self.end = token.at + 1
                    break
            last = self._place(self.end - 1).line
            return Drawing(path=self.path, line=line, last=last, states={}, arrows=(), problems=error.problems)
        self.end = self.token.at + 1
        return self._drawing(line)

    def _refused(self, what: str, hint: str, code: str = "FSM409") -> InputError:
        place = self._place(self.token.at)
        return refused(self.path, code, f"column {place.column}: {what}", hint, line=place.line)

    def _tokens(self) -> Iterator[_Token]:
        at, text = self.start, self.text
        while found := _TOKEN.match(text, at):
            kind, begin, at = found.lastgroup, at, found.end()
            if kind == "html":
                at = _html_end(text, begin)
            if kind == "open" or not at:
                yield _Token("an unclosed string or comment", "", begin)
                return
            word = text[begin:at]
            match kind:
                case "mark":
                    yield _Token(word, word, begin)
                case "name":
                    yield _Token(word.lower() if word.lower() in _KEYWORDS else kind, word, begin)
                case "quoted":
                    yield _Token(kind, re.sub(r'\\(?:\r?\n|(?="))', "", word[1:-1]), begin)
                case "html":
                    lines = unescape(_TAG.sub("", _BREAK.sub("\n", word[1:-1])))
                    yield _Token("name", lines.replace("\\", r"\\"), begin)
                case "other":
                    yield _Token(f"'{word}'", word, begin)
        yield _Token("the end", "", len(text))

    def _take(self, *kinds: str) -> _Token | None:
        token = self.token
        if token.kind not in kinds:
            return None
        self.token = next(self.tokens)
        return token

    def _expect(self, *kinds: str) -> _Token:
        if token := self._take(*kinds):
            return token
        found = f"'{self.token.text}'" if self.token.kind in _NAMES else self.token.kind
        hint = "see https://graphviz.org/doc/info/lang.html"
        raise self._refused(f"the graph is not DOT: expected {kinds[0]}, but found {found}", hint)

    def _graph(self) -> None:
        self._take("strict")
        if self.token.kind == "graph":
            raise self._refused("the graph is undirected", "use 'digraph' and '->'")
        self._expect("digraph")
        self._take(*_NAMES)
        self._statements()

    def _name(self) -> _Token:
        name = self._expect(*_NAMES)
        while name.kind == "quoted" and self._take("+"):
            name = name._replace(text=name.text + self._expect("quoted").text)
        return name

    def _statements(self) -> None:
        self._expect("{")
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._refused(f"groups are nested deeper than {_DEEPEST}", "draw the states side by side")
        default = self.default.copy()
        while self.token.kind != "}":
            self._statement()
            while self._take(";"):
                pass
        self.default = default
        self.depth -= 1

    def _statement(self) -> None:
        if kind := self._take("graph", "node", "edge"):
            if self.token.kind != "[":
                self._expect("[")
            self.default[kind.kind] = self.default[kind.kind] | self._attributes()
            return
        node = () if self.token.kind in _GROUPS else (self._name(),)
        if node and self._take("="):
            self._name()
            return
        ends = [self._end(*node)]
        places = []
        while arrow := self._take("->"):
            places.append(self._place(arrow.at))
            ends.append(self._end())
        attributes = self._attributes()
        if node and not places:
            self.nodes[node[0].text] = self.nodes[node[0].text] | attributes
        label = _lines((self.default["edge"] | attributes).get("label", ""))
        for (sources, targets), place in zip(itertools.pairwise(ends), places, strict=True):
            self._count(len(sources) * len(targets))
            steps = single_label(label, place)
            self.edges += [(source, target, steps, place) for source, target in itertools.product(sources, targets)]

    def _count(self, more: int) -> None:
        self.size += more
        if self.size > MOST:
            what = f"the graph has more than {MOST:,} names and arrows"
            raise self._refused(what, "remove the parts that are not needed", "FSM411")

    def _end(self, node: _Token | None = None) -> tuple[str, ...]:
        if node is None and self.token.kind in _GROUPS:
            if self._take("subgraph"):
                self._take(*_NAMES)
            first = len(self.mentions)
            self._statements()
            self._expect("}")
            return tuple(dict.fromkeys(name for name, _ in self.mentions[first:]))
        name = node or self._name()
        for _ in range(2):
            if self._take(":"):
                self._name()
        self._count(1)
        self.nodes.setdefault(name.text, self.default["node"])
        self.mentions.append((name.text, name.at))
        return (name.text,)

    def _attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self._take("["):
            while not self._take("]"):
                key = self._name().text
                self._expect("=")
                value = self._name().text
                self._take(",", ";")
                if key in _KEPT:
                    found[key] = value
        return found

    def _drawing(self, line: int) -> Drawing:
        lines = {
            name: [] if node.get("shape") == "point" else _lines(node.get("label", r"\N").replace(r"\N", name))
            for name, node in self.nodes.items()
        }
        targets = {target for _, target, _, _ in self.edges}
        texts = {name: (*text, NOWHERE if name in targets else "")[0] for name, text in lines.items()}
        states: dict[str, Location] = {}
        for name, at in self.mentions:
            if texts[name]:
                states.setdefault(texts[name], self._place(at))
        return Drawing(
            path=self.path,
            line=line,
            last=self._place(self.token.at).line,
            states=states,
            arrows=tuple(
                Arrow(source=texts[source] if lines[source] else None, target=texts[target], steps=steps, place=place)
                for source, target, steps, place in self.edges
            ),
            below={texts[name]: tuple(text[1:]) for name, text in lines.items() if text},
        )

    def _place(self, at: int) -> Location:
        line = bisect(self.starts, at)
        return Location(line=line, column=at - self.starts[line - 1] + 1)


def _html_end(text: str, start: int) -> int:
    depth = 0
    for found in re.compile("[<>]").finditer(text, start):
        depth += 1 if found.group() == "<" else -1
        if not depth:
            return found.end()
    return 0


def _lines(label: str) -> list[str]:
    found: list[str] = []
    shown = _ESCAPE.sub(lambda escape: "\n" if escape[1] in "nlr" else escape[1], label)
    for line in filter(None, (" ".join(part.split()) for part in shown.split("\n"))):
        # The command fsm draw breaks a long label before its outputs. Join the two parts again.
        if found and line.startswith(("/ ", "↗")):
            found[-1] += f" {line}"
        else:
            found.append(line)
    return found
