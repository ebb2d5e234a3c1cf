"""``fsm merge``: add up the summaries of many judgements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fsm.cli.options import choice_option, output_option
from fsm.cli.output import put, put_text
from fsm.command_options import fail_on_option
from fsm.errors import InputError, encodable
from fsm.fleet.summary import read, total, written
from fsm.fleet.summary_report import text

if TYPE_CHECKING:
    from fsm.errors import Problem
    from fsm.fleet.summary import Summary
    from fsm.fleet.summary_report import By
    from fsm.machine import Level


@click.command("merge", epilog="Exit codes: 0 everything holds, 1 something fails, 2 wrong input, 3 unknown.")
@click.argument("summaries", metavar="SUMMARY...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "--by",
    type=click.Choice(["clause", "version", "node"]),
    default="clause",
    help="Group the results by cause, by version of the recorded program, or by node.",
)
@fail_on_option
@choice_option(["text", "json"], "Output format; json is a summary that can be merged again.")
@output_option
def command(summaries: tuple[str, ...], by: By, fail_on: Level, form: str, output: Path | None) -> int:
    """Combine the results of many nodes, wherever their recordings were judged.

    SUMMARY is the output of fsm judge --format summary. Results without a node are assigned to the node that the file
    is named after: those in node-7.json to node-7. The order of merging does not matter: the total is the same as that
    of judging all recordings together.

    \b
    fsm judge --format summary doors.jsonl > node-7.json
    fsm merge node-*.json
    fsm merge node-*.json --by version
    fsm merge east.json west.json --format json -o all.json
    """
    found: list[Summary] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(summaries):
        try:
            found.append(total([read(name)], "" if name == "-" else encodable(Path(name).name.removesuffix(".json"))))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    whole = total(found)
    if form == "json":
        put(written(whole).encode(), output)
    else:
        put_text(lambda layout: text(whole, layout, by=by, least=fail_on), output)
    return whole.answer(fail_on).value
