"""Number the templates of log lines, and find out how the lines of each template are to be read.

Lines that differ only in their variable parts, such as ids and times, have the same template.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from fsm.runtimes.recordings import log_scanner
from fsm.runtimes.recordings.containerd_log import RELEVANT, Log
from fsm.runtimes.recordings.containerd_texts import entry
from fsm.runtimes.recordings.log_scanner import IDS, LONGEST, MOMENTS, SPANS, scan
from fsm.runtimes.recordings.pod_calls import Joiner
from fsm.trace import Batch, Columns, Key, Line, Made, Observation, key


class Scanned(NamedTuple):
    """The result of scanning lines. Each row of the arrays belongs to one line.

    Attributes:
        data: The text of all lines.
        begins: The position of each line in the text. The last element is the end of the text.
        templates: The number of each line's template.
        ids: The numbers of the ids in each line, padded with 0.
        times: The first timestamps in each line. Each has the time in nanoseconds, its start and its end in the text.
        places: The position of each id in the text, in the order of the ids' numbers, which begin with 1.
        spans: The kind, start and end of each variable part of the last line.
        known: The number of templates so far.
        anew: The number of times that the templates have been renumbered.
    """

    data: bytes
    begins: NDArray[np.int64]
    templates: NDArray[np.int32]
    ids: NDArray[np.int32]
    times: NDArray[np.int64]
    places: list[int]
    spans: NDArray[np.int64]
    known: int
    anew: int

    def line(self, row: int) -> bytes:
        return self.data[self.begins[row] : self.begins[row + 1] - 1]


class Templates:
    """The templates of all lines so far. At most *most* templates are kept, which must be a power of two.

    Before there are more templates, all templates are forgotten, and numbering begins again.
    """

    def __init__(self, most: int) -> None:
        self.most, self._words = most, 64 * most
        self._anew = -1
        self._begin()

    def _begin(self) -> None:
        self._table = np.zeros(4 * self.most, np.uint64)
        self._pool = np.zeros(self._words + LONGEST, np.uint64)
        self._line = np.zeros(LONGEST // 8 + 8, np.uint64)
        self._pool[0] = 2  # the pool begins with the number of words in use and the number of templates
        self._anew += 1

    @property
    def count(self) -> int:
        return int(self._pool[1])

    @property
    def full(self) -> bool:
        """True if more than half of the space for templates is in use."""
        return 2 * self.count > self.most or 2 * int(self._pool[0]) > self._words

    def scan(self, data: bytes, count: int) -> Scanned:
        """Scan *data*, which must consist of *count* lines."""
        if self.full:
            self._begin()
        found = np.zeros((count, 1 + IDS), np.int32)
        times = np.zeros((count, MOMENTS, 3), np.int64)
        places = np.zeros(IDS * count + 1, np.int64)
        places[0] = 1
        known = np.empty((len(places), 4), np.uint64)
        table = np.zeros(2 << len(places).bit_length(), np.int64)
        spans = np.zeros((SPANS, 4), np.int64)
        begins = np.zeros(count + 1, np.int64)
        lines = np.frombuffer(data, np.uint8)
        room = (self._line, self._line.view(np.uint8), np.zeros(4, np.uint64))
        scan(lines, self._table, self._pool, table, known, places, begins, found, times, spans, *room)
        ids = places[1 : int(places[0])].tolist()
        return Scanned(data, begins, found[:, 0], found[:, 1:], times, ids, spans, self.count, self._anew)


NOTHING, BESIDE, QUIET, SAYS, SLOW = range(5)
"""The possible effects of a line.

