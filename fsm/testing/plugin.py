"""The pytest plugin: model and property files as tests, in a repository that asks for it.

Asking is a table ``[tool.fsm]`` in ``pyproject.toml``, or one of the options.
Then the files of ``models/*.toml`` and ``properties/*.toml`` are collected
where pytest looks: ``pytest models properties`` runs them.  Elsewhere nothing
is collected, and nothing but this module is imported.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDERS: Final = ("models", "properties")

_SETTINGS: Final = pytest.StashKey["Mapping[str, Any] | None"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``fsm``."""
    group = parser.getgroup("fsm", "lifecycle specifications (fsm)")
    group.addoption(
        "--fsm",
        action="store_true",
        help="Collect models/*.toml and properties/*.toml, as a table [tool.fsm] in pyproject.toml also asks.",
    )
    group.addoption(
        "--fsm-system",
        action="append",
        default=[],
        metavar="[MODEL=]SYSTEM",
        help="What to test: reference, python:MODULE:FACTORY, exec:COMMAND or model:MODEL; of one model, or of all.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Find out whether this repository asks for it."""
    config.stash[_SETTINGS] = _settings(config)


def _settings(config: pytest.Config) -> Mapping[str, Any] | None:
    """The table ``[tool.fsm]``, empty where only an option asks; ``None`` where nobody does."""
    asked = config.getoption("fsm") or config.getoption("fsm_system")
    file = config.rootpath / "pyproject.toml"
    try:
        with file.open("rb") as opened:
            found = tomllib.load(opened).get("tool", {}).get("fsm")
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        found = None
    if found is not None and not isinstance(found, dict):
        message = f"{file}: [tool.fsm] is a table, with 'system' or [tool.fsm.systems] in it"
        raise pytest.UsageError(message)
    return found if found is not None or not asked else {}


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The tests of a model or property file."""
    settings = parent.config.stash[_SETTINGS]
    if settings is None or file_path.suffix != ".toml" or file_path.parent.name not in FOLDERS:
        return None
    from fsm.testing import collecting  # noqa: PLC0415  (nobody else pays for the engines)

    kind = collecting.ModelFile if file_path.parent.name == "models" else collecting.PropertyFile
    found: pytest.Collector = kind.from_parent(parent, path=file_path)
    return found


def systems(config: pytest.Config) -> dict[str, str]:
    """The system of each model that has one by name; under the empty name that of all others."""
    settings = config.stash[_SETTINGS] or {}
    unknown = set(settings) - {"system", "systems"}
    named = settings.get("systems", {})
    if unknown or not isinstance(named, dict):
        what = f"knows no {', '.join(sorted(unknown))}" if unknown else "has 'systems' that is no table"
        message = f"[tool.fsm] {what}: it has 'system' = SYSTEM, and a table 'systems' with MODEL = SYSTEM"
        raise pytest.UsageError(message)
    found = {"": settings.get("system", ""), **named}
    for given in config.getoption("fsm_system"):
        model, equals, system = given.partition("=")
        if equals and ":" not in model:
            found[model] = system
        else:
            found[""] = given
    return found
