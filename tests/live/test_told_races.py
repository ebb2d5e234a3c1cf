"""A violation in the events of a plugin is a race if it occurs only with concurrent calls."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from commands import fsm
from judged import violations
from served import served

from fsm.conformance.concurrency import concurrently
from fsm.conformance.lookup import find
from fsm.conformance.race_runs import Pace, Programme, Race, Runs
from fsm.machine.findings import Cause
from fsm.monitor.judgement import judge
from fsm.report.lanes import raced
from fsm.runtimes.node_model import node
from fsm.runtimes.reference.driven import CallError
from fsm.runtimes.reference.node.node_containers import NodeContainers
from fsm.runtimes.sockets.cri_server import CriServer
from fsm.runtimes.sockets.nri_relays import NodePlugins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fsm.runtimes.reference.node.workloads import Limits

_UPDATE, _REMOVE = NodeContainers._update, NodeContainers._remove  # noqa: SLF001  (what the twins spoil)

TOO_LATE = ("plugin-container", Cause.EVENT, "removed-last", "UpdateContainer")
STARTED_AFTER_STOP = ("plugin-container", Cause.EVENT, "no-start-after-stop", "StartContainer")

MEETING = Programme(
    before=("plugin-joins", "run-pod", "create-container"), threads=(("update-container",), ("remove-container",))
)


async def _updated_unseen(self: NodeContainers, given: str, limits: Limits) -> None:
    found = self.find(given, "update-resources")
    await asyncio.sleep(0.3)
    await self.relays.notify("update-container", found.pod, found.for_plugins())
    await _UPDATE(self, given, limits)


async def _updated_late(self: NodeContainers, given: str, limits: Limits) -> None:
    await asyncio.sleep(0.3)
    await _UPDATE(self, given, limits)


async def _removed_later(self: NodeContainers, given: str) -> None:
    await asyncio.sleep(0.1)
    await _REMOVE(self, given)


@contextmanager
def runs(folder: Path, model: str = "plugin-container") -> Iterator[Runs]:
    with served(folder, plugins=NodePlugins(), profile="containerd-2.1") as address:
        machine = node(None)
        made = find(f"cri:{address}", machine, options={"nri": f"unix://{folder / 'nri.sock'}"}, model=model)
        sut = made()
        try:
            yield Runs(machine=machine, sut=sut, patience=20, pace=Pace(delay=0.01, seconds=60))
        finally:
            sut.close()


def raced_in(tried: Runs, programme: Programme, times: int) -> Race | None:
    return next(tried.races(product([programme], range(times))), None)


@pytest.mark.parametrize(
    "model",
    ["plugin-container", *(pytest.param(each, marks=pytest.mark.slow) for each in ("nri-plugin-contract", "node"))],
)
def test_an_update_told_after_the_removal_is_a_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """The drawing of the race shows the plugin's events, and the recording of the race has the same violation."""
    monkeypatch.setattr(NodeContainers, "_update", _updated_unseen)
    monkeypatch.setattr(NodeContainers, "_remove", _removed_later)
    with runs(tmp_path, model) as tried:
        race = raced_in(tried, MEETING, 10)
        assert race is not None
        needed = tried.needs_threads(race)
    assert race.witness is not None
    for end, content in race.witness.files.items():
        (tmp_path / f"race{end}").write_bytes(content)
    again = judge(tmp_path / "race.nri", calls=tmp_path / "race", models=["nri-plugin-contract"])
    text = list(raced(race))

    assert race.kind == TOO_LATE
    assert needed
    assert [each.clause for each in violations(again)] == ["removed-last"]
    assert [line.split()[0] for line in text[:4]] == ["first", "thread", "thread", "plugin"]
    assert text[3].index("RemoveContainer") < text[3].index("UpdateContainer")
    assert any("updated-after-removal" in line for line in text)


