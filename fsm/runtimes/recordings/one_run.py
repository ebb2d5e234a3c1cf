"""Check whether the events that a plugin received and the recorded calls come from one run.

They do not if the calls created pods or containers, the events name some, and no id appears in both, or if more than
:data:`APART` lies between the two recordings. A recording that creates or names nothing fits any run at its time, and a
recording without times fits any time.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from fsm.errors import Problem
from fsm.runtimes.names import FULL, MAKES
from fsm.trace import Observation, nanoseconds

APART: Final = 60 * 1_000_000_000  # maximum number of nanoseconds between the recordings of one run
_SHORTEST: Final = 8  # length of the shortest prefix of an id that is assumed not to match another id by chance

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
    """The ids and times of both recordings, collected while they are read."""

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
        """Return why the files *events* and *calls* cannot come from one run, or an empty list if they can."""
        found = []
        both = [of for of in self._created if self.events.ids[of]]
        if both and not any(self._shared(of) for of in both):
            found.append(f"has no {' and no '.join(sorted(both))} in common with {calls}")
        if self.events.first is not None and self.calls.first is not None:
            early = self.calls.first - self.events.last
            late = self.events.first - self.calls.last
            if max(early, late) > APART:
                order = "ends before" if early > 0 else "begins after"
                found.append(f"{order} {calls}, with {max(early, late) // 1_000_000_000} seconds in between")
        return [Problem(path=events, line=0, code="FSM206", what=what, hint=_HINT) for what in found]

    def _shared(self, of: str) -> bool:
        received, called = self.events.ids[of], self.calls.ids[of]
        short = tuple(each for each in called if _SHORTEST <= len(each) < FULL)
        return not received.isdisjoint(called) or any(identity.startswith(short) for identity in received)
