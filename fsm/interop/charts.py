"""Convert flat state charts, such as SCXML documents and charts of python-statemachine, to drafts.

Events become signals, which have no reply.  A state ignores events for which it has no transition, as the SCXML
recommendation requires (https://www.w3.org/TR/scxml, section 3.13) and as python-statemachine does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never
from xml.etree import ElementTree as ET
from xml.parsers import expat

import msgspec

from fsm.interop.draft import Draft, DraftState, DraftTransition, outcome_events
from fsm.interop.yaml_nodes import DEEPEST, FLAT, SourceProblems, YamlNode
from fsm.language.names import distinct, identifiers
from fsm.machine import Machine
from fsm.machine.conditions import All, Compare, Condition, Not, Some
from fsm.machine.terms import Combined, Constant, Read, Term

ANY: Final = "*"
DATA_NOTE: Final = "Its data are left out; what depends on them is a choice of the environment."
CHOOSING: Final = ("raise", "if", "foreach")  # actions that cause another step or send an event conditionally


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartState:
    name: str
    line: int
    transitions: tuple[DraftTransition, ...]  # each ``event`` is a list of event descriptors, separated by spaces
    enters: tuple[str, ...] = ()  # events that are sent when the state is entered
    leaves: tuple[str, ...] = ()  # events that are sent when the state is left
    notes: tuple[str, ...] = ()
    final: bool = False


def draft_of(
    states: Iterable[ChartState],
    problems: SourceProblems,
    *,
    name: str,
    form: str,
    initial: str,
    initial_line: int = 0,
    about: str = "",
    notes: tuple[str, ...] = (),
) -> Draft:
    places: dict[str, ChartState] = {}
    triggers = 0
    for state in states:
        if places.setdefault(state.name, state) is not state:
            problems.add("FSM513", state.line, f"state '{state.name}' occurs twice", "keep one of them")
        triggers += sum(len(transition.event.split()) for transition in state.transitions)
    if initial and initial not in places:
        problems.unknown(initial_line, "'initial' names the", initial, places)
    problems.check_size(initial_line, max(len(places), triggers), triggers)
    for state in places.values():
        _check(state, places, problems)
    return Draft(
        name=name,
        form=form,
        kind="signal",
        initial=initial or next(iter(places), ""),
        about=about,
        states=tuple(
            DraftState(name=name, ignores=True, final=at.final, notes=at.notes) for name, at in places.items()
        ),
        transitions=tuple(_arrows(places)),
        notes=("An event is a signal: it has no reply. A state without a transition for it ignores it.", *notes),
    )


def _check(state: ChartState, states: dict[str, ChartState], problems: SourceProblems) -> None:
    if state.final and state.transitions:
        hint = "no transition leaves a final state; remove the transitions, or 'final'"
        problems.add("FSM512", state.transitions[0].line, f"final state '{state.name}' has transitions", hint)
    for transition in state.transitions:
        if not transition.event.split():
            what = f"state '{state.name}' has a transition without an event, which would be taken immediately"
            hint = "a machine takes a step only when an event happens; name the event, or remove the transition"
            problems.add("FSM512", transition.line, what, hint)
        if transition.to and transition.to not in states:
            problems.unknown(
                transition.line, f"a transition of state '{state.name}' leads to the", transition.to, states
            )


def _arrows(states: dict[str, ChartState]) -> Iterator[DraftTransition]:
    arrows = [(state, arrow, arrow.event.split()) for state in states.values() for arrow in state.transitions]
    written = [descriptor for _, _, descriptors in arrows for descriptor in descriptors]
    for event in dict.fromkeys(_event_of(each) for each in written if each != ANY) or dict.fromkeys(written):
        for state, arrow, descriptors in arrows:
            # `*` matches all events.  Any other descriptor matches the events that begin with its words.
            if any(each == ANY or f"{event}.".startswith(f"{_event_of(each)}.") for each in descriptors):
                into = states.get(arrow.to)
                emits = (*state.leaves, *arrow.emits, *into.enters) if into else arrow.emits
                yield replace(arrow, event=event, to="" if arrow.to == state.name else arrow.to, emits=emits)


def _event_of(descriptor: str) -> str:
    """Return the name of the event that *descriptor* matches: ``error`` for ``error.*`` and ``error.``."""
    return descriptor.removesuffix("*").removesuffix(".") or descriptor


SCXML: Final = "http://www.w3.org/2005/07/scxml"
SCXML_FORM: Final = "a state chart in SCXML"
STATES: Final = ("state", "final")
SCXML_NESTED: Final = (*STATES, "parallel", "history", "invoke")
PARENT: Final = "#_parent"  # the parent session, to which outputs are sent

_BETWEEN: Final = " "  # separates the namespace from the name of an element or attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    space: str
    name: str
    attributes: dict[str, str]  # an attribute in a namespace has the key ``NAMESPACE NAME``
    line: int
    children: list[Element] = field(default_factory=list)

    def named(self, *names: str) -> Iterator[Element]:
        return (each for each in self.children if each.space == self.space and each.name in names)


def read_scxml(text: str, name: str, problems: SourceProblems) -> Draft:
    """Convert the SCXML document *text* to a draft, which is called *name* if the document has no name."""
    root = _root(text, problems)
    if root.name != "scxml":
        hint = "give a document whose root is <scxml>"
        problems.abort("FSM507", root.line, f"the file is <{root.name}>, not a state chart", hint)
    for each in root.named("parallel"):
        what = f"<parallel id='{each.attributes.get('id', '')}'> has several active states at the same time"
        problems.add("FSM511", each.line, what, FLAT)
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
            what = f"the file is nested more than {DEEPEST} deep"
            problems.abort("FSM505", element.line, what, "a flat chart needs four levels")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.StartDoctypeDeclHandler = lambda *_: problems.abort(
        "FSM506", parser.CurrentLineNumber, "the file has a document type", "remove <!DOCTYPE …>"
    )
    try:
        parser.Parse(text.encode(), True)  # noqa: FBT003  (the whole document)
    except expat.ExpatError as error:
        what = f"the file is not XML: {expat.ErrorString(error.code)}"
        problems.abort("FSM504", error.lineno, what, "see https://www.w3.org/TR/xml")
    return top.children[0]


def _scxml_state(element: Element, problems: SourceProblems) -> ChartState:
    name = element.attributes.get("id", "")
    if not name:
        problems.add("FSM509", element.line, f"<{element.name}> has no id", "add: id='…'")
    for child in element.named(*SCXML_NESTED):
        problems.add("FSM511", child.line, f"state '{name}' has <{child.name}>, so it is not flat", FLAT)
    return ChartState(
        name=name,
        line=element.line,
        final=element.name == "final",
        enters=_sent_events(element.named("onentry"), problems),
        leaves=_sent_events(element.named("onexit"), problems),
        transitions=tuple(
            DraftTransition(
                event=each.attributes.get("event", ""),
                source=name,
                line=each.line,
                to=each.attributes.get("target", ""),
                when=tuple(filter(None, [each.attributes.get("cond")])),
                emits=_sent_events([each], problems),
            )
            for each in element.named("transition")
        ),
    )


def _sent_events(elements: Iterable[Element], problems: SourceProblems) -> tuple[str, ...]:
    found: list[str] = []
    for element in elements:
        for child in element.named(*CHOOSING):
            what = f"<{child.name}> causes other steps or chooses among several steps"
            problems.add("FSM512", child.line, what, "give each choice a transition of its own")
        sent = (child.attributes.get("event") for child in element.named("send") if "target" in child.attributes)
        found += filter(None, sent)
    return tuple(found)


def scxml(machine: Machine) -> str:
    """Return *machine* as an SCXML document that ends in a newline.

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
    head = {
        "version": "1.0",
        "datamodel": "ecmascript" if machine.data else "null",
        "name": machine.name,
        "initial": ids[machine.initial],
    }
    root = ET.Element("scxml", {"xmlns": SCXML, **head})
    variables = identifiers("", machine.data)
    if machine.data:
        model = ET.SubElement(root, "datamodel")
        for name, variable in machine.data.items():
            ET.SubElement(model, "data", {"id": variables[name], "expr": str(variable.initial)})
    states = {name: ET.SubElement(root, "state", {"id": word}) for name, word in ids.items()}
    for each in outcome_events(machine):
        target = {"target": ids[each.to]} if each.to else {}
        way = each.outcome
        condition = {"cond": _script(way.when.means, variables)} if way.when else {}
        transition = ET.SubElement(states[each.source], "transition", {"event": each.event, **condition, **target})
        for update in way.updates:
            assigned = {"location": variables[update.variable], "expr": _script_term(update.term, variables)}
            ET.SubElement(transition, "assign", assigned)
        for output in each.emits:
            ET.SubElement(transition, "send", {"event": distinct(output, (), also="-"), "target": PARENT})
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _script(condition: Condition, variables: Mapping[str, str]) -> str:
    match condition:
        case Not(of=inner):
            return f"!({_script(inner, variables)})"
        case All(of=parts) | Some(of=parts):
            operator = " && " if isinstance(condition, All) else " || "
            return operator.join(f"({_script(each, variables)})" for each in parts) or "true"
        case Compare(comparison=comparison, left=left, right=right):
            return f"{_script_term(left, variables)} {comparison} {_script_term(right, variables)}"
        case _:
            raise TypeError(f"{condition} is not about data")


