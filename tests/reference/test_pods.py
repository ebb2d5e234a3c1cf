"""The reference pods: what they hold and give back, what a restart finds, what containerd does otherwise, and what the kit notices."""

# ruff: noqa: D102, SLF001  (a method is the bug that its class tells of, and reaches for what it should not)

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay
from fsm.library import load
from fsm.reference.container.container import Container
from fsm.reference.container.faults import SimulatedWorld
from fsm.reference.container.world import Exit
from fsm.reference.driven import CallError, first_offered, is_noop
from fsm.reference.pods.containers import ReferenceContainers
from fsm.reference.pods.network import Leases
from fsm.reference.pods.pod import Pod, Status
from fsm.reference.pods.service import Pods
from fsm.reference.pods.stages import Stage
from fsm.reference.pods.sut import NAME, PodsSUT
from fsm.reference.pods.upstream import UpstreamPods
from fsm.reference.sandbox.controller import Controller
from fsm.reference.sandbox.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import Self

    from fsm.reference.pods.metadata import Metadata
    from fsm.reference.pods.stages import MakeError


class Shim(UpstreamPods):
    """As containerd has it with sandboxers that are shims."""

    shim = True


@pytest.fixture
def made() -> Iterator[Callable[[type[Pods]], PodsSUT]]:
    """Makes SUTs of a kind, of which nothing is left."""
    suts: list[PodsSUT] = []

    def make(kind: type[Pods]) -> PodsSUT:
        suts.append(PodsSUT(kind=kind))
        return suts[-1]

    yield make
    for each in suts:
        each.close()


def refuses(*_: object) -> None:
    """A disk that does nothing."""
    message = "read-only file system"
    raise OSError(message)


async def unknown(name: str) -> Exit:
    """A controller that knows nobody."""
    event = "wait"
    raise CallError(event, "NOT_FOUND", name)


def test_a_pod_is_a_process_an_address_and_a_file(tmp_path: Path) -> None:
    """Which its removal gives back, and its stop all but the file."""

    async def life() -> None:
        async with Controller(lambda pod: Processes(tmp_path / pod)) as controller:
            pods = Pods(tmp_path / "pods", controller, Leases(tmp_path / "network"))
            pod = await pods.run("web", {"cpu_shares": 512})
            status = pods.status(pod)
            os.kill(status.pid, 0)
            assert ("SANDBOX_READY", ("10.88.0.1",), {"cpu_shares": 512}) == (
                status.state,
                status.addresses,
                status.limits,
            )
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

    asyncio.run(life())


def test_an_exit_is_recorded_once(made: Callable[[type[Pods]], PodsSUT]) -> None:
    """Whoever says so first is believed."""
    sut = made(Pods)
    sut.do("run")
    pod = sut._pod
    sut.do("exit")
    first = pod.exit
    sut.pods.exited(pod, Exit(9, 9))
    assert (143, first) == (first and first.code, sut.pods.status(pod.id).exit)


