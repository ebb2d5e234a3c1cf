"""Find out what the lines of a template mean to :class:`fsm.runtimes.recordings.containerd_log.Log`.

A template represents all its lines only if they mean the same with other ids, times, numbers and names. This is tested
with made-up values. If the meaning depends on a part that was cut out, the log reads the lines one by one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs

from fsm.runtimes.recordings import log_scanner
from fsm.runtimes.recordings.containerd_log import RELEVANT, Log
from fsm.runtimes.recordings.line_templates import Templates
from fsm.runtimes.recordings.log_entries import entry
from fsm.runtimes.recordings.pod_calls import Joiner
from fsm.trace import Observation

NOTHING, BESIDE, QUIET, SAYS, SLOW = range(5)
"""Effects of a line.

``NOTHING``: no lifecycle event. ``BESIDE``: no lifecycle event, but a time. ``QUIET``: only its time matters. ``SAYS``:
an observation. ``SLOW``: the log has to read the line.
"""

AT: Final = "time of the line"
ERROR: Final = "error of the line"
"""Placeholders for the time and error of each line, in observations that represent many lines."""

EITHER: Final = "pod or container"


class Span(NamedTuple):
    """A part cut out of a line: its kind, start and end."""

    kind: int
    start: int
    end: int


class LineForm(NamedTuple):
    """The effect of the lines of a template.

    ``seen`` is the observation, if the lines say something about one of their ids. ``moment`` is the index of the
    line's own time among its timestamps. ``entity`` and ``pod`` are the indices, among its ids, of the entity and of
    the pod in which it was created (-1 if there is none). ``named`` is true if the line contains the entity's name. If
    ``always`` is false, the observation differs when the request of its call was logged.
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
"""Maps each kind of span, except ids, to two other values that it might have."""


class _Either(Joiner):
    def kind(self, identity: str) -> str:
        del identity
        return EITHER


class _Asked(Counter[tuple[str, str]]):
    def __missing__(self, key: tuple[str, str]) -> int:
        del key
        return 1


def spans(line: bytes) -> list[Span]:
    """Return the spans cut out of *line*, or an empty list if the line is unfit."""
    scanned = Templates(1).scan(line, 1)
    cut = scanned.spans[: int(np.count_nonzero(scanned.spans[:, 0])) if scanned.templates[0] >= 0 else 0]
    return [Span(*row[:3]) for row in cut.tolist()]


def form(line: bytes) -> LineForm:
    """Return the form of all lines with the same template as *line*."""
    cut = spans(line)
    tried = [_form_of(changed, found) for changed, found in _variants(line, cut)]
    return tried[0] if all(each == tried[0] for each in tried) else LineForm(SLOW)


def _variants(line: bytes, cut: Sequence[Span]) -> Iterator[tuple[bytes, list[Span]]]:
    """Yield *line* and then versions of it with other ids, times, numbers and names, each with its spans."""
    yield line, list(cut)
    for turn in (1, 2):
        changed, found, at, ids = b"", [], 0, dict[bytes, bytes]()
        for number, span in enumerate(cut):
            old = line[span.start : span.end]
            if span.kind == log_scanner.ID:
                new = ids.setdefault(old, b"%064x" % (16**63 * (3 * turn + len(ids)) + 7 * turn))
            else:
                # Times of one line differ, because the log uses one of them.
                new = _REPLACEMENTS[span.kind][turn - 1].replace(b"SS", b"%02d" % (number % 60))
            changed += line[at : span.start]
            found.append(Span(span.kind, len(changed), len(changed) + len(new)))
            changed += new
            at = span.end
        yield changed + line[at:], found


def _form_of(line: bytes, cut: Sequence[Span]) -> LineForm:
    """Return the form of *line*, with placeholders for its time and error."""
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
