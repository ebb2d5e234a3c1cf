"""Describe exceptions raised by a system under test."""

import os
import sysconfig
from contextlib import suppress
from functools import cache
from pathlib import Path
from traceback import walk_tb
from typing import Final

_INSTALLED: Final = ("site-packages", "dist-packages")


def raised(error: BaseException) -> str:
    """Describe *error* and its origin: the innermost frame in the user's code or, failing that, the innermost frame.

    >>> try:
    ...     {}["boom"]
    ... except KeyError as error:
    ...     raised(error).rpartition(":")[0].startswith("raised KeyError: 'boom' at ")
    True
    """
    text = str(error)
    what = f"raised {type(error).__name__}" + (f": {text}" if text else "")
    places = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
    own = [(code, line) for code, line in places if not _is_library(code.co_filename)]
    for code, line in (own or places)[-1:]:
        function = "" if code.co_name == "<module>" else f" in {code.co_name}"
        what += f" at {_relative(code.co_filename)}:{line}{function}"
    return what


@cache
def _is_library(file: str) -> bool:
    if file.startswith("<"):
        return True
    path = Path(os.path.abspath(file))  # noqa: PTH100 - only a name: the file need not exist
    libraries = [Path(sysconfig.get_path(each)) for each in ("stdlib", "platstdlib")]
    ours = Path(__file__).parents[1]
    return any(path.is_relative_to(each) for each in (ours, *libraries)) or not {*path.parts}.isdisjoint(_INSTALLED)


def _relative(file: str) -> str:
    with suppress(OSError, ValueError):  # the working folder may have been removed
        return str(Path(file).relative_to(Path.cwd()))
    return file
