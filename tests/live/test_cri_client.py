"""The CRI client returns the results of calls as values, and refuses a server that is not a runtime."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from cri_server import VERSION, Answering, serving

from fsm.errors import InputError
from fsm.runtimes.sockets.cri_client import METHODS, CallAnswer, CriClient, connected
from fsm.runtimes.sockets.cri_pb2 import (
    ContainerEventResponse,
    ContainerStatusRequest,
    ContainerStatusResponse,
    StopContainerRequest,
    StopContainerResponse,
    VersionResponse,
)


def _refuse(code: grpc.StatusCode, detail: str) -> Answering:
    def answer(_request: object, context: grpc.ServicerContext) -> None:
        context.abort(code, detail)

    return answer


def test_a_call_has_its_answer_and_its_time(tmp_path: Path) -> None:
    asked: list[StopContainerRequest] = []
    seen: list[CallAnswer] = []

    def stop(request: StopContainerRequest, _context: object) -> StopContainerResponse:
        asked.append(request)
        return StopContainerResponse()

    with serving(tmp_path / "it.sock", VERSION | {"StopContainer": stop}):
        before = time.time_ns()
        client, version = connected(f"unix://{tmp_path / 'it.sock'}", seen=seen.append)
        with client:
            answer = client.call("StopContainer", StopContainerRequest(container_id="c1", timeout=3))

    assert (version.runtime_name, answer.code, answer.reply, answer.detail) == ("fake", "OK", "ok", "")
    assert asked == [answer.request] == [StopContainerRequest(container_id="c1", timeout=3)]
    assert before <= answer.start <= answer.end
    assert [each.op for each in seen] == ["Version", "StopContainer"]


def test_a_status_is_a_value(tmp_path: Path) -> None:
    """Error codes are spelled as in recordings, even the code for a method that the runtime lacks."""
    answers = {
        "ContainerStatus": _refuse(grpc.StatusCode.NOT_FOUND, "no such container"),
        "StopContainer": _refuse(grpc.StatusCode.CANCELLED, "given up"),
        "ListImages": lambda _request, _context: 1 / 0,
    }
    with serving(tmp_path / "it.sock", answers), CriClient(str(tmp_path / "it.sock")) as client:
        found = [client.call(op) for op in ("ContainerStatus", "StopContainer", "ListImages", "CheckpointContainer")]

    assert [each.code for each in found] == ["NOT_FOUND", "CANCELED", "UNKNOWN", "UNIMPLEMENTED"]
    assert (found[0].detail, found[0].message) == ("no such container", None)


def test_every_call_has_a_deadline(tmp_path: Path) -> None:
    """Deadlines let the client give up when a runtime hangs."""
    over = threading.Event()
    answers = {"StopContainer": lambda _request, _context: over.wait(5) and None}
    with serving(tmp_path / "it.sock", answers), CriClient(str(tmp_path / "it.sock"), timeout=0.05) as client:
        found = client.call("StopContainer")
        over.set()

    assert found.code == "DEADLINE_EXCEEDED"
    assert (found.end - found.start) / 1e9 < 2


def test_a_runtime_that_starts_is_waited_for(tmp_path: Path) -> None:
    """The client waits for the first answer, because a runtime starts to listen before it can answer."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "it.sock"))
        listening.listen()
        with CriClient(f"unix://{tmp_path / 'it.sock'}") as client:
            found = client.call("StopContainer", timeout=0.3)

    assert found.code == "DEADLINE_EXCEEDED"


def test_a_server_that_goes_in_mid_call_is_unavailable(tmp_path: Path) -> None:
    """If the server stops during a call, calls fail until a new server has started. Then the client reconnects."""
    asked, over = threading.Event(), threading.Event()

    def stop(_request: object, _context: object) -> StopContainerResponse:
        asked.set()
        over.wait(5)
        return StopContainerResponse()

    socket_path = tmp_path / "it.sock"
    found: list[CallAnswer] = []
    with CriClient(str(socket_path), timeout=5) as client:
        with serving(socket_path, {"StopContainer": stop}) as server:
            call = threading.Thread(target=lambda: found.append(client.call("StopContainer")))
            call.start()
            assert asked.wait(5)
            server.stop(grace=0)
            call.join(5)
            over.set()
        found.append(client.call("StopContainer"))
        with serving(socket_path):
            until = time.monotonic() + 5
            while client.call("Version").code != "OK" and time.monotonic() < until:
                pass
            found.append(client.call("Version"))

    assert [each.code for each in found] in (["UNAVAILABLE", "UNAVAILABLE", "OK"], ["CANCELED", "UNAVAILABLE", "OK"])


