"""Reports contain the same facts in every format, and are well formed for any recording."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_parts import missing
from report_readers import COMMAND, check_github, check_junit, check_sarif, sarif_validator
from thorough import TIMES

from fsm.errors import Problem, code_url
from fsm.language.library import load
from fsm.machine import Clause, Deviation
from fsm.machine.findings import (
    NOTHING_CONCERNS,
    Cause,
    Covered,
    Deviated,
    Edit,
    Finding,
    Illegal,
    Judgement,
    Permitted,
    Repair,
    Tolerated,
    Violation,
)
from fsm.monitor.judgement import Judged, judge
from fsm.report import ExitCode, Report, words
from fsm.report.cases import cases as as_cases
from fsm.report.cases import github, junit, sarif
from fsm.report.json_report import json as as_json
from fsm.report.layout import Layout
from fsm.report.text import text
from fsm.runtimes.recordings.runtime_forms import LOG
from fsm.trace import Observation
from fsm.verdict import Holds, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from jsonschema import Draft4Validator

    from fsm.machine import Level
    from fsm.machine.findings import Legality

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
HOSTILE = "a\x00b\x1b[31m\x07\r\n::error::x\u202e]]>&<\"'\ufffe,:% \U0001f600"

MACHINE = load("container-status")
CLAUSE = Clause(
    name="stop-is-idempotent",
    says="Stopping a container that has stopped succeeds.",
    level="MUST",
    source="CRI api.proto, StopContainer",
    link="https://example.org/api.proto#L69",
)
DEVIATION = Deviation(
    name="stop-of-removed",
    event="stop",
    clause=CLAUSE,
    about="Answers NOT_FOUND when the container is gone.",
    profile="containerd-1.6",
    until="1.6.35",
    link="https://example.org/pull/10521",
)
STOP = Violation(
    machine="container-status",
    cause=Cause.REPLY,
    observation=Observation(
        entity="c1", event="StopContainer", phase="reply", reply="NOT_FOUND", at=1_795_172_600_000_000_007
    ),
    file="containerd.log",
    line=14,
    before=("absent",),
    permitted=(Permitted(state="absent", what=("ok",)),),
    clause=CLAUSE,
    edits=(Edit(repair=Repair.REPLY, instead="ok"), Edit(repair=Repair.EXTRA)),
    resembles=(DEVIATION,),
)
MISSING = Problem(
    path="gone.log", line=0, code="FSM201", what="the file cannot be opened: no such file", hint="give a path"
)


def found(*violations: Violation, count: int = 1) -> Finding:
    return Finding(first=violations, count=count, entities=1)


def judgement(verdict: Legality, *tolerated: Deviated) -> Judgement:
    cells = {(event.name, state): 0 for event in MACHINE.events.values() for state in event.cells} | {
        ("stop", "running"): 3
    }
    return Judgement(
        machine=MACHINE,
        verdict=verdict,
        tolerated=tolerated,
        covered=Covered(machine=MACHINE.name, cells=cells),
        entities=0 if isinstance(verdict, Unknown) else 2,
        observations=0 if isinstance(verdict, Unknown) else 12,
        notes={},
    )


def report(*judgements: Judgement, name: str = "containerd.log", version: str = "", fail_on: Level = "MUST") -> Report:
    judged = Judged(name=name, form=LOG, judgements=judgements, notes={"lines": 20, "lines cut": 1}, version=version)
    return Report(judged=(judged,), fail_on=fail_on)


def named(name: str) -> Report:
    tolerated = Tolerated(machine=MACHINE.name, deviation=DEVIATION, observation=STOP.observation, file=name, line=3)
    violated = Illegal(findings=(found(replace(STOP, file=name)),))
    return report(judgement(violated, Deviated(first=tolerated, count=2)), name=name)


def holding(entity: str, detail: str) -> Report:
    seen = Observation(
        entity=entity, event=entity, reply=detail, shows=detail, met=entity, output=detail, at=entity, detail=detail
    )
    causes = (
        found(replace(STOP, cause=cause, observation=seen, clause=replace(CLAUSE, says=detail))) for cause in Cause
    )
    return report(judgement(Illegal(findings=tuple(causes))), version=detail)


def _many() -> Report:
    causes = [
        replace(STOP, cause=cause, line=line, clause=replace(CLAUSE, level=level))
        for cause in [*Cause][:6]
        for level in ("MUST", "observed")
        for line in range(1, 26)
    ]
    return report(
        judgement(
            Illegal(findings=tuple(found(each, each, replace(each, line=900), count=1_234_567) for each in causes))
        )
    )


NAMES = [
    "-",
    "two blanks  inside.log",
    "quotes\"'<&>.log",
    "\u00fcmlaut\u202e\U0001f600.log",
    "colon:12,comma;100%25.log",
    "/var/log/containerd.log",
    "#fragment?query\\back.log",
    "no-utf-8-\udcff.log",
    "control\x1b[31m\n.log",
]
SITUATIONS: dict[str, Report] = {
    "nothing judged": Report(judged=()),
    "nothing found": report(judgement(Holds())),
    "many found": _many(),
    "unknown": report(judgement(Unknown(why="nothing in the trace concerns this machine"))),
    "one machine not concerned": report(judgement(Holds()), judgement(Unknown(why=NOTHING_CONCERNS))),
    "one machine unknown": report(judgement(Holds()), judgement(Unknown(why="line 2: it has no such event"))),
    "two files": Report(judged=named("a.log").judged + report(judgement(Unknown(why="nothing")), name="b.log").judged),
    "a surprise, and more unknown": report(
        judgement(
            Illegal(
                findings=(found(replace(STOP, clause=replace(CLAUSE, level="observed"))),), incomplete="too many calls"
            )
        )
    ),
    "a violation, and more unknown": report(judgement(Illegal(findings=(found(STOP),), incomplete="too many calls"))),
    "a file that cannot be read": replace(report(judgement(Holds())), problems=(MISSING,)),
    "no file that can be read": Report(judged=(), problems=(MISSING, replace(MISSING, path=f"{HOSTILE}\udcff"))),
    "hostile": holding(HOSTILE, HOSTILE),
    "no edit, no state": report(
        judgement(Illegal(findings=(found(replace(STOP, edits=(), before=(), permitted=())),)))
    ),
    **{f"file {name!a}": named(name) for name in NAMES},
}


def installed(name: str) -> str:
    path = Path(sys.executable).with_name(name)
    return str(path) if path.exists() else missing(name, f"{sys.executable} -m pip install {name}")


def ran(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8", timeout=60).stdout


@pytest.fixture(scope="session")
def sarif_schema() -> Draft4Validator:
    return sarif_validator()


# -- every report is well formed ------------------------------------------------


def check_text(written: str) -> None:
    assert written.endswith("\n")
    assert [] == [line for line in written.split("\n") if not line.isprintable()]


def check_json(written: str) -> None:
    document = json.loads(written.encode())
    answers = {"error"} if document["problems"] else {answer.name.lower() for answer in ExitCode}
    assert document["verdict"] in answers


FORMATS: dict[str, tuple[Callable[[Report], str], Callable[[str], None]]] = {
    "text": (text, check_text),
    "json": (as_json, check_json),
    "github": (lambda report: github(as_cases(report)), check_github),
    "junit": (lambda report: junit(as_cases(report)), check_junit),
    "sarif": (lambda report: sarif(as_cases(report)), check_sarif),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_is_well_formed(situation: str, form: str) -> None:
    write, check = FORMATS[form]

    check(write(SITUATIONS[situation]))


@pytest.mark.parametrize("form", FORMATS)
@given(entity=st.text(), detail=st.text(), name=st.binary(min_size=1, max_size=30))
@settings(max_examples=40 * TIMES, deadline=None)
def test_is_well_formed_whatever_the_recording_says(form: str, entity: str, detail: str, name: bytes) -> None:
    """Ids and messages may be any text, and file names any bytes."""
    write, check = FORMATS[form]
    file = os.fsdecode(name.replace(b"\0", b"_"))

    check(write(Report(judged=holding(entity, detail).judged + named(file).judged)))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_sarif_fits_its_schema(situation: str, sarif_schema: Draft4Validator) -> None:
    errors = [error.message for error in sarif_schema.iter_errors(json.loads(sarif(as_cases(SITUATIONS[situation]))))]

    assert [] == errors


@given(entity=st.text(), detail=st.text())
@settings(max_examples=20 * TIMES, deadline=None)
def test_sarif_fits_its_schema_whatever_the_recording_says(
    sarif_schema: Draft4Validator, entity: str, detail: str
) -> None:
    """The schema allows any text, but not every list of places."""
    assert sarif_schema.is_valid(json.loads(sarif(as_cases(holding(entity, detail)))))


def test_the_schema_is_not_a_rubber_stamp(sarif_schema: Draft4Validator) -> None:
    """The schema refuses a report that repeats a place."""
    broken = json.loads(sarif(as_cases(SITUATIONS["many found"])))
    result = broken["runs"][0]["results"][0]
    result["relatedLocations"] = result["locations"] * 2

    assert not sarif_schema.is_valid(broken)


# -- read by third-party programs -------------------------------------------------


def test_sarif_tools_count_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "report.sarif").write_text(sarif(as_cases(SITUATIONS["many found"])), encoding="utf-8")

    told = ran(installed("sarif"), "summary", str(tmp_path / "report.sarif"))

    assert ["error: 450", "warning: 450", "note: 0"] == re.findall(r"^\w+: \d+", told, re.MULTILINE)


def test_junit2html_counts_what_was_found(tmp_path: Path) -> None:
    """In JUnit, each clause is a case, which fails if the clause was broken.

    Otherwise, the case passes if a cell of the clause was covered, and is skipped if none was.
    """
    clauses = {cell.clause.name for event in MACHINE.events.values() for cell in event.cells.values()}
    for name, situation in (("broken", named("a.log")), ("unjudged", SITUATIONS["unknown"])):
        (tmp_path / f"{name}.xml").write_text(junit(as_cases(situation)), encoding="utf-8")

    broken = ran(installed("junit2html"), "--summary-matrix", str(tmp_path / "broken.xml"))
    unjudged = ran(installed("junit2html"), "--summary-matrix", str(tmp_path / "unjudged.xml"))

    # The clause of the invented violation is not in the machine, so there is one more clause.
    counts = [("Failed", "1"), ("Passed", "1"), ("Skipped", str(len(clauses) - 1))]
    assert counts == re.findall(r"^ +(\w+) +: +(\d+)$", broken, re.MULTILINE)
    assert [("Skipped", str(len(clauses)))] == re.findall(r"^ +(\w+) +: +(\d+)$", unjudged, re.MULTILINE)


@pytest.mark.parametrize("situation", ["hostile", "many found", "file 'quotes\"\\'<&>.log'"])
def test_junit2html_reads_it(situation: str, tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(junit(as_cases(SITUATIONS[situation])), encoding="utf-8")

    ran(installed("junit2html"), str(tmp_path / "report.xml"), str(tmp_path / "report.html"))

    assert "stop-is-idempotent" in (tmp_path / "report.html").read_text(encoding="utf-8")


# -- the text ---------------------------------------------------------------------

FACTS = [
    "violation: StopContainer replied NOT_FOUND in state absent — 27 times, on 2 containers",
    "where containerd-1.6.20.log:14 2026-11-20T11:03:20.859050588Z",
    "container d1d12d2e084c",
    'message rpc error: code = NotFound desc = an error occurred when try to find container "d1d12d2e084c": not found',
    "in state absent expected ok",
    "clause stop-is-idempotent (MUST): ",
    "source CRI api.proto",
    "known stop-of-removed of containerd-1.6 (until 1.6.35) and containerd-1.7 (until 1.7.21): ",
    "also at :16, :33 and 24 more",
    "violation: StopPodSandbox replied NOT_FOUND in state absent — once",
    "container-status fails 27 violations, 6 containers, ",
    "pod-sandbox fails 1 violation, 4 pods, ",
    "306 lines read",
    "verdict: fails, 28 violations. All look like known deviations of containerd-1.6 or containerd-1.7; ",
    "containerd-1.6 or containerd-1.7; to tolerate them: --profile containerd-1.6",
]


@pytest.fixture(scope="module")
def real() -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(RECORDINGS)
        return Report(judged=(judge("containerd-1.6.20.log"),))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_text_has_the_facts_at_every_width(width: int, real: Report) -> None:
    written = text(real, Layout(width=width))

    assert [] == [fact for fact in FACTS if fact.strip() not in " ".join(written.split())]
    assert [] == [line for line in written.splitlines() if len(line) > width and len(line.split()) > 2]


def test_text_is_the_same_in_colour(real: Report) -> None:
    coloured = text(real, Layout(width=80, style=lambda value, how: f"<{how}>{value}</>"))

    assert text(real, Layout(width=80)) == re.sub(r"</?\w*>", "", coloured)
    assert {("bold", "containerd-1.6.20.log"), ("red", "violation"), ("red", "fails")} == set(
        re.findall(r"<(\w+)>(.*?)</>", coloured)
    )


def test_text_names_the_cells_met_in_few_lines(real: Report) -> None:
    short, long = text(real, Layout(width=80)), text(real, Layout(width=80), coverage=True)
    cells = real.judged[0].judgements[0].covered.cells
    met = sum(1 for count in cells.values() if count)

    summary = f"exercised {met} of {len(cells)} (event, state) pairs"
    assert f"{summary}; --coverage lists them " in " ".join(short.split())
    assert f"{summary} create: " in " ".join(long.split())
    assert len(short.splitlines()) - len(text(real, Layout(width=2_000)).splitlines()) < 60
    assert {event for event, _ in cells} <= set(re.findall(r"^      (\S+): ", long, re.MULTILINE))


def test_text_never_needs_more_than_a_few_lines_for_the_cells() -> None:
    whole = judgement(Holds())
    met = replace(whole, covered=Covered(machine=MACHINE.name, cells=dict.fromkeys(whole.covered.cells, 1)))

    lines = text(report(met), Layout(width=80)).splitlines()

    assert len(lines) <= 12
    assert "--coverage lists them" in " ".join(" ".join(lines).split())


def test_text_advises_the_profile_of_the_version_that_wrote_the_log(tmp_path: Path) -> None:
    log = tmp_path / "containerd.log"
    first = 'time="2026-11-20T11:03:20Z" level=info msg="starting containerd" version=1.7.3\n'
    log.write_text(first + (RECORDINGS / "containerd-1.6.20.log").read_text(encoding="utf-8"), encoding="utf-8")

    written = text(Report(judged=(judge(log),)), Layout(width=2_000))

    assert "look like known deviations of containerd-1.7.3; to tolerate them: --profile containerd-1.7.3\n" in written


def test_text_gives_no_advice_that_would_not_do() -> None:
    both = Illegal(findings=(found(STOP), found(replace(STOP, resembles=()))))

    assert "to tolerate them" not in text(report(judgement(both)))


def test_text_keeps_a_path_whole() -> None:
    """A path is not split at spaces, so that ``file:line`` can be copied."""
    name = "a rather long folder name/with blanks in it/containerd.log"

    assert f"{name}:14\n" in text(
        report(judgement(Illegal(findings=(found(replace(STOP, file=name)),))), name=name), Layout(width=40)
    )


def test_text_lists_the_files_when_there_are_several() -> None:
    assert ["fails    a.log", "unknown  b.log"] == text(SITUATIONS["two files"]).splitlines()[-2:]


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([(Repair.REPLY, "ok")], ""),
        ([(Repair.REPLY, "ok"), (Repair.REPLY, "error"), (Repair.EXTRA, "")], "the reply is ok or any error"),
        ([(Repair.REPEATED, "")], "it is dropped: it repeats what came before"),
        ([(Repair.SWAPPED, "exit")], "it comes after the exit that follows"),
        ([(Repair.MISSING, "start"), (Repair.MISSING, "exit"), (Repair.EXTRA, "")], "start or exit comes before it"),
        ([(Repair.EXTRA, "")], "it is dropped"),
        ([], "more than one edit is made"),
    ],
)
def test_says_what_would_make_it_legal(edits: list[tuple[Repair, str]], said: str) -> None:
    made = tuple(Edit(repair=repair, instead=instead) for repair, instead in edits)

    assert said == words.edits(replace(STOP, edits=made))


@pytest.mark.parametrize(
    ("permitted", "said"),
    [
        ({"absent": ("ok",)}, "ok"),
        ({"created": ("ok",), "running": ("ok",)}, "ok"),
        ({"created": ("ok", "error"), "running": ()}, "ok or any error in created; nothing in running"),
        ({"a": ("ok",), "b": ("NOT_FOUND",), "c": ("ok",)}, "ok in a or c; NOT_FOUND in b"),
        ({}, "nothing"),
    ],
)
def test_says_what_was_allowed(permitted: dict[str, tuple[str, ...]], said: str) -> None:
    each = tuple(Permitted(state=state, what=what) for state, what in permitted.items())

    assert said == words.allowed(replace(STOP, permitted=each))


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (None, ""),
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1_795_172_600_000_000_007, "2026-11-20T11:03:20.000000007Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (10**30, str(10**30)),
        ("2026-11-20T11:03:20+01:00", "2026-11-20T11:03:20+01:00"),
    ],
)
def test_times_are_told_in_rfc_3339(at: int | str | None, said: str) -> None:
    assert said == words.moment(at)


# -- the others -------------------------------------------------------------------


def test_json_has_the_documented_keys() -> None:
    document = json.loads(as_json(replace(named("a.log"), problems=(MISSING,))))
    (problem,) = document["problems"]
    (recording,) = document["recordings"]
    (machine,) = recording["machines"]
    (finding,) = machine["findings"]
    (tolerated,) = machine["tolerated"]
    keys: list[tuple[dict[str, Any], str]] = [
        (document, "verdict fail_on recordings problems"),
        (problem, "file line code what hint link"),
        (recording, "file kind version detected verdict notes foreign places machines stories"),
        (machine, "machine verdict why entities observations notes findings tolerated assumed cells fields properties"),
        (finding, "kind what count others entities clause first"),
        (finding["clause"], "name says level source link"),
        (
            finding["first"][0],
            "file line at entity cause illegal found event reply shows met output detail before allowed edits resembles stretch lines",
        ),
        (finding["first"][0]["edits"][0], "repair instead"),
        (finding["first"][0]["resembles"][0], "name profile about since until link"),
        (tolerated, "count file line at entity deviation or clause"),
    ]

    assert [sorted(names.split()) for _, names in keys] == [sorted(part) for part, _ in keys]


def test_json_tells_what_was_found(real: Report) -> None:
    document = json.loads(as_json(real))
    containers, pods = document["recordings"][0]["machines"]
    first = containers["findings"][0]["first"][0]

    assert ("fails", [27], [1]) == (
        document["verdict"],
        [each["count"] for each in containers["findings"]],
        [each["count"] for each in pods["findings"]],
    )
    assert ("containerd-1.6.20.log", 14, "2026-11-20T11:03:20.859050588Z", {"absent": ["ok"]}) == (
        first["file"],
        first["line"],
        first["at"],
        first["allowed"],
    )
    assert {"create", "start", "stop"} < containers["cells"].keys()


def test_github_escapes_what_its_parser_would_take_for_its_own() -> None:
    seen = replace(STOP, file="a:b,100%.log", clause=replace(CLAUSE, says="One,\ntwo: 100%.\r"))

    (line,) = github(as_cases(report(judgement(Illegal(findings=(found(seen),))), name="a:b,100%.log"))).splitlines()

    assert line.startswith(
        "::error file=a%3Ab%2C100%25.log,line=14,title=MUST container-status/stop-is-idempotent::Stop"
    )
    assert "%0Aclause: One,%0Atwo: 100%25.%0D (CRI api.proto, StopContainer)%0A" in line


@pytest.mark.parametrize(
    ("situation", "kinds"),
    [
        ("nothing found", ["notice"]),
        ("unknown", ["warning"]),
        ("one machine not concerned", ["notice"]),
        ("one machine unknown", ["warning"]),
        ("two files", ["error", "notice", "warning"]),
        ("a surprise, and more unknown", ["warning", "warning"]),
        ("a violation, and more unknown", ["error"]),
        ("a file that cannot be read", ["error"]),
        ("many found", ["error"] * 150 + ["warning"] * 150),
    ],
)
def test_github_weighs_what_was_found(situation: str, kinds: list[str]) -> None:
    assert kinds == [match[1] for match in COMMAND.finditer(github(as_cases(SITUATIONS[situation])))]


def test_github_has_each_violation_where_all_are_wanted() -> None:
    several = found(STOP, replace(STOP, line=20), count=2)
    one = report(judgement(Illegal(findings=(several,))))
    lines = [
        [int(each[1]) for each in re.finditer(r",line=(\d+),", github(as_cases(of)))]
        for of in (one, replace(one, every=True))
    ]

    assert [[STOP.line], [STOP.line, 20]] == lines


def test_github_annotates_no_file_for_standard_input() -> None:
    line = github(as_cases(named("-"))).splitlines()[0]

    assert line.startswith("::error title=MUST container-status/stop-is-idempotent::standard input, line 14: Stop")


def test_sarif_tells_what_could_not_be_judged() -> None:
    (run,) = json.loads(sarif(as_cases(SITUATIONS["unknown"])))["runs"]
    (invocation,) = run["invocations"]

    assert ([], 3) == (run["results"], invocation["exitCode"])
    assert ["container-status unknown, nothing in the trace concerns this machine"] == [
        each["message"]["text"] for each in invocation["toolExecutionNotifications"]
    ]


def test_what_could_not_be_read_is_told_in_every_format() -> None:
    partly = SITUATIONS["a file that cannot be read"]
    (invocation,) = json.loads(sarif(as_cases(partly)))["runs"][0]["invocations"]
    (error,) = ET.fromstring(junit(as_cases(partly))).iter("error")  # noqa: S314  (ours)

    assert 2 == partly.code()
    assert (2, False) == (invocation["exitCode"], invocation["executionSuccessful"])
    assert ["the file cannot be opened: no such file [FSM201]"] == [
        each["message"]["text"] for each in invocation["toolExecutionNotifications"]
    ]
    (notification,) = invocation["toolExecutionNotifications"]
    (described,) = json.loads(sarif(as_cases(partly)))["runs"][0]["tool"]["driver"]["notifications"]
    (problem,) = json.loads(as_json(partly))["problems"]
    assert notification["descriptor"]["id"] == described["id"] == "FSM201"
    assert code_url("FSM201") == described["helpUri"] == problem["link"]
    assert ["FSM201", "gone.log"] == [json.loads(as_json(partly))["problems"][0][key] for key in ("code", "file")]
    assert ("FSM201", "the file cannot be opened: no such file: give a path") == (
        error.attrib["type"],
        error.attrib["message"],
    )
    assert (
        "::error file=gone.log,line=1,title=FSM201::the file cannot be opened: no such file%0Agive a path\n"
        == github(as_cases(partly))
    )
    assert ["holds    containerd.log", "wrong    gone.log: the file cannot be opened: no such file"] == (
        text(partly).splitlines()[-2:]
    )


@pytest.mark.parametrize(
    ("situation", "why", "skipped"),
    [
        ("unknown", "nothing in the trace concerns this machine", True),
        ("a surprise, and more unknown", "too many calls", True),
        ("a violation, and more unknown", "too many calls", True),
        ("nothing found", None, True),
    ],
)
def test_what_could_not_be_told_is_told_with_its_reason(situation: str, why: str | None, *, skipped: bool) -> None:
    document = json.loads(as_json(SITUATIONS[situation]))
    (invocation,) = json.loads(sarif(as_cases(SITUATIONS[situation])))["runs"][0]["invocations"]
    root = ET.fromstring(junit(as_cases(SITUATIONS[situation])))  # noqa: S314  (ours)

    assert why == document["recordings"][0]["machines"][0]["why"]
    assert bool(why) == bool(invocation["toolExecutionNotifications"])
    assert skipped == bool(list(root.iter("skipped")))
    assert (why is not None and "violation" not in situation) == (
        bool(why) and f"container-status unknown, {why}" in text(SITUATIONS[situation])
    )


def test_one_is_no_plural() -> None:
    (judged,) = report(judgement(Holds())).judged
    notes = {
        "lines": 1,
        "restarts": 1,
        "crashes": 1,
        "foreign or damaged lines": 1,
        "calls that reached no container or pod": 2,
    }
    found = replace(judged, notes=notes)

    assert (
        "1 line read, 1 restart, 1 crash, 1 foreign or damaged line, 2 calls that reached no container or pod"
        in text(Report(judged=(found,)), Layout(width=2_000))
    )


def test_sarif_suppresses_what_the_profile_tolerates() -> None:
    (run,) = json.loads(sarif(as_cases(named("a.log"))))["runs"]
    violation, tolerated = run["results"]

    assert ("error", "note") == (violation["level"], tolerated["level"])
    assert "suppressions" not in violation
    assert ["declared in profile containerd-1.6"] == [each["justification"] for each in tolerated["suppressions"]]
    assert {violation["ruleId"]} == {rule["id"] for rule in run["tool"]["driver"]["rules"]}


def test_junit_tells_two_causes_of_one_clause_in_one_failure() -> None:
    """A case with two causes has one failure, because programs that read JUnit show only one result for each case."""
    other = replace(STOP, observation=Observation(entity="c2", event="StopContainer", reply="UNAVAILABLE"))
    root = ET.fromstring(junit(as_cases(report(judgement(Illegal(findings=(found(STOP), found(other))))))))  # noqa: S314  (ours)

    (failure,) = root.iter("failure")

    assert "StopContainer replied NOT_FOUND (once), and 1 other cause" == failure.attrib["message"]
    assert "StopContainer replied UNAVAILABLE (once)" in str(failure.text)


def test_junit_keeps_surprises_and_deviations_out_of_the_failures() -> None:
    surprise = replace(STOP, clause=replace(CLAUSE, level="observed"))
    tolerated = Tolerated(machine=MACHINE.name, deviation=DEVIATION, observation=STOP.observation, file="a.log", line=3)
    whole = judgement(Illegal(findings=(found(surprise),)), Deviated(first=tolerated, count=2))
    root = ET.fromstring(junit(as_cases(report(whole))))  # noqa: S314  (ours)

    assert [] == list(root.iter("failure"))
    notes = [str(each.text).splitlines()[0] for each in root.iter("system-out")]
    known = "tolerated deviation stop-of-removed of containerd-1.6: Answers NOT_FOUND when the container is gone."
    assert [
        "surprise: containerd.log:14: StopContainer replied NOT_FOUND (once)",
        f"known: a.log:3: {known} (2 times)",
    ] == notes


# -- the verdict ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "fail_on", "answer"),
    [
        ("MUST", "MUST", ExitCode.FAILS),
        ("SHOULD", "MUST", ExitCode.HOLDS),
        ("SHOULD", "SHOULD", ExitCode.FAILS),
        ("MAY", "SHOULD", ExitCode.HOLDS),
        ("observed", "MUST", ExitCode.HOLDS),
        ("observed", "observed", ExitCode.FAILS),
    ],
)
def test_breaches_of_weaker_clauses_are_surprises(level: Level, fail_on: Level, answer: ExitCode) -> None:
    broken = replace(STOP, clause=replace(CLAUSE, level=level))

    assert answer == report(judgement(Illegal(findings=(found(broken),))), fail_on=fail_on).total()


@pytest.mark.parametrize(
    ("situation", "answer"),
    [
        ("nothing judged", ExitCode.UNKNOWN),
        ("nothing found", ExitCode.HOLDS),
        ("unknown", ExitCode.UNKNOWN),
        ("one machine not concerned", ExitCode.HOLDS),
        ("one machine unknown", ExitCode.UNKNOWN),
        ("two files", ExitCode.FAILS),
        ("a surprise, and more unknown", ExitCode.UNKNOWN),
        ("a violation, and more unknown", ExitCode.FAILS),
        ("a file that cannot be read", ExitCode.UNKNOWN),
        ("no file that can be read", ExitCode.UNKNOWN),
    ],
)
def test_not_knowing_is_no_pass(situation: str, answer: ExitCode) -> None:
    """An unknown verdict is not a pass.

    A machine without any observations is ignored only if another machine could be judged.
    """
    assert answer == SITUATIONS[situation].total()
