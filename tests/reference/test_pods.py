"""The reference pods manage their resources and recover after a restart, and planted bugs are found."""

# ruff: noqa: SLF001  (a method is the bug that its class describes, and uses private names)

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

import pytest
from upstream_pods import UpstreamPods, UpstreamPodsSUT

from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay
from fsm.language.library import load
from fsm.runtimes.reference.container import Container
from fsm.runtimes.reference.container.world import Exit, Processes, SimulatedWorld
from fsm.runtimes.reference.driven import CallError, WorldError, first_of, turns
from fsm.runtimes.reference.pods import Pods
from fsm.runtimes.reference.pods.sandbox_controller import Controller
from fsm.runtimes.reference.pods.surroundings import (
    FAILURES,
    Containers,
    Leases,
    Metadata,
    MetadataError,
    MetadataStore,
    Pod,
    PodStatus,
    Stage,
)
from fsm.runtimes.reference.pods.sut import NAME, PodsSUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from fsm.runtimes.reference.pods.surroundings import MakeError


class ReferenceContainers(Containers):
    """The containers of each pod.

    *make* returns a container that has not been created yet.
    """

    def __init__(self, make: Callable[[str], Container]) -> None:
        super().__init__()
        self.of: dict[str, list[Container]] = {}
        self._make = make

    def create(self, pod: str) -> None:
        container = self._make(pod)
        self._call(partial(container.call, "create"))
        self.of.setdefault(pod, []).append(container)

    def stop(self, pod: str) -> None:
        for each in self.of.get(pod, []):
            self._call(partial(each.call, "stop"))

    def remove(self, pod: str) -> None:
        containers = self.of.get(pod, [])
        for each in list(containers):
            self._call(partial(each.call, "remove"))
            containers.remove(each)

    @staticmethod
    def _call(call: Callable[[], None]) -> None:
        try:
            call()
        except CallError as error:
            raise WorldError(str(error)) from error


class Shim(UpstreamPods):
    """Containerd's pods with a shim instead of a pause container."""

    shim = True


@pytest.fixture
def made() -> Iterator[Callable[[type[Pods]], PodsSUT]]:
    suts: list[PodsSUT] = []

    def make(kind: type[Pods]) -> PodsSUT:
        suts.append((UpstreamPodsSUT if issubclass(kind, UpstreamPods) else PodsSUT)(kind=kind))
        return suts[-1]

    yield make
    for each in suts:
        each.close()


def refuses(*_: object) -> None:
    message = "read-only file system"
    raise OSError(message)


async def unknown(name: str) -> Exit:
    event = "wait"
    raise CallError(event, "NOT_FOUND", name)


async def test_a_pod_is_a_process_an_address_and_a_file(tmp_path: Path) -> None:
    """Stopping a pod releases its process and its address, and removing it deletes its file."""
    async with Controller(lambda pod: Processes(tmp_path / pod)) as controller:
        pods = Pods(tmp_path / "pods", controller, Leases(tmp_path / "network"))
        pod = await pods.run("web", {"cpu_shares": 512})
        status = pods.status(pod)
        os.kill(status.pid, 0)
        assert ("SANDBOX_READY", ("10.88.0.1",), {"cpu_shares": 512}) == (status.state, status.addresses, status.limits)
        assert ["10.88.0.1"] == [each.name for each in (tmp_path / "network").iterdir()]
        assert [pod] == [each.name for each in (tmp_path / "pods").iterdir()]

        await pods.stop(pod)
        with pytest.raises(ProcessLookupError):
            os.kill(status.pid, 0)
        stopped = pods.status(pod)
        assert ("SANDBOX_NOTREADY", 0, ()) == (stopped.state, stopped.pid, stopped.addresses)
        assert 137 == (stopped.exit and stopped.exit.code)
        assert [pod] == [each.name for each in (tmp_path / "pods").iterdir()]

        await pods.remove(pod)
        assert [] == [each for folder in ("network", "pods") for each in (tmp_path / folder).iterdir()]
        with pytest.raises(CallError, match="NOT_FOUND"):
            pods.status(pod)
        await pods.close()


