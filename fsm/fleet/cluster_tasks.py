"""Judge recordings in a cluster task and return one result for each recording.

This module uses Arrow, but not Spark. The rows of each recording arrive together and in order, so that they can be
judged without keeping them in memory.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import itemgetter
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, structs

from fsm.errors import InputError
from fsm.fleet import NEVER, FirstPlace, GatheredCause, Share, Summary, summarise, total
from fsm.machine import Machine
from fsm.machine.findings import NOTHING_CONCERNS, NOTHING_MET, no_entity_reason
from fsm.machine.product.system import System
from fsm.monitor.grouping import NAMED
from fsm.monitor.judgement import Judging, judge
from fsm.recordings.form import RecordingForm, form_of_title, recorded
from fsm.recordings.json_lines import Trace, TraceHeader
from fsm.recordings.line_reader import LineReader, Notes, Piece
from fsm.recordings.observation_columns import ObservationColumns, recording_title
from fsm.recordings.time_order import Assume
from fsm.report.words import grouped
from fsm.trace import Batch


class RecordingPart(Struct, frozen=True, kw_only=True):
    """The results for a part of a recording.

    ``whole`` summarises all observations in the part. ``of_all`` summarises only the observations that concern
    all entities, which are the same in every part.
    """

    whole: Summary
    of_all: Summary


def joined(parts: Sequence[RecordingPart]) -> Summary:
    groups = grouped((share.key, share) for part in parts for share in part.whole.shares)
    repeated = {share.key: share for share in parts[0].of_all.shares}
    added = total(part.whole for part in parts)
    notes = _without_repeats(added.notes, parts[0].of_all.notes, len(parts) - 1)
    shares = tuple(_recording_share(share, groups[share.key], repeated[share.key]) for share in added.shares)
    return structs.replace(added, notes=notes, shares=shares)


def _recording_share(added: Share, parts: Sequence[Share], repeated: Share) -> Share:
    """Return *added*, the sum of *parts*, as one recording. Count *repeated*, which every part contains, only once."""
    times = len(parts) - 1
    found = structs.replace(
        added,
        recordings=1,
        observations=added.observations - times * repeated.observations,
        notes=_without_repeats(added.notes, repeated.notes, times),
        found=tuple(map(_cap_entities, added.found)),
        tolerated=tuple(map(_cap_entities, added.tolerated)),
    )
    reason = _reason(found, parts)
    return structs.replace(found, unknown={reason: 1} if reason else {})


def _without_repeats(counts: Mapping[str, int], repeated: Mapping[str, int], times: int) -> dict[str, int]:
    return {name: left for name, count in counts.items() if (left := count - times * repeated.get(name, 0))}


def _cap_entities(cause: GatheredCause) -> GatheredCause:
    return structs.replace(cause, entities=min(cause.entities, NAMED))


def _reason(found: Share, parts: Iterable[Share]) -> str:
    idle = no_entity_reason(found.entity)
    reasons = [next(iter(share.unknown), "") for share in parts]
    if others := {*reasons} - {"", idle, NOTHING_CONCERNS, NOTHING_MET}:
        return min(others, key=_reason_order)
    if not all(reasons):  # The other reasons apply only if every part reports a reason.
        return ""
    if NOTHING_MET in reasons:
        return NOTHING_MET
    return idle if found.observations and not found.entities else NOTHING_CONCERNS


def _reason_order(reason: str) -> tuple[int, str]:
    line = re.match(r"line (\d+)(?::|$)", reason)
    return int(line[1]) if line else 0, reason


RowForm: TypeAlias = Literal["files", "lines", "observations"]

KEYS: Final = ("node", "file", "part")

JUDGED: Final = pa.schema(
    [("node", pa.string()), ("file", pa.string()), ("judged", pa.binary()), ("problem", pa.string())]
)
"""The schema of the results. A result is a summary in JSON, or the problem that prevented judging."""

_OF_CAUSE: Final = ("level", "clause", "says", "source", "cause", "event", "illegal", "deviation")
_PLACE: Final = pa.struct([("at", pa.int64()), ("line", pa.int64()), ("entity", pa.string()), ("what", pa.string())])

FOUND: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("node", "file", "version", "machine", "profile", *_OF_CAUSE)),
        ("tolerated", pa.bool_()),
        ("count", pa.int64()),
        ("entities", pa.int64()),
        ("first", pa.list_(_PLACE)),
    ]
)

_SUMMARY: Final = msgspec.json.Decoder(Summary)
_PART: Final = msgspec.json.Decoder(RecordingPart)


class _Key(NamedTuple):
    node: str
    file: str
    part: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTask:
    """Judges rows with the settings of :func:`fsm.monitor.judgement.judge`.

    ``form`` says what the rows contain. If ``parts`` is true, the keys of the rows include the part of the recording.
    """

    form: RowForm
    models: Sequence[str | Machine | System]
    profile: str | None
    fresh: bool = False
    unseen: tuple[str, ...] = ()
    restarts: Assume = "maybe"
    shortest_restart: float = 0.05
    parts: bool = False

    def check(self) -> None:
        """Raise :class:`InputError` if a model is not well formed, or if no model has the profile."""
        if self.models:
            self._begin_judging(_Key("", ""), TraceHeader(trace=1))

    def judged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        judge_rows = self._observations if self.form == "observations" else self._recording
        for key, rows in groupby(_runs(batches), key=itemgetter(0)):
            # Return problems as rows, because Spark would retry a task that raises an error.
            try:
                yield _answer(key, msgspec.json.encode(judge_rows(key, map(itemgetter(1), rows))), "")
            except InputError as error:
                yield _answer(key, b"", str(error))

    def _recording(self, key: _Key, rows: Iterable[pa.RecordBatch]) -> Summary:
        files = self.form == "files"
        found = judge(
            key.file if files else key.file or key.node,
            models=self.models,
            profile=self.profile,
            fresh=self.fresh,
            restarts=self.restarts,
            shortest_restart=self.shortest_restart,
            source=None if files else _LinesOfRows(rows),
        )
        return summarise([found], node=key.node)

    def _observations(self, key: _Key, rows: Iterable[pa.RecordBatch]) -> Summary | RecordingPart:
        rows = iter(rows)
        begun = next(rows)
        known = form_of_title(recording_title(begun), key.file or key.node)
        whole, of_all = self._begin_judging(key, known), self._begin_judging(key, known) if self.parts else None
        epoch = isinstance(known, TraceHeader) and not known.relative
        columns = ObservationColumns(key.file or key.node, epoch=epoch)
        for taken in Trace().ordered(map(columns.batch, chain([begun], rows))):
            whole.take(taken)
            if of_all is not None and (shared := _rows_for_all_entities(taken)).observations:
                of_all.take(shared)
        found = summarise([whole.judged()], node=key.node)
        if of_all is None:
            return found
        return RecordingPart(whole=found, of_all=summarise([of_all.judged()], node=key.node))

    def _begin_judging(self, key: _Key, known: RecordingForm | TraceHeader) -> Judging:
        if isinstance(known, TraceHeader):
            known = msgspec.structs.replace(known, unseen=known.unseen or self.unseen, fresh=self.fresh)
        recording = recorded(known, key.file or key.node, iter(()), Notes())
        return Judging(recording, models=self.models, profile=self.profile, fresh=self.fresh, restarts=self.restarts)


def put_together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine the consecutive parts of each recording into one row with the schema :data:`JUDGED`."""
    for key, rows in groupby(_runs(batches), key=itemgetter(0)):
        parts = [part for _, run in rows for part in run.select(["judged", "problem"]).to_pylist()]
        if problem := next((part["problem"] for part in parts if part["problem"]), ""):
            yield _answer(key, b"", problem)
        else:
            yield _answer(key, msgspec.json.encode(joined([_PART.decode(part["judged"]) for part in parts])), "")


