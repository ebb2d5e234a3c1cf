"""Convert machines to and from configurations of the library `transitions`, and find its machines in Python files.

A configuration is a dictionary, either in the library's markup form or with arguments of the constructor.  A trigger
becomes a call that replies ``ok`` if the trigger returns, and ``error`` if it raises an exception.  In a state without
a transition for it, a trigger raises an exception, unless invalid triggers are ignored.  Machines are written in the
markup form, as JSON and without outputs, for ``MarkupMachine(markup=json.load(file))``.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
from transitions import Machine as LibraryMachine
from transitions.extensions import HierarchicalMachine
from transitions.extensions.asyncio import AsyncMachine

from fsm.errors import nearest, refused
from fsm.interop.draft import FLAT, NOT, Draft, DraftState, DraftTransition, outcome_events
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
    for word in NESTED:
        if word in node.entries and node.entries[word].value not in (None, False, []):
            node.problems.add("FSM511", node.keys[word], f"{of} has '{word}', so it contains nested states", FLAT)
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


AUTOMATIC: Final = "to_"  # prefix of the triggers that the library adds for each state


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMachine:
    """A machine that was found in a Python file, and the expressions that lead to it."""

    machine: LibraryMachine
    module: str
    folder: Path
    made: str  # evaluates to the object that has the machine
    fresh: bool  # whether this is a new object each time
    inside: str  # ``made + inside`` evaluates to the machine
    moved: str  # ``made + moved`` evaluates to the machine's model, which has the triggers as methods


def found(path: Path, name: str = "") -> FoundMachine:
    """Run the Python file at *path*, and return its only machine or the one to which the expression *name* refers."""
    folder, module = _module(path)
    namespace = vars(_run(path, folder, module))
    expressions = [name] if name else list(_expressions(namespace, module))
    if len(expressions) != 1:
        several = f"the file has {len(expressions)} machines: {', '.join(expressions)}"
        what = several if expressions else "the file has no Machine of the library transitions"
        hint = f"write {path}:NAME, where NAME is an object with a machine, a class, or a call such as 'Door(\"oak\")'"
        raise refused(str(path), "FSM518", what, hint)
    (made,) = expressions
    value, fresh = _value(made, namespace, path)
    inside, machine = ("", value) if isinstance(value, LibraryMachine) else _inner_machine(value)
    if machine is None:
        what = f"'{made}' is not a Machine of the library transitions, and does not have one"
        hint = "name a machine, or an object with a machine: self.machine = Machine(...)"
        raise refused(str(path), "FSM518", what, hint)
    if not machine.models:
        hint = "pass the object whose state it changes"
        raise refused(str(path), "FSM518", f"the machine of '{made}' has no model", hint)
    if fresh and made.isidentifier():
        made += "()"
    moved = "" if any(each is value for each in machine.models) else f"{inside}.models[0]"
    return FoundMachine(
        machine=machine, module=module, folder=folder, made=made, fresh=fresh, inside=inside, moved=moved
    )


def _module(path: Path) -> tuple[Path, str]:
    parts, folder = [path.stem], path.absolute().parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if path.suffix != ".py" or not all(each.isidentifier() for each in parts):
        what = "this is not the path of a Python file that can be imported"
        raise refused(str(path), "FSM517", what, "give a file such as door.py")
    return folder, ".".join(parts)


def _run(path: Path, folder: Path, name: str) -> ModuleType:
    if not path.is_file():
        raise refused(str(path), "FSM501", "the file cannot be opened: no such file", "give the path of a file")
    sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):
            module = import_module(name)
    except (Exception, SystemExit) as error:
        what = f"the file fails when it is run: {type(error).__name__}: {error}"
        raise refused(str(path), "FSM517", what, f"'python {path}' must end without an error") from error
    finally:
        sys.path.remove(str(folder))
    if not module.__file__ or not path.samefile(module.__file__):
        what = f"the file has the same name as another module, {module.__file__ or name}"
        raise refused(str(path), "FSM517", what, "rename the file")
    return module


def _expressions(namespace: dict[str, Any], module: str) -> Iterator[str]:
    own = (value for name, value in namespace.items() if isinstance(value, type) and not name.startswith("_"))
    classes = tuple(kind for kind in own if kind.__module__ == module and _makes_machine(kind))
    yield from (kind.__name__ for kind in classes)
    known: list[LibraryMachine] = []
    for name, value in namespace.items():
        attribute = "" if isinstance(value, type | ModuleType) else _attribute(value)
        machine = value if isinstance(value, LibraryMachine) else getattr(value, attribute) if attribute else None
        if machine is not None and not isinstance(value, classes) and all(each is not machine for each in known):
            known.append(machine)
            yield name


def _makes_machine(kind: type) -> bool:
    if issubclass(kind, LibraryMachine):
        return True
    try:
        return "Machine(" in inspect.getsource(kind)
    except (OSError, TypeError):
        return False


def _attribute(value: object) -> str:
    return next((name for name, each in getattr(value, "__dict__", {}).items() if isinstance(each, LibraryMachine)), "")


def _inner_machine(value: object) -> tuple[str, LibraryMachine | None]:
    if name := _attribute(value):
        return f".{name}", getattr(value, name)
    bound = getattr(getattr(getattr(value, "__dict__", {}).get("trigger"), "func", None), "__self__", None)
    return (".trigger.func.__self__", bound) if isinstance(bound, LibraryMachine) else ("", None)


def _value(made: str, namespace: dict[str, Any], path: Path) -> tuple[object, bool]:
    try:
        tree = ast.parse(made, mode="eval").body
        call = tree if isinstance(tree, ast.Call) else None
        named = ast.unparse(call.func if call else tree)
        positional = [ast.literal_eval(each) for each in call.args] if call else []
        keywords = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords} if call else {}
    except (SyntaxError, ValueError) as error:
        hint = "give a name, or a call with plain values, such as 'Door(\"oak\")'"
        raise refused(str(path), "FSM518", f"'{made}' is not the name of a machine", hint) from error
    if named not in namespace:
        known = [name for name in namespace if not name.startswith("_")]
        raise refused(str(path), "FSM518", f"the file has no '{named}'", nearest(named, known, of="names"))
    value = namespace[named]
    if not (call or isinstance(value, type) or inspect.isfunction(value)):
        return value, False
    try:
        with redirect_stdout(sys.stderr):
            return value(*positional, **keywords), True
    except Exception as error:
        what = f"'{made}' cannot be created: {type(error).__name__}: {error}"
        hint = f"pass the arguments that it needs: {path}:'{made.partition('(')[0]}(\"oak\", 3)'"
        raise refused(str(path), "FSM518", what, hint) from error


def draft_of(machine: LibraryMachine, name: str, path: str) -> Draft:
    """Convert *machine* to a draft called *name*. Raise :class:`InputError` for *path* if it cannot be converted."""
    if isinstance(machine, HierarchicalMachine) and any(each.states for each in machine.states.values()):
        raise refused(path, "FSM511", f"'{name}' has nested states", FLAT)
    if isinstance(machine, AsyncMachine):
        hint = "write the model with 'fsm init NAME', and an adapter that runs its triggers"
        raise refused(path, "FSM518", f"'{name}' is an AsyncMachine, whose triggers are coroutines", hint)
    if not isinstance(machine.initial, str):
        hint = "give the state in which every run begins: Machine(..., initial=...)"
        raise refused(path, "FSM509", f"'{name}' has no initial state", hint)
    arrows = tuple(_object_arrows(machine))
    if not arrows:
        raise refused(path, "FSM509", f"'{name}' has no transitions", "pass transitions=[...]")
    return Draft(
        name=name,
        form="a Machine of transitions",
        kind="call",
        initial=machine.initial,
        states=tuple(_state(machine, each) for each in machine.states.values()),
        transitions=arrows,
    )


def _state(machine: LibraryMachine, state: Any) -> DraftState:  # noqa: ANN401  (the library has no types)
    own = state.ignore_invalid_triggers
    ignores = bool(machine.ignore_invalid_triggers if own is None else own)
    callbacks = {"entry": state.on_enter, "exit": state.on_exit}
    notes = (f"On {when}: {', '.join(map(_called_name, called))}." for when, called in callbacks.items() if called)
    return DraftState(name=state.name, ignores=ignores, final=bool(state.final), notes=tuple(notes))


def _object_arrows(machine: LibraryMachine) -> Iterator[DraftTransition]:
    automatic = {f"{AUTOMATIC}{state}" for state in machine.states} if machine.auto_transitions else set()
    for name, event in machine.events.items():
        for source, ways in event.transitions.items() if name not in automatic else ():
            for way in ways:
                when = tuple(f"{'' if each.target else NOT}{_called_name(each.func)}" for each in way.conditions)
                to = "" if way.dest in {None, source} else str(way.dest)
                yield DraftTransition(event=name, source=source, to=to, when=when)


def _called_name(callback: object) -> str:
    return callback if isinstance(callback, str) else str(getattr(callback, "__name__", "a function"))
