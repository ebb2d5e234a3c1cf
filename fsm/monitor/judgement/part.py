"""Select the part of a recording to judge, and collect the stories of entities.

The part is a period, an entity, or both. The recording is still read from its beginning, so that the states at the
start of the period are known, but violations and tolerated deviations outside the part are ignored. A report shows
either the stories with violations first, or the stories up to a line.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from math import inf
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from fsm.errors import refused
from fsm.machine import Machine
from fsm.machine.findings import Violation
from fsm.monitor import REMEMBERED, Monitor
from fsm.monitor.stepping import BeliefMove
from fsm.recordings.form import HISTORY
from fsm.trace import Batch, Line, Observation, batch, seen_at

if TYPE_CHECKING:
    from fsm.monitor.judgement import Judged

MOST: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The observations of ``entity`` from ``since`` to ``until``, both in nanoseconds since the epoch.

    ``entity`` is a name or the beginning of an id. If it is empty, the part includes all entities.
    """

    since: int | None = None
    until: int | None = None
    entity: str = ""

    @property
    def timed(self) -> bool:
        return self.since is not None or self.until is not None

    def __bool__(self) -> bool:
        return self != WHOLE


WHOLE: Final = Part()

_LISTED: Final = 4


class Step(NamedTuple):
    """An observation of an entity, with the states that are possible ``before`` and ``after`` it.

    ``tolerated`` names the deviations without which the observation would be illegal. ``followed`` contains the
    monitor's steps, starting with the steps for assumed events.
    """

    seen: Observation
    place: Line
    before: tuple[str, ...]
    after: tuple[str, ...]
    violations: tuple[Violation, ...]
    tolerated: tuple[str, ...]
    followed: Sequence[BeliefMove]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All observations of one entity in order, as ``machine`` explains them.

    ``names`` are the entity's readable names. If ``until`` is a line, the story was cut off after that line.
    """

    machine: Machine
    entity: str
    names: tuple[str, ...]
    steps: Sequence[Step]
    until: Line | None = None


@dataclass(slots=True, kw_only=True)
class Chosen:
    """Selects the observations in ``part``, and counts in ``notes`` the observations outside the period of ``part``.

    ``names`` maps each entity to its names. If ``telling`` is set, ``telling(entity)`` returns whether to collect
    the :class:`Story` of the entity. All entities are judged in any case.
    """

    part: Part
    notes: Counter[str]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    telling: Callable[[str], bool] | None = None
    inside: int = 0
    ids: dict[str, None] = field(default_factory=dict)
    first: float = inf
    last: float = -inf
    """The first and last times in the whole recording, which are known only if a period was requested."""

    def read(self, whole: Batch) -> Batch:
        if not self.part.timed:
            return whole
        kept = []
        until = inf if self.part.until is None else self.part.until
        for line, seen in zip(whole.lines, whole.observations, strict=True):
            if (at := seen_at(seen)) is not None:
                self.first, self.last = min(self.first, at), max(self.last, at)
                if at > until:
                    self.notes["observations after the time asked for"] += 1
                    continue
            kept.append((line, seen))
            if self._is_early(at):
                self.notes["observations before the time asked for"] += 1
            else:
                self.inside += 1
        return batch(kept)

    def times(self) -> str:
        with suppress(OverflowError, ValueError, OSError):  # There are no times, or the year is out of range.
            first, last = (datetime.fromtimestamp(at // 10**9, UTC) for at in (self.first, self.last))
            return f": the first observation is of {first:%Y-%m-%dT%H:%M:%SZ}, the last of {last:%Y-%m-%dT%H:%M:%SZ}"
        return ""

    def wanted(self, seen: Observation) -> bool:
        return (not self.part.entity or self.fits(seen.entity)) and not self._is_early(seen_at(seen))

    def _is_early(self, at: int | None) -> bool:
        """Check whether the time *at* is before the period.

        The start of the period is rounded down to microseconds, because that is the precision of times on lines.
        """
        since = self.part.since
        return since is not None and at is not None and at < since // 1_000 * 1_000

    def tells(self, entity: str) -> bool:
        return self.telling(entity) if self.telling is not None else self.fits(entity)

    def fits(self, entity: str) -> bool:
        asked = self.part.entity
        return bool(entity) and (entity.startswith(asked) or asked in self.names.get(entity, ()))


class Teller:
    def __init__(self, monitor: Monitor, chosen: Chosen, file: str) -> None:
        self.machine = monitor.machine
        self.stories: dict[str, list[Step]] = {}
        self._monitor, self._chosen, self._file = monitor, chosen, file
        self._found: list[Violation] = []

    def found(self, violation: Violation) -> None:
        if violation.machine == self.machine.name:
            self._found.append(violation)

    def told(self) -> Iterator[Story]:
        for entity, steps in self.stories.items():
            longer = any(other != entity and other.startswith(entity) for other in self.stories)
            if self._chosen.telling is not None or not longer:
                names = self._chosen.names.get(entity, ())
                yield Story(machine=self.machine, entity=entity, names=names, steps=steps)

    def feed(self, observations: Sequence[Observation], lines: Sequence[int | Line]) -> None:
        start = 0
        for index, seen in enumerate(observations):
            if told := self._chosen_entities(seen):
                self._monitor.feed(observations[start:index], lines[start:index])
                self._add_steps(seen, lines[index], told)
                start = index + 1
        self._monitor.feed(observations[start:], lines[start:])

    def _chosen_entities(self, seen: Observation) -> tuple[str, ...]:
        if not seen.entity:
            event = self.machine.events.get(seen.event)
            return tuple(self.stories) if seen.phase == "gap" or (event and event.kind != "call") else ()
        if len(self._chosen.ids) < REMEMBERED:
            self._chosen.ids[seen.entity] = None
        known = seen.entity in self.stories or len(self.stories) < MOST
        return (seen.entity,) if known and self._chosen.tells(seen.entity) else ()

    def _add_steps(self, seen: Observation, line: int | Line, told: tuple[str, ...]) -> None:
        before = {entity: self._states(entity) for entity in told}
        counted = self._tolerated_counts()
        followed = self._monitor.follow(seen, line)
        tolerated = [name for name, count in self._tolerated_counts().items() if count > counted.get(name, 0)]
        place = Line.of(line, self._file)
        for entity in told:
            mine = tuple(each for each in self._found if each.observation.entity == entity)
            after, steps = self._states(entity), followed.get(entity, ())
            step = Step(seen, place, before[entity], after, mine, tuple(tolerated), steps)
            self.stories.setdefault(entity, []).append(step)
        self._found.clear()

    def _tolerated_counts(self) -> dict[str, int]:
        return {each.first.deviation.name: each.count for each in self._monitor.folder.tolerated()}

    def _states(self, entity: str) -> tuple[str, ...]:
        possible = self._monitor.states(entity)
        return tuple(state for state in self.machine.states if state in possible)


def check_one(stories: Sequence[Story], chosen: Chosen, name: str) -> None:
    found, asked = {story.entity: story for story in stories}, chosen.part.entity
    if len(found) == 1:
        return
    if not found:
        hint = "give the beginning of an id or, if the recording shows it, a name such as NAME or GROUP/NAME"
        names = {known: known for each in chosen.names.values() for known in each}
        alike = {each[: len(asked)]: each[:12] for each in chosen.ids} | names
        if close := difflib.get_close_matches(asked, alike, n=1):
            hint = f"did you mean '{alike[close[0]]}'? Or {hint}"
        raise refused(name, "FSM204", f"the recording mentions no entity '{asked}'", hint)
    listed = (f"{each.machine.entity} {each.entity}" for each in islice(found.values(), _LISTED))
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    hint = f"give a longer part of one id: {', '.join(listed)}{more}"
    what = f"the recording mentions several entities whose id begins with '{asked}' or that have this name"
    raise refused(name, "FSM204", what, hint)


TOLD: Final = 40

Telling = Callable[[str], bool]


def with_stories(judged: Judged, again: Callable[[Telling], Judged]) -> Judged:
    """Add the stories of at most :data:`TOLD` entities to *judged*, preferring entities with violations.

    ``again(telling)`` judges the recording again and collects the story of each entity for which ``telling(entity)``
    is true.
    """
    if judged.stories or judged.form is HISTORY or not judged.form.name:
        return judged
    found = [each.observation.entity for one in judged.judgements for finding in one.findings for each in finding.first]
    broken = [*dict.fromkeys(filter(None, found))][:TOLD]
    chosen = {*broken}

    def telling(entity: str) -> bool:
        if len(chosen) < TOLD:
            chosen.add(entity)
        return entity in chosen

    stories = again(telling).stories
    rank = {entity: number for number, entity in enumerate(broken)}
    return replace(judged, stories=tuple(sorted(stories, key=lambda story: rank.get(story.entity, len(rank)))))


def shorten_to(found: Sequence[Judged], place: Line) -> list[Judged]:
    """Return *found* with only the stories that have an observation at *place*, each cut off after it.

    If *place* has no file, its line may be in any file. If there are stories, raise :class:`InputError` unless exactly
    one file has such a line.
    """
    cut = [replace(each, stories=tuple(_shorten_stories(each.stories, place))) for each in found]
    files = dict.fromkeys(story.until.file for each in cut for story in each.stories if story.until)
    if len(files) > 1:
        what = f"both files have an observation of the entity on line {place.number}"
        hint = f"write FILE:LINE, such as {next(iter(files))}:{place.number}"
        raise refused(" and ".join(files), "FSM204", what, hint)
    places = [step.place for each in found for story in each.stories for step in story.steps]
    if places and not files:
        here = {each.number for each in places if _is_in(each, place)}
        near = sorted(sorted(here, key=lambda number: abs(number - place.number))[:4])
        nearest = f"the nearest lines are {', '.join(map(str, near))}"
        hint = nearest if near else "no line of this file has an observation of the entity"
        what = f"line {place.number} has no observation of that entity"
        raise refused(place.file or found[0].name, "FSM204", what, hint)
    return cut


def _shorten_stories(stories: Sequence[Story], place: Line) -> Iterator[Story]:
    for story in stories:
        # An assumed event that concerns all entities is part of the next step.
        steps = [step for step in story.steps if step.followed or step.seen.phase != "assumed"]
        last = {step.place: at for at, step in enumerate(steps, 1)}
        for line, end in last.items():
            if line.number == place.number and _is_in(line, place):
                yield replace(story, steps=steps[:end], until=line)


def _is_in(line: Line, place: Line) -> bool:
    return place.file in {"", line.file, PurePath(line.file).name}
