"""Container events that pass the proxy are recorded and judged together with calls."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import msgspec
from passing import passing, wait_for
from served import ServedClient, served

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.runtimes.live.call_recording import recorded
from fsm.runtimes.live.passing_calls import of_events
from fsm.runtimes.sockets.cri_client import CriClient
from fsm.verdict import Holds

if TYPE_CHECKING:
    from pathlib import Path


def _recorded(folder: Path) -> list[dict[str, Any]]:
    told: list[object] = []
    with (
        served(folder) as address,
        passing(folder / "proxy", folder / "cri.sock") as proxy,
        CriClient(f"unix:{folder / 'proxy'}") as listener,
        ServedClient(f"unix:{folder / 'proxy'}") as client,
    ):
        assert address
        stream = listener.events(timeout=20)
        thread = threading.Thread(target=lambda: told.extend(stream))
        thread.start()
        for _ in range(2):
            pod = client.pod()
            one = client.container(pod, "sleep", "60", started=True)
            client.codes(*((op, {"container_id": one}) for op in ("StopContainer", "RemoveContainer")))
            client.call("RemovePodSandbox", pod_sandbox_id=pod)
        wait_for(lambda: len(told) >= 14)  # four events of each container, at least three of each pod
        stream.close()
        thread.join()
        wait_for(lambda: any(each.code and of_events(each.method) for each in proxy.calls))
        return [line for each in proxy.calls for line in recorded(each)]


def _broken(folder: Path, lines: list[dict[str, Any]]) -> list[str]:
    file = folder / "calls.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in lines))
    judged = judge(file)
    assert judged.notes["container events"] >= 13
    verdicts = [each.verdict for each in judged.judgements]
    assert all(isinstance(each, Holds | Illegal) for each in verdicts)
    return [each.first[0].clause.name for it in verdicts if isinstance(it, Illegal) for each in it.findings]


def test_what_was_told_fits_the_calls(tmp_path: Path) -> None:
    lines = _recorded(tmp_path)
    events = [each for each in lines if each["op"] == "event"]
    last = next(each["id"] for each in lines[::-1] if each["op"] == "CreateContainer")

    kinds = [each["type"].split("_")[1] for each in events if each.get("id") == last]
    assert ["CREATED", "STARTED", "STOPPED", "DELETED"] == kinds
    assert [("CANCELED", "")] == [(each["code"], each["detail"]) for each in events if "id" not in each]
    assert [] == _broken(tmp_path, lines)
    for each in events:
        if each.get("id") == last and each["type"] != "CONTAINER_STOPPED_EVENT":  # may arrive 10 s later
            kept = [line for line in lines if line is not each]
            assert ["event-is-missing"] == _broken(tmp_path, kept)
