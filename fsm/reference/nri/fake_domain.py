"""A domain for tests and systems under test, with the pods and containers that it is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fsm.reference.nri.messages import Container, Eviction, Pod, Update


@dataclass(kw_only=True)
class FakeDomain:
    """A domain that changes nothing: updates and evictions are kept in ``done``, those of ``stubborn`` containers fail.

    >>> from fsm.reference.nri.messages import Container, Update
    >>> domain = FakeDomain(containers=[Container(id="c1", pod_id="p1")])
    >>> domain.update_container(Update(container_id="c1"))
    >>> len(domain.done), domain.get_container("c2")
    (1, None)
    """

    name: str = "k8s.io"
    pods: Sequence[Pod] = ()
    containers: Sequence[Container] = ()
    stubborn: Collection[str] = ()
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
        """Keep *update*; raises :class:`OSError` for a stubborn container."""
        self._change(update)

    def evict_container(self, eviction: Eviction) -> None:
        """Keep *eviction*; raises :class:`OSError` for a stubborn container."""
        self._change(eviction)

    def _change(self, change: Update | Eviction) -> None:
        if change.container_id in self.stubborn:
            message = f"container {change.container_id} cannot be changed"
            raise OSError(message)
        self.done.append(change)
