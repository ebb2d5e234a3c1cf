"""Generated tests find the defects of real daemons, and reduce each to a shortest test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fsm.conformance.concurrency import concurrently
from fsm.conformance.lookup import find
from fsm.conformance.race_runs import Pace
from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.machine.findings import Cause, Illegal
from fsm.monitor.judgement import judge
from fsm.runtimes.node_model import node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from containerds import Containerd

    from fsm.sut import SUT

pytestmark = [pytest.mark.live, pytest.mark.slow]  # the comparison with the conformance matrix also finds this


def test_stops_of_the_removed_are_refused_by_1_6_20_only(containerd: Containerd) -> None:
    """A single stop of a container that never existed shows the defect."""
    tested = conform(load("cri-container"), f"cri:unix://{containerd.endpoint}", examples=0)

    found = [
        ([str(step) for step in each.steps], each.violation.clause.name if each.violation else each.broken)
        for each in tested.failures
    ]
    assert ([(["stop"], "stop-is-idempotent")] if containerd.version == "1.6.20" else []) == found


TAKING_PLUGINS = pytest.mark.parametrize(
    "containerd",
    [pytest.param(each, marks=pytest.mark.xdist_group(each)) for each in ("1.7.24", "2.1.9")],
    indirect=True,
)
"""containerd 1.6 has a version of NRI that is not supported."""

STARTED_AFTER_STOP = ("plugin-container", Cause.EVENT, "no-start-after-stop", "StartContainer")
UPDATED_AFTER_REMOVAL = ("plugin-container", Cause.EVENT, "removed-last", "UpdateContainer")


def told(daemon: Containerd) -> Callable[[], SUT]:
    """Return a factory of SUTs with a pod, its containers, and a plugin whose events are judged by its contract."""
    options = {"nri": f"unix://{daemon.nri}", "restart_command": daemon.restart_command}
    return find(f"cri:unix://{daemon.endpoint}", node(None), options=options, model="plugin-container")


@TAKING_PLUGINS
def test_an_update_is_told_after_the_removal(containerd: Containerd, tmp_path: Path) -> None:
    """An update that is relayed after the removal is found with two concurrent calls, and also in their recording.

    The search would end at the first finding, so three others are ignored: different late events, violations that a
    single thread can cause, and the crash of 2.1.9 when a container is removed after its pod.
    """
    others = [STARTED_AFTER_STOP, ("broken",)]
    others += [(*UPDATED_AFTER_REMOVAL[:3], f"Post{each}Container") for each in ("Create", "Start", "Update")]
    others += [
        ("plugin-container", Cause.EVENT, "relayed-after-the-fact", f"Post{each}Container")
        for each in ("Create", "Start")
    ]
    search = concurrently(
        node(None), told(containerd), examples=400, repeats=1, pace=Pace(delay=0.05, seconds=300), known=others, most=1
    )

    [race] = search.found
    assert race.kind == UPDATED_AFTER_REMOVAL
    done = sorted(event.removesuffix(".2") for thread in race.programme.threads for event in thread)
    assert "update-container" in done
    assert len(race.programme.threads) == 2
    assert race.witness is not None
    for end, content in race.witness.files.items():
        (tmp_path / f"race{end}").write_bytes(content)
    again = judge(tmp_path / "race.nri", calls=tmp_path / "race", models=["plugin-container"])
    [verdict] = [each.verdict for each in again.judgements]
    assert isinstance(verdict, Illegal)
    assert ["removed-last"] == [each.first[0].clause.name for each in verdict.findings]


@TAKING_PLUGINS
def test_exited_containers_are_forgotten_by_a_restart(containerd: Containerd) -> None:
    """After a restart, plugins are not notified when an exited container is removed; a shortest test shows this."""
    found = conform(node(None), told(containerd), examples=0, most=3)

    failure, *_ = [
        each
        for each in found.failures
        if each.violation is not None
        and each.violation.clause.name == "removal-is-relayed"
        and each.violation.before == ("unlisted",)
    ]
    done = [step.event for step in failure.steps]
    assert len(done) <= 9
    assert {"create-container", "restart"} < set(done)
    assert done[-2:] in (["plugin-joins", "remove-pod"], ["plugin-joins", "remove-container"])
    assert "container exited" in str(failure.steps[done.index("restart")])
