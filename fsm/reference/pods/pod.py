"""One pod, and what is told of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from fsm.library import load as machine
from fsm.machine.driver import Driver
from fsm.reference.pods.metadata import Metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsm.machine.driver import Position
    from fsm.reference.container.world import Exit


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
"""What a stop, and a removal, is called that got so far, in whatever state the pod was: the first that the machine has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What a client is told of a pod."""

    id: str
    name: str
    state: str
    pid: int = 0
    created_at: int = 0
    exit: Exit | None = None
    addresses: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)


class Pod:
    """A pod in the store, or one that is not: its ``position`` says which.

    ``watch`` waits for its end, if anybody does.
    """

    def __init__(self, id: str, position: Position, name: str = "") -> None:  # noqa: A002  (what it is)
        self.id = id
        self.name = name
        self.position = position
        self.created_at = 0
        self.exit: Exit | None = None
        self.limits: Mapping[str, int] = {}
        self.watch: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()

    @classmethod
    def read(cls, metadata: Metadata, position: Position) -> Pod:
        """The pod that was written down as *metadata*."""
        self = cls(metadata.id, position, metadata.name)
        self.created_at, self.exit, self.limits = metadata.created_at, metadata.exit, metadata.limits
        return self

    def metadata(self, state: str) -> Metadata:
        """It as it is written down, in *state*."""
        return Metadata(
            id=self.id,
            name=self.name,
            state=state,
            created_at=self.created_at,
            exit=self.exit,
            limits=self.limits,
        )

    # -- the machine -------------------------------------------------------

    def called(self, event: str, wanted: tuple[str, ...]) -> str:
        """The first of *wanted* that the machine has for *event* here and now; nothing, if there is no choice."""
        names = {way.name for way in self.position.ways(event)}
        return next((each for each in wanted if each in names), "")

    def idle(self, event: str) -> bool:
        """Whether *event* can only leave it as it is, so that nothing need be done for it."""
        ways = self.position.ways(event)
        return len(ways) == 1 and ways[0].to == self.position.state


@cache
def driver(profile: str = "") -> Driver:
    """The machine as it is executed, with *profile* if there is one."""
    pods = machine("pod-sandbox")
    return Driver(pods.under(profile))
