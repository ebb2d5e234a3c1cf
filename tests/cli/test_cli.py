"""Tests for exit codes, pipes, terminals and signals, with the command in a separate process."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from commands import FAILING, FSM, HOLDING, PLAIN, RECORDINGS, Terminal, fsm, process, shell
from door_project import IMPLEMENTATION
from jsonschema import Draft202012Validator
from machines import DOOR
from real_parts import program

from fsm.cli import commands
from fsm.errors import code_url, documented
from fsm.language.library import home, load, names, roles, systems

NEWEST = str(RECORDINGS / "containerd-2.1.9.log")
FORMATS = ("text", "json", "junit", "sarif", "github")
PROFILES = [(name, profile) for name in names() for profile in load(name).profiles]


def without_privileges() -> list[str]:
    """Return a command prefix that drops root privileges, so that file permissions apply."""
    if os.geteuid() != 0:
        return []
    return [program("setpriv"), "--bounding-set", "-dac_override,-dac_read_search", "--"]


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("large") / "large.jsonl"
    path.write_text(
        fsm("simulate", "container-status", "--length", "60000", "--entities", "30").stdout, encoding="utf-8"
    )
    assert path.stat().st_size > 4 << 20
    return str(path)


# -- as a process and as a function ----------------------------------------------


@pytest.mark.slow
@pytest.mark.installed
@pytest.mark.parametrize(
    "line",
    [
        "judge {failing}",
        "judge --format json --profile containerd-1.6 {failing} -",
        "cover {failing}",
        "convert {failing} -o table.parquet",
        "merge {failing}",
        "check models/door.toml",
        "test models/door.toml --against model:models/door.toml --examples 1",
        "findings event-backoff",
        "proxy --listen unix:///nowhere/fsm.sock --to unix:///nowhere/cri.sock",
        "record --nri unix:///nowhere/nri.sock",
        "serve --cri unix:///nowhere/cri.sock",
        "mutate models/door.toml",
        "diff cri-pod nri-pod",
        "draw cri-pod --to md",
        "explore models/door.toml --no-properties",
        "list",
        "show cri-pod --state ready",
        "simulate nri-pod --length 20",
        "export cri-pod --to json",
        "import -",
        "init door",
        "schema",
        "explain FSM104",
        "help judge",
        "judge no-such.log",
        "jugde",
        "--version",
        "",
    ],
)
def test_what_most_tests_call_is_what_people_run(line: str, tmp_path: Path) -> None:
    """A command has the same exit code and output whether it runs in a process or is called as a function."""
    arguments = [each.format(failing=FAILING) for each in line.split()]
    claim = '[property.gone-for-good]\nsays = "It is."\nMUST  = "nobody"\nnever = "gone then open"\n'
    for folder, text in (("models", DOOR), ("properties", f'machine = "door"\n{claim}')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "door.toml").write_text(text, encoding="utf-8")
    data = b"{states: [off, on], initial: off, transitions: [[flip, off, on]]}"

    run, called = (each(*arguments, stdin=data, cwd=tmp_path) for each in (process, fsm))

    assert (run.returncode, run.stdout, run.stderr) == (called.returncode, called.stdout, called.stderr)
    assert "Traceback" not in run.stderr


def test_every_command_was_run_in_a_process() -> None:
    """The previous test runs every command, including commands that are added later."""
    (lines,) = [mark.args[1] for mark in test_what_most_tests_call_is_what_people_run.pytestmark if mark.args]  # type: ignore[attr-defined]

    assert {*commands()} <= {line.partition(" ")[0] for line in lines}


# -- exit codes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["judge", FAILING], 1),
        (["judge", HOLDING], 0),
        (["judge", FAILING, "-P", "stop-of-the-gone-succeeds"], 1),
        (["judge", FAILING, "-P", "stop-of-the-gone-succeeds", "--profile", "containerd-1.6"], 0),
        (["judge", FAILING, "-P", "start-ends", "--profile", "containerd-1.6"], 3),
        (["judge", NEWEST], 0),
        (["judge", FAILING, "--profile", "containerd-1.6"], 0),
        (["judge", FAILING, "--profile", "containerd-1.6", "--fail-on", "observed"], 0),
        (["judge", FAILING, "--profile", "containerd-2.1"], 1),
        (["judge", FAILING, HOLDING], 1),
        (["judge", HOLDING, NEWEST], 0),
        (["judge", HOLDING, os.devnull], 3),
        (["judge", FAILING, os.devnull], 1),
        (["judge", HOLDING, "--model", "pod-sandbox"], 0),
        (["judge", str(RECORDINGS / "cri-calls-1.6.20.jsonl")], 1),
        (["judge", str(RECORDINGS / "cri-calls-1.7.24.jsonl")], 0),
        (["judge", str(RECORDINGS / "nri-events-2.1.9.jsonl")], 0),
        (["list"], 0),
        (["list", "--format", "json"], 0),
        (["show", "cri-pod"], 0),
        (["show", "cri-pod", "--format", "json"], 0),
        (["simulate", "cri-pod"], 0),
        (["simulate", "cri-pod", "--profile", "containerd-1.6"], 0),
        (["schema"], 0),
        (["--version"], 0),
        (["--help"], 0),
    ],
    ids=lambda value: " ".join(Path(each).name for each in value) if isinstance(value, list) else str(value),
)
def test_exit_code(arguments: list[str], code: int) -> None:
    ran = fsm(*arguments)

    assert (code, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.endswith("\n")


@pytest.mark.parametrize("form", FORMATS)
def test_the_exit_code_is_the_same_in_every_format(form: str) -> None:
    ran = fsm("judge", "--format", form, FAILING)

    assert (1, "") == (ran.returncode, ran.stderr)
    assert "NOT_FOUND" in ran.stdout


@pytest.mark.parametrize(("form", "level"), [("text", ""), ("text", "observed"), ("json", ""), ("json", "observed")])
def test_weaker_clauses_fail_only_when_asked_for(form: str, level: str, tmp_path: Path) -> None:
    trace = tmp_path / "odd.jsonl"
    trace.write_text('{"entity": "c1", "event": "create", "reply": "ok"}\n' * 2, encoding="utf-8")
    options = ["--fail-on", level] if level else []

    ran = fsm("judge", "--fresh", "--model", "container-status", "--format", form, *options, str(trace))

    assert (1 if level else 0) == ran.returncode
    assert ("violation" if level else "surprise") in ran.stdout


# -- wrong input ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["judge"], "Missing argument 'TRACE...'"),
        (["judge", "no-such.log"], "no-such.log: the file cannot be opened: no such file or directory [FSM201]"),
        (["judge", "/"], "/: the file cannot be opened: is a directory [FSM201]"),
        (["judge", ""], "'': the file cannot be opened: "),
        (["judge", "n" * 300], "n: the file cannot be opened: file name too long [FSM201]"),
        (["judge", "/proc/self/mem"], "/proc/self/mem: the file cannot be read: "),
        (["judge", "-m", "containr-status", HOLDING], "did you mean 'container-status'?"),
        (
            ["judge", "-m", "no-such.toml", HOLDING],
            "no-such.toml: the file cannot be opened: no such file or directory",
        ),
        (["judge", "-m", "./", HOLDING], "is a directory"),
        (["judge", "-p", "containerd-1.66", HOLDING], "did you mean 'containerd-1.6'? profiles: containerd-1.6, "),
        (["judge", "--format", "txt", HOLDING], "'txt' is not one of 'text', 'json', 'junit', 'sarif', 'github'"),
        (["judge", "--fail-on", "must", HOLDING], "'must' is not one of 'MUST', 'SHOULD', 'MAY', 'observed'"),
        (["judge", "--no-such", HOLDING], "No such option '--no-such'"),
        (["jugde", HOLDING], "no command 'jugde': did you mean 'judge'? commands: judge, cover, explore, "),
        (["show", "container-stats"], "did you mean 'container-status'?"),
        (["show", "cri-pod", "--event", "stopp"], "did you mean 'stop'?"),
        (["show", "cri-pod", "--state", "readdy"], "did you mean 'ready'?"),
        (["show", "cri-pod", "--state", ""], "'': states: absent, ready"),
        (["show", "node", "--event", ""], "'': events: "),
        (["show", "cri-pod", "--profile", "x"], "profiles: containerd-1.6, "),
        (
            ["show", "nri-plugin-contract", "-p", "containerd-2.2.3"],
            "no profile is for that version; profiles: containerd-1.7",
        ),
        (
            ["check", "cri-pod", "-p", "containerd-1.5.24"],
            "no profile is for that version; profiles: none, containerd-1.6",
        ),
        (["mutate", "cri-pod", "-p", "containerd-1.5.24"], "no profile is for that version; profiles: containerd-1.6"),
        (["simulate", "cri-pood"], "did you mean 'cri-pod'?"),
        (["simulate", "cri-pod", "--profile", "containerd-1.66"], "did you mean 'containerd-1.6'?"),
        (["simulate", "cri-pod", "--length", "-1"], "-1 is not in the range"),
        (["simulate", "cri-pod", "--entities", "0"], "0 is not in the range"),
        (["schema", "surplus"], "unexpected extra argument (surplus)"),
    ],
    ids=lambda value: " ".join(Path(each).name for each in value) if isinstance(value, list) else "",
)
def test_wrong_input(arguments: list[str], said: str, tmp_path: Path) -> None:
    """The error and its remedy are on standard error; there is no report and no traceback."""
    ran = fsm(*arguments, cwd=tmp_path)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_every_wrong_file_is_told_at_once(tmp_path: Path) -> None:
    ran = fsm("judge", "a.log", HOLDING, "b.log", cwd=tmp_path)

    assert 2 == ran.returncode
    assert ["a.log", "b.log"] == re.findall(r"^(\S+): the file cannot be opened", ran.stderr, re.MULTILINE)


@pytest.mark.parametrize("form", FORMATS)
def test_a_wrong_file_does_not_hide_what_is_found_in_others(form: str, tmp_path: Path) -> None:
    ran = fsm("judge", "--format", form, "gone.log", FAILING, str(tmp_path), HOLDING, cwd=tmp_path)

    assert 2 == ran.returncode
    assert "NOT_FOUND" in ran.stdout
    assert ["gone.log", str(tmp_path)] == re.findall(
        r"^(\S+): the file cannot be opened: .*FSM201", ran.stderr, re.MULTILINE
    )


def test_a_log_of_the_runtime_alone() -> None:
    ran = fsm("judge", "-", stdin=b'time="2026-11-20T11:03:20Z" level=info msg="starting containerd" version=1.7.24\n')

    assert (3, "") == (ran.returncode, ran.stderr)
    assert "container-status unknown, the trace mentions no container\n" in ran.stdout
    assert "1 line read, 1 restart\n" in ran.stdout


def test_an_unreadable_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.log"
    secret.write_text("", encoding="utf-8")
    secret.chmod(0)

    ran = subprocess.run(
        [*without_privileges(), FSM, "judge", str(secret)], capture_output=True, check=False, text=True
    )

    assert (2, "") == (ran.returncode, ran.stdout)
    assert f"{secret}: the file cannot be opened: permission denied [FSM201]" in ran.stderr


@pytest.mark.parametrize(
    ("form", "data"),
    [
        *((form, b"") for form in FORMATS if form != "text"),
        *(("text", data) for data in (b"\n\n", b"\x00" * 99, b"\x1f\x8b" + b"x" * 100, b'{"op": 7}\n')),
    ],
)
def test_nothing_to_judge(form: str, data: bytes) -> None:
    ran = fsm("judge", "--format", form, "-", stdin=data)

    assert (3, "") == (ran.returncode, ran.stderr)
    assert "nothing in the trace concerns this machine" in ran.stdout


def test_an_empty_recording_is_told_in_a_line() -> None:
    ran, twin = fsm("judge", "-", stdin=b""), fsm("judge", "-", stdin=b"\n")

    assert (3, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.endswith("\n\n  the recording is empty, so there is nothing to judge\n  verdict: unknown\n")
    assert "concerns" not in ran.stdout
    assert "the recording is empty" not in twin.stdout
    assert "no line fits a known form of recording" in twin.stdout


@pytest.mark.parametrize("line", [b"", b'{"level": "info", "msg": "order paid", "order": 7}', b"2026-11-20 paid 7"])
def test_a_log_of_ones_own_is_told_of_forms(line: bytes) -> None:
    address = documented("reference/log-forms")

    assert address in fsm("judge", "-", stdin=line + b"\n").stdout
    assert address not in fsm("judge", HOLDING).stdout


def test_a_trace_without_a_machine() -> None:
    ran = fsm("judge", "-", stdin=b'{"entity": "c1", "event": "stop"}\n')

    assert (2, "") == (ran.returncode, ran.stdout)
    assert "use --model NAME" in ran.stderr


def test_a_model_with_mistakes(tmp_path: Path) -> None:
    model = tmp_path / "door.toml"
    shipped = (home() / "models" / "cri-pod.toml").read_text(encoding="utf-8")
    model.write_text(
        shipped.replace('initial = "absent"', 'initial = "absnt"').replace("clause ", "cluase "), encoding="utf-8"
    )

    ran = fsm("judge", "--model", str(model), HOLDING)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert len(re.findall(rf"^{re.escape(str(model))}:\d+: .+ \[FSM\d+\]$", ran.stderr, re.MULTILINE)) > 1
    assert "Traceback" not in ran.stderr


# -- pipes, closed and full outputs -------------------------------------------------


@pytest.mark.parametrize("command", ["simulate cri-pod --length 200000", 'judge --format json "$1"', "schema", "list"])
def test_into_head(command: str) -> None:
    """A reader that stops reading is not an error."""
    ran = shell(f"fsm {command} | head -1", FAILING)

    assert ("", 1) == (ran.stderr, len(ran.stdout.splitlines()))


def test_a_reader_that_left_is_told_by_the_exit_code() -> None:
    """Like other filters, the command exits with 141 if the reader of its output is gone."""
    ran = shell("fsm simulate cri-pod --length 200000 | head -1 > /dev/null; echo ${PIPESTATUS[0]}")

    assert ("141\n", "") == (ran.stdout, ran.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ('judge "$1"', 1),
        ('judge --format sarif "$1"', 1),
        ("list", 0),
        ("schema", 0),
        ("simulate cri-pod", 0),
        ("draw cri-pod -f png", 0),
    ],
)
def test_output_closed(command: str, code: int) -> None:
    """A command whose output is closed prints nothing, and its exit code does not change."""
    ran = shell(f"fsm {command} >&-", FAILING)

    assert (code, "", "") == (ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code"), [('judge "$1"', 1), ("judge no-such.log", 2), ("no-such", 2)])
@pytest.mark.parametrize("errors", ["2>&-", "2>/dev/full"])
def test_errors_that_cannot_be_written(command: str, code: int, errors: str) -> None:
    """The exit code does not change."""
    assert code == shell(f"fsm {command} {errors}", FAILING).returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code"), [("judge -", "FSM201"), ("import -", "FSM501"), ("diff cri-pod -", "FSM401")]
)
def test_input_closed(command: str, code: str) -> None:
    """A closed input is not an empty file."""
    ran = shell(f"fsm {command} <&-")

    assert (2, "") == (ran.returncode, ran.stdout)
    assert f"-: the file cannot be opened: standard input is closed [{code}]" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ['judge "$1"', 'judge --format junit "$1"', "list", "simulate cri-pod"])
def test_a_full_disk(command: str) -> None:
    """A verdict that could not be written does not count."""
    ran = shell(f"fsm {command} > /dev/full", FAILING)

    assert (74, "could not write: no space left on device\n") == (ran.returncode, ran.stderr)


def test_standard_input_plain_and_compressed() -> None:
    data = Path(FAILING).read_bytes()

    plain, packed = fsm("judge", "-", stdin=data), fsm("judge", "-", stdin=gzip.compress(data))

    assert (1, plain.stdout) == (packed.returncode, packed.stdout)
    assert plain.stdout.startswith("standard input: containerd log\n")
    named = plain.stdout.replace("standard input", FAILING).replace("stdin:", f"{FAILING}:")
    assert fsm("judge", FAILING).stdout.split() == named.split(), "they differ in more than where lines break"


@pytest.mark.parametrize("twice", [[FAILING, FAILING], ["-", "-"]])
def test_the_same_file_twice(twice: list[str]) -> None:
    data = Path(FAILING).read_bytes()

    assert fsm("judge", twice[0], stdin=data).stdout == fsm("judge", *twice, stdin=data).stdout


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_name_that_is_not_utf_8(form: str, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9 \x1b[31m.log"
    shutil.copy(FAILING.encode(), name)

    ran = fsm("judge", "--format", form, name)

    assert (1, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.endswith("\n")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json", "junit"])
def test_a_terminal_that_cannot_show_everything(form: str) -> None:
    ran = process("judge", "--format", form, FAILING, env={"PYTHONIOENCODING": "latin-1"})

    assert (1, "") == (ran.returncode, ran.stderr)


def test_nothing_is_written_where_it_is_called(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    ran = subprocess.run(
        [*without_privileges(), FSM, "judge", HOLDING], cwd=tmp_path, capture_output=True, check=False, text=True
    )

    assert (0, "", []) == (ran.returncode, ran.stderr, list(tmp_path.iterdir()))


# -- terminals ------------------------------------------------------------------------

ESCAPE = "\x1b["


def test_colour_on_a_terminal_only() -> None:
    terminal = Terminal("judge", FAILING, env={"COLUMNS": "100"})

    assert 1 == terminal.end()
    assert f"{ESCAPE}31m" in terminal.shown
    plain = re.sub(r"\x1b\[\d*m", "", terminal.shown).replace("\r\n", "\n")
    assert fsm("judge", FAILING).stdout == plain


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_when_asked(env: dict[str, str]) -> None:
    """Escape sequences are omitted if NO_COLOR is set (see no-color.org) or the terminal has no colours."""
    terminal = Terminal("judge", FAILING, env=env)

    assert 1 == terminal.end()
    assert ESCAPE not in terminal.shown


@pytest.mark.parametrize(
    "arguments", [["judge", FAILING, HOLDING], ["list"], ["show", "cri-pod"]], ids=lambda arguments: arguments[0]
)
def test_a_narrow_terminal(arguments: list[str]) -> None:
    lines = fsm(*arguments, env={"COLUMNS": "40"}, cwd=RECORDINGS).stdout.splitlines()

    assert [] == [
        line
        for line in lines
        if len(line) > 40 and FAILING not in line and HOLDING not in line and len(line.split()) > 2
    ]


def test_a_code_is_a_link_on_a_terminal() -> None:
    link = f"\x1b]8;;{code_url('FSM001')}\x1b\\FSM001\x1b]8;;\x1b\\"
    terminal = Terminal("show", "doors")

    assert 2 == terminal.end()
    assert f" [{link}]\r\n" in terminal.shown
    assert terminal.shown.endswith("\r\nmore about it: fsm explain FSM001\r\n")
    plain = terminal.shown.replace(link, "FSM001").replace("\r\n", "\n")
    assert fsm("show", "doors").stderr == plain.removesuffix("more about it: fsm explain FSM001\n")


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_link_where_a_terminal_does_not_know_it(env: dict[str, str]) -> None:
    terminal = Terminal("show", "doors", env=env)

    assert 2 == terminal.end()
    assert fsm("show", "doors").stderr == terminal.shown.replace("\r\n", "\n")


@pytest.mark.slow
def test_progress_on_a_terminal_for_a_large_file(large: str) -> None:
    terminal = Terminal("judge", large)

    assert 0 == terminal.end()
    assert "judging" in terminal.shown
    assert "100%" in terminal.shown
    assert "verdict: " in terminal.shown.partition("100%")[2]


def test_no_progress_for_a_small_file_or_in_a_pipe(large: str) -> None:
    terminal = Terminal("judge", HOLDING)

    assert 0 == terminal.end()
    assert "judging" not in terminal.shown
    assert "" == fsm("judge", large).stderr


# -- interruption ----------------------------------------------------------------------


def started(*arguments: str, cwd: Path) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [FSM, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=PLAIN | {"TMPDIR": str(cwd)}, cwd=cwd
    )


def test_interrupting_judge(tmp_path: Path) -> None:
    process = started("judge", "-", cwd=tmp_path)
    assert process.stdin is not None
    process.stdin.write(Path(HOLDING).read_bytes() * 30)  # more than a pipe holds, so judging begins early
    process.stdin.flush()

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert (130, b"", [b"interrupted"]) == (process.returncode, out, err.split())
    assert [] == list(tmp_path.iterdir())


def test_a_property_is_of_those_that_have_it() -> None:
    files = [str(RECORDINGS / name) for name in ("nri-events-2.1.9.jsonl", "cri-calls-2.1.9.jsonl")]
    ran = fsm("judge", "-P", "stop-is-idempotent", *files)

    assert (0, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.count("properties: 1 holds") == 2
    assert [f"holds    {file}" for file in files] == ran.stdout.splitlines()[-2:]
    assert fsm("judge", "-P", "stop-is-idempotant", *files).returncode == 2


def test_a_file_that_is_missing_is_an_error_in_json() -> None:
    assert json.loads(fsm("judge", "--format", "json", "missing.log").stdout)["verdict"] == "error"


def test_a_termination_ends_as_an_interrupt_does(tmp_path: Path) -> None:
    calls = str(RECORDINGS / "cri-calls-2.1.9.jsonl")
    running = subprocess.Popen(
        [FSM, "mutate", "--recording", calls, "--limit", "0"],
        env=PLAIN | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not list(tmp_path.glob("*/*")):
        time.sleep(0.01)
        assert running.poll() is None

    running.terminate()
    out, err = running.communicate(timeout=30)

    assert (130, b"", [b"interrupted"]) == (running.returncode, out, err.split())
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_while_modules_are_imported(number: int, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import time\nprint(flush=True)\ntime.sleep(60)\n", encoding="utf-8")
    pipe = subprocess.PIPE
    running = subprocess.Popen([FSM, "list"], stdout=pipe, stderr=pipe, env=PLAIN | {"PYTHONPATH": str(tmp_path)})
    assert running.stdout is not None
    running.stdout.readline()

    running.send_signal(number)
    out, err = running.communicate(timeout=30)

    assert (130, b"", [b"interrupted"]) == (running.returncode, out, err.split())


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """SIGHUP stays ignored if it was ignored when the command started, as under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = started("simulate", "cri-pod", "--length", "100000000", cwd=tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)

    assert 130 == process.returncode


