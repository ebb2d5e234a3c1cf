"""Find the machines that Python files define with the libraries `transitions` and `python-statemachine`.

By default, the syntax of a file is read (:mod:`~fsm.interop.python_syntax`).  If the user trusts the file, a process of
its own imports it, creates the object if the class of a machine needs one, and then ends.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias

import msgspec
from transitions import Machine as LibraryMachine
from transitions.extensions import HierarchicalMachine
from transitions.extensions.asyncio import AsyncMachine

from fsm.errors import InputError, Problem, contents, decoded_text, nearest, refused
from fsm.interop.draft import Draft
from fsm.interop.flattening import drive_statemachine, drive_transitions, flattened
from fsm.interop.python_syntax import names_in
from fsm.interop.yaml_nodes import LARGEST
from fsm.scratch import ScratchFolder

Library: TypeAlias = Literal["transitions", "python-statemachine"]
IMPORT: Final = re.compile(r"^\s*(from|import)\s+statemachine\b", re.MULTILINE)
SECONDS: Final = 20.0  # after which a trusted file is given up
FORMS: Final[Mapping[Library, str]] = {
    "transitions": "a Machine of transitions",
    "python-statemachine": "a class of python-statemachine",
}


class PythonMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine in a Python file, and the Python code that a test needs to drive it."""

    draft: Draft
    path: str
    module: str
    folder: str
    imports: str
    reset: list[str]
    call: str  # with ``{}`` for the name of the event
    error: str  # the exception that the call raises if the machine refuses the event
    shows: str


def python_machine(path: str, made: str, name: str, library: Library | None, *, trust: bool) -> PythonMachine:
    """Return the machine of *library* in the file *path*: the only one, or that to which the expression *made* refers.

    By default, the library is the one that the file imports.  The draft is called *name*, or else like the machine.
    Raise :class:`InputError` if there is none, or if only running the file would tell.
    """
    _, module = _module(Path(path))
    data = contents(path, most=LARGEST, code="FSM501", hint="give the path of a file")
    if len(data) > LARGEST:
        hint = "move the machine to a file of its own"
        raise refused(path, "FSM502", f"the file is larger than {LARGEST // 1024 // 1024} MiB", hint)
    text = decoded_text(data, path, code="FSM503")
    library = library or ("python-statemachine" if IMPORT.search(text) else "transitions")
    if trust:
        return _trusted(path, made, name, library)
    return _machine(names_in(text, path=path, module=module), text, path, made, name, library)


