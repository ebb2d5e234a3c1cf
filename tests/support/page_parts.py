"""The parts of a page of ``fsm explore``, as tests in a browser find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def walk(page: Page) -> Locator:
    """The part of the page in which one walks."""
    return page.locator(".walk:visible").first


def state(page: Page) -> str:
    """The state in which the walk is."""
    return walk(page).locator(".now strong").inner_text()


def offered(page: Page) -> list[str]:
    """What the walk may do next, by the page."""
    steps: list[str] = walk(page).locator("[data-step]").evaluate_all("all => all.map(each => each.dataset.step)")
    return sorted(steps)


def unfolded(page: Page, name: str) -> Locator:
    """The property of that *name*, with its runs."""
    stated = page.locator(f'[data-property="{name}"]')
    stated.evaluate("each => { each.open = true }")
    stated.locator(".replay").first.wait_for()
    return stated
