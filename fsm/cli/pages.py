"""Helpers for commands that make pages: reading standard input twice, and reporting a missing Graphviz."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import click

from fsm.errors import stdin
from fsm.recordings.line_reader import STDIN


@contextmanager
def drawing() -> Iterator[None]:
    """Convert errors about a missing or failing Graphviz to command-line errors."""
    from fsm.diagrams.draw.image import (  # noqa: PLC0415  (slow to import, and only for pages)
        HOW_TO_GET_DOT,
        DotFailedError,
        NoDotError,
    )

    try:
        yield
    except NoDotError as error:
        what = f"Graphviz's program 'dot' is not there, so there is no page: {HOW_TO_GET_DOT}"
        raise click.ClickException(what) from error
    except DotFailedError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def read_again(names: Collection[str]) -> Iterator[Callable[[], None]]:
    """Yield a function that rewinds standard input if *names* includes it. If not, the function has no effect."""
    before = sys.stdin
    if STDIN not in names or before is None:
        yield lambda: None
        return
    with tempfile.TemporaryFile() as kept:
        try:
            shutil.copyfileobj(stdin(), kept)
        except OSError:  # the error is reported when standard input is read
            yield lambda: None
            return

        def again() -> None:
            kept.seek(0)
            sys.stdin = io.TextIOWrapper(os.fdopen(os.dup(kept.fileno()), "rb"))

        again()
        try:
            yield again
        finally:
            sys.stdin = before
