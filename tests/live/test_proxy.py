"""A proxy forwards everything unchanged, and records calls as the client would."""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import pytest
from cri_server import serving
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from passing import Echo, Passing, channel, echoing, passing, wait_for

from fsm.errors import InputError
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.runtimes.live.call_recording import CallRecording, recorded
from fsm.runtimes.sockets.cri_client import CallAnswer, CriClient
from fsm.runtimes.sockets.cri_pb2 import (
    ContainerStatusRequest,
    ContainerStatusResponse,
    CreateContainerRequest,
    CreateContainerResponse,
    RemoveContainerRequest,
    RemoveContainerResponse,
    StartContainerRequest,
    StartContainerResponse,
)

Unary: TypeAlias = "grpc.UnaryUnaryMultiCallable[bytes, bytes]"
Answers: TypeAlias = "grpc.UnaryStreamMultiCallable[bytes, bytes]"
Stream: TypeAlias = "grpc.StreamStreamMultiCallable[bytes, bytes]"

texts = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=60)
metadata = st.lists(
    st.one_of(
        st.tuples(
            st.from_regex(r"x-[a-z0-9_.-]{0,9}[a-z]", fullmatch=True).filter(lambda it: it[-4:] != "-bin"), texts
        ),
        st.tuples(st.from_regex(r"x-[a-z0-9]{1,9}-bin", fullmatch=True), st.binary(max_size=60)),
    ),
    max_size=8,
)
failures = st.sampled_from([each for each in grpc.StatusCode if each is not grpc.StatusCode.OK])


class Between:
    def __init__(self, echo: Echo, proxy: Passing, near: grpc.Channel, far: grpc.Channel) -> None:
        self.echo, self.proxy, self.near, self.far = echo, proxy, near, far


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Between]:
    folder = tmp_path_factory.mktemp("proxy")
    with (
        echoing(folder / "runtime") as echo,
        passing(folder / "proxy", folder / "runtime") as proxy,
        channel(folder / "proxy") as near,
        channel(folder / "runtime") as far,
    ):
        yield Between(echo, proxy, near, far)


def _all(calling: grpc.Channel, messages: list[bytes], sent: list[tuple[str, Any]]) -> tuple[object, ...]:
    asking: Stream = calling.stream_stream("/any.Service/Method")
    call = asking(iter(messages), metadata=tuple(sent), timeout=20)
    got: list[bytes] = []
    with suppress(grpc.RpcError):
        got.extend(call)
    return (
        got,
        [tuple(each) for each in call.initial_metadata()],
        [tuple(each) for each in call.trailing_metadata()],
        call.code(),
        call.details(),
    )


@given(
    messages=st.lists(st.binary(max_size=3_000), max_size=5), sent=metadata, code=st.none() | failures, text=st.text()
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nothing_is_changed(
    between: Between,
    messages: list[bytes],
    sent: list[tuple[str, Any]],
    code: grpc.StatusCode | None,
    text: str,
) -> None:
    """The proxy does not change messages, metadata in either direction, or the status with its text and details."""
    status = [("code", code.name), ("text-bin", text.encode("utf-8", "replace"))] if code else []
    details = [("x-grpc-status-details-bin", text.encode("utf-8", "replace"))]

    direct, passed = (_all(each, messages, [*sent, *status, *details]) for each in (between.far, between.near))

    assert direct == passed
    assert messages == passed[0]


@pytest.mark.parametrize("kind", ["unary_unary", "unary_stream", "stream_unary", "stream_stream"])
def test_every_kind_of_call_passes(between: Between, kind: str) -> None:
    """Every kind of call can carry a message that is larger than the flow-control window."""
    large = os.urandom(6_000_000)
    ask, answer = kind.split("_")
    call = getattr(between.near, kind)("/runtime.v1.RuntimeService/StopContainer")

    found = call(iter([large]) if ask == "stream" else large, timeout=20)

    assert [large] == (list(found) if answer == "stream" else [found])


def test_deadlines_are_passed_on(between: Between) -> None:
    short: Unary = between.near.unary_unary("/a.B/C")
    waiting: Answers = between.near.unary_stream("/a.B/Wait")
    short(b"", timeout=7)
    assert 5 < (between.echo.deadlines[-1] or 0) < 8

    call = iter(waiting(b"late", timeout=2))
    assert next(call) == b"begun"  # the call might not be made before a shorter deadline
    with pytest.raises(grpc.RpcError) as late:
        next(call)
    assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_for(lambda: between.proxy.calls[-1].code == "DEADLINE_EXCEEDED", between.proxy.calls)


def test_a_cancellation_reaches_the_runtime(between: Between) -> None:
    waiting: Answers = between.near.unary_stream("/a.B/Wait")
    call = waiting(b"mine")
    assert next(iter(call)) == b"begun"
    time.sleep(0.05)
    assert b"mine" not in between.echo.canceled

    call.cancel()

    wait_for(lambda: b"mine" in between.echo.canceled)
    wait_for(lambda: between.proxy.calls[-1].code == "CANCELED")


def test_bytes_that_are_no_grpc_pass_too(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as runtime, passing(tmp_path / "proxy", tmp_path / "runtime") as proxy:
        runtime.bind(str(tmp_path / "runtime"))
        runtime.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "proxy"))
            client.sendall(b"hello")
            other, _ = runtime.accept()
            with other:
                assert other.recv(9) == b"hello"
                other.sendall(b"hi")
                assert client.recv(9) == b"hi"
        assert proxy.proxy.unread == 1
        assert proxy.said[0] == "the data of a connection cannot be decoded, so its calls are unknown"


