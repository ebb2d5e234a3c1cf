"""``fsm cover``: report what many recordings together cover of the models."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from fsm.cli.options import choice_option, model_option, output_option, sizes
from fsm.cli.output import put, put_text
from fsm.cli.progress import progress
from fsm.command_options import profile_option
from fsm.errors import InputError, refused
from fsm.monitor.judgement import Judged, judge
from fsm.report.cover_formats import text
from fsm.report.cover_report import CoverReport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fsm.errors import Problem

FORMATS: Final[Mapping[str, str]] = {
    "markdown": "cover_formats",
    "html": "cover_formats",
    "json": "cover_report",
    "sh": "cover_report",
}
"""Maps each format to the module of its writer, which is a function named after the format."""


@click.command("cover", epilog="Exit codes: 0 coverage was written, 2 wrong input.")
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "--against-suite",
    "against",
    multiple=True,
    metavar="RECORDING",
    type=click.Path(readable=False),
    help="Compare with the coverage of this recording. Repeat to compare with several together.",
)
@model_option("Show the coverage of this model; may be repeated. Default: the models for each kind of recording.")
@profile_option("Apply this profile to the models, such as acme-1.6.")
@choice_option(["text", *FORMATS], "Output format; sh is a script that makes the missing calls.")
@output_option
def command(
    recordings: tuple[str, ...],
    against: tuple[str, ...],
    models: tuple[str, ...],
    profile: str | None,
    form: str,
    output: Path | None,
) -> int:
    """Show what recordings cover of the specification, and which calls would cover the rest.

    RECORDING is any input of fsm judge. Each is judged separately, and the (event, state) pairs that they exercise are
    merged. For each pair that no recording exercises, cover prints the shortest calls by which a client can exercise
    it, as commands of a client, or the reason why a client cannot.

    \b
    fsm cover calls-1.jsonl calls-2.jsonl
    fsm cover ours.jsonl --against-suite theirs.jsonl
    fsm cover --format html -o coverage.html *.calls.jsonl.gz
    fsm cover --format sh calls.jsonl > missing.sh
    """
    names = tuple(dict.fromkeys(recordings)), tuple(dict.fromkeys(against))
    judged: dict[str, Judged] = {}
    problems: list[Problem] = []
    every = tuple(dict.fromkeys((*names[0], *names[1])))
    with progress("judging", sizes(every)) as bar:
        for name in every:
            try:
                judged[name] = _judged(name, models, profile, bar.advance)
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(dict.fromkeys(problems))
    cover = CoverReport(*(tuple(judged[name] for name in group) for group in names))
    if form == "text":
        put_text(partial(text, cover), output)
    else:
        writer: Callable[[CoverReport], str] = getattr(importlib.import_module(f"fsm.report.{FORMATS[form]}"), form)
        put(writer(cover).encode("utf-8", "replace"), output)
    return 0


def _judged(name: str, models: tuple[str, ...], profile: str | None, advanced: Callable[[int], None]) -> Judged:
    found = judge(name, models=tuple(dict.fromkeys(models)), profile=profile, advanced=advanced)
    if not found.form.name:
        raise refused(name, "FSM215", "is no kind of recording that fsm knows", "fsm judge --help names those kinds")
    return found
