"""Functions that numba compiles on first call, caching the machine code in the user's cache directory.

The cache key is a hash of the name of the function's package, of the source of this module, and of all modules with
compiled functions in that package.  Code from another version is therefore never used, and identical sources share code
wherever the package is installed.  A compiled function may use only definitions from the hashed modules.  The cache can
be deleted at any time. If it is not writable, functions are compiled again in each process.

Numba counts references to arrays.  If many arrays are passed between functions, reference counting costs more than the
work itself.  A *lean* function is compiled without reference counting and must not create arrays.
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
"""An integer.  Compiled functions treat both types alike."""

Bytes: TypeAlias = NDArray[np.uint8]
Codes: TypeAlias = NDArray[np.int32]
Numbers: TypeAlias = NDArray[np.int64]

ENOUGH: Final = 1 << 24
"""Minimum free disk space, in bytes, for caching machine code.  The code itself takes much less."""

SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
FOLD: Final = np.uint64(32)
EIGHT: Final = np.uint64(8)
"""These are unsigned because numba turns arithmetic that mixes signed and unsigned integers into floats."""

ZERO: Final = np.int64(0)
"""Pass this instead of a literal 0, for which numba would compile the function again."""

F = TypeVar("F", bound=Callable[..., object])


_njit: Final = cast("Callable[..., Callable[[object], object]]", numba.njit)
"""``numba.njit``, cast because its annotations lack the option that disables reference counting."""

_LEAN: Final = {"_nrt": False}
_INNER: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_KEPT: Final = {"no_cfunc_wrapper": True}
"""Omits the wrapper for calls from C, which takes a third of the compilation time."""


def inner(function: F) -> F:
    """Compile *function* for calls from other compiled functions only.  Python code cannot call it."""
    return cast("F", _njit(**_INNER)(function))


def lean_inner(function: F) -> F:
    """Like :func:`inner`, for a *function* that creates no arrays."""
    return cast("F", _njit(**_INNER, **_LEAN)(function))


def compiled(function: F) -> F:
    """Compile *function* and cache the machine code.  Every call must pass arguments of the same types."""
    return _kept(function, {})


def lean(function: F) -> F:
    """Like :func:`compiled`, for a *function* that creates no arrays."""
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
    """Cache locator for *function*.  Each folder belongs to one version of the sources, so timestamps don't matter."""

    def __init__(self, function: FunctionType) -> None:
        self._code = function.__code__
        self._py_file = self._code.co_filename  # numba names this file if it warns that it cannot cache

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
    """Check whether the module with the source *text* defines compiled functions, or functions that others compile."""
    return any(
        b"\n" + each in text for each in (b"@compiled", b"@beside", b"@inner", b"@lean", b"# Compiled code uses")
    )


@cache
def _folder(package: Path) -> str:
    """Return the cache folder for the machine code of *package*, or an empty string if it is not writable."""
    usual = os.path.expanduser("~/.cache")  # noqa: PTH111  (Path.expanduser raises where there is no home)
    kept = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or usual
    texts = (path.read_bytes() for path in [Path(__file__), *sorted(package.glob("*.py"))])
    name = os.path.relpath(package, Path(__file__).parent).encode()  # machine code has the names of its modules
    text = name + b"".join(each for each in texts if is_compiled(each))
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
    """Return a hash of ``text[start:end]``, reading eight bytes at a time.  All of its bits are well mixed."""
    at, last, mixed = np.uint64(start), np.uint64(end), np.uint64(end - start)
    while at + EIGHT <= last:
        mixed = (mixed ^ eight(text, at)) * SPREAD
        mixed ^= mixed >> FOLD
        at += EIGHT
    while at < last:
        mixed = (mixed ^ np.uint64(text[at])) * SPREAD
        at += np.uint64(1)
    mixed = (mixed ^ mixed >> np.uint64(29)) * SPREAD  # lets the last bytes affect the lowest bits
    return mixed ^ mixed >> FOLD


@lean_inner
def alike(text: NDArray[np.uint8], start: Number, other: NDArray[np.uint8], begin: Number, length: Number) -> bool:
    """Check whether *length* bytes of *text* at offset *start* equal those of *other* at offset *begin*."""
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
    """Copy *length* bytes of *text* at offset *start* to offset *begin* of *to*."""
    at, by = np.uint64(start), np.uint64(begin)
    for each in range(np.uint64(length)):
        to[by + each] = text[at + each]


@lean_inner
def eight(text: NDArray[np.uint8], at: np.uint64) -> np.uint64:
    """Return the eight bytes at offset *at* as a little-endian integer."""
    word = np.uint64(0)
    for each in range(8):
        word |= np.uint64(text[at + np.uint64(each)]) << np.uint64(8 * each)
    return word
