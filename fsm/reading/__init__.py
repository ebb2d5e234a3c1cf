"""From a TOML file to a model as written, with the line of every word in it.

Reading knows bytes (:mod:`fsm.reading.toml`), lines (:mod:`fsm.reading.lines`)
and the vocabulary of :mod:`fsm.model` (:mod:`fsm.reading.forms`); whether the
names in a model fit together is for :mod:`fsm.building` to say.  All mistakes
of a file are reported at once.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from fsm.errors import InputError, Problem
from fsm.model import Written
from fsm.reading.forms import misfits
from fsm.reading.lines import Lines, locate
from fsm.reading.toml import LARGEST, document


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as written, and where each of its words stands."""

    path: str
    written: Written
    lines: Lines


def read(path: str | Path) -> Model:
    """The model in the file at *path*.

    Raises :class:`InputError` with every mistake of form in the file.
    """
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        hint = "give the path of a model file, or a name from 'fsm list'"
        problem = Problem(path=name, line=0, code="FSM001", what=f"cannot be opened: {reason}", hint=hint)
        raise InputError([problem]) from error
    return parse(data, path=name)


def parse(data: bytes, *, path: str) -> Model:
    """The model in *data*; *path* is only the name that problems carry.

    >>> parse(b"x = ", path="door.toml")
    Traceback (most recent call last):
    fsm.errors.InputError: door.toml:1: is not TOML: invalid value (at end of document) [FSM004]
        see https://toml.io/en/v1.0.0
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    content = document(data, path)
    lines = locate(data)
    try:
        written = Written.model_validate(content)
    except ValidationError as error:
        raise InputError(misfits(error.errors(include_url=False), content, path, lines)) from error
    return Model(path=path, written=written, lines=lines)
