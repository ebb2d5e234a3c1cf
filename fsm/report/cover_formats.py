"""Format a report on coverage for the terminal, as Markdown, or as HTML."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from operator import attrgetter
from typing import Final

from fsm.errors import visible
from fsm.report.cover_report import CoveredMachine, CoverReport, CoverRow, Standing
from fsm.report.layout import PLAIN, Layout, joined
from fsm.report.words import grouped

_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>()#|!~&])")


@joined
def text(cover: CoverReport, layout: Layout = PLAIN) -> Iterator[str]:
    numbers = cover.numbers()
    for machine in cover.machines:
        yield from layout.wrapped(f"{machine.name}: {machine.summary()}", "", marked=machine.name)
    yield ""
    for side, those in groupby(cover.listed(), key=attrgetter("side")):
        if cover.against:
            yield f"{side} set"
        yield from (f"{each.number:>3}  {each.name}: {each.kind}, {each.verdict}" for each in those)
    if cover.shell:
        yield from ("", "run these lines once, before any of the lines below:")
        yield from (f"      {line}" for line in cover.client.preamble.splitlines())
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
        uncovered = f"not covered, {why}: {len(those)}{_cell_list(those)}"
        yield from layout.wrapped(uncovered, marked="not covered", how="cyan")
    for standing, about, rows in machine.missing():
        how = "yellow" if standing is Standing.CALLS else "cyan"
        yield from layout.wrapped(f"not covered, {about}: {len(rows)}", marked="not covered", how=how)
        for row in rows:
            yield f"    {row.name}" if row.lines else f"    {row.name}: {row.steps}"
            yield from (f"      {line}" for line in row.lines)


def _state_count(row: CoverRow, numbers: Mapping[str, str]) -> str:
    return f"{sum(row.counts.values()):,} in {row.cell[1]} {_recording_numbers(row.counts, numbers)}"


def _recording_numbers(counts: Iterable[str], numbers: Mapping[str, str]) -> str:
    """Return the numbers of the recordings in *counts*. Three or more consecutive numbers become a range.

    >>> _recording_numbers("abdef", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"})
    '[1 2 4-6]'
    """
    met = sorted(int(numbers[name]) for name in counts)
    # The difference between number and index is constant in a range of consecutive numbers.
    ranges = [[number for _, number in those] for _, those in groupby(enumerate(met), lambda pair: pair[1] - pair[0])]
    parts = (f"{each[0]}-{each[-1]}" if len(each) > 2 else " ".join(map(str, each)) for each in ranges)  # noqa: PLR2004
    return f"[{' '.join(parts)}]"


def _cell_list(rows: Sequence[CoverRow]) -> str:
    by_event = groupby(rows, key=lambda row: row.cell[0])
    events = grouped((tuple(row.cell[1] for row in those), event) for event, those in by_event)
    parts = [f"{', '.join(names)} in {', '.join(states)}" for states, names in events.items()]
    return f": {'; '.join(parts)}" if parts else ""


@joined
def markdown(cover: CoverReport) -> Iterator[str]:
    numbers = cover.numbers()
    yield from ("# Coverage of the specification", "", "| | recording | kind | verdict |", "|---|---|---|---|")
    for each in cover.listed():
        side = f" ({each.side})" if cover.against else ""
        yield f"| {each.number}{side} | {_markdown_text(each.name)} | {_markdown_text(each.kind)} | {each.verdict} |"
    if cover.shell:
        yield from ("", "Run these lines once, before any of the lines below:", "")
        yield from ("```sh", *cover.client.preamble.splitlines(), "```")
    for machine in cover.machines:
        yield from ("", f"## {_markdown_text(machine.name)}", "", f"{machine.summary()}.", "")
        yield from _table(machine, numbers)
        if machine.compared:
            yield from ("", *_markdown_list(machine.sides()))
        if beyond := machine.beyond():
            yield from ("", "Not covered, and impossible to cover by calls alone:", "", *_markdown_list(beyond))
        for _, about, rows in machine.missing():
            yield from ("", f"Not covered, {about}:", "", "```sh")
            for row in rows:
                yield from (f"# {row.name}", *(row.lines or (f"# {row.steps}",)))
            yield "```"


def _markdown_list(rows: Mapping[str, Sequence[CoverRow]]) -> Iterator[str]:
    for about, those in rows.items():
        yield f"- {_markdown_text(about)}: {len(those)}{_markdown_text(_cell_list(those))}"


def _table(machine: CoveredMachine, numbers: Mapping[str, str]) -> Iterator[str]:
    yield from ("| event | covered | by calls | open | beyond |", "|---|---|---|---|---|")
    for event, rows in groupby(machine.rows, key=lambda row: row.cell[0]):
        states = grouped((row.standing, row) for row in rows)
        met = [_state_count(row, numbers) for row in states.get(Standing.COVERED, ())]
        rest = len(states.get(Standing.BEYOND, ()))
        missing = ([row.cell[1] for row in states.get(each, ())] for each in (Standing.CALLS, Standing.OPEN))
        cells = ([event], met, *missing, [f"{rest}"] if rest else [])
        yield f"| {' | '.join(_markdown_text('; '.join(those)) for those in cells)} |"


def _markdown_text(value: str) -> str:
    return _MARKUP.sub(r"\\\1", visible(" ".join(value.split())))


_MARKS: Final[Mapping[Standing, str]] = {Standing.CALLS: "calls", Standing.OPEN: "open", Standing.BEYOND: "·"}


def _escape_html(value: str) -> str:
    return escape(visible(value))


@joined
def html(cover: CoverReport) -> Iterator[str]:
    style = files("fsm.report").joinpath("cover.css").read_text(encoding="utf-8")
    yield f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>Coverage of the specification</title>
<style>
{style}</style>
</head>
<body>
<h1>Coverage of the specification</h1>"""
    yield '<div class="wide"><table><thead><tr><th>number<th>recording<th>kind<th>verdict</tr></thead><tbody>'
    for recording in cover.listed():
        side = f" {recording.side} set" if cover.against else ""
        cells = (f"{recording.number}{side}", escape(recording.name), escape(recording.kind), recording.verdict)
        yield f'<tr><td class="number">{"<td>".join(cells)}</tr>'
    yield "</tbody></table></div>"
    if any(row.lines for machine in cover.machines for row in machine.rows):
        preamble = "\n".join(map(_escape_html, cover.client.preamble.splitlines()))
        yield from ("<h2>To run once, before the lines of any pair</h2>", f"<pre>{preamble}</pre>")
    for machine in cover.machines:
        yield from _html_machine(machine, cover.numbers())
    yield from ("</body>", "</html>")


def _html_machine(machine: CoveredMachine, numbers: Mapping[str, str]) -> Iterator[str]:
    yield f"<h2>{_escape_html(machine.name)}</h2>"
    yield f"<p>{_escape_html(machine.summary())}.</p>"
    yield '<p class="key"><span class="covered">12</span>number of times it was covered '
    yield '<span class="calls">calls</span>not covered, although a client can cover it by calls alone '
    yield '<span class="open">open</span>a client exercises it by calls alone, but the recording does not prove it '
    yield '<span class="beyond">·</span>not covered, and calls alone cannot cover it'
    if machine.compared:
        yield ' <span class="first">n</span>only in the first set <span class="second">n</span>only in the second set'
    yield "</p>"
    yield from _html_table(machine, numbers)
    for _, about, rows in machine.missing():
        yield f"<h3>Not covered, {about}: {len(rows)}</h3>"
        yield from map(_client_path, rows)
    for why, those in machine.beyond().items():
        yield f"<h3>Not covered, {_escape_html(why)}: {len(those)}</h3>"
        yield from (_client_path(row) for row in those if row.path.steps)
        if pathless := [_escape_html(row.name) for row in those if not row.path.steps]:
            yield f"<p>{', '.join(pathless)}</p>"
    yield from _counts(machine, numbers)


def _html_table(machine: CoveredMachine, numbers: Mapping[str, str]) -> Iterator[str]:
    states = [*machine.coverage.machine.states]
    heads = "".join(f'<th scope="col">{_escape_html(state)}' for state in states)
    yield f'<div class="wide"><table><thead><tr><th>{heads}</tr></thead><tbody>'
    for event, group in groupby(machine.rows, key=lambda row: row.cell[0]):
        rows = {row.cell[1]: row for row in group}
        cells = (_cell(rows[each], numbers, machine) if each in rows else "<td>" for each in states)
        yield f'<tr><th scope="row">{_escape_html(event)}{"".join(cells)}</tr>'
    yield "</tbody></table></div>"


def _cell(row: CoverRow, numbers: Mapping[str, str], machine: CoveredMachine) -> str:
    total = sum(row.counts.values())
    side = "" if not machine.compared or bool(row.counts) == bool(row.others) else " first" if row.counts else " second"
    kind = row.standing.name.lower() + side
    about = "; ".join(_counted(row.counts, numbers)) or row.why
    title = f' title="{_escape_html(about)}"' if about else ""
    return f'<td class="{kind} number"{title}>{f"{total:,}" if total else _MARKS[row.standing]}'


def _counted(counts: Mapping[str, int], numbers: Mapping[str, str]) -> Iterator[str]:
    return (f"{numbers[name]}: {count:,}" for name, count in counts.items())


def _client_path(row: CoverRow) -> str:
    steps = _escape_html(row.steps)
    lines = "\n".join(map(_escape_html, row.lines))
    shell = f"<pre>{lines}</pre>" if lines else ""
    return f"<details><summary>{_escape_html(row.name)}</summary><p>{steps}</p>{shell}</details>"


def _counts(machine: CoveredMachine, numbers: Mapping[str, str]) -> Iterator[str]:
    yield "<details><summary>How often each recording covered each (event, state) pair</summary><table>"
    yield "<thead><tr><th>event and state<th>recordings</tr></thead><tbody>"
    for row in machine.rows:
        if both := {**row.counts, **row.others}:
            yield f"<tr><td>{_escape_html(row.name)}<td>{', '.join(_counted(both, numbers))}</tr>"
    yield "</tbody></table></details>"
