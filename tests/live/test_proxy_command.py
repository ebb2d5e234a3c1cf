"""The command ``fsm proxy`` forwards, records and judges calls until it receives a signal."""

from __future__ import annotations

import gzip
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from commands import fsm
from cri_server import serving

from fsm.runtimes.live.faults import read_rules
from fsm.runtimes.sockets.cri_client import CriClient
from fsm.runtimes.sockets.cri_pb2 import (
    CreateContainerRequest,
    CreateContainerResponse,
    StopContainerRequest,
    StopContainerResponse,
)

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def proxying(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "fsm",
        "proxy",
        "--listen",
        f"unix:{folder / 'it'}",
        "--to",
        f"unix:{folder / 'to'}",
    ]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "->" in process.stderr.readline()  # the proxy is now listening
            yield process
        finally:
            process.kill()


def _stop(refused: int) -> dict[str, Any]:
    asked: list[object] = []

    def answer(request: object, context: grpc.ServicerContext) -> StopContainerResponse:
        asked.append(request)
        if len(asked) == refused:
            context.abort(grpc.StatusCode.NOT_FOUND, 'an error occurred when try to find container "c": not found')
        return StopContainerResponse()

    return {"StopContainer": answer}


@pytest.mark.slow
@pytest.mark.parametrize(("refused", "code"), [(0, 3), (1, 1)])
def test_what_passes_is_recorded_and_judged_until_a_signal(tmp_path: Path, refused: int, code: int) -> None:
    """The exit code shows the verdict, which is unknown if no (event, state) pair was covered.

    At the signal, the socket is removed and the recording is completed.
    """
    file = tmp_path / "calls.jsonl.gz"
    with (
        serving(tmp_path / "to", _stop(refused)),
        proxying(tmp_path, "--record", str(file), "--judge") as process,
        CriClient(f"unix:{tmp_path / 'it'}") as client,
    ):
        for _ in range(2):
            client.call("StopContainer", StopContainerRequest(container_id="c" * 64))
        process.send_signal(signal.SIGTERM)
        printed, said = process.communicate(timeout=20)

    assert code == process.returncode, printed + said
    assert re.search(r"exercised \d+ of \d+ \(event, state\) pairs?", printed)
    assert "2 calls passed" in said
    assert not (tmp_path / "it").exists()
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert ["StopContainer"] * 2 == [each["op"] for each in lines]


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.5])
def test_a_second_signal_interrupts_unless_the_verdict_was_printed(delay: float, tmp_path: Path) -> None:
    """The command exits with 130 and no verdict, unless the verdict has already been printed."""
    with (
        serving(tmp_path / "to", _stop(1)),
        proxying(tmp_path, "--judge") as process,
        CriClient(f"unix:{tmp_path / 'it'}") as client,
    ):
        client.call("StopContainer", StopContainerRequest(container_id="c" * 64))
        process.send_signal(signal.SIGTERM)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=60)

    assert "Traceback" not in said
    assert (process.returncode in {0, 1, 3}) == bool(
        re.search(r"exercised \d+ of \d+ \(event, state\) pairs?", printed)
    ), printed + said
    assert process.returncode in {0, 1, 3, 130}


@pytest.mark.slow
@pytest.mark.parametrize(("least", "code", "word"), [("MUST", 3, "surprise: "), ("observed", 1, "violation: ")])
def test_how_weak_a_clause_counts_is_said(tmp_path: Path, least: str, code: int, word: str) -> None:
    """``--fail-on`` sets the weakest level that counts as a violation.

    The clause broken here has the level *observed*.
    """
    answers = {"CreateContainer": lambda _request, _context: CreateContainerResponse(container_id="c" * 64)}
    with (
        serving(tmp_path / "to", answers),
        proxying(tmp_path, "--judge", "--fail-on", least) as process,
        CriClient(f"unix:{tmp_path / 'it'}") as client,
    ):
        for _ in range(2):
            client.call("CreateContainer", CreateContainerRequest(pod_sandbox_id="p" * 64))
        process.send_signal(signal.SIGTERM)
        printed, said = process.communicate(timeout=20)

    assert code == process.returncode, printed + said
    assert word in printed


def test_a_recording_that_cannot_be_written_makes_the_verdict_unknown(tmp_path: Path) -> None:
    """Calls are forwarded even if they cannot be recorded, but the verdict is unknown."""
    with (
        serving(tmp_path / "to", _stop(0)),
        proxying(tmp_path, "--record", "/dev/full", "--judge") as process,
        CriClient(f"unix:{tmp_path / 'it'}") as client,
    ):
        for _ in range(2):
            assert client.call("StopContainer", StopContainerRequest(container_id="c" * 64)).code == "OK"
        assert process.stderr is not None
        assert "calls still pass, but are no longer recorded: no space left on device" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=20)

    assert process.returncode == 3
    assert "2 lines read" in printed
    assert (
        "the recording is incomplete, so the verdict is unknown: 2 calls not recorded, no space left on device" in said
    )


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["--listen", "tcp:1", "--to", "unix:b"], "tcp:1: this is not the address of a Unix socket"),
        (["--listen", "unix:a", "--to", "unix:./a"], "unix:a: this is the socket of the runtime itself"),
        (["--listen", "unix:a", "--to", "unix:b", "--record", "no/such/file"], "no such file or directory"),
        (["--listen", "unix:no/such/a", "--to", "unix:b"], "there is no folder no/such"),
    ],
)
def test_what_cannot_be_used_is_an_error(tmp_path: Path, options: list[str], wrong: str) -> None:
    ran = fsm("proxy", *options, "--duration", "0", cwd=tmp_path)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert wrong in ran.stderr
    assert [] == list(tmp_path.iterdir())


def test_the_rules_of_the_page_are_rules(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "proxy.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "rules.toml").write_text(block, encoding="utf-8")

    found = read_rules(tmp_path / "rules.toml").rules

    assert ["delay", "lose-reply", "fail"] == [each.written.do for each in found]


def test_a_client_that_hangs_up_ends_nothing_else(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as runtime, proxying(tmp_path) as process:
        runtime.bind(str(tmp_path / "to"))
        runtime.listen()
        for _ in range(5):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(tmp_path / "it"))
                client.sendall(b"hello")
                other, _ = runtime.accept()
                assert other.recv(5) == b"hello"
                process.send_signal(signal.SIGSTOP)
                other.sendall(bytes(1_000))
            other.sendall(bytes(1_000))
            process.send_signal(signal.SIGCONT)
            other.close()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)

    assert process.returncode == 0
