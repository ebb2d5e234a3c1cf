"""In a real browser, the pages of systems show joint steps, and the parts that wait."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from browser import SCREENS, made, planted, shown
from page_parts import offered, state, unfolded, walk

from fsm.language.library import load_system
from fsm.machine.product import SystemTable

if TYPE_CHECKING:
    from pathlib import Path

    from browser import Pages, Scheme
    from playwright.sync_api import Browser, Page

    from fsm.machine.product.system import System

pytestmark = pytest.mark.slow

STEPS = 6


def wander_jointly(page: Page, system: System, *, steps: int, seed: int) -> None:
    table, chance = SystemTable(system), random.Random(seed)
    at = table.initial
    for _ in range(steps):
        allowed = {}
        for row in table.rows:
            names = Counter[str]()
            for way in table.step(at, row.index):
                names[way.name] += 1
                allowed[f"{row.name}/{way.name}{f'.{names[way.name]}' if names[way.name] > 1 else ''}"] = way
        assert offered(page) == sorted(allowed)
        if not allowed:
            break
        taken = chance.choice(sorted(allowed))
        walk(page).locator(f'[data-step="{taken}"]').evaluate("each => each.click()")
        at = allowed[taken].to
        assert state(page) == table.states[at].replace("the beginning", "at the beginning")


@pytest.mark.parametrize("name", ["cri-service", "node", "two-plugins"])
def test_the_script_joins_the_steps_of_parts_as_the_product_does(name: str, pages: Pages, folder: Path) -> None:
    system = load_system(name)
    path = made(folder, name, "--no-properties")
    for profile in ("", *system.profiles):
        found = pages.at(path, f"profile={profile or 'none'}")
        wander_jointly(found.page, system.under(profile or None), steps=STEPS, seed=5)
        assert (found.requests, found.complaints) == ([], [])


def test_a_condition_that_is_not_kept_is_noticed(browser: Browser, folder: Path, tmp_path: Path) -> None:
    path = made(folder, "cri-service", "--no-properties")
    path = planted(path, tmp_path / "planted.html", ('"when":["at"', '"when":["not",["all"],"at"'))
    with shown(browser, path) as found, pytest.raises(AssertionError):
        wander_jointly(found.page, load_system("cri-service"), steps=STEPS, seed=5)


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_nobody_is_kept_from_a_system(width: int, scheme: Scheme, pages: Pages, folder: Path) -> None:
    found = pages.at(made(folder, "cri-service", "--no-properties"), width=width, scheme=scheme)
    assert found.serious() == []
    assert not found.too_wide()


def test_a_deadlock_says_who_waits_for_whom(pages: Pages, folder: Path) -> None:
    """The text beside the chart of a deadlock says which parts wait for which others.

    No step is marked, because no single step breaks the property.
    """
    found = pages.at(made(folder, "nri-locks"), "profile=none")
    stated = unfolded(found.page, "calls-end")
    assert "call waits for update" in stated.locator(".note.wrong").inner_text()
    assert stated.locator("svg title", has_text="waits, to").count() > 0
    assert "✗" not in stated.locator(".run").inner_text()
