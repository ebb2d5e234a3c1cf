"""The clause ``fresh-id`` is broken if an entity is created with an id that was used before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fsm.language.library import load
from fsm.machine.findings import Illegal
from fsm.monitor import Monitor
from fsm.monitor.judgement import judge
from fsm.trace import Observation
from fsm.verdict import Holds

if TYPE_CHECKING:
    from pathlib import Path

CONTAINERS = ["cri-container", "container-status"]
PODS = ["cri-pod", "pod-sandbox"]


def told(model: str, run: str, *, ids: bool = True) -> list[tuple[str, ...]]:
    monitor = Monitor(load(model), ids=ids)
    found = []
    for event in run.split():
        violations = monitor.observe(Observation(entity="e1", event=event, reply="ok"))
        found += [(event, each.clause.name, *each.before, *each.permitted[0].what) for each in violations]
    return found


@pytest.mark.parametrize(
    ("models", "run"), [(CONTAINERS, "create remove remove create start"), (PODS, "run stop remove run stop")]
)
def test_an_id_does_not_come_back(models: list[str], run: str) -> None:
    creation = run.partition(" ")[0]

    assert [told(model, run) for model in models] == [[(creation, "fresh-id", "absent", "error")]] * 2


@pytest.mark.parametrize(("models", "run"), [(CONTAINERS, "create remove create"), (PODS, "run remove run")])
def test_a_name_may(models: list[str], run: str) -> None:
    """Names may be reused, unlike ids. Traces in fsm's own format contain names."""
    assert [told(model, run, ids=False) for model in models] == [[], []]


def test_an_id_of_which_nothing_was_created_is_fresh() -> None:
    monitor = Monitor(load("cri-container"), ids=True)
    calls = [("stop", "ok"), ("remove", "ok"), ("create", "UNKNOWN"), ("create", "ok"), ("remove", "ok")]

    assert [monitor.observe(Observation(entity="e1", event=event, reply=reply)) for event, reply in calls] == [()] * 5


@pytest.mark.parametrize(("named", "found"), [(4, ["fresh-id"]), (5, []), (7, [])])
@pytest.mark.parametrize(
    ("model", "call", "creation"), [("cri-container", "status", "create"), ("cri-pod", "status", "run")]
)
def test_no_id_is_named_before_it_is_asked_for(
    named: int, found: list[str], model: str, call: str, creation: str
) -> None:
    monitor = Monitor(load(model), ids=True)
    monitor.observe(Observation(entity="e1", event=call, phase="request", at=named))
    violations = monitor.observe(Observation(entity="e1", event=creation, reply="ok", start=5, at=9))

    assert found == [each.clause.name for each in violations]


LOG = """\
time="2026-11-20T11:03:2{n}Z" level=info msg="CreateContainer within sandbox \\"{pod}\\" for &ContainerMetadata{{Name:c,Attempt:0,}} \
returns container id \\"{id}\\""
time="2026-11-20T11:03:2{n}.1Z" level=info msg="RemoveContainer for \\"{id}\\" returns successfully"
"""


@pytest.mark.parametrize(("times", "verdict"), [(1, Holds), (2, Illegal)])
def test_logs_show_ids(tmp_path: Path, times: int, verdict: type) -> None:
    log = tmp_path / "containerd.log"
    lines = (LOG.format(n=number, pod="b" * 64, id="c" * 64) for number in range(times))
    log.write_text("".join(lines), encoding="utf-8")

    assert type(judge(log).judgements[0].verdict) is verdict
