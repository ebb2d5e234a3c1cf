"""Of a call that its caller has given up plugins may be told after the log has its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from judged import violations

from fsm.judgement import judge

if TYPE_CHECKING:
    from pathlib import Path

POD, CONTAINER = "a" * 64, "b" * 64
AT = 1_795_473_365
"""2026-11-23T22:36:05Z."""

TOLD = [
    (10, "Synchronize"),
    (20, "RunPodSandbox"),
    (100, "CreateContainer"),
    (110, "PostCreateContainer"),
    (400, "{}"),
    (590, "StopContainer"),
    (600, "RemoveContainer"),
]
LOG = """\
time="2026-11-23T22:36:05.015Z" level=info msg="RunPodSandbox for &PodSandboxMetadata{{Name:p,Uid:u,Namespace:n,Attempt:0,}}"
time="2026-11-23T22:36:05.030Z" level=info msg="RunPodSandbox for &PodSandboxMetadata{{Name:p,Uid:u,Namespace:n,Attempt:0,}} returns sandbox id \\"{pod}\\""
time="2026-11-23T22:36:05.090Z" level=info msg="CreateContainer within sandbox \\"{pod}\\" for container &ContainerMetadata{{Name:c,Attempt:0,}}"
time="2026-11-23T22:36:05.120Z" level=info msg="CreateContainer within sandbox \\"{pod}\\" for &ContainerMetadata{{Name:c,Attempt:0,}} returns container id \\"{container}\\""
{call}
time="2026-11-23T22:36:05.550Z" level=info msg="RemoveContainer for \\"{container}\\""
time="2026-11-23T22:36:05.650Z" level=info msg="RemoveContainer for \\"{container}\\" returns successfully"
"""
UPDATED = """\
time="2026-11-23T22:36:05.300Z" level=info msg="UpdateContainerResources for \\"{container}\\" with Linux: nil"
time="2026-11-23T22:36:05.395Z" level=error msg="UpdateContainerResources for \\"{container}\\" failed" error="rpc error: code = {code} desc = NRI container update failed: {why}\""""
STOPPED = """\
time="2026-11-23T22:36:05.300Z" level=info msg="StopContainer for \\"{container}\\" with timeout 0 (s)"
time="2026-11-23T22:36:05.394Z" level=error msg="NRI failed to stop container" error="{why}"
time="2026-11-23T22:36:05.395Z" level=info msg="StopContainer for \\"{container}\\" returns successfully\""""


@pytest.mark.parametrize(("code", "why"), [("Canceled", "context canceled"), ("Unknown", "context deadline exceeded")])
@pytest.mark.parametrize(("event", "call"), [("UpdateContainer", UPDATED), ("StopContainer", STOPPED)])
@pytest.mark.parametrize("given_up", [True, False])
def test_it_may_be_told_later(event: str, call: str, code: str, why: str, tmp_path: Path, *, given_up: bool) -> None:
    """And of one that ended otherwise it may not."""
    other = {"container": CONTAINER, "code": code if given_up else "Unknown", "why": why if given_up else "no reason"}
    log, events = tmp_path / "log", tmp_path / "events"
    log.write_text(LOG.format(pod=POD, container=CONTAINER, call=call.format(**other)), encoding="utf-8")
    with events.open("w", encoding="utf-8") as file:
        for number, name in TOLD if call == UPDATED else [*TOLD[:-2], TOLD[-1]]:
            told = {"ts": AT * 10**9 + number * 10**6, "event": name.format(event)}
            of = {} if name == "Synchronize" else {"pod": POD} | ({} if "Pod" in name else {"container": CONTAINER})
            listed: dict[str, list[str]] = {"pods": [], "containers": []} if name == "Synchronize" else {}
            file.write(json.dumps(told | of | listed) + "\n")
    broken = [each.clause for each in violations(judge(str(events), calls=str(log)))]

    assert broken == ([] if given_up else ["calls-come-first", *["stop-is-relayed"] * (call == STOPPED)])
