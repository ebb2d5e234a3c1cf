"""Fixtures: one browser per test module, pages that stay open in the browser, and a folder for their files."""

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
    """Yield one browser for all tests of a module; while it is open, no other event loop can run."""
    from browser import chromium  # noqa: PLC0415  (other tests need none)

    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(browser: Browser) -> Pages:
    """Yield pages that stay open, for tests that only need a page at some address."""
    from browser import Pages  # noqa: PLC0415

    return Pages(browser)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the files of the pages."""
    return tmp_path_factory.mktemp("pages")