@pytest.mark.slow
@pytest.mark.parametrize(("module", "command"), [("click", "list"), ("junitparser", 'judge --format junit "$2"')])
@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", ">&-"])
def test_an_interrupt_that_cannot_be_reported_is_one(closed: str, module: str, command: str, tmp_path: Path) -> None:
    """An interrupted command exits with 130, even while it starts, and even if a stream is closed or full."""
    code = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n"
    (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")

    ran = shell(f"PYTHONPATH=$1 fsm {command} {closed}", str(tmp_path), HOLDING)

    assert (130, "") == (ran.returncode, ran.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "code"), [(1, 130), (None, 0)])
def test_an_interrupt_that_is_lost_gives_no_verdict(length: int | None, code: int, tmp_path: Path) -> None:
    (tmp_path / "door.toml").write_text(DOOR, encoding="utf-8")
    (tmp_path / "hard.py").write_text(
        f"""\
import contextlib, os, signal
import carpenter

class Hearing(carpenter.Door):
    def do(self, event):
        with contextlib.suppress(KeyboardInterrupt):
            for _ in range({length or 0}):
                os.kill(os.getpid(), signal.SIGINT)
        return super().do(event)
""",
        encoding="utf-8",
    )
    (tmp_path / "carpenter.py").write_text(IMPLEMENTATION, encoding="utf-8")

    ran = process("test", "door.toml", "--against", "python:hard:Hearing", "-n", "5", cwd=tmp_path)

    assert code == ran.returncode, ran.stderr
    assert ("" if code else "python:hard") == ran.stdout[:11]


