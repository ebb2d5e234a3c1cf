"""The calls in progress while a plugin receives events, and the events that none of them can have caused."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fsm.recordings.cri_calls import LOST
from fsm.recordings.time_order import HELD
from fsm.trace import Line, Observation

NO_ID: Final = "a pod that has no id yet"

RELAYED: Final = {
    "RunPodSandbox": ("RunPodSandbox",),
    "CreateContainer": ("CreateContainer", "PostCreateContainer"),
    "StartContainer": ("StartContainer", "PostStartContainer"),
    "UpdateContainerResources": ("UpdateContainer", "PostUpdateContainer"),
}
"""What is relayed to the plugin between a call that succeeds and its reply."""

_CAUSES: Final = {
    **{event: (call,) for call, events in RELAYED.items() for event in events},
    "StopPodSandbox": ("RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"),
    "RemovePodSandbox": ("RunPodSandbox", "RemovePodSandbox"),
    "StopContainer": (
        "CreateContainer",
        "StartContainer",
        "StopContainer",
        "RemoveContainer",
        "StopPodSandbox",
        "RemovePodSandbox",
    ),
    "RemoveContainer": ("CreateContainer", "StartContainer", "RemoveContainer", "RemovePodSandbox"),
}
"""By what is relayed, the calls that relay it; a creation and a start are undone by a stop and a removal."""


class Asked(NamedTuple):
    """A call in progress: its time, the number of points before it, the connection of the plugin, 0 without one."""

    at: int
    order: int
    connection: int


class Received(NamedTuple):
    """An event that the plugin received, and the entities on which a call that causes it would be."""

    at: int
    line: Line
    seen: Observation
    among: tuple[str, ...]


@dataclass(slots=True)
class CallsInProgress:
    """Calls by their names and entities; those that their callers gave up stay in progress."""

    _asked: dict[tuple[str, str], list[Asked]] = field(default_factory=dict)
    _lost: set[tuple[str, str]] = field(default_factory=set)
    _alone: list[Received] = field(default_factory=list)
    _longest: Counter[str] = field(default_factory=Counter)
    _overlap: bool = False
    _interrupted: bool = False
    _gap: bool = False

    def asks(self, call: str, among: tuple[str, ...], asked: Asked) -> None:
        self._overlap = self._overlap or bool(self._asked)
        for each in among:
            self._asked.setdefault((call, each), []).append(asked)

    def ended(self, seen: Observation, entity: str, *, at: int) -> Asked | None:
        """The call on *entity* that ends with *seen*; the first of several, since which it is is not recorded."""
        which = (seen.event, entity)
        if seen.phase == "lost" or seen.reply in LOST:
            self._lost.add(which)
        asked = self._asked.get(which)
        if not asked:
            # Its request was not recorded, so what was relayed before may be of this call.
            self._alone = [
                it for it in self._alone if not (entity in it.among and seen.event in _CAUSES[it.seen.output])
            ]
            return None
        first = asked[0]
        asked.pop()
        if not asked:
            del self._asked[which]
        self._longest[seen.event] = max(self._longest[seen.event], at - first.at)
        return first

    def none(self, *entities: str) -> bool:
        """Whether no call is in progress on any of *entities*."""
        return not any(entity in entities for _, entity in self._asked)

    def interrupted(self, *, gap: bool) -> None:
        """The runtime restarted, or lines are missing: no call is in progress, or it is not known which."""
        self._asked.clear()
        self._lost.clear()
        if not self._interrupted:
            self._alone.clear()  # of calls that had begun before the first line, and did not end
        self._interrupted = True
        self._gap = self._gap or gap

    def relayed(self, event: Received) -> None:
        """Remember *event* if no call has caused it."""
        which = {(cause, each) for cause in _CAUSES.get(event.seen.output, ()) for each in event.among if each}
        if which and which.isdisjoint(self._asked) and which.isdisjoint(self._lost) and len(self._alone) < HELD:
            self._alone.append(event)

    def alone(self, end: int, *, late: bool) -> Iterator[Received]:
        """The events that no call has caused, also none that had not ended at the *end*, if calls are recorded *late*.

        Where calls overlap, one that is not recorded may have taken twice as long as the longest that is.
        """
        unended = late and self._overlap
        for event in () if self._gap else self._alone:
            longest = max(self._longest[cause] for cause in _CAUSES[event.seen.output])
            if event.at < end - (2 * longest if unended else 0):
                yield event
