"""Read a log in bulk, with the same result as reading it line by line.

Compiled code scans the lines and finds their templates. Most templates are irrelevant, and for most others, the
observation is known except for its id. If all containers of a pod are known, the effects of a call on them come from
the table of :mod:`fsm.runtimes.recordings.pod_shapes`. Otherwise, the joiner determines them. If lines with the same
template differ in meaning, the log itself reads them.
"""

from collections.abc import Container, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from fsm.recordings.line_reader import LineSequence
from fsm.recordings.time_order import WINDOW
from fsm.runtimes.names import CONTAINER, POD
from fsm.runtimes.recordings import pod_calls
from fsm.runtimes.recordings.containerd_log import CRASH, DOUBTFUL, NO_EVENT, RELEVANT, UNKNOWN_EXITS, Log
from fsm.runtimes.recordings.containerd_texts import entry
from fsm.runtimes.recordings.line_templates import (
    BESIDE,
    EITHER,
    NOTHING,
    QUIET,
    SAYS,
    SLOW,
    Found,
    LineForm,
    Scanned,
    ScannedLines,
    Templates,
    Variants,
    form,
    make_batch,
)
from fsm.runtimes.recordings.open_calls import Beginning, OpenCalls, certain_part
from fsm.runtimes.recordings.pod_calls import Joiner
from fsm.runtimes.recordings.pod_shapes import Pod, Shapes, Step, put_back
from fsm.trace import LATEST, Batch, Observation

_TEMPLATES: Final = 8_192

_SLOW: Final = 0.1  # maximum share of lines that the log itself may have to read
_FEW: Final = 64  # minimum number of lines for which reading in bulk pays off


class _Saying(NamedTuple):
    """The meaning of the lines of a template: the observation ``seen`` and its number, ``symbol``.

    For calls on a container, ``removed`` is the variant to use if the container has been removed. Otherwise it is -1.
    """

    symbol: int
    seen: Observation
    removed: int


def _other_entities(joiner: Joiner) -> tuple[Container[str], ...]:
    pods, containers = joiner.unrecorded[POD], joiner.unrecorded[CONTAINER]
    return joiner.containers, joiner.pod_of, joiner.removed[POD], containers, pods


class _Plain(NamedTuple):
    """The meaning of the lines of a template, if it depends only on the entity's id.

    ``pod`` and ``container`` are the symbols for a pod and for a container, or -1 if more than the id matters.
    ``removed`` is the variant for a removed container, or -1 if the joiner has to determine it.
    """

    pod: int
    container: int
    removed: int


_NOT_PLAIN: Final = _Plain(-1, -1, -1)