``NOTHING``: the line is not a lifecycle event.
``BESIDE``: the line is not a lifecycle event, but it has a time.
``QUIET``: the line is a lifecycle event, but only its time matters.
``SAYS``: the line is one observation.
``SLOW``: the log itself must read the line.
"""

AT: Final = "time of the line"
ERROR: Final = "error of the line"
"""Placeholders in an observation that represents many lines. Each line has its own time and its own error."""

EITHER: Final = "pod or container"


class Span(NamedTuple):
    """A variable part of a line: its kind, start and end."""

    kind: int
    start: int
    end: int


class LineForm(NamedTuple):
    """The effect that all lines of a template have.

    Attributes:
        does: The effect, such as ``SAYS``.
        moment: The index of the line's own time among the timestamps in the line.
        entity: The index of the observed entity's id among the ids in the line.
        pod: The index of the id of the pod in which the entity was created, or -1 if the line has no such id.
        named: True if the line contains the name of the entity.
        always: False if the observation depends on whether the request of the call was logged.
        seen: The observation, or ``None`` if the lines contain no observation of an entity whose id is in the line.
    """

    does: int
    moment: int = 0
    entity: int = 0
    pod: int = -1
    named: bool = False
    always: bool = True
    seen: Observation | None = None


_REPLACEMENTS: Final = {
    log_scanner.TIME: (b"2031-05-06T07:08:SS.123451Z", b"2032-01-02T03:04:SS.52+02:00"),
    log_scanner.NUMBER: (b"7", b"90210"),
    log_scanner.ZEROS: (b"007", b"03"),
    log_scanner.NAME: (b"q", b"a-7.failed"),
    log_scanner.MIXED: (b"x7q", b"9f0b"),
}
"""Maps each kind of variable part, except ids, to two example values."""


class _Either(Joiner):
    def kind(self, identity: str) -> str:
        del identity
        return EITHER


class _Asked(Counter[tuple[str, str]]):
    def __missing__(self, key: tuple[str, str]) -> int:
        del key
        return 1


def spans(line: bytes) -> list[Span]:
    """Return the variable parts of *line*, or an empty list if the line has no template."""
    scanned = Templates(1).scan(line, 1)
    cut = scanned.spans[: int(np.count_nonzero(scanned.spans[:, 0])) if scanned.templates[0] >= 0 else 0]
    return [Span(*row[:3]) for row in cut.tolist()]


def form(line: bytes) -> LineForm:
    """Return the form of the template of *line*. It is ``SLOW`` if lines of the template have different effects."""
    cut = spans(line)
    tried = [_form_of(changed, found) for changed, found in _variants(line, cut)]
    return tried[0] if all(each == tried[0] for each in tried) else LineForm(SLOW)


def _variants(line: bytes, cut: Sequence[Span]) -> Iterator[tuple[bytes, list[Span]]]:
    """Yield *line* and versions of it with other values of the variable parts, each with its variable parts."""
    yield line, list(cut)
    for turn in (1, 2):
        changed, found, at, ids = b"", [], 0, dict[bytes, bytes]()
        for number, span in enumerate(cut):
            old = line[span.start : span.end]
            if span.kind == log_scanner.ID:
                new = ids.setdefault(old, b"%064x" % (16**63 * (3 * turn + len(ids)) + 7 * turn))
            else:
                # The times in a line get different values, which shows the time that the log uses.
                new = _REPLACEMENTS[span.kind][turn - 1].replace(b"SS", b"%02d" % (number % 60))
            changed += line[at : span.start]
            found.append(Span(span.kind, len(changed), len(changed) + len(new)))
            changed += new
            at = span.end
        yield changed + line[at:], found


def _form_of(line: bytes, cut: Sequence[Span]) -> LineForm:
    """Return the form of *line*, with placeholders for the time and the error of the line."""
    if RELEVANT.search(line) is None:
        return LineForm(NOTHING)
    found = entry(line)
    times = [line[span.start : span.end].decode() for span in cut if span.kind == log_scanner.TIME]
    if found is None or found.at not in times[: log_scanner.MOMENTS]:
        return LineForm(SLOW)
    moment = times.index(found.at)
    log, asked = Log(joiner=_Either()), Log(joiner=_Either(), asked=_Asked())
    seen = log.unjoined(found)
    always = asked.unjoined(found) == seen
    if seen is None:
        return LineForm(BESIDE, moment)
    if log.notes or log.version or log.asked or len(seen) > 1:
        return LineForm(SLOW)
    if not seen or not seen[0].entity:
        return LineForm(QUIET if always and not any(map(Joiner().joined, seen)) else SLOW, moment)
    one = seen[0]
    ids = list(dict.fromkeys(line[each.start : each.end].decode() for each in cut if each.kind == log_scanner.ID))
    pod = ids.index(one.detail) if one.detail in ids else -1
    if one.entity not in ids or (pod < 0 and one.detail not in {"", found.error}):
        return LineForm(SLOW)
    if log.names:
        again = Log()
        again.called_so(one.entity, line.decode(errors="replace"))
        if again.names != log.names:
            return LineForm(SLOW)
    alone = structs.replace(one, entity="", detail=ERROR if one.detail and pod < 0 else "", at=AT)
    return LineForm(SAYS, moment, ids.index(one.entity), pod, bool(log.names), always, alone)


T = TypeVar("T")


class Variants:
    """A numbering of observations that occur repeatedly.

    A kind is an observation without its entity, time and detail, as in :class:`Columns`. A variant is a kind with a
    time and a detail, which may be placeholders.
    """

    def __init__(self) -> None:
        self.kinds: list[Observation] = []
        self.variants: list[Observation] = []
        self.kind_of: list[int] = []
        self._kinds: dict[tuple[str, Key], int] = {}
        self._variants: dict[tuple[str, Key, object, str], int] = {}

    def number(self, seen: Observation) -> int:
        """Return the number of the variant of *seen*. Add the variant if it is new. The entity is ignored."""
        what = (seen.of, key(seen), seen.at, seen.detail)
        found = self._variants.get(what)
        if found is None:
            found = self._variants[what] = len(self.variants)
            kind = self._kinds.setdefault(what[:2], len(self.kinds))
            if kind == len(self.kinds):
                self.kinds.append(structs.replace(seen, entity="", at=None, detail=""))
            self.variants.append(structs.replace(seen, entity=""))
            self.kind_of.append(kind)
        return found


@dataclass(slots=True)
class Found:
    """The observations in some lines, as parallel lists of variant numbers, id numbers and rows.

    Variant -1 marks an observation that the log itself has made. It is in ``own``. Id number 0 is the empty id. The
    replies among the first ``replied`` observations have already been reported to the log.
    """

    ids: list[str]
    variants: list[int] = field(default_factory=list)
    entities: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    own: dict[int, Observation] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    replied: int = 0

    def number(self, identity: str) -> int:
        """Return the number of the id *identity*. Add the id if it is new."""
        if not self.numbers:
            self.numbers.update(zip(self.ids, range(len(self.ids)), strict=True))
        found = self.numbers.setdefault(identity, len(self.ids))
        if found == len(self.ids):
            self.ids.append(identity)
        return found

    def add(self, variant: int, identity: str, row: int) -> None:
        self.variants.append(variant)
        self.entities.append(self.number(identity))
        self.rows.append(row)


class ScannedLines(NamedTuple):
    """Scanned lines, with the effect, the entity and the time of each line.

    ``entities`` holds indices into ``ids``. Each row of ``moments`` has the time in nanoseconds, and its start and
    end in ``text``.
    """

    cut: Scanned
    does: NDArray[np.int8]
    entities: NDArray[np.int32]
    moments: NDArray[np.int64]
    text: str
    ids: list[str]


class _Kept(Made[T]):
    __slots__ = ("_all",)
    _all: list[T]

    def __iter__(self) -> Iterator[T]:
        if not hasattr(self, "_all"):
            self._all = list(super().__iter__())
        return iter(self._all)


def batch_of(said: Variants, scanned: ScannedLines, first: int, file: str, seen: Found) -> Batch:
    """Convert the observations *seen* in the *scanned* lines to a batch. *first* is the number of the first line."""
    variants, numbers = np.array(seen.variants, np.int64), np.array(seen.rows, np.int64) + first
    moments, all_said = scanned.moments[seen.rows], said.variants

    def observation(index: int) -> Observation:
        what = seen.own.get(index)
        if what is not None:
            return what
        what, at = all_said[seen.variants[index]], None
        if what.at is not None:
            at = scanned.text[moments[index, 1] : moments[index, 2]]
        detail = what.detail
        if detail == ERROR:
            found = entry(scanned.cut.line(seen.rows[index]))
            detail = found.error if found else ""
        return structs.replace(what, entity=seen.ids[seen.entities[index]], at=at, detail=detail)

    def line(index: int) -> int | Line:
        number = int(numbers[index])
        return Line(file, number) if file else number

    kinds = np.array([*said.kind_of, -1], np.int32)
    entities = np.array(seen.entities, np.int32)
    timed = np.array([*(each.at is not None for each in all_said), False])
    at = np.where(timed[variants], moments[:, 0], -1)
    columns = Columns(said.kinds, kinds[variants], entities, seen.ids, at)
    return Batch(_Kept(len(variants), observation), Made(len(variants), line), columns)
