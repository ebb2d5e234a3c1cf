"""Choose the steps for the sequence chart of a recording, and pair replies with requests.

The chart shows each step of the chosen entity once. A pair is certain if both of its steps are on one line, or if no
other call of that name was in progress on the entity. Otherwise, the reply is paired with the call that began first,
and neither step is marked as ``sure``.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, NamedTuple

from fsm.errors import InputError, refused, visible
from fsm.recordings import AsRecorded, RecordedStep, as_recorded
from fsm.recordings.form import RecordingForm
from fsm.trace import Line, Observation

# Number of characters in a full id, and in the shortened id that people use.
_FULL: Final = 64
_SHOWN: Final = 12

_COMPARED: Final = 20_000  # maximum number of ids to compare with a mistyped id
_LISTED: Final = 4  # maximum number of entities listed in a message


class RecordedEntity(NamedTuple):
    """An entity and its kind. The kind may be empty.

    >>> str(RecordedEntity("job", "d1d12d2e084c" + "0" * 52)), str(RecordedEntity("", "door"))
    ('job d1d12d2e084c', 'door')
    """

    of: str
    id: str

    def __str__(self) -> str:
        return f"{visible(self.of)} {shortened(self.id)}".strip()


def shortened(identity: str) -> str:
    return visible(identity[:_SHOWN] if len(identity) == _FULL else identity)


class KnownEntities:
    """The entities of a recording, with the numbers of their steps."""

    def __init__(self, recorded: AsRecorded) -> None:
        self.file, self.form = recorded.files[0], recorded.form
        self.counts = Counter[RecordedEntity]()
        self.steps = 0
        self.first = self.last = 0  # lines of the first and the last step in the first file
        creates, contains = self.form.creates, self.form.contains
        outer: dict[RecordedEntity, str] = {}
        for line, seen in recorded.steps:
            self.steps += 1
            if line.file == self.file:
                self.first = min(self.first or line.number, line.number)
                self.last = max(self.last, line.number)
            if seen.entity:
                self.counts[RecordedEntity(seen.of, seen.entity)] += 1
            if creates.get(seen.event) and seen.of in contains and seen.detail and seen.reply == "ok":
                outer[RecordedEntity(seen.of, seen.entity)] = seen.detail
        outer.update({RecordedEntity(inner, each): of for each, of in recorded.within.items() for inner in contains})
        self.full = dict(_full_entities(self.counts))  # maps entities with a shortened id to entities with the full id
        for short, whole in self.full.items():  # A full id is never a shortened id of another entity.
            self.counts[whole] += self.counts.pop(short)
        # Maps each entity to its container.
        self.outer = {each: self.entity(RecordedEntity(contains[each.of], of)) for each, of in outer.items()}

    def entity(self, written: RecordedEntity) -> RecordedEntity:
        return self.full.get(written, written)

    def whose(self, seen: Observation) -> RecordedEntity | None:
        """Return the entity of *seen*, or ``None`` if *seen* concerns all entities or an entity that has no id yet."""
        if not seen.entity:
            return None
        happened = seen.phase not in {"request", "reply", "lost", "answered"} and not seen.output
        outer = RecordedEntity(self.form.contains.get(seen.of, ""), seen.entity)
        if outer.of and happened and outer in self.counts:
            return outer  # A log does not always say whether it means the inner or the outer entity.
        return self.entity(RecordedEntity(seen.of, seen.entity))

    def meant(self, begin: str) -> RecordedEntity:
        """Return the entity whose id begins with *begin*. If several entities have this id, return the outer one.

        Raise :class:`InputError` unless exactly one id begins with *begin*.
        """
        found = sorted(count for count in self.counts if count.id.startswith(begin))
        found = [each for each in found if each.id == begin] or found
        if len({each.id for each in found}) == 1:
            return found[-1]
        if found:
            what = f"the recording has several entities whose id begins with '{begin}'"
            raise refused(self.file, "FSM204", what, f"give a longer part of one id: {self.listed(found)}")
        ids = list(dict.fromkeys(each.id[: len(begin)] for each in self.counts))[:_COMPARED]
        close = get_close_matches(begin, ids, n=_LISTED)
        near = [entity for start in close for entity in self.counts if entity.id.startswith(start)]
        has = f"the recording has {self.listed(self.counts) or 'no entities'}"
        hint = f"did you mean {self.listed(near)}?" if near else has
        raise refused(self.file, "FSM204", f"the recording contains no entity '{begin}'", hint)

    def listed(self, entities: Iterable[RecordedEntity]) -> str:
        those = sorted(dict.fromkeys(entities), key=lambda each: -self.counts[each])
        rest = f" and {len(those) - _LISTED:,} more" if len(those) > _LISTED else ""
        return f"{', '.join(map(str, those[:_LISTED]))}{rest}"


def _full_entities(entities: Iterable[RecordedEntity]) -> Iterator[tuple[RecordedEntity, RecordedEntity]]:
    kinds: dict[str, list[str]] = defaultdict(list)
    for entity in entities:
        kinds[entity.id].append(entity.of)
    full = sorted(identity for identity in kinds if len(identity) == _FULL)
    for identity, those in kinds.items():
        start = bisect_left(full, identity)
        longer = [each for each in full[start : start + _LISTED] if each.startswith(identity)]
        for of in those:
            others = [each for each in those if each]
            same = [each for each in longer if of in kinds[each]] or longer
            if not of and len(others) == 1:
                yield RecordedEntity(of, identity), RecordedEntity(others[0], identity)
            elif len(identity) < _FULL and len(same) == 1 and len(longer) < _LISTED:
                yield RecordedEntity(of, identity), RecordedEntity(of, same[0])


# Maximum number of steps in a chart, and maximum number of entities in a chart.
STEPS: Final = 400
LIFELINES: Final = 30


@dataclass(slots=True, kw_only=True, eq=False)
class ChartStep:
    """A step of the chart: an observation that is reported on one or two lines."""

    lines: tuple[Line, ...]
    seen: Observation
    entity: RecordedEntity | None
    order: int
    mate: "ChartStep | None" = None  # the reply if this step is a request, or the request if this step is a reply
    sure: bool = True
    inside: bool = True

    @property
    def everywhere(self) -> bool:
        call = self.seen.phase in {"request", "reply", "lost", "answered"} or self.seen.reply
        return self.entity is None and (self.seen.phase == "gap" or not call)

    @property
    def cuts(self) -> bool:
        """True if this step ends all calls in progress (a restart) or may hide their ends (missing observations)."""
        return self.everywhere and (self.seen.phase == "gap" or (self.seen.event == "restart" and not self.seen.phase))


@dataclass(slots=True, eq=False)
class CallPairs:
    """Pairs each reply with its request. Steps must be added in chronological order."""

    _begun: dict[tuple[str, int | str | None, RecordedEntity | None], list[ChartStep]] = field(default_factory=dict)

    def add(self, step: ChartStep, on: Iterable[RecordedEntity | None]) -> None:
        seen = step.seen
        if step.cuts:
            self._begun.clear()
        ways = [(seen.event, seen.process, each) for each in on]
        if seen.phase == "request":
            begun = self._begun.setdefault(ways[0], [])
            begun.append(step)
            for call in begun if begun[1:] else ():
                call.sure = False
        way = next((each for each in ways if each in self._begun), None)
        if seen.phase not in {"reply", "lost"} or way is None:
            return
        begun = self._begun[way]
        same = [each for each in begun if each.lines == step.lines]
        step.mate = mate = (same or begun)[0]
        begun.remove(mate)
        if not begun:
            del self._begun[way]
        step.sure = mate.sure or bool(same)
        mate.mate, mate.sure = step, step.sure


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSteps:
    """The steps of a chart in chronological order, and its entities."""

    files: tuple[str, ...]
    form: RecordingForm
    steps: tuple[ChartStep, ...]
    entities: tuple[RecordedEntity, ...]  # each outer entity precedes the entities inside it
    chosen: RecordedEntity | None = None  # the entity that the user chose


def chosen_steps(
    name: str, calls: str = "", *, entity: str = "", first: int | None = None, last: int | None = None
) -> ChosenSteps:
    """Return the steps on lines *first* to *last* of the file *name*, which is read twice.

    If *entity* is given (the beginning of an id suffices), choose only its own steps, the steps of the entities inside
    it, and the calls on its outer entity that affect it. *calls* may be another recording of the same run; its lines
    are chosen together with the nearest earlier line of *name*.

    Raise :class:`InputError` if there are more than :data:`STEPS` steps or :data:`LIFELINES` entities, or no steps.
    """
    known = KnownEntities(as_recorded(name, calls))
    if not known.steps:
        what = "the recording contains nothing that could be drawn"
        raise refused(name, "FSM204", what, "give a log, or another recording")
    one = known.meant(entity) if entity else None
    recorded = as_recorded(name, calls)
    choice = _Choice(known, one, first, last)
    choice.take(recorded.steps)
    entities = {each.entity: None for each in choice.kept if each.entity is not None}
    if choice.count > STEPS or len(entities) > LIFELINES:
        raise _too_many_steps(choice, len(entities))
    if not choice.kept:
        where = f"on lines {first or 1} to {last}" if last else f"from line {first or 1} on"
        hint = f"the recording has steps on lines {known.first} to {known.last}"
        raise refused(name, "FSM204", f"the recording has no steps {where}", hint)
    return ChosenSteps(
        files=recorded.files,
        form=recorded.form,
        steps=tuple(_without_repeated_statuses(sorted(choice.kept, key=lambda each: each.order), recorded.form.status)),
        entities=tuple(_sort_by_nesting(entities, known.outer)),
        chosen=one,
    )


def _too_many_steps(choice: "_Choice", entities: int) -> InputError:
    known = choice.known
    of = f" of {entities} entities" if choice.count <= STEPS else ""
    most = f"{STEPS} steps of {LIFELINES} entities"
    what = f"the recording has {choice.count:,} steps{of}, but a chart can have at most {most}"
    lines = f"lines with --from and --to, which are {known.first} to {known.last}"
    one = f"choose an entity with --entity, such as {known.listed(known.counts)}; or "
    return refused(known.file, "FSM216", what, f"choose {lines}" if choice.one else one + lines)


def _sort_by_nesting(
    entities: Iterable[RecordedEntity], outer: Mapping[RecordedEntity, RecordedEntity]
) -> list[RecordedEntity]:
    those = list(entities)
    inside: dict[RecordedEntity | None, list[RecordedEntity]] = defaultdict(list)
    for each in those:
        around = outer.get(each)
        inside[around if around in those else None].append(each)
    return [each for first in inside[None] for each in (first, *inside[first])]


def _without_repeated_statuses(steps: list[ChartStep], status: str) -> list[ChartStep]:
    found: list[ChartStep] = []
    for step in steps:
        last = found[-1] if found else None
        timed = step.seen.event == status and step.seen.at is not None
        if last is not None and timed and _is_repeated_status(last, step):
            last.lines += step.lines
            last.seen = step.seen
            if step.mate is not None:  # `step` is dropped, so its mate no longer has a mate.
                step.mate.mate = None
        else:
            found.append(step)
    return found


def _is_repeated_status(one: ChartStep, other: ChartStep) -> bool:
    ours, theirs = one.seen, other.seen
    same = (ours.event, ours.phase, ours.at, ours.reply) == (theirs.event, theirs.phase, theirs.at, theirs.reply)
    return same and one.entity == other.entity and not ours.met and one.lines != other.lines


class _Choice:
    """Keeps all steps, or if *one* is an entity, its steps and the steps between them that concern all entities."""

    def __init__(self, known: KnownEntities, one: RecordedEntity | None, first: int | None, last: int | None) -> None:
        self.known, self.one, self.first, self.last = known, one, first, last
        self.kept: list[ChartStep] = []
        self.count = self._skipped = 0  # numbers of kept steps, and of later steps that concern all entities
        self._pending: list[ChartStep] = []
        self._calls = CallPairs()
        self._inside = False
        # A log may record an outer entity as an inner entity with the same id.
        alike = {other for other in known.counts if one is not None and other.id == one.id}
        self._those = alike | {each for each, outer in known.outer.items() if outer == one}
        self._outer = known.outer.get(one) if one is not None else None

    def take(self, steps: Iterable[RecordedStep]) -> None:
        form = self.known.form
        for order, (line, seen) in enumerate(steps):
            entity = self.known.whose(seen)
            step = ChartStep(lines=(line,), seen=seen, entity=entity, order=order, inside=self._is_chosen(line))
            self._calls.add(step, self._possible_entities(step))
            if step.mate is not None and step.sure and entity is not None and seen.event in form.creates:
                step.mate.entity = entity  # The pair is certain: its reply names the entity that the request creates.
            if not step.inside:
                continue
            if self.one is None:
                self._keep(step)
            elif step.everywhere:
                self._skipped += 1
                self._pending.append(step) if len(self._pending) <= STEPS else None
            elif entity in self._those or (entity is not None and entity == self._outer and seen.event in form.reaches):
                if self.kept:  # Also keep the pending steps, which concern all entities.
                    self.count += self._skipped
                    self.kept += self._pending
                self._skipped = 0
                self._pending = []
                self._keep(step)
                begun = step.mate
                new = begun is not None and begun.inside and begun.entity == entity and seen.event in form.creates
                if begun is not None and new and begun not in self.kept:
                    self._keep(begun)  # The request was not kept before, because its entity had no id yet.

    def _keep(self, step: ChartStep) -> None:
        self.count += 1
        if len(self.kept) <= STEPS:
            self.kept.append(step)

    def _is_chosen(self, line: Line) -> bool:
        if line.file == self.known.file or self.first is self.last is None:
            self._inside = (self.first or 0) <= line.number and (self.last is None or line.number <= self.last)
        return self._inside

    def _possible_entities(self, step: ChartStep) -> list[RecordedEntity | None]:
        seen = step.seen
        outer = self.known.form.creates.get(seen.event)
        if outer and seen.of in self.known.form.contains:
            return [self.known.entity(RecordedEntity(outer, seen.detail)) if seen.detail else step.entity]
        return [step.entity, None] if step.entity and outer == "" else [step.entity]
