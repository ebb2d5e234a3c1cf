"""Convert machines to and from configurations of the library `transitions`.

A configuration is a dictionary, either in the library's markup form or with arguments of the constructor.  A trigger
becomes a call that replies ``ok`` if the trigger returns, and ``error`` if it raises an exception.  In a state without
a transition for it, a trigger raises an exception, unless invalid triggers are ignored.  Machines are written in the
markup form, as JSON and without outputs, for ``MarkupMachine(markup=json.load(file))``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

import msgspec

from fsm.interop.draft import Draft, DraftState, DraftTransition, outcome_events
from fsm.interop.yaml_nodes import YamlNode
from fsm.machine import Machine

FORM: Final = "a configuration of transitions"
CALLBACKS: Final = (
    *("before_state_change", "after_state_change", "prepare_event"),
    *("finalize_event", "on_exception", "on_final"),
)
IGNORES: Final = "ignore_invalid_triggers"
MACHINE: Final = (
    *CALLBACKS,
    *("states", "transitions", "initial", "name", "send_event", "auto_transitions", "ordered_transitions"),
    *(IGNORES, "queued", "model", "models", "model_attribute", "model_override"),
)
NESTED: Final = ("children", "states", "parallel", "initial", "transitions")
STATE: Final = (*NESTED, IGNORES, "name", "on_enter", "on_exit", "final", "timeout", "on_timeout", "tags", "label")
# Keys of a transition. If a transition is written as a list, its items have the same order.
TRANSITION: Final = ("trigger", "source", "dest", "conditions", "unless", "before", "after", "prepare")

ALL: Final = "*"
SAME: Final = "="
ADDED: Final = "initial"  # initial state if the configuration does not define an initial state


def read_configuration(root: YamlNode, name: str) -> Draft:
    """Convert the configuration *root* to a draft, which is called *name* if the configuration has no name."""
    root.check_keys(MACHINE, of="the configuration")
    places = _places(root)
    initial = _initial_state(root, places)
    return Draft(
        name=root.text_at("name") or name,
        form=FORM,
        kind="call",
        initial=initial,
        states=tuple(places.values()),
        transitions=(*_arrows(root, places), *_ordered_transitions(root, places, initial)),
        notes=tuple(_notes(root)),
    )


def _notes(root: YamlNode) -> Iterator[str]:
    yield "A trigger is a call: its reply is ok where transitions returns, and error where it raises."
    if root.flag_at("auto_transitions") is not False:
        yield "The automatic triggers to_STATE, which may be called everywhere, are left out."
    for word in CALLBACKS:
        if called := root.texts_at(word):
            yield f"{word} calls {', '.join(called)}."


def _places(root: YamlNode) -> dict[str, DraftState]:
    states = root.items_at("states")
    if not states:
        root.problems.add("FSM509", root.line, "the configuration has no states", "add the key states: [...]")
    ignores = bool(root.flag_at(IGNORES))
    places: dict[str, DraftState] = {}
    for node in states:
        named = node.entries.get("name") if isinstance(node.value, dict) else node
        if named is None:
            root.problems.add("FSM509", node.line, "a state has no name", "add the key 'name'")
            continue
        name = named.as_text(of="the name of a state")
        if name in places:
            root.problems.add("FSM513", node.line, f"state '{name}' occurs twice", "keep one of them")
        elif name:
            places[name] = _place(name, node, ignores=ignores)
    return places


def _place(name: str, node: YamlNode, *, ignores: bool) -> DraftState:
    of = f"state '{name}'"
    node.check_keys(STATE, of=of)
    node.check_flat(NESTED, of=of, so="contains nested states")
    own = node.flag_at(IGNORES)
    notes = node.notes({"on_enter": "On entry", "on_exit": "On exit", "tags": "Tags"}, of=of)
    final = bool(node.flag_at("final", of=f"'final' of {of}"))
    return DraftState(name=name, ignores=ignores if own is None else own, final=final, notes=notes)


def _initial_state(root: YamlNode, places: dict[str, DraftState]) -> str:
    node = root.entries.get("initial")
    if node is not None and node.value is None:
        hint = "give the state in which every run begins"
        root.problems.add("FSM509", node.line, "the configuration has no initial state", hint)
    name = node.as_text(of="initial") if node else ADDED
    if name and name not in places:
        if node:
            root.problems.unknown(node.line, "'initial' names the", name, places)
        places[name] = DraftState(name=name, ignores=bool(root.flag_at(IGNORES)))
    return name


def _arrows(root: YamlNode, places: dict[str, DraftState]) -> Iterator[DraftTransition]:
    nodes = root.items_at("transitions")
    if nodes:
        root.problems.check_size(root.entries["transitions"].line, len(places), len(nodes))
    attribute = root.entries["model_attribute"].text if "model_attribute" in root.entries else "state"
    for node in nodes:
        words = _words(node)
        trigger = words.text_at("trigger", of="the trigger of a transition")
        if trigger and trigger == attribute:
            what = f"trigger '{trigger}' has the same name as the attribute of the model that holds the state"
            root.problems.add("FSM508", node.line, what, "rename the trigger")
        elif trigger:
            yield from _from_sources(trigger, words, places)


def _words(node: YamlNode) -> YamlNode:
    match node.value:
        case dict():
            node.check_keys({*TRANSITION, "label"}, of="the transition")
            words, needed = node, 2
        case list() as parts if len(parts) <= len(TRANSITION):
            words, needed = replace(node, value=dict(zip(TRANSITION, parts, strict=False))), 3
        case _:
            hint = "give a mapping with trigger, source and dest, or a list of them in this order"
            node.problems.add("FSM508", node.line, f"a transition is {node.kind}", hint)
            words, needed = replace(node, value={}), 0
    for word in TRANSITION[:needed]:
        if word not in words.entries:
            node.problems.add("FSM509", node.line, f"a transition has no {word}", f"add the key '{word}'")
    return words


def _from_sources(trigger: str, words: YamlNode, places: dict[str, DraftState]) -> Iterator[DraftTransition]:
    of = f"of trigger '{trigger}'"
    sources = words.texts_at("source", of=f"source {of}")
    to = words.optional_text_at("dest", of=f"dest {of}")
    if to and to != SAME and to not in places:
        words.problems.unknown(words.entries["dest"].line, f"trigger '{trigger}' leads to the", to, places)
        return
    conditions = words.texts_at("conditions", of=f"conditions {of}")
    unless = words.texts_at("unless", of=f"unless {of}")
    notes = words.notes({"prepare": "Prepared by", "before": "Before", "after": "After"}, of=of.removeprefix("of "))
    for source in places if sources == (ALL,) else sources:
        if source not in places:
            line = words.entries["source"].line
            words.problems.unknown(line, f"trigger '{trigger}' leads from the", source, places)
            continue
        yield DraftTransition(
            event=trigger,
            source=source,
            to="" if to in {SAME, source} else to,
            when=(*conditions, *(f"not {each}" for each in unless)),
            notes=notes,
        )


def _ordered_transitions(root: YamlNode, places: Iterable[str], initial: str) -> Iterator[DraftTransition]:
    if root.flag_at("ordered_transitions"):
        names = list(places)
        at = names.index(initial) if initial in names else 0
        for source, to in pairwise([*names[at:], *names[: at + 1]]):
            yield DraftTransition(event="next_state", source=source, to=to)


def transitions(machine: Machine) -> str:
    """Return *machine* as JSON for the library's ``MarkupMachine``, with a newline at the end.

    >>> from fsm.language.library import load
    >>> msgspec.json.decode(transitions(load("examples/models/door.toml")))["initial"]
    'shut'
    """
    markup = {
        "name": machine.name,
        "initial": machine.initial,
        "states": [{"name": state} for state in machine.states],
        "transitions": [
            {"trigger": way.event, "source": way.source, "dest": way.to or None} for way in outcome_events(machine)
        ],
        "auto_transitions": False,
        "ignore_invalid_triggers": False,
        "send_event": False,
        "queued": False,
        "models": [{"name": machine.name, "class-name": "self", "state": machine.initial}],
    }
    return msgspec.json.format(msgspec.json.encode(markup), indent=2).decode() + "\n"
