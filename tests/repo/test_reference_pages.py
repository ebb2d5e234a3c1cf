"""The reference pages are generated from the package, and the address of the documentation is the same everywhere."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

import pytest
from reference_pages import FIGURES, PAGES, README, REFERENCE, figures, page
from test_ci import locked

from fsm.cli import commands
from fsm.errors import DOCUMENTATION, code_url
from fsm.language.codes import RULES

ROOT = REFERENCE.parent.parent


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    """``python tests/support/reference_pages.py --write`` updates the page."""
    if version("click") not in map(str, locked()["click"]):
        pytest.skip("this version of click words the help in its own way")

    assert page(name) == (REFERENCE / name).read_text(encoding="utf-8")


def test_the_figures_of_the_readme_are_counted() -> None:
    """``python tests/support/reference_pages.py --write`` updates the figures."""
    assert [figures()] == FIGURES.findall(README.read_text(encoding="utf-8"))


def test_every_code_and_command_has_an_anchor() -> None:
    headings = {line for name in PAGES for line in page(name).splitlines() if line.startswith("#")}

    assert {f"### {code}" for code in RULES} | {f"## fsm {name}" for name in commands()} <= headings
    assert f"{DOCUMENTATION}reference/codes.html#fsm104" == code_url("FSM104")


def test_the_address_of_the_guide_is_that_of_the_project() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]

    assert DOCUMENTATION == urls["Documentation"]


def test_every_extra_is_told() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")

    assert sorted(set(extras) - {"docs", "test"}) == sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
