"""What it means for the memory of the layer that a container is listed, when a plugin is told what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fsm.reference.nri.messages import ContainerState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fsm.reference.nri.entities import Memory
    from fsm.reference.nri.messages import Container

LISTED: Final = {
    ContainerState.CREATED: "sync-created",
    ContainerState.RUNNING: "sync-running",
    ContainerState.PAUSED: "sync-running",
    ContainerState.STOPPED: "sync-stopped",
}
"""What it is for a container to be listed in a state when a plugin joins; any other state means that it is gone."""

GONE: Final = "sync-gone"
"""What it is for a container to be listed in any other state."""


def remember(memory: Memory, containers: Iterable[Container]) -> None:
    """What is listed replaces what *memory* has of it; what is not listed stays."""
    for container in containers:
        memory.take(container.id, LISTED.get(container.state, GONE))
