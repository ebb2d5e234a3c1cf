"""A real browser that shows pages: Chromium, driven by Playwright, offline, with everything that goes wrong noted."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from playwright.sync_api import Browser, Page, sync_playwright
from real_parts import package, program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WIDE, NARROW = 1400, 360
"""Widths of screens, in pixels."""

SERIOUS = frozenset({"serious", "critical"})

_AXE = "async of => (await axe.run(of, { resultTypes: ['violations'], preload: false })).violations"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's browser, without what it would ask the network for by itself."""
    executable = program("chromium")
    # Where it has no rights to make a sandbox it would not start; the pages are our own.
    arguments = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Shown:
    """A page that is shown, what it asked for but for itself, and what it complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def serious(self, of: str = "html") -> list[str]:
        """What axe-core finds in it that keeps people from using it; or in those elements *of* it."""
        self.page.evaluate((package("axe-core") / "axe.min.js").read_text(encoding="utf-8"))
        found: list[dict[str, Any]] = self.page.evaluate(_AXE, of)
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
            for each in found
            if each["impact"] in SERIOUS
        ]

    def too_wide(self) -> bool:
        """Whether one has to scroll sideways to read it."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@contextmanager
def shown(
    browser: Browser, path: Path, *, at: str = "", width: int = WIDE, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Shown]:
    """The page in the file at *path*, with *at* as what follows the ``#``."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        page = context.new_page()
        page.set_default_timeout(60_000)
        found = Shown(page)
        own = path.as_uri()
        page.on("request", lambda each: None if each.url.partition("#")[0] == own else found.requests.append(each.url))
        page.on(
            "console", lambda each: found.complaints.append(each.text) if each.type in {"error", "warning"} else None
        )
        page.on("pageerror", lambda each: found.complaints.append(str(each)))
        page.goto(f"{own}#{at}" if at else own)
        yield found
    finally:
        context.close()
