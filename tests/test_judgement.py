"""Recordings are judged by the right machines, and errors in recordings have the right codes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from fsm.errors import InputError
from fsm.language.codes import RULES
from fsm.language.library import home
from fsm.machine.calls import unobserved
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.recordings import form
from fsm.report import ExitCode, Report, json_report
from fsm.report.cases import cases as as_cases
from fsm.report.cases import github, junit, sarif
from fsm.report.text import text as as_text
from fsm.verdict import Holds, Unknown

RECORDINGS = Path(__file__).parent / "recordings"
TRACE = '{"entity": "c1", "event": "stop", "reply": "ok"}\n'

WRONG: tuple[tuple[str, str, dict[str, object], str], ...] = (
    ("FSM201", "missing.jsonl", {}, "cannot be opened"),
    ("FSM202", "trace.jsonl", {}, "no header names the machine"),
    ("FSM203", "trace.jsonl", {"models": ["cri-container"], "profile": "containerd-1.5"}, "no profile"),
    ("FSM205", "unseen.jsonl", {}, "'exti' in unseen is not a signal of container-status"),
    ("FSM206", "trace.jsonl", {"calls": "-"}, "the form of the file is trace"),
    ("FSM205", "called.jsonl", {}, "'stop' in unseen is a call, not a signal, of container-status"),
    ("FSM207", "cut.edn", {"models": ["cri-container"]}, "the form that begins with '{' does not end"),
    ("FSM208", "uncalled.edn", {"models": ["cri-container"]}, "start ends that was not called"),
    ("FSM211", "trace.jsonl", {"models": ["cri-pod"], "properties": ["stop-is-idempotant"]}, "no property"),
    ("FSM212", "version.jsonl", {}, "Invalid enum value 2 - at `$.trace`"),
    ("FSM214", "outside.jsonl", {}, "machine '/etc/passwd.toml' is not a file in the folder of the recording"),
    ("FSM219", "key.jsonl", {}, "unknown key 'evnt'"),
    ("FSM213", "c1.status.json", {}, "the file is not a checkpoint: a record without a version"),
    ("FSM220", "trace.jsonl", {"form": "cri-call"}, "this is not the name of a form of recording"),
    ("FSM210", "strat.edn", {"models": ["cri-container"]}, "no event 'strat' of cri-container"),
)
HISTORIES = {
    "cut.edn": "{:type :invoke, :f :start, :process 0}\n{:type :ok, :f",
    "uncalled.edn": "{:type :ok, :f :start, :process 0}",
    "strat.edn": "{:type :invoke, :f :strat, :process 0}",
    "c1.status.json": "{}",
    "outside.jsonl": '{"trace": 1, "machine": "/etc/passwd.toml"}\n',
    "key.jsonl": '{"trace": 1, "machine": "cri-container"}\n{"entity": "c1", "evnt": "stop"}\n',
    "version.jsonl": '{"trace": 2, "machine": "cri-container"}\n',
}
HEADERS = {"unseen.jsonl": ["exit", "exti"], "called.jsonl": ["stop"]}


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ('{"trace": 7, "machine": "cri-pod"}', "7"),
        ('{"trace": "1", "machine": "cri-pod"}', "$.trace"),
        ('{"trace": 1, "machine": 7}', "$.machine"),
        ('{"trace": 1, "machine": "cri-pod", "fresh": "yes"}', "$.fresh"),
        ('{"trace": 1, "machine": "cri-pod", "unseen": "exit"}', "$.unseen"),
    ],
)
def test_a_header_that_is_mistaken_is_no_missing_machine(header: str, what: str, tmp_path: Path) -> None:
    """A wrong header is an error even if a model is given.

    In files that are not traces, the key ``trace`` may have any meaning.
    """
    trace = tmp_path / "trace.jsonl"
    trace.write_text(f"{header}\n{TRACE}", encoding="utf-8")

    for models in ((), ("cri-container",)):
        with pytest.raises(InputError) as raised:
            judge(trace, models=models)
        (problem,) = raised.value.problems
        assert ("FSM212", 1) == (problem.code, problem.line)
        assert what in problem.what

    trace.write_text('{"op": "StopContainer", "id": "c1", "trace": "abc"}\n[7]\n', encoding="utf-8")
    assert judge(trace, models=("cri-container",)).form is not form.TRACE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "profile", "broken", "known"),
    [
        ("2.1.9-random.calls.jsonl.gz", "containerd-2.1", [], []),
        ("2.1.9-forgotten.log.gz", "containerd-2.1", [], []),
        ("1.7.24-nri.nri.jsonl.gz", "containerd-1.7", [], []),
        ("1.6.20-orphan.log.gz", "containerd-1.6", [], ["stop-of-the-stopped-succeeds"]),
        ("1.6.20-orphan.log.gz", None, ["stop-of-the-stopped-succeeds"], []),
        ("containerd-1.6.20.log", None, ["stop-of-the-gone-succeeds"], []),
    ],
)
def test_real_recordings_have_the_properties_of_their_machines(
    name: str, profile: str | None, broken: list[str], known: list[str]
) -> None:
    found = judge(str(RECORDINGS / name), profile=profile, properties=())
    shown = [each for judgement in found.judgements for each in judgement.properties]
    names = {status: [each.clause.name for each in shown if each.status == status] for status in ("violated", "known")}

    assert set(broken) <= set(names["violated"])
    assert bool(broken) == bool(names["violated"])
    assert set(known) <= set(names["known"])
    assert not [each for each in shown if each.status == "unknown"]
    assert [each for each in shown if each.status == "holds"]


STARTED_TWICE = """{"trace": 1, "machine": "container-status", "fresh": true}
{"entity": "c1", "event": "CreateContainer", "reply": "ok"}
{"entity": "c1", "event": "StartContainer", "reply": "ok"}
{"entity": "c1", "event": "StartContainer", "reply": "ok"}
"""


def test_every_format_has_the_property_and_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(STARTED_TWICE, encoding="utf-8")
    (tmp_path / "once.jsonl").write_text(STARTED_TWICE.rpartition("{")[0], encoding="utf-8")
    name = "started-at-most-once"
    report = Report(judged=(judge(file, properties=[name]),))
    once = Report(judged=(judge(tmp_path / "once.jsonl", properties=[name]),))

    assert ExitCode.FAILS.value == report.code()
    assert ExitCode.UNKNOWN.value == once.code()  # a single start does not exercise the property
    for write in (as_text, json_report.json):
        assert f"breaks the property {name}" in write(report)
        assert f"breaks the property {name}" not in write(once)
    for tool in (junit, sarif, github):
        assert f"breaks the property {name}" in tool(as_cases(report))
        assert f"breaks the property {name}" not in tool(as_cases(once))
    assert "lines      :3, :4" in as_text(report)
    findings = json.loads(json_report.json(report))["recordings"][0]["machines"][0]["findings"]
    assert [3, 4] == [line["line"] for finding in findings for line in finding["first"][0]["lines"]]
    assert f"container-status/properties/{name}" in sarif(as_cases(report))
    assert "::error file=" in github(as_cases(report))
    assert 'classname="fsm.container-status.properties"' in junit(as_cases(report))


@pytest.mark.parametrize(("code", "name", "how", "what"), WRONG, ids=[case[1] for case in WRONG])
def test_mistakes_have_a_code_and_a_way_out(
    code: str, name: str, how: dict[str, object], what: str, tmp_path: Path
) -> None:
    (tmp_path / "trace.jsonl").write_text(TRACE, encoding="utf-8")
    for file, text in HISTORIES.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    for file, unseen in HEADERS.items():
        header = json.dumps({"trace": 1, "machine": "container-status", "unseen": unseen})
        (tmp_path / file).write_text(f"{header}\n{TRACE}", encoding="utf-8")

    with pytest.raises(InputError) as caught:
        judge(str(tmp_path / name), **how)  # type: ignore[arg-type]  # a table of keywords

    (problem,) = caught.value.problems
    assert code == problem.code
    assert what in problem.what
    assert problem.hint


def test_every_code_of_recordings_has_a_case() -> None:
    """Every error code for recordings has a case here, except for a few codes that are tested elsewhere."""
    others = {"FSM204", "FSM209", "FSM215", "FSM216", "FSM217", "FSM218", "FSM221", "FSM222", "FSM223", "FSM225"}
    others |= {"FSM240", "FSM241", "FSM242"}  # tests/recordings/test_log_forms.py
    assert {code for code in RULES if code.startswith("FSM2")} == {case[0] for case in WRONG} | others


@pytest.mark.parametrize(
    ("machine", "what"),
    [
        ("cri-containr", "model 'cri-containr': this is not the name of a model"),
        ("no/such.toml", "model '{beside}/no/such.toml': the file cannot be opened: no such file or directory"),
        ("x\0.toml", "machine 'x\0.toml' is not a file in the folder of the recording or below it"),
    ],
)
def test_a_header_that_names_no_machine_is_told_with_its_place(machine: str, what: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(json.dumps({"trace": 1, "machine": machine}) + "\n" + TRACE, encoding="utf-8")

    with pytest.raises(InputError) as caught:
        judge(str(trace))

    what = what.format(beside=tmp_path)
    assert [(str(trace), 1, what)] == [(each.path, each.line, each.what) for each in caught.value.problems]


def test_a_header_names_the_machine(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        json.dumps({"trace": 1, "machine": "cri-container", "fresh": True}) + "\n" + TRACE, encoding="utf-8"
    )

    judged = judge(str(trace))

    assert [("cri-container", Holds())] == [(each.machine.name, each.verdict) for each in judged.judgements]


def test_a_path_in_a_header_starts_at_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = (home() / "models" / "cri-container.toml").read_text(encoding="utf-8")
    trace = tmp_path / "run" / "trace.jsonl"
    trace.parent.mkdir()
    trace.write_text(json.dumps({"trace": 1, "machine": "mine.toml", "fresh": True}) + "\n" + TRACE, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(model.replace('"cri-container"', '"another"', 1), encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InputError, match="cannot be opened"):
        judge("run/trace.jsonl")
    (trace.parent / "mine.toml").write_text(model, encoding="utf-8")
    judged = judge("run/trace.jsonl")

    assert [("cri-container", Holds())] == [(each.machine.name, each.verdict) for each in judged.judgements]


@pytest.mark.parametrize(
    "name",
    ["../mine.toml", "../run/real.toml", "{here}/mine.toml", "link.toml", "pipe.toml", "nul\\u0000.toml", "run/"],
)
def test_a_header_opens_no_file_elsewhere(name: str, tmp_path: Path) -> None:
    here = tmp_path / "run"
    (here / "run").mkdir(parents=True)
    for path in (tmp_path / "mine.toml", here / "real.toml"):
        path.write_text((home() / "models" / "cri-container.toml").read_text("utf-8"), "utf-8")
    (here / "mine.toml").symlink_to("../mine.toml")
    (here / "link.toml").symlink_to("../mine.toml")
    os.mkfifo(here / "pipe.toml")
    trace = here / "trace.jsonl"
    trace.write_text(f'{{"trace": 1, "machine": "{name.format(here=here)}", "fresh": true}}\n{TRACE}', encoding="utf-8")

    with pytest.raises(InputError) as caught:
        judge(trace)

    (problem,) = caught.value.problems
    assert ("FSM214", 1) == (problem.code, problem.line)
    assert {Holds()} == {each.verdict for each in judge(trace, models=[str(tmp_path / "mine.toml")]).judgements}


def test_a_field_that_the_model_does_not_have_leaves_the_verdict_open(tmp_path: Path) -> None:
    """An unknown field leaves the verdict open, because its name may be misspelt."""
    trace = tmp_path / "trace.jsonl"
    head = (
        '{"trace": 1, "machine": "cri-container", "fresh": true}\n{"entity": "c1", "event": "create", "reply": "ok"}\n'
    )
    for field, verdict in (
        ("exit-code", Holds()),
        ("exit-kode", Unknown(why="line 3: cri-container has no field 'exit-kode'; did you mean 'exit-code'?")),
    ):
        shown = {"entity": "c1", "shows": "CONTAINER_CREATED", "fields": {field: 0}}
        trace.write_text(head + json.dumps(shown), encoding="utf-8")
        assert verdict == judge(str(trace)).judgements[0].verdict


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"entity": "c1", "event": "remov"}', "line 3: cri-container has no event 'remov'; did you mean 'remove'?"),
        (
            '{"entity": "c1", "detail": "start"}',
            "line 3 has no event and no output, and shows no state",
        ),
    ],
)
def test_a_trace_with_a_line_that_cannot_be_judged_does_not_hold(line: str, why: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    head = json.dumps({"trace": 1, "machine": "cri-container", "fresh": True})
    first, *rest = TRACE.splitlines()
    trace.write_text("\n".join([head, first, line, line, *rest]), encoding="utf-8")

    (judgement,) = judge(str(trace)).judgements

    assert Unknown(why=why) == judgement.verdict
    assert 2 in judgement.notes.values()

    # The report mentions lines that could not be judged, even if there is a violation.
    wrong = '{"entity": "c2", "event": "start", "reply": "ok"}'
    for lines, told in (([line, wrong], True), ([wrong], False)):
        trace.write_text("\n".join([head, first, *lines, *rest]), encoding="utf-8")
        judged = judge(str(trace))
        assert isinstance(judged.judgements[0].verdict, Illegal)
        said = " ".join(as_text(Report(judged=(judged,))).split())
        assert (f"not judged in full: {why}" in said) == told


def test_every_violation_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    """Unless *every* is true, only the first three violations of each cause are kept."""
    trace = tmp_path / "trace.jsonl"
    head = json.dumps({"trace": 1, "machine": "cri-container", "fresh": True})
    trace.write_text("\n".join([head, *['{"entity": "c1", "event": "start", "reply": "ok"}'] * 9]), encoding="utf-8")

    kept = []
    for every in (False, True):
        (judgement,) = judge(str(trace), every=every).judgements
        assert isinstance(judgement.verdict, Illegal)
        (finding,) = judgement.verdict.findings
        kept.append((finding.count, [each.line for each in finding.first]))
        shown = [
            int(line)
            for line in re.findall(
                r"^also at: .*:(\d+)", junit(as_cases(Report(judged=(judge(str(trace), every=every),)))), re.MULTILINE
            )
        ]
        assert kept[-1][1] == [2, *shown]

    assert [(kept[0][0], [2, 3, 4]), (kept[0][0], list(range(2, 2 + kept[0][0])))] == kept


def test_what_one_known_deviation_explains_is_one_finding() -> None:
    name = "1.7.24-nri"
    judged = judge(RECORDINGS / f"{name}.nri.jsonl.gz", calls=RECORDINGS / f"{name}.calls.jsonl.gz")

    known = [
        (judgement.machine.name, finding.first[0].observation.event, finding.first[0].resembles)
        for judgement in judged.judgements
        if isinstance(judgement.verdict, Illegal)
        for finding in judgement.verdict.findings
    ]

    assert len(known) == len(set(known)) >= 3
    assert all(deviations for _, _, deviations in known)


def test_an_output_alone_covers_the_cell_that_alone_can_have_emitted_it(tmp_path: Path) -> None:
    trace = tmp_path / "nri.jsonl"
    met = []
    for events in (["CreateContainer", "StartContainer"], ["StartContainer"]):
        lines = [{"ts": at, "event": each, "pod": "p1", "container": "c1"} for at, each in enumerate(events)]
        trace.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        (container,) = (each for each in judge(str(trace)).judgements if each.machine.entity == "container")
        met.append([cell for cell, count in container.covered.cells.items() if count])

    assert [[("create-container", "absent"), ("start-container", "creating")], []] == met


def test_a_fresh_trace_knows_that_nothing_was_there(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"entity": "c1", "event": "start", "reply": "ok"}\n', encoding="utf-8")

    (middle,) = judge(str(trace), models=["cri-container"]).judgements
    (beginning,) = judge(str(trace), models=["cri-container"], fresh=True).judgements

    assert (Holds, Illegal) == (type(middle.verdict), type(beginning.verdict))


def test_a_recording_of_nothing_is_unknown(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.log"
    nothing.write_text("Nov 20 11:03:20 n1 kernel: eth0: link up\n", encoding="utf-8")

    judged = judge(str(nothing))

    assert not judged.form.name
    assert {Unknown} == {type(each.verdict) for each in judged.judgements}


STARTING = 'time="2026-11-20T11:03:20Z" level=info msg="starting containerd" revision= version=1.7.24\n'
SUPPRESSED = "Nov 20 11:03:20 n1 systemd-journald[1]: Suppressed 7 messages from containerd.service\n"
DAEMON = {
    "a start of the runtime": STARTING,
    "restarts": STARTING * 3,
    "missing messages": SUPPRESSED,
    "both": STARTING + SUPPRESSED,
}


@pytest.mark.parametrize("case", DAEMON)
def test_a_recording_of_nobody_is_unknown(case: str, tmp_path: Path) -> None:
    daemon = tmp_path / "daemon.log"
    daemon.write_text(DAEMON[case], encoding="utf-8")

    judged = judge(str(daemon), models=["container-status", "pod-sandbox"])

    assert {Unknown(why=f"the trace mentions no {kind}") for kind in ("container", "pod")} == {
        each.verdict for each in judged.judgements
    }
    assert ExitCode.UNKNOWN is Report(judged=(judged,)).total()


def test_a_restart_and_events_that_the_machine_does_not_know_are_unknown(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"event": "restart"}\n{"entity": "c1", "event": "x"}\n', encoding="utf-8")

    (judgement,) = judge(str(trace), models=["container-status"]).judgements

    assert Unknown(why="line 2: container-status has no event 'x'") == judgement.verdict


def test_a_machine_of_nobody_does_not_count_beside_another(tmp_path: Path) -> None:
    alone = tmp_path / "alone.log"
    stop = f'StopContainer for \\"{"c" * 64}\\"'
    lines = [f'time="T" level=info msg="{stop}{end}"\n' for end in (" with timeout 1 (s)", " returns successfully")]
    alone.write_text("".join([STARTING, *lines]), encoding="utf-8")

    judged = judge(str(alone), fresh=True)

    assert [Holds, Unknown] == [type(each.verdict) for each in judged.judgements]
    assert ExitCode.HOLDS is Report(judged=(judged,)).total()


OVERLAPPING = '{"entity": "c2", "event": "create", "reply": "ok"}\n' + "".join(
    json.dumps({"entity": "c2", "event": event, "phase": "request"}) + "\n" for event in ("start", "stop", "remove") * 3
)
TWICE = '{"entity": "c1", "event": "create", "reply": "ok"}\n' * 2
REFUSED = '{"entity": "c3", "event": "stop", "reply": "NOT_FOUND"}\n'


@pytest.mark.parametrize(
    ("trace", "answer"),
    [
        (TWICE, ExitCode.HOLDS),
        (OVERLAPPING, ExitCode.UNKNOWN),
        (TWICE + OVERLAPPING, ExitCode.UNKNOWN),
        (TWICE + REFUSED + OVERLAPPING, ExitCode.FAILS),
    ],
)
def test_what_could_not_be_judged_is_no_pass_beside_surprises(
    trace: str, answer: ExitCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unobserved, "LIMIT", 20)
    file = tmp_path / "trace.jsonl"
    file.write_text(trace, encoding="utf-8")

    judged = judge(str(file), models=["container-status"], fresh=True)

    assert answer is Report(judged=(judged,)).total()


def test_several_machines_of_one_kind_judge_the_same_recording() -> None:
    models = ["cri-container", "container-status"]

    judged = judge(str(RECORDINGS / "containerd-1.7.24.log"), models=models)

    assert models == [each.machine.name for each in judged.judgements]
    assert {Holds()} == {each.verdict for each in judged.judgements}
    assert 1 == len({each.observations for each in judged.judgements})


def test_a_profile_applies_to_the_machines_that_have_it() -> None:
    judged = judge(
        str(RECORDINGS / "containerd-1.6.20.log"),
        models=["container-status", "nri-pod"],
        profile="containerd-1.6",
    )

    container, _ = judged.judgements
    assert Holds() == container.verdict
    assert ["stop-of-removed"] == [each.first.deviation.name for each in container.tolerated]


def test_a_machine_that_knows_no_event_of_the_recording_cannot_tell(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"entity": "p1", "event": "StopContainer", "reply": "ok"}\n', encoding="utf-8")

    (judgement,) = judge(str(trace), models=["nri-pod"]).judgements

    why = "line 1: nri-pod has no event 'StopContainer'"
    assert Unknown(why=why) == judgement.verdict


POD, CONTAINER = "b" * 64, "a" * 64
STATUS = f"""\
time="2026-11-20T11:03:29.0Z" level=info msg="RunPodSandbox for &PodSandboxMetadata{{Name:p0,}} returns sandbox id \\"{POD}\\""
time="2026-11-20T11:03:29.1Z" level=info msg="CreateContainer within sandbox \\"{POD}\\" for &ContainerMetadata{{Name:c,}} returns container id \\"{CONTAINER}\\""
time="2026-11-20T11:03:29.3Z" level=error msg="ContainerStatus for \\"{CONTAINER}\\" failed" error="rpc error: code = %s desc = failed to get image"
time="2026-11-20T11:03:29.4Z" level=error msg="PodSandboxStatus for \\"{POD}\\" failed" error="rpc error: code = %s desc = failed to query controller status"
"""


@pytest.mark.parametrize(
    ("code", "verdict"), [("Unknown", Holds), ("Internal", Holds), ("Unavailable", Holds), ("NotFound", Illegal)]
)
def test_a_status_may_fail_but_not_deny_what_is_there(code: str, verdict: type, tmp_path: Path) -> None:
    """A status call may fail because a shim has died, but must not say NOT_FOUND before the removal."""
    log = tmp_path / "containerd.log"
    log.write_text(STATUS % (code, code), encoding="utf-8")

    judged = judge(str(log))

    assert verdict in {type(each.verdict) for each in judged.judgements}
    assert (verdict is Illegal) == any(isinstance(each.verdict, Illegal) for each in judged.judgements)


def test_a_recording_of_something_else_is_unknown() -> None:
    """The clients' contract has no outputs, so it cannot judge the events of a plugin."""
    judged = judge(RECORDINGS / "nri-events-2.1.9.jsonl", models=("cri-pod",))

    assert "the recording has only outputs, but cri-pod has no outputs" in as_text(Report(judged=(judged,)))
    assert Report(judged=(judged,)).total() is ExitCode.UNKNOWN
    assert (
        Report(judged=(judge(RECORDINGS / "nri-events-2.1.9.jsonl", models=("plugin-pod",)),)).total() is ExitCode.HOLDS
    )


def test_a_call_in_a_trace_names_its_entity(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    made = "".join(f'{{"entity": "{name}", "event": "create", "reply": "ok"}}\n' for name in "ab")

    found = {}
    for event in ("start", "restart"):
        trace.write_text(f'{made}{{"event": "{event}"}}\n', encoding="utf-8")
        (judgement,) = judge(trace, models=("cri-container",)).judgements
        found[event] = judgement.verdict

    assert found == {"start": Unknown(why="line 3: 'start' is a call, but names no container"), "restart": Holds()}


def test_what_is_counted_is_there() -> None:
    notes = [judge(each).notes for each in sorted(RECORDINGS.glob("*calls*1*.jsonl"))]

    assert all(count for each in notes for count in each.values())
