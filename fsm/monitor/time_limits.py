"""What an entity has left in time: outcomes that have ``within`` lead to a state that it leaves for good."""

from dataclasses import dataclass

from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configurations
from fsm.monitor.beliefs import Belief
from fsm.trace import Observation, nanoseconds


@dataclass(slots=True)
class Deadline:
    """The time since which an entity is in such a state if at all; the way by which it came to the last one that it left."""

    since: int | None = None
    overdue: int = -1

    def in_time(self, before: Belief, dynamics: Dynamics, seen: Observation) -> Configurations:
        """*before* without what has been left when *seen* is seen; all of it if nothing else is possible."""
        now = nanoseconds(seen.at) if self.since is not None else None
        if self.since is None or now is None:
            return before.configurations
        elapsed, ways = (now - self.since) / 1e9, dynamics.table.ways
        left = {each for each in before.configurations if each.due >= 0 and elapsed > ways[each.due].within}
        if left == before.configurations:
            return before.configurations
        self.overdue = max((each.due for each in left), default=self.overdue)
        return before.configurations - left

    def runs(self, after: Belief, dynamics: Dynamics, seen: Observation) -> None:
        """Begin with *seen*, or go on, if of what is possible *after* it nothing comes to such a state only now."""
        possible = after.configurations if after.timed else ()
        due = {each.due for each in possible} - {-1}
        fresh = any(each.due < 0 and each.state in dynamics.limits[way] for each in possible for way in due)
        if fresh or not due:
            self.since = None
        elif self.since is None:
            self.since = nanoseconds(seen.at)
