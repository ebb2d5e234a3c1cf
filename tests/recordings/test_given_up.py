"""Plugins may be notified of an abandoned call even after the call has ended in the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from judged import violations

from fsm.monitor.judgement import judge

if TYPE_CHECKING:
    from pathlib import Path

POD, CONTAINER = "a" * 64, "b" * 64
AT = 1_795_473_365
"""2026-11-23T22:36:05Z, in seconds since 1970."""

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
    """A plugin must not be notified of a call after the call has ended, unless the call was abandoned."""
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


CONNECTS = '{"ts": 10, "event": "Configure"}\n{"ts": 11, "event": "Synchronize", "pods": ["%s"], "containers": []}\n'
ONE, TWO, THREE, OTHER = (letter * 64 for letter in "cdef")


def told(at: int, event: str, container: str = CONTAINER) -> str:
    return json.dumps({"ts": at * 10**6, "event": event, "pod": POD, "container": container}) + "\n"


def called(op: str, name: str, start: int, end: int, code: str = "OK") -> str:
    times = {"start": start * 10**6, "end": end * 10**6, "code": code}
    return json.dumps({"op": op, "id": name, **({"pod": POD} if op == "CreateContainer" else {}), **times}) + "\n"


def broken(folder: Path, events: list[str], calls: list[str] | str) -> list[tuple[str, str]]:
    (folder / "events").write_text(CONNECTS % POD + "".join(events), encoding="utf-8")
    (folder / "calls").write_text("".join(calls), encoding="utf-8")
    found = judge(str(folder / "events"), calls=str(folder / "calls"), profile="containerd-2.1")
    findings = [each for of in found.judgements for each in getattr(of.verdict, "findings", ())]
    return sorted((each.clause.name, each.observation.entity[:1]) for it in findings for each in it.first)


@pytest.mark.parametrize("first", ["CreateContainer", "StopContainer"])
@pytest.mark.parametrize(("more", "accused"), [([], 0), ([ONE], 1), ([ONE, TWO], 2)])
def test_a_creation_that_was_given_up_explains_one_id(
    first: str, more: list[str], accused: int, tmp_path: Path
) -> None:
    """An abandoned creation can have created only one container, with any id that no caller received."""
    calls = [
        called("CreateContainer", THREE, 20, 50),
        called("CreateContainer", "", 30, 60, code="DEADLINE_EXCEEDED"),
        called("RemoveContainer", THREE, 400, 500),
        called("UpdateContainerResources", OTHER, 5_000, 5_001, code="NOT_FOUND"),
    ]
    names = ["CreateContainer", "PostCreateContainer", "StopContainer", "RemoveContainer"]
    events = [told(35, "CreateContainer", THREE), told(40, "PostCreateContainer", THREE)]
    for number, each in enumerate([CONTAINER, *more]):
        those = names[names.index(first) :]
        events += [told(100 + 10 * number + place, name, each) for place, name in enumerate(those)]
    events += [told(410, "StopContainer", THREE), told(420, "RemoveContainer", THREE)]

    found = [each for each in broken(tmp_path, events, calls) if each[0] == "calls-come-first"]
    assert len({entity for _, entity in found}) == accused
    assert ("calls-come-first", THREE[0]) not in found


def test_what_an_id_took_in_time_no_other_takes(tmp_path: Path) -> None:
    """A creation that notified plugins before it was abandoned cannot have created a later container too."""
    calls = [
        called("CreateContainer", "", 20, 60, code="DEADLINE_EXCEEDED"),
        called("UpdateContainerResources", OTHER, 5_000, 5_001, code="NOT_FOUND"),
    ]
    events = [told(30, "CreateContainer", ONE), told(70, "PostCreateContainer", ONE)]
    assert broken(tmp_path, events, calls) == []

    events += [told(100, "CreateContainer", TWO)]
    assert broken(tmp_path, events, calls) == [("calls-come-first", TWO[0])]


@pytest.mark.parametrize(("again", "accused"), [(False, 0), (True, 1)])
def test_a_call_that_was_given_up_relays_each_event_once(again: bool, accused: int, tmp_path: Path) -> None:  # noqa: FBT001
    calls = [
        called("CreateContainer", CONTAINER, 20, 40),
        called("UpdateContainerResources", CONTAINER, 50, 60, code="CANCELED"),
        called("UpdateContainerResources", OTHER, 5_000, 5_001, code="NOT_FOUND"),
    ]
    events = [told(25, "CreateContainer"), told(30, "PostCreateContainer")]
    for at in (70, 90) if again else (70,):
        events += [told(at, "UpdateContainer"), told(at + 1, "PostUpdateContainer")]

    found = broken(tmp_path, events, calls)
    assert found == [("calls-come-first", CONTAINER[0])] * 2 * accused


def line(at: int, message: str, error: str = "") -> str:
    quoted = message.replace('"', '\\"')
    return (
        f'time="1970-01-01T00:00:{at / 1000:06.3f}Z" level=info msg="{quoted}"'
        + f' error="{error}"' * bool(error)
        + "\n"
    )


def creating(container: str, start: int, end: int) -> list[tuple[int, str]]:
    within = f'CreateContainer within sandbox "{POD}" for &ContainerMetadata{{Name:{container[0]},Attempt:0,}}'
    return [(start, within), (end, f'{within} returns container id "{container}"')]


@pytest.mark.parametrize(
    ("says", "missing", "accused"),
    [
        ("NRI post-create notification failed", 1, 0),
        ("NRI post-create notification failed", 2, 1),  # the line may belong to either call
        ("NRI post-start notification failed", 1, 1),
        ("NRI failed to remove container", 1, 1),
    ],
)
def test_a_relay_that_failed_excuses_one_call_of_its_kind(
    says: str, missing: int, accused: int, tmp_path: Path
) -> None:
    steps = [*creating(ONE, 20, 51), *creating(TWO, 21, 52), *creating(THREE, 6_000, 6_020)]
    log = [(at, line(at, message)) for at, message in steps] + [(50, line(50, says, "context canceled"))]
    posts = [told(47, "PostCreateContainer", TWO)] if missing == 1 else []
    events = [told(30, "CreateContainer", ONE), told(40, "CreateContainer", TWO), *posts]
    events += [told(6_010, "CreateContainer", THREE), told(6_015, "PostCreateContainer", THREE)]

    found = broken(tmp_path, events, "".join(text for _, text in sorted(log)))
    assert [clause for clause, _ in found] == ["success-is-relayed"] * accused


@pytest.mark.parametrize(("closes", "accused"), [(True, 0), (False, 1)])
def test_a_plugin_that_was_closed_receives_late(closes: bool, accused: int, tmp_path: Path) -> None:  # noqa: FBT001
    """A plugin whose connection was closed may still receive events that were sent earlier.

    Until it reconnects, successful calls need not be relayed to it.
    """
    steps = [*creating(ONE, 20, 52), *creating(TWO, 22, 55)]
    log = [(at, line(at, message)) for at, message in steps]
    if closes:
        text = "closing plugin 10-observer, failed to handle event 5: context deadline exceeded"
        log.append((51, line(51, text)))
    events = [told(30, "CreateContainer", ONE), told(40, "CreateContainer", TWO), told(60, "PostCreateContainer", ONE)]
    again = '{"ts": 90000000, "event": "Configure"}\n'

    log += [
        (at, line(at, f'StopContainer for "{OTHER}"{rest}')) for at, rest in ((95, ""), (96, " returns successfully"))
    ]

    found = broken(tmp_path, [*events, again], "".join(text for _, text in sorted(log)))
    assert sum(clause == "calls-come-first" for clause, _ in found) == accused
    assert sum(clause == "success-is-relayed" for clause, _ in found) == 0


@pytest.mark.parametrize(("dropped", "accused"), [(False, 0), (True, 1)])
def test_each_reply_ends_the_call_on_its_line(dropped: bool, accused: int, tmp_path: Path) -> None:  # noqa: FBT001
    calls = [
        called("CreateContainer", TWO, 20, 60),
        called("CreateContainer", ONE, 0, 90),
        called("UpdateContainerResources", OTHER, 5_000, 5_001, code="NOT_FOUND"),
    ]
    events = [told(30, "CreateContainer", TWO), *([] if dropped else [told(40, "PostCreateContainer", TWO)])]
    events += [told(70, "CreateContainer", ONE), told(80, "PostCreateContainer", ONE)]

    assert broken(tmp_path, events, calls) == [("success-is-relayed", TWO[0])] * accused


@pytest.mark.parametrize(("relays", "accused"), [(2, 0), (3, 1)])
def test_of_two_calls_that_overlap_each_relays(relays: int, accused: int, tmp_path: Path) -> None:
    """Two overlapping calls may each relay an event, even if the log does not show which call each reply ends."""
    why = "rpc error: code = Canceled desc = NRI container update failed: context canceled"
    about = f'UpdateContainerResources for "{CONTAINER}"'
    texts = [(20, " with Linux: nil", ""), (21, " with Linux: nil", ""), (40, " failed", why), (41, " failed", why)]
    steps = [*creating(CONTAINER, 12, 19), *creating(THREE, 6_000, 6_020)]
    log = [(at, line(at, message)) for at, message in steps] + [
        (at, line(at, about + text, why)) for at, text, why in texts
    ]
    events = [told(14, "CreateContainer"), told(15, "PostCreateContainer")]
    events += [told(50 + at, "UpdateContainer") for at in range(relays)]
    events += [told(6_010, "CreateContainer", THREE), told(6_015, "PostCreateContainer", THREE)]

    found = broken(tmp_path, events, "".join(text for _, text in sorted(log)))
    assert [clause for clause, _ in found] == ["calls-come-first"] * accused


@pytest.mark.parametrize(("stops", "accused"), [(1, []), (2, [("stopped-once", ONE[0])])])
def test_a_removal_that_was_given_up_makes_nothing_forgotten(
    stops: int, accused: list[tuple[str, str]], tmp_path: Path
) -> None:
    """A second stop of a container is a violation even after an abandoned removal of its pod."""
    calls = [
        called("CreateContainer", ONE, 20, 40),
        called("RemovePodSandbox", POD, 50, 80, code="DEADLINE_EXCEEDED"),
        called("StartContainer", ONE, 90, 120),
        called("StopContainer", ONE, 130, 160),
        called("UpdateContainerResources", OTHER, 5_000, 5_001, code="NOT_FOUND"),
    ]
    events = [told(25, "CreateContainer", ONE), told(30, "PostCreateContainer", ONE)]
    events += [told(100, "StartContainer", ONE), told(110, "PostStartContainer", ONE)]
    events += [told(140 + at, "StopContainer", ONE) for at in range(stops)]

    assert broken(tmp_path, events, calls) == accused
