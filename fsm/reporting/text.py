"""The report for people: verdict, causes, evidence, summary; as wide as the terminal."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from fsm.reporting import Answer, words
from fsm.verdict import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fsm.judging import Judged
    from fsm.reporting import Report
    from fsm.verdict import Deviated, Finding, Judgement, Violation

_LABEL: Final = 11
_NARROWEST: Final = 40
_COLOURS: Final = {Answer.HOLDS: "green", Answer.FAILS: "red", Answer.UNKNOWN: "yellow"}

def plain(text: str, _: str) -> str:
    """*text* without colour."""
    return text


def text(report: Report, *, width: int = 100, style: Callable[[str, str], str] = plain, coverage: bool = False) -> str:
    """The whole report, ending in a newline."""
    writer = _Writer(report=report, width=max(width, _NARROWEST), style=style, coverage=coverage)
    return "\n".join(writer.lines()) + "\n"


class _Writer:
    def __init__(self, *, report: Report, width: int, style: Callable[[str, str], str], coverage: bool) -> None:
        self.report = report
        self.width = width
        self.style = style
        self.coverage = coverage

    def lines(self) -> Iterator[str]:
        for judged in self.report.judged:
            yield from self._recording(judged)
            yield ""
        if len(self.report.judged) > 1:
            yield from self._overall()

    def _recording(self, judged: Judged) -> Iterator[str]:
        version = f" of containerd {judged.version}" if judged.version else ""
        yield from self._wrapped(f"{judged.name}: {judged.kind.value}{version}", marked=judged.name, how="bold")
        for judgement in judged.judgements:
            for finding in self.report.findings(judgement):
                yield ""
                yield from self._finding(finding, judgement)
            for each in judgement.tolerated:
                yield ""
                yield from self._tolerated(each, judgement)
        yield ""
        yield from self._summary(judged)

    # -- findings ----------------------------------------------------------

    def _finding(self, finding: Finding, judgement: Judgement) -> Iterator[str]:
        violation = finding.first[0]
        word, how = ("violation", "red") if self.report.fails(finding) else ("surprise", "yellow")
        level = violation.clause.level
        yield from self._wrapped(
            f"{word} ({level}): {words.short(words.what(violation))} — "
            f"{words.times(finding, judgement.machine.entity)}",
            indent="  ",
            marked=word,
            how=how,
        )
        yield from self._evidence(violation)
        if finding.count > 1:
            others = [f":{each.line}" for each in finding.first[1:]]
            rest = finding.count - 1 - len(others)
            if rest:
                others.append(f"{rest:,} more")
            yield from self._row("also at", ", ".join(others))

    def _evidence(self, violation: Violation) -> Iterator[str]:
        seen = violation.observation
        yield from self._row("where", f"{violation.file}:{violation.line}{f', {seen.at}' if seen.at else ''}")
        yield from self._row("entity", words.short(seen.entity))
        if seen.detail:
            yield from self._row("it said", words.short(seen.detail))
        yield from self._row("before", words.before(violation))
        yield from self._row("allowed", words.allowed(violation))
        clause = violation.clause
        yield from self._row("clause", f"{clause.name} ({clause.level}): {clause.says}")
        yield from self._row("source", clause.source)
        if clause.link:
            yield from self._row("", clause.link)
        yield from self._row("legal if", words.edits(violation))
        for each in violation.resembles:
            yield from self._row("known", words.resembles(each))

    def _tolerated(self, each: Deviated, judgement: Judgement) -> Iterator[str]:
        deviation = each.first.deviation
        often = "once" if each.count == 1 else f"{each.count:,} times"
        word = "tolerated deviation"
        said = f"{word} {deviation.name} of {deviation.profile} — {often}"
        yield from self._wrapped(said, indent="  ", marked=word, how="cyan")
        yield from self._row("where", f"{each.first.file}:{each.first.line}")
        yield from self._row("entity", words.short(each.first.observation.entity))
        yield from self._row("what", deviation.about)
        clause = deviation.clause
        yield from self._row("clause", f"{clause.name} of {judgement.machine.name} ({clause.level}): {clause.says}")
        until = f"until {deviation.until}" if deviation.until else ""
        yield from self._row("versions", f"{deviation.since} {until}".strip())
        yield from self._row("", deviation.link)

    # -- summary -----------------------------------------------------------

    def _summary(self, judged: Judged) -> Iterator[str]:
        for judgement in judged.judgements:
            yield from self._judgement(judgement)
        others = {name: count for name, count in judged.notes.items() if name != "lines"}
        lines = judged.notes.get("lines", 0)
        noted = "; ".join(f"{count:,} {name}" for name, count in others.items())
        yield from self._row("read", f"{words.plural(lines, 'line')}{f'; {noted}' if noted else ''}")
        yield f"    {'verdict':<{_LABEL}}{self._answer(self.report.of(judged))}"

    def _judgement(self, judgement: Judgement) -> Iterator[str]:
        verdict = judgement.verdict
        counts = [
            words.plural(judgement.entities, judgement.machine.entity),
            words.plural(judgement.observations, "observation"),
        ]
        found = self.report.findings(judgement)
        for word, number in (
            ("violation", sum(each.count for each in found if self.report.fails(each))),
            ("surprise", sum(each.count for each in found if not self.report.fails(each))),
            ("tolerated deviation", sum(each.count for each in judgement.tolerated)),
        ):
            if number:
                counts.append(words.plural(number, word))
        cells = judgement.covered.cells
        met = sum(1 for count in cells.values() if count)
        counts.append(f"{met} of {words.plural(len(cells), 'cell')} met, {len(cells) - met} not")
        counts += [words.plural(count, name) if count == 1 else f"{count:,} × {name}" for name, count in judgement.notes.items()]
        answer = self.report.answer(judgement)
        word = answer.name.lower()
        why = f" ({verdict.why})" if isinstance(verdict, Unknown) else ""
        said = f"{judgement.machine.name} {word}{why}: {', '.join(counts)}"
        yield from self._wrapped(said, indent="  ", marked=word, how=_COLOURS[answer])
        if self.coverage:
            yield from self._cells(judgement)

    def _cells(self, judgement: Judgement) -> Iterator[str]:
        """Every cell of the table: how often it was met, and which never were."""
        by_event: dict[str, list[str]] = defaultdict(list)
        for (event, state), count in judgement.covered.cells.items():
            by_event[event].append(f"{state} {count:,}" if count else f"{state} -")
        for event, cells in by_event.items():
            yield from self._wrapped(f"{event}: {', '.join(cells)}", indent="    ")

    def _overall(self) -> Iterator[str]:
        longest = max(len(judged.name) for judged in self.report.judged)
        for judged in self.report.judged:
            yield f"{judged.name:<{longest}}  {self._answer(self.report.of(judged))}"

    def _answer(self, answer: Answer) -> str:
        return self.style(answer.name.lower(), _COLOURS[answer])

    def _row(self, label: str, value: str) -> Iterator[str]:
        if value:
            lead = f"    {label:<{_LABEL}}"
            yield from textwrap.wrap(
                value,
                self.width,
                initial_indent=lead,
                subsequent_indent=" " * len(lead),
                break_long_words=False,
                break_on_hyphens=False,
            )

    def _wrapped(self, value: str, *, indent: str = "", marked: str = "", how: str = "") -> Iterator[str]:
        """*value* in lines; its first *marked* gets the colour *how*, after the line breaks are known."""
        for line in textwrap.wrap(
            value,
            self.width,
            initial_indent=indent,
            subsequent_indent=f"{indent}    ",
            break_long_words=False,
            break_on_hyphens=False,
        ):
            if marked and marked in line:
                yield line.replace(marked, self.style(marked, how), 1)
                marked = ""
            else:
                yield line
