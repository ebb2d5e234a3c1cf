"""The reference NRI layer conforms to its machines, and planted bugs are found."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

from fsm.conformance.plan import Edge, Plan
from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.machine.table import tabulate
from fsm.monitor import Monitor
from fsm.runtimes.reference.nri import NRI
from fsm.runtimes.reference.nri.lifecycle import EntityStates
from fsm.runtimes.reference.nri.messages import NOTHING, Container, ContainerState, NRIError
from fsm.runtimes.reference.nri.sut import FIRST, SECOND, NriContainerSUT, NriPodSUT
from fsm.trace import Observation
from fsm.verdict import Fails, Holds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsm.conformance.tested import Tested
    from fsm.runtimes.reference.nri.lifecycle import MergedAnswers
    from fsm.runtimes.reference.nri.messages import Domains, Fields, Pod, Request
    from fsm.runtimes.reference.nri.session import Config
    from fsm.verdict import Verdict

SUTS: dict[tuple[str, str], type[NriContainerSUT | NriPodSUT]] = {
    ("nri-container", ""): NriContainerSUT,
    ("nri-container", "containerd-1.7"): NriContainerSUT,
    ("nri-pod", ""): NriPodSUT,
    ("nri-pod", "containerd-1.7"): NriPodSUT,
    ("nri-pod", "containerd-2.1"): NriPodSUT,
    ("nri-pod", "containerd-main"): NriPodSUT,
}


@cache
def plan_of(name: str, release: str) -> Plan:
    machine = load(name)
    return Plan(table=tabulate(machine.under(release)))


@cache
def monitor_of(name: str, release: str) -> partial[Monitor]:
    return partial(Monitor, load(name), profile=release or None, fresh=True)


def edges() -> list[tuple[str, str, Edge]]:
    return [
        (name, release, edge)
        for name, release in SUTS
        for edge in plan_of(name, release).edges
        if edge.ways[0].name != "unknown"
    ]


EDGES = edges()


def judged(case: tuple[str, str, Edge], sut: NriPodSUT | NriContainerSUT, observer: str) -> Verdict:
    """Take a path and then the edge of *case*. Return a monitor's verdict on the requests that *observer* receives."""
    name, release, edge = case
    plan = plan_of(name, release)
    path = plan.path(plan.start, edge.source)
    assert path is not None
    monitor = monitor_of(name, release)()
    sut.reset()
    for number, each in enumerate((*path, edge), start=1):
        way = each.ways[0]
        if each.choice[0]:
            assert sut.arrange(each.step.event, way.name)
        reply = sut.do(each.step.event)
        sut.outputs()
        unknown = observer == SECOND and way.name == "error"  # the machine models only the first plugin
        if unknown:
            assert sut.sent[SECOND] == way.emits[:-1]
        seen = Observation(
            entity="one",
            event=each.step.event,
            reply=reply,
            shows=sut.shows(),
            emits=None if unknown else sut.sent[observer],
        )
        monitor.feed([seen], range(number, number + 1))
    return monitor.judgement().verdict


def test_the_number_of_cells() -> None:
    own = [edge for name, release, edge in EDGES if (name, release) == ("nri-container", "")]

    assert len({cell for edge in own for cell in edge.cells}) == 13 * 4
    assert len(own) == 6 * 4 * 3 + (2 * 3 + 2) + (2 * 4 + 3 + 1) + 4 + 4 * 4


@pytest.mark.slow
@pytest.mark.parametrize("observer", [FIRST, SECOND])
@pytest.mark.parametrize(("name", "release"), SUTS)
def test_every_cell(name: str, release: str, observer: str) -> None:
    sut = SUTS[name, release](release)

    verdicts = [judged(case, sut, observer) for case in EDGES if case[:2] == (name, release)]
    sut.close()

    assert verdicts
    assert not [verdict for verdict in verdicts if not isinstance(verdict, Holds)]


class RelaysNothing(NRI):
    async def _relay(self, request: Request) -> MergedAnswers:
        return await super()._relay(replace(request, event="none such"))


