"""At the limit of open files, idle clients do not block others for long, and a single message is printed."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from commands import FSM
from cri_server import serving

from fsm.runtimes.sockets.cri_client import CriClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def limited(files: int, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    shell = ["bash", "-c", f'ulimit -n {files}; exec "$@"', "fsm", FSM, *arguments]
    with subprocess.Popen(shell, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "unix:" in process.stderr.readline()
            yield process
        finally:
            process.kill()


@contextmanager
def idle(path: Path, number: int, text: bytes) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(number):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)  # noqa: FBT003
            try:
                client.connect(str(path))
                client.sendall(text)
            except OSError:
                time.sleep(0.001)
        yield


def called(client: CriClient, seconds: float) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if client.call("Version", timeout=2).code == "OK":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("number", [10, 200])
def test_a_proxy_at_its_limit(number: int, tmp_path: Path) -> None:
    """The proxy prints a single line, and forwards calls again once some clients have left."""
    own = tmp_path / "it"
    with (
        serving(tmp_path / "to"),
        limited(64, "proxy", "--listen", f"unix:{own}", "--to", f"unix:{tmp_path / 'to'}") as it,
    ):
        with idle(own, number, b""):
            time.sleep(1)
        with CriClient(f"unix:{own}") as client:
            assert called(client, 10)
        it.terminate()
        _, said = it.communicate(timeout=20)

    assert said.count("too many files are open (ulimit -n is 64)") == (number > 64)
    assert len(said.splitlines()) == 1 + (number > 64), said
    assert "cannot be reached" not in said


@pytest.mark.slow
@pytest.mark.parametrize("text", [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_idle_clients_of_serve(text: bytes, tmp_path: Path) -> None:
    """Open connections keep working, and new clients only have to wait a little."""
    address = f"unix:{tmp_path / 'it'}"
    with limited(100, "serve", "--cri", address) as it, CriClient(address) as before, CriClient(address) as later:
        assert called(before, 10)
        with idle(tmp_path / "it", 150, text):
            assert called(before, 1)
            assert called(later, 10)
        it.terminate()
        _, said = it.communicate(timeout=20)

    assert said == ""