# -- errors of fsm itself ------------------------------------------------------------------


@pytest.mark.slow
def test_an_error_of_fsm_itself_is_no_verdict(tmp_path: Path) -> None:
    code = "raise LookupError('lost\\n::error:: its \\x1b[31mway')\n"
    (tmp_path / "junitparser.py").write_text(code, encoding="utf-8")
    command = ("judge", "--format", "junit", HOLDING)

    ran, debugged = (process(*each, *command, env={"PYTHONPATH": str(tmp_path)}) for each in ((), ("--debug",)))

    assert (70, "") == (ran.returncode, ran.stdout)
    assert 1 == len(ran.stderr.splitlines())
    assert (
        "LookupError: lost ::error:: its \\x1b[31mway; please report this error together with the output of 'fsm --debug COMMAND"
        in ran.stderr
    )
    assert (70, "Traceback") == (debugged.returncode, debugged.stderr[:9])
    other = process("--seconds", "50", "--debug", *command, env={"PYTHONPATH": str(tmp_path)})
    assert debugged.stderr == other.stderr


def test_a_library_that_is_missing_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ImportError('too old')\n", encoding="utf-8")

    ran = process("list", env={"PYTHONPATH": str(tmp_path)})

    assert (70, "") == (ran.returncode, ran.stdout)
    assert re.fullmatch(
        r"internal error of fsm \S+, so there is no verdict: ImportError: too old; please report this error .*\n",
        ran.stderr,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        ("KeyboardInterrupt", 130, "interrupted"),
        ("asyncio.CancelledError", 70, "internal error of fsm"),
        ("MemoryError", 3, "unknown: the command ran out of memory"),
    ],
)
def test_what_is_tested_cannot_end_the_command_with_a_verdict(
    raised: str, code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "door.toml").write_text(DOOR, encoding="utf-8")
    (tmp_path / "carpenter.py").write_text(IMPLEMENTATION, encoding="utf-8")
    raising = f"class Door(carpenter.Door):\n    def do(self, event):\n        raise {raised}\n"
    (tmp_path / "hard.py").write_text(f"import asyncio, carpenter\n\n{raising}", encoding="utf-8")

    ran = process("test", "door.toml", "--against", "python:hard:Door", "-n", "5", cwd=tmp_path)

    assert (code, "") == (ran.returncode, ran.stdout)
    assert ran.stderr.strip().splitlines()[-1].startswith(said)
    assert "Traceback" not in ran.stderr


