"""The served reference streams commands, attached containers and ports, over SPDY and over WebSocket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from served import ServedClient, served
from stream_clients import WebSocket, commanded, forwarded, plain, spdy_socket

TRANSPORTS = pytest.mark.parametrize("transport", ["spdy", "websocket"])


@pytest.fixture(scope="module", params=["simulated", "processes"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("served"), processes=request.param == "processes") as found:
        yield found


@pytest.fixture
def client(address: str) -> Iterator[ServedClient]:
    with ServedClient(address) as found:
        yield found


def _running(client: ServedClient) -> str:
    return client.container(client.pod(), "sleep", "60", started=True)


def _url(client: ServedClient, op: str = "Exec", **fields: Any) -> str:  # noqa: ANN401  (of any message)
    return str(client.call(op, **fields).message.url)


@TRANSPORTS
def test_commands_are_streamed(client: ServedClient, transport: str) -> None:
    container = _running(client)
    asked: dict[str, Any] = {"container_id": container, "stdout": True, "stderr": True}
    ends = [
        commanded(_url(client, cmd=each, **asked), transport)
        for each in (
            ["echo", "-n", "hello"],
            ["sh", "-c", "echo out; echo err >&2; exit 3"],
            ["/no/such/command"],
        )
    ]

    assert (b"hello", b"", "Success") == (*ends[0][:2], ends[0][2]["status"])
    assert (b"out\n", b"err\n", "NonZeroExitCode") == (*ends[1][:2], ends[1][2]["reason"])
    assert [{"reason": "ExitCode", "message": "3"}] == ends[1][2]["details"]["causes"]
    assert ("InternalError", True) == (ends[2][2]["reason"], "no such file or directory" in ends[2][2]["message"])


@TRANSPORTS
def test_input_is_passed(client: ServedClient, transport: str) -> None:
    container = _running(client)
    long = b"".join(b"%08d\n" % number for number in range(20_000))
    url = _url(client, container_id=container, cmd=["cat"], stdin=True, stdout=True, stderr=True)

    output, errors, result = commanded(url, transport, long)

    assert (long, b"", "Success") == (output, errors, result["status"])


@TRANSPORTS
def test_terminals_have_one_output(client: ServedClient, transport: str) -> None:
    container = _running(client)
    asked: dict[str, Any] = {"container_id": container, "stdin": True, "stdout": True, "tty": True}
    url = _url(client, cmd=["sh"], **asked)
    output, errors, result = commanded(url, transport, b"echo hi\rexit\r", wanted=("error", "stdin", "stdout"))

    assert (b"", "Success") == (errors, result["status"])
    assert b"echo hi\r\n" in output
    assert b"\nhi\r\n" in output


@TRANSPORTS
def test_clients_attach_to_what_runs(client: ServedClient, transport: str) -> None:
    """A shell answers the client that attaches to it, and exits when its input ends.

    Attaching to a stopped container fails.
    """
    pod = client.pod()
    shell = client.container(pod, "/bin/sh", started=True, stdin=True, stdin_once=True)
    asked: dict[str, Any] = {"container_id": shell, "stdin": True, "stdout": True, "stderr": True}
    output, errors, result = commanded(_url(client, "Attach", **asked), transport, b"echo -n hello\n", until=b"hello")
    ended = client.exited(shell)
    late = client.call("Attach", **asked)

    assert (b"hello", b"", "Success", 0) == (output, errors, result["status"], ended.exit_code)
    assert "UNKNOWN" == late.code


@TRANSPORTS
def test_ports_are_those_of_this_machine(address: str, client: ServedClient, transport: str) -> None:
    """Ports of this machine are forwarded only if processes are real, as nothing listens in a simulated pod."""
    del address

    def echo(server: socket.socket) -> None:
        with suppress(OSError), closing(server.accept()[0]) as peer:  # closed if no data arrives
            while data := peer.recv(1 << 16):
                peer.sendall(data.upper())

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=echo, args=(server,), daemon=True).start()
        url = _url(client, "PortForward", pod_sandbox_id=client.pod())
        carrier = (
            spdy_socket(url, "portforward.k8s.io")
            if transport == "spdy"
            else WebSocket(url, "SPDY/3.1+portforward.k8s.io")
        )
        back, errors = forwarded(carrier, server.getsockname()[1], b"hello")
    simulated = client.call("Status", verbose=True).message.info["config"].endswith('"processes": false}')

    assert (b"", True) == (back, b"refused" in errors) if simulated else (b"HELLO", b"") == (back, errors)


def test_urls_are_good_for_one_use(client: ServedClient) -> None:
    """A URL can be used only once and only for its own purpose, and every refusal has a reason."""
    container = _running(client)

    def url() -> str:
        return _url(client, container_id=container, cmd=["true"], stdout=True)

    used = url()
    commanded(used, "websocket")
    upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    for asked, headers, code in (
        (used, upgrade, 404),
        (url(), {}, 400),
        (url(), upgrade, 403),
        (url(), upgrade | {"X-Stream-Protocol-Version": "channel.k8s.io"}, 403),
    ):
        head, connection = plain(asked, "POST", headers)
        with connection:
            said = connection.recv(1 << 16)
        assert (True, True) == (head.startswith(f"HTTP/1.1 {code} "), len(said) > 10), head


def test_what_makes_no_sense_ends_the_connection(client: ServedClient) -> None:
    container = _running(client)
    for each in (b"\x80\x04" + b"\xff" * 40, b"\xff" * 200, b""):
        carrier = spdy_socket(_url(client, container_id=container, cmd=["true"], stdout=True))
        carrier.send(each)
        if each:
            assert [] == [*carrier.received()]
        carrier.close()
    parts = _url(client, container_id=container, cmd=["true"], stdout=True)
    _, connection = plain(parts, "\0\0")
    connection.close()

    assert "Success" == commanded(_url(client, container_id=container, cmd=["true"], stdout=True), "spdy")[2]["status"]