def test_an_exit_is_recorded_once(made: Callable[[type[Pods]], PodsSUT]) -> None:
    sut = made(Pods)
    sut.do("run")
    pod = sut._pod
    sut.do("exit")
    first = pod.exit
    sut.pods.exited(pod, Exit(9, 9))
    assert (143, first) == (first and first.code, sut.pods.status(pod.id).exit)


def test_an_exit_that_cannot_be_written(made: Callable[[type[Pods]], PodsSUT], monkeypatch: pytest.MonkeyPatch) -> None:
    sut = made(Pods)
    sut.do("run")
    with monkeypatch.context() as broken:
        broken.setattr(sut.pods.metadata, "save", refuses)
        sut.do("exit")
    assert ("SANDBOX_READY", 1.0) == (sut.shows(), sut.pods.retries.delay(sut._last))

    async def later() -> None:
        sut.clock.time += 1
        await sut.pods.retries.tick()

    sut._runner.run(later())
    exit_ = sut.pods.status(sut._last).exit
    assert ("SANDBOX_NOTREADY", 143) == (sut.shows(), exit_ and exit_.code)


def test_a_name_belongs_to_one_pod(made: Callable[[type[Pods]], PodsSUT]) -> None:
    sut = made(Pods)
    sut.do("run")
    with pytest.raises(CallError, match="there is a pod of the name"):
        sut._runner.run(sut.pods.run(NAME))
    sut._runner.run(sut.pods.run("another"))
    assert ["SANDBOX_READY"] * 2 == list(sut.pods.list().values())


async def test_without_a_free_address_a_run_fails(tmp_path: Path) -> None:
    async with Controller(lambda pod: Processes(tmp_path / pod)) as controller:
        network = Leases(tmp_path / "network", IPv4Network("10.0.0.0/30"))
        pods = Pods(tmp_path / "pods", controller, network)
        first = [await pods.run("a"), await pods.run("b")]
        with pytest.raises(CallError, match="no address is free"):
            await pods.run("c")
        assert sorted(first) == sorted(each.name for each in (tmp_path / "pods").iterdir())
        await pods.remove(first[0])
        third = await pods.run("c")
        assert ("10.0.0.1",) == pods.status(third).addresses
        for each in pods.list():
            await pods.remove(each)
        await pods.close()


@pytest.mark.parametrize("cannot", ["", "kill"])
def test_containers_are_stopped_and_removed_with_their_pod(
    made: Callable[[type[Pods]], PodsSUT], tmp_path: Path, cannot: str
) -> None:
    """Containers are stopped before the process of their pod. If one cannot be stopped, the pod does not change."""
    sut = made(Pods)
    worlds: list[SimulatedWorld] = []

    def make(pod: str) -> Container:
        root = tmp_path / f"{pod}-{len(worlds)}"
        worlds.append(SimulatedWorld(root))
        return Container(root, worlds[-1])

    inside = ReferenceContainers(make)
    sut.pods.containers = inside
    sut.do("run")
    for _ in range(2):
        sut.do("create-container")
    created, running = inside.of[sut._last]
    running.call("start")
    worlds[1].faults |= {cannot}

    reply = sut.do("stop")
    assert (("UNKNOWN", "SANDBOX_READY") if cannot else ("ok", "SANDBOX_NOTREADY")) == (reply, sut.shows())
    assert ["created", "running" if cannot else "exited"] == [created.state, running.state]
    worlds[1].faults.clear()
    assert "ok" == sut.do("remove")
    assert (["absent"] * 2, []) == ([created.state, running.state], inside.of[sut._last])


def test_a_restart_finds_the_same_process(made: Callable[[type[Pods]], PodsSUT]) -> None:
    sut = made(Pods)
    sut.do("run")
    before = sut.pods.status(sut._last)
    sut.do("restart")
    assert before == replace(sut.pods.status(sut._last), created_at=before.created_at)
    assert "UNKNOWN" == sut.do("run")
    sut.do("exit")
    assert "SANDBOX_NOTREADY" == sut.shows()


