"""Histories of concurrent operations are read in every supported format, and other formats are refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fsm.errors import InputError
from fsm.language.codes import RULES
from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.recordings import histories, open_recording
from fsm.recordings.form import HISTORY
from fsm.recordings.histories import read, recognised
from fsm.verdict import Holds

if TYPE_CHECKING:
    from fsm.machine.findings import Violation
    from fsm.monitor.judgement import Judged

FOLDER = Path(__file__).parent.parent / "linearizability" / "histories"

# For each pair: the judging machine, the line of the violation, and the lines of the operations in the stretch.
PAIRS: dict[str, tuple[str, int, list[int]]] = {
    "starts-at-once.edn": ("cri-container", 6, [5, 6]),
    "lost-reply.edn": ("container-status", 10, [8, 10]),
    "removed-in-between.edn": ("container-status", 6, [4, 6]),
    "stop-during-start.json": ("container-status", 7, [6, 7]),
    "operations.json": ("container-status", 4, [3, 4]),
    "events.jsonl": ("cri-pod", 8, [5, 8]),
    "outputs.jsonl": ("", 4, [2, 3, 4]),
    "restart.jsonl": ("", 9, [7, 6, 9]),
}


def judged(name: str, machine: str) -> Judged:
    return judge(str(FOLDER / name), models=[machine] if machine else [])


def violation(name: str, machine: str) -> Violation:
    (judgement,) = judged(name, machine).judgements
    assert isinstance(judgement.verdict, Illegal)
    (finding,) = judgement.verdict.findings
    assert 1 == finding.count
    return finding.first[0]


def test_every_file_is_one_of_a_pair() -> None:
    names = {name.replace(".", f".{kind}.") for name in PAIRS for kind in ("ok", "bad")}

    assert names == {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("name", PAIRS)
def test_one_is_legal(name: str) -> None:
    found = judged(name.replace(".", ".ok."), PAIRS[name][0])

    (judgement,) = found.judgements
    assert HISTORY is found.form
    assert Holds() == judgement.verdict
    assert judgement.observations
    assert sum(judgement.covered.cells.values())


@pytest.mark.parametrize("name", PAIRS)
def test_its_twin_is_not(name: str) -> None:
    machine, line, lines = PAIRS[name]

    found = violation(name.replace(".", ".bad."), machine)

    assert found.stretch
    assert (line, lines) == (found.line, [each.line for each in found.stretch.operations])
    assert found.clause.source


def test_a_violation_has_its_clause_and_what_would_have_been_legal() -> None:
    found = violation("removed-in-between.bad.edn", "container-status")

    assert ("start", "ok", ("absent",)) == (found.observation.event, found.illegal, found.before)
    assert [("absent", ("NOT_FOUND",))] == [(each.state, each.what) for each in found.permitted]
    assert "MUST" == found.clause.level


# -- meanings of forms -----------------------------------------------------------

SAME = (
    '{:type :invoke, :f :start, :process 3, :value ["c1" nil]}\n{:type :fail, :f :start, :process 3, :value ["c1" nil], :error :not-found}',
    "[{:type :invoke, :f :start, :process 3, :key :c1} {:type :fail, :f :start, :process 3, :error [:not-found 404]}]",
    '{"type": "invoke", "f": "start", "process": 3, "value": {"key": "c1"}}\n{"type": "fail", "f": "start", "process": 3, "error": {"code": "not-found"}}',
    '[{"ClientId": 3, "Input": {"op": "start", "key": "c1"}, "Call": 0, "Output": {"err": "not-found"}, "Return": 1}]',
    '{"client_id": 3, "input": {"f": "start", "id": "c1"}, "call": 0, "output": "not-found", "return": 1, "metadata": null}',
    '[{"ClientId": 3, "Kind": 0, "Value": {"event": "start", "entity": "c1"}, "Id": 8},\n {"ClientId": 3, "Kind": 1, "Value": {"reply": "not-found"}, "Id": 8}]',
    '{"process": 3, "event": "start", "entity": "c1", "phase": "request"}\n{"process": 3, "phase": "reply", "reply": "not-found"}',
    '{"history": 1}\n{"process": 3, "event": "start", "entity": "c1", "start": 0, "end": 1, "reply": "not-found"}',
)


@pytest.mark.parametrize("text", SAME)
def test_the_same_operation_in_every_form(text: str) -> None:
    assert recognised(text.encode())

    ((seen, _, _, _),) = read("x", text.encode()).operations

    assert ("c1", "start", "not-found", 3) == (seen.entity, seen.event, seen.reply, seen.process)
    assert (0, 1) == (seen.start, seen.end)


@pytest.mark.parametrize(
    ("text", "reply", "shows"),
    [
        ("{:type :ok, :f :start, :process 0, :value nil}", "ok", ""),
        ("{:type :ok, :f :start, :process 0, :value :BUSY}", "BUSY", ""),
        ("{:type :ok, :f :start, :process 0, :value {:reply :ok, :shows :OPEN}}", "ok", "OPEN"),
        ("{:type :ok, :f :start, :process 0, :value {:shows :OPEN}}", "ok", "OPEN"),
        ('{:type :fail, :f :start, :process 0, :error ["BUSY" "try again"]}', "BUSY", ""),
    ],
)
def test_what_an_end_says(text: str, reply: str, shows: str) -> None:
    whole = f"{{:type :invoke, :f :start, :process 0, :value nil}}\n{text}"

    ((seen, _, line, _),) = read("x", whole.encode()).operations

    assert (reply, shows, 2) == (seen.reply, seen.shows, line)


def test_a_value_that_was_asked_with_is_no_reply() -> None:
    """A value at the end of a call is not a reply if it equals the argument, which Jepsen repeats there."""
    text = "{:type :invoke, :f :start, :process 0, :value 7}\n{:type :ok, :f :start, :process 0, :value 7}"

    ((seen, *_),) = read("x", text.encode()).operations

    assert "ok" == seen.reply


def test_what_failed_without_an_error_did_nothing() -> None:
    text = "{:type :invoke, :f :start, :process 0}\n{:type :fail, :f :start, :process 0}"

    found = read("x", text.encode())

    assert ((), 1) == (found.operations, found.left_out)


@pytest.mark.parametrize(
    "text",
    [
        "{:type :invoke, :f :start, :process 0}\n{:type :info, :f :start, :process 0, :error :timeout}",
        "{:type :invoke, :f :start, :process 0}",
        '{"input": "start", "call": 0, "output": "ok", "return": null}',
        '{"input": "start", "call": 0, "output": "ok", "return": 9223372036854775807}',
        '{"process": 1, "event": "start", "start": 0}',
        '{"process": 1, "event": "start", "phase": "request"}\n{"process": 1, "phase": "lost"}',
    ],
)
def test_what_never_returned(text: str) -> None:
    ((seen, *_),) = read("x", text.encode()).operations

    assert (0, None) == (seen.start, seen.end)


def test_the_nemesis_is_no_client() -> None:
    """The operations of Jepsen's nemesis begin and end with :info, and have values of any kind.

    They count only if the machine has an event of that name.
    """
    nemesis = "{:type :info, :f :%s, :process :nemesis, :value {:any [1 2 3]}}\n"
    rest = (FOLDER / "starts-at-once.ok.edn").read_text(encoding="utf-8")
    found = read("x", (2 * (nemesis % "restart") + rest).encode())

    assert [("nemesis", True)] == [(each.seen.process, each.aside) for each in found.operations if each.aside]


def test_what_is_nobodys_own_happens_to_everybody(tmp_path: Path) -> None:
    """An operation without an entity, such as a restart, affects every entity."""
    text = (FOLDER / "restart.bad.jsonl").read_text(encoding="utf-8")
    again = text.replace('"entity": "c1"', '"entity": "c2"').splitlines(keepends=True)[1:]
    again = [line.replace('"process": "', '"process": "x') for line in again if "operator" not in line]
    path = tmp_path / "two.jsonl"
    path.write_text(text + "".join(again), encoding="utf-8")

    (judgement,) = judge(str(path)).judgements

    assert 2 == judgement.entities


def test_gzip_and_standard_forms_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "history.edn.gz"
    path.write_bytes(gzip.compress((FOLDER / "starts-at-once.bad.edn").read_bytes()))

    recording = open_recording(str(path))

    assert recording.history
    assert (HISTORY, 4) == (recording.form, len(recording.history.operations))


@pytest.mark.parametrize(
    "text",
    [
        '{"op": "StopContainer", "id": "c1", "code": "OK"}',
        '{"entity": "c1", "event": "stop", "reply": "ok"}',
        '{"entity": "c1", "output": "StopContainer"}',
        '{"trace": 1, "machine": "door"}',
        '{"event": "StopContainer", "ts": 1}',
        'time="2026-11-20T11:03:20Z" level=info msg="StopContainer"',
        '{"level": "info", "msg": "x", "type": "io.containerd", "process": 7, "time": "2026-11-20T11:03:20Z"}',
        "[1, 2]",
        "",
        "{",
    ],
)
def test_what_is_no_history_is_not_taken_for_one(text: str) -> None:
    assert not recognised(text.encode())


# -- errors -------------------------------------------------------------

CALL = "{:type :invoke, :f :start, :process 0}\n"

WRONG: tuple[tuple[str, str, int, str], ...] = (
    (CALL + "{:type", "FSM207", 2, "the form that begins with '{' does not end"),
    ('[{"type": "invoke", "f": "start", "process": 0}\n {"type": "ok"}]', "FSM207", 2, "there is no comma after an item of the list"),
    ('[{"type": "invoke", "f": "start", "process": 0}', "FSM207", 1, "the list does not end"),
    ('[{"type": "invoke", "f": "start", "process": 0}]\n]', "FSM207", 2, "there is text after the end of the list"),
    ('{"type": "invoke", "f": "start", "process": 0}\n{"type": ok}', "FSM207", 2, "expecting value"),
    (CALL + CALL, "FSM208", 2, "the process calls start during its call of start on line 1"),
    (CALL + "{:type :ok, :f :stop, :process 0}", "FSM208", 2, "the end has the event 'stop', but its call on line 1 has 'start'"),
    (CALL + "{:type :ok, :f :start, :process 1}", "FSM208", 2, "start ends that was not called"),
    (CALL + "{:type :over, :f :start, :process 0}", "FSM208", 2, "no operation can have the type 'over'"),
    (CALL + "{:type :ok, :f nil, :process 0}", "FSM208", 2, "the value None of f is not an event"),
    (CALL + "{:type :ok, :f :start, :process 0, :value [1 2 3]}", "FSM208", 2, "a value has 3 items"),
    (CALL + "{:type :ok, :f :start, :process 0, :value {:reply {}}}", "FSM208", 2, "the reply {} is not a name"),
    (CALL + ":ok", "FSM208", 2, "'ok' is not an operation"),
    ('{"input": "start", "call": 5, "output": "ok", "return": 4}', "FSM208", 1, "the operation returns at 4, before its call at 5"),
    ('{"input": "start", "call": "5", "output": "ok"}', "FSM208", 1, "the operation has the call '5' and the return None"),
    ('{"input": {"key": 1}, "call": 5}', "FSM208", 1, "the input {'key': 1} has no event"),
    ('{"kind": "x", "value": "start", "id": 1}', "FSM208", 1, "no event can have the kind 'x'"),
    ('{"process": 1, "event": "start", "phase": "answered"}', "FSM208", 1, "no operation can have the phase 'answered'"),
    ('{"process": 1, "event": 5}', "FSM208", 1, "expected `str`, got `int` - at `$.event`"),
    ('{"process": 1, "entity": "c1"}', "FSM208", 1, "the operation has neither an event nor an observed state"),
    ('{"process": 1, "phase": "request"}', "FSM208", 1, "the call does not name an event"),
    ('{"process": 1, "event": "a", "start": 1}\n{"process": 1, "event": "b"}', "FSM208", 2, "the operation has no start, unlike the operations before it"),
    ('{"history": 2}', "FSM208", 1, "the header of the history is wrong: invalid enum value 2 - at `$.history`"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "code", "line", "what"), WRONG, ids=[case[3] for case in WRONG])
def test_what_is_wrong_is_told_with_its_line(text: str, code: str, line: int, what: str) -> None:
    with pytest.raises(InputError) as caught:
        read("x.edn", text.encode())

    problem = caught.value.problems[0]
    assert ("x.edn", line, code, what) == (problem.path, problem.line, problem.code, problem.what)
    assert problem.hint
    assert code in RULES


def test_all_problems_are_told_at_once_but_not_thousands() -> None:
    with pytest.raises(InputError) as caught:
        read("x.edn", b"{:type :ok, :f :start, :process 0}\n" * 1000)

    assert [*range(1, histories.REPORTED + 1)] == [each.line for each in caught.value.problems]


def test_a_byte_that_is_no_text() -> None:
    with pytest.raises(InputError) as caught:
        read("x.edn", CALL.encode() + b"\xff")

    assert [("FSM207", 2)] == [(each.code, each.line) for each in caught.value.problems]


def test_a_history_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history may be too large even if its compressed file is small."""
    path = tmp_path / "large.edn.gz"
    path.write_bytes(gzip.compress(CALL.encode() * 100_000))
    monkeypatch.setattr(histories, "LARGEST", 1 << 20)

    with pytest.raises(InputError) as caught:
        open_recording(str(path))

    assert [("FSM209", "the history is larger than 1 MiB")] == [
        (each.code, each.what) for each in caught.value.problems
    ]


