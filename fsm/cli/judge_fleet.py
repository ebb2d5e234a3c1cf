"""``fsm judge --engine spark``: judge each recording in a task of a cluster, and combine the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from fsm.cli.options import layout
from fsm.cli.output import put
from fsm.errors import WRONG_INPUT, of_extra
from fsm.fleet.summary import named, written
from fsm.fleet.summary_report import text
from fsm.recordings import matching

if TYPE_CHECKING:
    from collections.abc import Mapping


_FORMS: Final = ("text", "summary")

_WHOLE: Final = (
    "calls",
    "properties",
    "only",
    "every",
    "follow",
    "metrics",
    "rotated",
    "since",
    "until",
    "entity",
    "coverage",
)
"""Options of ``fsm judge`` that need the whole recording in one place, or report more than a summary."""


def on_cluster(given: Mapping[str, Any], master: str) -> int:
    """Judge recordings on the cluster *master* and print the combined result. *given* maps parameters to values."""
    for option in _WHOLE:
        if given[option]:
            flag = {"calls": "with", "only": "property", "every": "all"}.get(option, option)
            raise click.BadParameter("only judging in one process has that: leave out --engine", param_hint=f"--{flag}")
    if given["form"] not in _FORMS:
        raise click.BadParameter("a fleet has text and summary", param_hint="--format")
    if "-" in given["traces"]:
        raise click.BadParameter("workers cannot read standard input: give files", param_hint="TRACE")
    spark = of_extra("fsm.fleet.spark", "--engine spark", extra="spark")
    session = spark.session(master)
    try:
        found, problems = spark.judge_files(
            session,
            named(each for trace in given["traces"] for each in matching(trace)),
            models=tuple(dict.fromkeys(given["models"])),
            profile=given["profile"],
            fresh=given["fresh"],
            restarts=given["restarts"],
            shortest_restart=given["shortest_restart"] / 1000,
        ).summary()
    finally:
        session.stop()
    output, least = given["output"], given["fail_on"]
    if given["form"] == "summary":
        put(written(found).encode(), output)
    elif output is None:
        click.echo(text(found, layout(), least=least), nl=False)
    else:
        put(text(found, layout(coloured=False), least=least).encode("utf-8", "replace"), output)
    for each in problems:
        click.echo(each, err=True)
    return WRONG_INPUT if problems else found.answer(least).value
