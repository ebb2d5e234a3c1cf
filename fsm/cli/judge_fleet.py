"""``fsm judge --engine spark``: judge each recording in a task of a cluster, and combine the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from fsm.cli.options import JUDGE_OPTIONS
from fsm.cli.output import put, put_text
from fsm.errors import WRONG_INPUT, of_extra
from fsm.fleet import named, written
from fsm.fleet.summary_report import text
from fsm.recordings import matching

if TYPE_CHECKING:
    from collections.abc import Mapping


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
            hint = JUDGE_OPTIONS.get(option, f"--{option}")
            raise click.BadParameter("cannot be combined with --engine: leave out one of them", param_hint=hint)
    if given["form"] not in {"text", "summary"}:
        raise click.BadParameter("with --engine, it must be text or summary", param_hint="--format")
    if "-" in given["traces"]:
        raise click.BadParameter("workers cannot read standard input: give files", param_hint="TRACE")
    spark = of_extra("fsm.fleet.spark", "--engine spark", extra="spark")
    session = spark.session(master)
    try:
        found, problems = spark.judge_files(
            session,
            named(file for trace in given["traces"] for file in matching(trace)),
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
    else:
        put_text(lambda layout: text(found, layout, least=least), output)
    for problem in problems:
        click.echo(problem, err=True)
    return WRONG_INPUT if problems else found.answer(least).value
