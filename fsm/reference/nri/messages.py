"""What is said between a runtime, the NRI layer and its plugins.

Resources and adjustments are flat: one value for each field, by a name such
as ``memory.limit`` or ``annotation.owner``.  The layer hands them on, and
knows no more of a field than who has claimed it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Fields: TypeAlias = "Mapping[str, object]"
"""Values by the name of their field."""

NOTHING: Final[Fields] = {}
"""No fields."""

DOMAIN: Final = "k8s.io"
"""The domain of what comes through the CRI."""


class ContainerState(Enum):
    """The state of a container as its domain lists it."""

    UNKNOWN = "unknown"
    CREATED = "created"
    PAUSED = "paused"
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod, as plugins are told of it.

    >>> Pod(id="p1", namespace="default").domain
    'k8s.io'
    """

    id: str
    name: str = ""
    uid: str = ""
    namespace: str = ""
    domain: str = DOMAIN
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime_handler: str = ""
    pid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container, as plugins are told of it; ``state`` is as its domain has it."""

    id: str
    pod_id: str = ""
    name: str = ""
    domain: str = DOMAIN
    state: ContainerState = ContainerState.UNKNOWN
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    pid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A change of a container's resources that a plugin asks for; whether it may fail in silence."""

    container_id: str
    resources: Fields = field(default_factory=dict)
    ignore_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A container that a plugin wants gone, and why."""

    container_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one plugin is sent: an event, and what it is about.

    ``resources`` are those that an update asks for; ``adjusted`` is what
    plugins before this one want for the container that is about to be created.
    """

    event: str
    pod: Pod
    container: Container | None = None
    resources: Fields = field(default_factory=dict)
    adjusted: Fields = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a plugin wants: ``adjust`` is for the container being created, the rest for containers that there are.

    What an event does not ask for is not looked at.
    """

    adjust: Fields = field(default_factory=dict)
    updates: tuple[Update, ...] = ()
    evictions: tuple[Eviction, ...] = ()
