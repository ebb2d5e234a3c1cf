"""The site of the documentation: it is made without a warning, its links lead somewhere, and it needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parent.parent.parent
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""What a browser loads by itself, and the attribute that says from where."""


def _made(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """The site of *docs*, as ``make docs`` makes it."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndocs:")[2].splitlines()[1]
    (options,) = re.findall(r"sphinx-build (.*) docs site$", recipe)
    command = [sys.executable, "-m", "sphinx", *options.split(), str(docs), str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def _pages(site: Path) -> dict[Path, BeautifulSoup]:
    return {path: BeautifulSoup(path.read_text("utf-8"), "html.parser") for path in sorted(site.rglob("*.html"))}


def _broken(site: Path, pages: Mapping[Path, BeautifulSoup]) -> list[str]:
    """Links that lead to no file or no anchor of the *site*, and external ones that are no addresses."""
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
    """What a browser would fetch from elsewhere."""
    urls = [
        str(each[key])
        for page in pages.values()
        for tag, key in FETCHED.items()
        for each in page.select(f"{tag}[{key}]")
    ]
    return [url for url in urls if re.match(r"(\w+:)?//", url) and not url.startswith("data:")]


@pytest.mark.slow
def test_the_site_is_whole(tmp_path: Path) -> None:
    """Warnings are errors; every link and anchor is there; style sheets and scripts are fetched from nowhere else."""
    made = _made(ROOT / "docs", tmp_path / "site")
    assert (0, "") == (made.returncode, made.stderr)
    pages = _pages(tmp_path / "site")

    assert [] == _broken(tmp_path / "site", pages)
    assert [] == _fetched(pages)
    styles = "".join(path.read_text("utf-8") for path in (tmp_path / "site").rglob("*.css"))
    assert [] == re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)]*", styles)
    assert "class fsm.Machine" in re.sub(
        r"\s+", " ", pages[tmp_path / "site" / "reference" / "api.html"].get_text()
    ).replace(" .", ".")


def test_what_is_broken_is_found(tmp_path: Path) -> None:
    """A link to no page, to no anchor, out of the site, a malformed address, and what would be fetched."""
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
    """To a page or an anchor that is not there, and a page that the navigation does not have."""
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