def test_a_closed_client_calls_nothing(tmp_path: Path) -> None:
    client = CriClient(str(tmp_path / "it.sock"))
    client.close()
    client.close()

    assert client.call("Version").code == "CANCELED"


def test_events_come_until_the_stream_ends(tmp_path: Path) -> None:
    going = threading.Event()

    def two(_request: object, _context: grpc.ServicerContext) -> Iterator[ContainerEventResponse]:
        yield ContainerEventResponse(container_id="c1")
        yield ContainerEventResponse(container_id="c2")
        going.wait(0.01)

    def endless(_request: object, context: grpc.ServicerContext) -> Iterator[ContainerEventResponse]:
        while context.is_active():
            yield ContainerEventResponse(container_id="c3")
            going.wait(0.01)

    with serving(tmp_path / "it.sock", {"GetContainerEvents": two}), CriClient(str(tmp_path / "it.sock")) as client:
        events = client.events(timeout=5)
        assert [each.container_id for each in events] == ["c1", "c2"]
        assert events.code == "OK"
    answers = {"GetContainerEvents": endless}
    with serving(tmp_path / "more.sock", answers), CriClient(str(tmp_path / "more.sock")) as client:
        short, closed = client.events(timeout=0.1), client.events(timeout=5)
        assert {each.container_id for each in short} == {"c3"}
        for _ in closed:
            closed.close()
    assert (short.code, closed.code) == ("DEADLINE_EXCEEDED", "CANCELED")


def test_a_proxy_of_the_environment_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client ignores proxy variables, and sends no socket path as its authority."""
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    hosts: list[str] = []

    def version(_request: object, context: grpc.ServicerContext) -> VersionResponse:
        event = vars(context)["_rpc_event"]  # gRPC has no public API for this
        hosts.append(event.call_details.host.decode())
        return VersionResponse(runtime_name="fake")

    with serving(tmp_path / "it.sock", {"Version": version}):
        client, _ = connected(str(tmp_path / "it.sock"))
        client.close()

    assert hosts == ["localhost"]


def test_what_is_no_runtime_is_refused(tmp_path: Path) -> None:
    """The client refuses other services, runtimes with an older API, and runtimes without a name."""
    with (
        serving(tmp_path / "other.sock", {}),
        pytest.raises(InputError, match="the server is not a CRI runtime: it has no Version"),
    ):
        connected(str(tmp_path / "other.sock"))
    with (
        serving(tmp_path / "older.sock", {}, older=True),
        pytest.raises(InputError, match=r"supports only runtime\.v1alpha2, an older API"),
    ):
        connected(str(tmp_path / "older.sock"))
    with (
        serving(tmp_path / "mute.sock", {"Version": lambda _request, _context: VersionResponse()}),
        pytest.raises(InputError, match="has no runtime name"),
    ):
        connected(str(tmp_path / "mute.sock"))
    with pytest.raises(InputError, match="there is no such socket"):
        connected(str(tmp_path / "none.sock"))


@pytest.mark.parametrize("first", [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"\0\1\2" * 100, b""])
def test_what_is_not_grpc_is_refused(tmp_path: Path, first: bytes) -> None:
    """The client refuses a server that does not speak gRPC, whether the server answers or hangs up."""
    over = threading.Event()

    def answer() -> None:
        while not over.is_set():
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            with connection, suppress(OSError):  # the client only checks whether the server listens, and disconnects
                if first:
                    connection.recv(1)
                connection.sendall(first)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "it.sock"))
        server.listen()
        server.settimeout(0.05)
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with pytest.raises(InputError) as refused:
                connected(str(tmp_path / "it.sock"), timeout=1)
        finally:
            over.set()
            thread.join()

    assert refused.value.problems[0].code == "FSM604"


def test_the_methods_are_those_of_both_services() -> None:
    assert METHODS["StopContainer"].path == "/runtime.v1.RuntimeService/StopContainer"
    assert METHODS["ListImages"].path == "/runtime.v1.ImageService/ListImages"
    assert [name for name, method in METHODS.items() if method.streams] == ["GetContainerEvents"]
    assert METHODS["ContainerStatus"].request is ContainerStatusRequest
    assert METHODS["ContainerStatus"].response is ContainerStatusResponse
