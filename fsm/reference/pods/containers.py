"""What a pod needs from its containers: to create, stop and remove them."""

from collections.abc import Callable
from typing import Protocol

from fsm.reference.container.container import Container
from fsm.reference.container.world import WorldError
from fsm.reference.driven import ABSENT, CallError


class Containers(Protocol):
    """The containers of all pods; every method may raise :class:`~fsm.reference.container.world.WorldError`."""

    def create(self, pod: str) -> None:
        """Create another container in *pod*."""

    def stop(self, pod: str) -> None:
        """Stop the containers of *pod* one after the other, up to the first that cannot be stopped."""

    def remove(self, pod: str) -> None:
        """Remove all containers of *pod*, in any state; can be repeated."""


class NoContainers:
    """Pods without containers."""

    def create(self, pod: str) -> None:
        raise WorldError(f"{pod} can have no containers")

    def stop(self, pod: str) -> None: ...

    def remove(self, pod: str) -> None: ...


class ReferenceContainers:
    """Containers of the reference implementation, ``of`` each pod; *make* makes one that is not created yet.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from fsm.reference.container.container import Container
    >>> from fsm.reference.container.faults import SimulatedWorld
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     containers = ReferenceContainers(lambda pod: Container(Path(folder, pod), SimulatedWorld(Path(folder, pod))))
    ...     containers.create("pod")
    ...     containers.of["pod"][0].start()
    ...     containers.stop("pod")
    ...     print(containers.of["pod"][0].state)
    ...     containers.remove("pod")
    ...     print(containers.of["pod"])
    exited
    []
    """

    def __init__(self, make: Callable[[str], Container]) -> None:
        self.of: dict[str, list[Container]] = {}
        self._make = make

    def create(self, pod: str) -> None:
        container = self._make(pod)
        _call(container.create)
        self.of.setdefault(pod, []).append(container)

    def stop(self, pod: str) -> None:
        for each in self.of.get(pod, []):
            _call(each.stop)

    def remove(self, pod: str) -> None:
        containers = self.of.get(pod, [])
        for each in list(containers):
            _call(each.remove)
            if each.state == ABSENT:
                containers.remove(each)


def _call(call: Callable[[], None]) -> None:
    try:
        call()
    except CallError as error:
        raise WorldError(str(error)) from error
