"""Pods, containers, a domain and a scripted plugin of the NRI layer, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from fsm.reference.nri.fake_domain import FakeDomain
from fsm.reference.nri.messages import Answer, Container, Pod

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from fsm.reference.nri.messages import Request, Update

POD = Pod(id="p1")
ONE = Container(id="c1", pod_id="p1")
TWO = Container(id="c2", pod_id="p1")

Heard: TypeAlias = "list[tuple[str, str]]"


@dataclass(kw_only=True, eq=False)
class Told:
    """A plugin that answers by event as it is told, and otherwise nothing; ``heard`` may be shared."""

    index: str = "10"
    name: str = "told"
    events: Collection[str] = ()
    answers: dict[str, Callable[[Request], Answer]] = field(default_factory=dict)
    wants: Callable[[], Sequence[Update]] = tuple
    heard: Heard = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    synchronised: list[tuple[tuple[Pod, ...], tuple[Container, ...]]] = field(default_factory=list)

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        """What it wants."""
        self.synchronised.append((tuple(pods), tuple(containers)))
        return self.wants()

    def handle(self, request: Request) -> Answer:
        """As it is told."""
        self.heard.append((self.index, request.event))
        self.requests.append(request)
        return self.answers[request.event](request) if request.event in self.answers else Answer()


def domain_of_two(
    name: str = "k8s.io", *, containers: Sequence[Container] = (ONE, TWO), stubborn: Collection[str] = ()
) -> FakeDomain:
    """A domain that has the pod and both containers."""
    return FakeDomain(name=name, pods=(POD,), containers=containers, stubborn=stubborn)


def always(answer: Answer) -> Callable[[Request], Answer]:
    """What gives *answer* whatever it is asked."""
    return lambda _: answer
