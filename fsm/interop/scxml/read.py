"""Flat state charts in SCXML."""

from typing import Final

from fsm.interop.charts import FLAT, ChartState, ChartTransition, StateChart, draft_of
from fsm.interop.draft import Draft
from fsm.interop.source_text import SourceProblems
from fsm.interop.xml_elements import Element

FORM: Final = "a state chart in SCXML"
STATES: Final = ("state", "final")
NESTED: Final = (*STATES, "parallel", "history", "invoke")
CHOOSING: Final = ("raise", "if", "foreach")
"""Actions that make a step cause another one, or send an event conditionally."""


def read(root: Element, name: str, problems: SourceProblems) -> Draft:
    """The draft that the document defines; called *name* if it has no name."""
    if root.name != "scxml":
        hint = "give a document whose root is <scxml>"
        problems.abort("FSM507", root.line, f"is <{root.name}>, not a state chart", hint)
    for element in root.named("parallel"):
        what = f"<parallel id='{element.attributes.get('id', '')}'> has several active states at a time"
        problems.add("FSM511", element.line, what, FLAT)
    elements = list(root.named(*STATES))
    if not elements and not problems.found:
        problems.add("FSM509", root.line, "has no states", "add: <state id='…'>")
    data = any(root.named("datamodel")) or any(root.named("script"))
    chart = StateChart(
        name=root.attributes.get("name") or name,
        form=FORM,
        initial=root.attributes.get("initial", ""),
        initial_line=root.line,
        states=[_state(element, problems) for element in elements],
        notes=("Its data are left out; what depends on them is a choice of the environment.",) if data else (),
    )
    return draft_of(chart, problems)


def _state(element: Element, problems: SourceProblems) -> ChartState:
    name = element.attributes.get("id", "")
    if not name:
        problems.add("FSM509", element.line, f"<{element.name}> has no id", "add: id='…'")
    for child in element.named(*NESTED):
        what = f"state '{name}' has <{child.name}>: it is not flat"
        problems.add("FSM511", child.line, what, FLAT)
    return ChartState(
        name=name,
        line=element.line,
        final=element.name == "final",
        enters=tuple(event for each in element.named("onentry") for event in _sent(each, problems)),
        leaves=tuple(event for each in element.named("onexit") for event in _sent(each, problems)),
        transitions=tuple(_transition(each, problems) for each in element.named("transition")),
    )


def _transition(element: Element, problems: SourceProblems) -> ChartTransition:
    attributes = element.attributes
    condition = attributes.get("cond", "")
    return ChartTransition(
        events=tuple(attributes.get("event", "").split()),
        target=attributes.get("target", ""),
        line=element.line,
        when=(condition,) if condition else (),
        emits=tuple(_sent(element, problems)),
    )


def _sent(element: Element, problems: SourceProblems) -> list[str]:
    for child in element.named(*CHOOSING):
        what = f"<{child.name}> causes other steps, or chooses among them"
        problems.add("FSM512", child.line, what, "give each choice a transition of its own")
    sent = [child.attributes for child in element.named("send") if "target" in child.attributes]
    return [each["event"] for each in sent if each.get("event")]
