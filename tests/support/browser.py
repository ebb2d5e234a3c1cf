"""Open pages in an offline Chromium with Playwright, and record all errors."""

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from commands import fsm
from playwright.sync_api import Browser, Page, sync_playwright
from real_parts import package, program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Scheme: TypeAlias = Literal["light", "dark"]

WIDE, NARROW = 1400, 360
"""The widths of screens in pixels."""

SCREENS: Final[list[tuple[int, Scheme]]] = [(WIDE, "light"), (NARROW, "dark")]

SERIOUS = frozenset({"serious", "critical"})

SETTLED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"

_GO = """at => new Promise(done => {
  if (location.hash.slice(1) === at) return done();
  addEventListener("hashchange", () => done(), { once: true });
  location.hash = at;
})"""

_AXE = "async of => (await axe.run(of, { resultTypes: ['violations'], preload: false })).violations"


@contextmanager
def chromium() -> Iterator[Browser]:
    executable = program("chromium")
    # Chromium does not start if it may not create a sandbox. We disable the sandbox, because the pages are our own.
    arguments = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Shown:
    """A page in the browser, with the errors that it reported and its requests for other files."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def serious(self, of: str = "html") -> list[str]:
        """Return the serious accessibility problems that axe-core finds in elements that match the selector *of*."""
        self.page.evaluate((package("axe-core") / "axe.min.js").read_text(encoding="utf-8"))
        found: list[dict[str, Any]] = self.page.evaluate(_AXE, of)
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
            for each in found
            if each["impact"] in SERIOUS
        ]

    def too_wide(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def opened(browser: Browser, path: Path, *, at: str = "", width: int = WIDE, scheme: Scheme = "light") -> Shown:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(60_000)
    found = Shown(page)
    own = path.as_uri()
    page.on("request", lambda each: None if each.url.partition("#")[0] == own else found.requests.append(each.url))
    page.on("console", lambda each: found.complaints.append(each.text) if each.type in {"error", "warning"} else None)
    page.on("pageerror", lambda each: found.complaints.append(str(each)))
    page.goto(f"{own}#{at}" if at else own)
    return found


@contextmanager
def shown(
    browser: Browser, path: Path, *, at: str = "", width: int = WIDE, scheme: Scheme = "light"
) -> Iterator[Shown]:
    found = opened(browser, path, at=at, width=width, scheme=scheme)
    try:
        yield found
    finally:
        found.page.context.close()


class Pages:
    """A cache of open pages.

    Loading a page is slow, and most tests only navigate within it.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._open: dict[tuple[Path, int, Scheme], Shown] = {}

    def at(self, path: Path, at: str = "", *, width: int = WIDE, scheme: Scheme = "light") -> Shown:
        key = (path, width, scheme)
        if key not in self._open:
            self._open[key] = opened(self.browser, path, at=at, width=width, scheme=scheme)
        found = self._open[key]
        found.page.evaluate(_GO, at)
        return found


def planted(path: Path, to: Path, *mistakes: tuple[str, str]) -> Path:
    """Copy the page at *path* to *to*, and replace text in it.

    Each pair in *mistakes* consists of a text that must occur in the page, and its replacement.
    """
    text = path.read_text(encoding="utf-8")
    for old, new in mistakes:
        assert old in text, old
        text = text.replace(old, new)
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    to.write_text(re.sub("'sha256-[^']*'", lambda _: f"'sha256-{digest}'", text, count=1), encoding="utf-8")
    return to


def made(folder: Path, *arguments: str) -> Path:
    """Return the path of a page in *folder*. If the page does not exist yet, write it with ``fsm explore``."""
    path = folder / f"{re.sub('[^a-z0-9-]', '_', arguments[0])}.html"
    if not path.exists():
        ran = fsm("explore", *arguments, "-o", str(path))
        assert ran.returncode == 0, ran.stderr
    return path
