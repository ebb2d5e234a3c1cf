"""Every path and name in a document exists. ``ARCHITECTURE.md`` names every package and module."""

import pkgutil
import re
from pathlib import Path

import pytest

from fsm.entry_points import COMMANDS, DOMAINS, FORMS, SUTS

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "fsm"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
DOCUMENTS = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
ROOMS = sorted(
    path.stem
    for path in PACKAGE.iterdir()
    if (path.suffix == ".py" or (path / "__init__.py").is_file()) and not path.name.startswith("_")
)


def quoted(text: str, pattern: str) -> list[str]:
    found = (re.match(pattern, each) for each in re.findall(r"`([^`\n]+)`", text))
    return list(dict.fromkeys(each[0] for each in found if each))


def is_place(name: str) -> bool:
    paths = [base / f"{name.rstrip('/')}{suffix}" for base in (ROOT, PACKAGE) for suffix in ("", ".py")]
    inner = [path for path in PACKAGE.rglob(name) if path.is_dir()] if name.endswith("/") else []
    return any(path.exists() for path in paths) or bool(inner)


def is_name(dotted: str) -> bool:
    if dotted in {DOMAINS, FORMS, SUTS, COMMANDS}:
        return True
    try:
        pkgutil.resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


def is_test(name: str) -> bool:
    path, _, function = name.partition("::")
    return (ROOT / path).is_file() and f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


def test_architecture_names_places() -> None:
    places = quoted(ARCHITECTURE, r"[a-z_.]+(?:/[a-z_.]*)+$")

    assert len(places) > 30
    assert [] == [each for each in places if not is_place(each)]


def test_architecture_names_every_room() -> None:
    assert [] == [room for room in ROOMS if not re.search(rf"`{room}(?:/[a-z_/]*)?`", ARCHITECTURE)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_what_there_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert [] == [each for each in quoted(text, r"fsm(?:\.[A-Za-z_]+)+") if not is_name(each)]
    assert [] == [each for each in quoted(text, r"tests/[a-z_/]+\.py::\w+") if not is_test(each)]
    assert [] == [each for each in quoted(text, r"(?:fsm|tests|docs|\.ci)/[a-z_/.-]*$") if not is_place(each)]


def test_what_is_not_there_is_noticed() -> None:
    assert not is_place("monitoring/belief.py")
    assert not is_place("testing/")
    assert not is_name("fsm.monitoring")
    assert not is_name("fsm.monitor.Nothing")
    assert not is_test("tests/repo/test_documented_paths.py::test_nothing")
    assert is_test("tests/repo/test_documented_paths.py::test_what_is_not_there_is_noticed")
