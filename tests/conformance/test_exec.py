"""A SUT can be a child process, which may be correct, be defective, or break the protocol."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from machines import DOOR, PURSE, counter, edited, machine_of
from real_parts import headers_of_c, program

from fsm.conformance.concurrency import concurrently
from fsm.conformance.exec import LONGEST, Process, TalkError
from fsm.conformance.exec.adapter import child
from fsm.conformance.lookup import Simulated
from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay
from fsm.conformance.tested import Obstacle
from fsm.errors import InputError, documented
from fsm.language.library import load
from fsm.machine.findings import Cause
from fsm.sut import ArrangingStages, BrokenError, Detailed, Emitting, Overlapping, Remembering, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.conformance.exec.adapter import Child
    from fsm.conformance.tested import Tested

SUTS: Final = Path(__file__).resolve().parent.parent / "suts"
RUDE: Final = str(SUTS / "rude.py")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("suts") / "container"
    headers_of_c()
    subprocess.run([program("gcc"), "-Wall", "-Wextra", "-Werror", "-o", made, SUTS / "container.c"], check=True)
    return str(made)


def rude(manners: str, *more: object, timeout: float = 30.0, grace: float = 0.2) -> Child:
    return child([sys.executable, "-S", RUDE, manners, *map(str, more)], timeout=timeout, grace=grace)


# -- implementations ---------------------------------------------------------------


def found(model: str, *command: str, examples: int = 5) -> Tested:
    return conform(load(model), lambda: child(command), examples=examples)


def shown(tested: Tested) -> list[str]:
    return ["; ".join(map(str, each.steps)) for each in tested.failures]


@pytest.mark.installed
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_pod_in_shell_is_right(shell: str) -> None:
    tested = found("nri-pod", shell, str(SUTS / "nri_pod.sh"))

    assert (shown(tested), tested.missed, tested.unarranged) == ([], (), ())


def test_a_container_in_c_is_right(compiled: str) -> None:
    tested = found("container-status", compiled)

    assert (shown(tested), tested.missed, tested.unarranged) == ([], (), ())
    assert tested.unreached[Obstacle.OVERLAP]


def test_a_container_in_node_is_right() -> None:
    tested = found("nri-container", "node", str(SUTS / "nri_container.js"))

    assert (shown(tested), tested.missed, tested.unarranged) == ([], (), ())


@pytest.mark.parametrize(
    ("wrong", "test"),
    [
        ("forgets-stops", "run-pod-sandbox=ok; stop-pod-sandbox=ok; stop-pod-sandbox"),
        ("relays-twice", "run-pod-sandbox=ok; remove-pod-sandbox=ok"),
        ("deaf", "run-pod-sandbox=error"),
    ],
)
def test_a_pod_in_shell_that_is_wrong_is_noticed(wrong: str, test: str) -> None:
    assert test in shown(found("nri-pod", "sh", str(SUTS / "nri_pod.sh"), wrong, examples=0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "test"),
    [
        ("forgets-failed-starts", "create=created; start=begins,failed,done"),
        ("forgets-what-it-skips", "create=created; restart=skipped; restart=created"),
        ("removes-what-it-cannot-kill", "create=created; start=begins,started; remove=not-killed"),
        ("restarts-exited", "create=created; start=begins,failed,done; start"),
        ("refuses-second-stop", "create=created; start=begins,failed,done; stop"),
        ("stop-forgets", "create=created; start=begins,started; stop=stopped"),
    ],
)
def test_a_container_in_c_that_is_wrong_is_noticed(compiled: str, wrong: str, test: str) -> None:
    assert test in shown(found("container-status", compiled, wrong, examples=0))


@pytest.mark.parametrize(
    ("wrong", "test"),
    [
        ("removes-silently", "create-container=ok; remove-container=ok"),
        ("tells-exits-twice", "sync-stopped; notify-exit"),
        ("stays-on-error", "create-container=ok; stop-container=error; remove-container=ok"),
    ],
)
def test_a_container_in_node_that_is_wrong_is_noticed(wrong: str, test: str) -> None:
    assert test in shown(found("nri-container", "node", str(SUTS / "nri_container.js"), wrong, examples=0))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["container-status", "nri-container"])
def test_nothing_is_lost_on_the_way(name: str) -> None:
    machine = load(name)
    here = conform(machine, lambda: Simulated(machine), examples=5)

    there = found(name, sys.executable, str(SUTS / "simulated.py"), name)

    assert not there.failures
    assert (here.cover.cells, here.cover.ways) == (there.cover.cells, there.cover.ways)
    assert here.unreached == there.unreached


# -- several threads ---------------------------------------------------------------

TALLY: Final = (sys.executable, "-S", str(SUTS / "tally.py"))


def test_a_lost_update_is_found_in_a_process() -> None:
    wrong = conform(counter(), lambda: child([*TALLY, "unlocked"]), examples=5, threads=2)
    right = conform(counter(), lambda: child([*TALLY]), examples=5, threads=2)

    assert not wrong.failures
    assert wrong.race is not None
    assert len(wrong.race.programme.threads) > 1
    assert any("add" in thread for thread in wrong.race.programme.threads)
    assert (right.race, right.failures) == (None, ())


def test_a_process_that_takes_one_request_at_a_time_is_refused_several_threads() -> None:
    for test in (conform, concurrently):
        with pytest.raises(InputError, match=r"tally.py serial: the system answers one request at a time") as refused:
            test(counter(), lambda: child([*TALLY, "serial"]), threads=2)
        assert '{"fsm":1,"can":["parallel"]}' in refused.value.problems[0].hint


def test_a_request_that_waits_gets_its_own_answer() -> None:
    code = """\
