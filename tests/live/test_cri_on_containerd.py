"""The CRI client works with real daemons: it makes calls, receives events, and records a runtime that disappears."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from called import done, running_pod, started
from judged import violations
from passing import wait_for

from fsm.errors import InputError
from fsm.monitor.judgement import judge
from fsm.runtimes.live.call_recording import CallRecording
from fsm.runtimes.sockets.cri_client import CallAnswer, CriClient, connected
from fsm.runtimes.sockets.cri_pb2 import (
    CONTAINER_EXITED,
    ContainerEventResponse,
    ContainerStatusRequest,
    ExecSyncRequest,
    RemoveContainerRequest,
    StopContainerRequest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from containerds import Containerd

pytestmark = pytest.mark.live


@pytest.fixture
def client(containerd: Containerd) -> Iterator[CriClient]:
    client, _ = connected(f"unix://{containerd.endpoint}")
    with client:
        yield client


@pytest.fixture
def pod(client: CriClient) -> Iterator[str]:
    with running_pod(client) as number:
        yield number


def test_a_daemon_has_a_name_and_a_version(containerd: Containerd) -> None:
    client, version = connected(f"unix://{containerd.endpoint}")
    client.close()

    assert "containerd" == version.runtime_name
    assert version.runtime_version.removeprefix("v").startswith(containerd.version)


def test_another_socket_of_a_daemon_is_not_cri(containerd: Containerd) -> None:
    with pytest.raises(InputError, match=r"containerd\.sock\.ttrpc"):
        connected(f"unix://{containerd.endpoint}.ttrpc", timeout=2)


def test_a_life_is_recorded_and_judged(client: CriClient, pod: str, containerd: Containerd, tmp_path: Path) -> None:
    """Only 1.6.20 breaks the contract: it answers NOT_FOUND when a removed container is stopped.

    The profile of this version tolerates the answer.
    """
    path = tmp_path / "calls.jsonl"
    with CallRecording(path) as recording:
        client.seen = recording.take
        number = started(client, pod)
        done(client.call("StopContainer", StopContainerRequest(container_id=number)))
        status = done(client.call("ContainerStatus", ContainerStatusRequest(container_id=number))).message.status
        done(client.call("RemoveContainer", RemoveContainerRequest(container_id=number)))
        again = client.call("StopContainer", StopContainerRequest(container_id=number))
        client.seen = None

    old = containerd.version == "1.6.20"
    assert (CONTAINER_EXITED, 137) == (status.state, status.exit_code)
    assert ("NOT_FOUND" if old else "OK") == again.code
    plain = violations(judge(str(path)))
    under = violations(judge(str(path), profile=f"containerd-{containerd.version}"))
    assert (["stop-is-idempotent"] if old else []) == [each.clause for each in plain]
    assert [] == under


def test_events_are_streamed_since_1_7(client: CriClient, pod: str, containerd: Containerd) -> None:
    """The stream ends at once in versions before 1.7, which lack the method."""
    stream = client.events(timeout=60)
    seen: list[ContainerEventResponse] = []
    reader = threading.Thread(target=lambda: seen.extend(stream))
    reader.start()
    number = started(client, pod)
    done(client.call("StopContainer", StopContainerRequest(container_id=number)))
    done(client.call("RemoveContainer", RemoveContainerRequest(container_id=number)))
    if containerd.version != "1.6.20":
        client.call("Status")
    stream.close()
    reader.join(10)

    kinds = [each.container_event_type for each in seen if each.container_id == number]
    if containerd.version == "1.6.20":
        assert ([], "UNIMPLEMENTED") == (kinds, stream.code)
    else:
        assert kinds
        assert sorted(kinds) == kinds


def test_a_daemon_that_is_killed_in_mid_call_is_unavailable(
    client: CriClient, pod: str, containerd: Containerd
) -> None:
    """The call fails with UNAVAILABLE and the container is unchanged."""
    number = started(client, pod)
    answers: list[CallAnswer] = []
    first = ExecSyncRequest(container_id=number, cmd=["cat", "/proc/1/comm"], timeout=30)
    # Wait until the process of the container runs. It ignores the signal, but the program that starts it would not.
    wait_for(lambda: done(client.call("ExecSync", first)).message.stdout == b"sleep\n")
    request = StopContainerRequest(container_id=number, timeout=60)
    caller = threading.Thread(target=lambda: answers.append(client.call("StopContainer", request, timeout=30)))
    caller.start()
    caller.join(0.3)
    assert not answers
    containerd.kill()
    caller.join(30)
    with connected(f"unix://{containerd.endpoint}")[0] as again:
        status = done(again.call("ContainerStatus", ContainerStatusRequest(container_id=number))).message.status
        done(again.call("StopContainer", StopContainerRequest(container_id=number)))

    assert ["UNAVAILABLE"] == [each.code for each in answers]
    assert number == status.id
