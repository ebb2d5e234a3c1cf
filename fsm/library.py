"""Where the shipped models lie, and how to get one by name."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from fsm.building import build
from fsm.errors import InputError, Problem, nearest
from fsm.reading import read

if TYPE_CHECKING:
    from fsm.machine import Machine

DISTRIBUTION = "container-fsm"


def home() -> Path:
    """The folder that holds ``models`` and ``properties``: the wheel's copy, or the checkout.

    Raises ``FileNotFoundError`` where neither is there.

    >>> (home() / "models").is_dir()
    True
    """
    package = Path(str(files("fsm")))
    shipped = package / "_shipped"
    if shipped.is_dir():
        return shipped
    project = package.parent / "pyproject.toml"
    if project.is_file():
        with project.open("rb") as file:
            name = tomllib.load(file).get("project", {}).get("name")
        if name == DISTRIBUTION:
            return package.parent
    raise FileNotFoundError(f"no models beside {package}: reinstall {DISTRIBUTION}")


def names() -> tuple[str, ...]:
    """The names of the shipped machines, sorted.

    >>> "container-status" in names()
    True
    """
    return tuple(sorted(path.stem for path in (home() / "models").glob("*.toml")))


def load(name: str) -> Machine:
    """The machine called *name*, or the one in the model file of that path.

    Raises :class:`InputError` if there is none, or if it is not well formed.

    >>> load("container-status").initial
    'absent'
    """
    if name.endswith(".toml") or "/" in name:
        return build(read(name))
    known = names()
    if name not in known:
        hint = f"{nearest(name, known, of='models')}; or give the path of a .toml file"
        raise InputError([Problem(path=name, line=0, code="FSM001", what="is not the name of a model", hint=hint)])
    return build(read(home() / "models" / f"{name}.toml"))
