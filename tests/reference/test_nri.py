"""The reference NRI layer does what its machines say, in every cell and every way, and the kit notices where it does not."""

# ruff: noqa: D102  (a bug is told of by its class)

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

from fsm.conformance.plan import Edge, Plan
from fsm.conformance.suite import conform
from fsm.library import load
from fsm.machine.table import tabulate
from fsm.monitor import Monitor
from fsm.reference.nri.api import NRI
from fsm.reference.nri.entities import EntityStates
from fsm.reference.nri.messages import Container, ContainerState
from fsm.reference.nri.nri_errors import NRIError
from fsm.reference.nri.sut import FIRST, SECOND, NriContainerSUT, NriPodSUT
from fsm.trace import Observation
from fsm.verdict import Fails, Holds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsm.conformance.suite import Tested
    from fsm.reference.nri.config import Config
    from fsm.reference.nri.domain import Domains
    from fsm.reference.nri.merge import MergedAnswers
    from fsm.reference.nri.messages import Pod, Request
    from fsm.reference.nri.plugins import Relayed
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
    """All that there is in the machine of a release."""
    machine = load(name)
    return Plan(table=tabulate(machine.under(release)))


@cache
def monitor_of(name: str, release: str) -> partial[Monitor]:
    """What makes a monitor of the machine of a release."""
    return partial(Monitor, load(name), profile=release or None, fresh=True)


def edges() -> list[tuple[str, str, Edge]]:
    """Every way of every cell of every machine and release, but for those of releases that are not played."""
    return [
        (name, release, edge)
        for name, release in SUTS
        for edge in plan_of(name, release).edges
        if edge.ways[0].name != "unknown"
    ]


EDGES = edges()


def judged(case: tuple[str, str, Edge], sut: NriPodSUT | NriContainerSUT, observer: str) -> Verdict:
    """What the monitor makes of the way to an edge, and of the edge itself, as *observer* saw it."""
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
        deaf = observer == SECOND and way.name == "error"  # the machine does not say what comes after an error
        if deaf:
            assert sut.sent[SECOND] == way.emits[:-1]
        seen = Observation(
            entity="one",
            event=each.step.event,
            reply=reply,
            shows=sut.shows(),
            emits=None if deaf else sut.sent[observer],
        )
        monitor.feed([seen], range(number, number + 1))
    return monitor.judgement().verdict


def test_the_cells_are_all_there() -> None:
    """14 calls and signals with their outcomes, in each state: as many as the machines have."""
    own = [edge for name, release, edge in EDGES if (name, release) == ("nri-container", "")]

    assert len({cell for edge in own for cell in edge.cells}) == 13 * 4
    assert len(own) == 6 * 4 * 3 + (2 * 3 + 2) + (2 * 4 + 3 + 1) + 4 + 4 * 4


@pytest.mark.parametrize("observer", [FIRST, SECOND])
@pytest.mark.parametrize(("name", "release"), SUTS)
def test_every_cell(name: str, release: str, observer: str) -> None:
    """The first plugin sees what the machine says, and the second sees it, too, if the first gave no error."""
    sut = SUTS[name, release](release)

    verdicts = [judged(case, sut, observer) for case in EDGES if case[:2] == (name, release)]
    sut.close()

    assert verdicts
    assert not [verdict for verdict in verdicts if not isinstance(verdict, Holds)]


class Deaf(NRI):
    """Relays nothing."""

    def _relay(self, request: Request) -> Relayed:
        return super()._relay(replace(request, event="none such"))


def test_every_cell_of_what_relays_nothing() -> None:
    """It is noticed wherever something is to be relayed."""
    sut = NriContainerSUT(kind=Deaf)

    verdicts = [judged(case, sut, FIRST) for case in EDGES if case[0] == "nri-container" and case[2].ways[0].emits]
    sut.close()

    assert verdicts
    assert not [verdict for verdict in verdicts if not isinstance(verdict, Fails)]


def found_in(name: str, release: str = "", kind: type[NRI] = NRI, *, examples: int = 0) -> Tested:
    """What the kit finds."""
    factory = SUTS[name, release]
    return conform(load(name), lambda: factory(release, kind), profile=release or None, examples=examples)


@pytest.mark.parametrize(("name", "release"), SUTS)
def test_passes_the_test_of_its_machine(name: str, release: str) -> None:
    """All cells are covered, and all ways but one, that of a release that is not played."""
    found = found_in(name, release, examples=15)

    assert ((), ()) == (found.failures, found.missed)
    assert {"unknown"} >= {outcome for _, outcome in found.unarranged}


def test_the_newest_is_not_an_old_release() -> None:
    """An update of a pod is refused by the one, and relayed by the other."""
    factory = SUTS["nri-pod", ""]

    found = conform(load("nri-pod"), factory, profile="containerd-1.7", examples=0)

    assert {"update-pod-sandbox", "post-update-pod-sandbox"} == {each.steps[-1].event for each in found.failures}


class Twice(NRI):
    """Relays each request twice."""

    def _relay(self, request: Request) -> Relayed:
        super()._relay(request)
        return super()._relay(request)


class Never(NRI):
    """Relays no stop."""

    def _relay(self, request: Request) -> Relayed:
        return super()._relay(replace(request, event="no stop") if request.event == "StopContainer" else request)


class Always(NRI):
    """Relays every stop, whatever is remembered."""

    def stop_container(self, pod: Pod, container: Container) -> None:
        super().stop_container(pod, container)
        self.create_container(pod, container)
        super().stop_container(pod, container)


