"""Read and write flat state charts in SCXML, the W3C's notation.

Documents with a document type declaration are rejected, because its entities could expand without limit or read other
files.  Outputs are sent to the parent session.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from xml.etree import ElementTree as ET
from xml.parsers import expat

from fsm.interop.charts import CHOOSING, DATA_NOTE, ChartState, draft_of
from fsm.interop.draft import FLAT, Draft, DraftTransition, outcome_events
from fsm.interop.source_text import DEEPEST, SourceProblems
from fsm.language.names import distinct, identifiers
from fsm.machine import Machine

SCXML: Final = "http://www.w3.org/2005/07/scxml"
SCXML_FORM: Final = "a state chart in SCXML"
STATES: Final = ("state", "final")
SCXML_NESTED: Final = (*STATES, "parallel", "history", "invoke")
PARENT: Final = "#_parent"
"""Target of outputs: the parent session."""

_BETWEEN: Final = " "  # separates the namespace from the name of an element or attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An XML element.  ``attributes`` has names as keys, or ``NAMESPACE NAME`` for those with a namespace."""

    space: str
    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def named(self, *names: str) -> Iterator[Element]:
        """Return the children in the element's own namespace whose name is one of *names*."""
        return (each for each in self.children if each.space == self.space and each.name in names)


def read_scxml(text: str, name: str, problems: SourceProblems) -> Draft:
    """Return the draft of the document *text*.  If it has no name, the draft is called *name*."""
    root = _root(text, problems)
    if root.name != "scxml":
        hint = "give a document whose root is <scxml>"
        problems.abort("FSM507", root.line, f"is <{root.name}>, not a state chart", hint)
    for element in root.named("parallel"):
        what = f"<parallel id='{element.attributes.get('id', '')}'> has several active states at a time"
        problems.add("FSM511", element.line, what, FLAT)
    elements = list(root.named(*STATES))
    if not elements and not problems.found:
        problems.add("FSM509", root.line, "has no states", "add: <state id='…'>")
    return draft_of(
        name=root.attributes.get("name") or name,
        form=SCXML_FORM,
        initial=root.attributes.get("initial", ""),
        initial_line=root.line,
        states=[_scxml_state(element, problems) for element in elements],
        notes=(DATA_NOTE,) if any(root.named("datamodel", "script")) else (),
        problems=problems,
    )


def _root(text: str, problems: SourceProblems) -> Element:
    parser = expat.ParserCreate(encoding="utf-8", namespace_separator=_BETWEEN)
    top = Element(space="", name="", attributes={}, line=1)
    stack = [top]

    def start(name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(_BETWEEN)
        element = Element(space=space, name=local, attributes=attributes, line=parser.CurrentLineNumber)
        for value in attributes.values():
            problems.check_text(element.line, value)
        stack[-1].children.append(element)
        stack.append(element)
        if len(stack) > DEEPEST + 1:
            what = f"is nested more than {DEEPEST} deep"
            problems.abort("FSM505", element.line, what, "flat charts need four levels")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.StartDoctypeDeclHandler = lambda *_: problems.abort(
        "FSM506", parser.CurrentLineNumber, "has a document type", "remove <!DOCTYPE …>"
    )
    try:
        parser.Parse(text.encode(), True)  # noqa: FBT003  (the whole document)
    except expat.ExpatError as error:
        what = f"is not XML: {expat.ErrorString(error.code)}"
        problems.abort("FSM504", error.lineno, what, "see https://www.w3.org/TR/xml")
    return top.children[0]


def _scxml_state(element: Element, problems: SourceProblems) -> ChartState:
    name = element.attributes.get("id", "")
    if not name:
        problems.add("FSM509", element.line, f"<{element.name}> has no id", "add: id='…'")
    for child in element.named(*SCXML_NESTED):
        problems.add("FSM511", child.line, f"state '{name}' has <{child.name}>: it is not flat", FLAT)
    return ChartState(
        name=name,
        line=element.line,
        final=element.name == "final",
        enters=tuple(event for each in element.named("onentry") for event in _sent(each, problems)),
        leaves=tuple(event for each in element.named("onexit") for event in _sent(each, problems)),
        transitions=tuple(_scxml_transition(each, name, problems) for each in element.named("transition")),
    )


def _scxml_transition(element: Element, state: str, problems: SourceProblems) -> DraftTransition:
    event, to, condition = (element.attributes.get(word, "") for word in ("event", "target", "cond"))
    when = (condition,) if condition else ()
    emits = tuple(_sent(element, problems))
    return DraftTransition(event=event, source=state, line=element.line, to=to, when=when, emits=emits)


def _sent(element: Element, problems: SourceProblems) -> list[str]:
    for child in element.named(*CHOOSING):
        what = f"<{child.name}> causes other steps, or chooses among them"
        problems.add("FSM512", child.line, what, "give each choice a transition of its own")
    sent = [child.attributes for child in element.named("send") if "target" in child.attributes]
    return [each["event"] for each in sent if each.get("event")]


def scxml(machine: Machine) -> str:
    """Return *machine* as an SCXML document, ending in a newline.

    >>> from fsm.language.library import load
    >>> print("\\n".join(scxml(load("examples/models/door.toml")).splitlines()[2:5]))
      <state id="shut">
        <transition event="push.done" target="open">
          <send event="Creak" target="#_parent" />
    """
    ids = {
        name: f"_{word}" if word[0] in "0123456789-" else word
        for name, word in identifiers("", machine.states, also="-").items()
    }
    head = {"version": "1.0", "datamodel": "null", "name": machine.name, "initial": ids[machine.initial]}
    root = ET.Element("scxml", {"xmlns": SCXML, **head})
    states = {name: ET.SubElement(root, "state", {"id": word}) for name, word in ids.items()}
    for each in outcome_events(machine):
        target = {"target": ids[each.to]} if each.to else {}
        transition = ET.SubElement(states[each.source], "transition", {"event": each.event, **target})
        for output in each.emits:
            ET.SubElement(transition, "send", {"event": distinct(output, (), also="-"), "target": PARENT})
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'