def test_an_exit_survives_a_restart(made: Callable[[type[Pods]], PodsSUT]) -> None:
    sut = made(Pods)
    for event in ("run", "exit"):
        sut.do(event)
    ended = sut.pods.status(sut._last).exit
    sut.do("restart")
    assert ended == sut.pods.status(sut._last).exit
    sut.do("remove")
    sut.do("restart")
    assert {} == sut.pods.list()


@pytest.mark.parametrize("cannot", ["", "clear"])
def test_a_run_that_a_crash_interrupted(made: Callable[[type[Pods]], PodsSUT], cannot: str) -> None:
    """A restart undoes an interrupted run. If the restart cannot undo it, a pod remains, which can be removed."""
    sut = made(Pods)
    assert sut.crash("run", 11)
    assert (False, "absent") == (bool(sut._contradiction()), sut.shows())

    sut.crash("run", 0)
    with suppress(CallError):
        sut.faults |= {"run", "undo", "clear"}
        sut._runner.run(sut.pods.run(NAME))
    sut._last = sut.pods.names.get(NAME, "")
    pod = sut._pod
    sut.pods.metadata.save(pod.metadata("making"))
    sut.faults.clear()
    sut.faults |= {cannot}
    sut.do("restart")
    assert ("SANDBOX_NOTREADY" if cannot else "absent") == sut.shows()
    assert ("ok", "absent") == (sut.do("remove"), sut.shows())


@pytest.mark.parametrize(("kind", "left"), [(Pods, []), (UpstreamPods, ["SANDBOX_UNKNOWN"])])
@pytest.mark.parametrize("fault", ["run", "describe"])
def test_a_pod_that_cannot_be_started(
    made: Callable[[type[Pods]], PodsSUT], kind: type[Pods], left: list[str], fault: str
) -> None:
    """Nothing is left of a pod that cannot be started.

    In containerd, the controller keeps the pod's entry, which shows the pod as ready if only the last step failed.
    """
    sut = made(kind)
    sut.faults |= {fault}
    with pytest.raises(CallError, match=f"cannot {fault}"):
        sut._runner.run(sut.pods.run(NAME))
    states = [each.record.state for each in sut._controller._store.values()]
    assert (["SANDBOX_READY"] if left and fault == "describe" else left) == states
    assert ({}, "", []) == (sut.pods.list(), sut.pods.names.get(NAME, ""), [*sut.pods.metadata.ids()])


@pytest.mark.parametrize("kind", [Pods, UpstreamPods])
def test_metadata_that_cannot_be_deleted_after_a_failed_run(
    made: Callable[[type[Pods]], PodsSUT], monkeypatch: pytest.MonkeyPatch, kind: type[Pods]
) -> None:
    """A failed run with undeletable metadata leaves a pod that can be removed.

    In containerd there is no such pod, but its name stays reserved.
    """
    sut = made(kind)
    sut.faults |= {"setup"}
    with monkeypatch.context() as broken:
        broken.setattr(sut.pods.metadata, "delete", refuses)
        with pytest.raises(CallError, match="cannot setup"):
            sut._runner.run(sut.pods.run(NAME))
    sut.faults.clear()
    holder = sut.pods.names.get(NAME, "")
    assert ({} if kind is UpstreamPods else {holder: "SANDBOX_NOTREADY"}) == sut.pods.list()
    sut._runner.run(sut.pods.remove(holder))
    if kind is UpstreamPods:
        with pytest.raises(CallError, match="is reserved"):
            sut._runner.run(sut.pods.run(NAME))
    else:
        sut._runner.run(sut.pods.run(NAME))


@pytest.mark.parametrize(("kind", "state"), [(Pods, "absent"), (UpstreamPods, "SANDBOX_READY")])
def test_a_pod_that_cannot_be_watched(
    made: Callable[[type[Pods]], PodsSUT], monkeypatch: pytest.MonkeyPatch, kind: type[Pods], state: str
) -> None:
    """If a pod cannot be watched, its run fails, and no pod exists.

    In containerd, there is then a ready pod without a network, a name or a watch.
    """
    sut = made(kind)
    monkeypatch.setattr(sut._controller, "wait", unknown)
    with pytest.raises(CallError, match="NOT_FOUND"):
        sut._runner.run(sut.pods.run(NAME))
    assert ([] if state == "absent" else [state]) == list(sut.pods.list().values())
    assert "" == sut.pods.names.get(NAME, "")
    assert all(sut.pods.network.addresses(pod) == () for pod in sut.pods.list())
    assert all(each.watch is None for each in sut.pods._store.values())


