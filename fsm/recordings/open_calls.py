"""Calls that are in progress when a recording begins.

Their requests are missing, and some of their replies too.  Until they must have ended, any of them may act on an
entity that existed then, so such an entity is assumed to have calls in progress whose replies are lost.  Where its
recorded calls overlap as well, each reply is judged by itself: trying all orders would take long and hardly find
more.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec

from fsm.trace import Observation, Phase

MOVING: Final = {"container": ("StartContainer", "RemoveContainer"), "pod": ("RemovePodSandbox",)}
"""By kind of entity, the calls that move an existing one in a way that an unseen exit does not."""

_PHASES: Final[tuple[Phase, ...]] = ("request", "lost")


@dataclass(slots=True)
class _Calls:
    """The recorded calls in progress on one entity; ``mixed`` once one of them overlapped another."""

    names: list[str] = field(default_factory=list)
    mixed: bool = False


@dataclass(slots=True, kw_only=True)
class Beginning:
    """Reduces the observations of an entity to what is certain while unrecorded calls may be in progress."""

    _calls: dict[tuple[str, str], _Calls] = field(default_factory=dict)

    def doubted(self, seen: Observation) -> list[Observation]:
        """*seen*, and the unrecorded calls that may be in progress."""
        key = (seen.of, seen.entity)
        before = [] if key in self._calls else _underway(seen)
        calls = self._calls.setdefault(key, _Calls())
        if seen.phase == "request":
            calls.names.append(seen.event)
            if len(calls.names) == 1:
                return [*before, seen]
            calls.mixed = True
            return [_forgotten(seen), *_underway(seen)]
        if seen.phase not in {"reply", "lost"}:
            return [*before, seen]
        alone = not calls.mixed and calls.names == [seen.event]
        if seen.event in calls.names:
            calls.names.remove(seen.event)
        calls.mixed = bool(calls.names)
        if alone:
            return [*before, seen]
        judged = [msgspec.structs.replace(seen, phase="answered")] if seen.reply else []
        return [_forgotten(seen), *judged, *_underway(seen)]

    def quiet(self) -> bool:
        """Whether no recorded call is in progress on any of these entities."""
        return not any(calls.names for calls in self._calls.values())

    def over(self) -> list[Observation]:
        """The last of the unrecorded calls has ended, with unknown effects; recorded ones go on."""
        found = [Observation(entity=entity, of=of, phase="gap") for of, entity in self._calls]
        for (of, entity), calls in self._calls.items():
            found += [Observation(entity=entity, of=of, event=call, phase="request") for call in calls.names]
        self._calls.clear()
        return found


def _forgotten(seen: Observation) -> Observation:
    return Observation(entity=seen.entity, of=seen.of, phase="gap", at=seen.at)


def _underway(seen: Observation) -> list[Observation]:
    """The calls that may be in progress on the entity of *seen*, as calls whose replies are lost."""
    return [
        Observation(entity=seen.entity, of=seen.of, event=call, phase=phase, at=seen.at)
        for call in MOVING[seen.of]
        for phase in _PHASES
    ]
