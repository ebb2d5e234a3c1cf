"""Read a log in bulk, with the same result as reading it line by line.

Compiled code scans the lines and finds their templates. Most templates are irrelevant. Most of the others determine
the observation, except for its id. A call on a container bypasses the log's joiner of pods and containers if the joiner
would return it unchanged. Lines that differ in meaning despite having the same template are read one by one.
"""

from typing import Final, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from fsm.recordings.time_order import WINDOW
from fsm.runtimes.names import CONTAINER, POD
from fsm.runtimes.recordings.containerd_log import CRASH, DOUBTFUL, NO_EVENT, RELEVANT, UNKNOWN_EXITS, Log
from fsm.runtimes.recordings.containerd_texts import entry
from fsm.runtimes.recordings.line_templates import (
    BESIDE,
    EITHER,
    NOTHING,
    SAYS,
    SLOW,
    LineForm,
    Scanned,
    ScannedLines,
    Templates,
    Variants,
    form,
    make_batch,
)
from fsm.runtimes.recordings.open_calls import Beginning, OpenCalls, certain_part
from fsm.trace import LATEST, Batch

_TEMPLATES: Final = 8_192

_SLOW: Final = 0.1  # maximum share of lines to read one by one. If it is exceeded, all lines are read one by one.
_FEW: Final = 64  # minimum number of lines for which reading in bulk pays off


class _Plain(NamedTuple):
    """Numbers of the variants that the joiner would return for a line of a template, or -1 to call the joiner.

    ``known`` is for a container in a pod whose containers are all known, and ``removed`` is for a container that was
    removed.
    """

    known: int
    removed: int


_NOT_PLAIN: Final = _Plain(-1, -1)


