"""Find machines of the library `transitions` in Python files, and read them from memory."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from transitions import Machine
from transitions.extensions import HierarchicalMachine
from transitions.extensions.asyncio import AsyncMachine

from fsm.errors import nearest, refused
from fsm.interop.draft import FLAT, NOT, Draft, DraftState, DraftTransition

AUTOMATIC: Final = "to_"  # prefix of the triggers that the library adds for each state


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMachine:
    """A machine found in ``module``, a module in ``folder``.

    The expression ``made`` evaluates to the object that has the machine and, if ``fresh`` is true, creates a new
    object each time.  ``made + inside`` is an expression for the machine.  ``made + moved`` is an expression for its
    model, on which the triggers are called.
    """

    machine: Machine
    module: str
    folder: Path
    made: str
    fresh: bool
    inside: str
    moved: str


def found(path: Path, name: str = "") -> FoundMachine:
    """Run the Python file at *path* and return its only machine, or the one that the expression *name* selects."""
    folder, module = _module(path)
    namespace = vars(_run(path, folder, module))
    expressions = [name] if name else list(_expressions(namespace, module))
    if len(expressions) != 1:
        several = f"has {len(expressions)} machines: {', '.join(expressions)}"
        what = several if expressions else "has no Machine of transitions"
        hint = f"say which: {path}:NAME, an object that has one, a class, or a call such as 'Door(\"oak\")'"
        raise refused(str(path), "FSM518", what, hint)
    (made,) = expressions
    value, fresh = _value(made, namespace, path)
    inside, machine = ("", value) if isinstance(value, Machine) else _inside(value)
    if machine is None:
        hint = "name a machine, or what has one: self.machine = Machine(...)"
        raise refused(str(path), "FSM518", f"'{made}' is no Machine of transitions, and has none", hint)
    if not machine.models:
        raise refused(str(path), "FSM518", f"the machine of '{made}' has no model", "add the object that it moves")
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
        raise refused(str(path), "FSM517", "is not a Python file that can be imported", "give a file such as door.py")
    return folder, ".".join(parts)


def _run(path: Path, folder: Path, name: str) -> ModuleType:
    if not path.is_file():
        raise refused(str(path), "FSM501", "cannot be opened: no such file", "give the path of a file")
    sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):
            module = import_module(name)
    except (Exception, SystemExit) as error:
        what = f"fails when it is run: {type(error).__name__}: {error}"
        raise refused(str(path), "FSM517", what, f"'python {path}' has to end without an error") from error
    finally:
        sys.path.remove(str(folder))
    if not module.__file__ or not path.samefile(module.__file__):
        what = f"has the name of another module, {module.__file__ or name}"
        raise refused(str(path), "FSM517", what, "rename it")
    return module


def _expressions(namespace: dict[str, Any], module: str) -> Iterator[str]:
    """Yield the names in *namespace* of *module*'s classes that create a machine, and of objects that have one."""
    own = (value for name, value in namespace.items() if isinstance(value, type) and not name.startswith("_"))
    classes = tuple(kind for kind in own if kind.__module__ == module and _makes(kind))
    yield from (kind.__name__ for kind in classes)
    known: list[Machine] = []
    for name, value in namespace.items():
        attribute = "" if isinstance(value, type | ModuleType) else _attribute(value)
        machine = value if isinstance(value, Machine) else getattr(value, attribute) if attribute else None
        if machine is not None and not isinstance(value, classes) and all(each is not machine for each in known):
            known.append(machine)
            yield name


def _makes(kind: type) -> bool:
    if issubclass(kind, Machine):
        return True
    try:
        return "Machine(" in inspect.getsource(kind)
    except (OSError, TypeError):
        return False


def _attribute(value: object) -> str:
    return next((name for name, each in getattr(value, "__dict__", {}).items() if isinstance(each, Machine)), "")


def _inside(value: object) -> tuple[str, Machine | None]:
    """Return the attributes that lead from *value* to its machine, and the machine (``None`` if there is none)."""
    if name := _attribute(value):
        return f".{name}", getattr(value, name)
    bound = getattr(getattr(getattr(value, "__dict__", {}).get("trigger"), "func", None), "__self__", None)
    return (".trigger.func.__self__", bound) if isinstance(bound, Machine) else ("", None)


def _value(made: str, namespace: dict[str, Any], path: Path) -> tuple[object, bool]:
    """Return the value of *made*, a name or a call with literals, and whether each evaluation creates a new object."""
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
        raise refused(str(path), "FSM518", f"has no '{named}'", nearest(named, known, of="names"))
    value = namespace[named]
    if not (call or isinstance(value, type) or inspect.isfunction(value)):
        return value, False
    try:
        with redirect_stdout(sys.stderr):
            return value(*positional, **keywords), True
    except Exception as error:
        what = f"'{made}' cannot be created: {type(error).__name__}: {error}"
        hint = f"give it what it needs: {path}:'{made.partition('(')[0]}(\"oak\", 3)'"
        raise refused(str(path), "FSM518", what, hint) from error


def draft_of(machine: Machine, name: str, path: str) -> Draft:
    """Return the draft of *machine*, called *name*, from the file at *path*, or raise :class:`InputError`."""
    if isinstance(machine, HierarchicalMachine) and any(each.states for each in machine.states.values()):
        raise refused(path, "FSM511", f"'{name}' has nested states", FLAT)
    if isinstance(machine, AsyncMachine):
        hint = "write the model with 'fsm init NAME', and an adapter that runs its triggers"
        raise refused(path, "FSM518", f"'{name}' is an AsyncMachine, whose triggers are coroutines", hint)
    if not isinstance(machine.initial, str):
        hint = "give the state in which every run begins: Machine(..., initial=...)"
        raise refused(path, "FSM509", f"'{name}' has no initial state", hint)
    arrows = tuple(_arrows(machine))
    if not arrows:
        raise refused(path, "FSM509", f"'{name}' has no transitions", "give it some: transitions=[...]")
    return Draft(
        name=name,
        form="a Machine of transitions",
        kind="call",
        initial=machine.initial,
        states=tuple(_state(machine, each) for each in machine.states.values()),
        transitions=arrows,
    )


def _state(machine: Machine, state: Any) -> DraftState:  # noqa: ANN401  (the library has no types)
    own = state.ignore_invalid_triggers
    ignores = bool(machine.ignore_invalid_triggers if own is None else own)
    callbacks = {"entry": state.on_enter, "exit": state.on_exit}
    notes = (f"On {when}: {', '.join(map(_called_name, called))}." for when, called in callbacks.items() if called)
    return DraftState(name=state.name, ignores=ignores, final=bool(state.final), notes=tuple(notes))


def _arrows(machine: Machine) -> Iterator[DraftTransition]:
    automatic = {f"{AUTOMATIC}{state}" for state in machine.states} if machine.auto_transitions else set()
    for name, event in machine.events.items():
        for source, ways in event.transitions.items() if name not in automatic else ():
            for way in ways:
                when = tuple(f"{'' if each.target else NOT}{_called_name(each.func)}" for each in way.conditions)
                to = "" if way.dest in {None, source} else str(way.dest)
                yield DraftTransition(event=name, source=source, to=to, when=when)


def _called_name(callback: object) -> str:
    return callback if isinstance(callback, str) else str(getattr(callback, "__name__", "a function"))