def test_interrupting_simulate(tmp_path: Path) -> None:
    process = started("simulate", "cri-pod", "--length", "100000000", cwd=tmp_path)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert (130, [b"interrupted"]) == (process.returncode, err.split())
    assert [] == list(tmp_path.iterdir())


@pytest.mark.slow
def test_interrupting_under_the_bar(large: str, tmp_path: Path) -> None:
    waiting = tmp_path / "waiting.log"
    os.mkfifo(waiting)
    terminal = Terminal("judge", large, str(waiting))
    terminal.read_until("100%")

    terminal.process.send_signal(signal.SIGINT)

    assert 130 == terminal.end()
    assert terminal.shown.rfind(f"{ESCAPE}?25l") < terminal.shown.rfind(f"{ESCAPE}?25h")
    assert terminal.shown.endswith("\r\ninterrupted\r\n")
    assert "Traceback" not in terminal.shown


# -- help and the other commands ---------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "mentioned"),
    [
        (
            ["--help"],
            "judge check list show simulate schema --version Exit codes: 0 holds, 1 2 3 Completion: zsh_source journalctl",
        ),
        (["-h"], " ".join(commands())),
        (
            ["judge", "--help"],
            (
                "TRACE... --model --profile containerd-1.6 --fail-on MUST|SHOULD|MAY|observed --format "
                "text|json|junit|sarif|github --fresh --coverage gzip standard input rotated NRI CRI Exit codes: 0 1 2 3"
            ),
        ),
        (["list", "--help"], "--format profiles"),
        (["show", "--help"], "MODEL --event --state --profile --format"),
        (["simulate", "--help"], "MODEL --seed --length --entities --calls --profile JSON fsm judge -"),
        (["schema", "--help"], "JSON Schema editor"),
        (
            ["export", "--help"],
            "MODEL --to promela dot json scxml transitions python-statemachine --profile --property",
        ),
        (["import", "--help"], "FILE --from transitions|python-statemachine|scxml --outcomes --output YAML SCXML"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_mentions(arguments: list[str], mentioned: str) -> None:
    """The help lists every option, and contains words that people search for."""
    ran = fsm(*arguments, env={"COLUMNS": "100"})

    assert (0, "") == (ran.returncode, ran.stderr)
    assert [] == [word for word in mentioned.split() if word not in ran.stdout]
    assert all(len(line) <= 100 for line in ran.stdout.splitlines())


def test_without_a_command() -> None:
    ran = fsm()

    assert (2, "") == (ran.returncode, ran.stdout)
    assert "Judge recordings:" in ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("options", ["--length 200 --entities 3", "--length 300 --entities 5 --calls 2"])
@pytest.mark.parametrize("name", names())
def test_what_is_simulated_holds(name: str, options: str) -> None:
    """The verdict on simulated traces of every shipped machine is ``holds``, even for concurrent calls."""
    made = fsm("simulate", name, "--seed", "7", *options.split())
    ran = fsm("judge", "-", stdin=made.stdout.encode())

    assert (0, "", 0, "") == (made.returncode, made.stderr, ran.returncode, ran.stderr)
    assert ran.stdout.endswith("verdict: holds\n")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "profile"), PROFILES)
