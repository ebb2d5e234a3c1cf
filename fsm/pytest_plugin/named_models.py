"""Check that every model for which a SUT is named exists. Otherwise, a misspelled name would go unnoticed."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from fsm.errors import nearest, printable
from fsm.language.library import names
from fsm.pytest_plugin import AGAINST, ALL, BY_OPTION

_REFUSED = pytest.StashKey[bool]()
"""Set to true when the names are checked, so that this is done only once."""


def refuse_unknown(collected: pytest.File) -> None:
    """Raise a collection error if a SUT is named for a model that does not exist.

    A model exists if it is bundled with fsm, or if it is near the file *collected*, anywhere in the repository, or
    below a path given to pytest. So the result does not depend on which of these files are collected.
    """
    config = collected.config
    if config.stash.get(_REFUSED, False):
        return
    config.stash[_REFUSED] = True
    shipped = names()
    missing = dict.fromkeys(name for name in config.stash[AGAINST] or () if name != ALL and name not in shipped)
    own: dict[str, None] = {}
    for path in _model_files(config, collected.path):
        if not missing:
            return
        for name in _names_of_model(path):
            own[name] = None
            missing.pop(name, None)
    if missing:
        raise pytest.Collector.CollectError(
            "\n".join(_unknown(config, name, [*sorted(own), *shipped]) for name in missing)
        )


def _unknown(config: pytest.Config, name: str, known: list[str]) -> str:
    by_option = name in config.stash[BY_OPTION]
    place = "--fsm-against" if by_option else f"{config.rootpath / 'pyproject.toml'}: [tool.fsm.against]"
    return f"{place}: '{printable(name)}' is not the name of a model\n    {nearest(name, known, of='models')}"


def _model_files(config: pytest.Config, collected: Path) -> Iterator[Path]:
    """Yield model files, nearest first. Some may occur twice."""
    yield from (collected.parent.parent / "models").glob("*.toml")
    pruned = config.getini("norecursedirs")
    asked = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    seen: set[str] = set()
    for top in (config.rootpath, *(path if path.is_dir() else path.parent for path in asked)):
        for folder, inner, files in os.walk(top, followlinks=True):  # as pytest does
            if "models" in Path(folder).parts:
                yield from (Path(folder, file) for file in files if file.endswith(".toml"))
            real = os.path.realpath(folder)
            left = [] if real in seen else inner
            inner[:] = [name for name in left if not any(fnmatch(name, pattern) for pattern in pruned)]
            seen.add(real)


def _names_of_model(path: Path) -> set[str]:
    try:
        machine = tomllib.loads(path.read_text(encoding="utf-8")).get("machine")
    except (OSError, ValueError):
        machine = None
    name = machine.get("name") if isinstance(machine, dict) else None
    return {path.stem, name} if isinstance(name, str) else {path.stem}
