"""Functions compiled to machine code, when they are first called; the code is kept in the user's cache folder.

It is kept by the text of the package that the function is of, so that code of another version is never used, and may be
deleted at any time.  A compiled function therefore calls others of its own package only, and those here.  Where nothing can
be written, it is compiled in each process.

Numba counts who has an array.  Where many are handed from function to function that costs more than what is done with them; a
*lean* function does not count, and makes no arrays.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Number: TypeAlias = int | np.int64
"""A number in a compiled function, where both are the same."""

Bytes: TypeAlias = NDArray[np.uint8]
Codes: TypeAlias = NDArray[np.int32]
Numbers: TypeAlias = NDArray[np.int64]

ENOUGH: Final = 1 << 24
"""Bytes of which the machine code takes a small part."""

SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
FOLD: Final = np.uint64(32)
EIGHT: Final = np.uint64(8)
"""Of numbers without a sign, since another number with them becomes a fraction."""

F = TypeVar("F", bound=Callable[..., object])


_njit: Final = cast("Callable[..., Callable[[object], object]]", numba.njit)
"""The decorator with all of its options: the one by which nothing is counted is not among those that have types."""

_LEAN: Final = {"_nrt": False}


def inner(function: F) -> F:
    """*function*, which only compiled functions call, as a part of their machine code."""
    return cast("F", numba.njit(function))


def lean_inner(function: F) -> F:
    """*function*, which only compiled functions call and which makes no arrays, as a part of their machine code."""
    return cast("F", _njit(**_LEAN)(function))


def compiled(function: F) -> F:
    """*function*, which is always called with arguments of the same types, as machine code that is kept."""
    return _kept(function, {})


def lean(function: F) -> F:
    """*function*, which is always called with arguments of the same types and makes no arrays, as machine code that is kept."""
    return _kept(function, _LEAN)


def _kept(function: F, options: Mapping[str, bool]) -> F:
    """*function* as machine code that is kept where there is a place."""
    folder = _folder(Path(function.__code__.co_filename).parent)
    if not folder:
        return cast("F", _njit(**options)(function))
    config = vars(numba.config)  # read when a function is wrapped
    before = config["CACHE_DIR"]
    config["CACHE_DIR"] = folder
    try:
        return cast("F", _njit(cache=True, **options)(function))
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


@lean_inner
def hashed(text: NDArray[np.uint8], start: Number, end: Number) -> np.uint64:
    """A hash of the bytes from *start* to *end*, all of whose bits are of use."""
    return spread(text, start, end, np.uint64(end - start))


@lean_inner
def spread(text: NDArray[np.uint8], start: Number, end: Number, mixed: np.uint64) -> np.uint64:
    """A hash of *mixed* and of the bytes from *start* to *end*, eight at once while there are so many."""
    at, last = np.uint64(start), np.uint64(end)
    while at + EIGHT <= last:
        mixed = (mixed ^ eight(text, at)) * SPREAD
        mixed ^= mixed >> FOLD
        at += EIGHT
    while at < last:
        mixed = (mixed ^ np.uint64(text[at])) * SPREAD
        at += np.uint64(1)
    mixed = (mixed ^ mixed >> np.uint64(29)) * SPREAD  # so that the last bytes matter to the lowest bits
    return mixed ^ mixed >> FOLD


@lean_inner
def alike(text: NDArray[np.uint8], start: Number, other: NDArray[np.uint8], begin: Number, length: Number) -> bool:
    """Whether *length* bytes of *text* and of the *other* are the same, from *start* and from where these *begin*."""
    at, by, last = np.uint64(start), np.uint64(begin), np.uint64(start + length)
    while at + EIGHT <= last:
        if eight(text, at) != eight(other, by):
            return False
        at += EIGHT
        by += EIGHT
    while at < last:
        if text[at] != other[by]:
            return False
        at += np.uint64(1)
        by += np.uint64(1)
    return True


@lean_inner
def eight(text: NDArray[np.uint8], at: np.uint64) -> np.uint64:
    """Eight bytes from *at* on as one number, the first of them the lowest."""
    word = np.uint64(0)
    for each in range(8):
        word |= np.uint64(text[at + np.uint64(each)]) << np.uint64(8 * each)
    return word
