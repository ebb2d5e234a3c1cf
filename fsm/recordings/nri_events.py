"""What an NRI plugin was told: one JSON line an event, as outputs of the runtime's NRI layer.

The keys are ``event`` (the RPC's name, or the enum's for events that came as
StateChange), ``pod`` and ``container``.  ``Configure`` begins a connection:
what was known before it need not hold after it, and ``Synchronize`` lists
what exists.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fsm.recordings.pod_calls import CONTAINER, POD
from fsm.trace import Observation

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECTS: Final = "connects"
"""The signal that a new connection of the plugin begins."""

SUCCEEDED: Final = frozenset({"stop-succeeds", "removal-succeeds"})
"""The signals that a call has succeeded, of which a plugin alone knows nothing."""

SHOWN: Final = SUCCEEDED | {CONNECTS, "listed", "sync-created", "sync-running", "sync-stopped", "sync-gone"}
"""The signals that can be seen; a recording of one plugin assumes that there is no other."""

_CONTAINER_EVENTS: Final = (
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
)
_POD_EVENTS: Final = (
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "UpdatePodSandbox",
    "PostUpdatePodSandbox",
)


def _enum(name: str) -> str:
    """The NRI enum's name for the event *name*.

    >>> _enum("PostStartContainer")
    'POST_START_CONTAINER'
    """
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")


_NAMES: Final = {form: name for name in (*_CONTAINER_EVENTS, *_POD_EVENTS) for form in (name, _enum(name))}
_LISTED: Final = {
    "CONTAINER_CREATED": "sync-created",
    "CONTAINER_RUNNING": "sync-running",
    "CONTAINER_PAUSED": "sync-running",
    "CONTAINER_STOPPED": "sync-stopped",
}


class Told(msgspec.Struct, gc=False):
    """One line of a recording."""

    event: str
    ts: int | None = None
    pod: str = ""
    container: str = ""
    pods: list[Any] = []
    containers: list[Any] = []

    @property
    def connects(self) -> bool:
        """Whether a connection begins."""
        return self.event == "Configure"

    @property
    def synchronizes(self) -> bool:
        """Whether the plugin is given what is there, after which it is told of what happens."""
        return self.event == "Synchronize"


_DECODER: Final = msgspec.json.Decoder(Told)


@dataclass(slots=True, kw_only=True)
class Events:
    """Turns the lines of one recording into observations."""

    notes: Counter[str] = field(default_factory=Counter)
    _begun: bool = False

    def observations(self, line: bytes) -> Iterator[Observation]:
        """What *line* says to somebody who knows nothing of what the plugin missed between two connections."""
        told = self.read(line)
        if told is None:
            return
        if not told.connects:
            self._begun = True
            yield from self.said(told)
        elif self._begun:
            yield Observation(phase="gap", at=told.ts)
        self._begun = True  # one that is configured first has missed nothing that was recorded

    def read(self, line: bytes) -> Told | None:
        """What *line* is; ``None``, and counted, where it is foreign or damaged."""
        try:
            return _DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            self.notes["foreign or damaged lines"] += 1
            return None

    def said(self, told: Told) -> Iterator[Observation]:
        """What *told* says of pods and containers."""
        name = _NAMES.get(told.event)
        if name in _POD_EVENTS and told.pod:
            yield Observation(entity=told.pod, of=POD, output=name, at=told.ts)
        elif name in _CONTAINER_EVENTS and told.container:
            yield Observation(entity=told.container, of=CONTAINER, output=name, at=told.ts)
        elif told.synchronizes:
            yield from _synchronized(told)
        elif not told.connects:
            self.notes["events without a lifecycle"] += 1


def _synchronized(told: Told) -> Iterator[Observation]:
    for each in told.pods:
        identity = each.get("id") if isinstance(each, dict) else each
        if isinstance(identity, str) and identity:
            yield Observation(entity=identity, of=POD, event="listed", at=told.ts)
    for each in told.containers:
        if isinstance(each, dict) and isinstance(identity := each.get("id"), str):
            event = _LISTED.get(str(each.get("state", "")), "sync-gone")
            yield Observation(entity=identity, of=CONTAINER, event=event, at=told.ts)
