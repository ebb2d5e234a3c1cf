"""``fsm proxy``: between clients and a runtime, what passes is recorded and judged."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import Counter
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import click

from fsm.cli.options import layout, profile_option
from fsm.errors import refused, visible
from fsm.interruption import INTERRUPTION
from fsm.judgement import judge as judged
from fsm.report import ExitCode, Report, words
from fsm.report.text import text
from fsm.scratch import ScratchFolder

if TYPE_CHECKING:
    from types import ModuleType

    from fsm.live.call_recording import CallRecording
    from fsm.live.outbox import Outbox
    from fsm.live.passing_calls import PassedCall
    from fsm.live.proxy import Proxy

_WAITING: Final = 128
"""Connections that may wait to be accepted."""

_LAST: Final = 30.0
"""Seconds that the recording may take to be complete once the proxy has ended."""


@click.command(
    "proxy",
    epilog="It ends by Ctrl-C or SIGTERM. Exit codes: 0, or with --judge that of the verdict; 2 an input is wrong, "
    "3 not all was recorded.",
)
@click.option("--listen", required=True, metavar="ADDRESS", help="Where clients connect, such as unix:///run/fsm.sock.")
@click.option(
    "--to", required=True, metavar="ADDRESS", help="The runtime, such as unix:///run/containerd/containerd.sock."
)
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write each CRI call to this file, which is made anew; compressed if it ends in .gz.",
)
@click.option("--judge", is_flag=True, help="Judge what has passed, as fsm judge does with a recording.")
@profile_option("With --judge, tolerate the declared deviations of a real version, and report them.")
@click.option(
    "--rules",
    metavar="FILE",
    type=click.Path(readable=False),
    help="Change some calls, as this file says: delayed, failed, canceled, without a reply.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0, 3_600),
    metavar="SECONDS",
    default=5.0,
    help="How long calls in progress may go on at the end.",
)
@click.option("--duration", type=click.FloatRange(0), metavar="SECONDS", help="End after so many seconds.")
@click.pass_context
def command(
    ctx: click.Context,
    listen: str,
    to: str,
    record: Path | None,
    profile: str | None,
    rules: str | None,
    grace: float,
    duration: float | None,
    *,
    judge: bool,
) -> int:
    """Pass on what clients and a runtime say to each other, and record and judge it.

    All bytes pass as they are, of every service on the socket. The calls of CRI are understood. The proxy never waits
    for what is written or judged: what it could not keep is counted, and the verdict is then unknown.

    \b
    fsm proxy --listen unix:///run/fsm.sock --to unix:///run/containerd/containerd.sock --record calls.jsonl.gz
    crictl --runtime-endpoint unix:///run/fsm.sock ps
    """
    proxying, sockets = _live("proxy"), _live("sockets")
    own, other = sockets.path(listen), sockets.path(to)
    if Path(own).resolve() == Path(other).resolve():
        raise refused(
            listen, sockets.CODE, "is the socket of the runtime itself", "name another path, and let clients use it"
        )
    faults = _live("fault_rules").read_rules(rules) if rules else None
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))

        def bind() -> None:
            listener.bind(own)
            listener.listen(_WAITING)

        stack.enter_context(_live("listening").listening(listen, bind))
        stack.callback(signal.signal, signal.SIGPIPE, signal.signal(signal.SIGPIPE, signal.SIG_IGN))  # whoever hangs up
        kept = record or (Path(stack.enter_context(ScratchFolder())) / "calls.jsonl" if judge else None)
        recorder = stack.enter_context(_Recorder(kept)) if kept else None
        proxy: Proxy = proxying.Proxy(
            listener, other, ended=recorder.take if recorder else lambda _: None, rules=faults, say=_say
        )
        _say(f"{listen} -> {to}")
        asyncio.run(_until_ended(proxy, grace=grace, duration=duration))
        lost = recorder.close() if recorder else ""
        _say(_summary(proxy, lost))
        if lost or not judge or kept is None:
            return ExitCode.UNKNOWN.value if lost else 0
        report = Report(judged=(judged(kept, profile=profile),))
        click.echo(text(report, layout()), nl=False, color=ctx.color)
        return ExitCode.UNKNOWN.value if proxy.unread else report.code()


async def _until_ended(proxy: Proxy, *, grace: float, duration: float | None) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    if duration is not None:
        loop.call_later(duration, stop.set)

    def end() -> None:
        loop.call_soon_threadsafe(stop.set)

    with INTERRUPTION.ends(end):
        await proxy.run(stop, grace=grace)


class _Recorder:
    """Writes the calls to a file, in a thread that the proxy does not wait for."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: CallRecording = _live("call_recording").CallRecording(path)
        except OSError as error:
            raise click.FileError(str(path), (error.strerror or str(error)).lower()) from error
        self._lines = _live("call_lines").recorded
        self._unread = 0
        self._outbox: Outbox[PassedCall] = _live("outbox").Outbox(self._write)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, call: PassedCall) -> None:
        self._outbox.put(call)

    def _write(self, call: PassedCall) -> None:
        from google.protobuf.message import DecodeError  # noqa: PLC0415  (of the extra 'live')

        try:
            self._file.write(self._lines(call))
        except DecodeError:
            self._unread += 1

    def close(self) -> str:
        """Complete the file; gives what is not in it, or nothing."""
        self._outbox.close(_LAST)
        try:
            self._file.close()
        except OSError as error:
            self._outbox.failure = self._outbox.failure or (error.strerror or str(error)).lower()
        lost = Counter({"calls dropped": self._outbox.dropped, "calls that are no CRI": self._unread})
        found = [words.counted(count, name) for name, count in lost.items() if count]
        return ", ".join([*found, *filter(None, [self._outbox.failure])])


def _summary(proxy: Proxy, lost: str) -> str:
    faults = [f"{name} {count:,}" for name, count in sorted(proxy.injected.items())]
    parts = [
        f"{words.plural(proxy.calls, 'call')} passed",
        *([f"{words.plural(proxy.injected.total(), 'fault')}: {', '.join(faults)}"] if faults else []),
        *([f"{words.plural(proxy.unread, 'connection')} that could not be read"] if proxy.unread else []),
        *([f"not recorded, so the verdict is unknown: {lost}"] if lost else []),
    ]
    return "; ".join(parts)


def _say(what: str) -> None:
    with suppress(OSError):
        click.echo(f"fsm proxy: {visible(what)}", err=True)


def _live(name: str) -> ModuleType:
    try:
        return import_module(f"fsm.live.{name}")
    except ModuleNotFoundError as error:
        what = f"fsm proxy needs {error.name}: pip install 'container-fsm[live]'"
        raise click.ClickException(what) from error
