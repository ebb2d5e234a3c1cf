"""Fixtures for browser tests."""

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
    """Start a browser that all tests of a module share.

    No other event loop can run in this thread while the browser is open.
    """
    from browser import chromium  # noqa: PLC0415  (other tests need none)

    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(browser: Browser) -> Pages:
    from browser import Pages  # noqa: PLC0415

    return Pages(browser)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")
