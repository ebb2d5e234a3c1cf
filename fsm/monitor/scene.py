"""The context of a violation: the belief before it, and the observations that led there."""

from dataclasses import dataclass

from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configurations, bits, numbers
from fsm.machine.calls.rules import ASKED, CUT
from fsm.machine.calls.unobserved import tried
from fsm.machine.findings import Cause
from fsm.machine.table import Table
from fsm.trace import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A belief, what was seen, and what last moved the entity before that or showed where it is.

    ``since`` are the states, as bits, in which an unrecorded call may have acted; ``again`` says that the last that was
    seen to end was of the same event.
    """

    dynamics: Dynamics
    before: Configurations
    seen: Key
    led: Key | None
    others: tuple[Table, ...]
    since: int = 0
    again: bool = False

    @property
    def row(self) -> int:
        """The row of the event that was seen; -1 for a sight or an output alone."""
        return self.dynamics.row(self.seen.event)

    def left(self, seen: Key) -> Configurations:
        """The configurations that remain if *seen* is observed instead."""
        return tried(lambda: self.dynamics.observed(self.before, seen, self.since).configurations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The illegal part of an observation: its respect, its words, and whether it is about the state that a call met."""

    cause: Cause
    illegal: str
    met: bool = False


def showing(scene: Scene, met: str) -> set[int]:
    """The states in which the event may have acted that show *met*, if it says something of states."""
    shows, met = scene.dynamics.table.shows, scene.dynamics.understood(met)
    return {state for state in acted(scene) if not met or shows[state] == met}


def acted(scene: Scene) -> set[int]:
    """The states in which the event that was seen may have acted."""
    now = {each.state for each in scene.before}
    match scene.seen.phase:
        case "answered":
            return {*numbers(scene.since or bits(scene.before))}
        case "reply":
            calls = (call for each in scene.before for call in each.pending)
            return {
                state
                for call in calls
                if call.row == scene.row and (call.stage >= 0 or call.stage in {ASKED, CUT})
                for state in numbers(call.met)
            } or now
        case _:
            return now
