"""Functions compiled to machine code, when they are first called; the code is kept in the user's cache folder.

It is kept by the text of the package that the function is of, so that code of another version is never used, and may be
deleted at any time.  A compiled function therefore calls others of its own package only.  Where nothing can be written,
it is compiled in each process.
"""

import hashlib
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, cast

import numba
import numpy as np

Number: TypeAlias = int | np.int64
"""A number in a compiled function, where both are the same."""

ENOUGH: Final = 1 << 24
"""Bytes of which the machine code takes a small part."""

F = TypeVar("F", bound=Callable[..., object])


def inner(function: F) -> F:
    """*function*, which only compiled functions call, as a part of their machine code."""
    return cast("F", numba.njit(function))


def compiled(function: F) -> F:
    """*function*, which is always called with arguments of the same types, as machine code that is kept."""
    folder = _folder(Path(function.__code__.co_filename).parent)
    if not folder:
        return inner(function)
    config = vars(numba.config)  # read when a function is wrapped
    before = config["CACHE_DIR"]
    config["CACHE_DIR"] = folder
    try:
        return cast("F", numba.njit(cache=True)(function))
    finally:
        config["CACHE_DIR"] = before


@cache
def _folder(package: Path) -> str:
    """Where the machine code of the text of the folder *package* is kept; empty if nothing can be written there."""
    kept = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  (Path.expanduser raises where there is no home)
    texts = b"".join(path.read_bytes() for path in [Path(__file__), *sorted(package.glob("*.py"))])
    folder = Path(kept) / "container-fsm" / hashlib.sha256(texts).hexdigest()[:16]
    if not folder.is_absolute():
        return ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    written = os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free > ENOUGH
    return str(folder) if written else ""
