"""An independent CRI client in Go works with the proxy and with the server of fsm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from go_client import GoClient
from passing import passing
from served import served

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.runtimes.live.call_recording import recorded
from fsm.runtimes.live.workload import PAUSE
from fsm.runtimes.recordings.containerd_texts import capitals

if TYPE_CHECKING:
    from pathlib import Path

    from containerds import Containerd

pytestmark = [pytest.mark.live, pytest.mark.slow]  # a Go client, like containerd's own; building it takes minutes

LIFE = (
    ("StartContainer", "OK"),
    ("ContainerStatus", "OK"),
    ("StartContainer", "UNKNOWN"),
    ("StopContainer", "OK"),
    ("ContainerStatus", "OK"),
    ("RemoveContainer", "OK"),
    ("RemoveContainer", "OK"),
    ("ContainerStatus", "NOT_FOUND"),
)

EVENTS = 16


def _life(client: GoClient, name: str, image: str) -> list[dict[str, Any]]:
    pod = {
        "metadata": {"name": name, "uid": name},
        "linux": {"security_context": {"namespace_options": {"network": 2}}},
    }
    found = [client.call("Version"), client.call("RunPodSandbox", config=pod)]
    pod_id = found[-1]["reply"]["pod_sandbox_id"]
    container = {"metadata": {"name": name}, "image": {"image": image}, "command": ["/bin/sleep", "1000"]}
    found.append(client.call("CreateContainer", pod_sandbox_id=pod_id, config=container, sandbox_config=pod))
    one = found[-1]["reply"]["container_id"]
    found += [client.call(op, container_id=one) for op, _ in LIFE]
    found += [client.call(op, pod_sandbox_id=pod_id) for op in ("StopPodSandbox", "RemovePodSandbox")]
    return found


def _codes(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["call"], capitals(each["code"])) for each in found]


def test_the_proxy_is_not_noticed(containerd: Containerd, tmp_path: Path) -> None:
    with GoClient(f"unix:{containerd.endpoint}") as far:
        direct = _life(far, "direct", PAUSE)
    with passing(tmp_path / "proxy", containerd.endpoint) as proxy, GoClient(f"unix:{tmp_path / 'proxy'}") as near:
        through = _life(near, "through", PAUSE)
        calls = proxy.until(len(through))

    assert _codes(direct) == _codes(through)
    assert LIFE == tuple(_codes(through)[3:-2])
    assert _codes(through) == [(str(line["op"]), str(line["code"])) for each in calls for line in recorded(each)[:1]]


def test_its_events_fit_its_calls(containerd: Containerd, tmp_path: Path) -> None:
    """The container events agree with the calls. Containerd 1.6 sends no events."""
    with passing(tmp_path / "proxy", containerd.endpoint) as proxy, GoClient(f"unix:{tmp_path / 'proxy'}") as near:
        near.watch()
        for name in ("one", "two"):
            _life(near, name, PAUSE)
        came = [near.event() for _ in range(0 if containerd.nri is None else EVENTS)]
    lines = [line for each in proxy.calls for line in recorded(each)]
    (tmp_path / "calls.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in lines))
    judged = judge(tmp_path / "calls.jsonl", profile=f"containerd-{containerd.version.rpartition('.')[0]}")

    assert len(came) <= judged.notes["container events"]
    assert [] == [each.verdict for each in judged.judgements if isinstance(each.verdict, Illegal)]


def test_it_is_served(tmp_path: Path) -> None:
    with served(tmp_path) as address, GoClient(address) as client:
        client.watch()
        found = _life(client, "served", "busybox")
        one = next(each["reply"]["container_id"] for each in found if each["call"] == "CreateContainer")
        events = [client.event()["reply"] for _ in range(8)]

    assert LIFE == tuple(_codes(found)[3:-2])
    # The event type CREATED has the number 0, which Go's JSON omits.
    assert [0, 1, 2, 3] == [each.get("container_event_type", 0) for each in events if each["container_id"] == one]
