"""Messages between a runtime, the NRI layer and its plugins, and errors with their reply codes.

Resources and adjustments are flat mappings. Each field has one value, and a name such as ``memory.limit`` or
``annotation.owner``. The layer passes fields on without interpreting them.
"""

import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from fsm.runtimes.names import REQUESTS
from fsm.runtimes.recordings import nri_events
from fsm.runtimes.reference.driven import ReplyError

Fields: TypeAlias = Mapping[str, object]

NOTHING: Final[Fields] = {}


class ContainerState(Enum):
    UNKNOWN = "CONTAINER_UNKNOWN"
    CREATED = "CONTAINER_CREATED"
    PAUSED = "CONTAINER_PAUSED"
    RUNNING = "CONTAINER_RUNNING"
    STOPPED = "CONTAINER_STOPPED"

    @property
    def event(self) -> str:
        return nri_events.LISTED.get(self.value, "sync-gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    id: str
    name: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    id: str
    pod_id: str = ""
    name: str = ""
    state: ContainerState = ContainerState.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A resource change that a plugin requests. If ``ignore_failure`` is true, a failed change is not an error."""

    container_id: str
    resources: Fields = field(default_factory=dict)
    ignore_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    container_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An event for a plugin. If it is an update, ``resources`` are the requested resources.

    While a container is being created, ``adjusted`` has the adjustments that earlier plugins have made to it.
    """

    event: str
    pod: Pod
    container: Container | None = None
    resources: Fields = field(default_factory=dict)
    adjusted: Fields = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A plugin's answer to an event. Parts that the event does not allow are ignored.

    ``adjust`` changes the container that is being created. ``updates`` and ``evictions`` are for existing containers.
    """

    adjust: Fields = field(default_factory=dict)
    updates: tuple[Update, ...] = ()
    evictions: tuple[Eviction, ...] = ()


def known(relayed: Collection[str]) -> frozenset[str]:
    return frozenset(REQUESTS if {*REQUESTS[:-1]} <= {*relayed} else relayed)


def subscribed(requested: Collection[str] | int, existing: Collection[str]) -> frozenset[str]:
    """Return the events in *requested*, which is a collection of names or a bit mask.

    If *requested* is empty or 0, return all *existing* events. Raise :class:`ValueError` for a nonexistent event.

    >>> sorted(subscribed(0b1001, REQUESTS)), subscribed((), REQUESTS) == subscribed(0, REQUESTS) == frozenset(REQUESTS)
    (['CreateContainer', 'RunPodSandbox'], True)
    >>> subscribed(1 << 14, REQUESTS)
    Traceback (most recent call last):
        ...
    ValueError: plugin events 0x4000: the mask of all events is 0x3fff
    """
    if isinstance(requested, int):
        valid = sum(1 << bit for bit, event in enumerate(REQUESTS) if event in existing)
        if requested & ~valid:
            raise ValueError(f"plugin events {requested & ~valid:#x}: the mask of all events is {valid:#x}")
        requested = [event for bit, event in enumerate(REQUESTS) if requested >> bit & 1]
    if unknown := sorted(set(requested) - set(existing)):
        raise ValueError(f"plugin events {', '.join(unknown)}: there are {', '.join(sorted(existing))}")
    return frozenset(requested or existing)


class NRIError(ReplyError):
    """An error in the NRI layer, a domain or a plugin."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        if code:
            self.code = code


class NRIStoppedError(NRIError):
    code = "UNAVAILABLE"


class ReentrantError(NRIError):
    """A plugin or domain called the NRI layer while the layer was waiting for it."""

    code = "FAILED_PRECONDITION"


class BlockedError(NRIError):
    code = "DEADLINE_EXCEEDED"


class RegistrationError(NRIError):
    """A plugin cannot be registered, because it has failed or its name, index or events are invalid."""

    code = "INVALID_ARGUMENT"


class PluginLostError(Exception):
    """A plugin disconnected, or did not answer in time."""

    code = "UNAVAILABLE"


class PluginLateError(PluginLostError):
    code = "DEADLINE_EXCEEDED"


class ConflictError(NRIError):
    code = "ALREADY_EXISTS"


ContainerChange: TypeAlias = Update | Eviction


class ChangesFailedError(NRIError):
    """The updates or evictions of containers that ``failed`` lists have failed. All others were made."""

    def __init__(self, failed: Sequence[ContainerChange]) -> None:
        self.failed: Final = tuple(failed)
        change = type(failed[0]).__name__.lower()
        super().__init__(f"{change} of some containers failed: {', '.join(one.container_id for one in failed)}")


_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Domain:
    """The pods and containers of one namespace.

    The NRI layer is locked while it calls a domain, so a domain must not call the layer. ``done`` records the changes
    that were made. Changes to the containers in ``stubborn`` fail.
    """

    name: str = "k8s.io"
    pods: Sequence[Pod] = ()
    containers: Sequence[Container] = ()
    stubborn: Collection[str] = ()
    done: list[object] = field(default_factory=list)

    def has(self, container_id: str) -> bool:
        return any(container.id == container_id for container in self.containers)

    def change(self, change: ContainerChange) -> None:
        if change.container_id in self.stubborn:
            raise OSError(f"container {change.container_id} cannot be changed")
        self.done.append(change)


class Domains:
    """The registered domains. Thread-safe."""

    def __init__(self, domains: Iterable[Domain] = ()) -> None:
        self._lock = threading.Lock()
        self._domains: tuple[Domain, ...] = ()
        for domain in domains:
            self.register(domain)

    def register(self, domain: Domain) -> None:
        with self._lock:
            if any(known.name == domain.name for known in self._domains):
                message = f"failed to register namespace {domain.name!r} with NRI: there is one already"
                raise NRIError(message, code="ALREADY_EXISTS")
            self._domains += (domain,)

    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for domain in self._domains for pod in domain.pods)

    def containers(self) -> tuple[Container, ...]:
        return tuple(container for domain in self._domains for container in domain.containers)

    def change(self, changes: Iterable[ContainerChange]) -> None:
        """Apply each change in the domain of its container. Unknown containers are skipped.

        At the end, raise :class:`ChangesFailedError` if any change without ``ignore_failure`` has failed.
        """
        failed = []
        for change in changes:
            owner = next((domain for domain in self._domains if domain.has(change.container_id)), None)
            try:
                if owner:
                    owner.change(change)
            except Exception:  # noqa: BLE001  (a domain may raise anything)
                _log.exception("%s failed", change)
                if not (isinstance(change, Update) and change.ignore_failure):
                    failed.append(change)
        if failed:
            raise ChangesFailedError(failed)
