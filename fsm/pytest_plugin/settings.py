"""What a repository says to pytest of its lifecycles: the table ``[tool.fsm]``, and the options."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS: Final = pytest.StashKey["Mapping[str, Any] | None"]()


def settings(config: pytest.Config) -> Mapping[str, Any] | None:
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


def systems(config: pytest.Config) -> dict[str, str]:
    """The system of each model that has one by name; under the empty name that of all others."""
    table = config.stash[SETTINGS] or {}
    unknown = set(table) - {"system", "systems"}
    named = table.get("systems", {})
    if unknown or not isinstance(named, dict):
        what = f"knows no {', '.join(sorted(unknown))}" if unknown else "has 'systems' that is no table"
        message = f"[tool.fsm] {what}: it has 'system' = SYSTEM, and a table 'systems' with MODEL = SYSTEM"
        raise pytest.UsageError(message)
    found = {"": table.get("system", ""), **named}
    for given in config.getoption("fsm_system"):
        model, equals, system = given.partition("=")
        if equals and ":" not in model:
            found[model] = system
        else:
            found[""] = given
    return found
