"""What a repository asks of the plugin: the table ``[tool.fsm]`` of ``pyproject.toml``, and the options."""

import tomllib
from collections.abc import Mapping
from typing import Any, Final

import pytest

SETTINGS: Final = pytest.StashKey["Mapping[str, Any] | None"]()

ALL: Final = "*"
"""Stands for every model that is not named."""


def settings(config: pytest.Config) -> Mapping[str, Any] | None:
    """The table ``[tool.fsm]``, empty where only an option asks; ``None`` without either."""
    asked = config.getoption("fsm") or config.getoption("fsm_against")
    file = config.rootpath / "pyproject.toml"
    try:
        with file.open("rb") as opened:
            found = tomllib.load(opened).get("tool", {}).get("fsm")
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        found = None
    if found is not None and not isinstance(found, dict):
        raise pytest.UsageError(f"{file}: [tool.fsm] is a table, with 'against' in it")
    return found if found is not None or not asked else {}


def against(config: pytest.Config) -> dict[str, str]:
    """The system under test of each model, by the name of the model or :data:`ALL`."""
    table = config.stash[SETTINGS] or {}
    unknown = set(table) - {"against"}
    if unknown:
        message = f"[tool.fsm] has an unknown key {', '.join(sorted(unknown))}; the only one is 'against'"
        raise pytest.UsageError(message)
    stated = table.get("against", {})
    found = {ALL: stated} if isinstance(stated, str) else stated
    if not isinstance(found, dict) or not all(isinstance(sut, str) for sut in found.values()):
        message = f"[tool.fsm] against = {stated!r}: it is a text SUT, or a table with MODEL = SUT, '{ALL}' for all other models"
        raise pytest.UsageError(message)
    found = dict(found)
    for given in config.getoption("fsm_against"):
        model, equals, sut = given.partition("=")
        of_one = equals and ":" not in model
        found[model if of_one else ALL] = sut if of_one else given
    return found
