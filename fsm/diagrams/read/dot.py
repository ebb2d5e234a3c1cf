"""DOT graphs: nodes are states, edges are arrows; parsed by pydot.

The name of a state is the first line of the node's label, else the node's name.  An
arrow from a point, or from a node with an empty label, has no source.
"""

import itertools
import re
import warnings
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from html import unescape
from operator import itemgetter
from typing import Any, Final

from pyparsing import Empty, Opt, ParseBaseException, ParserElement

from fsm.diagrams.read.drawing import Arrow, Drawing, Location, only_step
from fsm.diagrams.read.mermaid import NOWHERE
from fsm.errors import Problem

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # pydot calls pyparsing by its old names
    import pydot
    from pydot.dot_parser import GraphParser

_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|^#[^\n]*|->|--|[{}]', re.DOTALL | re.MULTILINE)
_BREAK: Final = re.compile(r"\\[nlr]|\n|<br\s*/?>|</tr>", re.IGNORECASE)
_PORT: Final = re.compile(r'("(?:\\.|[^"\\])*"|[^":]+)(?::.*)?')
_TAG: Final = re.compile(r"<[^>]*>")


def drawings(text: str, path: str, headings: list[int]) -> Iterator[Drawing]:
    """The graphs in a text: each from one of *headings* to the brace that closes it, or to the end."""
    end = 0
    for start in headings:
        if start >= end:
            end = _end(text, start)
            yield _DotGraph(path=path, line=text.count("\n", 0, start) + 1, text=text[start:end]).read()


def _end(text: str, start: int) -> int:
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if token.group() == "}" and depth == 0:
            return token.end()
    return len(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DotGraph:
    path: str
    line: int
    text: str

    def read(self) -> Drawing:
        try:
            graph = _parsed(self.text)
        except ParseBaseException as error:
            what = f"column {error.column}: is not DOT: {error.msg[:1].lower()}{error.msg[1:]}"
            return self._refused(error.lineno - 1, what, "see https://graphviz.org/doc/info/lang.html")
        if graph.get_type() != "digraph":
            return self._refused(0, "the graph has no directions", "write digraph and ->")
        return self._drawing(graph)

    def _refused(self, below: int, what: str, hint: str) -> Drawing:
        problem = Problem(path=self.path, line=self.line + below, code="FSM409", what=what, hint=hint)
        last = self.line + self.text.count("\n")
        return Drawing(path=self.path, line=self.line, last=last, states={}, arrows=(), problems=(problem,))

    def _drawing(self, graph: pydot.Graph) -> Drawing:
        edges = list(_edges(graph))
        arrows = [match.start() for match in _TOKEN.finditer(self.text) if match.group() == "->"]
        # Each edge of pydot is one arrow of the text, in the same order.
        places = [self._place(at) for at in arrows] if len(arrows) == len(edges) else [self._place(0)] * len(edges)
        ends = [(_members(edge.get_source()), _members(edge.get_destination())) for edge in edges]
        lines: dict[str, list[str]] = {name: [name] for both in ends for side in both for name in side}
        lines |= {_bare(node.get_name()): _text(node) for node in _nodes(graph)}
        targets = {name for _, targets in ends for name in targets}
        texts = {name: (*text, NOWHERE if name in targets else "")[0] for name, text in lines.items()}
        met = [(name, place) for both, place in zip(ends, places, strict=True) for name in itertools.chain(*both)]
        first = dict(reversed(met))
        return Drawing(
            path=self.path,
            line=self.line,
            last=self.line + self.text.rstrip().count("\n"),
            states={text: first.get(name, self._place(0)) for name, text in texts.items() if text},
            arrows=tuple(
                Arrow(
                    source=texts[source] if lines[source] else None,
                    target=texts[target],
                    steps=only_step(_lines(str(edge.get("label") or "")), place),
                    place=place,
                )
                for edge, place, both in zip(edges, places, ends, strict=True)
                for source, target in itertools.product(*both)
            ),
            below={texts[name]: tuple(text[1:]) for name, text in lines.items() if text},
        )

    def _place(self, at: int) -> Location:
        line = self.text.count("\n", 0, at)
        return Location(line=self.line + line, column=at - (self.text.rfind("\n", 0, at) + 1) + 1)


def _parsed(text: str) -> pydot.Graph:
    """The one graph of *text*; raises pyparsing's exception for what is none."""
    graph: pydot.Graph
    try:
        (graph,) = _uncommented().parse_string(text, parse_all=True)
    except ParseBaseException:
        (graph,) = GraphParser.parser.parse_string(text, parse_all=True)
    return graph


@cache
def _uncommented() -> ParserElement:
    """The grammar of pydot without comments; looking for them before every token takes nine tenths of the time.

    No token begins as a comment does, so what this grammar matches is the same in pydot's.
    """
    absent = Opt(Empty()).defaultValue  # pyparsing compares it by identity
    grammar = deepcopy(GraphParser.parser, {id(absent): absent})
    for each in grammar.visit_all():  # type: ignore[no-untyped-call]  # pyparsing gives it no types
        each.ignoreExprs = []
    return grammar


def _nodes(graph: pydot.Graph) -> Iterator[pydot.Node]:
    for node in graph.get_node_list():
        if node.get_name() not in {"node", "edge", "graph"}:
            yield node
    for below in graph.get_subgraph_list():
        yield from _nodes(below)


def _edges(graph: pydot.Graph) -> Iterator[pydot.Edge]:
    """The edges in the order of the text; pydot numbers the statements of each graph and subgraph."""
    found = [(each.get_sequence() or 0, iter([each])) for each in graph.get_edge_list()]
    found += [(each.get_sequence() or 0, _edges(each)) for each in graph.get_subgraph_list()]
    for _, edges in sorted(found, key=itemgetter(0)):
        yield from edges


def _members(end: Any) -> tuple[str, ...]:  # noqa: ANN401  (a name, or the nodes of a subgraph as pydot keeps them)
    """The nodes at one end of an edge: one node, or all of a subgraph; without ports."""
    if isinstance(end, str):
        named = _PORT.match(end)
        return (_bare(named[1] if named else end),)
    return tuple(_bare(name) for name in end["nodes"])


def _text(node: pydot.Node) -> list[str]:
    label = node.get("label")
    if node.get("shape") == "point":
        return []
    return _lines(str(label)) if label is not None and str(label) != r"\N" else [_bare(node.get_name())]


def _bare(name: str) -> str:
    """*name* without quotation marks.

    >>> _bare('"a b"')
    'a b'
    """
    return re.sub(r'\\(["\\])', r"\1", name[1:-1]) if name.startswith('"') and name.endswith('"') else name


def _lines(label: str) -> list[str]:
    """The lines of a label that are not empty, tags of HTML removed."""
    html = label.startswith("<") and label.endswith(">")
    found: list[str] = []
    for part in _BREAK.split(_bare(label[1:-1] if html else label)):
        line = " ".join((unescape(_TAG.sub("", part)) if html else part).split())
        # fsm draw breaks a long label before its outputs.
        if found and line.startswith(("/ ", "↗")):
            found[-1] += f" {line}"
        elif line:
            found.append(line)
    return found
