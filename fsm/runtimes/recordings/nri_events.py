"""Read recordings of the events that an NRI plugin received, which are outputs of the runtime.

A recording has a JSON line for each event, with the keys ``event``, ``pod`` and ``container``. ``event`` is the name
of the RPC or, if the event was sent as StateChange, the name of the enum value. ``Configure`` begins a connection;
events before it may be missing. ``Synchronize`` lists the existing pods and containers.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fsm.recordings.line_reader import Notes, decoded
from fsm.runtimes.names import CONTAINER, EVENT_NAMES, POD, POD_EVENTS
from fsm.trace import ABSENT, Line, Nanoseconds, Observation

CONNECTS: Final = "connects"  # signal for the beginning of a new connection of the plugin
UNASKED: Final = "unasked"  # signal for an event that was relayed although no call in progress can have caused it

UNRELAYED: Final = "success-unrelayed"
"""The signal for a call that succeeded before all of its events had been relayed."""

SUCCEEDS: Final = {
    (POD, "StopPodSandbox"): "stop-succeeds",
    (POD, "RemovePodSandbox"): "removal-succeeds",
    (CONTAINER, "StopContainer"): "stop-succeeds",
    (CONTAINER, "RemoveContainer"): "removal-succeeds",
}
"""Maps a kind of entity and a call to the signal for the call's success, which a plugin cannot observe."""

SHOWN: Final = frozenset(
    {CONNECTS, UNASKED, UNRELAYED, *SUCCEEDS.values(), "listed", "listed-running"}
    | {"sync-created", "sync-running", "sync-stopped", "sync-gone"}
)
"""Signals that a recording shows if there is no other plugin."""

REMEMBERED: Final = 65_536
"""Number of removed containers to keep in ``pods``, because events are judged some time after they are read."""

LISTED: Final = {
    "CONTAINER_CREATED": "sync-created",
    "CONTAINER_RUNNING": "sync-running",
    "CONTAINER_PAUSED": "sync-running",
    "CONTAINER_STOPPED": "sync-stopped",
}
"""Maps container states in Synchronize to signals. The signal for every other state is ``sync-gone``."""


class NriEvent(msgspec.Struct, gc=False):
    event: str
    ts: Nanoseconds | None = None
    version: str = ""
    pod: str = ""
    container: str = ""
    pods: list[Any] = []
    containers: list[Any] = []

    @property
    def connects(self) -> bool:
        return self.event == "Configure"


DECODER: Final = msgspec.json.Decoder(NriEvent)


@dataclass(slots=True, kw_only=True)
class NriEventReader:
    """Converts lines to observations.

    ``pods`` maps containers to their pods. Removed containers are kept for some time.
    """

    notes: Notes = field(default_factory=Notes)
    pods: dict[str, str] = field(default_factory=dict)
    version: str = ""
    _begun: bool = False
    _there: dict[str, None] = field(default_factory=dict)
    _over: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _new: dict[str, set[str]] = field(default_factory=dict)
    """Maps each pod that was started on this connection to its known containers. Its other containers are new."""

    def observations(self, line: bytes, number: int | Line) -> Iterator[Observation]:
        """Yield the observations in *line*. A new connection is a gap, because events may be missing before it."""
        event = self.read(line, number)
        if event is None:
            return
        if not event.connects:
            yield from self.observed(event)
        elif self._begun:
            yield Observation(phase="gap", at=event.ts)
        self._begun = True  # the first connection is not a gap, because nothing was recorded before it

    def paused(self, quiet: int) -> Iterator[tuple[int, Observation]]:
        del quiet
        yield from ()

    def gap(self) -> Iterator[tuple[int, Observation]]:
        self._new.clear()
        yield 0, Observation(phase="gap")

    def read(self, line: bytes, number: int | Line) -> NriEvent | None:
        """Return the event in *line*, or ``None`` if the line is blank or invalid.

        The *number* of an invalid line is added to the notes.
        """
        if not line.strip():
            return None
        event = decoded(line, DECODER)
        if event is None:
            self.notes.add(number)
        elif event.connects:
            self.version = event.version or self.version
            self._new.clear()
        return event

    def observed(self, event: NriEvent) -> Iterator[Observation]:
        name = EVENT_NAMES.get(event.event)
        if event.container and event.pod:
            self._set_pod(event.container, event.pod)
        if name in POD_EVENTS and event.pod:
            if name == "RunPodSandbox":
                self._new[event.pod] = set()
            elif name == "RemovePodSandbox":
                self._mark_containers_removed(self._new.pop(event.pod, ()))
            yield Observation(entity=event.pod, of=POD, output=name, at=event.ts)
        elif name and name not in POD_EVENTS and event.container:
            known = self._new.get(event.pod, {event.container})
            if event.container not in known and name != "CreateContainer":
                yield Observation(entity=event.container, of=CONTAINER, shows=ABSENT, at=event.ts)
            known.add(event.container)
            if name == "RemoveContainer":
                self._mark_containers_removed([event.container])
            yield Observation(entity=event.container, of=CONTAINER, output=name, at=event.ts)
        elif event.event == "Synchronize":
            yield from self._sync_observations(event)
        elif not event.connects:
            self.notes["events without a lifecycle"] += 1

    def _sync_observations(self, event: NriEvent) -> Iterator[Observation]:
        for each in event.pods:
            identity = each.get("id") if isinstance(each, dict) else each
            if isinstance(identity, str) and identity:
                yield Observation(entity=identity, of=POD, event="listed", at=event.ts)
        self._mark_containers_removed(tuple(self._there))
        for container in event.containers:
            if isinstance(container, dict) and isinstance(identity := container.get("id"), str):
                if isinstance(pod := container.get("pod"), str) and pod:
                    self._set_pod(identity, pod)
                signal = LISTED.get(str(container.get("state", "")), "sync-gone")
                yield Observation(entity=identity, of=CONTAINER, event=signal, at=event.ts)

    def _set_pod(self, container: str, pod: str) -> None:
        self.pods[container] = pod
        self._there[container] = None
        self._over.pop(container, None)

    def _mark_containers_removed(self, containers: Iterable[str]) -> None:
        for container in containers:
            self._there.pop(container, None)
            self._over[container] = None
        while len(self._over) > REMEMBERED:
            oldest, _ = self._over.popitem(last=False)
            self.pods.pop(oldest, None)
