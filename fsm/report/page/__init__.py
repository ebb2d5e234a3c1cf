"""Show a model or a recording as a self-contained HTML page.

The script of the page only looks up the steps that this module computes.
"""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import islice, pairwise
from typing import Any, Final

from fsm.diagrams.draw import sequence_svg
from fsm.diagrams.draw.sequence import breaks_at, chart
from fsm.errors import visible
from fsm.machine import Machine, evidence
from fsm.machine.claims import Property
from fsm.machine.evidence import Checked, Examined, Run
from fsm.machine.findings import Finding, Judgement, Violation, WatchedProperty
from fsm.machine.product import SystemTable
from fsm.machine.product.flatten import machine_of
from fsm.machine.product.system import System
from fsm.monitor.judgement import Judged, without_profile
from fsm.monitor.judgement.part import Step, Story
from fsm.monitor.provenance import Provenance, provenance
from fsm.report import Report, single, words
from fsm.report.check_report import reason, status
from fsm.report.json_report import Json, picked
from fsm.report.lanes import stretch_lines, violation_chart
from fsm.report.machine_report import happens, parts
from fsm.report.page.machine_data import clause_data, machine_data, system_data
from fsm.report.text import noted, rows
from fsm.trace import Line, seen_at


def model_page(model: Machine | System, examined: Sequence[Examined] = (), *, profile: str | None = None) -> str:
    if isinstance(model, System) and SystemTable(model).data is not None:
        model = machine_of(model, profile)  # the page walks through systems without data only
    title = f"{model.name}: {model.title}"
    properties = property_data(examined)
    shown: dict[str, Json]
    if isinstance(model, System):
        machines = {part.machine.name: part.machine for part in model.parts.values()}
        shown = {
            "profile": profile or "",
            "machines": [machine_data(each, profile=profile, only=model.profiles) for each in machines.values()],
            "system": system_data(model, profile),
            "properties": properties,
        }
    else:
        machine = {**machine_data(model, profile=profile), "properties": properties}
        shown = {"profile": machine["profile"], "machines": [machine]}
    return document(title, {"title": title, **picked(model, "about", "source"), **shown})


def html(report: Report) -> str:
    """Return a page about judged recordings.

    Raise :class:`~fsm.diagrams.draw.dot.NoDotError` if Graphviz is not installed.
    """
    machines: dict[str, Json] = {}
    judgements = words.grouped((judgement.machine.name, judgement) for _, judgement in report.judgements())
    for name, those in judgements.items():
        also = [each.machine.profile for each in those]
        shown = machine_data(without_profile(those[0].machine), also=also)
        machines[name] = {**shown, "properties": watched_data(those[0].properties)}
    verdict = report.total().word
    names = ", ".join(words.file(recording.name) for recording in report.judged)
    return document(
        f"{names}: {verdict}",
        {
            "title": names,
            **dict.fromkeys(("about", "source", "profile"), ""),
            "failOn": report.fail_on,
            "verdict": verdict,
            "problems": [str(problem) for problem in report.problems],
            "machines": [*machines.values()],
            "recordings": [recording_data(report, judged_recording) for judged_recording in report.judged],
        },
    )


