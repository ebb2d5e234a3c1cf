"""Compile functions with numba on first use, and cache the machine code.

The cache folder of each package (:func:`fsm.scratch.code_folder`) is named after a hash of certain modules. A
compiled function must only use definitions from these modules. If the folder is not writable, every process compiles
the functions again.

Numba counts references to arrays. If functions pass many arrays around, this can cost more than the work itself. A
*lean* function is compiled without reference counting and must not create arrays.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any, Final, Self, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numpy.typing import NDArray

from fsm.scratch import code_folder

Number: TypeAlias = int | np.int64
"""An integer. Compiled functions treat Python's and numpy's integers alike."""

Bytes: TypeAlias = NDArray[np.uint8]
Codes: TypeAlias = NDArray[np.int32]
Numbers: TypeAlias = NDArray[np.int64]

SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
FOLD: Final = np.uint64(32)
EIGHT: Final = np.uint64(8)
"""Unsigned constants. In numba, an operation on signed and unsigned integers returns a float."""

ZERO: Final = np.int64(0)
"""A typed zero. For a literal 0, numba would compile the function again."""

F = TypeVar("F", bound=Callable[..., object])

_njit: Final = cast("Callable[..., Callable[[object], object]]", numba.njit)
"""``numba.njit`` with a different type, because its annotations lack the option to disable reference counting."""

_INNER: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_CACHED: Final = {"no_cfunc_wrapper": True}
"""Options that leave out the wrapper for calls from C. This saves a third of the compilation time."""

_SLOW: Final[Mapping[str, str]] = {
    "packed": "the search of large systems, once, about 10 s",
    "recordings": "the reader of large logs, once, about 8 s",
}
"""Descriptions of packages that take long to compile. Other packages take about a second."""

_announced: set[str] = set()


class _Compiling:
    def __init__(self, *, cached: bool = True, **options: bool) -> None:
        self._cached = cached
        self._options = {**(_CACHED if cached else _INNER), **options}

    def __call__(self, function: F) -> F:
        dispatcher = _njit(**self._options)(function)
        if self._cached and code_folder(Path(function.__code__.co_filename).parent):
            vars(dispatcher)["_cache"] = _Cache(function)  # type: ignore[no-untyped-call]
        return cast("F", dispatcher)


inner: Final = _Compiling(cached=False)
"""Compile a function that only other compiled functions can call."""
lean_inner: Final = _Compiling(cached=False, _nrt=False)
"""Like :data:`inner`, but without reference counting. The function must not create arrays."""
compiled: Final = _Compiling()
"""Compile a function and cache the machine code. All calls must pass arguments of the same types."""
lean: Final = _Compiling(_nrt=False)
"""Like :data:`compiled`, but without reference counting. The function must not create arrays."""
compiled_nogil: Final = _Compiling(nogil=True)
"""Like :data:`compiled`, but the function releases the GIL while it runs."""


class _Locator:
    """Locates the cache of a function.

    No timestamps are needed, because each version of the sources has its own folder.
    """

    def __init__(self, function: FunctionType) -> None:
        self._code = function.__code__
        self._py_file = self._code.co_filename  # numba's warning names this file if it cannot cache a function

    @classmethod
    def from_function(cls, function: FunctionType, _path: str) -> Self:
        return cls(function)

    def get_cache_path(self) -> str:
        return code_folder(Path(self._code.co_filename).parent)

    def ensure_cache_path(self) -> None:
        Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return str(self._code.co_firstlineno)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # type: ignore[list-item]  # noqa: RUF012  (as in numba)


class _Cache(FunctionCache):
    _impl_class = _Implementation

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401  (of numba's types)
        found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is None:
            _announce(Path(self._py_func.__code__.co_filename).parent.name)
        return found


def _announce(package: str) -> None:
    if package in _SLOW and package not in _announced and sys.stderr is not None and sys.stderr.isatty():
        _announced.add(package)
        with suppress(OSError):
            sys.stderr.write(f"\r\x1b[Kcompiling {_SLOW[package]}\n")  # overwrites a progress bar


@lean_inner
def hashed(text: NDArray[np.uint8], start: Number, end: Number) -> np.uint64:
    """Return a hash of ``text[start:end]``. All of its bits are well mixed."""
    at, last, mixed = np.uint64(start), np.uint64(end), np.uint64(end - start)
    while at + EIGHT <= last:
        mixed = (mixed ^ eight(text, at)) * SPREAD
        mixed ^= mixed >> FOLD
        at += EIGHT
    while at < last:
        mixed = (mixed ^ np.uint64(text[at])) * SPREAD
        at += np.uint64(1)
    mixed = (mixed ^ mixed >> np.uint64(29)) * SPREAD  # The last bytes must also affect the lowest bits.
    return mixed ^ mixed >> FOLD


@lean_inner
def alike(text: NDArray[np.uint8], start: Number, other: NDArray[np.uint8], begin: Number, length: Number) -> bool:
    """Check whether *text* at *start* and *other* at *begin* contain the same *length* bytes."""
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
    at, by = np.uint64(start), np.uint64(begin)
    for offset in range(np.uint64(length)):
        to[by + offset] = text[at + offset]


@lean_inner
def eight(text: NDArray[np.uint8], at: np.uint64) -> np.uint64:
    """Read eight bytes as a little-endian integer."""
    word = np.uint64(0)
    for number in range(8):
        word |= np.uint64(text[at + np.uint64(number)]) << np.uint64(8 * number)
    return word
