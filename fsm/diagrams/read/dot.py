"""DOT graphs: nodes are states, edges are arrows; parsed by pydot.

The name of a state is the first line of the node's label, else the node's name.  An
arrow from a point, or from a node with an empty label, has no source.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import unescape
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from fsm.diagrams.read.drawing import Arrow, ArrowLabel, Drawing, Location, Notation
from fsm.diagrams.read.mermaid import NOWHERE
from fsm.errors import Problem

if TYPE_CHECKING:
    import pydot

HEADING: Final = re.compile(r"^[ \t]*(?:strict\s+)?(?:di)?graph\b[^;={}()]*\{", re.IGNORECASE | re.MULTILINE)
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|^#[^\n]*|->|--|[{}]', re.DOTALL | re.MULTILINE)
_BREAK: Final = re.compile(r"\\[nlr]|\n|<br\s*/?>|</tr>", re.IGNORECASE)
_PORT: Final = re.compile(r'("(?:\\.|[^"\\])*"|[^":]+)(?::.*)?')
_TAG: Final = re.compile(r"<[^>]*>")


@dataclass(slots=True)
class DotGraph:
    """One graph of a text: its place, and what is read from it."""

    path: str
    line: int
    text: str
    problems: list[Problem] = field(default_factory=list)

    def read(self) -> Drawing | None:
        """The drawing; ``problems`` are what is wrong with it."""
        # Only a text with a graph waits for them; loading them takes as long as all the rest of a command.
        from pyparsing import ParseBaseException  # noqa: PLC0415

        from fsm.diagrams.read.dot_grammar import parse  # noqa: PLC0415

        try:
            graph = parse(self.text)
        except ParseBaseException as error:
            what = f"column {error.column}: is not DOT: {error.msg[:1].lower()}{error.msg[1:]}"
            self._add_problem(self.line + error.lineno - 1, what, "see https://graphviz.org/doc/info/lang.html")
            return None
        if graph.get_type() != "digraph":
            self._add_problem(self.line, "the graph has no directions", "write digraph and ->")
            return None
        return self._drawing(graph)

    def _add_problem(self, line: int, what: str, hint: str) -> None:
        self.problems.append(Problem(path=self.path, line=line, code="FSM409", what=what, hint=hint))

    def _drawing(self, graph: pydot.Graph) -> Drawing:
        nodes = list(_nodes(graph))
        edges = list(_edges(graph))
        arrows = [match.start() for match in _TOKEN.finditer(self.text) if match.group() == "->"]
        # Each edge of pydot is one arrow of the text, in the same order.
        places = [self._place(at) for at in arrows] if len(arrows) == len(edges) else [self._place(0)] * len(edges)
        ends = [(_members(edge.get_source()), _members(edge.get_destination())) for edge in edges]
        lines: dict[str, list[str]] = {name: [name] for both in ends for side in both for name in side}
        lines |= {_bare(node.get_name()): _text(node) for node in nodes}
        targets = {name for _, targets in ends for name in targets}
        texts = {name: (*text, NOWHERE if name in targets else "")[0] for name, text in lines.items()}
        first: dict[str, Location] = {}
        for both, place in zip(ends, places, strict=True):
            for name in itertools.chain(*both):
                first.setdefault(name, place)
        return Drawing(
            path=self.path,
            kind=Notation.DOT,
            line=self.line,
            last=self.line + self.text.rstrip().count("\n"),
            states={text: first.get(name, self._place(0)) for name, text in texts.items() if text},
            arrows=tuple(
                Arrow(
                    source=texts[source] if lines[source] else None,
                    target=texts[target],
                    steps=_steps(edge, place),
                    place=place,
                )
                for edge, place, (begin, end) in zip(edges, places, ends, strict=True)
                for source in begin
                for target in end
            ),
            below={texts[name]: tuple(text[1:]) for name, text in lines.items() if text},
        )

    def _place(self, at: int) -> Location:
        line = self.text.count("\n", 0, at)
        return Location(line=self.line + line, column=at - (self.text.rfind("\n", 0, at) + 1) + 1)


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
    """The visible lines of *node*."""
    label = node.get("label")
    if node.get("shape") == "point":
        return []
    return _lines(str(label)) if label is not None and str(label) != r"\N" else [_bare(node.get_name())]


def _steps(edge: pydot.Edge, place: Location) -> tuple[ArrowLabel, ...]:
    names = tuple(_lines(str(edge.get("label") or "")))
    return (ArrowLabel(names=names, place=place),) if names else ()


def _bare(name: str) -> str:
    """*name* without quotation marks.

    >>> _bare('"a b"')
    'a b'
    """
    return re.sub(r'\\(["\\])', r"\1", name[1:-1]) if name.startswith('"') and name.endswith('"') else name


def _lines(label: str) -> list[str]:
    """The lines of a label that are not empty, tags of HTML removed."""
    html = label.startswith("<") and label.endswith(">")
    parts: Iterable[str] = _BREAK.split(_bare(label[1:-1] if html else label))
    plain = (" ".join((unescape(_TAG.sub("", part)) if html else part).split()) for part in parts)
    found: list[str] = []
    for line in plain:
        # fsm draw breaks a long label before its outputs.
        if found and line.startswith(("/ ", "↗")):
            found[-1] += f" {line}"
        elif line:
            found.append(line)
    return found


def graphs(text: str, path: str) -> Iterator[DotGraph]:
    """The graphs in a text: each from its heading to the brace that closes it, or to the end."""
    end = 0
    for heading in HEADING.finditer(text):
        if heading.start() < end:
            continue
        depth = 0
        end = len(text)
        for token in _TOKEN.finditer(text, heading.start()):
            depth += {"{": 1, "}": -1}.get(token.group(), 0)
            if token.group() == "}" and depth == 0:
                end = token.end()
                break
        yield DotGraph(path=path, line=text.count("\n", 0, heading.start()) + 1, text=text[heading.start() : end])
