"""``docs/reference/library.md`` documents the public interface, with all names of ``fsm`` and examples."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import fsm
from fsm.runtimes import ENTRY_POINTS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "reference" / "library.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FOR_PACKAGES = {
    module: re.findall(r"`(\w+)`", names)
    for module, names in re.findall(r"^- `(fsm\.[\w.]+)`: (.*)$", PAGE, re.MULTILINE)
}

FENCED = re.compile(r"^```(\w+)(?: +(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_table_has_the_public_names() -> None:
    rows = [line.split("|")[1:3] for line in PAGE.splitlines() if line.startswith("| `")]
    named = [name for first, _ in rows[: len(rows) - 4] for name in re.findall(r"`([^`]+)`", first)]

    assert sorted(fsm.__all__) == sorted(named)


def test_the_public_names_are_there() -> None:
    assert [name for name in fsm.__all__ if not hasattr(fsm, name)] == []
    assert sorted(fsm.__all__) == dir(fsm)
    with pytest.raises(AttributeError, match="module 'fsm' has no attribute 'laod'"):
        fsm.laod  # type: ignore[attr-defined]  # noqa: B018  (that it is not there)


def test_the_names_for_packages_are_there() -> None:
    assert "fsm.entry_points" in FOR_PACKAGES
    for module, names in FOR_PACKAGES.items():
        assert all(getattr(importlib.import_module(module), name).__doc__ for name in names), module


def test_no_public_name_is_a_module() -> None:
    """No submodule has the name of a public object, because importing it would replace that object."""
    package = Path(fsm.__file__).parent
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }

    assert modules & set(fsm.__all__) == set()


def test_the_public_names_have_docstrings() -> None:
    undocumented = [
        name
        for name in fsm.__all__
        if typing.get_origin(getattr(fsm, name)) is None and name != "Verdict" and not getattr(fsm, name).__doc__
    ]

    assert not undocumented


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = ""
    for kind, name, text in FENCED.findall(PAGE):
        if kind == "pycon":
            examples += f"{text}\n"
        elif name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")

    test = doctest.DocTestParser().get_doctest(examples, {}, "library.md", "docs/reference/library.md", 0)
    report: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)

    assert tried > 20
    assert not failed, "".join(report)


PYTHON = [
    pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, (kind, _, text) in enumerate(FENCED.findall(page.read_text(encoding="utf-8")))
    if kind in {"python", "pycon"}
]


def _code(text: str) -> str:
    return "".join(each.source for each in doctest.DocTestParser().get_examples(text)) if ">>> " in text else text


@pytest.mark.parametrize("text", PYTHON)
def test_examples_use_public_names_only(text: str) -> None:
    used: set[str] = set()
    for node in ast.walk(ast.parse(_code(text))):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "fsm":
                promised = FOR_PACKAGES.get(module, ())
                prefix = "" if module == "fsm" else f"{module}."
                used |= {f"{prefix}{each.name}" for each in names if each.name not in promised}
            case ast.Import(names=names):
                used |= {each.name for each in names if each.name.startswith("fsm.")}
            case ast.Attribute(value=ast.Name(id="fsm"), attr=name):
                used.add(name)

    assert used <= {*fsm.__all__, "fsm.fleet.spark"}  # fsm.fleet.spark needs an extra, so fsm does not export it


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_for_users_name_public_names_only(page: Path) -> None:
    if page.name in {"ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "names.md"}:
        return
    named = set(re.findall(r"`fsm\.([\w.]+)", page.read_text(encoding="utf-8")))

    packages = {each.removeprefix("fsm.") for each in (*FOR_PACKAGES, *ENTRY_POINTS, "fsm.runtimes")}
    assert {name for name in named - packages if name.split(".")[0] not in fsm.__all__} == set()


def test_importing_it_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import fsm; print(sorted(set(sys.modules) - before))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    loaded = ast.literal_eval(done.stdout)
    assert [name for name in loaded if name.startswith("fsm.") or name in {"pydantic", "hypothesis", "click"}] == []
