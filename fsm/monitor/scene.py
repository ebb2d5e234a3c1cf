"""The context of a violation: the belief before it and the observations that led to this belief."""

from dataclasses import dataclass

from fsm.machine.calls import ASKED, CUT
from fsm.machine.calls.belief import Dynamics
from fsm.machine.calls.configuration import Configurations, bits, numbers
from fsm.machine.calls.unobserved import tried
from fsm.machine.findings import Cause
from fsm.machine.table import Table
from fsm.trace import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An illegal observation ``seen``, and the belief ``before`` it.

    ``led`` is the last earlier observation that may have moved the entity or that showed its state. ``others`` are
    the tables of the other profiles. ``since`` is a bit set of the states in which an unrecorded call may have acted.
    ``again`` is true if the last event whose end was observed was the same event.
    """

    dynamics: Dynamics
    before: Configurations
    seen: Key
    led: Key | None
    others: tuple[Table, ...]
    since: int = 0
    again: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Everything that distinguishes this scene from others of the same machine. It can be a key of a cache."""
        led = (self.led.event, self.led.shows, self.led.met) if self.led else None
        return self.before, self.since, self.seen, led, self.again

    @property
    def row(self) -> int:
        """The row of the event, or -1 if only a state or an output was observed."""
        return self.dynamics.row(self.seen.event)

    def left(self, seen: Key) -> Configurations:
        return tried(lambda: self.dynamics.observed(self.before, seen, self.since).configurations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    cause: Cause
    illegal: str
    met: bool = False


def showing(scene: Scene, met: str) -> set[int]:
    shows, met = scene.dynamics.table.shows, scene.dynamics.understood(met)
    return {state for state in acted(scene) if not met or shows[state] == met}


def acted(scene: Scene) -> set[int]:
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
