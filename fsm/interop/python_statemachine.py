"""Read and write definitions of the library `python-statemachine`, version 3.

Definitions are read from the library's JSON, or from YAML with the same keys, and written as JSON.
``statemachine.io.load(path)`` turns a file into a class that ignores events without a transition.  Outputs are sent to
the parent, as in SCXML.
"""

from typing import Any, Final

import msgspec

from fsm.interop.charts import CHOOSING, DATA_NOTE, ChartState, draft_of
from fsm.interop.draft import FLAT, Draft, DraftTransition, outcome_events
from fsm.interop.scxml import PARENT
from fsm.interop.yaml_nodes import YamlNode
from fsm.language.names import distinct
from fsm.machine import Machine

FORM: Final = "a definition of python-statemachine"
DOCUMENT: Final = frozenset({"name", "description", "datamodel", "states"})
NESTED: Final = ("states", "parallel", "history", "invoke")
STATE: Final = frozenset({*NESTED, "initial", "final", "enter", "exit", "transitions", "donedata"})
SLOTS: Final = ("before", "on", "after")
TRANSITION: Final = frozenset({*SLOTS, "event", "target", "cond", "unless", "internal", "initial"})
ACTIONS: Final = frozenset({"assign", "raise", "log", "if", "foreach", "send", "cancel", "script"})
TAKEN: Final = frozenset(
    {
        *("configuration", "current_state_value", "history_values", "model", "prepare", "send"),
        *("start_configuration_values", "state_field", "states", "states_map"),
    }
)
"""Attributes of the library's machines.  States become attributes, too, so a state with such a name gets another id."""


def read_definition(root: YamlNode, name: str) -> Draft:
    """Return the draft of the definition *root*.  If it has no name, the draft is called *name*."""
    root.check_keys(DOCUMENT, of="the definition")
    written = root.entries.get("states")
    if written is None or not written.entries:
        root.problems.add("FSM509", (written or root).line, "has no states", 'add: "states": { … }')
    states = written.entries if written else {}
    begin = [key for key, node in states.items() if node.flag_at("initial", of=f"'initial' of state '{key}'")]
    if len(begin) > 1:
        what = f"several states are initial: {', '.join(begin)}"
        root.problems.add("FSM513", states[begin[1]].line, what, "keep one of them")
    return draft_of(
        about=root.text_at("description"),
        name=root.text_at("name") or name,
        form=FORM,
        states=[_state(key, node, written.keys[key] if written else 0) for key, node in states.items()],
        initial=begin[0] if begin else "",
        notes=(DATA_NOTE,) if "datamodel" in root.entries else (),
        problems=root.problems,
    )


def _state(name: str, node: YamlNode, line: int) -> ChartState:
    of = f"state '{name}'"
    if not isinstance(node.value, dict) and node.value is not None:
        node.problems.add("FSM508", node.line, f"{of} is {node.kind}", "give a mapping")
    node.check_keys(STATE, of=of)
    for word in NESTED:
        if word in node.entries and node.entries[word].value not in (None, False, [], {}):
            node.problems.add("FSM511", node.keys[word], f"{of} has '{word}': it is not flat", FLAT)
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
    target = node.entries.get("target")
    return DraftTransition(
        event=node.text_at("event", of=f"the event of {of}"),
        source=state,
        line=node.line,
        to=target.as_text(of=f"the target of {of}") if target and target.value is not None else "",
        when=(*node.texts_at("cond", of=f"'cond' of {of}"), *(f"not {each}" for each in unless)),
        emits=tuple(output for _, sent in actions.values() for output in sent),
        notes=tuple(f"{word.capitalize()}: {called}." for word, (called, _) in actions.items() if called),
    )


def _actions(node: YamlNode, word: str, of: str) -> tuple[str, tuple[str, ...]]:
    """Return the callbacks named at *word*, and the events sent to another machine there."""
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
                what = f"{of} has '{key}', by which one step causes others or chooses among them"
                each.problems.add("FSM512", each.keys[key], what, "give each choice a transition of its own")
        send = each.entries.get("send")
        if send and "target" in send.entries:
            sent.append(send.text_at("event", of=f"the event sent by {of}"))
    return ", ".join(called), tuple(sent)


def python_statemachine(machine: Machine) -> str:
    """Return *machine* as a JSON definition, ending in a newline.

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