def test_every_cell_of_a_layer_that_relays_nothing() -> None:
    sut = NriContainerSUT(kind=RelaysNothing)

    verdicts = [judged(case, sut, FIRST) for case in EDGES if case[0] == "nri-container" and case[2].ways[0].emits]
    sut.close()

    assert verdicts
    assert not [verdict for verdict in verdicts if not isinstance(verdict, Fails)]


def found_in(name: str, release: str = "", kind: type[NRI] = NRI, *, examples: int = 0) -> Tested:
    factory = SUTS[name, release]
    return conform(load(name), lambda: factory(release, kind), profile=release or None, examples=examples)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "release"), SUTS)
def test_passes_the_test_of_its_machine(name: str, release: str) -> None:
    found = found_in(name, release, examples=15)

    assert ((), ()) == (found.failures, found.missed)
    assert {"unknown"} >= {outcome for _, outcome in found.unarranged}


def test_the_newest_release_does_not_conform_to_an_old_one() -> None:
    """The newest release relays updates of pods, which the old one forbids."""
    factory = SUTS["nri-pod", ""]

    found = conform(load("nri-pod"), factory, profile="containerd-1.7", examples=0)

    assert {"update-pod-sandbox", "post-update-pod-sandbox"} == {each.steps[-1].event for each in found.failures}


class RelaysTwice(NRI):
    async def _relay(self, request: Request) -> MergedAnswers:
        await super()._relay(request)
        return await super()._relay(request)


class NeverRelaysStops(NRI):
    async def _relay(self, request: Request) -> MergedAnswers:
        return await super()._relay(replace(request, event="no stop") if request.event == "StopContainer" else request)


class AlwaysRelaysStops(NRI):
    def relay(
        self, event: str, pod: Pod, container: Container | None = None, resources: Fields = NOTHING
    ) -> MergedAnswers | None:
        relayed = super().relay(event, pod, container, resources)
        if event == "stop-container":
            super().relay("create-container", pod, container)
            super().relay("stop-container", pod, container)
        return relayed


class RelaysBackwards(NRI):
    async def _relay(self, request: Request) -> MergedAnswers:
        swapped = {"StopContainer": "RemoveContainer", "RemoveContainer": "StopContainer"}
        return await super()._relay(replace(request, event=swapped.get(request.event, request.event)))


class SwallowsErrors(NRI):
    async def _relay(self, request: Request) -> MergedAnswers:
        answers = await super()._relay(request)
        answers.error, answers.lost = None, False
        return answers


class LossIsError(NRI):
    async def _relay(self, request: Request) -> MergedAnswers:
        answers = await super()._relay(request)
        answers.error = NRIError("lost") if answers.lost else answers.error
        return answers


class StaysAtErrors(NRI):
    def relay(
        self, event: str, pod: Pod, container: Container | None = None, resources: Fields = NOTHING
    ) -> MergedAnswers | None:
        before = self.container_state(container.id) if container else ""
        try:
            return super().relay(event, pod, container, resources)
        except NRIError:
            back = {"absent": "sync-gone", "created": "sync-created", "running": "sync-running"}
            if container:
                self._entities.containers.take(container.id, back.get(before, "sync-stopped"))
            raise


class RemembersTheRemoved(NRI):
    def relay(
        self, event: str, pod: Pod, container: Container | None = None, resources: Fields = NOTHING
    ) -> MergedAnswers | None:
        try:
            return super().relay(event, pod, container, resources)
        finally:
            if container and event == "remove-container":
                self._entities.containers.take(container.id, "sync-stopped")


class RemovalOfAbsentFails(NRI):
    def relay(
        self, event: str, pod: Pod, container: Container | None = None, resources: Fields = NOTHING
    ) -> MergedAnswers | None:
        if container and event == "remove-container" and self.container_state(container.id) == "absent":
            raise NRIError("not there", code="NOT_FOUND")
        return super().relay(event, pod, container, resources)


