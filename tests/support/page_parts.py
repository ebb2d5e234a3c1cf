"""Locate the parts of a page of ``fsm explore``, for tests in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def walk(page: Page) -> Locator:
    """Return the part of the page for walking through the model."""
    return page.locator(".walk:visible").first


def state(page: Page) -> str:
    """Return the current state of the walk."""
    return walk(page).locator(".now strong").inner_text()


def offered(page: Page) -> list[str]:
    """Return the steps that the page offers next."""
    steps: list[str] = walk(page).locator("[data-step]").evaluate_all("all => all.map(each => each.dataset.step)")
    return sorted(steps)


def unfolded(page: Page, name: str) -> Locator:
    """Unfold the property *name*, which shows its runs."""
    stated = page.locator(f'[data-property="{name}"]')
    stated.evaluate("each => { each.open = true }")
    stated.locator(".replay").first.wait_for()
    return stated