@pytest.mark.parametrize(("kind", "listed"), [(Pods, "SANDBOX_NOTREADY"), (UpstreamPods, "SANDBOX_READY")])
def test_a_list_after_a_stop(made: Callable[[type[Pods]], PodsSUT], kind: type[Pods], listed: str) -> None:
    """After a stop, the list agrees with the status at once. In containerd, it does so only later."""
    sut = made(kind)
    sut.do("run")
    pod = sut._last

    async def stopped() -> tuple[str, str]:
        await sut.pods.stop(pod)
        return sut.pods.list()[pod], sut.pods.status(pod).state

    assert (listed, "SANDBOX_NOTREADY") == sut._runner.run(stopped())

    sut._runner.run(turns(3))
    assert "SANDBOX_NOTREADY" == sut.shows()


@pytest.mark.parametrize("kind", [Pods, UpstreamPods])
def test_metadata_that_cannot_be_deleted_by_a_removal(
    made: Callable[[type[Pods]], PodsSUT], monkeypatch: pytest.MonkeyPatch, kind: type[Pods]
) -> None:
    """A removal that cannot delete the pod's metadata can be repeated.

    In containerd, the pod is gone but its name stays reserved, until a restart recovers the pod.
    """
    sut = made(kind)
    sut._runner.run(sut.pods.run(NAME))
    pod = sut.pods.names.get(NAME, "")
    with monkeypatch.context() as broken:
        broken.setattr(sut.pods.metadata, "delete", refuses)
        with pytest.raises(CallError, match="read-only"):
            sut._runner.run(sut.pods.remove(pod))
    assert ([] if kind is UpstreamPods else [pod]) == list(sut.pods.list())
    sut._runner.run(sut.pods.remove(pod))
    assert (pod if kind is UpstreamPods else "") == sut.pods.names.get(NAME, "")
    sut._runner.run(sut.restart())
    assert ([pod] if kind is UpstreamPods else []) == list(sut.pods.list())


@pytest.mark.parametrize(("kind", "taken"), [(Pods, True), (UpstreamPods, True), (Shim, False)])
def test_names_after_a_restart(made: Callable[[type[Pods]], PodsSUT], kind: type[Pods], taken: object) -> None:
    """After a restart, all names stay reserved. In containerd, the names of pods without a pause container do not."""
    sut = made(kind)
    sut._runner.run(sut.pods.run(NAME))
    sut._runner.run(sut.restart())
    assert 1 == len(sut.pods.list())
    if taken:
        with pytest.raises(CallError, match="there is a pod"):
            sut._runner.run(sut.pods.run(NAME))
    else:
        sut._runner.run(sut.pods.run(NAME))
        assert 2 == len(sut.pods.list())


@pytest.mark.parametrize(("kind", "ready"), [(Pods, False), (UpstreamPods, True)])
def test_a_pod_whose_task_cannot_be_looked_up(
    made: Callable[[type[Pods]], PodsSUT], kind: type[Pods], ready: object
) -> None:
    """A pod whose task cannot be looked up is never ready again. In containerd, the next restart makes it ready."""
    sut = made(kind)
    sut._runner.run(sut.pods.run(NAME))
    sut.faults |= {"task"}
    sut._runner.run(sut.restart())
    assert ["SANDBOX_NOTREADY"] == list(sut.pods.list().values())
    sut.faults.clear()
    sut._runner.run(sut.restart())
    assert ["SANDBOX_READY" if ready else "SANDBOX_NOTREADY"] == list(sut.pods.list().values())


class NoCrashes(PodsSUT):
    crash = None  # type: ignore[assignment]


