"""Prometheus metrics of a followed recording. Labels never contain text from the recording."""

import signal
import socket
import time
from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from threading import Thread
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Info, MetricsHandler, disable_created_metrics

from fsm.errors import visible
from fsm.machine.findings import Violation
from fsm.monitor.judgement import Judging
from fsm.recordings.line_reader import FOREIGN
from fsm.report import Report, single
from fsm.trace import Batch, nanoseconds

SEVERAL = "several"  # the label ``state`` if several states were possible before a violation
_PATIENCE: Final = 5.0  # seconds that a client may be silent
_MOST: Final = 16  # maximum number of open connections, each of which has a thread


_CELL: Final = ("model", "clause", "level", "event", "state")
# The text and the labels of each counter.
_COUNTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "violations": ("Violations, by clause and cell.", *_CELL),
    "surprises": ("Violations of weaker clauses only, by clause and cell.", *_CELL),
    "tolerated_deviations": ("Deviations that the profile tolerates.", "model", "deviation", "profile"),
    "observations": ("Observations that were judged.", "model"),
    "entities": ("Entities that were observed.", "model"),
    "lines": ("Lines that were read.",),
    "foreign_lines": ("Lines of another form, and damaged lines.",),
    "notes": ("Notes about lines, such as truncations.", "note"),
}


class Metrics:
    def __init__(self, report: Report) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._report = report
        self._names: dict[str, dict[str, str]] = {}
        self._counters = {
            name: Counter(f"fsm_{name}", about, labels, registry=self.registry)
            for name, (about, *labels) in _COUNTERS.items()
        }
        about = "Seconds between the time in the last judged line and its judgement."
        self._lag = Gauge("fsm_lag_seconds", about, registry=self.registry)
        about = "The time in the last judged line."
        self._latest = Gauge("fsm_last_line_timestamp_seconds", about, registry=self.registry)
        self._recording = Info("fsm_recording", "The recording that is followed.", registry=self.registry)
        self._of_lines: Tally[tuple[str, ...]] = Tally()
        self._judged: Tally[tuple[str, ...]] = Tally()

    def _add(self, known: Tally[tuple[str, ...]], name: str, total: int, *labels: str) -> None:
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(total - known[name, *labels])
        known[name, *labels] = total

    def begin(self, judging: Judging) -> None:
        self._names = {
            machine.name: {word: event.name for word, event in machine.words().items()} for machine in judging.machines
        }
        self._judged.clear()

    def violation(self, violation: Violation) -> None:
        model, seen, clause = violation.machine, violation.observation, violation.clause
        fails = self._report.fails(single(violation))
        state = violation.before[0] if len(violation.before) == 1 else SEVERAL
        event = self._names[model].get(seen.event or seen.output, "")
        counter = self._counters["violations" if fails else "surprises"]
        counter.labels(model, clause.name, clause.level, event, state).inc()

    def taken(self, judging: Judging, batch: Batch) -> None:
        for monitor in judging.monitors:
            model = monitor.machine.name
            self._add(self._judged, "observations", monitor.observations, model)
            self._add(self._judged, "entities", monitor.entities, model)
            for deviated in monitor.folder.tolerated():
                first = deviated.first
                name = " or ".join(one.name for one in (first.deviation, *first.others))
                self._add(self._judged, "tolerated_deviations", deviated.count, model, name, first.deviation.profile)
        recording = judging.recording
        for note, count in recording.notes.items():
            name = {"lines": "lines", FOREIGN: "foreign_lines"}.get(note, "notes")
            self._add(self._of_lines, name, count, *([note] if name == "notes" else []))
        about = {
            "name": recording.name,
            "kind": recording.form.title,
            "version": recording.version(),
            "profile": judging.version,
        }
        self._recording.info({label: visible(value) for label, value in about.items()})
        times = (at for seen in reversed(batch.observations) if (at := nanoseconds(seen.at)) is not None)
        if (at := next(times, None)) is not None:
            self._latest.set(at / 1e9)
            self._lag.set(time.time() - at / 1e9)


class _Server(ThreadingHTTPServer):
    """An HTTP server for the metrics. If too many connections are open, it closes the oldest."""

    def __init__(self, metrics: Metrics, address: str, port: int) -> None:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, (host, *_) = found[0]
        self._open: OrderedDict[object, socket.socket] = OrderedDict()
        handler = MetricsHandler.factory(metrics.registry)
        super().__init__((str(host), port), type("_Handler", (handler,), {"timeout": _PATIENCE}))

    def get_request(self) -> tuple[socket.socket, object]:
        try:
            request, address = super().get_request()
        except OSError:  # No file descriptor is free. Without a pause, serve_forever would retry immediately.
            time.sleep(0.1)
            raise
        self._open[request] = request
        if len(self._open) > _MOST:
            with suppress(OSError):
                self._open.popitem(last=False)[1].shutdown(socket.SHUT_RDWR)
        return request, address

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None: ...


@contextmanager
def serving(metrics: Metrics, address: str, port: int) -> Iterator[int]:
    """Serve *metrics* over HTTP, and yield the port. If *port* is 0, a free port is chosen.

    Raise ``OSError`` if the server cannot be started.
    """
    # Server threads inherit this signal mask, so that a client that disconnects causes an error instead of killing
    # the process.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
    try:
        server = _Server(metrics, address, port)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
