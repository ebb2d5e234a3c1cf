"""``fsm proxy``: run a proxy that records and judges the calls between clients and a runtime."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import click
import msgspec

from fsm.command_options import fail_on_option, profile_option
from fsm.errors import UNDECIDED, WRONG_INPUT, of_extra, plural, reason, refused
from fsm.interruption import INTERRUPTION
from fsm.runtimes.live_commands import say

if TYPE_CHECKING:
    from types import ModuleType

    from fsm.machine import Level
    from fsm.runtimes.live.call_recording import CallRecording, Outbox
    from fsm.runtimes.live.passing_calls import PassedCall
    from fsm.runtimes.live.proxy import Proxy

_LAST: Final = 30.0


@click.command(
    "proxy",
    epilog="Stop it with Ctrl-C or SIGTERM. Exit codes: 0, or that of the verdict with --judge, 2 wrong input, 3 some "
    "calls were not recorded or judged.",
)
@click.option("--listen", required=True, metavar="ADDRESS", help="Socket for clients, such as unix:///run/fsm.sock.")
@click.option(
    "--to",
    required=True,
    metavar="ADDRESS",
    help="Socket of the runtime, such as unix:///run/containerd/containerd.sock.",
)
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write each CRI call to this file, which is overwritten. It is compressed if its name ends in .gz.",
)
@click.option("--judge", is_flag=True, help="Judge the calls like fsm judge --follow. SIGUSR1 prints a summary.")
@fail_on_option
@profile_option("With --judge: tolerate and report the declared deviations of a real version.")
@click.option(
    "--rules",
    metavar="FILE",
    type=click.Path(readable=False),
    help="Inject the faults in FILE: delay, fail or cancel calls, or lose their replies; see docs/how-to/proxy.md.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0, 3_600),
    metavar="SECONDS",
    default=5.0,
    help="Wait this long at the end for calls in progress.",
)
@click.option(
    "--settle",
    type=click.FloatRange(0, 600),
    metavar="SECONDS",
    default=30.0,
    help="With --judge: judge each call this long after it began. This must exceed the duration of the longest call.",
)
@click.option("--duration", type=click.FloatRange(0), metavar="SECONDS", help="Stop after this many seconds.")
def command(
    listen: str,
    to: str,
    record: Path | None,
    fail_on: Level,
    profile: str | None,
    rules: str | None,
    grace: float,
    settle: float,
    duration: float | None,
    *,
    judge: bool,
) -> int:
    """Pass calls between clients and a runtime, and record them, judge them, or inject faults.

    Except for injected faults, the proxy passes on all bytes of every service unchanged. Only the calls of CRI are
    recorded and judged. The proxy never waits for the recording or the judge: if they fall behind, it drops and
    counts calls, and the verdict is unknown.

    \b
    fsm proxy --listen unix:///run/fsm.sock --to unix:///run/containerd/containerd.sock --record calls.jsonl.gz
    crictl --runtime-endpoint unix:///run/fsm.sock ps
    """
    proxying, sockets = _live_module("live.proxy"), _live_module("sockets.unix_sockets")
    own, other = sockets.path(listen), sockets.path(to)
    if Path(own).resolve() == Path(other).resolve():
        hint = "choose another path, and configure clients to use it"
        raise refused(listen, sockets.CODE, "this is the socket of the runtime itself", hint)
    faults = _live_module("live.faults").read_rules(rules) if rules else None
    with ExitStack() as stack:
        listener = stack.enter_context(sockets.listening(listen))
        listener.listen()
        stack.enter_context(sockets.peers_may_leave())
        judging = stack.enter_context(_Judge(profile, settle, fail_on)) if judge else None
        recorder = stack.enter_context(closing(_Recorder(record, judging))) if record or judging else None
        ended = recorder.take if recorder else lambda _: None
        proxy: Proxy = proxying.Proxy(listener, other, ended=ended, rules=faults, say=_say)
        if judging is not None:
            stack.callback(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, judging.sum_up))
        _say(f"{listen} -> {to}")
        asyncio.run(_run_until_ended(proxy, grace, duration))
        lost = recorder.close() if recorder else ""
        code = judging.close() if judging else 0
        _say(_summary(proxy, lost))
        unknown = lost or (judging and proxy.unread)
        code = UNDECIDED if unknown and code != WRONG_INPUT else code
        INTERRUPTION.settle(code)
        return code


async def _run_until_ended(proxy: Proxy, grace: float, duration: float | None) -> None:
    with INTERRUPTION.sets() as stop:
        if duration is not None:
            asyncio.get_running_loop().call_later(duration, stop.set)
        await proxy.run(stop, grace=grace)


class _Judge:
    def __init__(self, profile: str | None, settle: float, fail_on: Level) -> None:
        options = ["--settle", f"{settle:g}", "--fail-on", fail_on, *(["--profile", profile] if profile else [])]
        command = [sys.executable, "-m", "fsm", "judge", "--follow", *options, "-"]
        # Ctrl-C sends SIGINT to all foreground processes of a terminal. The judge must outlive the proxy, so it runs
        # in its own session.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # when its input ends, the judge would print a verdict
            self._process.kill()
        self.close()

    def take(self, lines: list[dict[str, int | str]]) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            self._process.stdin.flush()

    def sum_up(self, *_: object) -> None:
        self._process.send_signal(signal.SIGUSR1)

    def close(self) -> int:
        try:
            if self._process.stdin is not None:
                with suppress(OSError):
                    self._process.stdin.close()
            return self._process.wait()
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGTERM):  # SIGTERM forces a judge to end that ignores SIGINT
                self._process.send_signal(number)
            code = self._process.wait()
            if code not in {0, 1, WRONG_INPUT, UNDECIDED}:
                raise
            INTERRUPTION.came = False
            return code


class _Recorder:
    def __init__(self, path: Path | None, judge: _Judge | None) -> None:
        self._recording = recording = _live_module("live.call_recording")
        try:
            self._file: CallRecording | None = recording.CallRecording(path) if path is not None else None
        except OSError as error:
            raise click.FileError(str(path), reason(error)) from error
        self._unread = 0
        # The file and the judge have separate outboxes, so that a slow or failed judge does not affect the file.
        self._outboxes: dict[str, Outbox[list[dict[str, int | str]]]] = {
            what: recording.Outbox(take, failed=partial(_say_lost, what))
            for what, take in (("recorded", self._file and self._file.write), ("judged", judge and judge.take))
            if take
        }
        self._calls: Outbox[PassedCall] = recording.Outbox(self._take)

    def take(self, call: PassedCall) -> None:
        self._calls.put(call)

    def _take(self, call: PassedCall) -> None:
        try:
            lines = self._recording.recorded(call)
        except self._recording.DecodeError:
            self._unread += 1
            return
        for outbox in self._outboxes.values() if lines else ():
            outbox.put(lines)

    def close(self) -> str:
        found = []
        self._calls.close(_LAST)
        for what, outbox in self._outboxes.items():
            outbox.close(_LAST)
            if lost := self._calls.dropped + outbox.dropped:
                found += [f"{plural(lost, 'call')} not {what}", outbox.failure]
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            found += [reason(error)] if not found else []
        if self._unread:
            found.append(f"{plural(self._unread, 'call')} that could not be read")
        return ", ".join(filter(None, found))


def _summary(proxy: Proxy, lost: str) -> str:
    faults = [f"{name} {count:,}" for name, count in sorted(proxy.injected.items())]
    parts = [
        f"{plural(proxy.calls, 'call')} passed",
        *([f"{plural(proxy.injected.total(), 'fault')}: {', '.join(faults)}"] if faults else []),
        *([f"{plural(proxy.unread, 'connection')} that could not be read"] if proxy.unread else []),
        *([f"the recording is incomplete, so the verdict is unknown: {lost}"] if lost else []),
    ]
    return "; ".join(parts)


_say: Final = partial(say, "proxy")


def _say_lost(what: str, why: str) -> None:
    _say(f"calls still pass, but are no longer {what}: {why}")


def _live_module(name: str) -> ModuleType:
    return of_extra(f"fsm.runtimes.{name}", "fsm proxy")
