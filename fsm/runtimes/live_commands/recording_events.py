"""``fsm record``: record the events that a runtime relays to NRI plugins."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from fsm.errors import of_extra, plural, reason, visible
from fsm.interruption import INTERRUPTION
from fsm.runtimes.live_commands import say
from fsm.runtimes.sockets import unix_sockets

if TYPE_CHECKING:
    from types import ModuleType

    from fsm.runtimes.live.nri_recorder import LineWriter, NriRecorder


@click.command(
    "record", epilog="Exit codes: 0 stopped by a signal, 2 no such runtime, 74 the output could not be written."
)
@click.option(
    "--nri",
    "address",
    required=True,
    metavar="SOCKET",
    help="Socket where the runtime accepts NRI plugins, such as unix:///var/run/nri/nri.sock.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append to FILE instead of standard output. If its name ends in .gz, it is compressed and must not exist yet.",
)
def command(address: str, output: Path | None) -> int:
    """Record the events that a runtime sends to NRI plugins, until Ctrl-C or SIGTERM.

    fsm connects as a plugin that only observes: it subscribes to every event, answers immediately, and requests no
    changes. Each event is written as a line of JSON soon after it arrives. fsm reconnects when the runtime restarts.

    \b
    fsm record --nri unix:///var/run/nri/nri.sock -o events.jsonl
    fsm judge events.jsonl
    """
    recorders = of_extra("fsm.runtimes.live.nri_recorder", "fsm record")
    unix_sockets.path(address)
    new = output is not None and not os.path.lexists(output)
    try:
        file: BinaryIO = sys.stdout.buffer if output is None else recorders.opened(output)
    except OSError as error:
        raise click.FileError(str(output), reason(error)) from error
    writer = recorders.LineWriter(file)
    try:
        with unix_sockets.peers_may_leave():
            recorder = asyncio.run(_record_events(recorders, address, writer))
        _close(writer, file, own=output is not None)
    except BaseException:
        with suppress(OSError):
            _close(writer, file, own=output is not None)
        with suppress(OSError):
            if output is not None and new and not output.stat().st_size:
                output.unlink()
        raise
    counts = f"{plural(recorder.events, 'event')} on {plural(recorder.connections, 'connection')}"
    click.echo(f"recorded {counts}", err=True)
    return 0


def _close(writer: LineWriter, file: BinaryIO, *, own: bool) -> None:
    try:
        writer.close()
    finally:
        if own:
            file.close()


async def _record_events(recorders: ModuleType, address: str, writer: LineWriter) -> NriRecorder:
    with INTERRUPTION.sets() as ended:
        try:
            found: NriRecorder = await recorders.record(address, writer, ended=ended, told=partial(say, "record"))
        except recorders.NriError as error:
            raise click.ClickException(f"{visible(address)}: {error}") from error
        except OSError as error:
            if writer.error is not None:
                raise
            raise unix_sockets.unreachable(address, error) from error
    return found
