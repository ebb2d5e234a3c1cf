"""Combine the results of many recordings, even if they were judged on different machines.

Summaries can be added in any order. Results are grouped by node, program version, machine and profile.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias, TypeVar

from msgspec import Struct, structs
from msgspec.json import Decoder, encode

from fsm.errors import contents, encodable, harmless, refused, visible
from fsm.machine import LEVELS, Clause, Level
from fsm.machine.findings import Deviated, Finding, Judgement, Tolerated, Violation
from fsm.monitor.judgement import Judged
from fsm.recordings.line_reader import decode
from fsm.report import ExitCode, Report, counts, severity, words
from fsm.report import worst as worst_of
from fsm.report.json_report import json_escape
from fsm.report.layout import LABEL, PLAIN, Layout, joined
from fsm.trace import seen_at

FORMAT: Final = "container-fsm-summary/1"

_HINT: Final = "'fsm judge --format summary' writes a summary"

_LARGEST: Final = 1 << 28  # maximum size of a summary in bytes

_KEPT: Final = 3  # number of places to keep for each cause, starting with the earliest

NEVER: Final = 1 << 63  # replaces an unknown time, so that places without a time are sorted last


class FirstPlace(Struct, frozen=True, order=True, kw_only=True):
    """The place of a violation. Places are ordered by time. ``what`` describes the violation."""

    at: int
    node: str
    file: str
    line: int
    entity: str
    what: str


class GatheredCause(Struct, frozen=True, kw_only=True):
    """All violations with the same cause, or all uses of a tolerated deviation.

    If ``others`` is true, these are all violations of one level whose causes are not listed separately.
    """

    clause: str
    level: Level
    says: str
    source: str
    cause: str
    event: str
    illegal: str
    deviation: str
    count: int
    entities: int
    first: tuple[FirstPlace, ...]
    others: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        if self.others:
            return self.level, "others"
        return self.level, self.clause, self.event, self.cause, self.illegal, self.deviation

    def plus(self, other: "GatheredCause") -> "GatheredCause":
        """Add two causes that have the same :attr:`key`."""
        return structs.replace(
            min(self, other, key=attrgetter("clause", "says", "source", "cause", "event", "illegal", "deviation")),
            count=self.count + other.count,
            entities=self.entities + other.entities,
            first=tuple(sorted({*self.first, *other.first}))[:_KEPT],
        )


class Share(Struct, frozen=True, kw_only=True):
    """Results for a node, version, machine and profile.

    ``unknown`` counts the recordings that were not judged fully, by reason.
    """

    node: str
    version: str
    machine: str
    entity: str
    profile: str
    recordings: int
    entities: int
    observations: int
    unknown: Mapping[str, int]
    notes: Mapping[str, int]
    cells: Mapping[str, Mapping[str, int]]
    fields: Mapping[str, int]
    found: tuple[GatheredCause, ...]
    tolerated: tuple[GatheredCause, ...]

    @property
    def key(self) -> tuple[str, ...]:
        return self.node, self.version, self.machine, self.profile

    def plus(self, other: "Share") -> "Share":
        return structs.replace(
            self,
            entity=min(self.entity, other.entity),
            recordings=self.recordings + other.recordings,
            entities=self.entities + other.entities,
            observations=self.observations + other.observations,
            unknown=_add_counts(self.unknown, other.unknown),
            notes=_add_counts(self.notes, other.notes),
            cells={
                event: _add_counts(self.cells.get(event, {}), other.cells.get(event, {}))
                for event in sorted({*self.cells, *other.cells})
            },
            fields=_add_counts(self.fields, other.fields),
            found=_sum_by_key((*self.found, *other.found)),
            tolerated=_sum_by_key((*self.tolerated, *other.tolerated)),
        )

    def answer(self, least: Level) -> ExitCode:
        if any(counts(cause.level, least) for cause in self.found):
            return ExitCode.FAILS
        return ExitCode.UNKNOWN if self.unknown else ExitCode.HOLDS


class Summary(Struct, frozen=True, kw_only=True):
    """The combined results of recordings.

    ``shares`` contains a share for each key, sorted by key. ``notes`` counts the lines and each kind of note on them.
    """

    format: str = FORMAT
    notes: Mapping[str, int] = {}
    shares: tuple[Share, ...]

    def __add__(self, other: "Summary") -> "Summary":
        return total((self, other))

    def of_all(self) -> "Summary":
        """Combine the shares of each machine across nodes, versions and profiles."""
        shares = (structs.replace(share, node="", version="", profile="") for share in self.shares)
        return total([structs.replace(self, shares=tuple(shares))])

    def nodes(self, machine: str, cause: GatheredCause) -> tuple[str, ...]:
        shares = (share for share in self.shares if share.machine == machine and share.node)
        found = {each.node for each in shares for one in (*each.found, *each.tolerated) if one.key == cause.key}
        return tuple(sorted(found))

    def answer(self, least: Level = "MUST") -> ExitCode:
        return worst_of([share.answer(least) for share in self.shares])


_DECODER: Final = Decoder(Summary)
_Part = TypeVar("_Part", GatheredCause, Share)


def total(summaries: Iterable[Summary], node: str = "") -> Summary:
    """Add up *summaries*. Shares without a node are assigned to *node*."""
    notes: Counter[str] = Counter()

    def counted() -> Iterator[Share]:
        for summary in summaries:
            notes.update(summary.notes)
            yield from (_assign_node(share, node) if node and not share.node else share for share in summary.shares)

    shares = _sum_by_key(counted())  # reads one summary at a time, and counts its notes
    return Summary(notes=dict(sorted(notes.items())), shares=shares)


def _sum_by_key(parts: Iterable[_Part]) -> tuple[_Part, ...]:
    """Add up the causes or shares with the same key, and sort them by key."""
    found: dict[tuple[str, ...], _Part] = {}
    for part in parts:
        found[part.key] = found[part.key].plus(part) if part.key in found else part
    return tuple(found[key] for key in sorted(found))


def summarise(judged: Iterable[Judged], *, node: str = "") -> Summary:
    return total(
        Summary(notes=one.notes, shares=tuple(_share(judgement, one, node) for judgement in one.judgements))
        for one in judged
    )


def summary(report: Report) -> str:
    return written(summarise(report.judged))


def written(found: Summary) -> str:
    r"""Return the summary as a line of JSON, with control characters escaped.

    >>> print(written(Summary(notes={"a\x7f": 1}, shares=())), end="")
    {"format":"container-fsm-summary/1","notes":{"a\u007f":1},"shares":[]}
    """
    return harmless(encode(found).decode(), json_escape) + "\n"


def read(path: str) -> Summary:
    """Read a summary from a file. Raise :class:`InputError` if the file does not contain a summary."""
    data = contents(path, most=_LARGEST, code="FSM218", hint=_HINT, dash=True)
    try:
        found = decode(data, _DECODER)
    except ValueError as error:
        raise refused(path, "FSM218", f"the file is not a summary: {error}", _HINT) from error
    if found.format != FORMAT:
        what = f"the file is a summary in the format '{found.format}', but only {FORMAT} can be read"
        raise refused(path, "FSM218", what, _HINT)
    return found


def _share(judgement: Judgement, judged: Judged, node: str) -> Share:
    reason = judgement.why
    return Share(
        node=node,
        version=judged.version,
        machine=judgement.machine.name,
        entity=judgement.machine.entity,
        profile=judged.profile,
        recordings=1,
        entities=judgement.entities,
        observations=judgement.observations,
        unknown={reason: 1} if reason else {},
        notes=_add_counts(judgement.notes, {}),
        cells=words.nested(dict(sorted(judgement.covered.cells.items()))),
        fields=_add_counts(judgement.covered.fields, {}),
        found=_sum_by_key(_gathered_cause(finding, node) for finding in judgement.findings),
        tolerated=_sum_by_key(_tolerated_cause(deviated, node) for deviated in judgement.tolerated),
    )


def _gathered_cause(finding: Finding, node: str) -> GatheredCause:
    violation, known = finding.first[0], not finding.others
    deviations = {deviation.name for deviation in violation.resembles}
    return _of(
        violation.clause,
        cause=violation.cause.value if known else "",
        event=violation.observation.event if known else "",
        illegal=violation.illegal if known else "",
        deviation=", ".join(sorted(deviations)) if known else "",
        count=finding.count,
        entities=finding.entities,
        first=tuple(sorted(_place(each, words.what(each), node) for each in finding.first))[:_KEPT],
        others=finding.others,
    )


def _tolerated_cause(deviated: Deviated, node: str) -> GatheredCause:
    first = deviated.first
    return _of(
        first.deviation.clause,
        cause="",
        event=first.deviation.event,
        illegal="",
        deviation=", ".join(sorted({deviation.name for deviation in (first.deviation, *first.others)})),
        count=deviated.count,
        entities=0,
        first=(_place(first, words.tolerated(first), node),),
    )


def _of(clause: Clause, **others: Any) -> GatheredCause:  # noqa: ANN401  (the other fields of the result)
    return GatheredCause(clause=clause.name, level=clause.level, says=clause.says, source=clause.source, **others)


def _place(found: Violation | Tolerated, what: str, node: str) -> FirstPlace:
    at = seen_at(found.observation)
    return FirstPlace(
        at=NEVER if at is None else at,
        node=node,
        file=encodable(found.file),
        line=found.line,
        entity=found.observation.entity,
        what=what,
    )


def _add_counts(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}


def _assign_node(share: Share, node: str) -> Share:
    def placed(causes: tuple[GatheredCause, ...]) -> tuple[GatheredCause, ...]:
        return tuple(
            structs.replace(cause, first=tuple(structs.replace(place, node=node) for place in cause.first))
            for cause in causes
        )

    return structs.replace(share, node=node, found=placed(share.found), tolerated=placed(share.tolerated))


By: TypeAlias = Literal["clause", "version", "node"]

_NODES: Final = 5


@joined
def text(summary: Summary, layout: Layout = PLAIN, *, by: By = "clause", least: Level = "MUST") -> Iterator[str]:
    if by == "clause":
        shares = summary.of_all().shares
        for share in shares:
            for word, cause in _causes(share, least):
                yield from layout.wrapped(_head(word, cause, share), marked=word)
                yield from _evidence(cause, layout, share, summary.nodes(share.machine, cause))
                yield ""
        for share in shares:
            yield from _counts(share, layout, least)
    else:
        groups = words.grouped((getattr(share, by), share) for share in summary.shares)
        for name in sorted(groups):
            group = Summary(shares=tuple(groups[name])).of_all()
            title = name or f"no {by} is known"
            yield from layout.kept(f"{title}: {group.answer(least).word}", "", marked=title)
            for share in group.shares:
                yield from _counts(share, layout, least)
                for word, cause in _causes(share, least):
                    yield from layout.wrapped(_head(word, cause, share), "    ", marked=word)
            yield ""
    counts = [words.plural(summary.notes.get("lines", 0), "line")]
    for column in ("node", "version"):
        names = {getattr(share, column) for share in summary.shares} - {""}
        counts += [words.plural(len(names), column)] if names else []
    yield from layout.wrapped(", ".join(counts))
    yield f"  verdict: {layout.verdict(summary.answer(least))}"


def _causes(share: Share, least: Level) -> Iterator[tuple[str, GatheredCause]]:
    for cause in sorted(share.found, key=lambda each: (-LEVELS.index(each.level), -each.count)):
        yield severity(fails=counts(cause.level, least)), cause
    for cause in sorted(share.tolerated, key=attrgetter("count"), reverse=True):
        yield "tolerated deviation", cause


def _head(word: str, cause: GatheredCause, share: Share) -> str:
    what = "other causes, which are too many to list" if cause.others else words.short(cause.first[0].what)
    on = f", on {words.plural(cause.entities, share.entity)}" if cause.entities > 1 else ""
    return f"{word}: {what} — {words.often(cause.count)}{on}"


def _evidence(cause: GatheredCause, layout: Layout, share: Share, nodes: tuple[str, ...]) -> Iterator[str]:
    first = cause.first[0]
    place = f"{first.file}:{first.line} {words.moment(first.at) if first.at < NEVER else ''}"
    yield f"    {'first':<{LABEL}}{visible(place)}".rstrip()
    more = f" and {len(nodes) - _NODES:,} more" if len(nodes) > _NODES else ""
    yield from layout.rows(
        ("nodes", f"{', '.join(nodes[:_NODES])}{more}"),
        (share.entity if len(share.entity) < LABEL else "entity", words.short(first.entity)),
        ("clause", f"{cause.clause} ({cause.level}): {cause.says}"),
        ("source", cause.source),
        ("known", cause.deviation),
    )


def _counts(share: Share, layout: Layout, least: Level) -> Iterator[str]:
    answer = share.answer(least)
    yield from layout.wrapped(f"{share.machine} {answer.word}", marked=answer.word)
    found = [(word, cause.count) for word, cause in _causes(share, least)]
    size = {"recording": share.recordings, share.entity: share.entities, "observation": share.observations}
    yield from layout.notes(
        ", ".join(words.tally_of(found, size, share.notes)),
        *(f"unknown of {words.plural(count, 'recording')}: {reason}" for reason, count in share.unknown.items()),
        words.exercised([count for row in share.cells.values() for count in row.values()]),
        first="    ",
    )
