"""Read the definitions of state machines in a Python file from its syntax, without running the file.

Only what is known to be harmless is evaluated: plain values, enumerations, functions as names, and the parts of the
libraries that describe states and transitions.  A definition that depends on anything else is an error.
"""

from __future__ import annotations

import ast
import enum
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NoReturn, TypeAlias

from fsm.errors import InputError, reason, refused

LIBRARIES: Final = {"transitions": "transitions", "statemachine": "python-statemachine"}
PARTS: Final = {  # of the libraries and of `enum`; no other names are imported
    *("Machine", "HierarchicalMachine", "LockedMachine", "LockedHierarchicalMachine", "AsyncMachine"),
    *("HierarchicalAsyncMachine", "State", "NestedState", "AsyncState", "NestedAsyncState", "StateMachine"),
    *("StateChart", "HistoryState", "HistoryType", "States", "Event", "Enum", "IntEnum", "StrEnum", "auto", "unique"),
    *("core", "event", "extensions", "nesting", "asyncio", "states"),
}
METHODS: Final = {
    *("add_transition", "add_transitions", "add_ordered_transitions", "remove_transition", "add_state", "add_states"),
    *("add_model", "add_event", "to", "from_", "itself", "any", "from_enum", "Compound", "Parallel", "SHALLOW", "DEEP"),
    *("self_literal", "cond", "unless", "before", "after", "on", "validators", "enter", "exit", "invoke", "__init__"),
}
PLAIN: Final = {"list": list, "tuple": tuple, "dict": dict, "set": set, "object": object}
MOST: Final = 100_000  # expressions in a file, and items in a list

Names: TypeAlias = MutableMapping[str, Any]


class UnknownError(Exception):
    """The meaning of *node* cannot be determined. This error is also the value of the names that it defines."""

    def __init__(self, node: ast.AST, why: str = "") -> None:
        text = ast.unparse(node)
        super().__init__(why or f"'{text if len(text) <= 40 else text[:37] + '...'}' is not known")  # noqa: PLR2004
        self.line = getattr(node, "lineno", 0)