def sum_summaries(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    whole: list[Summary] = []
    for batch in batches:
        whole = [total([*whole, *(_SUMMARY.decode(text) for text in batch["judged"].to_pylist() if text)])]
        if (wrong := batch.filter(pc.not_equal(batch["problem"], ""))).num_rows:
            yield wrong
    for summary in whole:
        yield _answer(_Key("", ""), msgspec.json.encode(summary), "")


def causes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [
            {
                **{name: row[name] for name in ("node", "file")},
                **{name: getattr(share, name) for name in ("version", "machine", "profile")},
                **{name: getattr(cause, name) for name in (*_OF_CAUSE, "count", "entities")},
                "tolerated": tolerated,
                "first": [_place(place) for place in cause.first],
            }
            for row in batch.to_pylist()
            if row["judged"]
            for share in _SUMMARY.decode(row["judged"]).shares
            for tolerated, causes in ((False, share.found), (True, share.tolerated))
            for cause in causes
        ]
        yield pa.RecordBatch.from_pylist(rows, FOUND)


def _place(place: FirstPlace) -> dict[str, object]:
    at = None if place.at == NEVER else place.at
    return {"at": at, "line": place.line, "entity": place.entity, "what": place.what}


def _answer(key: _Key, judged: bytes, problem: str) -> pa.RecordBatch:
    row = {"node": key.node, "file": key.file, "judged": judged, "problem": problem}
    return pa.RecordBatch.from_pylist([row], JUDGED)


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[_Key, pa.RecordBatch]]:
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = [batch[name] for name in KEYS if name in batch.schema.names]
        ends = {end for key in keys for end in pc.run_end_encode(key).run_ends.to_pylist()}
        start = 0
        for end in sorted(ends):
            yield _Key(*(key[start].as_py() for key in keys)), batch.slice(start, end - start)
            start = end


@dataclass(frozen=True, slots=True)
class _LinesOfRows:
    rows: Iterable[pa.RecordBatch]

    def pieces(self, notes: Counter[str], advanced: Callable[[int], None]) -> Iterator[Piece]:
        for batch in self.rows:
            numbers = batch["line"].to_numpy(zero_copy_only=False)
            jumps = (np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()
            # Each row is one line, even if its text contains line breaks.
            lines = pc.replace_substring(batch["value"].cast(pa.binary()).fill_null(b""), b"\n", b" ").to_pylist()
            for start, end in zip([0, *jumps], [*jumps, len(lines)], strict=True):
                data = b"\n".join(lines[start:end]) + b"\n"
                advanced(len(data))
                for piece in LineReader(name="", notes=notes).pieces([data]):
                    yield replace(piece, first=piece.first + int(numbers[start]) - 1)


def _rows_for_all_entities(batch: Batch) -> Batch:
    rows = [row for row, seen in enumerate(batch.observations) if not seen.entity]
    return Batch([batch.observations[row] for row in rows], [batch.lines[row] for row in rows])
