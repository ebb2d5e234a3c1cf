"""Compiled functions use only modules that define such functions, because the cache depends on no other modules."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the extra 'fast' is not installed")

from fsm import scratch
from fsm.scratch import defines_compiled

ROOT = Path(scratch.__file__).parent
COMPILED = [path for path in sorted(ROOT.rglob("*.py")) if defines_compiled(path.read_bytes())]
DECORATORS = {"compiled", "compiled_nogil", "inner", "lean", "lean_inner"}


def foreign(tree: ast.Module) -> Iterator[str]:
    """Yield names in compiled functions that come from modules without compiled functions.

    Names in signatures are ignored.
    """
    of = {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fsm.")
        for alias in node.names
    }
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(each) in DECORATORS for each in node.decorator_list):
            names = {each.id for part in node.body for each in ast.walk(part) if isinstance(each, ast.Name)}
            for name in names & of.keys():
                path = ROOT.parent.joinpath(*of[name].split(".")).with_suffix(".py")
                if not path.is_file() or path not in COMPILED:
                    yield name


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.stem)
def test_they_use_what_their_text_has(path: Path) -> None:
    assert [] == [*foreign(ast.parse(path.read_text()))]


def test_what_is_of_another_module_is_found() -> None:
    text = (
        "from fsm.machine.traversal import OFTEN\nfrom fsm.compiled import lean\n@lean\ndef some():\n    return OFTEN\n"
    )
    assert ["OFTEN"] == [*foreign(ast.parse(text))]