class Bulk:
    def __init__(self, log: Log) -> None:
        self.log = log
        self._variants = Variants()
        self._shapes = Shapes(self._variants.number)
        self._pods: dict[str, Pod] = {}
        self._sayings: dict[tuple[Observation, bool, bool], _Saying] = {}
        self._doubts: dict[tuple[int, OpenCalls | None], tuple[list[int], OpenCalls]] = {}
        self._templates = Templates(_TEMPLATES)
        self._clear(0)

    def _clear(self, anew: int) -> None:
        self._anew = anew
        self._forms: list[LineForm] = []
        self._sayings_of: list[tuple[_Saying, ...]] = []
        self._plain: list[_Plain] = []
        self._plain_unless_asked: list[_Plain] = []
        self._waiting: set[int] = set()
        # The last row is for lines without a template. Their template number is -1, which is the index of this row.
        self._does = np.full(_TEMPLATES + 1, SLOW, np.int8)
        self._moments = np.zeros(_TEMPLATES + 1, np.int64)
        self._entities = np.zeros(_TEMPLATES + 1, np.int64)

    def scan(self, lines: Sequence[bytes]) -> Scanned | None:
        """Scan *lines*, or return ``None`` if there are too few. This method may be called from another thread."""
        if len(lines) < _FEW:
            return None
        return self._templates.scan(lines.data if isinstance(lines, LineSequence) else b"\n".join(lines), len(lines))

    def batch(self, cut: Scanned | None, first: int, file: str = "") -> Batch | None:
        """Return the observations in the scanned lines *cut*, or ``None`` if the lines must be read one by one."""
        if cut is None:
            self.give_back()
            return None
        scanned = self._convert_scan(cut)
        log_reads = np.flatnonzero(scanned.does == SLOW)
        for row in log_reads.tolist():
            if RELEVANT.search(scanned.cut.line(row)) is None:
                scanned.does[row] = NOTHING
        counted, count = np.bincount(scanned.does, minlength=SLOW + 1), len(scanned.does)
        if counted[SLOW] > _SLOW * count:
            self.give_back()
            return None
        if beside := int(counted[NOTHING] + counted[BESIDE]):
            self.log.notes[NO_EVENT] += beside
        seen = Found(scanned.ids)
        start = 0
        while start < count:
            start = self._read(scanned, start, seen)
        self._report_replies(seen)
        return make_batch(self._variants, scanned, first, file, seen)

    def _convert_scan(self, cut: Scanned) -> ScannedLines:
        if cut.anew != self._anew:
            self._clear(cut.anew)
        self._learn(cut)
        rows = np.arange(len(cut.templates))
        moments = cut.times[rows, self._moments[cut.templates]]
        entities = cut.ids[rows, self._entities[cut.templates]]
        text = cut.data.decode("latin-1")  # one character per byte
        ids = ["", *(text[at : at + 64] for at in cut.places)]
        return ScannedLines(cut, self._does[cut.templates], entities, moments, text, ids)

    def _learn(self, cut: Scanned) -> None:
        before, now, templates = len(self._forms), cut.known, cut.templates
        if now == before and not self._waiting:
            return
        self._forms += [LineForm(SLOW)] * (now - before)
        self._sayings_of += [()] * (now - before)
        self._plain += [_NOT_PLAIN] * (now - before)
        self._plain_unless_asked += [_NOT_PLAIN] * (now - before)
        self._waiting.update(range(before, now))
        times = np.bincount(templates + 1, minlength=now + 1)[1:]
        for template in [number for number in self._waiting if times[number] > (number >= before)]:
            self._waiting.discard(template)
            found = form(cut.line(int(np.flatnonzero(templates == template)[0])))
            self._forms[template], self._does[template] = found, found.does
            self._moments[template], self._entities[template] = found.moment, found.entity
            if found.seen is not None:
                kinds = (CONTAINER, POD) if found.seen.of == EITHER else (found.seen.of,)
                says = (
                    self._saying(structs.replace(found.seen, of=of), made=found.pod >= 0, either=len(kinds) > 1)
                    for of in kinds
                )
                self._sayings_of[template] = said = tuple(says)
                if not found.named and found.pod < 0:
                    plain = _Plain(said[-1].symbol, said[0].symbol, said[0].removed if len(said) == 1 else -1)
                    self._plain_unless_asked[template] = plain
                    self._plain[template] = plain if found.always else _NOT_PLAIN

    def _saying(self, seen: Observation, *, made: bool, either: bool) -> _Saying:
        found = self._sayings.get((seen, made, either))
        if found is None:
            removed = self._variants.number(seen) if seen.of == CONTAINER and not made else -1
            found = self._sayings[seen, made, either] = _Saying(len(self._sayings), seen, removed)
        return found

    def _late_rows(self, scanned: ScannedLines, start: int) -> NDArray[np.int64]:
        joiner = self.log.joiner
        if joiner.beginning is None:
            return np.empty(0, np.int64)
        timed = (scanned.does == BESIDE) | (scanned.does == QUIET) | (scanned.does == SAYS)
        if joiner.began is not None:
            timed &= scanned.moments[:, 0] - min(joiner.began, LATEST) > WINDOW
        late = np.flatnonzero(timed[start:]) + start
        return late if joiner.began is not None else late[:1]

    def _read(self, scanned: ScannedLines, start: int, seen: Found) -> int:  # noqa: C901, PLR0912  (run for every line)
        """Read lines, beginning with row *start*, until the joiner changes its state. Return the next row."""
        log, joiner, began = self.log, self.log.joiner, self.log.joiner.began
        beginning, asked, late = joiner.beginning, bool(log.asked), self._late_rows(scanned, start)
        concern = scanned.does >= SAYS
        concern[late] = True
        rows = np.flatnonzero(concern[start:]) + start
        templates, entities = scanned.cut.templates[rows], scanned.entities[rows]
        plain = self._plain if asked else self._plain_unless_asked
        check, ids, does = set(late.tolist()), seen.ids, scanned.does.tolist()
        pods, pod_of = self._pods, joiner.pod_of
        removed, unrecorded = joiner.removed[CONTAINER], joiner.unrecorded[CONTAINER]
        row: int
        for row, template, entity in zip(rows.tolist(), templates.tolist(), entities.tolist(), strict=True):
            if check and row in check:
                found = entry(scanned.cut.line(row))
                for each in joiner.begun(found.at if found else ""):
                    seen.add(self._variants.number(each), each.entity, row)
                if began is None or joiner.beginning is None:
                    return row
            if does[row] != SAYS:
                if does[row] == SLOW:
                    self._read_by_log(scanned.cut.line(row), row, seen)
                    same = joiner.beginning is beginning and joiner.began == began
                    if log.joiner is not joiner or not same or bool(log.asked) != asked:
                        return row + 1
                continue
            identity, (of_pod, of_container, variant) = ids[entity], plain[template]
            if of_container >= 0:
                pod = pods.get(identity)
                if pod is not None:
                    place = pod.ids.index(identity)
                    step = pod.shape.steps.get((of_container if place else of_pod, place))
                    if step is not None:
                        if step.one < 0:
                            self._apply(pod, step, place, entity, row, seen)
                            continue
                        pod.shape = step.to
                        seen.variants.append(step.one)
                        seen.entities.append(entity)
                        seen.rows.append(row)
                        continue
                elif variant >= 0 and identity in removed and identity not in pod_of and identity not in unrecorded:
                    # The joiner would return the call unchanged, because it knows nothing about a removed container.
                    if beginning is None:
                        seen.variants.append(variant)
                        seen.entities.append(entity)
                        seen.rows.append(row)
                    else:
                        self._add_certain_part(variant, entity, row, seen, beginning)
                    continue
            self._join(scanned, row, entity, seen)
        return len(scanned.does)

    def _add_certain_part(self, variant: int, entity: int, row: int, seen: Found, beginning: Beginning) -> None:
        key = (CONTAINER, seen.ids[entity])
        step = (variant, beginning.calls.get(key))
        if step not in self._doubts:
            if len(self._doubts) > _TEMPLATES:
                self._doubts.clear()
            found, calls = certain_part(self._variants.variants[variant], step[1])
            self._doubts[step] = [self._variants.number(each) for each in found], calls
        numbers, beginning.calls[key] = self._doubts[step]
        for number in numbers:
            seen.variants.append(number)
            seen.entities.append(entity)
            seen.rows.append(row)

    def _join(self, scanned: ScannedLines, row: int, entity: int, seen: Found) -> None:
        log, joiner, template = self.log, self.log.joiner, int(scanned.cut.templates[row])
        found, says, identity = self._forms[template], self._sayings_of[template], seen.ids[entity]
        home = seen.ids[scanned.cut.ids[row, found.pod]] if found.pod >= 0 else ""
        one = says[0]
        if not found.always and (one.seen.event, identity) in log.asked:
            self._read_by_log(scanned.cut.line(row), row, seen)
            return
        if found.named:
            line = scanned.cut.line(row).decode("utf-8", errors="replace")
            log.store_names(identity, line, log.names.get(home, ()))
        if len(says) > 1:
            of = joiner.kind(identity)
            if not of:
                log.notes[UNKNOWN_EXITS] += 1
                return
            one = says[of == POD]
        pod = self._pod(home or identity)
        # Steps do not apply if a creation names a container as its pod, or if the new entity is already known.
        unlike = pod and home and (home != pod.ids[0] or identity in self._pods or self._is_known(identity))
        if pod is not None and not unlike:
            place = len(pod.ids) if home else pod.ids.index(identity)
            steps, which = pod.shape.steps, (one.symbol, place)
            if which not in steps:
                steps[which] = self._shapes.step(pod, one.seen, place, made=bool(home))
            step = steps[which]
            if step is not None:
                self._apply(pod, step, place, entity, row, seen)
                return
        self._give_back(identity)
        self._give_back(home)
        self._make_room()
        for what in joiner.joined(structs.replace(one.seen, entity=identity, detail=home or one.seen.detail)):
            seen.add(self._variants.number(what), what.entity, row)

    def _apply(self, pod: Pod, step: Step, place: int, entity: int, row: int, seen: Found) -> None:
        joiner, ids = self.log.joiner, pod.ids
        made = place == len(ids)
        if made:
            ids = [*ids, seen.ids[entity]]
        for variant, where in step.seen:
            seen.variants.append(variant)
            seen.entities.append(entity if where == place else seen.number(ids[where]))
            seen.rows.append(row)
        if step.ended or step.begun:
            pod.creating = [*pod.creating[step.ended :], *[joiner.met] * step.begun]
        for where in step.removed:
            joiner.forget(ids[where])
            self._pods.pop(ids[where], None)
        if made:
            joiner.pod_of[ids[place]] = ids[0]
            joiner.containers[ids[0]][ids[place]] = None
            self._pods[ids[place]] = pod
        if step.gone:
            self._make_room()
            joiner.forget_pod(ids[0])
        if step.comes:
            pod.ids = [ids[where] for where in step.comes]
        pod.shape = step.to
        if step.to.rests:
            self._give_back(ids[0])

    def _make_room(self) -> None:
        """Give the pod that the joiner will forget next back to it, because calls on the pod may continue."""
        removed = self.log.joiner.removed[POD]
        if len(removed) >= pod_calls.UNRECORDED:
            self._give_back(next(iter(removed)))

    def _is_known(self, identity: str) -> bool:
        joiner = self.log.joiner
        return identity in joiner.removed[CONTAINER] or any(identity in each for each in _other_entities(joiner))

    def _pod(self, identity: str) -> Pod | None:
        pod = self._pods.get(identity)
        if pod is None and (pod := self._shapes.take(self.log.joiner, identity)) is not None:
            for each in (pod.ids[0], *self.log.joiner.containers.get(pod.ids[0], ())):
                self._pods[each] = pod
        return pod

    def _give_back(self, identity: str) -> None:
        pod = self._pods.get(identity)
        if pod is not None:
            for each in (pod.ids[0], *self.log.joiner.containers.get(pod.ids[0], ())):
                self._pods.pop(each, None)
            put_back(self.log.joiner, pod)

    def give_back(self) -> None:
        for pod in {id(each): each for each in self._pods.values()}.values():
            put_back(self.log.joiner, pod)
        self._pods.clear()

    def _read_by_log(self, line: bytes, row: int, seen: Found) -> None:
        self.give_back()
        if CRASH.search(line):
            self._report_replies(seen)
        for each in self.log.read(line):
            seen.own[len(seen.variants)] = each
            seen.add(-1, each.entity, row)

    def _report_replies(self, seen: Found) -> None:
        replies: list[tuple[str, str]] = []
        at = len(seen.variants)
        while at > seen.replied and len(replies) < DOUBTFUL:
            at -= 1
            what = seen.own[at] if seen.variants[at] < 0 else self._variants.variants[seen.variants[at]]
            if what.phase == "reply":
                replies.append((seen.ids[seen.entities[at]], what.of))
        self.log.replies.extend(reversed(replies))
        seen.replied = len(seen.variants)
