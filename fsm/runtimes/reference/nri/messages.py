"""The messages between a runtime, the NRI layer and its plugins.

Resources and adjustments are flat. Each field has one value, and a name such as ``memory.limit`` or
``annotation.owner``. The layer passes fields on without interpreting them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from fsm.runtimes.recordings import nri_events

Fields: TypeAlias = Mapping[str, object]
"""Maps field names to values."""

NOTHING: Final[Fields] = {}

EVENTS: Final = (*nri_events.EVENTS, "ValidateContainerAdjustment")
"""All events, in the order of their bits."""


class ContainerState(Enum):
    """The state in which a domain lists a container."""

    UNKNOWN = "CONTAINER_UNKNOWN"
    CREATED = "CONTAINER_CREATED"
    PAUSED = "CONTAINER_PAUSED"
    RUNNING = "CONTAINER_RUNNING"
    STOPPED = "CONTAINER_STOPPED"

    @property
    def event(self) -> str:
        """The event of ``nri-container`` for a container that is listed in this state."""
        return nri_events.LISTED.get(self.value, "sync-gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as plugins see it."""

    id: str
    name: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container as plugins see it. ``state`` is its state in the domain."""

    id: str
    pod_id: str = ""
    name: str = ""
    state: ContainerState = ContainerState.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A resource change that a plugin requests. If ``ignore_failure``, its failure is not an error."""

    container_id: str
    resources: Fields = field(default_factory=dict)
    ignore_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A plugin's request to evict a container, with the reason."""

    container_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An event that is sent to a plugin. ``resources`` are those of an update.

    ``adjusted`` holds the adjustments that earlier plugins made to the container that is being created.
    """

    event: str
    pod: Pod
    container: Container | None = None
    resources: Fields = field(default_factory=dict)
    adjusted: Fields = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A plugin's answer. ``adjust`` is for the container being created, and the rest for existing containers.

    Parts that the event does not allow are ignored.
    """

    adjust: Fields = field(default_factory=dict)
    updates: tuple[Update, ...] = ()
    evictions: tuple[Eviction, ...] = ()


def known(relayed: Collection[str]) -> frozenset[str]:
    """Return the events that plugins may subscribe to: *relayed* and, in the newest release, the validation."""
    return frozenset(relayed) | (set(EVENTS[-1:]) if set(EVENTS[:-1]) <= set(relayed) else set())


def subscribed(requested: Collection[str] | int, existing: Collection[str]) -> frozenset[str]:
    """Return the events in *requested*, names or a bit mask. If it is empty or 0, return all *existing* events.

    Raise :class:`ValueError` for an event that does not exist.

    >>> sorted(subscribed(0b1001, EVENTS)), subscribed((), EVENTS) == subscribed(0, EVENTS) == frozenset(EVENTS)
    (['CreateContainer', 'RunPodSandbox'], True)
    >>> subscribed(1 << 14, EVENTS)
    Traceback (most recent call last):
        ...
    ValueError: plugin events 0x4000: the mask of all that there are is 0x3fff
    """
    if isinstance(requested, int):
        valid = sum(1 << bit for bit, event in enumerate(EVENTS) if event in existing)
        if requested & ~valid:
            raise ValueError(f"plugin events {requested & ~valid:#x}: the mask of all that there are is {valid:#x}")
        requested = [event for bit, event in enumerate(EVENTS) if requested >> bit & 1]
    unknown = sorted(set(requested) - set(existing))
    if unknown:
        raise ValueError(f"plugin events {', '.join(unknown)}: there are {', '.join(sorted(existing))}")
    return frozenset(requested or existing)