def test_an_update_that_looks_first_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeContainers, "_update", _updated_late)
    monkeypatch.setattr(NodeContainers, "_remove", _removed_later)
    with runs(tmp_path) as tried:
        assert raced_in(tried, MEETING, 3) is None


def test_what_one_thread_comes_to_is_no_race(tmp_path: Path) -> None:
    """A start after a stop is not a race, because a single thread can cause it."""
    programme = Programme(
        before=MEETING.before, threads=(("stop-container", "start-container"), ("create-container.2",))
    )
    with runs(tmp_path) as tried:
        race = raced_in(tried, programme, 1)
        assert race is not None
        assert race.kind == STARTED_AFTER_STOP
        assert not tried.needs_threads(race)
        tried.known.add(race.kind)
        assert raced_in(tried, programme, 1) is None


@pytest.mark.parametrize("gone", [False, True])
def test_a_runtime_that_does_not_answer_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, gone: bool) -> None:
    """An unanswered call is reported as a race; if later calls are not answered either, the search ends."""

    async def silent(*_: object) -> Any:  # noqa: ANN401
        raise CallError("stop", "UNAVAILABLE", "gone")

    monkeypatch.setattr(CriServer, "StopContainer", silent)
    programme = Programme(before=MEETING.before, threads=(("stop-container",), ("update-container",)))
    if gone:
        monkeypatch.setattr(CriServer, "ListPodSandbox", silent)
    with runs(tmp_path) as tried:
        race = raced_in(tried, programme, 1)
        further = raced_in(tried, programme, 1) is not None

    assert race is not None
    assert race.kind == ("broken",)
    assert "StopContainer was answered UNAVAILABLE" in race.broken
    assert (tried.gone, further) == (gone, not gone)


def test_a_search_ends_with_the_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends when the runtime is gone, and reports its last calls as a race that cannot be repeated."""

    async def silent(*_: object) -> Any:  # noqa: ANN401
        raise CallError("run", "UNAVAILABLE", "gone")

    monkeypatch.setattr(CriServer, "RunPodSandbox", silent)
    monkeypatch.setattr(CriServer, "ListPodSandbox", silent)
    with served(tmp_path, plugins=NodePlugins()) as address:
        machine = node(None)
        options = {"nri": f"unix://{tmp_path / 'nri.sock'}"}
        pace = Pace(delay=0.01, seconds=60)
        search = concurrently(
            machine, find(f"cri:{address}", machine, options=options, model="plugin-container"), pace=pace
        )

    assert search.gone
    assert [each.kind for each in search.found] == [("broken",)]
    assert search.runs < 60


@pytest.mark.nightly
def test_it_is_found_by_generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generated ``Programme`` finds the race between a removal and an update. The test slows both calls down."""
    monkeypatch.setattr(NodeContainers, "_update", _updated_unseen)
    monkeypatch.setattr(NodeContainers, "_remove", _removed_later)
    with served(tmp_path, plugins=NodePlugins(), profile="containerd-2.1") as address:
        machine = node(None)
        options = {"nri": f"unix://{tmp_path / 'nri.sock'}"}
        sut = find(f"cri:{address}", machine, options=options, model="plugin-container")
        pace = Pace(delay=0.02, seconds=240)
        search = concurrently(machine, sut, repeats=1, pace=pace, known=[STARTED_AFTER_STOP], most=1)

    [race] = search.found
    assert race.kind == TOO_LATE
    assert search.runs >= search.programmes > 0
    assert "update-container" in {event.removesuffix(".2") for thread in race.programme.threads for event in thread}


def test_options_that_mean_nothing_together_are_refused() -> None:
    test = ("test", "plugin-container", "--against", "cri:unix:///x", "--nri", "unix:///y", "--threads", "2")
    found = fsm(*test, "--kill-command", "true")

    assert (found.returncode, found.stdout) == (2, "")
    assert "--nri cannot be combined with --script, --kill-command" in " ".join(found.stderr.split())
