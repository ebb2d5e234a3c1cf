"""A call that its client has begun is completed, even if the client is killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from served import served

from fsm.runtimes.live.runtime_session import RuntimeSession
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets.cri_client import CriClient
from fsm.runtimes.sockets.cri_server import CriServer

if TYPE_CHECKING:
    from pathlib import Path

_RUN = CriServer.RunPodSandbox

DIRECT = (
    "import sys; from fsm.runtimes.sockets.cri_client import CriClient; from fsm.runtimes.sockets.cri_pb2 import *; "
    "pod = PodSandboxConfig(metadata=PodSandboxMetadata(name='p', uid='u', namespace='n')); "
    "CriClient(sys.argv[1]).call('RunPodSandbox', RunPodSandboxRequest(config=pod))"
)
KEPT = (
    "import sys; from fsm.runtimes.live.runtime_session import RuntimeSession; "
    "session = RuntimeSession(sys.argv[1], image='busybox'); session.run(session.pod())"
)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "ends"), [(DIRECT, "given up"), (KEPT, "answered")])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_what_a_killed_test_has_begun_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, ends: str, number: signal.Signals
) -> None:
    """The keeper of a session completes the call. A call without a keeper is cancelled together with its client."""
    begun, over = threading.Event(), threading.Event()
    came: list[str] = []

    async def slow(server: CriServer, request: Any) -> cri.RunPodSandboxResponse:  # noqa: ANN401
        begun.set()
        try:
            await asyncio.sleep(0.5)
            came.append("answered")
        except asyncio.CancelledError:
            came.append("given up")
            raise
        finally:
            over.set()
        return await _RUN(server, request)

    monkeypatch.setattr(CriServer, "RunPodSandbox", slow)
    with served(tmp_path) as address:
        with subprocess.Popen([sys.executable, "-c", script, address], stderr=subprocess.DEVNULL) as process:
            assert begun.wait(20)
            process.send_signal(number)
        assert over.wait(20)
        RuntimeSession(address, image="busybox").close()
        with CriClient(address) as client:
            left = client.call("ListPodSandbox").message.items

    assert came == [ends]
    assert not left


def test_a_runtime_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        session = RuntimeSession(address, image="busybox")
        before = session.client.call("Version").code
    after = session.client.call("Version").code
    session.close()

    assert (before, after) == ("OK", "UNAVAILABLE")
