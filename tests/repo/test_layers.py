"""Modules of ``fsm`` import only modules from lower layers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fsm

PACKAGE = Path(fsm.__file__).parent

# The lowest layer is first. A module may import from the rows before its own row, but not from its own row or from
# later rows: engines do not depend on each other, and nothing depends on the command.
LAYERS = (
    ("errors", "trace", "sut", "scratch", "verdict"),
    ("compiled",),
    ("entry_points",),
    ("interruption",),
    ("machine",),
    ("language",),
    ("command_options",),
    ("recordings", "linearizability", "interop"),
    ("diagrams",),
    ("checker",),
    ("monitor",),
    ("conformance",),
    ("mutation",),
    ("runtimes",),
    ("report",),
    ("fleet",),
    ("pytest_plugin", "hypothesis_tests"),
    ("cli",),
    ("__init__", "__main__"),
)
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
LONGEST = 400

ROOT = PACKAGE.parent
SECOND_OPINIONS = sorted(
    [
        *(PACKAGE / "interop" / "promela").glob("*.py"),
        *(ROOT / "tests" / "support").glob("naive*.py"),
        PACKAGE / "mutation" / "strict_reading.py",
    ]
)
"""Modules that decide the same questions as the engines, and must share no code with them."""

DATA = {
    "interop.promela",
    "machine",
    "machine.conditions",
    "machine.claims",
    "machine.evidence",
    "machine.product.system",
    "machine.terms",
    "trace",
    "sut",
    "linearizability.history",
    "language.names",
}
"""Modules that second opinions may import, because they contain only data and its notation."""


def _imports(path: Path) -> set[str]:
    """Return the dotted names, without ``fsm.``, of all modules that *path* imports, even if lazily."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module), level=0) if module.split(".")[0] == "fsm":
                tail = module.removeprefix("fsm").lstrip(".")
                found |= {f"{tail}.{alias.name}".lstrip(".") for alias in node.names}
            case ast.Import(names=names):
                found |= {name.name.removeprefix("fsm.") for name in names if name.name.startswith("fsm.")}
            case ast.ImportFrom(level=level) if level > 0:
                pytest.fail(f"{path}: write imports in full, not relative")
    return found


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_shipped" not in path.parts)


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_point_down(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert own in RANK, f"{path.name} has no layer; add it to LAYERS in {__file__}"

    roots = {name.split(".")[0] for name in _imports(path)}
    upward = sorted(name for name in roots if name != own and RANK[name] >= RANK[own])

    assert not upward, f"fsm.{own} must not import {upward}"


def test_packages_have_no_cycles() -> None:
    names = {_name(path) for path in MODULES}
    edges = {
        _name(path): {each for name in _imports(path) for each in (name, name.rpartition(".")[0]) if each in names}
        - {_name(path), _name(path).rpartition(".")[0]}
        for path in MODULES
    }
    left = dict(edges)
    while free := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in free:
            del left[name]

    assert not left, f"these import one another: {sorted(left)}"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_modules_are_short(path: Path) -> None:
    """No module exceeds the limit. A longer module probably has two subjects, and should be split."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize("path", SECOND_OPINIONS, ids=lambda path: path.stem)
def test_second_opinions_are_independent(path: Path) -> None:
    modules = {_name(each) for each in MODULES}
    taken = {name if name in modules else name.rpartition(".")[0] for name in _imports(path)}

    assert {name for name in taken if name not in DATA and not name.startswith("interop.promela.")} == set()
