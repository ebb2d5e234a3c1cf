"""No two modules have the same name, and no two public classes do."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fsm

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = Path(fsm.__file__).parent
PATHS = sorted(path for path in PACKAGE.rglob("*.py") if "_shipped" not in path.parts)

MODULES = {
    "ascii": "drawings in characters, read or written",
    "dot": "the language of Graphviz, read or written",
    "histories": "histories of concurrent operations: as read, and as judged",
    "names": "names that are written in one place: of what models may contain, and of CRI's states and NRI's events",
    "recordings": "recordings: their forms in general, and those of container runtimes",
    "read": "text of one format to data",
    "sut": "what a system under test shows; in a reference's room, that reference as one",
}
"""Names that several modules may share, with their common meaning."""

CLASSES = {
    "Container": "a container: as NRI is told of it, and the reference of one",
    "ContainerState": "the state of a container: as NRI has it, and as the CRI has it",
    "Domain": "a domain: a field of application that a package adds, and containerd's own word for what NRI serves",
    "Json": "any JSON value",
    "Moves": "what an event may do: in a cell, and of all operations at a time",
    "Part": "a part: of a system, and of the cells of an event",
    "Pod": "a pod: as NRI is told of it, and the reference of one",
    "Step": "a step: of a joint event, and of a linearization",
}
"""Names that several public classes may share, with their common meaning."""


def _modules() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in PATHS:
        dotted = path.relative_to(PACKAGE).with_suffix("").parts
        parts = dotted[:-1] if dotted[-1] == "__init__" else dotted
        if parts:
            found.setdefault(parts[-1], []).append(".".join(parts))
    return found


def _classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in PATHS:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case (
                    ast.ClassDef(name=name)
                    | ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"))
                ):
                    if not name.startswith("_"):
                        found.setdefault(name, []).append(str(path.relative_to(PACKAGE)))
                case _:
                    pass
    return found


@pytest.mark.parametrize(("named", "allowed"), [(_modules, MODULES), (_classes, CLASSES)], ids=["modules", "classes"])
def test_a_name_has_one_meaning(named: Callable[[], dict[str, list[str]]], allowed: dict[str, str]) -> None:
    repeated = {name: where for name, where in named().items() if len(where) > 1}

    assert {} == {name: where for name, where in repeated.items() if name not in allowed}
    assert set() == allowed.keys() - repeated.keys(), "these occur once, and need no explanation"
