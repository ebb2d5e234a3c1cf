"""Format a summary as text: either each cause with its first place, or the causes of each node or version."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Final, Literal, TypeAlias

from fsm.errors import visible
from fsm.fleet import NEVER, GatheredCause, Share, Summary
from fsm.machine import LEVELS, Level
from fsm.report import counts, severity, words
from fsm.report.layout import LABEL, PLAIN, Layout

By: TypeAlias = Literal["clause", "version", "node"]

_NODES: Final = 5
"""Maximum number of nodes listed per cause."""


def text(summary: Summary, layout: Layout = PLAIN, *, by: By = "clause", least: Level = "MUST") -> str:
    """Return the whole report, ending in a newline. Violations below level *least* are reported as surprises."""
    return "\n".join(_lines(summary, layout, by, least)) + "\n"


def _lines(summary: Summary, layout: Layout, by: By, least: Level) -> Iterator[str]:
    if by == "clause":
        for share in summary.of_all().shares:
            for word, cause in _causes(share, least):
                yield from layout.wrapped(_head(word, cause, share), marked=word)
                yield from _evidence(cause, layout, share, summary.nodes(share.machine, cause))
                yield ""
        for share in summary.of_all().shares:
            yield from _counts(share, layout, least)
    else:
        for name in sorted({getattr(share, by) for share in summary.shares}):
            group = Summary(shares=tuple(share for share in summary.shares if getattr(share, by) == name)).of_all()
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
    what = "others, too many to separate" if cause.others else words.short(cause.first[0].what)
    on = f", on {words.plural(cause.entities, share.entity)}" if cause.entities > 1 else ""
    return f"{word}: {what} — {words.often(cause.count)}{on}"


def _evidence(cause: GatheredCause, layout: Layout, share: Share, nodes: tuple[str, ...]) -> Iterator[str]:
    first = cause.first[0]
    place = f"{first.file}:{first.line} {words.moment(first.at) if first.at < NEVER else ''}"
    yield f"    {'first':<{LABEL}}{visible(place)}".rstrip()
    more = f" and {len(nodes) - _NODES:,} more" if len(nodes) > _NODES else ""
    yield from layout.row("nodes", f"{', '.join(nodes[:_NODES])}{more}")
    yield from layout.row(share.entity if len(share.entity) < LABEL else "entity", words.short(first.entity))
    yield from layout.row("clause", f"{cause.clause} ({cause.level}): {cause.says}")
    yield from layout.row("source", cause.source)
    yield from layout.row("known", cause.deviation)


def _counts(share: Share, layout: Layout, least: Level) -> Iterator[str]:
    answer = share.answer(least)
    yield from layout.wrapped(f"{share.machine} {answer.word}", marked=answer.word)
    found = [(word, cause.count) for word, cause in _causes(share, least)]
    size = {"recording": share.recordings, share.entity: share.entities, "observation": share.observations}
    yield from layout.wrapped(", ".join(words.tally_of(found, size, share.notes)), "    ")
    for reason, count in share.unknown.items():
        yield from layout.wrapped(f"unknown of {words.plural(count, 'recording')}: {reason}", "    ")
    exercised = sum(1 for row in share.cells.values() for count in row.values() if count)
    pairs = words.plural(sum(map(len, share.cells.values())), "(event, state) pair")
    yield from layout.wrapped(f"exercised {exercised} of {pairs}", "    ")
