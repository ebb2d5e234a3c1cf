"""The pytest plugin: model and property files as tests, in a repository that asks for it.

Asking is a table ``[tool.fsm]`` in ``pyproject.toml``, or one of the options.  Then the files of ``models/*.toml`` and
``properties/*.toml`` are collected where pytest looks: ``pytest models properties`` runs them.  Elsewhere nothing is
collected, and nothing but this module is imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from fsm.pytest_plugin.settings import SETTINGS, against, settings

if TYPE_CHECKING:
    import pytest

FOLDERS: Final = ("models", "properties")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``fsm``."""
    group = parser.getgroup("fsm", "lifecycle specifications (fsm)")
    group.addoption(
        "--fsm",
        action="store_true",
        help="Collect models/*.toml and properties/*.toml, as a table [tool.fsm] in pyproject.toml also asks.",
    )
    group.addoption(
        "--fsm-against",
        action="append",
        default=[],
        metavar="[MODEL=]SUT",
        help="What to test against the models: reference, python:MODULE:FACTORY, exec:COMMAND or model:MODEL; for one model, or for all.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings of this repository."""
    config.stash[SETTINGS] = settings(config)
    against(config)  # which refuses what it does not know


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The tests of a model or property file."""
    asked = parent.config.stash[SETTINGS]
    if asked is None or file_path.suffix != ".toml" or file_path.parent.name not in FOLDERS:
        return None
    from fsm.pytest_plugin import collection  # noqa: PLC0415  (only these repositories wait for the engines)

    kind = collection.ModelFile if file_path.parent.name == "models" else collection.PropertyFile
    found: pytest.Collector = kind.from_parent(parent, path=file_path)
    return found
