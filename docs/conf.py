"""The site that ``make docs`` makes of these pages with Sphinx.

The pages are plain Markdown, so that they can be read where the sources are.  What only a site can have is added here:
the navigation, the reference of the library from its docstrings, and the pages that lie beside this folder.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import fsm

ROOT: Final = Path(__file__).resolve().parent.parent
_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

NAVIGATION: Final = {
    "Tutorial": ["tutorial/*"],
    "How-to": [
        "how-to/install",
        "how-to/starting",
        "how-to/from-a-diagram",
        "how-to/from-transitions",
        "how-to/from-python-statemachine",
        "how-to/checking",
        "how-to/systems",
        "how-to/logs",
        "how-to/following",
        "how-to/fleet",
        "how-to/coverage",
        "how-to/domain",
        "how-to/conformance",
        "how-to/other-languages",
        "how-to/runtimes",
        "how-to/proxy",
        "how-to/nri-plugins",
        "how-to/nri",
        "how-to/drawings",
        "how-to/explore",
        "how-to/profiles",
        "how-to/sequence-charts",
        "how-to/importing",
        "how-to/ci",
        "how-to/editors",
        "how-to/linearizability",
        "how-to/serving",
    ],
    "Explanation": ["explanation"],
    "Reference": [
        "reference/commands",
        "reference/codes",
        "reference/model-language",
        "reference/data",
        "reference/timers",
        "reference/substates",
        "reference/property-language",
        "reference/system-language",
        "reference/trace-format",
        "reference/log-forms",
        "reference/exec-protocol",
        "reference/library",
        "reference/api",
        "reference/cri-contract",
        "reference/nri-contract",
        "reference/conformance-matrix",
        "reference/power",
        "reference/models",
        "reference/names",
        "reference/known-defects",
        "findings/README",
        "reference/dependencies",
        "reference/changes",
        "reference/architecture",
    ],
}
"""The parts of the guide, each with its pages in order."""

BESIDE: Final = {"reference/changes": "CHANGELOG.md", "reference/architecture": "ARCHITECTURE.md"}
"""Pages whose text is a file of the root; where the sources are they are a link to it."""

project = "fsm"
author = "The fsm maintainers"
project_copyright = f"{author}, {_PROJECT['license']}"
version = release = _PROJECT["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_static"]
root_doc = "index"
myst_heading_anchors = 4
myst_linkify_fuzzy_links = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
python_use_unqualified_type_names = True
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
smartquotes = False
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

html_theme = "furo"
html_title = "fsm"
html_static_path = ["_static"]
html_css_files = ["fsm.css"]
html_js_files = ["fsm.js"]
html_copy_source = False
html_show_sphinx = False
templates_path: list[str] = []

_CHART: Final = re.compile(r"^```mermaid\n.*?^```\n+\[The same run as a picture\.\]\((.*?)\)", re.MULTILINE | re.DOTALL)
"""Sequence charts, which a forge draws and Sphinx does not."""

_TITLED: Final = re.compile(r"^```(\w+) (\S+)$", re.MULTILINE)


def _toctree(pages: list[str], caption: str = "") -> str:
    head = f":caption: {caption}\n" if caption else ""
    return f"\n\n```{{toctree}}\n:hidden:\n:glob:\n{head}\n" + "\n".join(pages) + "\n```\n"


def _beside(name: str, page: str) -> str:
    """The text of the root's file *name*, its links as *page* must have them."""
    up = "../" * page.count("/")
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.sub(r"\]\((?!\w+:|#)(docs/)?", lambda link: f"]({up}" if link[1] else f"]({up}../", text)


def _names() -> str:
    """Every public name, with the docstring of each of its members, in the order of the page that shows them in use."""
    table = (ROOT / "docs" / "reference" / "library.md").read_text(encoding="utf-8")
    rows = "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    lines = []
    for name in sorted(fsm.__all__, key=lambda name: rows.find(f"`{name}`")):
        thing = getattr(fsm, name)
        kind = "class" if isinstance(thing, type) else "function" if callable(thing) else "data"
        if isinstance(thing, type) and issubclass(thing, Exception):
            kind = "exception"
        lines += [f".. auto{kind}:: fsm.{name}", *(["   :members:"] if kind == "class" else []), ""]
    return "\n\n```{eval-rst}\n" + "\n".join(lines) + "\n```\n"


def _read(app: object, page: str, source: list[str]) -> None:
    """Add to the Markdown of *page* what it has on the site only."""
    del app
    if page in BESIDE:
        source[0] = _beside(BESIDE[page], page)
    source[0] = _CHART.sub(r"![The run as a sequence chart](\1)", source[0])
    source[0] = _TITLED.sub(r"```{code-block} \1\n:caption: \2\n", source[0])
    if page == "index":
        source[0] += "".join(_toctree(pages, caption) for caption, pages in NAVIGATION.items())
    if page == "findings/README":
        source[0] += _toctree(["*"])
    if page == "reference/api":
        source[0] += _names()


def _level(app: object, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Say of what level the headings of the navigation are, which screen readers need."""
    del app, page, template, doctree
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Any) -> None:  # noqa: ANN401  (Sphinx is here only when the site is made)
    """Have Sphinx ask for what is added."""
    app.connect("source-read", _read)
    app.connect("html-page-context", _level, priority=900)  # after the theme
