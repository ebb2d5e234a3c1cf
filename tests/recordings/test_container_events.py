"""The events of GetContainerEvents are checked against the recorded calls, and exactly the wrong ones are found."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.recordings import as_recorded
from fsm.verdict import Holds, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Lines = list[dict[str, Any]]

POD, ONE, TWO, OTHER = (letter * 64 for letter in "abcd")
SECOND = 1_000_000_000
BEGIN = 1_795_000_000 * SECOND


def call(op: str, name: str, at: float, code: str = "OK", **more: object) -> dict[str, Any]:
    start = BEGIN + int(at * SECOND)
    return {"op": op, "id": name, "start": start, "end": start + SECOND // 10, "code": code, **more}


def event(type_: str, name: str, at: float, stream: int = 1, pod: str = POD) -> dict[str, Any]:
    dated = BEGIN + int((at + 0.05) * SECOND)
    kind = f"CONTAINER_{type_}_EVENT"
    return {
        "op": "event",
        "stream": stream,
        "start": dated + 9,
        "id": name,
        "pod": pod,
        "type": kind,
        "created_at": dated,
    }


def over(at: float, stream: int = 1) -> dict[str, Any]:
    return {"op": "event", "stream": stream, "start": BEGIN + int(at * SECOND), "code": "CANCELED", "detail": ""}


def life() -> Lines:
    """Return the calls and events of a pod with two containers, one of which is removed with the pod."""
    return [
        event("CREATED", POD, 0),
        event("STARTED", POD, 0.01),
        call("RunPodSandbox", POD, 0),
        event("CREATED", ONE, 1),
        call("CreateContainer", ONE, 1, pod=POD),
        event("STARTED", ONE, 2),
        call("StartContainer", ONE, 2),
        event("CREATED", TWO, 3),
        call("CreateContainer", TWO, 3, pod=POD),
        call("StartContainer", TWO, 4, code="UNKNOWN", detail="no such command"),
        event("STOPPED", ONE, 5),
        call("StopContainer", ONE, 5),
        event("DELETED", ONE, 6),
        call("RemoveContainer", ONE, 6),
        event("DELETED", TWO, 20),
        event("STOPPED", POD, 20.01),
        event("DELETED", POD, 20.02, pod=""),
        call("RemovePodSandbox", POD, 20),
        call("RemoveContainer", ONE, 21),
        event("CREATED", OTHER, 22, pod=OTHER),
        over(23),
    ]


def found(folder: Path, lines: Lines) -> list[tuple[str, str]]:
    file = folder / "calls.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    judged = judge(file).judgements
    verdicts = [each.verdict for each in judged]
    assert all(isinstance(each, Holds | Illegal | Unknown) for each in verdicts)
    findings = [each for verdict in verdicts if isinstance(verdict, Illegal) for each in verdict.findings]
    return sorted((each.clause.name, each.observation.entity[:1]) for it in findings for each in it.first)


def _at(lines: Lines, type_: str, name: str) -> int:
    return next(
        number
        for number, each in enumerate(lines)
        if each["op"] == "event" and each.get("id") == name and each["type"] == f"CONTAINER_{type_}_EVENT"
    )


def dropped(type_: str, name: str) -> Callable[[Lines], object]:
    return lambda lines: lines.pop(_at(lines, type_, name))


def doubled(type_: str, name: str) -> Callable[[Lines], object]:
    def edit(lines: Lines) -> None:
        number = _at(lines, type_, name)
        lines.insert(number + 1, deepcopy(lines[number]))

    return edit


def swapped(first: tuple[str, str], second: tuple[str, str]) -> Callable[[Lines], object]:
    """Exchange the lines of two events without changing their times."""

    def edit(lines: Lines) -> None:
        one, other = _at(lines, *first), _at(lines, *second)
        lines[one], lines[other] = lines[other], lines[one]

    return edit


def added(*more: dict[str, Any]) -> Callable[[Lines], object]:
    return lambda lines: lines.extend([*more, lines.pop()])


def changed(op: str, name: str, **values: object) -> Callable[[Lines], object]:
    return lambda lines: next(each for each in lines if each["op"] == op and each.get("id") == name).update(values)


def another_stream(since: float) -> Callable[[Lines], object]:
    def edit(lines: Lines) -> None:
        for each in lines:
            if each["op"] == "event" and each["start"] > BEGIN + since * SECOND:
                each["stream"] = 2

    return edit


def both(*edits: Callable[[Lines], object]) -> Callable[[Lines], object]:
    def edit(lines: Lines) -> None:
        for each in edits:
            each(lines)

    return edit


def test_what_containerd_sends_is_right(tmp_path: Path) -> None:
    assert [] == found(tmp_path, life())


@pytest.mark.parametrize(
    ("edit", "clause", "entity"),
    [
        (dropped("CREATED", ONE), "event-is-missing", ONE),
        (dropped("STARTED", ONE), "event-is-missing", ONE),
        (dropped("STOPPED", ONE), "event-is-missing", ONE),
        (dropped("DELETED", ONE), "event-is-missing", ONE),
        (dropped("DELETED", TWO), "event-is-missing", TWO),
        (dropped("DELETED", POD), "event-is-missing", POD),
        *((doubled(each, ONE), "event-without-cause", ONE) for each in ("CREATED", "STARTED", "STOPPED", "DELETED")),
        (doubled("CREATED", POD), "event-without-cause", POD),
        (added(event("STARTED", ONE, 2.01)), "event-without-cause", ONE),
        (added(event("STARTED", TWO, 4)), "event-without-cause", TWO),
        (added(event("STOPPED", TWO, 10)), "event-without-cause", TWO),
        (added(event("DELETED", TWO, 10)), "event-without-cause", TWO),
        (added(event("STARTED", OTHER, 10)), "event-without-cause", OTHER),
        (added(event("CREATED", OTHER, 3)), "event-without-cause", OTHER),
        (swapped(("CREATED", ONE), ("STARTED", ONE)), "event-out-of-order", ONE),
        (swapped(("STARTED", ONE), ("STOPPED", ONE)), "event-out-of-order", TWO),
        (swapped(("CREATED", POD), ("STARTED", POD)), "event-out-of-order", POD),
        (
            both(dropped("STOPPED", ONE), changed("StartContainer", ONE, code="DEADLINE_EXCEEDED")),
            "event-is-missing",
            ONE,
        ),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, edit: Callable[[Lines], object], clause: str, entity: str) -> None:
    lines = life()
    edit(lines)

    assert (clause, entity[:1]) in found(tmp_path, lines)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(both(dropped("CREATED", POD), dropped("STARTED", POD)), id="before the stream"),
        pytest.param(added(event("STARTED", OTHER, 10, pod=OTHER)), id="of another client"),
        pytest.param(
            both(dropped("STARTED", ONE), changed("StartContainer", ONE, code="CANCELED")),
            id="a call that was given up",
        ),
        pytest.param(
            both(
                changed("StartContainer", TWO, code="DEADLINE_EXCEEDED"),
                added(event("STARTED", TWO, 11), event("STOPPED", TWO, 12)),
            ),
            id="a call that went on",
        ),
        pytest.param(
            both(
                dropped("STARTED", ONE),
                dropped("STOPPED", ONE),
                changed("StartContainer", ONE, code="DEADLINE_EXCEEDED"),
            ),
            id="a start that was given up has failed",
        ),
        pytest.param(
            both(dropped("STARTED", ONE), added(event("STARTED", ONE, 2, stream=2))), id="another stream took it"
        ),
        pytest.param(
            both(
                dropped("STOPPED", ONE),
                added(over(4.5), *(event("STOPPED", OTHER, at, pod=OTHER) for at in (5.5, 5.6))),
                another_stream(since=5),
            ),
            id="it ended when no stream was open",
        ),
        pytest.param(
            both(dropped("STOPPED", ONE), added(event("STOPPED", ONE, 6.5))), id="its end is told after its removal"
        ),
        pytest.param(both(dropped("DELETED", ONE), added(over(5.9))), id="the stream had ended"),
        pytest.param(swapped(("STOPPED", ONE), ("DELETED", ONE)), id="an exit is told when it is"),
        pytest.param(added(event("STOPPED", ONE, 5.02)), id="exits may be told again"),
        pytest.param(added(event("STOPPED", ONE, 1.99)), id="exits may be told before the start"),
        pytest.param(
            both(lambda lines: lines.pop(), lambda lines: lines.append(event("DELETED", OTHER, 22.5, pod=POD))),
            id="the recording breaks off",
        ),
    ],
)
def test_what_may_be_is_not_claimed(tmp_path: Path, edit: Callable[[Lines], object]) -> None:
    """Missing, additional or reordered events are not violations if they can be explained by something unrecorded."""
    lines = life()
    edit(lines)

    assert [] == found(tmp_path, lines)


def test_events_are_shown_where_they_are_dated(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in life()), encoding="utf-8")
    told = [(each.seen.entity[:1], each.seen.output) for each in as_recorded(str(file)).steps if each.seen.output]

    assert [("a", "CONTAINER_CREATED_EVENT"), ("a", "CONTAINER_STARTED_EVENT")] == told[:2]
    assert 11 == len(told)


def test_a_call_that_was_given_up_is_shown_where_it_began(tmp_path: Path) -> None:
    """An abandoned call is shown before its events, although fsm holds the call back in case of a restart."""
    lines = life()
    changed("CreateContainer", ONE, code="DEADLINE_EXCEEDED")(lines)
    file = tmp_path / "calls.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")

    steps = [each.seen for each in as_recorded(str(file)).steps]
    begins, ends = (
        number
        for number, each in enumerate(steps)
        if each.event == "CreateContainer" and each.at in {lines[4]["start"], lines[4]["end"]}
    )
    told = next(
        number for number, each in enumerate(steps) if (each.entity, each.output[:14]) == (ONE, "CONTAINER_CREA")
    )
    assert begins < told < ends