def test_an_exit_that_cannot_be_written_down(
    made: Callable[[type[Pods]], PodsSUT], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Has not happened yet, and is told again after a second."""
    sut = made(Pods)
    sut.do("run")
    with monkeypatch.context() as broken:
        broken.setattr(sut.pods.metadata, "save", refuses)
        sut.do("exit")
    assert ("SANDBOX_READY", 1.0) == (sut.shows(), sut.pods.retries.delay(sut._last))

    async def later() -> None:
        sut.clock.time += 1
        await sut.pods.retries.tick()

    sut.wait_for(later())
    exit_ = sut.pods.status(sut._last).exit
    assert ("SANDBOX_NOTREADY", 143) == (sut.shows(), exit_ and exit_.code)


def test_a_name_is_one_pods(made: Callable[[type[Pods]], PodsSUT]) -> None:
    sut = made(Pods)
    sut.do("run")
    with pytest.raises(CallError, match="there is a pod of the name"):
        sut.wait_for(sut.pods.run(NAME))
    sut.wait_for(sut.pods.run("another"))
    assert ["SANDBOX_READY"] * 2 == list(sut.pods.list().values())


def test_there_are_no_more_addresses(tmp_path: Path) -> None:
    """And a pod that gets none holds nothing."""

    async def life() -> None:
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

    asyncio.run(life())


@pytest.mark.parametrize("cannot", ["", "kill"])
def test_containers_go_with_their_pod(made: Callable[[type[Pods]], PodsSUT], tmp_path: Path, cannot: str) -> None:
    """They are stopped before its process, and removed before it; one that cannot be stopped keeps it as it is."""
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
    running.start()
    worlds[1].faults |= {cannot}

    told = sut.do("stop")
    assert (("UNKNOWN", "SANDBOX_READY") if cannot else ("ok", "SANDBOX_NOTREADY")) == (told, sut.shows())
    assert ["created", "running" if cannot else "exited"] == [created.state, running.state]
    worlds[1].faults.clear()
    assert "ok" == sut.do("remove")
    assert (["absent"] * 2, []) == ([created.state, running.state], inside.of[sut._last])


def test_a_restart_finds_the_same_process(made: Callable[[type[Pods]], PodsSUT]) -> None:
    """It runs on, is seen to end, and its name is not given to another."""
    sut = made(Pods)
    sut.do("run")
    before = sut.pods.status(sut._last)
    sut.do("restart")
    assert before == replace(sut.pods.status(sut._last), created_at=before.created_at)
    assert "UNKNOWN" == sut.do("run")
    sut.do("exit")
    assert "SANDBOX_NOTREADY" == sut.shows()


def test_an_exit_outlives_a_restart(made: Callable[[type[Pods]], PodsSUT]) -> None:
    """Code and time are written down, and what was removed stays so."""
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
def test_a_run_that_was_not_over(made: Callable[[type[Pods]], PodsSUT], cannot: str) -> None:
    """Is undone by a restart; what cannot be is there to be removed."""
    sut = made(Pods)
    assert sut.crash("run", 11)
    assert (False, "absent") == (bool(sut._wrong()), sut.shows())

    sut.crash("run", 0)
    with suppress(CallError):
        sut.faults |= {"run", "undo", "clear"}
        sut.wait_for(sut.pods.run(NAME))
    sut._last = sut.pods.names.holder(NAME)
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
    """Nothing is left of it; as containerd has it, its controller's entry is, and says ready of what failed late."""
    sut = made(kind)
    sut.faults |= {fault}
    with pytest.raises(CallError, match=f"cannot {fault}"):
        sut.wait_for(sut.pods.run(NAME))
    states = [each.record.state for each in sut._controller._store.values()]
    assert (["SANDBOX_READY"] if left and fault == "describe" else left) == states
    assert ({}, "", []) == (sut.pods.list(), sut.pods.names.holder(NAME), [*sut.pods.metadata.ids()])


@pytest.mark.parametrize("kind", [Pods, UpstreamPods])
def test_metadata_that_cannot_be_deleted_after_a_run(
    made: Callable[[type[Pods]], PodsSUT], monkeypatch: pytest.MonkeyPatch, kind: type[Pods]
) -> None:
    """The pod is there to be removed; as containerd has it there is nothing to be removed, and the name is gone for good."""
    sut = made(kind)
    sut.faults |= {"setup"}
    with monkeypatch.context() as broken:
        broken.setattr(sut.pods.metadata, "delete", refuses)
        with pytest.raises(CallError, match="cannot setup"):
            sut.wait_for(sut.pods.run(NAME))
    sut.faults.clear()
    holder = sut.pods.names.holder(NAME)
    assert ({} if kind is UpstreamPods else {holder: "SANDBOX_NOTREADY"}) == sut.pods.list()
    sut.wait_for(sut.pods.remove(holder))
    if kind is UpstreamPods:
        with pytest.raises(CallError, match="is reserved"):
            sut.wait_for(sut.pods.run(NAME))
    else:
        sut.wait_for(sut.pods.run(NAME))


@pytest.mark.parametrize(("kind", "state"), [(Pods, "absent"), (UpstreamPods, "SANDBOX_READY")])
def test_an_end_that_cannot_be_waited_for(
    made: Callable[[type[Pods]], PodsSUT], monkeypatch: pytest.MonkeyPatch, kind: type[Pods], state: str
) -> None:
    """There is no pod; as containerd has it there is one that is ready, without network, name or anybody who waits."""
    sut = made(kind)
    monkeypatch.setattr(sut._controller, "wait", unknown)
    with pytest.raises(CallError, match="NOT_FOUND"):
        sut.wait_for(sut.pods.run(NAME))
    assert ([] if state == "absent" else [state]) == list(sut.pods.list().values())
    assert "" == sut.pods.names.holder(NAME)
    assert all(sut.pods.network.addresses(pod) == () for pod in sut.pods.list())
    assert all(each.watch is None for each in sut.pods._store.values())


@pytest.mark.parametrize(("kind", "listed"), [(Pods, "SANDBOX_NOTREADY"), (UpstreamPods, "SANDBOX_READY")])
def test_what_a_list_says_after_a_stop(made: Callable[[type[Pods]], PodsSUT], kind: type[Pods], listed: str) -> None:
    """What the status says; as containerd has it a list says so later."""
    sut = made(kind)
    sut.do("run")
    pod = sut._last

    async def stopped() -> tuple[str, str]:
        await sut.pods.stop(pod)
        return sut.pods.list()[pod], sut.pods.status(pod).state

    assert (listed, "SANDBOX_NOTREADY") == sut.wait_for(stopped())

    async def turns() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    sut.wait_for(turns())
    assert "SANDBOX_NOTREADY" == sut.shows()


@pytest.mark.parametrize("kind", [Pods, UpstreamPods])
def test_metadata_that_cannot_be_deleted_with_the_pod(
    made: Callable[[type[Pods]], PodsSUT], monkeypatch: pytest.MonkeyPatch, kind: type[Pods]
) -> None:
    """The removal can be repeated; as containerd has it the pod is gone, and its name with it, and a restart finds it."""
    sut = made(kind)
    sut.wait_for(sut.pods.run(NAME))
    pod = sut.pods.names.holder(NAME)
    with monkeypatch.context() as broken:
        broken.setattr(sut.pods.metadata, "delete", refuses)
        with pytest.raises(CallError, match="read-only"):
            sut.wait_for(sut.pods.remove(pod))
    assert ([] if kind is UpstreamPods else [pod]) == list(sut.pods.list())
    sut.wait_for(sut.pods.remove(pod))
    assert (pod if kind is UpstreamPods else "") == sut.pods.names.holder(NAME)
    sut.wait_for(sut._restart())
    assert ([pod] if kind is UpstreamPods else []) == list(sut.pods.list())


@pytest.mark.parametrize(("kind", "taken"), [(Pods, True), (UpstreamPods, True), (Shim, False)])
def test_names_after_a_restart(made: Callable[[type[Pods]], PodsSUT], kind: type[Pods], taken: object) -> None:
    """They are reserved as before; as containerd has it, not those of pods that have no pause container."""
    sut = made(kind)
    sut.wait_for(sut.pods.run(NAME))
    sut.wait_for(sut._restart())
    assert 1 == len(sut.pods.list())
    if taken:
        with pytest.raises(CallError, match="there is a pod"):
            sut.wait_for(sut.pods.run(NAME))
    else:
        sut.wait_for(sut.pods.run(NAME))
        assert 2 == len(sut.pods.list())


@pytest.mark.parametrize(("kind", "ready"), [(Pods, False), (UpstreamPods, True)])
def test_a_pod_that_could_not_be_asked_about(
    made: Callable[[type[Pods]], PodsSUT], kind: type[Pods], ready: object
) -> None:
    """What was shown as not ready stays so; as containerd has it, the next restart may find it ready."""
    sut = made(kind)
    sut.wait_for(sut.pods.run(NAME))
    sut.faults |= {"task"}
    sut.wait_for(sut._restart())
    assert ["SANDBOX_NOTREADY"] == list(sut.pods.list().values())
    sut.faults.clear()
    sut.wait_for(sut._restart())
    assert ["SANDBOX_READY" if ready else "SANDBOX_NOTREADY"] == list(sut.pods.list().values())


class Deathless(PodsSUT):
    """One that does not die."""

    crash = None  # type: ignore[assignment]


def test_it_takes_the_test_of_its_machine() -> None:
    """All that can be reached is covered."""
    tested = conform(load("pod-sandbox"), Deathless, examples=3, steps=15)

    assert () == tested.failures
    assert () == tested.missed
    assert {("create-container", "created"), ("stop", "unmonitored")} == tested.cover.unarranged
    assert set() == tested.cover.unsupported


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
    ],
)
def test_it_may_die_at_any_effect(before: str, event: str, effects: int) -> None:
    """Whatever it was about has then happened or not, and holds what it should hold, and no more."""
    for point in range(effects):
        tested = replay(load("pod-sandbox"), PodsSUT, steps(before + event.format(point)))
        assert () == tested.failures, point