echo '{"fsm":1,"can":["parallel"]}'
read -r line; echo '{"id":1}'
read -r one; read -r two
for line in "$two" "$one"; do
    id=${line#*:}; did=${line#*'"do":"'}
    echo "{\\"id\\":${id%%,*},\\"reply\\":\\"${did%%'"'*}\\",\\"shows\\":\\"passing\\"}"
done
read -r line; echo '{"id":4,"shows":"settled"}'
"""
    made = child(["sh", "-c", code])
    made.reset()
    with ThreadPoolExecutor(2) as threads:
        replies = list(threads.map(made.do, ["one", "two"]))

    assert (["one", "two"], "settled") == (replies, made.shows())
    made.close()


# -- crashes and records -----------------------------------------------------------

PURSE_SUT: Final = (sys.executable, "-S", str(SUTS / "purse.py"))

MORTAL: Final = (
    PURSE
    + """\
[event.bad-coin]
kind    = "call"
about   = "Put a coin in that it dies of."
ignores = ["absent", "torn"]
moves   = { there = { name = "panic", stays = true, reply = "PANIC" } }
"""
)


@pytest.mark.slow
def test_what_a_process_remembers_and_how_it_dies_is_tested() -> None:
    """The process dies before each effect of each event, and another process continues from its record."""
    found = conform(machine_of(MORTAL), lambda: child(PURSE_SUT), examples=0)

    assert (shown(found), found.missed, found.unarranged) == ([], (), ())
    assert any(test[-1].stage == "crash" for test in found.cover.whole)


@pytest.mark.parametrize(
    ("wrong", "test", "says"),
    [
        ("", "knit; pay=dropped; crash@1 pay=paid,kept", ""),
        ("overwrites", "knit; pay=dropped", "pay failed, but the record changed: it was [], and is [1]"),
        (
            "writes-in-place",
            "crash@1 knit=done,kept",
            "after a crash the SUT shows TORN, but a restart may show only absent",
        ),
        ("mortal", "crash@0 knit=done,kept", '"crash":"knit","point":1000000}: the process was killed by SIGKILL'),
        ("immortal", "crash@1 knit=done,kept", ""),
    ],
)
def test_a_process_that_forgets_is_noticed(wrong: str, test: str, says: str) -> None:
    found = replay(machine_of(PURSE), lambda: child([*PURSE_SUT, wrong]), steps(test))

    assert bool(found.failures) == bool(says)
    assert all(says in each.broken for each in found.failures)


def test_a_record_that_is_left_out_is_broken() -> None:
    """A missing record is an error, because the record would otherwise seem unchanged."""
    code = 'echo \'{"fsm":1,"can":["record"]}\'; read -r a; echo \'{"id":1}\'; read -r b; echo \'{"id":2,"shows":"a"}\''
    made = child(["sh", "-c", code])
    made.reset()
    assert isinstance(made, Remembering)

    with pytest.raises(
        BrokenError,
        match='the process answers without its record; a process that stores nothing must answer "record":null',
    ):
        made.record()
    made.close()


def test_to_die_where_it_may_not_is_a_violation() -> None:
    """The death of the process counts as the reply PANIC, which the machine does not allow."""
    strict = MORTAL.replace('reply = "PANIC"', 'reply = "BAD"')

    found = replay(machine_of(strict), lambda: child(PURSE_SUT), steps("knit; bad-coin"))

    assert [each.violation.cause for each in found.failures if each.violation] == [Cause.REPLY]


# -- capabilities ------------------------------------------------------------------

ABILITIES: Final = {
    "arrange": ArrangingStages,
    "fields": Detailed,
    "outputs": Emitting,
    "overlap": Overlapping,
}


@pytest.mark.parametrize(
    "can", [(), ("arrange",), ("fields",), ("outputs",), ("overlap",), ("overlap", "outputs", "arrange")]
)
def test_it_can_what_it_says(can: tuple[str, ...]) -> None:
    listed = ",".join(f'"{each}"' for each in can)
    made = child(["sh", "-c", f'echo \'{{"fsm":1,"can":[{listed}]}}\'; read -r line'])
    made.close()

    assert set(can) == {name for name, kind in ABILITIES.items() if isinstance(made, kind)}


def test_what_is_shown_is_asked_for_only_where_it_was_not_told() -> None:
    code = """\
echo '{"fsm":1}'
for extra in '' ',"shows":"a"' ',"shows":"b"' '' ',"shows":"c"' ',"unsupported":true'; do
    read -r line
    id=${line#*:}
    echo "{\\"id\\":${id%%,*}$extra}"
done
"""
    made = child(["sh", "-c", code])
    made.reset()

    seen = [made.shows(), made.do("push"), made.shows(), made.shows(), made.do("pull"), made.shows()]
    made.close()

    assert ["a", "", "b", "b", "", "c"] == seen


@pytest.mark.parametrize(("by", "clauses"), [("wind", []), ("", ["pushed-is-signed"])])
def test_the_fields_that_a_process_shows_are_judged(by: str, clauses: list[str]) -> None:
    fields = (
        '[fields]\ntext = ["by"]\n\n[requires.pushed-is-signed]\nsays = "Who did it is known."\nMUST = "handbook"\n'
    )
    door = machine_of(edited(DOOR, "[profile.old]", f'{fields}in = ["open"]\nset = ["by"]\n\n[profile.old]'))
    code = f"""\
echo '{{"fsm":1,"can":["fields"]}}'
shows=CLOSED
while read -r line; do
    id=${{line#*:}}
    case $line in *push*) reply=ok shows=OPEN ;; *) reply= ;; esac
    echo "{{\\"id\\":${{id%%,*}},\\"reply\\":\\"$reply\\",\\"shows\\":\\"$shows\\",\\"fields\\":{{\\"by\\":\\"{by}\\"}}}}"
done
"""

    tested = replay(door, lambda: child(["sh", "-c", code]), steps("push"))

    assert clauses == [each.violation.clause.name for each in tested.failures if each.violation]


def test_an_event_it_has_not_is_unsupported() -> None:
    made = child(["sh", str(SUTS / "nri_pod.sh")])
    made.reset()

    with pytest.raises(UnsupportedError, match="start-container"):
        made.do("start-container")
    assert made.do("run-pod-sandbox") == "ok"
    made.close()


def test_a_text_is_split_and_no_shell_sees_it() -> None:
    with pytest.raises(BrokenError, match=r"greets with 'a b \$HOME;': JSON is malformed"):
        child("echo 'a b' '$HOME;'")


@pytest.mark.parametrize(("command", "error"), [("", ValueError), ("./not-there", OSError), (__file__, OSError)])
def test_what_cannot_be_run_is_refused(command: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        child(command)


def test_what_cannot_be_executed_says_so(tmp_path: Path) -> None:
    script = tmp_path / "door"
    script.write_text("#!/not/there\n")
    script.chmod(0o755)

    with pytest.raises(BrokenError, match=r"ended with exit code 127.*cannot run .*door: No such file or directory"):
        child([str(script)])


# -- violations of the protocol ----------------------------------------------------

NOT_JSON: Final = (
    'the process must write and flush each answer as one line such as {"id":1,"reply":"ok"} '
    f"({documented('reference/exec-protocol')})"
)
LINES: Final = "its standard error ends with 'line 5' / 'line 6' / 'line 7' / 'line 8' / 'the door\\x1b[2J fell' / 'no end of line'"

BAD: Final = {
    "crash": f"ended with exit code 3; {NOT_JSON}; {LINES}",
    "panic": "its standard error ends with 'panic: assignment to entry in nil map' / '…' / 'frame 35' / ",
    "fault": "was killed by SIGSEGV; ",
    "quit": "ended with exit code 0; ",
    "mute": "the process has closed its standard output, but is still running; ",
    "garbage": f"answers 'the door is open': JSON is malformed: invalid character (byte 4); {NOT_JSON}",
    "bytes": r"answers '\\xff\\xfe\x00': JSON is malformed",
    "empty": "answers '': Input data was truncated",
    "array": "answers '[1]': Expected `object`, got `array`",
    "odd-key": "contains unknown field `show`",
    "odd-reply": "Expected `str | null`, got `int` - at `$.reply`",
    "undeclared": 'but its greeting did not name the ability outputs; add the ability to the greeting: {"fsm":1,"can":["outputs"]}',
    "without-id": "Object missing required field `id`",
    "other-id": "whose id is 3 instead of 2; answer each request once, with the id of the request",
    "cut": "ended with exit code 0, after '{\"id\":' without an end of line; ",
    "flood": f"the process wrote a line of more than {LONGEST:,} bytes: 'xxxx",
    "lines": "whose id is 0 instead of 2",
}

LATE: Final = {
    "hang": f"the process wrote no line within 0.3 s; {NOT_JSON}",
    "deaf": f"the process wrote no line within 0.3 s; {NOT_JSON}",
    "stopped": f"the process wrote no line within 0.3 s; {NOT_JSON}",
    "partial": "the process wrote no line within 0.3 s; it has begun an incomplete line: '{\"id\": 2}'; ",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manners", "says", "timeout"),
    [*((*each, 30.0) for each in BAD.items()), *((*each, 0.3) for each in LATE.items())],
    ids=[*BAD, *LATE],
)
def test_whatever_is_no_answer_is_told(manners: str, says: str, timeout: float) -> None:
    made = rude(manners)
    made.reset()
    made._talk._timeout = timeout  # noqa: SLF001  (to start may take longer on a busy machine)

    with pytest.raises(BrokenError) as error:
        made.do("it")
    with pytest.raises(BrokenError) as again:
        made.do("push")
    made._talk._timeout = 30.0  # noqa: SLF001
    made.reset()

    assert f'{RUDE} {manners}, asked {{"id":2,"do":"it"}}: ' in str(error.value)
    assert says in str(error.value)
    assert f"{error.value}; the next reset starts it again" == str(again.value)
    assert made.do("push") == "ok"
    made.close()


@pytest.mark.parametrize(
    ("manners", "says"),
    [
        ("no-greeting", "ended with exit code 4; "),
        ("shell", "greets with 'command not found': JSON is malformed"),
        ("old", "speaks version 2 of the protocol, but fsm speaks version 1"),
        ("boast", "Invalid enum value 'fly' - at `$.can[0]`"),
    ],
)
def test_a_greeting_is_needed(manners: str, says: str) -> None:
    with pytest.raises(BrokenError) as error:
        rude(manners)

    assert says in str(error.value)
    assert 'the process must first write and flush the line {"fsm":1,"can":[]}' in str(error.value)


def test_a_greeting_has_its_time() -> None:
    with pytest.raises(BrokenError, match=r"the process wrote no line within 0.2 s; the process must first write"):
        child([sys.executable, "-S", RUDE, "quiet"], start=0.2, grace=0.2)


def test_an_answer_too_many_is_told_with_the_next() -> None:
    made = rude("twice")
    made.reset()

    assert made.do("it") == "ok"
    with pytest.raises(BrokenError, match="whose id is 2 instead of 3"):
        made.do("push")
    made.close()


def test_what_fills_the_standard_error_does_not_stop_it() -> None:
    made = rude("complain")
    made.reset()

    assert [made.do("it") for _ in range(3)] == ["ok"] * 3
    made.close()


def test_one_that_crashes_is_started_again_by_a_reset(tmp_path: Path) -> None:
    made = rude("once", tmp_path / "ran")
    made.reset()

    with pytest.raises(BrokenError, match="ended with exit code 1"):
        made.do("it")
    made.reset()

    assert made.do("it") == "ok"
    made.close()


def test_one_that_says_something_else_of_itself_the_second_time_is_broken(tmp_path: Path) -> None:
    made = rude("fickle", tmp_path / "ran")
    made.reset()

    with pytest.raises(BrokenError):
        made.do("it")
    with pytest.raises(
        BrokenError,
        match="the process now greets with outputs, but greeted with nothing more when it was first started",
    ):
        made.reset()
    made.close()


def test_what_is_closed_stays_closed() -> None:
    made = rude("fine")
    made.reset()
    made.close()
    made.close()

    for use in (made.reset, lambda: made.do("push"), made.shows):
        with pytest.raises(BrokenError, match="was closed"):
            use()


def test_one_that_hangs_is_a_finding() -> None:
    code = (
        'echo \'{"fsm":1}\'; n=0; while read -r line; do n=$((n + 1)); case $line in *\'"do":"stop-\'*) sleep 1000;; esac;'
        ' echo "{\\"id\\":$n,\\"reply\\":\\"ok\\"}"; done'
    )

    tested = replay(
        load("nri-pod"), lambda: child(["sh", "-c", code], timeout=0.3, grace=0.1), steps("stop-pod-sandbox")
    )

    (broken,) = [each.broken for each in tested.failures]
    assert "the process wrote no line within 0.3 s" in broken


# -- leftovers ---------------------------------------------------------------------


def ours() -> tuple[int, set[str]]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    return len(list(Path("/proc/self/fd").iterdir())), set(children.split())


def alive(process: int) -> bool:
    """Return whether a process is still running and is not a zombie."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def nothing_left() -> Iterator[None]:
    before = ours()
    yield
    assert before == ours()


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("manners", ["fine", "crash", "garbage", "flood", "mute", "no-greeting", "old"])
def test_no_file_stays_open_and_nobody_unburied(manners: str) -> None:
    for _ in range(2):
        try:
            made = rude(manners)
        except BrokenError:
            continue
        made.reset()
        if manners != "fine":
            with pytest.raises(BrokenError):
                made.do("it")
        made.close()


def test_heirs_do_not_outlive_it(tmp_path: Path) -> None:
    made = rude("heirs", tmp_path / "ids")
    made.reset()
    made.do("it")
    ids = [int(each) for each in (tmp_path / "ids").read_text().split()]
    assert [alive(each) for each in ids] == [True] * 4

    made.close()

    assert [alive(each) for each in ids] == [False] * 4


def test_heirs_do_not_outlive_one_that_kills_its_parent(tmp_path: Path) -> None:
    """Descendants are killed even if the child kills its parent, because a second reaper is above the parent."""
    made = rude("murder", tmp_path / "ids")
    made.reset()
    with contextlib.suppress(BrokenError):
        made.do("it")

    made.close()

    ids = [int(each) for each in (tmp_path / "ids").read_text().split()]
    assert [alive(each) for each in ids] == [False] * 2


def test_one_that_will_not_end_is_killed(tmp_path: Path) -> None:
    made = rude("deaf", tmp_path / "id", timeout=0.5)
    made.reset()

    with pytest.raises(BrokenError):
        made.do("it")

    assert not alive(int((tmp_path / "id").read_text()))
    made.close()


PARENT: Final = """\
import sys
from fsm.conformance.exec.adapter import child
made = child(sys.argv[1:], grace=0.1)
made.reset()
made.do("it")
print("ready", flush=True)
sys.stdin.read()
"""


def left_by(how: signal.Signals, ids: Path) -> list[int]:
    """Send a signal to a parent, wait for its descendants to end, and return the descendants that are still alive."""
    command = [sys.executable, "-c", PARENT, sys.executable, "-S", RUDE, "heirs", str(ids)]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        found = [int(each) for each in ids.read_text().split()]
        watched = [os.pidfd_open(each) for each in found]
        parent.send_signal(how)
        for each in watched:
            select.select([each], [], [], 60)
            os.close(each)
    return [each for each in found if alive(each)]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nobody_outlives_us(how: signal.Signals, tmp_path: Path) -> None:
    assert left_by(how, tmp_path / "ids") == []


def test_one_that_is_interrupted_can_be_used_again() -> None:
    made = rude("hang")
    made.reset()
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            made.do("it")
    finally:
        signal.signal(signal.SIGALRM, previous)
    made.reset()

    assert made.do("push") == "ok"
    made.close()


# -- lines -------------------------------------------------------------------------


def test_a_line_comes_in_pieces() -> None:
    talking = Process(["sh", "-c", 'read -r a; printf \'%s\' "$a"; read -r b; echo "$b"'], grace=1.0)
    talking.write(b"a" * 200_000 + b"\n", timeout=30)
    talking.write(b"b\n", timeout=30)

    line = talking.read(timeout=30)
    talking.end(gently=True)

    assert line == b"a" * 200_000 + b"b"


def test_what_is_not_read_is_told() -> None:
    talking = Process(["sleep", "1000"], grace=0.1)

    with pytest.raises(TalkError, match=r"the process did not read its standard input for 0\.2 s"):
        talking.write(b"a" * 1_000_000, timeout=0.2)
    talking.end(gently=False)
    talking.end(gently=False)

    assert talking.ended() == "was killed by SIGTERM"
