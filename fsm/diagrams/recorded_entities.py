"""A recording's entities by their full ids, and how to find one by an id prefix."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, NamedTuple

from fsm.errors import InputError, refused, visible
from fsm.recordings.as_recorded import AsRecorded
from fsm.recordings.form import RecordingForm
from fsm.trace import Observation

# Number of characters of a full id, and of the part of it that people use.
_FULL: Final = 64
_SHOWN: Final = 12

_COMPARED: Final = 20_000  # maximum number of ids that are compared with a mistyped one
_LISTED: Final = 4  # maximum number of entities that a message lists


class RecordedEntity(NamedTuple):
    """An entity and its kind, which may be empty.

    >>> str(RecordedEntity("job", "d1d12d2e084c" + "0" * 52)), str(RecordedEntity("", "door"))
    ('job d1d12d2e084c', 'door')
    """

    of: str
    id: str

    def __str__(self) -> str:
        return f"{visible(self.of)} {shortened(self.id)}".strip()


def shortened(identity: str) -> str:
    """Cut a full id to the characters that people use, and escape terminal control characters."""
    return visible(identity[:_SHOWN] if len(identity) == _FULL else identity)


@dataclass(slots=True)
class KnownEntities:
    """All entities of a recording."""

    file: str  # the first file
    form: RecordingForm
    counts: Counter[RecordedEntity] = field(default_factory=Counter)  # number of steps of each entity
    outer: dict[RecordedEntity, RecordedEntity] = field(default_factory=dict)  # the entity that contains each one
    steps: int = 0
    first: int = 0  # first and last line of the first file that has a step
    last: int = 0
    _full: dict[RecordedEntity, RecordedEntity] = field(default_factory=dict)

    def entity(self, written: RecordedEntity) -> RecordedEntity:
        """Return the entity that *written* stands for.  Its id may be a prefix."""
        return self._full.get(written, written)

    def whose(self, seen: Observation) -> RecordedEntity | None:
        """Return the entity of *seen*, or ``None`` if it concerns all entities or one that has no id yet."""
        if not seen.entity:
            return None
        happened = seen.phase not in {"request", "reply", "lost", "answered"} and not seen.output
        outer = RecordedEntity(self.form.contains.get(seen.of, ""), seen.entity)
        if outer.of and happened and outer in self.counts:
            return outer  # a log does not always say whether the inner or the outer entity is meant
        return self.entity(RecordedEntity(seen.of, seen.entity))

    def within(self, outer: RecordedEntity) -> list[RecordedEntity]:
        """Return the entities that *outer* contains."""
        return [each for each, of in self.outer.items() if of == outer]

    def meant(self, begin: str) -> RecordedEntity:
        """Return the entity whose id begins with *begin*, or the outer one if an entity has the id of what contains it.

        Raise :class:`InputError` if there is no such entity, or if there are several.
        """
        found = sorted(count for count in self.counts if count.id.startswith(begin))
        found = [each for each in found if each.id == begin] or found
        if len({each.id for each in found}) == 1:
            return found[-1]
        if found:
            hint = f"give more of the id: {self.listed(found)}"
            raise self._refused(f"has several entities whose id begins with '{begin}'", hint)
        ids = list(dict.fromkeys(each.id[: len(begin)] for each in self.counts))[:_COMPARED]
        close = get_close_matches(begin, ids, n=_LISTED)
        near = [entity for start in close for entity in self.counts if entity.id.startswith(start)]
        hint = f"did you mean {self.listed(near)}?" if near else f"it has {self.listed(self.counts) or 'none'}"
        raise self._refused(f"contains no entity '{begin}'", hint)

    def listed(self, entities: Iterable[RecordedEntity]) -> str:
        """Format the first few of *entities*, most steps first."""
        those = sorted(dict.fromkeys(entities), key=lambda each: -self.counts[each])
        rest = f" and {len(those) - _LISTED:,} more" if len(those) > _LISTED else ""
        return f"{', '.join(map(str, those[:_LISTED]))}{rest}"

    def _refused(self, what: str, hint: str) -> InputError:
        return refused(self.file, "FSM204", what, hint)


def known_entities(recorded: AsRecorded) -> KnownEntities:
    """Read *recorded* to its end and return its entities."""
    known = KnownEntities(file=recorded.files[0], form=recorded.form)
    creates, contains = recorded.form.creates, recorded.form.contains
    outer: dict[RecordedEntity, str] = {}
    for line, seen in recorded.steps:
        known.steps += 1
        if line.file == known.file:
            known.first = min(known.first or line.number, line.number)
            known.last = max(known.last, line.number)
        if seen.entity:
            known.counts[RecordedEntity(seen.of, seen.entity)] += 1
        if creates.get(seen.event) and seen.of in contains and seen.detail and seen.reply == "ok":
            outer[RecordedEntity(seen.of, seen.entity)] = seen.detail
    outer.update({RecordedEntity(inner, each): of for each, of in recorded.within.items() for inner in contains})
    full = dict(_full_entities(known.counts))
    known._full.update(full)  # noqa: SLF001  (the object is created here)
    for short, whole in full.items():  # a full id never stands for another one
        known.counts[whole] += known.counts.pop(short)
    known.outer = {each: known.entity(RecordedEntity(contains[each.of], of)) for each, of in outer.items()}
    return known


def _full_entities(entities: Iterable[RecordedEntity]) -> Iterator[tuple[RecordedEntity, RecordedEntity]]:
    """Yield each entity written with a short id or without its kind, and the only one that it can stand for."""
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
