"""Join the judgements of the parts of one recording, which have different entities, into one of the whole.

Observations that concern all entities are in every part. Each part therefore also judges these separately, so that
their results can be counted only once.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from fsm.fleet.summary import GatheredCause, Share, Summary, total
from fsm.machine.findings import NOTHING_CONCERNS, NOTHING_MET, tells_of_none
from fsm.monitor.grouping import NAMED


class RecordingPart(Struct, frozen=True, kw_only=True):
    """The summary of one part of a recording. ``of_all`` covers only observations that concern all entities."""

    whole: Summary
    of_all: Summary


def joined(parts: Sequence[RecordingPart]) -> Summary:
    """Return the summary of the recording that consists of all *parts*."""
    groups: dict[tuple[str, ...], list[Share]] = {}
    for part in parts:
        for share in part.whole.shares:
            groups.setdefault(share.key, []).append(share)
    repeated = {share.key: share for share in parts[0].of_all.shares}
    added = total(part.whole for part in parts)
    shares = tuple(_whole_share(share, groups[share.key], repeated[share.key]) for share in added.shares)
    return structs.replace(
        added, notes=_without_repeats(added.notes, parts[0].of_all.notes, len(parts) - 1), shares=shares
    )


def _whole_share(added: Share, parts: Sequence[Share], repeated: Share) -> Share:
    """Return the share of one recording, given the sum of its parts and the share that every part repeats."""
    times = len(parts) - 1
    found = structs.replace(
        added,
        recordings=1,
        observations=added.observations - times * repeated.observations,
        notes=_without_repeats(added.notes, repeated.notes, times),
        found=tuple(map(_capped_entities, added.found)),
        tolerated=tuple(map(_capped_entities, added.tolerated)),
    )
    reason = _reason(found, parts)
    return structs.replace(found, unknown={reason: 1} if reason else {})


def _without_repeats(counts: Mapping[str, int], repeated: Mapping[str, int], times: int) -> dict[str, int]:
    return {name: left for name, count in counts.items() if (left := count - times * repeated.get(name, 0))}


def _capped_entities(cause: GatheredCause) -> GatheredCause:
    return structs.replace(cause, entities=min(cause.entities, NAMED))


def _reason(found: Share, parts: Iterable[Share]) -> str:
    """Return why the recording could not be judged fully, or an empty string if it could."""
    idle = tells_of_none(found.entity)
    reasons = [next(iter(share.unknown), "") for share in parts]
    if others := sorted({*reasons} - {"", idle, NOTHING_CONCERNS, NOTHING_MET}, key=_reason_order):
        return others[0]
    # The remaining reasons apply only if every part reports a reason.
    if not all(reasons):
        return ""
    if NOTHING_MET in reasons:
        return NOTHING_MET
    return idle if found.observations and not found.entities else NOTHING_CONCERNS


def _reason_order(reason: str) -> tuple[int, str]:
    """Return the sort key of *reason*. Reasons without a line come first."""
    first, _, _ = reason.partition(":")
    word, _, number = first.partition(" ")
    return int(number) if word == "line" and number.isdecimal() else 0, reason
