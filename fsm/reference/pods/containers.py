"""What a pod asks of its containers: that there be another, that they stop, that they be gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fsm.reference.container.world import WorldError
from fsm.reference.driven import ABSENT, CallError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsm.reference.container.container import Container


class Containers(Protocol):
    """The containers of all pods; every method may raise :class:`~fsm.reference.container.world.WorldError`."""

    def create(self, pod: str) -> None:
        """Make another container in *pod*."""

    def stop(self, pod: str) -> None:
        """Stop the containers of *pod* that may run; the first that cannot be stopped is the last that is tried."""

    def remove(self, pod: str) -> None:
        """Remove all containers of *pod*, in whatever state they are; again, if need be."""


class NoContainers:
    """There are none."""

    def create(self, pod: str) -> None:
        """None can be made."""
        message = f"{pod} can have no containers"
        raise WorldError(message)

    def stop(self, pod: str) -> None:
        """There are none."""

    def remove(self, pod: str) -> None:
        """There are none."""


class Inside:
    """Containers of the reference implementation; *make* makes one that is not created yet.

    ``of`` are those of each pod.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from fsm.reference.container.container import Container
    >>> from fsm.reference.container.sut import SimulatedWorld
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     inside = Inside(lambda pod: Container(Path(folder, pod), SimulatedWorld(Path(folder, pod))))
    ...     inside.create("pod")
    ...     inside.of["pod"][0].start()
    ...     inside.stop("pod")
    ...     print(inside.of["pod"][0].state)
    ...     inside.remove("pod")
    ...     print(inside.of["pod"])
    exited
    []
    """

    def __init__(self, make: Callable[[str], Container]) -> None:
        self.of: dict[str, list[Container]] = {}
        self._make = make

    def create(self, pod: str) -> None:
        """Make one more."""
        container = self._make(pod)
        _asked(container.create)
        self.of.setdefault(pod, []).append(container)

    def stop(self, pod: str) -> None:
        """Stop them, one after the other."""
        for each in self.of.get(pod, []):
            _asked(each.stop)

    def remove(self, pod: str) -> None:
        """Remove them, one after the other."""
        inside = self.of.get(pod, [])
        for each in list(inside):
            _asked(each.remove)
            if each.state == ABSENT:
                inside.remove(each)


def _asked(call: Callable[[], None]) -> None:
    try:
        call()
    except CallError as error:
        raise WorldError(str(error)) from error
