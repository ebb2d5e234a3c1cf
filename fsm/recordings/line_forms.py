"""What lines of one template say, as :class:`fsm.recordings.containerd_log.Log` reads one of them.

A template stands for all its lines only if they say the same with other ids, times, numbers and names in them.  That is
tried, and a template that is sensitive to what was cut out of it is left to the log, line by line.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs

from fsm.recordings import log_scanner
from fsm.recordings.containerd_log import RELEVANT, Log
from fsm.recordings.line_templates import Templates
from fsm.recordings.log_entries import entry
from fsm.recordings.pod_calls import Joiner
from fsm.trace import Observation

NOTHING, BESIDE, QUIET, SAYS, SLOW = range(5)
"""What a line does: it has no lifecycle event; it has none, and a time; it has a time; it says something; the log reads it."""

AT: Final = "time of the line"
ERROR: Final = "error of the line"
"""In observations that stand for those of many lines, what each line has of its own."""

EITHER: Final = "pod or container"


class Span(NamedTuple):
    """What was cut out of a line: its kind, and where it begins and ends."""

    kind: int
    start: int
    end: int


class LineForm(NamedTuple):
    """What the lines of a template do, and say: something ``seen`` of one of their ids.

    Its time is that with the number ``moment`` of a line.  ``pod`` is the number of the id of the pod in which the entity
    was made, -1 if none was; ``named`` is whether the line has a name of the entity.  A reply that is not ``always``
    said so is another one if its call was asked for.
    """

    does: int
    moment: int = 0
    entity: int = 0
    pod: int = -1
    named: bool = False
    always: bool = True
    seen: Observation | None = None


class _Either(Joiner):
    """Knows not what is a container and what a pod."""

    def kind(self, identity: str) -> str:
        del identity
        return EITHER


class _Asked(Counter[tuple[str, str]]):
    """Every call was asked for."""

    def __missing__(self, key: tuple[str, str]) -> int:
        del key
        return 1


def spans(line: bytes) -> list[Span]:
    """What is cut out of *line*; nothing if it is unfit."""
    scanned = Templates(1).scan(line, 1)
    cut = scanned.spans[: int(np.count_nonzero(scanned.spans[:, 0])) if scanned.templates[0] >= 0 else 0]
    return [Span(*row[:3]) for row in cut.tolist()]


def form(line: bytes) -> LineForm:
    """What lines of the template of *line* do."""
    cut = spans(line)
    tried = [_read(changed, found) for changed, found in _variants(line, cut)]
    return tried[0] if all(each == tried[0] for each in tried) else LineForm(SLOW)


def _variants(line: bytes, cut: Sequence[Span]) -> Iterator[tuple[bytes, list[Span]]]:
    """*line*, and what it is with other ids, times, numbers and names; each with what was cut out of it."""
    yield line, list(cut)
    for turn in (1, 2):
        changed, found, at, ids = b"", [], 0, dict[bytes, bytes]()
        for number, span in enumerate(cut):
            old = line[span.start : span.end]
            if span.kind == log_scanner.ID:
                new = ids.setdefault(old, b"%064x" % (16**63 * (3 * turn + len(ids)) + 7 * turn))
            else:
                new = _other(span.kind, turn, number)
            changed += line[at : span.start]
            found.append(Span(span.kind, len(changed), len(changed) + len(new)))
            changed += new
            at = span.end
        yield changed + line[at:], found


def _other(kind: int, turn: int, number: int) -> bytes:
    match kind:
        case log_scanner.TIME:
            return (b"2031-05-06T07:08:%02d.12345%dZ", b"2032-01-02T03:04:%02d.5%d7+02:00")[turn - 1] % (
                number % 60,
                turn,
            )
        case log_scanner.NUMBER:
            return (b"7", b"90210")[turn - 1]
        case log_scanner.ZEROS:
            return (b"007", b"03")[turn - 1]
        case log_scanner.NAME:
            return (b"q", b"a-7.failed")[turn - 1]
        case _:
            return (b"x7q", b"9f0b")[turn - 1]


def _read(line: bytes, cut: Sequence[Span]) -> LineForm:
    """What *line* does, with what is its own left out."""
    if RELEVANT.search(line) is None:
        return LineForm(NOTHING)
    found = entry(line)
    times = [line[each.start : each.end].decode() for each in cut if each.kind == log_scanner.TIME]
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