@dataclass(slots=True, kw_only=True)
class SyntaxReader:
    path: str
    module: str
    names: Names = field(default_factory=dict)  # of the file
    count: int = 0
    changed: list[object] = field(default_factory=list)  # values that statements that cannot be read may change

    def refuse(self, error: UnknownError) -> NoReturn:
        hint = "write it out; or add --trust, which imports the file, so that Python determines the machine"
        what = f"what the machine is cannot be determined without running the file: {error}"
        raise refused(self.path, "FSM530", what, hint, line=error.line) from error

    def run(self, body: Sequence[ast.stmt], scope: Names, *, strict: bool = False) -> None:
        """Read statements. One that cannot be read is an error if *strict*, or if it has to do with machines."""
        for node in body:
            try:
                self.statement(node, scope)
            except UnknownError as error:
                if strict or self.concerns(node, scope):
                    self.refuse(error)
                self.lose(node, scope, error)
            except (InputError, RecursionError):
                raise
            except Exception as error:
                what = f"the library does not accept this: {type(error).__name__}: {error}"
                hint = "correct the definition; Python reports the same"
                raise refused(self.path, "FSM518", what, hint, line=node.lineno) from error

    def lose(self, node: ast.AST, scope: Names, error: UnknownError) -> None:
        scope[getattr(node, "name", "")] = error
        for each in ast.walk(node):
            match each:
                case ast.Name(id=name, ctx=ast.Store()):
                    scope[name] = error
                case ast.Name() | ast.Attribute():
                    with suppress(UnknownError):  # a value that has changed already is unknown
                        value = self.value(each, scope)
                        self.changed += [value] if isinstance(value, list | dict | set) else []

    def is_changed(self, value: object) -> bool:
        within = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        return any(each is value for each in self.changed) or (bool(self.changed) and any(map(self.is_changed, within)))

    def concerns(self, node: ast.AST, scope: Names) -> bool:
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "__name__ == '__main__'"}:
            return False
        if isinstance(node, ast.ClassDef):
            return any(word in ast.unparse(node) for word in ("Machine", "StateChart"))
        used = [each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)]
        read = (each for each in used if isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Store))
        within = {id(each.value) for each in read}
        return any(id(each) not in within and self.describes(each, scope) for each in used)

    def describes(self, node: ast.expr, scope: Names) -> bool:
        """Whether *node* is something of a library that may still change, or an object that has such a thing."""
        try:
            value = self.value(node, scope)
        except UnknownError:
            return False
        within = getattr(value, "__dict__", {}).values() if getattr(value, "__module__", "") == self.module else ()
        return any(of_library(each) and not hasattr(each, "states_map") for each in (value, *within))

    def statement(self, node: ast.stmt, scope: Names) -> None:  # noqa: C901, PLR0912
        match node:
            case ast.Import(names=names):
                for each in names:
                    bound = each.asname or each.name.partition(".")[0]
                    scope[bound] = self.imported(node, each.name if each.asname else bound, "")
            case ast.ImportFrom(module=module, names=names):
                for each in names:
                    if each.name == "*":
                        self.changed += [value for value in scope.values() if isinstance(value, list | dict)]
                    scope[each.asname or each.name] = self.imported(node, module or ".", each.name)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.assign(target, value, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, value, scope)
            case ast.Expr(value=value):
                self.value(value, scope)
            case ast.ClassDef(name=name):
                scope[name] = self.type_of(node, scope)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                made: Any = self.function(name, node, scope)
                for decorator in reversed(node.decorator_list):
                    made = self.value(decorator, scope)(made) if self.concerns(decorator, scope) else made
                scope[name] = made
            case ast.For(target=target, iter=over, body=body, orelse=[]):
                for item in self.items(over, scope):
                    self.bind(target, item, scope)
                    self.run(body, scope)
            case ast.AnnAssign() | ast.Pass():
                pass
            case _:
                raise UnknownError(node, f"'{type(node).__name__.lower()}' depends on what happens when it runs")

    def imported(self, node: ast.stmt, module: str, name: str) -> Any:  # noqa: ANN401
        root = module.partition(".")[0]
        if root not in {*LIBRARIES, "enum"} or (name and name not in PARTS):
            return UnknownError(node, f"'{name or module}' is imported")
        try:
            found = import_module(module)
            return getattr(found, name) if name else found
        except (ImportError, AttributeError) as error:
            hint = f"pip install --upgrade {LIBRARIES.get(root, root)}"
            what = f"the file imports '{module}': {reason(error)}"
            raise refused(self.path, "FSM517", what, hint, line=node.lineno) from error

    def assign(self, target: ast.expr, node: ast.expr, scope: Names) -> None:
        try:
            self.bind(target, self.value(node, scope), scope)
        except UnknownError as error:
            if isinstance(target, ast.Attribute):
                self.bind(target, error, scope)
            raise

    def bind(self, target: ast.expr, value: Any, scope: Names) -> None:  # noqa: ANN401
        match target:
            case ast.Name(id=name):
                scope[name] = value
            case ast.Attribute(value=base, attr=name) if self.owns(owner := self.value(base, scope)):
                setattr(owner, name, value)
            case _:
                raise UnknownError(target)

    def owns(self, value: object) -> bool:
        return getattr(value, "__module__", "") == self.module

    def items(self, node: ast.expr, scope: Names) -> list[Any]:
        if isinstance(found := self.value(node, scope), list | tuple | set | dict | enum.EnumMeta):
            return list(found)
        raise UnknownError(node)

    def value(self, node: ast.expr, scope: Names) -> Any:  # noqa: ANN401, C901, PLR0912
        found: Any
        self.count += 1
        if self.count > MOST:
            self.refuse(UnknownError(node, "it is too large"))
        match node:
            case ast.Constant(value=found):
                return found
            case ast.Name(id=name):
                found = scope.get(name, PLAIN.get(name, UnknownError(node)))
                return self.known(node, found)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                many = [self.value(each, scope) for each in parts]
                return many if isinstance(node, ast.List) else tuple(many) if isinstance(node, ast.Tuple) else set(many)
            case ast.Dict(keys=keys, values=values) if None not in keys:
                pairs = ((key, each) for key, each in zip(keys, values, strict=True) if key)
                return {self.value(key, scope): self.value(each, scope) for key, each in pairs}
            case ast.Lambda():
                return self.function("<lambda>", node, scope)
            case ast.BinOp(left=left, op=ast.BitOr() | ast.Add() as op, right=right):
                one, other = self.value(left, scope), self.value(right, scope)
                if all(isinstance(each, list | tuple | str) or of_library(each) for each in (one, other)):
                    self.count += len(one)
                    return one | other if isinstance(op, ast.BitOr) else one + other
            case ast.ListComp(elt=item, generators=[ast.comprehension(target=target, iter=over, ifs=[])]):
                inner, found = ChainMap({}, scope), []
                for each in self.items(over, scope):
                    self.bind(target, each, inner)
                    found.append(self.value(item, inner))
                return found
            case ast.Subscript(value=base) if isinstance(found := self.value(base, scope), type):
                return found  # such as ``StateMachine[Model]``
            case ast.Attribute(value=base, attr=name):
                owner = self.value(base, scope)
                if hasattr(owner, name) and self.allows(owner, name):
                    return self.known(node, getattr(owner, name))
            case ast.Call():
                return self.call(node, scope)
        raise UnknownError(node)

    def known(self, node: ast.AST, value: object) -> object:
        if isinstance(value, UnknownError) or self.is_changed(value):
            raise UnknownError(node, str(value) if isinstance(value, UnknownError) else "")
        return value

    def allows(self, owner: Any, name: str) -> bool:  # noqa: ANN401
        if isinstance(owner, ModuleType):
            return name in PARTS
        if isinstance(owner, list | dict):
            return name in {"append", "extend", "update"}
        if isinstance(owner, enum.Enum | enum.EnumMeta):
            return name in {"name", "value", *getattr(owner, "__members__", ())}
        kind = owner if isinstance(owner, type) else type(owner)
        own = {*getattr(owner, "__dict__", ()), *getattr(owner, "_states", ())}
        own |= {each for base in kind.__mro__ if self.owns(base) for each in vars(base)}
        return name in METHODS or (name in own and not name.startswith("_"))

    def call(self, node: ast.Call, scope: Names) -> Any:  # noqa: ANN401
        above = "__class__" in scope and ast.unparse(node.func) == "super().__init__"
        called: Any = super(scope["__class__"], scope["self"]).__init__ if above else self.value(node.func, scope)
        positional = [self.value(each, scope) for each in node.args]
        named = {str(each.arg): self.value(each.value, scope) for each in node.keywords}
        known = self.owns(called) or of_library(called) or called in {*PLAIN.values(), enum.auto}
        if "None" in named or not (known or isinstance(getattr(called, "__self__", None), list | dict)):
            raise UnknownError(node)
        if (body := getattr(called, "body", None)) and called.__name__ != "__init__":
            error = UnknownError(node, f"'{called.__name__}' is called")
            if self.concerns(body, self.names) or any(word in ast.unparse(body) for word in ("add_", "Machine(")):
                self.refuse(error)
            self.lose(body, self.names, error)
            raise error
        # An object of a class of python-statemachine would run; only the class itself is needed.
        return None if hasattr(called, "states_map") else called(*positional, **named)

    def function(self, name: str, node: ast.AST, scope: Names) -> Callable[..., object]:
        """Return a function that does nothing. But if the file calls ``__init__``, its statements are read."""

        def described(*positional: object, **named: object) -> None:
            if name != "__init__" or not isinstance(node, ast.FunctionDef):
                self.refuse(UnknownError(node, f"'{name}' is called"))
            given = node.args
            own: dict[str, Any] = {}
            inner = ChainMap(own, {"__class__": scope.get("__class__")}, self.names)
            defaults: list[tuple[ast.arg, ast.expr | None]] = []
            defaults += zip(reversed(given.args), reversed(given.defaults), strict=False)
            defaults += zip(given.kwonlyargs, given.kw_defaults, strict=True)
            own |= {each.arg: self.value(default, self.names) for each, default in defaults if default}
            own |= dict(zip((each.arg for each in given.args), positional, strict=False)) | named
            if missing := [each.arg for each in (*given.args, *given.kwonlyargs) if each.arg not in own]:
                raise TypeError(f"missing the arguments {', '.join(missing)}")
            self.run(node.body, inner)

        described.__name__ = described.__qualname__ = name
        described.__module__ = self.module
        described.__dict__["body"] = node
        return described

    def type_of(self, node: ast.ClassDef, scope: Names) -> Any:  # noqa: ANN401
        for each in node.decorator_list:
            if ast.unparse(each) not in {"unique", "enum.unique"}:
                raise UnknownError(each)
        bases = tuple(self.value(each, scope) for each in node.bases)
        chart = any(base.__module__.startswith("statemachine") or hasattr(base, "states_map") for base in bases)
        body: dict[str, Any] = {}
        self.run(node.body, ChainMap(body, scope), strict=chart)
        own = {name: value for name, value in body.items() if not isinstance(value, UnknownError)}
        if bases and isinstance(bases[0], enum.EnumMeta):
            members = [(name, value) for name, value in own.items() if not callable(value)]
            return bases[0](node.name, members, module=self.module)
        for name in own:
            if name != "__init__" and not chart and any(of_library(base) and hasattr(base, name) for base in bases):
                raise UnknownError(node, f"'{name}' of the library is replaced")
        own["__module__"] = self.module
        meta: Any = type(bases[0]) if bases else type
        named = {str(each.arg): self.value(each.value, scope) for each in node.keywords}
        body["__class__"] = meta(node.name, bases, own, **named)
        return body["__class__"]


def of_library(value: object) -> bool:
    """Whether *value* describes machines: it belongs to one of the libraries, or is derived from what does."""
    owner = getattr(value, "__self__", None)
    kind = value if isinstance(value, type) else type(value)
    modules = [each.__module__.partition(".")[0] for each in (*kind.__mro__, type(kind))]
    return not LIBRARIES.keys().isdisjoint(modules) or (owner is not None and of_library(owner))


def names_in(text: str, *, path: str, module: str) -> Mapping[str, Any]:
    """Return what the Python file *text* defines, as far as it can be determined without running it."""
    reader = SyntaxReader(path=path, module=module)
    try:
        reader.run(ast.parse(text).body, reader.names)
    except (SyntaxError, ValueError, MemoryError) as error:
        what = f"the file is not Python: {getattr(error, 'msg', None) or reason(error)}"
        raise refused(path, "FSM517", what, "correct the file", line=getattr(error, "lineno", None) or 0) from error
    except RecursionError:
        reader.refuse(UnknownError(ast.Pass(), "it is nested too deep"))
    return {name: value for name, value in reader.names.items() if not isinstance(value, UnknownError)}