def test_a_runtime_that_is_away_is_unavailable_until_it_is_back(tmp_path: Path) -> None:
    """Calls fail with UNAVAILABLE until the runtime is back. Each change is recorded and reported once."""
    with passing(tmp_path / "proxy", tmp_path / "runtime") as proxy, channel(tmp_path / "proxy") as near:
        call: Unary = near.unary_unary("/a.B/C")
        for _ in range(2):
            with pytest.raises(grpc.RpcError) as away:
                call(b"")
            assert away.value.code() is grpc.StatusCode.UNAVAILABLE
        why = "the runtime cannot be reached: no such file or directory"
        assert proxy.said == [why]
        [line] = recorded(proxy.calls[0])
        assert ("connect", "UNAVAILABLE", why) == (line["op"], line["code"], line["detail"])
        with echoing(tmp_path / "runtime"):
            assert call(b"x", wait_for_ready=True, timeout=10) == b"x"
        wait_for(lambda: len(proxy.said) == 3)

    assert proxy.said[1:] == ["the runtime can be reached again", "the runtime has closed a connection"]


def _is_refused(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == errno.ECONNREFUSED


def test_calls_in_progress_end_before_the_proxy(tmp_path: Path) -> None:
    """Calls that outlast the grace period are cut off and recorded as such."""
    with (
        echoing(tmp_path / "runtime"),
        passing(tmp_path / "proxy", tmp_path / "runtime", grace=5) as proxy,
        channel(tmp_path / "proxy") as near,
    ):
        go = threading.Event()

        def slowly() -> Iterator[bytes]:
            yield b"first"
            go.wait(5)
            yield b"last"

        asking: Stream = near.stream_stream("/a.B/C")
        call = asking(slowly())
        assert next(call) == b"first"
        ending = threading.Thread(target=proxy.end)
        ending.start()
        wait_for(lambda: _is_refused(tmp_path / "proxy"))
        go.set()
        assert list(call) == [b"last"]
        ending.join(5)
        assert [each.code for each in proxy.calls] == ["OK"]


def test_what_is_longer_than_the_grace_is_cut_off(tmp_path: Path) -> None:
    with (
        echoing(tmp_path / "runtime"),
        passing(tmp_path / "proxy", tmp_path / "runtime") as proxy,
        channel(tmp_path / "proxy") as near,
    ):
        waiting: Answers = near.unary_stream("/a.B/Wait")
        call = waiting(b"")
        assert next(iter(call)) == b"begun"
        proxy.end()
        with pytest.raises(grpc.RpcError):
            list(call)
        assert [each.code for each in proxy.calls] == ["CANCELED"]


def test_the_socket_is_its_owners_and_goes_with_the_proxy(tmp_path: Path) -> None:
    path = tmp_path / "proxy"
    with passing(path, tmp_path / "runtime"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(InputError, match="is in use"), passing(path, tmp_path / "runtime"):
            pass
        assert path.exists()
        time.sleep(0.2)  # the second proxy connected to the first one to check whether the address is in use
    assert not path.exists()


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(tmp_path / "proxy"))

    with (
        echoing(tmp_path / "runtime"),
        passing(tmp_path / "proxy", tmp_path / "runtime"),
        channel(tmp_path / "proxy") as near,
    ):
        call: Unary = near.unary_unary("/a.B/C")
        assert call(b"x", timeout=5) == b"x"


def _container(*, refuses_to_remove: bool) -> dict[str, Any]:
    removed = threading.Event()

    def status(request: ContainerStatusRequest, context: grpc.ServicerContext) -> ContainerStatusResponse:
        if removed.is_set():
            context.abort(
                grpc.StatusCode.NOT_FOUND, f'an error occurred when try to find container "{request}": not found'
            )
        return ContainerStatusResponse(
            status={"id": request.container_id, "state": 1, "created_at": 5, "started_at": 7}
        )

    def remove(request: RemoveContainerRequest, context: grpc.ServicerContext) -> RemoveContainerResponse:
        if removed.is_set() and refuses_to_remove:
            context.abort(grpc.StatusCode.NOT_FOUND, f'failed to find container "{request}": not found')
        removed.set()
        return RemoveContainerResponse()

    return {
        "CreateContainer": lambda *_: CreateContainerResponse(container_id="c" * 64),
        "StartContainer": lambda *_: StartContainerResponse(),
        "ContainerStatus": status,
        "RemoveContainer": remove,
    }


@pytest.mark.parametrize("wrong", [False, True])
def test_a_recording_of_the_proxy_is_judged_as_that_of_the_client(tmp_path: Path, *, wrong: bool) -> None:
    """Both recordings have the same lines, and the proxy's times lie within the client's."""
    one = "c" * 64
    theirs, ours = tmp_path / "client.jsonl", tmp_path / "proxy.jsonl.gz"
    with (
        serving(tmp_path / "runtime", _container(refuses_to_remove=wrong)),
        passing(tmp_path / "proxy", tmp_path / "runtime") as proxy,
        CallRecording(theirs) as recording,
    ):
        answers: list[CallAnswer] = []
        with CriClient(f"unix:{tmp_path / 'proxy'}", seen=answers.append) as client:
            client.call("CreateContainer", CreateContainerRequest(pod_sandbox_id="d" * 64))
            client.call("StartContainer", StartContainerRequest(container_id=one))
            client.call("ContainerStatus", ContainerStatusRequest(container_id=one))
            for _ in range(2):
                client.call("RemoveContainer", RemoveContainerRequest(container_id=one))
            client.call("ContainerStatus", ContainerStatusRequest(container_id=one))
            client.call("ListContainers")
        calls = proxy.until(len(answers))
        for each in answers:
            recording.take(each)
        with CallRecording(ours) as own:
            for passed in calls:
                own.write(recorded(passed))

    assert [each.op for each in answers] == [each.method.rpartition("/")[2] for each in calls]
    for answer, call in zip(answers, calls, strict=True):
        assert answer.start <= call.start <= call.end <= answer.end
        assert (answer.code, answer.detail) == (call.code, call.detail)
    verdicts = [[each.verdict for each in judge(path).judgements] for path in (theirs, ours)]
    one_s, other_s = ([type(each) for each in those] for those in verdicts)
    assert one_s == other_s
    assert wrong == any(isinstance(each, Illegal) for each in verdicts[1])


def test_no_call_of_other_services_is_a_line(between: Between) -> None:
    before = len(between.proxy.calls)
    other: Unary = between.near.unary_unary("/containerd.services.version.v1.Version/Version")
    events: Answers = between.near.unary_stream("/runtime.v1.RuntimeService/GetContainerEvents")
    older: Unary = between.near.unary_unary("/runtime.v1alpha2.RuntimeService/Version")
    other(b"")
    list(events(b""))
    older(b"")

    calls = between.proxy.until(before + 4)[before:]

    assert [[], ["event"], ["event"], ["Version"]] == [[line["op"] for line in recorded(each)] for each in calls]
    assert time.time_ns() >= calls[-1].end
