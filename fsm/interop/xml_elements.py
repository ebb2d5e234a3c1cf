"""XML as elements with their lines, within bounds.

A document type is refused: its entities could expand without limit, or read other
files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from fsm.interop.source_text import DEEPEST, SourceProblems

_BETWEEN = " "
"""Separates the namespace and the name of an element or attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An element: namespace, name, attributes by name (``NAMESPACE NAME`` if they have one), and line."""

    space: str
    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def named(self, *names: str) -> Iterator[Element]:
        """The children with one of *names*, in the element's own namespace."""
        return (each for each in self.children if each.space == self.space and each.name in names)


def element_of(text: str, problems: SourceProblems) -> Element:
    """The root element of the XML in *text*."""
    parser = expat.ParserCreate(encoding="utf-8", namespace_separator=_BETWEEN)
    top = Element(space="", name="", attributes={}, line=1)
    stack = [top]

    def start(name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(_BETWEEN)
        element = Element(space=space, name=local, attributes=attributes, line=parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)
        if len(stack) > DEEPEST + 1:
            problems.abort(
                "FSM505", element.line, f"is nested more than {DEEPEST} deep", "flat charts need four levels"
            )

    def end(_: str) -> None:
        stack.pop()

    def doctype(*_: object) -> None:
        problems.abort("FSM506", parser.CurrentLineNumber, "has a document type", "remove <!DOCTYPE …>")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(text.encode(), True)  # noqa: FBT003  (the whole document)
    except expat.ExpatError as error:
        problems.abort(
            "FSM504", error.lineno, f"is not XML: {expat.ErrorString(error.code)}", "see https://www.w3.org/TR/xml"
        )
    return top.children[0]
