"""The metrics of a followed recording are served to scrapers such as Prometheus."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import FAILING, FSM, HOLDING, fsm
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import Judging, judge
from fsm.recordings import open_recording
from fsm.report import Report
from fsm.report.metrics import Metrics, serving

if TYPE_CHECKING:
    from fsm.machine import Level

Samples = Counter[tuple[str, frozenset[tuple[str, str]]]]


def _samples(text: str) -> Samples:
    found: Samples = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, frozenset(sample.labels.items())] += sample.value  # type: ignore[assignment]
    return found


def _sum(samples: Samples, name: str, **labels: str) -> float:
    return sum(value for (each, own), value in samples.items() if each == name and labels.items() <= set(own))


def _metrics(name: str, *, profile: str | None = None, fail_on: Level = "MUST") -> Samples:
    judging = Judging(open_recording(name), profile=profile)
    metrics = Metrics(Report(judged=(), fail_on=fail_on))
    metrics.begin(judging)
    judging.tell(metrics.violation)
    for batch in judging.recording.batches:
        judging.take(batch)
        metrics.taken(judging, batch)
    return _samples(generate_latest(metrics.registry).decode())


def test_what_is_followed_is_scraped() -> None:
    with (
        open(FAILING, "rb") as log,  # noqa: PTH123  (a recording)
        subprocess.Popen(
            [FSM, "judge", "--follow", "--metrics", "0", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stderr is not None
        address = process.stderr.readline().decode().split()[-1]
        process.stdin.write(log.read())
        process.stdin.flush()
        samples: Samples = Counter()
        ends = time.monotonic() + 30
        while _sum(samples, "fsm_lines_total") < 306 and time.monotonic() < ends:
            with urllib.request.urlopen(address) as answer:  # noqa: S310  (its own)
                samples = _samples(answer.read().decode())
        process.stdin.close()
        assert process.wait(timeout=30) == 1
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address)  # noqa: S310

    clause = {"clause": "stop-is-idempotent", "level": "MUST", "event": "stop", "state": "absent"}
    for judgement in judge(FAILING).judgements:
        model = judgement.machine.name
        assert isinstance(judgement.verdict, Illegal)
        violations = sum(each.count for each in judgement.verdict.findings)
        assert violations == _sum(samples, "fsm_violations_total", model=model, **clause)
        assert judgement.observations == _sum(samples, "fsm_observations_total", model=model)
        assert judgement.entities == _sum(samples, "fsm_entities_total", model=model)
    assert _sum(samples, "fsm_lag_seconds") + _sum(samples, "fsm_last_line_timestamp_seconds") == pytest.approx(
        time.time(), abs=60
    )


def test_a_scraper_that_has_gone_does_not_end_what_follows() -> None:
    """The command survives a client that disconnects, because the server's thread blocks SIGPIPE."""
    before = {*threading.enumerate()}
    with serving(Metrics(Report(judged=(), fail_on="MUST")), "127.0.0.1", 0):
        (thread,) = {*threading.enumerate()} - before
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text(encoding="ascii")
    (blocked,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk:"))
    assert blocked == 1 << (signal.SIGPIPE - 1)
    assert signal.SIGPIPE not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_recording_that_holds_has_no_violations() -> None:
    samples = _metrics(HOLDING)

    assert _sum(samples, "fsm_observations_total") > 0
    assert not [name for name, _ in samples if name.startswith(("fsm_violations", "fsm_surprises", "fsm_tolerated"))]


def test_tolerated_deviations() -> None:
    samples = _metrics(FAILING, profile="containerd-1.6")

    assert _sum(samples, "fsm_tolerated_deviations_total", profile="containerd-1.6") == 28
    assert _sum(samples, "fsm_violations_total") == 0


@pytest.mark.parametrize(("fail_on", "name"), [("MUST", "fsm_surprises_total"), ("SHOULD", "fsm_violations_total")])
def test_what_is_below_the_level_asked_for_is_a_surprise(fail_on: Level, name: str) -> None:
    (found,) = judge(FAILING, models=["container-status"]).judgements
    assert isinstance(found.verdict, Illegal)
    violation = found.verdict.findings[0].first[0]
    metrics = Metrics(Report(judged=(), fail_on=fail_on))
    metrics.begin(Judging(open_recording(FAILING)))
    metrics.violation(replace(violation, clause=replace(violation.clause, level="SHOULD")))
    samples = _samples(generate_latest(metrics.registry).decode())

    assert [name] == [each for each, _ in samples if each in {"fsm_surprises_total", "fsm_violations_total"}]


def test_labels_are_words_of_models() -> None:
    """Labels never contain the ids of entities, because there is no limit to the number of ids."""
    samples = _metrics(FAILING)
    values = {value for _, labels in samples for label, value in labels if label != "name"}

    assert values
    assert not [each for each in values if len(each) > 40 or any(len(word) == 64 for word in each.split())]


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        used = fsm("judge", "--follow", "--metrics", str(port), "-")
    wrong = [fsm("judge", "--follow", "--metrics", each, "-") for each in ("http", ":9090", "70000", "1.2.3.4:9")]
    alone = fsm("judge", "--metrics", "9090", "-")

    assert (2, "") == (used.returncode, used.stdout)
    assert f"fsm cannot listen on 127.0.0.1:{port}: address already in use" in used.stderr
    assert {each.returncode for each in wrong} == {2}
    assert ["is neither a port" in " ".join(each.stderr.split()) for each in wrong] == [True, True, True, False]
    assert "cannot assign" in wrong[-1].stderr
    assert "add --follow" in alone.stderr


@pytest.mark.slow
def test_idle_scrapers_keep_nobody_away(capsys: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    with serving(Metrics(Report(judged=(), fail_on="MUST")), "127.0.0.1", 0) as port, ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(60)]
        for client in clients[::2]:
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert b"fsm_lines_total" in answer.read()
        threads = threading.active_count() - before
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()  # close with a TCP reset
        ends = time.monotonic() + 10
        while threading.active_count() > before + 1 and time.monotonic() < ends:
            time.sleep(0.01)
        assert threading.active_count() == before + 1

    assert threads <= 25
    assert ("", "") == capsys.readouterr()


def test_a_silent_scraper_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsm.report.metrics._PATIENCE", 0.1)
    with (
        serving(Metrics(Report(judged=(), fail_on="MUST")), "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
    ):
        assert client.recv(1) == b""