class Backwards(NRI):
    """Relays the removal, and then the stop."""

    def _relay(self, request: Request) -> Relayed:
        swapped = {"StopContainer": "RemoveContainer", "RemoveContainer": "StopContainer"}
        return super()._relay(replace(request, event=swapped.get(request.event, request.event)))


class Swallows(NRI):
    """Drops the errors of plugins."""

    def _relay(self, request: Request) -> Relayed:
        return replace(super()._relay(request), result="ok", error=None)


class Invents(NRI):
    """Takes a lost plugin for one that answers an error."""

    def _relay(self, request: Request) -> Relayed:
        told = super()._relay(request)
        return replace(told, result="error", error=NRIError("lost")) if told.result == "lost" else told


class StaysAtErrors(NRI):
    """Remembers nothing of what a plugin answered with an error."""

    def _happen(self, entities: EntityStates, entity: str, event: str, request: Request) -> MergedAnswers | None:
        before = entities.state(entity)
        try:
            return super()._happen(entities, entity, event, request)
        except NRIError:
            back = {"absent": "sync-gone", "created": "sync-created", "running": "sync-running"}
            if entities is self._containers:
                entities.take(entity, back.get(before, "sync-stopped"))
            raise


class ForgetsLate(NRI):
    """Does not forget what was removed."""

    def remove_container(self, pod: Pod, container: Container) -> None:
        try:
            super().remove_container(pod, container)
        finally:
            self._containers.take(container.id, "sync-stopped")


class Raises(NRI):
    """Has a removal of what is not there fail."""

    def remove_container(self, pod: Pod, container: Container) -> None:
        if self.container_state(container.id) == "absent":
            raise NRIError("not there", code="NOT_FOUND")
        super().remove_container(pod, container)


class IgnoresExits(NRI):
    """Has no ear for exits."""

    def notify_container_exit(self, pod: Pod, container: Container) -> None:
        del pod, container


class ExitsAsRemovals(NRI):
    """Takes an exit for a removal."""

    def notify_container_exit(self, pod: Pod, container: Container) -> None:
        self.remove_container(pod, container)


class Listed(NRI):
    """Sees of the domains what :meth:`seen` says."""

    def __init__(self, config: Config, domains: Domains) -> None:
        super().__init__(config, domains)
        listed = domains.containers
        domains.containers = lambda: self.seen(listed())  # type: ignore[method-assign]  # that is the bug

    def seen(self, containers: Iterable[Container]) -> tuple[Container, ...]:
        raise NotImplementedError


class DropsPaused(Listed):
    """Takes all that is listed for created."""

    def seen(self, containers: Iterable[Container]) -> tuple[Container, ...]:
        return tuple(replace(each, state=ContainerState.CREATED) for each in containers)


class NeverSynchronises(Listed):
    """Takes nothing from the domains."""

    def seen(self, containers: Iterable[Container]) -> tuple[Container, ...]:
        del containers
        return ()


class StartsWithCreation(NRI):
    """Relays a creation that was missed before a start."""

    def start_container(self, pod: Pod, container: Container) -> None:
        if self.container_state(container.id) == "absent":
            self.create_container(pod, container)
        super().start_container(pod, container)


class TurnsRound(NRI):
    """Asks the plugins in descending order."""

    def __init__(self, *args: Any) -> None:  # noqa: ANN401  # whatever the layer takes
        super().__init__(*args)
        join = self._plugins.join

        def joined(connection: Any) -> None:  # noqa: ANN401  # a connection
            join(connection)
            self._plugins._connections = self._plugins._connections[::-1]  # noqa: SLF001  # that is the bug

        self._plugins.join = joined  # type: ignore[method-assign]  # that is the bug


class GoesOn(NRI):
    """Asks those after an error, too."""

    def _relay(self, request: Request) -> Relayed:
        told = super()._relay(request)
        if told.error is not None:
            _, *others = self._plugins._connections  # noqa: SLF001  # that is the bug
            for each in others:
                each.relay(request)
        return told


BUGS = {
    Twice: ("nri-pod", "run-pod-sandbox"),
    Deaf: ("nri-pod", "run-pod-sandbox"),
    Never: ("nri-container", "create-container; stop-container"),
    Always: ("nri-container", "stop-container"),
    Backwards: ("nri-container", "create-container; stop-container"),
    Swallows: ("nri-container", "create-container"),
    Invents: ("nri-pod", "run-pod-sandbox"),
    StaysAtErrors: ("nri-container", "create-container"),
    ForgetsLate: ("nri-container", "remove-container"),
    Raises: ("nri-container", "remove-container"),
    IgnoresExits: ("nri-container", "create-container; notify-exit"),
    ExitsAsRemovals: ("nri-container", "create-container; notify-exit"),
    DropsPaused: ("nri-container", "sync-running"),
    NeverSynchronises: ("nri-container", "sync-created"),
    StartsWithCreation: ("nri-container", "start-container"),
    TurnsRound: ("nri-pod", "run-pod-sandbox"),
    GoesOn: ("nri-pod", "run-pod-sandbox"),
}


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[NRI]) -> None:
    name, expected = BUGS[kind]

    found = found_in(name, kind=kind)

    shortest = min(found.failures, key=lambda failure: len(failure.steps))
    assert expected == "; ".join(step.event for step in shortest.steps)


def test_what_is_removed_is_forgotten() -> None:
    """Neither the layer nor what drives it holds on to entities that there were."""
    memory = EntityStates("nri-container")
    memory.take("c1", "create-container", "ok")
    place = weakref.ref(memory._positions["c1"])  # noqa: SLF001  # nobody else holds it

    memory.take("c1", "remove-container", "ok")
    gc.collect()

    assert place() is None
    assert not memory._driver._engine.models  # noqa: SLF001  # the library would hold it there
