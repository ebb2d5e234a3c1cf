"""``fsm cover``, ``fsm convert`` and ``fsm merge``: work with recordings and their results."""

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import click

from fsm.cli import options
from fsm.cli.options import refuse
from fsm.cli.output import failed, progress, put, put_text, replacing
from fsm.command_options import fail_on_option, profile_option
from fsm.errors import encodable, of_extra, refused
from fsm.fleet import By, Summary, read, total, written
from fsm.fleet import text as summary_text
from fsm.machine import Level
from fsm.monitor.judgement import Judged, judge
from fsm.recordings import open_recording
from fsm.recordings.form import HISTORY
from fsm.recordings.sources import Rotated
from fsm.recordings.time_order import Assume, Restarts
from fsm.report import words
from fsm.report.cover_formats import text
from fsm.report.cover_report import CoverReport

FORMATS: Final[Mapping[str, str]] = {
    "markdown": "cover_formats",
    "html": "cover_formats",
    "json": "cover_report",
    "sh": "cover_report",
}


@click.command("cover", epilog="Exit codes: 0 coverage was written, 2 wrong input.")
@click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "--against-suite",
    "against",
    multiple=True,
    metavar="RECORDING",
    type=click.Path(readable=False),
    help="Compare with the coverage of this recording; may be repeated, to compare with several recordings together.",
)
@options.model_option(
    "Show the coverage of this model; may be repeated. Default: the models for each kind of recording."
)
@profile_option("Apply this profile to the models, such as acme-1.6.")
@options.choice_option(["text", *FORMATS], "Output format; sh is a script that makes the missing calls.")
@options.output_option
def cover_command(
    recordings: tuple[str, ...],
    against: tuple[str, ...],
    models: tuple[str, ...],
    profile: str | None,
    form: str,
    output: Path | None,
) -> int:
    """Show which parts of the specification recordings cover, and which calls would cover the rest.

    RECORDING is any input of fsm judge. Each is judged separately, and the exercised (event, state) pairs are merged.
    For each pair that no recording exercises, fsm prints the shortest sequence of calls with which a client can
    exercise the pair, as commands of a client, or the reason why no client can.

    \b
    fsm cover calls-1.jsonl calls-2.jsonl
    fsm cover ours.jsonl --against-suite theirs.jsonl
    fsm cover --format html -o coverage.html *.calls.jsonl.gz
    fsm cover --format sh calls.jsonl > missing.sh
    """
    with progress("judging", options.sizes({*recordings, *against})) as bar:
        judged = options.read_each((*recordings, *against), partial(_judge, models, profile, bar.advance))
    cover = CoverReport(*(tuple(judged[name] for name in dict.fromkeys(each)) for each in (recordings, against)))
    if form == "text":
        put_text(partial(text, cover), output)
    else:
        writer: Callable[[CoverReport], str] = getattr(importlib.import_module(f"fsm.report.{FORMATS[form]}"), form)
        put(writer(cover).encode("utf-8", "replace"), output)
    return 0


def _judge(models: tuple[str, ...], profile: str | None, advanced: Callable[[int], None], name: str) -> Judged:
    found = judge(name, models=tuple(dict.fromkeys(models)), profile=profile, advanced=advanced)
    if not found.form.name:
        what = "the file is not a recording of a kind that fsm knows"
        raise refused(name, "FSM215", what, "'fsm judge --help' lists the kinds of recordings")
    return found


@click.command("convert", epilog="Exit codes: 0 written, 2 wrong input, 74 the table could not be written.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "--output",
    "-o",
    required=True,
    metavar="FILE.parquet",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Table to write. It is written completely or not at all.",
)
@options.restart_options
@options.rotated_option
def convert_command(
    traces: tuple[str, ...], output: Path, restarts: Assume, shortest_restart: int, *, rotated: bool
) -> int:
    """Convert a recording to a table. A large recording is judged several times faster as a table.

    TRACE is any input of fsm judge except a history of concurrent operations. Judging the table yields the same
    verdicts as judging TRACE, with the line numbers of TRACE. The table is in Parquet format, with the columns of
    docs/reference/trace-format.md, for DuckDB, Polars, pandas and Spark.

    \b
    fsm convert doors.jsonl -o doors.parquet
    fsm judge doors.parquet
    """
    tables = of_extra("fsm.recordings.tables", "fsm convert", extra="fast")
    traces = tuple(dict.fromkeys(traces))
    refuse(
        len(traces) > 1 and not rotated,
        "a table can contain only one recording; for several files of one rotated recording, use --rotated",
        "TRACE",
    )
    refuse(
        output.suffix != ".parquet",
        f"the table is written in Parquet format, so the name '{output}' must end in .parquet",
        "--output",
    )
    name = ", ".join(traces)
    with progress("converting", options.sizes(traces)) as bar:
        room = Restarts(assume=restarts, shortest=shortest_restart * 1_000_000)
        source = Rotated(names=traces) if rotated else None
        recording = open_recording(name, bar.advance, restarts=room, source=source)
        hint = "'fsm judge --help' lists the kinds of recordings"
        if not recording.form.name:
            kinds = "none of its lines is a line of a log, a call, an event or an observation"
            raise refused(name, "FSM215", f"the file is not a recording: {kinds}", hint)
        if recording.form is HISTORY:
            what = "the file is a history of concurrent operations, which cannot become a table"
            raise refused(name, "FSM215", what, "judge the history itself, with 'fsm judge'")
        try:
            with replacing(output) as file:
                rows = tables.write(recording, file, room)
        except OSError as error:
            raise failed(output, error) from error
    click.echo(f"{output}: {words.plural(rows, 'observation')}, of {recording.form.title}")
    return 0


@click.command("merge", epilog="Exit codes: 0 everything holds, 1 something fails, 2 wrong input, 3 unknown.")
@click.argument("summaries", metavar="SUMMARY...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "--by",
    type=click.Choice(["clause", "version", "node"]),
    default="clause",
    help="Group the results by cause, by version of the recorded program, or by node.",
)
@fail_on_option
@options.choice_option(["text", "json"], "Output format; json is a summary that can be merged again.")
@options.output_option
def merge_command(summaries: tuple[str, ...], by: By, fail_on: Level, form: str, output: Path | None) -> int:
    """Combine the results of many nodes, wherever their recordings were judged.

    SUMMARY is the output of fsm judge --format summary. Results without a node are assigned to the node that the file
    is named after: those in node-7.json to node-7. The order of merging does not matter: the total is the same as if
    all recordings had been judged together.

    \b
    fsm judge --format summary doors.jsonl > node-7.json
    fsm merge node-*.json
    fsm merge node-*.json --by version
    fsm merge east.json west.json --format json -o all.json
    """
    whole = total(options.read_each(summaries, _summary_of_node).values())
    if form == "json":
        put(written(whole).encode(), output)
    else:
        put_text(lambda layout: summary_text(whole, layout, by=by, least=fail_on), output)
    return whole.answer(fail_on).value


def _summary_of_node(name: str) -> Summary:
    return total([read(name)], "" if name == "-" else encodable(Path(name).name.removesuffix(".json")))
