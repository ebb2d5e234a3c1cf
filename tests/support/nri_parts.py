"""Parts for tests of the NRI layer: a domain with a pod and two containers, and a plugin that records calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from fsm.runtimes.reference.nri import sut
from fsm.runtimes.reference.nri.messages import Answer, Container, Domain, Pod

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from fsm.runtimes.reference.nri import NRI
    from fsm.runtimes.reference.nri.messages import Fields, Request, Update

POD = Pod(id="p1")
ONE = Container(id="c1", pod_id="p1")
TWO = Container(id="c2", pod_id="p1")

Heard: TypeAlias = "list[tuple[str, str]]"


def domain_of_two(
    name: str = "k8s.io", *, containers: Sequence[Container] = (ONE, TWO), stubborn: Collection[str] = ()
) -> Domain:
    return Domain(name=name, pods=(POD,), containers=containers, stubborn=stubborn)


@dataclass(kw_only=True, eq=False)
class FakePlugin(sut.FakePlugin):
    """A plugin that records its requests and the objects in them. ``heard`` also contains the plugin's index."""

    heard: Heard = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    synchronised: list[tuple[tuple[Pod, ...], tuple[Container, ...]]] = field(default_factory=list)

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        self.synchronised.append((tuple(pods), tuple(containers)))
        return super().synchronize(pods, containers)

    def handle(self, request: Request) -> Answer:
        self.heard.append((self.index, request.event))
        self.requests.append(request)
        return super().handle(request)


def always(answer: Answer) -> Callable[[Request], Answer]:
    return lambda _: answer


def adjusted(nri: NRI, container: Container = ONE) -> Fields | None:
    """Relay the creation of a container, and return the adjustments by plugins, if any."""
    answers = nri.relay("create-container", POD, container)
    return answers.adjust if answers else None
