"""``fsm convert``: convert a recording to a table of its observations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fsm.cli.options import restart_options, rotated_option, sizes
from fsm.cli.output import failed, replacing
from fsm.cli.progress import progress
from fsm.errors import of_extra, refused
from fsm.recordings import open_recording
from fsm.recordings.form import HISTORY
from fsm.recordings.sources import Rotated
from fsm.recordings.time_order import Restarts
from fsm.report import words

if TYPE_CHECKING:
    from fsm.recordings.time_order import Assume


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
@restart_options
@rotated_option
def command(traces: tuple[str, ...], output: Path, restarts: Assume, shortest_restart: int, *, rotated: bool) -> int:
    """Convert a recording to a table, which is judged several times faster if it is large.

    TRACE is any input of fsm judge except a history of concurrent operations. Judging the table yields the same
    verdicts as judging TRACE, with the line numbers of TRACE. The table is in Parquet format, with the columns of
    docs/reference/trace-format.md, for DuckDB, Polars, pandas and Spark.

    \b
    fsm convert doors.jsonl -o doors.parquet
    fsm judge doors.parquet
    """
    tables = of_extra("fsm.recordings.tables", "fsm convert", extra="fast")
    traces = tuple(dict.fromkeys(traces))
    if len(traces) > 1 and not rotated:
        raise click.BadParameter(
            "a table has one recording; for several files of one recording, use --rotated", param_hint="TRACE"
        )
    if output.suffix != ".parquet":
        raise click.BadParameter(f"'{output}' would be Parquet: call it NAME.parquet", param_hint="--output")
    name = ", ".join(traces)
    with progress("converting", sizes(traces)) as bar:
        room = Restarts(assume=restarts, shortest=shortest_restart * 1_000_000)
        source = Rotated(names=traces) if rotated else None
        recording = open_recording(name, bar.advance, restarts=room, source=source)
        if not recording.form.name:
            what = "is not a recording: no line is from a log, or is a call, an event or an observation"
            raise refused(name, "FSM215", what, "see fsm judge --help for what can be judged")
        if recording.form is HISTORY:
            what = "is a history of concurrent operations, which is judged as a whole"
            raise refused(name, "FSM215", what, "judge it as it is")
        try:
            with replacing(output) as file:
                rows = tables.write(recording, file, room)
        except OSError as error:
            raise failed(output, error) from error
    click.echo(f"{output}: {words.plural(rows, 'observation')}, of {recording.form.title}")
    return 0