def test_passes_the_test_of_its_machine() -> None:
    tested = conform(load("pod-sandbox"), NoCrashes, examples=3, steps=15)

    assert () == tested.failures
    assert () == tested.missed
    # The service deletes the metadata of a pod before it forgets the pod.
    assert {
        ("create-container", "created"),
        ("stop", "unmonitored"),
        ("remove", "forgotten"),
    } == tested.cover.unarranged
    assert () == tested.left_out


@pytest.mark.parametrize(
    ("before", "event", "effects"),
    [
        ("", "crash@{} run=ready,ready", 13),
        ("", "crash@{} run=undone,ignored", 12),
        ("run=ready; ", "crash@{} stop=stopped,notready", 7),
        ("run=ready; ", "crash@{} stop=half-stopped,unknown", 6),
        ("run=ready; ", "crash@{} remove=removed,notready", 10),
        ("run=ready; ", "crash@{} exit=done,notready", 3),
        ("run=ready; ", "crash@{} update-resources=updated,ready", 2),
        ("run=left-over; ", "crash@{} remove=removed,unknown", 6),
        ("run=left-over; stop=unmonitored; ", "crash@{} remove=stopped-only,notready", 6),
    ],
)
def test_a_crash_at_any_effect(before: str, event: str, effects: int) -> None:
    """After a crash, the event has either happened or not, and the pod has the matching resources."""
    for point in range(effects):
        tested = replay(load("pod-sandbox"), PodsSUT, steps(before + event.format(point)))
        assert () == tested.failures, point


def test_conforms_without_the_deviations_of_a_profile() -> None:
    tested = conform(load("pod-sandbox"), NoCrashes, profile="containerd-1.7", examples=0)

    assert ((), ()) == (tested.failures, tested.missed)
    assert not tested.cover.deviations


class StopOfAbsentFails(Pods):
    async def stop(self, id: str) -> None:  # noqa: A002
        if id not in self._store:
            event = "stop"
            raise CallError(event, "NOT_FOUND", "no such pod")
        await super().stop(id)


class StatusOfAbsent(Pods):
    def status(self, id: str) -> PodStatus:  # noqa: A002
        return super().status(id) if id in self._store else PodStatus(id=id, name="", state="SANDBOX_NOTREADY")


class ForgetsTheName(Pods):
    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        name, *others = super()._stages(pod)
        return (Stage(name.make), *others)


class ForgetsTheNetwork(Pods):
    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        name, metadata, network, *others = super()._stages(pod)
        return (name, metadata, Stage(network.make), *others)


class UnmakesForwards(Pods):
    """A pod that undoes the earlier stages even if a later one cannot be undone."""

    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        name, metadata, network, *others = super()._stages(pod)
        return (
            Stage(name.make),
            Stage(metadata.make),
            Stage(network.make, network.unmake),
            *others,
            Stage(bool, name.unmake),
        )

    async def _fail_run(self, pod: Pod, error: MakeError) -> None:
        self._release(pod)
        self.metadata.delete(pod.id)
        error.left = 0
        await super()._fail_run(pod, error)


class ListsTheRemoved(Pods):
    async def remove(self, id: str) -> None:  # noqa: A002
        pod = self.find(id)
        await super().remove(id)
        if pod.name:
            self._store[id] = Pod(pod.metadata("stopped"), self._position("stopped"))


class MissesTheExit(Pods):
    def exited(self, pod: Pod, ended: Exit) -> None:
        del pod, ended


class RemovesWithoutStop(Pods):
    async def remove(self, id: str) -> None:  # noqa: A002
        pod = self.find(id)
        if not pod.is_noop("remove"):
            with suppress(*FAILURES):
                await self._delete(pod)
        self._take(pod, "remove", first_of(pod.offered("remove"), "removed"))


class ReadyAfterAFailedStop(Pods):
    """A pod that stays ready if a stop fails after the pause process has exited."""

    async def _tear_down(self, pod: Pod) -> tuple[str, str]:
        state = pod.state
        reached, why = await super()._tear_down(pod)
        return ("held" if reached == "ended" and state == "ready" else reached), why