def _trusted(path: str, made: str, name: str, library: Library) -> PythonMachine:
    with ScratchFolder() as folder:
        code = f"import sys; sys.path[:] = {sys.path}; import fsm.interop.python_files as it; it.answer(*sys.argv[1:])"
        answers = Path(folder) / "answer"
        child = subprocess.Popen(  # noqa: S603  (the user trusts the file)
            [sys.executable, "-c", code, str(answers), path, made, name, library],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            child.wait(SECONDS)
        except subprocess.TimeoutExpired:
            hint = "keep what takes long out of the import, such as below: if __name__ == '__main__'"
            raise refused(path, "FSM532", f"the import of the file takes longer than {SECONDS:g} s", hint) from None
        finally:
            with suppress(OSError):  # ends what the file has started, too
                os.killpg(child.pid, signal.SIGKILL) if hasattr(os, "killpg") else child.kill()
            child.wait()
        if not answers.exists():
            what = f"the process that imports the file ended early, with exit code {child.returncode}"
            raise refused(path, "FSM532", what, "keep what ends the process out of the import")
        found = msgspec.json.decode(answers.read_bytes(), type=PythonMachine | list[Problem])
    if isinstance(found, list):
        raise InputError(found)
    return found


def answer(answers: str, path: str, made: str, name: str, library: Library) -> None:
    """Write the machine in a trusted file to the file *answers*, or the problems with it."""
    found: PythonMachine | tuple[Problem, ...]
    process = os.getpid()
    try:
        folder, module = _module(Path(path))
        namespace = vars(_run(path, folder, module))
        text = Path(path).read_text(encoding="utf-8")
        found = _machine(namespace, text, path, made, name, library)
    except InputError as error:
        found = error.problems
    if os.getpid() == process:  # the file may have created copies of this process
        Path(f"{answers}-").write_bytes(msgspec.json.encode(found))
        Path(f"{answers}-").replace(answers)
    os._exit(0)


def _module(path: Path) -> tuple[Path, str]:
    parts, folder = [path.stem], path.absolute().parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if path.suffix != ".py" or not all(each.isidentifier() for each in parts):
        what = "this is not the path of a Python file that can be imported"
        raise refused(str(path), "FSM517", what, "give a file such as door.py")
    return folder, ".".join(parts)


def _run(path: str, folder: Path, name: str) -> ModuleType:
    sys.path.insert(0, str(folder))
    try:
        module = import_module(name)
    except BaseException as error:
        what = f"the file fails when it is run: {type(error).__name__}: {error}"
        raise refused(path, "FSM517", what, f"'python {path}' must end without an error") from error
    if not module.__file__ or not Path(path).samefile(module.__file__):
        what = f"the file has the same name as another module, {module.__file__ or name}"
        raise refused(path, "FSM517", what, "rename the file")
    return module


def _machine(names: Mapping[str, Any], text: str, path: str, made: str, name: str, library: Library) -> PythonMachine:
    folder, module = _module(Path(path))
    charts = library == "python-statemachine"
    known = [each for each in names if _is_chart(names[each], module)] if charts else _makers(names, module, text)
    if not made and len(known) != 1:
        several = f"the file has {len(known)} machines: {', '.join(known)}"
        what = several if known else f"the file has no {FORMS[library].split(' ', 1)[1]}"
        hint = f"write {path}:NAME, a class or an object, or {path}:'Door(\"oak\")'"
        hint = hint if known else "name a file that defines one; what it imports is seen only with --trust"
        raise refused(path, "FSM518", what, hint)
    made = made or known[0]
    name = name or made.partition("(")[0]
    parts = {"path": path, "module": module, "folder": str(folder)}
    if charts:
        if not _is_chart(names.get(made)):
            hint = nearest(made, known, of="classes")
            raise refused(path, "FSM518", f"the file has no class '{made}' with states", hint)
        return PythonMachine(
            draft=flattened(drive_statemachine, names[made], name, FORMS[library], path),
            imports="from statemachine import StateChart\nfrom statemachine.exceptions import TransitionNotAllowed",
            reset=[f"self.tested = {module}.{made}()"],
            call="self.tested.send({})",
            error="TransitionNotAllowed",
            shows='".".join(leaves(self.tested))',
            **parts,
        )
    value, fresh = _value(made, names, path)
    inside, machine = ("", value) if isinstance(value, LibraryMachine) else _inner_machine(value)
    if machine is None or not machine.models:
        hint = "name a machine that has a model, or an object with a machine: self.machine = Machine(self, ...)"
        raise refused(path, "FSM518", f"'{made}' is not a Machine of transitions with a model, and has none", hint)
    if not machine.initial:
        hint = "give the state in which every run begins: Machine(..., initial=...)"
        raise refused(path, "FSM509", f"'{name}' has no initial state", hint)
    made = f"{module}.{made}" + "()" * (fresh and made.isidentifier())
    moved = "" if any(each is value for each in machine.models) else f"{inside}.models[0]"
    first = [] if fresh else [f"machine = {made}{inside}", "machine.set_state(machine.initial)"]
    named = ".name" * isinstance(getattr(machine.models[0], machine.model_attribute), Enum)
    shown = f"self.tested.{machine.model_attribute}"
    shown = f'".".join(leaves({shown}))' if isinstance(machine, HierarchicalMachine) else shown + named
    trigger = "self.tested.trigger({})"
    return PythonMachine(
        draft=flattened(drive_transitions, machine, name, _form(machine), path),
        imports="from transitions import MachineError",
        reset=[*first, f"self.tested = {made}{moved}"],
        call=f"asyncio.run({trigger})" if isinstance(machine, AsyncMachine) else trigger,
        error="MachineError",
        shows=shown,
        **parts,
    )


def _form(machine: LibraryMachine) -> str:
    """Return the class of the library to which *machine* belongs, with an article."""
    own = next(base.__name__ for base in type(machine).__mro__ if base.__module__.startswith("transitions."))
    return f"{'an' if own.startswith('A') else 'a'} {own} of transitions"


def _is_chart(value: object, module: str = "") -> bool:
    bases = {base.__module__ for base in value.__mro__[1:]} if isinstance(value, type) else ()
    own = not module or getattr(value, "__module__", "") == module
    return own and "statemachine.statemachine" in bases and bool(getattr(value, "states", ()))


def _makers(names: Mapping[str, Any], module: str, text: str) -> list[str]:
    """Return the names of the classes that make machines, and of objects that have other machines."""
    classes = {
        node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and "Machine(" in ast.unparse(node)
    }
    found = [
        name
        for name, value in names.items()
        if isinstance(value, type) and value.__module__ == module and not name.startswith("_")
        if name in classes or issubclass(value, LibraryMachine)
    ]
    kinds = tuple(names[name] for name in found)
    known: list[LibraryMachine] = []
    for name, value in names.items():
        machine = None if isinstance(value, type | ModuleType) else _inner_machine(value)[1]
        machine = value if isinstance(value, LibraryMachine) else machine
        if machine is not None and not isinstance(value, kinds) and all(each is not machine for each in known):
            known.append(machine)
            found.append(name)
    return found


def _inner_machine(value: object) -> tuple[str, LibraryMachine | None]:
    for name, each in getattr(value, "__dict__", {}).items():
        if isinstance(each, LibraryMachine):
            return f".{name}", each
    bound = getattr(getattr(getattr(value, "__dict__", {}).get("trigger"), "func", None), "__self__", None)
    return (".trigger.func.__self__", bound) if isinstance(bound, LibraryMachine) else ("", None)


def _value(made: str, names: Mapping[str, Any], path: str) -> tuple[object, bool]:
    try:
        tree = ast.parse(made, mode="eval").body
        call = tree if isinstance(tree, ast.Call) else None
        named = ast.unparse(call.func if call else tree)
        positional = [ast.literal_eval(each) for each in call.args] if call else []
        keywords = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords} if call else {}
    except (SyntaxError, ValueError) as error:
        hint = "give a name, or a call with plain values, such as 'Door(\"oak\")'"
        raise refused(path, "FSM518", f"'{made}' is not the name of a machine", hint) from error
    if named not in names:
        known = [name for name in names if not name.startswith("_")]
        raise refused(path, "FSM518", f"the file has no '{named}'", nearest(named, known, of="names"))
    value = names[named]
    if not (call or isinstance(value, type) or inspect.isfunction(value)):
        return value, False
    try:
        return value(*positional, **keywords), True
    except InputError:
        raise
    except Exception as error:
        what = f"'{made}' cannot be created: {type(error).__name__}: {error}"
        hint = f"pass the arguments that it needs: {path}:'{made.partition('(')[0]}(\"oak\", 3)'"
        raise refused(path, "FSM518", what, hint) from error
