"""Track the calls in progress while a plugin receives events, and find events that no call can have caused.

A call relays only events about the entity that it names. After its caller has given up, a call may still relay each of
its events once. If the caller of a creation never received the id of the new entity, the creation is matched with an
entity at the end of the recording.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from fsm.errors import Problem
from fsm.recordings.time_order import HELD
from fsm.runtimes.names import FULL, MAKES, RELAYED
from fsm.runtimes.recordings.cri_calls import LOST
from fsm.trace import Line, Observation, nanoseconds

NO_ID: Final = "a pod that has no id yet"

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
"""Maps each event to the calls that may relay it.

A creation or start that fails may also relay a stop and a removal.
"""


class Asked(NamedTuple):
    """The request of a call.

    ``order`` is the position of the request in the recording. ``connection`` is the number of the plugin's connection
    at that time, or 0 if the plugin was not connected. If a creation returned no id, it relays no events after the
    time ``until``.
    """

    at: int
    order: int = 0
    connection: int = 0
    line: Line | None = None
    until: float = inf


class Received(NamedTuple):
    """An event that the plugin received. The call that relayed the event must have named an entity in ``among``."""

    at: int
    line: Line
    seen: Observation
    among: tuple[str, ...]


@dataclass(slots=True)
class CallsInProgress:
    """Tracks the calls in progress and the calls that were given up.

    ``failed`` maps each event to the positions in the recording at which a relay of the event failed.
    """

    failed: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    over: defaultdict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """Maps the name and entity of calls that are over to the events that they may still relay.

    Each item is the position at which the call began and the name of the event, or "" for any event.
    """
    _asked: dict[tuple[str, str], list[Asked]] = field(default_factory=dict)
    _spent: set[tuple[str, ...]] = field(default_factory=set)
    _vain: defaultdict[tuple[str, str], list[Asked]] = field(default_factory=lambda: defaultdict(list))
    _unreturned: dict[tuple[str, str], Received] = field(default_factory=dict)
    _alone: list[Received] = field(default_factory=list)
    _longest: Counter[str] = field(default_factory=Counter)
    _overlap: bool = False
    _interrupted: bool = False
    _gap: bool = False

    def asks(self, call: str, among: tuple[str, ...], asked: Asked) -> None:
        self._overlap = self._overlap or bool(self._asked)
        for each in among:
            self._asked.setdefault((call, each), []).append(asked)

    def ended(self, seen: Observation, entity: str, *, at: int, line: Line) -> Asked | None:
        """Record that *seen* ends a call on *entity*, and return the request of the call if it was recorded.

        If several requests match, prefer the request on *line*, or else the oldest request.
        """
        which = (seen.event, entity)
        asked = self._asked.get(which)
        mine = next((each for each in asked or () if each.line == line), None)
        first = mine or (asked[0] if asked else None)
        lost = seen.phase == "lost" or seen.reply in LOST
        if seen.event in MAKES and seen.reply == "ok":
            self._unreturned.pop((seen.event, seen.entity), None)
        elif seen.event in MAKES:
            self._vain[which].append((first or Asked(0))._replace(until=inf if lost or not seen.reply else at))
        elif lost:
            self.over[which].append((first.order if first else 0, ""))
        if not asked or first is None:
            # The request was not recorded, so this call may have caused any earlier event.
            self._alone = [
                it for it in self._alone if not (entity in it.among and seen.event in _CAUSES[it.seen.output])
            ]
            return None
        asked.remove(mine or asked[-1])
        if not asked:
            del self._asked[which]
        self._longest[seen.event] = max(self._longest[seen.event], at - first.at)
        return first

    def none(self, *entities: str) -> bool:
        return not any(entity in entities for _, entity in self._asked)

    def interrupted(self, at: int, *, gap: bool) -> None:
        """Forget all calls in progress, because of a restart or, if *gap* is true, because lines are missing."""
        for which, creations in self._vain.items():
            self._vain[which] = [creation._replace(until=min(creation.until, at)) for creation in creations]
        self._asked.clear()
        self.over.clear()
        self._spent.clear()
        self.failed.clear()
        if not self._interrupted:
            self._alone.clear()  # calls that began before the first line may have caused these events
        self._interrupted = True
        self._gap = self._gap or gap

    def is_excused(self, output: str, entity: str, pod: str, asked: Asked) -> bool:
        """Check whether a call may have succeeded without relaying *output*.

        The reason may be a relay that failed while the call was in progress. A failed relay excuses only one call. The
        reason may also be that a call that was given up has already stopped or removed the entity.
        """
        failed = next((each for each in self.failed[output] if asked.order < each), None)
        if failed is not None:
            self.failed[output].remove(failed)
            return True
        calls = [(cause, each) for cause in _CAUSES[output] for each in (entity, pod)]
        ends = output.startswith(("Stop", "Remove"))
        late = [key for _, key in self._late_relays(calls, entity, output) if ends and output not in key[3:4]]
        self._spent.update(late[:1])
        return bool(late)

    def _late_relays(
        self, calls: Collection[tuple[str, str]], entity: str, output: str
    ) -> list[tuple[int, tuple[str, ...]]]:
        """Return the calls that are over but may still relay *output*.

        The result contains the position at which each call began, and the key to add to ``_spent`` when the call has
        relayed the output.
        """
        late = [
            (began, (*which, str(number), what, entity, output))
            for which in calls
            for number, (began, what) in enumerate(self.over.get(which, ()))
            if what in {"", output}
        ]
        return [each for each in late if each[1] not in self._spent]

    def relayed(self, event: Received, *, judged: bool, returned: bool) -> tuple[bool, int | None]:
        """Return whether a call in progress may have caused *event*, and the position of the earliest possible cause.

        If *judged* is true and no call can have caused *event*, :meth:`alone` yields *event* later. *returned* is true
        if a caller received the id of the entity.
        """
        seen = event.seen
        which = [(cause, each) for cause in _CAUSES.get(seen.output, ()) for each in event.among if each]
        asked = [each.order for key in which for each in self._asked.get(key, ())]
        late = self._late_relays(which, seen.entity, seen.output)
        vain = [] if returned else [each for key in which for each in self._vain.get(key, ()) if event.at <= each.until]
        if not returned and (seen.output in MAKES or not asked) and len(self._unreturned) < HELD:
            for call in {cause for cause, _ in which} & MAKES:
                self._unreturned.setdefault((call, seen.entity), event)
        if late and not asked:
            self._spent.add(late[0][1])
        elif judged and which and not asked and len(self._alone) < HELD:
            self._alone.append(event)
        began = [*asked, *(each for each, _ in late), *(each.order for each in vain)]
        return bool(asked), min(began, default=None)

    def alone(self, end: int, *, late: bool) -> Iterator[Received]:
        """Yield the events that no recorded call can have caused.

        If *late* is true, calls are recorded only when they end. If such calls overlap, the causes of events near the
        *end* of the recording may be missing. In this case, skip an event if it is closer to *end* than twice the
        duration of the longest call that may have caused it. If the recording has a gap, yield no events.
        """
        unended = late and self._overlap
        made, relayed = self._match_creations(), set[tuple[str, str]]()
        for event in () if self._gap else self._alone:
            key = (event.seen.entity, event.seen.output)
            creations = (made.get((call, key[0])) for call in _CAUSES[key[1]] if call in MAKES)
            if key not in relayed and any(it and it.at <= event.at <= it.until for it in creations):
                relayed.add(key)
            elif event.at < end - (2 * max(self._longest[cause] for cause in _CAUSES[key[1]]) if unended else 0):
                yield event

    def _match_creations(self) -> dict[tuple[str, str], Asked]:
        """Match each entity whose id no caller received with a creation in progress at the entity's first event.

        If there are several such creations, choose the creation that ended first.
        """
        left = {which: sorted(creations, key=lambda each: each.until) for which, creations in self._vain.items()}
        found: dict[tuple[str, str], Asked] = {}
        for (call, entity), event in sorted(self._unreturned.items(), key=lambda each: each[1].at):
            for creations in (left.get((call, place), []) for place in event.among):
                mine = next((creation for creation in creations if creation.at <= event.at <= creation.until), None)
                if mine and (call, entity) not in found:
                    creations.remove(mine)
                    found[call, entity] = mine
        return found


APART: Final = 60 * 1_000_000_000  # maximum number of nanoseconds between two recordings of the same run
_SHORTEST: Final = 8  # minimum length of an abbreviated id that is unlikely to match a different id by chance

_HINT: Final = "give the events and the calls of the same run"


@dataclass(slots=True)
class _Recorded:
    ids: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    first: int | None = None
    last: int = 0

    def at(self, time: int | str | None) -> None:
        at = nanoseconds(time)
        if at is not None:
            self.first = at if self.first is None else min(self.first, at)
            self.last = max(self.last, at)


@dataclass(slots=True)
class OneRun:
    events: _Recorded = field(default_factory=_Recorded)
    calls: _Recorded = field(default_factory=_Recorded)
    _created: set[str] = field(default_factory=set)

    def called(self, seen: Observation) -> None:
        self.calls.at(seen.at)
        if seen.entity:
            self.calls.ids[seen.of].add(seen.entity)
            if seen.event in MAKES and seen.reply == "ok":
                self._created.add(seen.of)

    def problems(self, events: str, calls: str) -> list[Problem]:
        found = []
        both = [of for of in self._created if self.events.ids[of]]
        if both and not any(self._have_common_ids(of) for of in both):
            found.append(f"the file has no {' and no '.join(sorted(both))} in common with {calls}")
        if self.events.first is not None and self.calls.first is not None:
            early = self.calls.first - self.events.last
            late = self.events.first - self.calls.last
            if max(early, late) > APART:
                order = "the file ends before" if early > 0 else "the file begins after"
                found.append(f"{order} {calls}, with {max(early, late) // 1_000_000_000} seconds in between")
        return [Problem(path=events, line=0, code="FSM206", what=what, hint=_HINT) for what in found]

    def _have_common_ids(self, of: str) -> bool:
        received, called = self.events.ids[of], self.calls.ids[of]
        short = tuple(each for each in called if _SHORTEST <= len(each) < FULL)
        return not received.isdisjoint(called) or any(identity.startswith(short) for identity in received)