class KeepsTheNetwork(Pods):
    async def _tear_down(self, pod: Pod) -> tuple[str, str]:
        setup, self.network = self.network, Leases(self.metadata.root / "nowhere")
        try:
            return await super()._tear_down(pod)
        finally:
            self.network = setup


class ResurrectsTheStopped(Pods):
    async def _recover(self, found: Metadata) -> None:
        await super()._recover(found)
        if found.state == "stopped":
            self._store[found.id].position = self._position("ready")


class ForgetsNamesAtARestart(Pods):
    async def _recover(self, found: Metadata) -> None:
        await super()._recover(found)
        self._release(self._store[found.id])


class MissesExitsAfterARestart(Pods):
    async def recover(self) -> None:
        await super().recover()
        for each in self._store.values():
            if each.watch:
                each.watch.cancel()


class ForgetsLimits(Pods):
    def _write(self, pod: Pod, state: str = "") -> None:
        self.metadata.save(replace(pod.metadata(state or pod.state), limits={}))


class KeepsFailedLimits(Pods):
    def update_resources(self, id: str, limits: Mapping[str, int]) -> None:  # noqa: A002
        try:
            super().update_resources(id, limits)
        except CallError:
            self.find(id).limits = limits
            raise


class ForwardsToTheUnready(Pods):
    def port_forward(self, id: str) -> None:  # noqa: A002
        if self.find(id).position.state != "unknown":
            super().port_forward(id)


class WritesReadyFirst(Pods):
    """A pod that is recorded as ready before it is ready."""

    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        name, metadata, *others = super()._stages(pod)
        return (name, Stage(lambda: self.metadata.create(pod.metadata("ready")), metadata.unmake), *others)


BUGS: dict[type[Pods], str] = {
    StopOfAbsentFails: "stop",
    StatusOfAbsent: "status",
    ForgetsTheName: "run=undone",
    ForgetsTheNetwork: "run=undone",
    UnmakesForwards: "run=left-over",
    ListsTheRemoved: "run=ready; remove=removed",
    MissesTheExit: "run=ready; exit",
    RemovesWithoutStop: "run=ready; remove=removed",
    ReadyAfterAFailedStop: "run=ready; stop=half-stopped",
    KeepsTheNetwork: "run=ready; stop=stopped",
    ResurrectsTheStopped: "run=ready; stop=stopped; restart=notready",
    ForgetsNamesAtARestart: "run=ready; restart=ready",
    ForgetsLimits: "run=ready; restart=ready",
    MissesExitsAfterARestart: "run=ready; restart=ready",
    KeepsFailedLimits: "run=ready; update-resources=failed",
    ForwardsToTheUnready: "run=left-over; port-forward",
}
CRASH_BUGS: dict[type[Pods], str] = {WritesReadyFirst: "crash@4 run=undone,ignored"}
"""Bugs that show only if the process crashes."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[Pods]) -> None:
    found = conform(load("pod-sandbox"), lambda: PodsSUT(kind=kind), examples=0, most=1)

    assert [BUGS[kind]] == ["; ".join(map(str, each.steps)) for each in found.failures]


@pytest.mark.parametrize("kind", CRASH_BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_a_crash(kind: type[Pods]) -> None:
    found = conform(load("pod-sandbox"), lambda: PodsSUT(kind=kind), examples=0, most=1)

    assert CRASH_BUGS[kind] == "; ".join(map(str, found.failures[0].steps))


@pytest.mark.parametrize(
    "nested", ["[" * 100_000, '{"limits":' * 100_000, '{"limits":' + "[" * 100_000 + "]" * 100_000 + "}"]
)
def test_metadata_that_are_nested_too_deep_are_an_error_with_their_path(tmp_path: Path, nested: str) -> None:
    """The error contains the path of the metadata, so that the recovery can delete the file."""
    store = MetadataStore(tmp_path)
    store.create(Metadata(id="1", name="web"))
    store.path("1").write_text(nested, encoding="utf-8")

    with pytest.raises(MetadataError, match=r"1/metadata\.json: cannot be read"):
        store.load("1")