def test_a_list_nested_too_deep_is_refused() -> None:
    text = CALL + "[" * 100_000

    with pytest.raises(InputError, match="is nested more than"):
        read("x.edn", text.encode())
    with pytest.raises(InputError, match="is nested too deeply"):
        read("x.json", b'{"type": "invoke", "f": "start", "process": 0}\n' + b"[" * 100_000)


def test_a_sight_that_the_machine_never_shows(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(CALL + "{:type :ok, :f :start, :process 0, :value {:shows :OPENED}}", encoding="utf-8")

    with pytest.raises(InputError) as caught:
        judge(str(path), models=["cri-container"])

    (problem,) = caught.value.problems
    assert ("FSM210", 2) == (problem.code, problem.line)
    assert "the history shows 'OPENED', which cri-container never shows" == problem.what


def test_a_history_that_names_no_machine(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(CALL, encoding="utf-8")

    with pytest.raises(InputError) as caught:
        judge(str(path))

    (problem,) = caught.value.problems
    assert ("FSM202", "no header names the machine to which the history belongs") == (
        problem.code,
        problem.what,
    )
    assert '{"history": 1, "machine": "NAME"}' in problem.hint


def test_timers_are_named_as_undecided(tmp_path: Path) -> None:
    file = tmp_path / "leases.jsonl"
    file.write_text(
        '{"history": 1, "machine": "lease"}\n'
        '{"process": 1, "entity": "a", "event": "acquire", "start": 0, "end": 5, "reply": "ok"}\n'
        '{"process": 2, "entity": "a", "event": "expire", "start": 7, "end": 9}\n'
    )
    lease = Path(__file__).parents[2] / "examples" / "models" / "lease.toml"

    (judgement,) = judge(str(file), models=[str(lease)]).judgements

    assert isinstance(judgement.verdict, Holds)
    assert judgement.notes == {"timer term not decided": 1}
