"""The parts of a page of ``fsm explore``, for browser tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def walk(page: Page) -> Locator:
    return page.locator(".walk:visible").first


def state(page: Page) -> str:
    return walk(page).locator(".now strong").inner_text()


def offered(page: Page) -> list[str]:
    steps: list[str] = walk(page).locator("[data-step]").evaluate_all("all => all.map(each => each.dataset.step)")
    return sorted(steps)


def unfolded(page: Page, name: str) -> Locator:
    stated = page.locator(f'[data-property="{name}"]')
    stated.evaluate("each => { each.open = true }")
    stated.locator(".replay").first.wait_for()
    return stated
