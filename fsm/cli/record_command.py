"""``fsm record``: what a runtime tells NRI plugins, as a recording."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from fsm.errors import visible
from fsm.interruption import INTERRUPTION
from fsm.live import sockets
from fsm.report import words

if TYPE_CHECKING:
    from fsm.live.nri_recorder import LineWriter, NriRecorder

LIBRARY = "needs {}: pip install 'container-fsm[live]'"


@click.command(
    "record", epilog="Exit codes: 0 ended by a signal, 2 there is no such runtime, 74 nothing could be written."
)
@click.option(
    "--nri",
    "address",
    required=True,
    metavar="SOCKET",
    help="Where the runtime takes NRI plugins, as unix:///var/run/nri/nri.sock.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to add to; compressed if it ends in .gz, and then it must be new. By default standard output.",
)
def command(address: str, output: Path | None) -> int:
    """Record what a runtime tells NRI plugins, until Ctrl-C or SIGTERM.

    It connects as a plugin that observes: it subscribes to every event, answers at once, and asks for no changes. Each
    line is written soon after its event, as JSON. When the runtime restarts, it connects again.

    \b
    fsm record --nri unix:///var/run/nri/nri.sock -o events.jsonl
    fsm judge events.jsonl
    """
    try:
        recorders: Any = import_module("fsm.live.nri_recorder")
    except ModuleNotFoundError as error:
        raise click.ClickException(f"fsm record {LIBRARY.format(error.name)}") from error
    sockets.path(address)
    file = _opened(output, recorders.opened)
    writer = recorders.LineWriter(file)
    try:
        recorder = asyncio.run(_recorded(recorders, address, writer))
    finally:
        _close(writer, file, own=output is not None)
    counts = f"{words.plural(recorder.events, 'event')} on {words.plural(recorder.connections, 'connection')}"
    click.echo(f"recorded {counts}", err=True)
    return 0


def _opened(output: Path | None, opened: Any) -> BinaryIO:  # noqa: ANN401  (a function of a module that may be missing)
    if output is None:
        return sys.stdout.buffer
    try:
        file: BinaryIO = opened(output)
    except OSError as error:
        raise click.FileError(str(output), (error.strerror or str(error)).lower()) from error
    return file


def _close(writer: LineWriter, file: BinaryIO, *, own: bool) -> None:
    """Write what waits; *own* is a file that was opened here, and is closed whatever happens."""
    try:
        writer.close()
    finally:
        if own:
            file.close()


async def _recorded(recorders: Any, address: str, writer: LineWriter) -> NriRecorder:  # noqa: ANN401  (as above)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.call_soon_threadsafe(ended.set)

    with INTERRUPTION.ends(end):
        try:
            found: NriRecorder = await recorders.record(address, writer, ended=ended, told=_tell)
        except recorders.NriError as error:
            raise click.ClickException(f"{visible(address)}: {error}") from error
        except OSError as error:
            if writer.error is not None:
                raise
            raise sockets.unreachable(address, error) from error
    return found


def _tell(what: str) -> None:
    with suppress(OSError):
        click.echo(f"fsm record: {visible(what)}", err=True)