def test_it_is_what_every_version_may_be() -> None:
    """What is right is no deviation."""
    tested = conform(load("pod-sandbox"), Deathless, profile="containerd-1.7", examples=0)

    assert ((), ()) == (tested.failures, tested.missed)
    assert not tested.cover.deviations


class StopsWhatIsThere(Pods):
    """Stopping what is gone is an error."""

    async def stop(self, id: str) -> None:  # noqa: A002
        if id not in self._store:
            event = "stop"
            raise CallError(event, "NOT_FOUND", "no such pod")
        await super().stop(id)


class StatusOfNothing(Pods):
    """What is gone is not ready."""

    def status(self, id: str) -> Status:  # noqa: A002
        return super().status(id) if id in self._store else Status(id=id, name="", state="SANDBOX_NOTREADY")


class ForgetsTheName(Pods):
    """A run that failed keeps the name."""

    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        name, *others = super()._stages(pod)
        return (Stage(name.make), *others)


class ForgetsTheNetwork(Pods):
    """A run that failed keeps the network."""

    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        name, metadata, network, *others = super()._stages(pod)
        return (name, metadata, Stage(network.make), *others)


class TakesBackForwards(Pods):
    """What cannot be taken back is what was made last: all before it is gone already."""

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
        self.names.release(pod.id)
        self.metadata.delete(pod.id)
        error.left = 0
        await super()._fail_run(pod, error)