def _script_term(term: Term, variables: Mapping[str, str]) -> str:
    match term:
        case Constant(value=value):
            return str(value)
        case Read(name=name):
            return variables.get(name, f"_event.data[{name!r}]")
        case Combined(operator=operator, left=left, right=right):
            one, other = _script_term(left, variables), _script_term(right, variables)
            return f"({one} {operator} {other})" if operator in {"+", "-"} else f"Math.{operator}({one}, {other})"
        case _:
            assert_never(term)


FORM: Final = "a definition of python-statemachine"
DOCUMENT: Final = ("name", "description", "datamodel", "states")
NESTED: Final = ("states", "parallel", "history", "invoke")
STATE: Final = (*NESTED, "initial", "final", "enter", "exit", "transitions", "donedata")
SLOTS: Final = ("before", "on", "after")
TRANSITION: Final = (*SLOTS, "event", "target", "cond", "unless", "internal", "initial")
ACTIONS: Final = ("assign", "raise", "log", "if", "foreach", "send", "cancel", "script")
# Ids that no state can have, because the library's state machines have attributes with these names.
TAKEN: Final = {
    *("configuration", "current_state_value", "history_values", "model", "prepare", "send"),
    *("start_configuration_values", "state_field", "states", "states_map"),
}


def read_definition(root: YamlNode, name: str) -> Draft:
    """Convert the definition *root* to a draft, which is called *name* if the definition has no name."""
    root.check_keys(DOCUMENT, of="the definition")
    written = root.entries.get("states", YamlNode(value=None, line=root.line, problems=root.problems))
    states = written.entries
    if not states:
        root.problems.add("FSM509", written.line, "has no states", 'add: "states": { … }')
    begin = [key for key, node in states.items() if node.flag_at("initial", of=f"'initial' of state '{key}'")]
    if len(begin) > 1:
        what = f"several states are initial: {', '.join(begin)}"
        root.problems.add("FSM513", states[begin[1]].line, what, "keep one of them")
    return draft_of(
        about=root.text_at("description"),
        name=root.text_at("name") or name,
        form=FORM,
        states=[_state(key, node, written.keys[key]) for key, node in states.items()],
        initial=begin[0] if begin else "",
        notes=(DATA_NOTE,) if "datamodel" in root.entries else (),
        problems=root.problems,
    )


