"""The pytest plugin of fsm, which runs model and property files as tests.

A repository opts in with a ``[tool.fsm]`` table in ``pyproject.toml`` or with one of the plugin's options. Then
pytest collects ``models/*.toml`` and ``properties/*.toml`` wherever it looks for tests. In other repositories,
nothing is collected and only this module is imported.
"""

import tomllib
from pathlib import Path
from typing import Final

import pytest

FOLDERS: Final = ("models", "properties")
ALL: Final = "*"

AGAINST: Final = pytest.StashKey["dict[str, str] | None"]()
"""The systems under test by model name or :data:`ALL`. The value is ``None`` if the repository has not opted in."""

UNREACHED: Final = "fsm coverage"

BY_OPTION: Final = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
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
        help="What to test against the models: reference, python:MODULE:FACTORY, exec:COMMAND, "
        "model:MODEL or another form of 'fsm test'; for one model, or for all. Modules and paths are from the rootdir.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[AGAINST] = _configured_suts(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if parent.config.stash[AGAINST] is None or file_path.suffix != ".toml" or file_path.parent.name not in FOLDERS:
        return None
    from fsm.pytest_plugin import collection  # noqa: PLC0415  (other repositories do not need the engines)

    kind = collection.ModelFile if file_path.parent.name == "models" else collection.PropertyFile
    found: pytest.Collector = kind.from_parent(parent, path=file_path)
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("passed", ()):
        for name, text in report.sections:
            if UNREACHED in name:
                terminalreporter.section(f"{report.nodeid}: some (event, state) pairs were not reached")
                terminalreporter.write(text)


def _configured_suts(config: pytest.Config) -> dict[str, str] | None:
    file = config.rootpath / "pyproject.toml"
    try:
        with file.open("rb") as opened:
            table = tomllib.load(opened).get("tool", {}).get("fsm")
        if isinstance(table, dict) and table.pop("form", None):  # forms of logs do not ask for tests
            table = table or None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        table = None
    if table is None:
        if not (config.getoption("fsm") or config.getoption("fsm_against")):
            return None
        table = {}
    if not isinstance(table, dict):
        raise pytest.UsageError(f"{file}: [tool.fsm] must be a table that contains 'against'")
    if unknown := set(table) - {"against"}:
        message = f"[tool.fsm] has an unknown key {', '.join(sorted(unknown))}; the only known key is 'against'"
        raise pytest.UsageError(message)
    stated = table.get("against", {})
    found = {ALL: stated} if isinstance(stated, str) else stated
    if not isinstance(found, dict) or not all(isinstance(sut, str) for sut in found.values()):
        meant = f"the text SUT, or a table with entries MODEL = SUT, where '{ALL}' means all other models"
        raise pytest.UsageError(f"[tool.fsm] against = {stated!r} must be {meant}")
    options: dict[str, str] = {}
    for given in config.getoption("fsm_against"):
        model, equals, sut = given.partition("=")
        of_one = equals and ":" not in model
        options[model if of_one else ALL] = sut if of_one else given
    config.stash[BY_OPTION] = set(options)
    return found | options