class Bulk:
    def __init__(self, log: Log) -> None:
        self.log = log
        self._variants = Variants()
        self._doubts: dict[tuple[int, OpenCalls | None], tuple[list[int], OpenCalls]] = {}
        self._templates = Templates(_TEMPLATES)
        self._clear(0)

    def _clear(self, anew: int) -> None:
        self._anew = anew
        self._known = 0
        self._waiting: set[int] = set()
        self._forms: dict[int, LineForm] = {}
        self._says: dict[int, dict[str, int]] = {}  # the variants of each template, by kind of entity
        self._plain: dict[int, _Plain] = {}
        self._plain_unless_asked: dict[int, _Plain] = {}
        # Lines without a template have the template number -1, which selects the last item of each array.
        self._does = np.full(_TEMPLATES + 1, SLOW, np.int8)
        self._moments = np.zeros(_TEMPLATES + 1, np.int64)
        self._entities = np.zeros(_TEMPLATES + 1, np.int64)

    def scan(self, data: bytes) -> Scanned | None:
        """Scan the lines in *data*, or return ``None`` if there are too few. Another thread may call this method."""
        count = data.count(b"\n") + 1
        return self._templates.scan(data, count) if count >= _FEW else None

    def batch(self, cut: Scanned | None, first: int, file: str = "") -> Batch | None:
        """Return the observations in the scanned lines *cut*, or ``None`` if the lines must be read one by one."""
        if cut is None:
            return None
        lines = self._convert_scan(cut)
        log_reads = np.flatnonzero(lines.does == SLOW)
        for row in log_reads.tolist():
            if RELEVANT.search(lines.cut.line(row)) is None:
                lines.does[row] = NOTHING
        counted, count = np.bincount(lines.does, minlength=SLOW + 1), len(lines.does)
        if counted[SLOW] > _SLOW * count:
            return None
        if beside := int(counted[NOTHING] + counted[BESIDE]):
            self.log.notes[NO_EVENT] += beside
        start = 0
        while start < count:
            start = self._read(lines, start)
        self._report_replies(lines)
        return make_batch(self._variants, lines, first, file)

    def _convert_scan(self, cut: Scanned) -> ScannedLines:
        if cut.anew != self._anew:
            self._clear(cut.anew)
        self._learn_templates(cut)
        rows = np.arange(len(cut.templates))
        moments = cut.times[rows, self._moments[cut.templates]]
        entities = cut.ids[rows, self._entities[cut.templates]]
        text = cut.data.decode("latin-1")  # one character per byte
        ids = ["", *(text[at : at + 64] for at in cut.places)]
        return ScannedLines(cut, self._does[cut.templates], entities, moments, text, ids)

    def _learn_templates(self, cut: Scanned) -> None:
        before, self._known, templates = self._known, cut.known, cut.templates
        self._waiting.update(range(before, cut.known))
        if not self._waiting:
            return
        times = np.bincount(templates + 1, minlength=cut.known + 1)[1:]
        for template in [number for number in self._waiting if times[number] > (number >= before)]:
            self._waiting.discard(template)
            found = form(cut.line(int(np.flatnonzero(templates == template)[0])))
            self._forms[template], self._does[template] = found, found.does
            self._moments[template], self._entities[template] = found.moment, found.entity
            if found.does == SAYS:
                kinds = (CONTAINER, POD) if found.seen.of == EITHER else (found.seen.of,)
                numbers = [self._variants.number(structs.replace(found.seen, of=of)) for of in kinds]
                self._says[template] = dict(zip(kinds, numbers, strict=True))
                plain = _NOT_PLAIN
                if kinds == (CONTAINER,) and not found.named and found.pod < 0:
                    removes = found.seen.event == "RemoveContainer" and found.seen.reply == "ok"
                    moves = removes or found.seen.event == "StartContainer"
                    plain = _Plain(-1 if moves else numbers[0], numbers[0])
                self._plain_unless_asked[template] = plain
                self._plain[template] = plain if found.always else _NOT_PLAIN

    def _late_rows(self, lines: ScannedLines, start: int) -> NDArray[np.int64]:
        joiner = self.log.joiner
        if joiner.beginning is None:
            return np.empty(0, np.int64)
        timed = (lines.does > NOTHING) & (lines.does < SLOW)
        if joiner.began is None:
            return np.flatnonzero(timed[start:])[:1] + start
        timed &= lines.moments[:, 0] - min(joiner.began, LATEST) > WINDOW
        return np.flatnonzero(timed[start:]) + start

    def _read(self, lines: ScannedLines, start: int) -> int:  # noqa: C901  (run for every line)
        """Read lines from row *start* until the state of the joiner changes. Return the next row to read."""
        log, joiner, began = self.log, self.log.joiner, self.log.joiner.began
        beginning, asked, late = joiner.beginning, bool(log.asked), self._late_rows(lines, start)
        concern = lines.does >= SAYS
        concern[late] = True
        rows = np.flatnonzero(concern[start:]) + start
        templates, entities = lines.cut.templates[rows], lines.entities[rows]
        plain = self._plain if asked else self._plain_unless_asked
        check, ids, does = set(late.tolist()), lines.ids, lines.does.tolist()
        whole, pod_of = joiner.whole, joiner.pod_of
        removed, unrecorded = joiner.removed[CONTAINER], joiner.unrecorded[CONTAINER]
        say = lines.said.append
        row: int
        for row, template, entity in zip(rows.tolist(), templates.tolist(), entities.tolist(), strict=True):
            if check and row in check:
                found = entry(lines.cut.line(row))
                for each in joiner.begun(found.at if found else ""):
                    lines.add(self._variants.number(each), each.entity, row)
                if began is None or joiner.beginning is None:
                    return row
            if does[row] != SAYS:
                if does[row] == SLOW:
                    self._read_by_log(lines, row)
                    same = joiner.beginning is beginning and joiner.began == began
                    if log.joiner is not joiner or not same or bool(log.asked) != asked:
                        return row + 1
                continue
            identity, (known, gone) = ids[entity], plain[template]
            if known >= 0 and pod_of.get(identity) in whole:
                say((known, entity, row))
            elif gone < 0 or identity not in removed or identity in pod_of or identity in unrecorded:
                self._join(lines, row, entity)
            elif beginning is None:
                say((gone, entity, row))
            else:
                self._add_certain_part(gone, entity, row, lines, beginning)
        return len(lines.does)

    def _add_certain_part(self, variant: int, entity: int, row: int, lines: ScannedLines, beginning: Beginning) -> None:
        key = (CONTAINER, lines.ids[entity])
        step = (variant, beginning.calls.get(key))
        if step not in self._doubts:
            if len(self._doubts) > _TEMPLATES:
                self._doubts.clear()
            found, calls = certain_part(self._variants.variants[variant], step[1])
            self._doubts[step] = [self._variants.number(each) for each in found], calls
        numbers, beginning.calls[key] = self._doubts[step]
        for number in numbers:
            lines.said.append((number, entity, row))

    def _join(self, lines: ScannedLines, row: int, entity: int) -> None:
        log, template = self.log, int(lines.cut.templates[row])
        found, identity = self._forms[template], lines.ids[entity]
        home = lines.ids[lines.cut.ids[row, found.pod]] if found.pod >= 0 else ""
        if not found.always and (found.seen.event, identity) in log.asked:
            self._read_by_log(lines, row)
            return
        if found.named:
            line = lines.cut.line(row).decode("utf-8", errors="replace")
            log.store_names(identity, line, log.names.get(home, ()))
        of = log.joiner.kind(identity) if found.seen.of == EITHER else found.seen.of
        if not of:
            log.notes[UNKNOWN_EXITS] += 1
            return
        call = structs.replace(found.seen, entity=identity, of=of, detail=home or found.seen.detail)
        for each in log.joiner.joined(call):
            if each is call:
                lines.said.append((self._says[template][of], entity, row))
            else:
                lines.add(self._variants.number(each), each.entity, row)

    def _read_by_log(self, lines: ScannedLines, row: int) -> None:
        line = lines.cut.line(row)
        if CRASH.search(line):
            self._report_replies(lines)
        for each in self.log.read(line):
            lines.own[len(lines.said)] = each
            lines.add(-1, each.entity, row)

    def _report_replies(self, lines: ScannedLines) -> None:
        replies: list[tuple[str, str]] = []
        at = len(lines.said)
        while at > lines.replied and len(replies) < DOUBTFUL:
            at -= 1
            variant, entity, _ = lines.said[at]
            what = lines.own[at] if variant < 0 else self._variants.variants[variant]
            if what.phase == "reply":
                replies.append((lines.ids[entity], what.of))
        self.log.replies.extend(reversed(replies))
        lines.replied = len(lines.said)
