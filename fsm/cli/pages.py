"""What commands that make pages have in common: standard input that is read twice, and Graphviz that is not there."""

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
    """Refuse what needs Graphviz where it is not there, as ``fsm draw`` does."""
    from fsm.diagrams.draw.image import (  # noqa: PLC0415  (which takes its time, and most reports are no pages)
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
    """Gives what lets standard input be read from its beginning once more, if it is among the *names*."""
    before = sys.stdin
    if STDIN not in names or before is None:
        yield lambda: None
        return
    with tempfile.TemporaryFile() as kept:
        try:
            shutil.copyfileobj(stdin(), kept)
        except OSError:  # which reading it says
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
