"""A domain and a plugin of the NRI layer for tests: they do as they are told, and write down what they hear."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from fsm.reference.nri.messages import Answer, Container, Pod

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from fsm.reference.nri.messages import Eviction, Request, Update

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


@dataclass(kw_only=True)
class Kept:
    """A domain that keeps what it is given, and cannot change those in ``stubborn``."""

    name: str = "k8s.io"
    pods: tuple[Pod, ...] = (POD,)
    containers: tuple[Container, ...] = (ONE, TWO)
    stubborn: tuple[str, ...] = ()
    done: list[object] = field(default_factory=list)

    def list_pod_sandboxes(self) -> Sequence[Pod]:
        """All pods."""
        return self.pods

    def list_containers(self) -> Sequence[Container]:
        """All containers."""
        return self.containers

    def get_pod_sandbox(self, pod_id: str) -> Pod | None:
        """The pod, if it is there."""
        return next((pod for pod in self.pods if pod.id == pod_id), None)

    def get_container(self, container_id: str) -> Container | None:
        """The container, if it is there."""
        return next((each for each in self.containers if each.id == container_id), None)

    def update_container(self, update: Update) -> None:
        """Done, unless it is stubborn."""
        self._do(update)

    def evict_container(self, eviction: Eviction) -> None:
        """Done, unless it is stubborn."""
        self._do(eviction)

    def _do(self, what: Update | Eviction) -> None:
        if what.container_id in self.stubborn:
            raise OSError("it will not")
        self.done.append(what)


def always(answer: Answer) -> Callable[[Request], Answer]:
    """What gives *answer* whatever it is asked."""
    return lambda _: answer
