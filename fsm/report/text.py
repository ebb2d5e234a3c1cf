"""Report judged recordings as text, with findings, evidence, the histories of entities, and a summary."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from fsm.errors import documented, visible
from fsm.machine import Clause
from fsm.machine.calls.unobserved import ASSUMED
from fsm.machine.evidence import UsedCell
from fsm.machine.findings import Cause, Deviated, Finding, Judgement, Tolerated, Violation
from fsm.machine.table import UNSPECIFIED, Done
from fsm.monitor.judgement import Judged
from fsm.monitor.judgement.part import Story
from fsm.monitor.provenance import Provenance, RuledOut, provenance
from fsm.recordings.form import HISTORY, own_forms
from fsm.report import Report, single, words
from fsm.report.lanes import stretch_lines
from fsm.report.layout import LABEL, PLAIN, Layout, joined
from fsm.trace import Line


@joined
def text(report: Report, layout: Layout = PLAIN, *, coverage: bool = False) -> Iterator[str]:
    return _Writer(report, layout, coverage=coverage).lines()


def violation_text(violation: Violation, entity: str, report: Report, layout: Layout = PLAIN, *, known: bool) -> str:
    """Describe *violation*, in a single line if its cause is already *known*. *entity* is a noun such as ``door``."""
    writer = _Writer(report, layout, coverage=False)
    if not known:
        return "\n".join([*writer.finding(single(violation), entity), ""])
    what, who = words.short(words.what(violation)), words.short(violation.observation.entity)
    place = f"{'stdin' if violation.file == '-' else violation.file}:{violation.line}"
    again = f"{report.word(single(violation))}: {what} — again, {entity} {who}, {place}"
    return visible(f"{again} {words.moment(violation.observation.at)}".rstrip()) + "\n"


class _Writer:
    def __init__(self, report: Report, layout: Layout, *, coverage: bool) -> None:
        self.report, self.layout, self.coverage = report, layout, coverage

    def lines(self) -> Iterator[str]:
        for number, judged in enumerate(self.report.judged):
            if number:
                yield ""
            yield from self._recording(judged)
        if len(self.report.judged) + len(self.report.problems) > 1:
            yield ""
            for judged in self.report.judged:
                yield f"{self.layout.verdict(self.report.of(judged), pad=7)}  {visible(words.file(judged.name))}"
            for problem in self.report.problems:
                yield f"{self.layout.style('wrong  ', 'red')}  {visible(words.file(problem.path))}: {problem.what}"

    def _recording(self, judged: Judged) -> Iterator[str]:
        form = judged.form.title if judged.form.name else "no form of recording that fsm knows"
        version = f" of {visible(judged.version)}" if judged.version else ""
        yield f"{self.layout.style(visible(words.file(judged.name)), 'bold')}: {form}{version}"
        for story in judged.stories:
            yield ""
            yield from (
                chain(story, self.report, self.layout, judged.name) if story.until else self._story(story, judged.name)
            )
        if any(story.until for story in judged.stories):
            yield f"\n  verdict: {self.layout.verdict(self.report.of(judged))}"
            return
        for judgement in judged.judgements:
            for finding in self.report.findings(judgement):
                yield ""
                yield from self.finding(finding, judgement.machine.entity)
            for deviated in judgement.tolerated:
                yield ""
                yield from self._tolerated_lines(deviated, judgement)
        yield ""
        yield from self._summary(judged)

    def finding(self, finding: Finding, entity: str) -> Iterator[str]:
        violation = finding.first[0]
        word = self.report.word(finding)
        head = f"{word}: {words.short(words.what(violation))} — {words.times(finding, entity)}"
        yield from self.layout.wrapped(head, marked=word)
        yield from self._place(violation, entity)
        detail = violation.observation.detail
        yield from self.layout.rows(("message", words.short(detail) if detail not in head else ""))
        yield from self.layout.reasons(violation)
        others = ", ".join(words.place(Line(each.file, each.line), violation.file) for each in finding.first[1:])
        rest = finding.count - len(finding.first)
        sentence, *lines = tuple(stretch_lines(violation)) or ("",)
        yield from self.layout.rows(
            ("also at", f"{others} and {rest:,} more" if rest and others else others), ("stretch", sentence)
        )
        yield from (f"      {line}".rstrip() for line in lines)

    def _story(self, story: Story, file: str) -> Iterator[str]:
        named = f", {visible(max(story.names, key=len))}" if story.names else ""
        head = self.layout.style(f"{story.machine.entity} {words.short(visible(story.entity))}{named}", "bold")
        yield f"{head}: {words.plural(len(story.steps), 'observation')}, by {story.machine.name}"
        for step in story.steps:
            moved = f" → {words.either(step.after)}" if step.after != step.before else ""
            what = f"{words.moment(step.seen.at)} {words.place(step.place, file)} {words.seen(step.seen)}{moved}"
            yield from self.layout.wrapped(words.short(what))
            yield from self.layout.rows(*(("tolerated", name) for name in step.tolerated))
            for violation in step.violations:
                word = self.report.word(single(violation))
                yield from self.layout.wrapped(f"{word}: {words.short(words.what(violation))}", "    ", marked=word)
                clause = f"{violation.clause.name} ({violation.clause.level})"
                yield from self.layout.rows(("expected", words.allowed(violation)), ("clause", clause))

    def _place(self, found: Violation | Tolerated, entity: str) -> Iterator[str]:
        place = visible(f"{'stdin' if found.file == '-' else found.file}:{found.line}")
        moment = visible(words.moment(found.observation.at))
        one = f"    {'where':<{LABEL}}{place}"
        fits = moment and len(one) + len(moment) + 1 <= self.layout.width
        # The line is not wrapped, so that the path can be copied.
        yield f"{one} {moment}" if fits else one
        yield from self.layout.rows(
            ("", "" if fits else moment),
            (entity if len(entity) < LABEL else "entity", words.short(found.observation.entity)),
        )

    def _tolerated_lines(self, deviated: Deviated, judgement: Judgement) -> Iterator[str]:
        deviation = deviated.first.deviation
        word = "tolerated deviation"
        head = f"{word}: {words.tolerated(deviated.first)} of {deviation.profile} — {words.often(deviated.count)}"
        yield from self.layout.wrapped(head, marked=word)
        yield from self._place(deviated.first, judgement.machine.entity)
        ends = {"since": deviation.since, "until": deviation.until}
        yield from self.layout.rows(
            ("what", words.done(deviated.first)),
            ("clause", words.clause(deviation.clause)),
            ("versions", ", ".join(f"{end} {name}" for end, name in ends.items() if name)),
            ("", deviation.link),
        )

    def _summary(self, judged: Judged) -> Iterator[str]:
        if not judged.form.name and not any(judged.notes.values()):
            yield "  the recording is empty, so there is nothing to judge"
            yield from self._verdict(judged)
            return
        for judgement in judged.judgements:
            yield from self._judgement(judgement)
        notes = [noted(judged, note) for note in judged.notes if note != "lines"]
        lines = words.plural(judged.notes.get("lines", 0), "line")
        how = "no line fits a known form of recording, plain or compressed with gzip or zstd"
        known = "" if judged.form.name else words.either(each.title for each in (*own_forms(), HISTORY))
        yield from self.layout.notes(
            ", ".join([f"{lines} read", *notes]),
            visible(judged.detected),
            f"{how}: {known}" if known else "",
        )
        if (judged.form.sighted or not judged.form.name) and not any(each.observations for each in judged.judgements):
            yield f"  how to judge a log of your own: {documented('reference/log-forms')}"
        yield from self._verdict(judged)

    def _judgement(self, judgement: Judgement) -> Iterator[str]:
        word, reason = self.report.answer(judgement).word, judgement.why
        unknown = f", {reason}" if word == "unknown" else ""
        yield from self.layout.wrapped(f"{judgement.machine.name} {word}{unknown}", marked=word)
        if not judgement.entities:
            return
        found = [(self.report.word(each), each.count) for each in self.report.findings(judgement)]
        found += [("tolerated deviation", deviated.count) for deviated in judgement.tolerated]
        size = {judgement.machine.entity: judgement.entities, "observation": judgement.observations}
        assumed = ""
        if judgement.assumed:
            count = words.plural(len(judgement.assumed), judgement.assumed[0].observation.event)
            assumed = f"explained by assuming {count}: {'; '.join(map(words.between, judgement.assumed))}"
        yield from self.layout.notes(
            f"not judged in full: {reason}" if reason and not unknown else "",
            ", ".join(words.tally_of(found, size, judgement.notes)),
            assumed,
            first="    ",
        )
        yield from self._properties(judgement)
        yield from self._cells(judgement)
        yield from self._fields(judgement)

    def _properties(self, judgement: Judgement) -> Iterator[str]:
        if not judgement.properties:
            return
        tally = words.tally([each.status for each in judgement.properties])
        yield from self.layout.wrapped(f"properties: {tally}", "    ")
        unwatched = (prop for prop in judgement.properties if prop.status == "not watched")
        for reason, those in words.grouped((each.why, each.clause.name) for each in unwatched).items():
            listed = ", ".join(those) if self.coverage else len(those)
            yield from self.layout.wrapped(f"{reason}: {listed}", "      ")

    def _cells(self, judgement: Judgement) -> Iterator[str]:
        cells = judgement.covered.cells
        summary = words.exercised(cells.values())
        met = "" if self.coverage or not any(cells.values()) else "; --coverage lists them"
        yield from self.layout.wrapped(f"{summary}{met}", "    ")
        for event, row in words.nested(cells).items() if self.coverage else ():
            often = [f"{count:,} in {state}" for state, count in row.items() if count]
            never = ", ".join(state for state, count in row.items() if not count)
            rest = [f"never in {never}"] if never else []
            yield from self.layout.wrapped(f"{event}: {'; '.join(often + rest)}", "      ")

    def _fields(self, judgement: Judgement) -> Iterator[str]:
        fields = judgement.covered.fields
        if any(fields.values()):
            tested = sum(1 for count in fields.values() if count)
            listed = ", ".join(
                f"{name} {count:,}" if self.coverage else name
                for name, count in fields.items()
                if count or self.coverage
            )
            total = words.plural(len(fields), "clause")
            yield from self.layout.wrapped(f"tested {tested} of {total} on fields: {listed}", "    ")

    def _verdict(self, judged: Judged) -> Iterator[str]:
        word, number = self.report.of(judged).word, self.report.number(judged)
        what = f"verdict: {word}" + (f", {words.plural(number, 'violation')}" if number else "")
        found = [
            {deviation.profile for deviation in finding.first[0].resembles}
            for judgement in judged.judgements
            for finding in self.report.findings(judgement)
            if self.report.fails(finding)
        ]
        if profiles := sorted(set.intersection(*found)) if found else []:
            known = "It looks like a known deviation" if number == 1 else "All look like known deviations"
            what += f". {known} of {words.either(profiles)}; to tolerate them: --profile {profiles[0]}"
        yield from self.layout.wrapped(what, marked=word)


def noted(judged: Judged, note: str) -> str:
    """Return *note* with its count. Add the locations of the first few lines, if they are known.

    >>> from fsm.recordings.line_reader import FOREIGN
    >>> from fsm.trace import Line
    >>> told = dict(name="a", form=HISTORY, judgements=(), version="", notes={FOREIGN: 3})
    >>> noted(Judged(**told), FOREIGN)
    '3 foreign or damaged lines'
    >>> noted(Judged(**told, places={FOREIGN: (Line("a", 7), Line("b", 2))}), FOREIGN)
    '3 foreign or damaged lines (7, b:2 and others)'
    >>> [noted(Judged(**told | {"notes": {each: 1}}), each) for each in ("crashes", "ends of unknown doors or jobs")]
    ['1 crash', '1 end of unknown doors or jobs']
    """
    count = judged.notes[note]
    singular = re.sub(r"(?<=sh)es\b|(?<!s)s\b", "", note, count=1)
    counted = f"{count:,} {singular if count == 1 else note}"
    places = [words.place(line, judged.name).removeprefix(":") for line in judged.places.get(note, ())]
    rest = " and others" if count > len(places) else ""
    return f"{counted} ({visible(', '.join(places))}{rest})" if places else counted


STATES: Final = 6  # maximum number of states to list by name
# Words that introduce a step, by the certainty of the step.
_IF: Final = {
    "observed": ": ",
    "confirmed": ", as the call has acted: ",
    "in progress": ", if a call in progress has acted: ",
    "unobserved": ", if this was not observed: ",
}


def chain(story: Story, report: Report, layout: Layout, file: str) -> Iterator[str]:
    head = f"{story.machine.entity} {words.short(visible(story.entity))}, by {story.machine.name}"
    yield layout.style(head, "bold")
    clauses: dict[Clause | None, None] = {}
    for step in story.steps:
        last, found = step is story.steps[-1], [*map(provenance, step.followed)]
        lines = [("before", [_states_text(step.before)])] if step is story.steps[0] else []
        reasons = last or bool(step.violations)
        lines += rows(found, reasons=reasons)
        lines += [] if found else [("after", ["any state, because nothing is known from this point on"])]
        what = words.short(f"{words.moment(step.seen.at)} {words.place(step.place, file)} {words.seen(step.seen)}")
        inline = sum(len(values) for _, values in lines) == 1 and not last
        yield from layout.wrapped(f"{what} — {lines.pop()[1][0]}" if inline else what)
        for label, values in lines:
            yield from layout.rows(*((label if value is values[0] else "", value) for value in values))
        for violation in step.violations:
            word = report.word(single(violation))
            yield from layout.wrapped(f"{word}: {words.short(words.what(violation))}", "    ", marked=word)
            explained = any(not each.legal for each in found)
            yield from (layout.remedies if explained else layout.reasons)(violation) if last else ()
        for each in found:
            clauses |= {use.clause: None for one in each.derivations for use in one.uses}
            clauses |= {one.clause: None for one in each.ruled_out if reasons}
    yield from ["  clauses"] * any(clauses)
    yield from layout.notes(*clause_texts(clauses), first="    ")


def clause_texts(clauses: Iterable[Clause | None]) -> list[str]:
    return [f"{words.clause(each)} [{each.source}] {each.link}" for each in clauses if each]


def rows(found: Sequence[Provenance], *, reasons: bool) -> Iterator[tuple[str, list[str]]]:
    for each in found:
        if each is not found[-1]:
            yield "assumed", [f"{each.event} may have happened unobserved before this"]
        why = {one.state: _uses_text(one.uses) for one in each.derivations} if each.legal else {}
        otherwise = "" if each.legal else ", to judge what follows"
        yield "after", _reason_texts((why.get(state, otherwise), state) for state in each.after)
        if each.ruled_out:
            excluded = ((_reason(one, each) if reasons else "", one.state) for one in each.ruled_out)
            yield "ruled out", _reason_texts(excluded)
        for names in each.needed:
            named = words.either(name.removeprefix(ASSUMED) for name in names)
            label = "assumed" if names[0].startswith(ASSUMED) else "tolerated"
            yield label, [f"only {named} explains this observation"]
        if each.note:
            yield "note", [each.note]


def _reason_texts(states: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{_states_text(those)}{reason}" for reason, those in words.grouped(states).items()]


def _reason(exclusion: RuledOut, found: Provenance) -> str:
    legal = dict.fromkeys(words.reply(one) for those in exclusion.permitted for one in those.what)
    what = words.either(legal or ["nothing"])
    would = {
        None: f"{found.event} would not have ended",
        Cause.TIME: "the state had to be left before this time",
        Cause.EVENT: f"{found.event} cannot happen",
        Cause.REPLY: f"{found.event} would reply {what}",
        Cause.OUTPUT: f"would emit {what}",
    }
    clause = f" [{exclusion.clause.name}]" if exclusion.clause else ""
    return f": {would.get(exclusion.cause, f'would show {what}')}{clause}"


def _uses_text(uses: Iterable[UsedCell]) -> str:
    runs = (f"{_IF[known]}{', then '.join(map(used, those))}" for known, those in groupby(uses, lambda use: use.known))
    return ", then".join(runs) or " as before"


def used(use: UsedCell) -> str:
    step, deviation = use.step, use.deviation
    moved = f" → {step.target}" if step.target != step.source else ""
    how = f" ({step.outcome})" if step.outcome not in {step.target, "done", "ok", "ignored", "refused"} else ""
    how = " (silent: anything may follow)" if step.outcome == UNSPECIFIED else how
    how = f" (deviation {deviation.name} of {deviation.profile})" if deviation else how
    clause = f" [{use.clause.name}]" if use.clause else ""
    if not isinstance(step, Done) and step.done:  # This is a joint event.
        return f"{step.event}{how}{clause}"
    copy = f"{step.copy}: " if isinstance(step, Done) else ""
    return f"{copy}{step.event}{' ends' if step.ends else ''} in {step.source}{moved}{how}{clause}"


def _states_text(states: Sequence[str]) -> str:
    if len(states) > STATES:
        return f"{', '.join(states[: STATES - 2])} and {len(states) - STATES + 2} more"
    return words.either(states or ("none",))