class ListsTheRemoved(Pods):
    """What was removed is in the store."""

    async def remove(self, id: str) -> None:  # noqa: A002
        pod = self._get(id)
        await super().remove(id)
        if pod.name:
            self._store[id] = Pod.read(pod.metadata("stopped"), self._position("stopped"))


class MissesTheExit(Pods):
    """Nobody records it."""

    def exited(self, pod: Pod, ended: Exit) -> None:
        del pod, ended


class RemovesWhatRuns(Pods):
    """What is removed is not stopped before."""

    async def remove(self, id: str) -> None:  # noqa: A002
        pod = self._get(id)
        if not is_noop(pod.position, "remove"):
            await self._delete(pod)
        self._take(pod, "remove", first_offered(pod.position, "remove", ("removed",)))


class ReadyAfterAFailedStop(Pods):
    """A stop that ends the process and fails then leaves the record as it is."""

    async def _tear_down(self, pod: Pod) -> tuple[str, str]:
        state = pod.position.state
        reached, why = await super()._tear_down(pod)
        return ("held" if reached == "ended" and state == "ready" else reached), why


class KeepsTheNetwork(Pods):
    """What has stopped can be reached."""

    async def _tear_down(self, pod: Pod) -> tuple[str, str]:
        setup, self.network = self.network, Leases(self.metadata.root / "nowhere")
        try:
            return await super()._tear_down(pod)
        finally:
            self.network = setup


