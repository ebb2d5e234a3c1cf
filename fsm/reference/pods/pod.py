"""One pod, and the status that a client reads."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fsm.machine.driver import Position
from fsm.reference.pods.metadata import Metadata

STOPPED: Final[Mapping[str, tuple[str, ...]]] = {
    "held": ("not-stopped", "failed", "unmonitored"),
    "ended": ("half-stopped", "failed", "unmonitored"),
    "freed": ("stopped",),
}
REMOVED: Final[Mapping[str, tuple[str, ...]]] = {
    "held": ("failed",),
    "ended": ("half-stopped", "failed"),
    "freed": ("stopped-only", "failed"),
    "gone": ("removed",),
}
"""The outcomes of a stop and of a removal, by how far they got; the first that the machine offers is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus(Metadata):
    """The status of a pod, as a client reads it; ``state`` is what the machine shows."""

    pid: int = 0
    addresses: tuple[str, ...] = ()


class Pod:
    """A pod in the store, or an absent one; ``watch`` is the task that waits for its exit."""

    def __init__(self, metadata: Metadata, position: Position) -> None:
        self.id, self.name, self.limits = metadata.id, metadata.name, metadata.limits
        self.created_at, self.exit = metadata.created_at, metadata.exit
        self.position = position
        self.watch: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()

    def metadata(self, state: str) -> Metadata:
        return Metadata(
            id=self.id, name=self.name, state=state, created_at=self.created_at, exit=self.exit, limits=self.limits
        )
