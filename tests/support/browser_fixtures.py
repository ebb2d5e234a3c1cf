"""One browser a module, pages that stay open in it, and a folder for the files that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from browser import Pages
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module: as long as it is open, no other loop of events can run."""
    from browser import chromium  # noqa: PLC0415  (other tests need none)

    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(browser: Browser) -> Pages:
    """For tests that need no more than that a page is at a place."""
    from browser import Pages  # noqa: PLC0415

    return Pages(browser)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pages are."""
    return tmp_path_factory.mktemp("pages")
