"""Helpers for commands that make pages: judging a recording twice, and reporting a missing Graphviz."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from fsm.errors import stdin
from fsm.recordings.line_reader import STDIN

if TYPE_CHECKING:
    from fsm.monitor.judgement import Judged
    from fsm.monitor.judgement.stories import Telling


@contextmanager
def drawing(what: str = "a page", advice: str = "") -> Iterator[None]:
    """Convert errors about a missing or failing Graphviz, which *what* needs, to errors of the command line."""
    from fsm.diagrams.draw.image import (  # noqa: PLC0415  (slow to import, and only for pictures)
        HOW_TO_GET_DOT,
        DotFailedError,
        NoDotError,
    )

    try:
        yield
    except NoDotError as error:
        message = f"{what} needs Graphviz's program 'dot', which is not there: {HOW_TO_GET_DOT}{advice}"
        raise click.ClickException(message) from error
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

        def rewind() -> None:
            kept.seek(0)
            sys.stdin = io.TextIOWrapper(os.fdopen(os.dup(kept.fileno()), "rb"))

        rewind()
        try:
            yield rewind
        finally:
            sys.stdin = before


def judged_twice(judged: Judged, rewind: Callable[[], None], judge: Callable[..., Judged]) -> Judged:
    """Return *judged* with the stories of its entities, which *judge* collects from the recording after *rewind*."""
    from fsm.monitor.judgement.stories import with_stories  # noqa: PLC0415  (slow to import)

    def collect(telling: Telling) -> Judged:
        rewind()
        return judge(telling=telling)

    return with_stories(judged, collect)