def document(title: str, data: Json) -> str:
    room = files("fsm.report.page")
    script = room.joinpath("page.js").read_text(encoding="utf-8")
    style = room.joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'"
    unseen = "This page needs JavaScript. Its scripts are part of the page, and nothing else is loaded."
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{allowed}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(visible(title))}</title>
<style>
{style}</style>
</head>
<body>
<main id="page"><noscript>{unseen}</noscript></main>
<script type="application/json" id="data">{embedded(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def embedded(data: Json) -> str:
    r"""Return JSON that can be embedded in a script element, because it does not contain ``<``.

    >>> embedded("</script>\u2028")
    '"\\u003c/script>\\u2028"'
    """
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


_STYLE: Final = re.compile("<style>(.*?)</style>", re.DOTALL)  # the style element, which is the same in all charts
WITNESSES: Final = 2  # maximum number of example runs per property


def property_data(examined: Sequence[Examined]) -> dict[str, Json]:
    runs: dict[tuple[Run, str], int] = {}  # the number of each run and the property that it breaks
    verdicts: dict[str, dict[str, Json]] = {}
    for examination in examined:
        for checked in examination.checked:
            verdicts.setdefault(checked.of.name, {})[examination.profile or ""] = _verdict(checked, runs)
    stated = {checked.of.name: checked.of for each in reversed(examined) for checked in each.checked}
    shown = [_run(run, examined[0].machine, stated.get(broken)) for run, broken in runs]
    style = next((_STYLE.findall(each["chart"])[0] for each in shown), "")
    return {
        "list": [{**clause_data(stated[name].clause), "verdicts": each} for name, each in verdicts.items()],
        "runs": [{**each, "chart": _STYLE.sub("", each["chart"])} for each in shown],
        "style": style,
    }


def _verdict(checked: Checked, runs: dict[tuple[Run, str], int]) -> Json:
    known = picked(checked.expected, known="about", link="link") if checked.expected else {"known": "", "link": ""}
    broken, shown = "", list[Run]()
    match checked.verdict:
        case evidence.Refuted() as refuted:
            broken, shown = checked.of.name, [refuted.run] if refuted.run else []
        case evidence.Proved(witnesses=witnesses):
            shown = [*islice(witnesses, WITNESSES)]
    numbers: list[Json] = [runs.setdefault((run, broken), len(runs)) for run in shown]
    return {"status": status(checked).word, "why": reason(checked), **known, "runs": numbers}


def _run(run: Run, of: Machine | System, broken: Property | None) -> dict[str, Any]:
    drawn = chart(run, of, broken)
    return {
        "initial": run.initial,
        "steps": [
            {
                "what": happens(each),
                **picked(each, "source", "target"),
                "parts": [*parts(each)],
                "moved": {done.copy: done.target for done in each.done if done.source != done.target},
            }
            for each in (*run.steps, *run.cycle)
        ],
        "cycle": len(run.steps) if run.cycle else -1,
        "stopped": run.stopped,
        "breaks": breaks_at(run) if broken is not None else 0,
        "waits": [
            f"{row.source} waits for {row.target}{row.text.removeprefix(row.kind)}"
            for row in drawn.rows
            if row.kind == "waits"
        ],
        "chart": sequence_svg.svg(drawn).decode(),
    }


def watched_data(watched: Sequence[WatchedProperty]) -> dict[str, Json]:
    unknown: dict[str, Json] = {"known": "", "link": "", "runs": []}
    listed: list[Json] = [
        {**clause_data(each.clause), "verdicts": {"": {"status": each.status, "why": each.why, **unknown}}}
        for each in watched
    ]
    return {"list": listed, "runs": []}


STEPS: Final = 200  # maximum number of observations per entity
AROUND: Final = 12  # number of observations to show around a violation in a long history
FINDINGS: Final = 100  # maximum number of findings per machine
LONGEST: Final = 600  # maximum length of a text from the recording
# Maximum number of findings per machine to show with a sequence chart of their first violation.
CHARTS: Final = 20


def recording_data(report: Report, judged: Judged) -> dict[str, Json]:
    known: dict[object, Provenance] = {}
    return {
        "name": visible(words.file(judged.name)),
        "kind": judged.form.title,
        "version": visible(judged.version),
        "detected": visible(judged.detected),
        "verdict": report.of(judged).word,
        "notes": [visible(noted(judged, note)) for note in judged.notes],
        "judgements": [_judgement(report, judged, judgement) for judgement in judged.judgements],
        "stories": [_story(report, judged, story, known) for story in judged.stories],
        "left": max(0, sum(each.entities for each in judged.judgements) - len(judged.stories)),
    }


def _text(text: str) -> str:
    return visible(text if len(text) <= LONGEST else f"{text[:LONGEST]} …")


def _judgement(report: Report, judged: Judged, judgement: Judgement) -> Json:
    found = report.findings(judgement)
    cells = judgement.covered.cells
    return {
        **picked(judgement.machine, "profile", "entity", machine="name"),
        "verdict": report.answer(judgement).word,
        "why": visible(judgement.why),
        **picked(judgement, "entities", "observations"),
        "met": sum(1 for count in cells.values() if count),
        "cells": len(cells),
        "findings": [
            _finding(report, each, judgement.machine, _chart(judged, each) if number < CHARTS else "")
            for number, each in enumerate(found[:FINDINGS])
        ],
        "left": len(found[FINDINGS:]),
        "tolerated": [
            {
                "name": words.tolerated(deviated.first),
                "profile": deviated.first.deviation.profile,
                "often": words.often(deviated.count),
                "what": words.done(deviated.first),
                "clause": clause_data(deviated.first.deviation.clause),
                "line": deviated.first.line,
            }
            for deviated in judgement.tolerated
        ],
        "assumed": [visible(words.assumed(event)) for event in judgement.assumed],
        "coverage": {event: {**row} for event, row in words.nested(cells).items()},
    }


def _chart(judged: Judged, finding: Finding) -> str:
    first = finding.first[0]
    place, of = Line(first.file, first.line), (first.machine, first.observation.entity)
    for story in judged.stories:
        if (story.machine.name, story.entity) == of:
            for number, step in enumerate(story.steps):
                if step.violations and step.place == place:
                    return sequence_svg.svg(violation_chart(story, number, judged.form)).decode()
    return ""


def _finding(report: Report, finding: Finding, machine: Machine, chart: str) -> Json:
    return {
        "word": report.word(finding),
        "times": words.times(finding, machine.entity),
        "count": finding.count,
        "chart": chart,
        "first": _violation(finding.first[0]),
        "also": [
            {"file": visible(words.file(each.file)), "line": each.line, "entity": visible(each.observation.entity)}
            for each in finding.first[1:]
        ],
    }


def _violation(violation: Violation) -> dict[str, Json]:
    seen = violation.observation
    return {
        "what": _text(words.what(violation)),
        "file": visible(words.file(violation.file)),
        "line": violation.line,
        "at": visible(words.moment(seen.at)),
        "entity": visible(seen.entity),
        "message": _text(seen.detail),
        "before": visible(words.before(violation)),
        "allowed": visible(words.allowed(violation)),
        "legal": visible(words.edits(violation)),
        "lines": visible(words.places(violation)),
        "clause": clause_data(violation.clause),
        "known": [visible(each) for each in words.known(violation)],
        "links": [*dict.fromkeys(deviation.link for deviation in violation.resembles if deviation.link)],
        "stretch": [visible(each) for each in stretch_lines(violation)],
    }


def _story(report: Report, judged: Judged, story: Story, known: dict[object, Provenance]) -> Json:
    kept = [*_step_numbers(story.steps)]
    return {
        "machine": story.machine.name,
        "entity": visible(story.entity),
        "names": [visible(name) for name in story.names],
        "steps": [
            {
                **_step(report, judged, number, story.steps[number], story.machine, known),
                **_cell_counts("met", story.steps[number : number + 1], story.machine),
                **_cell_counts("meanwhile", story.steps[before + 1 : number], story.machine),
            }
            for before, number in pairwise((-1, *kept))
        ],
        "all": len(story.steps),
        "broken": sum(len(step.violations) for step in story.steps),
    }


def _step_numbers(steps: Sequence[Step]) -> Iterator[int]:
    if len(steps) <= STEPS:
        yield from range(len(steps))
        return
    wanted = dict.fromkeys(range(AROUND))
    for number in (number for number, each in enumerate(steps) if each.violations):
        wanted |= dict.fromkeys(range(max(0, number - AROUND), min(len(steps), number + AROUND + 1)))
        if len(wanted) >= STEPS:
            break
    wanted |= dict.fromkeys(range(len(steps) - max(AROUND, STEPS - len(wanted)), len(steps)))
    yield from sorted(wanted)


def _cell_counts(name: str, steps: Iterable[Step], machine: Machine) -> dict[str, Json]:
    size = len(machine.states)
    met = Counter(row * size + state for step in steps for each in step.followed for row, state in each.step.cells)
    return {name: {str(cell): count for cell, count in met.items()}} if met else {}


def _step(
    report: Report, judged: Judged, number: int, step: Step, machine: Machine, known: dict[object, Provenance]
) -> dict[str, Json]:
    states, time = [*machine.states], seen_at(step.seen)
    found: dict[str, Json] = {
        "number": number + 1,
        "line": step.place.number,
        "at": visible(words.moment(step.seen.at)),
        "time": None if time is None else time // 1_000_000,  # milliseconds since the epoch
        "what": _text(words.seen(step.seen)),
        "after": [states.index(state) for state in step.after],
    }
    if step.place.file != judged.name:
        found["file"] = visible(step.place.file)
    if step.before != step.after:
        found["before"] = [states.index(state) for state in step.before]
    if step.seen.detail and step.seen.detail not in words.seen(step.seen):
        found["detail"] = _text(step.seen.detail)
    if step.tolerated:
        found["tolerated"] = [*step.tolerated]
    if step.followed:
        why = rows([provenance(each, known) for each in step.followed], reasons=True)
        found["why"] = [[label, [visible(each) for each in values]] for label, values in why]
    if step.violations:
        found["broken"] = [
            {"word": report.word(single(violation)), **_violation(violation)} for violation in step.violations
        ]
    return found