def _state(name: str, node: YamlNode, line: int) -> ChartState:
    of = f"state '{name}'"
    if not isinstance(node.value, dict) and node.value is not None:
        node.problems.add("FSM508", node.line, f"{of} is {node.kind}", "give a mapping")
    node.check_keys(STATE, of=of)
    node.check_flat(NESTED, of=of, so="is not flat")
    entered, enters = _actions(node, "enter", of)
    left, leaves = _actions(node, "exit", of)
    return ChartState(
        name=name,
        line=line,
        final=bool(node.flag_at("final", of=f"'final' of {of}")),
        enters=enters,
        leaves=leaves,
        notes=tuple(f"{when}: {called}." for when, called in (("On entry", entered), ("On exit", left)) if called),
        transitions=tuple(_transition(each, name) for each in node.items_at("transitions")),
    )


def _transition(node: YamlNode, state: str) -> DraftTransition:
    of = f"a transition of state '{state}'"
    if not isinstance(node.value, dict):
        node.problems.add("FSM508", node.line, f"{of} is {node.kind}", "give a mapping with event and target")
        return DraftTransition(event="_", source=state, line=node.line)
    node.check_keys(TRANSITION, of=of)
    actions = {word: _actions(node, word, of) for word in SLOTS}
    unless = node.texts_at("unless", of=f"'unless' of {of}")
    return DraftTransition(
        event=node.text_at("event", of=f"the event of {of}"),
        source=state,
        line=node.line,
        to=node.optional_text_at("target", of=f"the target of {of}"),
        when=(*node.texts_at("cond", of=f"'cond' of {of}"), *(f"not {each}" for each in unless)),
        emits=tuple(output for _, sent in actions.values() for output in sent),
        notes=tuple(f"{word.capitalize()}: {called}." for word, (called, _) in actions.items() if called),
    )


