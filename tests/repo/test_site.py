"""The documentation site has no warnings or broken links, and can be used without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

import pytest

import fsm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bs4 import BeautifulSoup

browser = pytest.importorskip("browser", reason="playwright is missing; install it: bash .ci/setup test")
bs4 = pytest.importorskip("bs4", reason="beautifulsoup4 is missing; install it: bash .ci/setup test")

ROOT = Path(__file__).resolve().parent.parent.parent
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements whose content a browser loads automatically, with the attribute that contains the address."""


def _made(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndocs:")[2]
    (options,) = re.findall(r"bin/sphinx-build (.*) docs site$", recipe, re.MULTILINE)
    command = [sys.executable, "-m", "sphinx", *options.split(), str(docs), str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def _pages(site: Path) -> dict[Path, BeautifulSoup]:
    return {path: bs4.BeautifulSoup(path.read_text("utf-8"), "html.parser") for path in sorted(site.rglob("*.html"))}


def _broken(site: Path, pages: Mapping[Path, BeautifulSoup]) -> list[str]:
    """Return links to missing files or anchors, and malformed external addresses."""
    anchors = {
        path: {str(each[key]) for key in ("id", "name") for each in page.select(f"[{key}]")}
        for path, page in pages.items()
    }
    found = []
    for path, page in pages.items():
        for link in [*page.select("a[href]"), *page.select("img[src]")]:
            address = str(link.get("href") or link.get("src"))
            parts = urlsplit(address)
            if parts.scheme in {"http", "https"}:
                right = bool(re.fullmatch(r"[\w.-]+\.\w+", parts.netloc)) and " " not in address
            elif parts.scheme:
                right = parts.scheme in {"mailto", "data"}
            else:
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                right = target.is_file() and target.is_relative_to(site)
                right = right and (not parts.fragment or unquote(parts.fragment) in anchors.get(target, set()) | {""})
            if not right:
                found.append(f"{path.relative_to(site)}: {address}")
    return found


def _fetched(pages: Mapping[Path, BeautifulSoup]) -> list[str]:
    urls = [
        str(each[key])
        for page in pages.values()
        for tag, key in FETCHED.items()
        for each in page.select(f"{tag}[{key}]")
    ]
    return [url for url in urls if re.match(r"(\w+:)?//", url) and not url.startswith("data:")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "site"
    made = _made(ROOT / "docs", folder)
    assert (0, "") == (made.returncode, made.stderr)
    return folder


@pytest.mark.slow
def test_the_site_is_whole(site: Path) -> None:
    pages = _pages(site)

    assert [] == _broken(site, pages)
    assert [] == _fetched(pages)
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert [] == re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)]*", styles)
    assert {f"fsm.{name}" for name in fsm.__all__} <= {
        str(each["id"]) for each in pages[site / "reference" / "api.html"].select("dt[id]")
    }


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(browser.NARROW, "dark"), (browser.WIDE, "light")])
def test_pages_can_be_read_everywhere(width: int, scheme: Literal["light", "dark"], site: Path) -> None:
    with browser.chromium() as opened:
        for name in ("index", "tutorial/1-model", "reference/property-language", "findings/nri-locks"):
            with browser.shown(opened, site / f"{name}.html", width=width, scheme=scheme) as found:
                assert [] == [url for url in found.requests if not url.startswith(("file:", "data:"))]
                assert [] == found.complaints
                assert not found.too_wide(), name
                assert [] == found.serious(), (name, found.serious())


@pytest.mark.slow
def test_a_word_is_found_without_a_network(site: Path) -> None:
    with browser.chromium() as opened, browser.shown(opened, site / "search.html") as found:
        found.page.goto(f"{(site / 'search.html').as_uri()}?q=vacuous")
        found.page.wait_for_selector("#search-results li a")
        addresses = [each.get_attribute("href") for each in found.page.query_selector_all("#search-results li a")]
        requests = found.requests

    assert [] == [url for url in requests if not url.startswith("file:")]
    assert any("explanation.html" in str(each) for each in addresses)


def test_what_is_broken_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="#top">1</a><a href="#nowhere">2</a><a href="b.html#part">3</a>'
        '<a href="b.html#gone">4</a><a href="c.html">5</a><a href="../secret">6</a><a href="https://exa mple/">7</a>'
        '<a href="https://example.org/x">8</a><img src="no.svg"><script src="https://cdn.example.org/x.js"></script>',
        encoding="utf-8",
    )
    (tmp_path / "b.html").write_text('<p id="part"></p>', encoding="utf-8")
    (tmp_path.parent / "secret").write_text("", encoding="utf-8")
    pages = _pages(tmp_path)

    found = ["#nowhere", "b.html#gone", "c.html", "../secret", "https://exa mple/", "no.svg"]
    assert [f"a.html: {each}" for each in found] == _broken(tmp_path, pages)
    assert ["https://cdn.example.org/x.js"] == _fetched(pages)


@pytest.mark.slow
def test_a_broken_link_stops_the_site(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "conf.py").write_text('extensions = ["myst_parser"]\nmyst_heading_anchors = 4\n', encoding="utf-8")
    (docs / "index.md").write_text("# A\n\n[b](b.md) [c](#c)\n", encoding="utf-8")
    (docs / "d.md").write_text("# D\n", encoding="utf-8")

    made = _made(docs, tmp_path / "site")

    assert made.returncode
    assert ["myst.xref_missing", "myst.xref_missing", "toc.not_included"] == sorted(
        re.findall(r"\[([a-z._]+)\]", made.stderr)
    )
