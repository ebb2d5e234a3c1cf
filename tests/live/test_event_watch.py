"""The container events of a runtime are checked against the calls that the tests make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from passing import wait_for
from served import ServedClient, served

from fsm.conformance import suite
from fsm.language.library import load
from fsm.report import conformance_report
from fsm.runtimes.live.runtime_session import EventWatch
from fsm.runtimes.sockets import cri_pb2 as cri
from fsm.runtimes.sockets import node_messages

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.conformance.tested import Tested

STEPS = 12


def _tested(folder: Path) -> Tested:
    with served(folder) as address:
        return suite.conform(
            load("cri-container"),
            f"cri:{address}",
            examples=2,
            steps=STEPS,
            aimed=lambda edge: edge.step.event == "start",
        )


def test_what_the_reference_tells_fits_the_calls(tmp_path: Path) -> None:
    found = _tested(tmp_path)

    assert not found.failures
    assert found.told
    assert found.told > STEPS
    assert f"{found.told} events checked against the calls\n" in conformance_report.text(found)


@pytest.mark.parametrize(
    ("instead", "clauses"),
    [
        (None, {"event-is-missing"}),
        (cri.CONTAINER_DELETED_EVENT, {"event-is-missing", "event-without-cause"}),
    ],
)
def test_what_a_runtime_tells_wrongly_is_found(
    instead: int | None, clauses: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start event that names another container, or that reports a removal, is found."""
    event = node_messages.event

    def wrong(each: Any) -> cri.ContainerEventResponse:  # noqa: ANN401  (passed on)
        sent = event(each)
        if sent.container_event_type == cri.CONTAINER_STARTED_EVENT:
            if instead is None:
                sent.container_id = "f" * 64
            else:
                sent.container_event_type = instead  # type: ignore[assignment]  # an enum of protobuf
        return sent

    monkeypatch.setattr(node_messages, "event", wrong)
    found = _tested(tmp_path)
    broken = {each.violation.clause.name for each in found.failures if each.violation}
    text = conformance_report.text(found)

    assert clauses <= broken
    assert "CONTAINER_STARTED_EVENT did not come" in text
    assert "verdict: fails\n" in text
    assert "verdict: unknown, because only a part of the plan was requested\n" in conformance_report.text(
        found, least="MUST"
    )


@pytest.mark.parametrize("shared", [False, True])
def test_where_clients_share_events_none_is_missing(
    shared: bool,  # noqa: FBT001  (a parameter of the test)
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A missing event is not reported if another client may have received it."""
    event, sent = node_messages.event, list[object]()

    def rare(each: Any) -> cri.ContainerEventResponse:  # noqa: ANN401
        sent.append(each)
        return event(each) if len(sent) % 5 else cri.ContainerEventResponse(container_id="f" * 64)

    monkeypatch.setattr(node_messages, "event", rare)
    with served(tmp_path) as address, ServedClient(address) as client:
        watch = EventWatch(address, timeout=5, shared=shared)
        client.client.seen = watch.take
        made = [client.container(client.pod(), "sleep", "60", started=True) for _ in range(6)]
        wait_for(lambda: watch._count == 4 * len(made))  # noqa: SLF001  (received, and not only sent)
        told = watch.told("cri-container")

    assert shared == (not told.violations)


@pytest.mark.parametrize("restarted", [False, True])
def test_after_a_restart_what_was_not_started_may_end(
    restarted: bool,  # noqa: FBT001  (a parameter of the test)
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A restart may end a container that was never started."""
    event, first = node_messages.event, list[str]()

    def wrong(each: Any) -> cri.ContainerEventResponse:  # noqa: ANN401
        told = event(each)
        if first:
            told.container_id, told.container_event_type = first[0], cri.CONTAINER_STOPPED_EVENT
        return told

    monkeypatch.setattr(node_messages, "event", wrong)
    with served(tmp_path) as address, ServedClient(address) as client:
        watch = EventWatch(address, timeout=5, shared=True)
        client.client.seen = watch.take
        pod = client.pod()
        made = client.container(pod, "true")
        wait_for(lambda: watch._count == 3)  # noqa: SLF001  (received, and not only sent)
        first.append(made)
        if restarted:
            watch.interrupted()
        client.container(pod, "true")
        wait_for(lambda: watch._count == 4)  # noqa: SLF001
        told = watch.told("cri-container")

    assert ["event-without-cause"] * (not restarted) == [each.clause.name for each in told.violations]