def test_what_is_simulated_under_a_profile_is_tolerated(name: str, profile: str) -> None:
    made = fsm("simulate", name, "--length", "200", "--entities", "3", "--profile", profile)
    ran = fsm("judge", "--profile", profile, "-", stdin=made.stdout.encode())

    assert (0, "", 0, "") == (made.returncode, made.stderr, ran.returncode, ran.stderr)


def test_what_is_simulated_is_judged_through_a_pipe() -> None:
    ran = shell("fsm simulate cri-pod --seed 7 --length 2000 --entities 3 | fsm judge -")

    assert (0, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.endswith("verdict: holds\n")


def test_the_same_seed_gives_the_same_trace() -> None:
    one, again, other = (fsm("simulate", "cri-pod", "--seed", seed, "--length", "2500").stdout for seed in "113")

    assert one == again != other
    assert len(one.splitlines()) >= 2_501
    assert {"trace": 1, "machine": "cri-pod", "fresh": True} == json.loads(one.splitlines()[0])


def test_schema_is_a_json_schema_of_every_shipped_model() -> None:
    schema = json.loads(fsm("schema").stdout)

    Draft202012Validator.check_schema(schema)
    errors = {
        path.name: [
            error.message for error in Draft202012Validator(schema).iter_errors(tomllib.loads(path.read_text("utf-8")))
        ]
        for path in (home() / "models").glob("*.toml")
    }

    assert {f"{name}.toml": [] for name in names()} == errors


def test_list_names_every_model_and_profile() -> None:
    told, data = fsm("list").stdout, json.loads(fsm("list", "--format", "json").stdout)

    assert list(roles().items()) == [(each["name"], each["role"]) for each in data]
    assert {*names(), *systems()} == {each["name"] for each in data}
    assert all(name in told for name in systems())
    assert [] == [profile for name, profile in PROFILES if name not in told or profile not in told]


def test_list_separates_what_models_are_for() -> None:
    found: dict[str, list[str]] = {}
    for line in fsm("list", env={"COLUMNS": "100"}).stdout.splitlines():
        if line and not line.startswith(" "):
            names_below = found.setdefault(line.partition(":")[0], [])
        elif line.startswith("  ") and line[2] != " ":
            names_below.append(line.split()[0])

    assert [
        "Contracts of interfaces",
        "Implementations",
        "Systems of machines",
        "Parts of systems",
    ] == list(found)
    assert ["cri-container", "cri-pod", "plugin-container", "plugin-pod"] == found["Contracts of interfaces"]
    assert ["container-status", "nri-container", "nri-pod", "pod-sandbox"] == found["Implementations"][:4]
    assert list(systems()) == found["Systems of machines"]
    assert "sync-reader" in found["Parts of systems"]


def test_the_module_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "fsm", "--version"], capture_output=True, check=True, text=True)

    assert fsm("--version").stdout == ran.stdout


def test_show_lists_the_outcomes_that_can_be_arranged() -> None:
    ran = fsm("show", "cri-container", "--outcomes", "--event", "remove")
    found = json.loads(fsm("show", "cri-container", "--outcomes", "--state", "exited", "--format", "json").stdout)
    under = fsm("show", "container-status", "--outcomes", "--profile", "containerd-1.6", "--state", "absent")

    assert ran.returncode == 0
    assert "end remove=failed          in created-removing, exited-removing\n" in ran.stdout
    assert "create" not in [each.partition("=")[0] for each in ran.stdout.splitlines()]
    assert {"event": "remove", "stage": "begin", "outcome": "begins", "states": ["exited"]} in found
    assert "stop=stop-of-removed" in under.stdout
