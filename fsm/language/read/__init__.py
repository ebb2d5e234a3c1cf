"""Read a TOML file as a written model, with the line of every word in it.

:mod:`fsm.language.read.toml` handles bytes and lines, and :mod:`fsm.language.read.forms` the vocabulary of
:mod:`fsm.language.machine_file`.  :mod:`fsm.language.build` checks whether the names in a model fit together.  All
errors of a file are reported together.
"""

import codecs
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from pydantic import ValidationError

from fsm.errors import InputError, contents
from fsm.language.machine_file import Form, Written
from fsm.language.property_file import Stated
from fsm.language.read.forms import controls, misfits
from fsm.language.read.toml import LARGEST, Lines, document, locate
from fsm.language.schema import Vocabulary, schema
from fsm.language.system_file import WrittenSystem

F = TypeVar("F", bound=Form)


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Generic[F]):
    """A file as written, and the line of each of its words."""

    path: str
    written: F
    lines: Lines


Model: TypeAlias = File[Written]

_document = lru_cache(maxsize=1)(document)
"""Cached because the form of a file is determined just before the file is read."""


def form_of(data: bytes, *, path: str) -> type[Form]:
    """Return the form of the TOML in *data*: a machine, a system, or properties."""
    found = _document(data.removeprefix(codecs.BOM_UTF8), path)
    if "property" in found or isinstance(found.get("machine"), str):
        return Stated
    return WrittenSystem if "system" in found else Written


def content(path: str | Path) -> bytes:
    """Return the file at *path*, cut off one byte after the allowed size, or raise :class:`InputError`."""
    return contents(path, most=LARGEST, code="FSM001", hint="give the path of a model file, or a name from 'fsm list'")


def parse(data: bytes, form: type[F], *, path: str) -> File[F]:
    """Parse *data* as a file of this *form*.  *path* is used only in error messages.

    >>> parse(b"x = ", Written, path="door.toml")
    Traceback (most recent call last):
    fsm.errors.InputError: door.toml:1: is not TOML: invalid value (at end of document) [FSM004]
        see https://toml.io/en/v1.0.0
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    content = _document(data, path)
    lines = locate(data)
    if obeyed := tuple(controls(content, path, lines)):
        raise InputError(obeyed)
    try:
        written = form.model_validate(content)
    except ValidationError as error:
        vocabulary = Vocabulary(root=schema(form))
        raise InputError(misfits(error.errors(include_url=False), content, path, lines, vocabulary)) from error
    return File(path=path, written=written, lines=lines)
