"""Coverage by recordings as terminal text and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from fsm.errors import visible
from fsm.report.cover_report import CoveredMachine, CoverReport, CoverRow, Standing, path_of
from fsm.report.layout import PLAIN, Layout
from fsm.report.words import grouped

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>()#|!~&])")


def text(cover: CoverReport, layout: Layout = PLAIN) -> str:
    """Return the complete table as lines, ending in a newline."""
    return "\n".join(_lines(cover, layout)) + "\n"


def _lines(cover: CoverReport, layout: Layout) -> Iterator[str]:
    numbers = cover.numbers()
    for machine in cover.machines:
        yield from layout.wrapped(f"{machine.name}: {machine.summary()}", "", marked=machine.name)
    yield ""
    for side, those in groupby(cover.listed(), key=attrgetter("side")):
        if cover.against:
            yield f"{side} set"
        yield from (f"{each.number:>3}  {each.name}: {each.kind}, {each.verdict}" for each in those)
    if cover.shell:
        yield from (
            "",
            "run once, before any of the lines below:",
            *(f"      {line}" for line in cover.client.preamble.splitlines()),
        )
    for machine in cover.machines:
        yield from ("", layout.style(machine.name, "bold"))
        yield from _machine(machine, numbers, layout)


def _machine(machine: CoveredMachine, numbers: Mapping[str, str], layout: Layout) -> Iterator[str]:
    for event, met in groupby(machine.standing(Standing.COVERED), key=lambda row: row.cell[0]):
        yield from layout.wrapped(f"{event}: {'; '.join(_state_count(row, numbers) for row in met)}")
    if machine.compared:
        for side, those in machine.sides().items():
            yield from layout.wrapped(f"{side}: {len(those)}{_cell_list(those)}", marked=side)
    for why, those in machine.beyond().items():
        yield from layout.wrapped(
            f"not covered, {why}: {len(those)}{_cell_list(those)}", marked="not covered", how="cyan"
        )
    for standing, about, rows in machine.missing():
        how = "yellow" if standing is Standing.CALLS else "cyan"
        yield from layout.wrapped(f"not covered, {about}: {len(rows)}", marked="not covered", how=how)
        for row in rows:
            yield f"    {row.name}" if row.lines else f"    {row.name}: {path_of(row)}"
            yield from (f"      {line}" for line in row.lines)


def _state_count(row: CoverRow, numbers: Mapping[str, str]) -> str:
    return f"{sum(row.counts.values()):,} in {row.cell[1]} {_recording_numbers(row.counts, numbers)}"


def _recording_numbers(counts: Iterable[str], numbers: Mapping[str, str]) -> str:
    """Return the numbers of the recordings in *counts*.  Three or more consecutive numbers become a range.

    >>> _recording_numbers("abdef", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"})
    '[1 2 4-6]'
    """
    met = sorted(int(numbers[name]) for name in counts)
    ranges: list[list[int]] = []
    for number in met:
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    parts = (f"{each[0]}-{each[-1]}" if len(each) > 2 else " ".join(map(str, each)) for each in ranges)  # noqa: PLR2004
    return f"[{' '.join(parts)}]"


def _cell_list(rows: Sequence[CoverRow]) -> str:
    by_event = groupby(rows, key=lambda row: row.cell[0])
    events = grouped((tuple(row.cell[1] for row in those), event) for event, those in by_event)
    parts = [f"{', '.join(names)} in {', '.join(states)}" for states, names in events.items()]
    return f": {'; '.join(parts)}" if parts else ""


def markdown(cover: CoverReport) -> str:
    """Return the complete table as Markdown, ending in a newline."""
    return "\n".join(_markdown(cover)) + "\n"


def _markdown(cover: CoverReport) -> Iterator[str]:
    numbers = cover.numbers()
    yield from ("# Coverage of the specification", "", "| | recording | kind | verdict |", "|---|---|---|---|")
    for each in cover.listed():
        side = f" ({each.side})" if cover.against else ""
        yield f"| {each.number}{side} | {_escaped(each.name)} | {_escaped(each.kind)} | {each.verdict} |"
    if cover.shell:
        yield from ("", "Before any of the lines below, once:", "", "```sh", *cover.client.preamble.splitlines(), "```")
    for machine in cover.machines:
        yield from ("", f"## {_escaped(machine.name)}", "", f"{machine.summary()}.", "")
        yield from _table(machine, numbers)
        if machine.compared:
            yield ""
            yield from (
                f"- {side}: {len(those)}{_escaped(_cell_list(those))}" for side, those in machine.sides().items()
            )
        if beyond := machine.beyond():
            yield from ("", "Not covered, and beyond calls alone:", "")
            yield from (
                f"- {_escaped(why)}: {len(those)}{_escaped(_cell_list(those))}" for why, those in beyond.items()
            )
        for _, about, rows in machine.missing():
            yield from ("", f"Not covered, {about}:", "", "```sh")
            for row in rows:
                yield from (f"# {row.name}", *(row.lines or (f"# {path_of(row)}",)))
            yield "```"


def _table(machine: CoveredMachine, numbers: Mapping[str, str]) -> Iterator[str]:
    yield from ("| event | covered | by calls | open | beyond |", "|---|---|---|---|---|")
    for event, cells_of_event in groupby(machine.rows, key=lambda row: row.cell[0]):
        rows = tuple(cells_of_event)
        met = [_state_count(row, numbers) for row in rows if row.standing is Standing.COVERED]
        calls, open_ = (
            [row.cell[1] for row in rows if row.standing is standing] for standing in (Standing.CALLS, Standing.OPEN)
        )
        rest = sum(row.standing is Standing.BEYOND for row in rows)
        cells = ([event], met, calls, open_, [f"{rest}"] if rest else [])
        yield f"| {' | '.join(_escaped('; '.join(those)) for those in cells)} |"


def _escaped(value: str) -> str:
    return _MARKUP.sub(r"\\\1", visible(" ".join(value.split())))
