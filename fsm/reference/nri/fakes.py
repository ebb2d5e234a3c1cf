"""A domain and a plugin for tests and SUTs, which keep what they receive."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fsm.reference.nri.connection import Plugin
from fsm.reference.nri.messages import Answer, Container, Eviction, Pod, Request, Update


@dataclass(kw_only=True)
class FakeDomain:
    """A domain that keeps updates and evictions in ``done``; those of ``stubborn`` containers fail."""

    name: str = "k8s.io"
    pods: Sequence[Pod] = ()
    containers: Sequence[Container] = ()
    stubborn: Collection[str] = ()
    done: list[object] = field(default_factory=list)

    def list_pod_sandboxes(self) -> Sequence[Pod]:
        return self.pods

    def list_containers(self) -> Sequence[Container]:
        return self.containers

    def get_container(self, container_id: str) -> Container | None:
        return next((each for each in self.containers if each.id == container_id), None)

    def update_container(self, update: Update | Eviction) -> None:
        if update.container_id in self.stubborn:
            raise OSError(f"container {update.container_id} cannot be changed")
        self.done.append(update)

    def evict_container(self, eviction: Eviction) -> None:
        self.update_container(eviction)


@dataclass(kw_only=True, eq=False)
class FakePlugin(Plugin):
    """A plugin that keeps what it is sent, and answers each event with the function in ``answers``, or nothing.

    ``heard`` has the index and the event of each request, and may be shared by several plugins.
    """

    index: str = "10"
    name: str = "fake"
    events: Collection[str] = ()
    answers: Mapping[str, Callable[[Request], Answer]] = field(default_factory=dict)
    wants: Callable[[], Sequence[Update]] = tuple
    heard: list[tuple[str, str]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    synchronised: list[tuple[tuple[Pod, ...], tuple[Container, ...]]] = field(default_factory=list)

    def synchronize(self, pods: Sequence[Pod], containers: Sequence[Container]) -> Sequence[Update]:
        self.synchronised.append((tuple(pods), tuple(containers)))
        return self.wants()

    def handle(self, request: Request) -> Answer:
        self.heard.append((self.index, request.event))
        self.requests.append(request)
        return self.answers[request.event](request) if request.event in self.answers else Answer()
