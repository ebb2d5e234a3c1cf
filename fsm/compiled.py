"""Functions compiled to machine code when they are first called; the code is kept in the user's cache folder.

The code is stored under a hash of the text of all modules with compiled functions in the function's package.  So code
of another version is never used, and code of the same text is, wherever the package is; it may be deleted at any time.
A compiled function may therefore use only definitions in these modules and in this one.  If nothing can be written, it
is compiled in each process.

Numba counts references to arrays.  If many arrays are passed from function to function, counting costs more than the
work itself; a *lean* function does not count, and makes no arrays.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Final, Self, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numpy.typing import NDArray

Number: TypeAlias = int | np.int64
"""A number; in a compiled function both types are the same."""

Bytes: TypeAlias = NDArray[np.uint8]
Codes: TypeAlias = NDArray[np.int32]
Numbers: TypeAlias = NDArray[np.int64]

ENOUGH: Final = 1 << 24
"""Free bytes required to keep machine code, which takes a small part of them."""

SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
FOLD: Final = np.uint64(32)
EIGHT: Final = np.uint64(8)
"""Unsigned, because arithmetic with a signed number would result in a float."""

ZERO: Final = np.int64(0)
"""Passed instead of a literal 0, for which the function would be compiled once more."""

F = TypeVar("F", bound=Callable[..., object])


_njit: Final = cast("Callable[..., Callable[[object], object]]", numba.njit)
"""The decorator with all of its options: the one that turns off reference counting has no type."""

_LEAN: Final = {"_nrt": False}
_INNER: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_KEPT: Final = {"no_cfunc_wrapper": True}
"""Leaves out what only calls from elsewhere need; compiling that as well took a third of the time."""


def inner(function: F) -> F:
    """Compile *function* into the compiled functions that call it; Python cannot call it at all."""
    return cast("F", _njit(**_INNER)(function))


def lean_inner(function: F) -> F:
    """Like :func:`inner`, for a *function* that makes no arrays."""
    return cast("F", _njit(**_INNER, **_LEAN)(function))


def compiled(function: F) -> F:
    """Compile *function*, which is always called with arguments of the same types, and keep the machine code."""
    return _kept(function, {})


def lean(function: F) -> F:
    """Like :func:`compiled`, for a *function* that makes no arrays."""
    return _kept(function, _LEAN)


def beside(function: F) -> F:
    """Like :func:`compiled`, but the machine code releases the GIL."""
    return _kept(function, {"nogil": True})


def _kept(function: F, options: Mapping[str, bool]) -> F:
    dispatcher = _njit(**_KEPT, **options)(function)
    if _folder(Path(function.__code__.co_filename).parent):
        vars(dispatcher)["_cache"] = _Kept(function)  # type: ignore[no-untyped-call]
    return cast("F", dispatcher)


class _Place:
    """Location of the kept code of *function*; a folder has code of one text only, so no times are compared."""

    def __init__(self, function: FunctionType) -> None:
        self._code = function.__code__
        self._py_file = self._code.co_filename  # in numba's warning that the code cannot be kept

    @classmethod
    def from_function(cls, function: FunctionType, _path: str) -> Self:
        return cls(function)

    def get_cache_path(self) -> str:
        return _folder(Path(self._code.co_filename).parent)

    def ensure_cache_path(self) -> None:
        Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return str(self._code.co_firstlineno)


class _Named(CompileResultCacheImpl):
    _locator_classes = [_Place]  # type: ignore[list-item]  # noqa: RUF012  (as numba has it)


class _Kept(FunctionCache):
    _impl_class = _Named


def is_compiled(text: bytes) -> bool:
    """Check whether the module with this *text* has compiled functions."""
    return any(b"\n@" + each in text for each in (b"compiled", b"beside", b"inner", b"lean"))


@cache
def _folder(package: Path) -> str:
    """Return the folder for the machine code of the modules in *package*; empty if it cannot be written."""
    kept = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  (Path.expanduser raises where there is no home)
    texts = (path.read_bytes() for path in [Path(__file__), *sorted(package.glob("*.py"))])
    text = b"".join(each for each in texts if is_compiled(each))
    folder = Path(kept) / "container-fsm" / hashlib.sha256(text).hexdigest()[:16]
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
    """Return a hash, all of whose bits are usable, of the bytes from *start* to *end*; reads eight at a time."""
    at, last, mixed = np.uint64(start), np.uint64(end), np.uint64(end - start)
    while at + EIGHT <= last:
        mixed = (mixed ^ eight(text, at)) * SPREAD
        mixed ^= mixed >> FOLD
        at += EIGHT
    while at < last:
        mixed = (mixed ^ np.uint64(text[at])) * SPREAD
        at += np.uint64(1)
    mixed = (mixed ^ mixed >> np.uint64(29)) * SPREAD  # so that the last bytes affect the lowest bits
    return mixed ^ mixed >> FOLD


@lean_inner
def alike(text: NDArray[np.uint8], start: Number, other: NDArray[np.uint8], begin: Number, length: Number) -> bool:
    """Check whether *length* bytes are equal in *text* from *start* on and in *other* from *begin* on."""
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
def copied(text: NDArray[np.uint8], start: Number, to: NDArray[np.uint8], begin: Number, length: Number) -> None:
    """Copy *length* bytes of *text*, from *start* on, into *to*, from *begin* on."""
    at, by = np.uint64(start), np.uint64(begin)
    for each in range(np.uint64(length)):
        to[by + each] = text[at + each]


@lean_inner
def eight(text: NDArray[np.uint8], at: np.uint64) -> np.uint64:
    """Return the eight bytes from *at* on as one number, the first byte lowest."""
    word = np.uint64(0)
    for each in range(8):
        word |= np.uint64(text[at + np.uint64(each)]) << np.uint64(8 * each)
    return word