class IgnoresExits(NRI):
    def notify_container_exit(self, pod: Pod, container: Container) -> None:
        del pod, container


class ExitsAsRemovals(NRI):
    def notify_container_exit(self, pod: Pod, container: Container) -> None:
        self.relay("remove-container", pod, container)


class Listed(NRI):
    """A layer for which :meth:`seen` replaces the list of containers."""

    def __init__(self, config: Config, domains: Domains) -> None:
        super().__init__(config, domains)
        listed = domains.containers
        domains.containers = lambda: self.seen(listed())  # type: ignore[method-assign]  # the planted bug

    def seen(self, containers: Iterable[Container]) -> tuple[Container, ...]:
        raise NotImplementedError


class AllCreated(Listed):
    def seen(self, containers: Iterable[Container]) -> tuple[Container, ...]:
        return tuple(replace(each, state=ContainerState.CREATED) for each in containers)


class NeverSynchronises(Listed):
    def seen(self, containers: Iterable[Container]) -> tuple[Container, ...]:
        del containers
        return ()


class StartsWithCreation(NRI):
    """A layer that relays a missing creation before the start."""

    def relay(
        self, event: str, pod: Pod, container: Container | None = None, resources: Fields = NOTHING
    ) -> MergedAnswers | None:
        if container and event == "start-container" and self.container_state(container.id) == "absent":
            self.relay("create-container", pod, container)
        return super().relay(event, pod, container, resources)


class ReversesOrder(NRI):
    def __init__(self, *args: Any) -> None:  # noqa: ANN401  # the arguments of the layer
        super().__init__(*args)
        join = self._plugins.join

        def joined(connection: Any) -> None:  # noqa: ANN401  # a connection
            join(connection)
            self._plugins.joined = self._plugins.joined[::-1]  # the planted bug

        self._plugins.join = joined  # type: ignore[method-assign,assignment]  # the planted bug


class RelaysAfterErrors(NRI):
    async def _relay(self, request: Request) -> MergedAnswers:
        relayed = await super()._relay(request)
        if relayed.error is not None:
            _, *others = self._plugins.joined
            for each in others:
                await each.relay(request.event, request)
        return relayed


BUGS = {
    RelaysTwice: ("nri-pod", "run-pod-sandbox"),
    RelaysNothing: ("nri-pod", "run-pod-sandbox"),
    NeverRelaysStops: ("nri-container", "create-container; stop-container"),
    AlwaysRelaysStops: ("nri-container", "stop-container"),
    RelaysBackwards: ("nri-container", "create-container; stop-container"),
    SwallowsErrors: ("nri-container", "create-container"),
    LossIsError: ("nri-pod", "run-pod-sandbox"),
    StaysAtErrors: ("nri-container", "create-container"),
    RemembersTheRemoved: ("nri-container", "remove-container"),
    RemovalOfAbsentFails: ("nri-container", "remove-container"),
    IgnoresExits: ("nri-container", "create-container; notify-exit"),
    ExitsAsRemovals: ("nri-container", "create-container; notify-exit"),
    AllCreated: ("nri-container", "sync-running"),
    NeverSynchronises: ("nri-container", "sync-created"),
    StartsWithCreation: ("nri-container", "start-container"),
    ReversesOrder: ("nri-pod", "run-pod-sandbox"),
    RelaysAfterErrors: ("nri-pod", "run-pod-sandbox"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[NRI]) -> None:
    name, expected = BUGS[kind]

    found = found_in(name, kind=kind)

    shortest = min(found.failures, key=lambda failure: len(failure.steps))
    assert expected == "; ".join(step.event for step in shortest.steps)


@pytest.mark.slow
def test_removed_entities_are_forgotten() -> None:
    memory = EntityStates("nri-container")
    memory.take("c1", "create-container", "ok")
    place = weakref.ref(memory._positions["c1"])  # noqa: SLF001  # the only reference

    memory.take("c1", "remove-container", "ok")
    gc.collect()

    assert place() is None
    assert not memory._driver._engine.models  # noqa: SLF001  # where the library would keep it
