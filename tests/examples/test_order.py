"""The order is right, and the planned tests find the bugs of its README."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any, Final

import pytest

import fsm

FOLDER: Final = Path(__file__).resolve().parent.parent.parent / "examples" / "order"
ORDER: Final[dict[str, Any]] = runpy.run_path(str(FOLDER / "order.py"))


def failures(bug: str, *, examples: int = 0) -> list[list[str]]:
    machine = fsm.load(str(FOLDER / "order.toml"))
    tested = fsm.conform(machine, ORDER["orders"](bug), examples=examples)
    return [[str(each) for each in failure.steps] for failure in tested.failures]


@pytest.mark.slow
def test_the_order_is_right() -> None:
    assert failures("", examples=20) == []


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in ORDER["BUGS"] if bug != "large"])
def test_the_plan_finds_the_bug(bug: str) -> None:
    assert failures(bug)


@pytest.mark.slow
def test_large_amounts_are_found_at_random() -> None:
    """No constant of the model is near 1,000, so only random amounts beyond the scope are that large.

    Hypothesis also draws constants of loaded modules, so the same seed may draw other amounts in another process.
    """
    assert failures("large") == []
    assert failures("large", examples=1000)


@pytest.mark.slow
def test_the_counter_defect_has_seven_steps() -> None:
    assert ["place(amount=1)", *["pay(amount=1, ok=false)"] * 6] in failures("limit")


def test_the_model_is_short() -> None:
    """The model has 40 lines of at most 100 columns."""
    lines = (FOLDER / "order.toml").read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_the_readme_names_each_bug() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert all(f"| `{bug}` |" in readme for bug in ORDER["BUGS"])
