"""Handle calls that were already in progress when a recording began.

The requests of such calls were not recorded, and some replies may be missing too. For a while, these calls may act on
any entity that is older than the recording, so each of these entities is assumed to have calls in progress whose
replies are lost. If recorded calls on such an entity overlap as well, each reply is judged separately, because trying
every order would be slow and would find hardly any further violations.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from fsm.trace import Observation, Phase

MOVING: Final = {"container": ("StartContainer", "RemoveContainer"), "pod": ("RemovePodSandbox",)}
"""Maps each kind of entity to the calls that can change its state.

Stops are left out, because a stop has the same effect as an exit, and exits may not be recorded anyway.
"""

_PHASES: Final[tuple[Phase, ...]] = ("request", "lost")


class OpenCalls(NamedTuple):
    """The recorded calls in progress on an entity. ``mixed`` is true once any of them have overlapped."""

    names: tuple[str, ...] = ()
    mixed: bool = False


@dataclass(slots=True, kw_only=True)
class Beginning:
    """Weakens observations that are uncertain because unrecorded calls may be in progress.

    ``calls`` maps the kind and the id of each entity that may be older than the recording to the recorded calls in
    progress on the entity.
    """

    calls: dict[tuple[str, str], OpenCalls] = field(default_factory=dict)

    def certain_part(self, seen: Observation) -> list[Observation]:
        key = (seen.of, seen.entity)
        found, self.calls[key] = certain_part(seen, self.calls.get(key))
        return found

    def quiet(self) -> bool:
        return not any(calls.names for calls in self.calls.values())

    def over(self) -> list[Observation]:
        """Assume that all unrecorded calls have ended, and return the observations that follow.

        The effects of these calls are unknown, so there is a gap for each entity, followed by the requests of the
        recorded calls that are still in progress.
        """
        found = [Observation(entity=entity, of=of, phase="gap") for of, entity in self.calls]
        for (of, entity), calls in self.calls.items():
            found += [Observation(entity=entity, of=of, event=call, phase="request") for call in calls.names]
        self.calls.clear()
        return found


def certain_part(seen: Observation, calls: OpenCalls | None) -> tuple[list[Observation], OpenCalls]:
    """Return those observations that are certain because of *seen*, and the calls in progress after *seen*.

    *calls* are the calls in progress before *seen*, or ``None`` if *seen* is the first observation of the entity.
    """
    before = _possible_calls(seen) if calls is None else []
    calls = calls or OpenCalls()
    if seen.phase == "request":
        after = OpenCalls((*calls.names, seen.event), mixed=bool(calls.names))
        return [_gap_observation(seen), *_possible_calls(seen)] if calls.names else [*before, seen], after
    if seen.phase not in {"reply", "lost"}:
        return [*before, seen], calls
    left = list(calls.names)
    if seen.event in left:
        left.remove(seen.event)
    after = OpenCalls(tuple(left), mixed=bool(left))
    if calls == OpenCalls((seen.event,)):
        return [*before, seen], after
    judged = [msgspec.structs.replace(seen, phase="answered")] if seen.reply else []
    return [_gap_observation(seen), *judged, *_possible_calls(seen)], after


def _gap_observation(seen: Observation) -> Observation:
    return Observation(entity=seen.entity, of=seen.of, phase="gap", at=seen.at)


def _possible_calls(seen: Observation) -> list[Observation]:
    return [
        Observation(entity=seen.entity, of=seen.of, event=call, phase=phase, at=seen.at)
        for call in MOVING[seen.of]
        for phase in _PHASES
    ]