class ResurrectsTheStopped(Pods):
    """A restart finds ready whatever was stopped."""

    async def _recover(self, found: Metadata) -> None:
        await super()._recover(found)
        if found.state == "stopped":
            self._store[found.id].position = self._position("ready")


class ForgetsNamesAtARestart(Pods):
    """The names of what is found are free."""

    async def _recover(self, found: Metadata) -> None:
        await super()._recover(found)
        self.names.release(found.id)


class MissesExitsAfterARestart(Pods):
    """Who is found to run is not watched."""

    async def recover(self) -> Self:
        found = await super().recover()
        for each in self._store.values():
            if each.watch:
                each.watch.cancel()
        return found


class ForgetsLimits(Pods):
    """Limits are not written down."""

    def _write(self, pod: Pod, state: str = "") -> None:
        self.metadata.save(replace(pod.metadata(state or pod.position.state), limits={}))


class KeepsWhatWasRefused(Pods):
    """Limits that could not be set are told as set."""

    def update_resources(self, id: str, limits: Mapping[str, int]) -> None:  # noqa: A002
        try:
            super().update_resources(id, limits)
        except CallError:
            self._get(id).limits = limits
            raise


class ForwardsToTheUnready(Pods):
    """Ports of a pod that may run can be reached."""

    def port_forward(self, id: str) -> None:  # noqa: A002
        if self._get(id).position.state != "unknown":
            super().port_forward(id)


class WritesReadyFirst(Pods):
    """A pod is written down as ready before it is."""

    def _stages(self, pod: Pod) -> tuple[Stage, ...]:
        name, metadata, *others = super()._stages(pod)
        return (name, Stage(lambda: self.metadata.create(pod.metadata("ready")), metadata.unmake), *others)


BUGS: dict[type[Pods], str] = {
    StopsWhatIsThere: "stop",
    StatusOfNothing: "status",
    ForgetsTheName: "run=undone",
    ForgetsTheNetwork: "run=undone",
    TakesBackForwards: "run=left-over",
    ListsTheRemoved: "run=ready; remove=removed",
    MissesTheExit: "run=ready; exit",
    RemovesWhatRuns: "run=ready; remove=removed",
    ReadyAfterAFailedStop: "run=ready; stop=half-stopped",
    KeepsTheNetwork: "run=ready; stop=stopped",
    ResurrectsTheStopped: "run=ready; stop=stopped; restart=notready",
    ForgetsNamesAtARestart: "run=ready; restart=ready",
    ForgetsLimits: "run=ready; restart=ready",
    MissesExitsAfterARestart: "run=ready; restart=ready",
    KeepsWhatWasRefused: "run=ready; update-resources=failed",
    ForwardsToTheUnready: "run=left-over; port-forward",
}
DEADLY: dict[type[Pods], str] = {
    WritesReadyFirst: "crash@5 run=undone,ignored",
}
"""Bugs that are noticed by who dies."""


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[Pods]) -> None:
    found = conform(load("pod-sandbox"), lambda: PodsSUT(kind=kind), examples=0, most=1)

    assert [BUGS[kind]] == ["; ".join(map(str, each.steps)) for each in found.failures]


@pytest.mark.parametrize("kind", DEADLY, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_dying(kind: type[Pods]) -> None:
    found = conform(load("pod-sandbox"), lambda: PodsSUT(kind=kind), examples=0, most=1)

    assert DEADLY[kind] == "; ".join(map(str, found.failures[0].steps))
