"""Find the templates of log lines, and the meaning of each template.

Lines that differ only in variable parts, such as ids and times, have the same template.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from fsm.runtimes.recordings import log_scanner
from fsm.runtimes.recordings.containerd_log import RELEVANT, Log
from fsm.runtimes.recordings.containerd_texts import entry
from fsm.runtimes.recordings.log_scanner import IDS, LONGEST, MOMENTS, SPANS, scan
from fsm.runtimes.recordings.pod_calls import Joiner
from fsm.trace import Batch, Columns, Line, Made, Observation


class Scanned(NamedTuple):
    """Scanned lines, as arrays with one row per line.

    Attributes:
        data: The text of all lines.
        begins: The offset of each line in the text, followed by the offset at which the next line would begin.
        templates: The number of each line's template.
        ids: The numbers of the ids in each line, padded with 0.
        times: The first few timestamps in each line, each with its nanoseconds, start and end in the text.
        places: The offset of each id in the text. Ids are numbered in this order, from 1.
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
    """The templates of all lines so far. Their maximum number is *most*, which must be a power of two.

    When half of the space is used up, all templates are forgotten and numbering starts again.
    """

    def __init__(self, most: int) -> None:
        self.most, self._words = most, 64 * most
        self._anew = -1
        self._begin()

    def _begin(self) -> None:
        self._table = np.zeros(2 * self.most, np.int64)
        self._pool = np.zeros(self._words + LONGEST, np.uint64)
        self._line = np.zeros(LONGEST // 8 + 8, np.uint64)
        self._pool[0] = 2  # the pool begins with the number of words in use and the number of templates
        self._anew += 1

    def scan(self, data: bytes, count: int) -> Scanned:
        if 2 * self._pool[0] > self._words or 2 * self._pool[1] > self.most:
            self._begin()
        found = np.zeros((count, 1 + IDS), np.int32)
        times = np.zeros((count, MOMENTS, 3), np.int64)
        places = np.zeros(IDS * count + 1, np.int64)
        places[0] = 1
        table = np.zeros(2 << len(places).bit_length(), np.int64)
        spans = np.zeros((SPANS, 4), np.int64)
        begins = np.zeros(count + 1, np.int64)
        lines = np.frombuffer(data, np.uint8)
        text = self._line.view(np.uint8)
        scan(lines, self._table, self._pool, table, places, begins, found, times, spans, self._line, text)
        ids = places[1 : int(places[0])].tolist()
        return Scanned(data, begins, found[:, 0], found[:, 1:], times, ids, spans, int(self._pool[1]), self._anew)


NOTHING, BESIDE, QUIET, SAYS, SLOW = range(5)
"""The effect of a line on the observations.

``NOTHING`` and ``BESIDE`` lines are not lifecycle events, but a ``BESIDE`` line has a time. A ``QUIET`` line is a
lifecycle event, but only its time matters. A ``SAYS`` line is exactly one observation. The log itself must read
``SLOW`` lines.
"""

AT: Final = "time of the line"
ERROR: Final = "error of the line"
"""Placeholders for the time and the error of a line, in an observation that represents many lines."""

EITHER: Final = "pod or container"


class Span(NamedTuple):
    kind: int
    start: int
    end: int


class LineForm(NamedTuple):
    """The properties that all lines of a template have in common.

    Attributes:
        does: The effect of a line, such as ``SAYS``.
        moment: The index of the timestamp that counts as the time of the line.
        entity: The index of the id of the observed entity.
        pod: The index of the id of the pod in which the entity was created, or -1 if the line has no such id.
        named: Whether the line contains the name of the entity.
        always: Whether the observation is the same even if the request of the call was not logged.
        seen: The observation of a ``SAYS`` line, without the parts that differ between lines.
    """

    does: int
    moment: int = 0
    entity: int = 0
    pod: int = -1
    named: bool = False
    always: bool = True
    seen: Observation = Observation()


_REPLACEMENTS: Final = {
    log_scanner.TIME: (b"2031-05-06T07:08:SS.123451Z", b"2032-01-02T03:04:SS.52+02:00"),
    log_scanner.NUMBER: (b"7", b"90210"),
    log_scanner.ZEROS: (b"007", b"03"),
    log_scanner.NAME: (b"q", b"a-7.failed"),
    log_scanner.MIXED: (b"x7q", b"9f0b"),
}


class _Either(Joiner):
    def kind(self, identity: str) -> str:
        del identity
        return EITHER


class _Asked(Counter[tuple[str, str]]):
    def __missing__(self, key: tuple[str, str]) -> int:
        del key
        return 1


def spans(line: bytes) -> list[Span]:
    scanned = Templates(1).scan(line, 1)
    cut = scanned.spans[: int(np.count_nonzero(scanned.spans[:, 0])) if scanned.templates[0] >= 0 else 0]
    return [Span(*row[:3]) for row in cut.tolist()]


def form(line: bytes) -> LineForm:
    cut = spans(line)
    tried = [_form_of(changed, found) for changed, found in _variants(line, cut)]
    return tried[0] if all(each == tried[0] for each in tried) else LineForm(SLOW)


def _variants(line: bytes, cut: Sequence[Span]) -> Iterator[tuple[bytes, list[Span]]]:
    yield line, list(cut)
    for turn in (1, 2):
        changed, found, at, ids = b"", [], 0, dict[bytes, bytes]()
        for number, span in enumerate(cut):
            old = line[span.start : span.end]
            if span.kind == log_scanner.ID:
                new = ids.setdefault(old, b"%064x" % (16**63 * (3 * turn + len(ids)) + 7 * turn))
            else:
                # Give the times in a line different values, to find out which of the times the log uses.
                new = _REPLACEMENTS[span.kind][turn - 1].replace(b"SS", b"%02d" % (number % 60))
            changed += line[at : span.start]
            found.append(Span(span.kind, len(changed), len(changed) + len(new)))
            changed += new
            at = span.end
        yield changed + line[at:], found


def _form_of(line: bytes, cut: Sequence[Span]) -> LineForm:
    if RELEVANT.search(line) is None:
        return LineForm(NOTHING)
    found = entry(line)
    times = [line[span.start : span.end].decode() for span in cut if span.kind == log_scanner.TIME]
    if found is None or found.at not in times[: log_scanner.MOMENTS]:
        return LineForm(SLOW)
    moment = times.index(found.at)
    log, asked = Log(joiner=_Either()), Log(joiner=_Either(), asked=_Asked())
    seen = log.observations_before_join(found)
    always = asked.observations_before_join(found) == seen
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
        again.store_names(one.entity, line.decode(errors="replace"))
        if again.names != log.names:
            return LineForm(SLOW)
    alone = structs.replace(one, entity="", detail=ERROR if one.detail and pod < 0 else "", at=AT)
    return LineForm(SAYS, moment, ids.index(one.entity), pod, bool(log.names), always, alone)


class Variants:
    """Assigns numbers to repeated observations.

    As in :class:`Columns`, a kind is an observation without its entity, time and detail. A variant is an observation
    without its entity, whose time and detail may be placeholders.
    """

    def __init__(self) -> None:
        self.kinds: list[Observation] = []
        self.variants: list[Observation] = []
        self.kind_of: list[int] = []
        self._numbers: dict[Observation, int] = {}
        self._kinds: dict[Observation, int] = {}

    def number(self, seen: Observation) -> int:
        variant = structs.replace(seen, entity="")
        number = self._numbers.setdefault(variant, len(self.variants))
        if number == len(self.variants):
            kind = structs.replace(variant, at=None, detail="")
            self.variants.append(variant)
            self.kind_of.append(self._kinds.setdefault(kind, len(self.kinds)))
            if self.kind_of[-1] == len(self.kinds):
                self.kinds.append(kind)
        return number


@dataclass(slots=True)
class ScannedLines:
    """Scanned lines with the effect, entity and time of each line, and the observations found in them so far.

    ``entities`` contains indices into ``ids``, whose first item is the empty id. Each row of ``moments`` contains a
    time in nanoseconds, and the bounds of this time in ``text``. Each item of ``said`` describes an observation by the
    number of its variant, the index of its id, and its row. If the number is -1, the log itself made the observation,
    and ``own`` contains it. Replies among the first ``replied`` observations have already been reported to the log.
    """

    cut: Scanned
    does: NDArray[np.int8]
    entities: NDArray[np.int32]
    moments: NDArray[np.int64]
    text: str
    ids: list[str]
    said: list[tuple[int, int, int]] = field(default_factory=list)
    own: dict[int, Observation] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    replied: int = 0

    def add(self, variant: int, identity: str, row: int) -> None:
        if not self.numbers:
            self.numbers.update(zip(self.ids, range(len(self.ids)), strict=True))
        entity = self.numbers.setdefault(identity, len(self.ids))
        if entity == len(self.ids):
            self.ids.append(identity)
        self.said.append((variant, entity, row))


def make_batch(known: Variants, lines: ScannedLines, first: int, file: str) -> Batch:
    variants, entities, rows = np.array(lines.said, np.int64).reshape(-1, 3).T
    moments, numbers, all_known = lines.moments[rows], rows + first, known.variants

    def observation(index: int) -> Observation:
        if index in lines.own:
            return lines.own[index]
        variant, entity, row = lines.said[index]
        what, at = all_known[variant], None
        if what.at is not None:
            at = lines.text[moments[index, 1] : moments[index, 2]]
        detail = what.detail
        if detail == ERROR:
            found = entry(lines.cut.line(row))
            detail = found.error if found else ""
        return structs.replace(what, entity=lines.ids[entity], at=at, detail=detail)

    def line(index: int) -> int | Line:
        number = int(numbers[index])
        return Line(file, number) if file else number

    kinds = np.array([*known.kind_of, -1], np.int32)
    timed = np.array([*(each.at is not None for each in all_known), False])
    at = np.where(timed[variants], moments[:, 0], -1)
    columns = Columns(known.kinds, kinds[variants], entities.astype(np.int32), lines.ids, at)
    return Batch(Made(len(variants), observation), Made(len(variants), line), columns)