def _actions(node: YamlNode, word: str, of: str) -> tuple[str, tuple[str, ...]]:
    of = f"'{word}' of {of}"
    called: list[str] = []
    sent: list[str] = []
    for each in node.items_at(word):
        if isinstance(each.value, str):
            called.append(each.value)
            continue
        each.check_keys(ACTIONS, of=of)
        for key in CHOOSING:
            if key in each.entries:
                what = f"{of} has '{key}', which causes other steps or chooses among several steps"
                each.problems.add("FSM512", each.keys[key], what, "give each choice a transition of its own")
        send = each.entries.get("send")
        if send and "target" in send.entries:
            sent.append(send.text_at("event", of=f"the event sent by {of}"))
    return ", ".join(called), tuple(sent)


def python_statemachine(machine: Machine) -> str:
    """Return *machine* as a JSON definition that ends in a newline.

    >>> from fsm.language.library import load
    >>> msgspec.json.decode(python_statemachine(load("examples/models/door.toml")))["name"]
    'door'
    """
    ids: dict[str, str] = {}
    for state in machine.states:
        public = f"state{state}" if state.startswith("_") else state
        ids[state] = distinct(public, (*TAKEN, *ids.values()), also="-.")
    states: dict[str, dict[str, Any]] = {word: {} for word in ids.values()}
    states[ids[machine.initial]]["initial"] = True
    for each in outcome_events(machine):
        written: dict[str, Any] = {"event": each.event}
        if each.to:
            written["target"] = ids[each.to]
        if each.emits:
            written["on"] = [{"send": {"event": output, "target": PARENT}} for output in each.emits]
        states[ids[each.source]].setdefault("transitions", []).append(written)
    definition = {"name": machine.name, "description": machine.about, "states": states}
    return msgspec.json.format(msgspec.json.encode(definition), indent=2).decode() + "\n"
