"""Recordings are read in every form, and their lines are interpreted correctly."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import content, every_violation, judged, violations

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.recordings.form import TRACE, RecordingForm, recognised
from fsm.recordings.line_reader import LONGEST
from fsm.runtimes.recordings.containerd_log import Log
from fsm.runtimes.recordings.containerd_texts import entry, met, split
from fsm.runtimes.recordings.cri_calls import CriCallReader
from fsm.runtimes.recordings.runtime_forms import CALLS, EVENTS, LOG
from fsm.verdict import Holds, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fsm.monitor.judgement import Judged

__all__ = ["every_violation"]

RECORDING = "containerd-1.6.20.log"
LINE = re.compile(r'time="([^"]*)" level=(\w+) msg="((?:[^"\\]|\\.)*)"(.*)')
KUBELET = (
    b'I1120 11:03:20.747544    1234 kubelet.go:2131] "SyncLoop (PLEG)" pod="d/p0" event={"Type":"ContainerStarted"}'
)
CRI_O = (
    b'time="2026-11-20 11:03:20.7Z" level=info msg="Started container" PID=7 containerID=c1 id=a8 name=/runtime.v1/Run'
)


def parts(line: str) -> dict[str, str]:
    found = LINE.fullmatch(line)
    assert found
    fields = {name: value.strip('"') for name, value in re.findall(r' (\w+)=("(?:[^"\\]|\\.)*"|\S+)', found[4])}
    written = {"level": found[2], "msg": found[3], "time": found[1], **fields}
    return {name: value.replace('\\"', '"') for name, value in written.items()}


def terminal(line: str) -> str:
    fields = parts(line)
    level, message, time = (fields.pop(name) for name in ("level", "msg", "time"))
    rest = "".join(f" \x1b[36m{name}\x1b[0m={json.dumps(value)}" for name, value in fields.items())
    return f"\x1b[36m{level.upper()[:4]}\x1b[0m[{time}] {message:44} {rest}"


FORMS: dict[str, Callable[[str], str]] = {
    "logfmt": str,
    "journalctl": lambda line: f"Nov 20 11:03:20 node-1 containerd[612]: {line}",
    "journalctl-iso": lambda line: f"2026-11-20T11:03:20+0000 node-1 containerd[612]: {line}",
    "journalctl-precise": lambda line: f"Nov 20 11:03:20.747544 node-1 containerd[612]: {line}",
    "syslog": lambda line: f"<30>1 2026-11-20T11:03:20.7Z node-1 containerd 612 - - {line}",
    "json": lambda line: json.dumps(parts(line)),
    "journalctl-json": lambda line: json.dumps({"PRIORITY": "6", "MESSAGE": line, "_PID": "612"}),
    "journalctl-json-bytes": lambda line: json.dumps({"MESSAGE": list(line.encode()), "_PID": "612"}),
    "journalctl-json-of-json": lambda line: json.dumps({"MESSAGE": json.dumps(parts(line))}),
    "journalctl-of-json": lambda line: f"Nov 20 11:03:20 node-1 containerd[612]: {json.dumps(parts(line))}",
    "collector": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-20T11:03:20Z"}),
    "collector-of-journal": lambda line: json.dumps({"message": json.dumps({"MESSAGE": line})}),
    "terminal": terminal,
    "carriage-return": lambda line: line + "\r",
}


def beside_lines(found: Judged) -> list[tuple[object, ...]]:
    return [(each.verdict == Holds(), each.entities, each.observations) for each in found.judgements] + [
        violation[1:] for violation in violations(found)
    ]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_verdicts(form: str, tmp_path: Path) -> None:
    """The verdicts do not change if journald or a collector wraps the lines, or if other text is mixed with them."""
    recording = content(RECORDING)
    foreign = ["", KUBELET.decode(), CRI_O.decode(), '{"MESSAGE": null}', "\x00\ufffd garbage {", "[1, 2]"]
    lines = [FORMS[form](line) for line in recording.decode().splitlines()]
    mixed = [each for index, line in enumerate(lines) for each in (line, foreign[index % len(foreign)])]

    plain = judged(recording, tmp_path)
    found = judged("\n".join(mixed).encode(), tmp_path)

    assert LOG is found.form
    assert beside_lines(plain) == beside_lines(found)
    assert [each.line * 2 - 1 for each in violations(plain)] == [each.line for each in violations(found)]


def test_compressed_is_the_same(tmp_path: Path) -> None:
    recording = content(RECORDING)
    half = recording.index(b"\n", len(recording) // 2) + 1

    found = judged(gzip.compress(recording[:half]) + gzip.compress(recording[half:]), tmp_path)

    assert violations(judged(recording, tmp_path)) == violations(found)


def test_compressed_and_broken_off_is_read_up_to_there(tmp_path: Path) -> None:
    recording = content(RECORDING)

    found = judged(gzip.compress(recording)[:-2_000], tmp_path)

    assert [each for each in violations(judged(recording, tmp_path)) if each.line <= found.notes["lines"]][:-1] == (
        violations(found)[:-1]
    )
    assert 1 == found.notes["breaks in the compressed data: the rest is missing"]
    assert violations(found)
    assert all(each.verdict.incomplete for each in found.judgements if isinstance(each.verdict, Illegal))


def test_half_a_recording_that_holds_is_unknown(tmp_path: Path) -> None:
    """The verdict on a truncated file is unknown, because the missing part may contain a violation."""
    recording = content("containerd-1.7.24.log")

    whole, half = (judged(gzip.compress(recording)[:end], tmp_path) for end in (None, -2_000))

    assert {Holds} == {type(each.verdict) for each in whole.judgements}
    assert {"the compressed data end early, and the missing part is not judged"} == {
        each.verdict.why for each in half.judgements if isinstance(each.verdict, Unknown)
    }
    assert {Unknown} == {type(each.verdict) for each in half.judgements}


@pytest.mark.parametrize(("end", "lines"), [(b"", 1), (b"\n", 1), (b"\nx", 2), (b"\n\n", 2)])
def test_a_line_that_was_cut_is_one_line(end: bytes, lines: int, tmp_path: Path) -> None:
    found = judged(b"x" * (3 * LONGEST) + end, tmp_path)

    assert (lines, 1) == (found.notes["lines"], found.notes["lines cut at 1 MiB"])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_a_recording(
    pack: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = content(RECORDING)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(recording))))

    assert violations(judged(recording, tmp_path)) == violations(judge("-"))


def quoted(text: str) -> str:
    short = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\x07": "\\x07", "\u2028": "\\u2028"}
    return f'"{"".join(short.get(each, each) for each in text)}"'


@given(
    message=st.text('ab \\"\n\t\x07\u2028={}[]é', max_size=12),
    error=st.text('ab \\"\n=', min_size=1, max_size=8),
)
def test_what_go_quotes_is_read_back(message: str, error: str) -> None:
    """Every escape in a message or a field is decoded, whatever the characters next to it."""
    line = f'time="T" level=info msg={quoted(message)} error={quoted(error)} version=v2.1.9'

    assert entry(line.encode()) == (message, "T", error, "v2.1.9")


@pytest.mark.parametrize(
    "line", [KUBELET, b"", b"{", b'{"MESSAGE": 7}', b'{"log": ["a"]}', b"\xff\xfe", b"null", b"[]"]
)
def test_what_is_not_containerds_says_nothing(line: bytes) -> None:
    assert entry(line) is None
    assert recognised("", [line]) is None


@pytest.mark.parametrize(
    ("line", "form"),
    [
        (b'{"trace": 1, "machine": "cri-container"}', TRACE),
        (b'{"entity": "c1", "event": "stop"}', TRACE),
        (b'{"op": "StopContainer", "id": "c1"}', CALLS),
        (b'{"ts": 1, "event": "StopContainer", "container": "c1"}', EVENTS),
        (b'time="2026" level=info msg="StopContainer for c1"', LOG),
        (b'{"level":"info","msg":"StopContainer for c1","time":"2026"}', LOG),
        (b'{"event":"x","level":"info","msg":"received","time":"2026"}', LOG),
        (b'{"op":"prepare","level":"info","msg":"snapshot","time":"2026"}', LOG),
        (b'{"entity":"c1","phase":"init","level":"info","msg":"m","time":"2026"}', LOG),
        (b'{"trace":1,"level":"debug","msg":"m","time":"2026"}', LOG),
    ],
)
def test_a_line_tells_what_it_is_a_line_of(line: bytes, form: RecordingForm) -> None:
    """The first recognised line determines the form of the file."""
    assert form is recognised("", [b"noise", line])


# -- meanings of lines ---------------------------------------------------------

C = "c" * 64
D = "cd" + "0" * 62
P = "b" * 64
META = "&ContainerMetadata{Name:c,Attempt:0,}"
BOOT = "starting containerd"
MULTIPLE = 'rpc error: code = Unknown desc = an error occurred when try to find container "c": Multiple IDs found with provided prefix: c'
GONE = f'rpc error: code = NotFound desc = an error occurred when try to find container "{C}": not found'
RUNS = f'rpc error: code = Unknown desc = failed to set starting state for container "{C}": container is in CONTAINER_RUNNING state'
LOST = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
BROKEN = "rpc error: code = Unknown desc = ttrpc: closed"


def log(*messages: str, minutes: int = 0) -> bytes:
    """Return a log with *messages* one second apart.

    Text after `` ! `` in a message is an error, and a message that begins with ``-- `` is a literal line. After the
    message ``later``, times are *minutes* later.
    """
    lines, past = [], 0
    for second, message in enumerate(messages):
        if message == "later":
            past = minutes
            continue
        if message.startswith("-- "):
            lines.append(message[3:])
            continue
        text, _, error = message.partition(" ! ")
        time = f"2026-11-20T{11 + past // 60:02}:{past % 60:02}:{second:02}.5Z"
        lines.append(
            f'time="{time}" level={"error" if error else "info"} msg={json.dumps(text)}'
            + (f" error={json.dumps(error)}" if error else "")
        )
    return "\n".join(lines).encode()


def ran(pod: str = P) -> str:
    return f'RunPodSandbox for &PodSandboxMetadata{{Name:p,Uid:u,Namespace:d,Attempt:0,}} returns sandbox id "{pod}"'


def created(container: str = C, pod: str = P, metadata: str = META) -> tuple[str, str]:
    what = f'CreateContainer within sandbox "{pod}" for'
    return f"{what} container {metadata}", f'{what} {metadata} returns container id "{container}"'


def went(call: str, identity: str = C) -> tuple[str, str]:
    removed = call == "RemovePodSandbox"
    return f'{call} for "{identity}"', f'{call} {"" if removed else "for "}"{identity}" returns successfully'


def failed(call: str, error: str, identity: str = C) -> tuple[str, str]:
    return f'{call} for "{identity}"', f'{call} for "{identity}" failed ! {error}'


def found(tmp_path: Path, messages: Sequence[str], minutes: int = 0) -> list[tuple[int, str, str, str]]:
    return [
        (each.line, each.event, each.reply, each.clause)
        for each in violations(judged(log(*messages, minutes=minutes), tmp_path))
    ]


ALIVE = (BOOT, ran(), *created(), *went("StartContainer"))
TWICE = (8, "StartContainer", "ok", "start-only-created")
REMOVED = ("StartContainer", "ok", "absent-is-not-found")

SAID: dict[str, tuple[tuple[str, ...], list[tuple[int, str, str, str]]]] = {
    "a second start is found": ((*ALIVE, *went("StartContainer")), [TWICE]),
    "an id may be shortened": ((*ALIVE, *went("StartContainer", C[:13])), [TWICE]),
    "an id that is ambiguous stands for nobody": (
        (*ALIVE, *created(D), *failed("StartContainer", MULTIPLE, "c")),
        [],
    ),
    "a call on several is a call on none of them for certain": ((*ALIVE, *created(D), *went("StopContainer", "c")), []),
    "an empty id stands for nobody": (
        (*ALIVE, *failed("StartContainer", "an error occurred when try to find container: Prefix can't be empty", "")),
        [],
    ),
    "missing messages may have been anything": (
        (
            *ALIVE,
            "-- node-1 systemd-journald[1]: Suppressed 7 messages from containerd.service",
            *went("StartContainer"),
        ),
        [],
    ),
    "missing messages of others do not matter": (
        (
            *ALIVE[:5],
            "-- node-1 systemd-journald[1]: Suppressed 7 messages from cron.service",
            *ALIVE[5:],
            *went("StartContainer"),
        ),
        [(9, *TWICE[1:])],
    ),
    "a restart may have lost or found anything": ((*ALIVE, BOOT, *failed("StartContainer", GONE)), []),
    "a restart does not make a container start again": (
        (*ALIVE, *failed("StartContainer", RUNS), BOOT, *went("StartContainer")),
        [(11, *TWICE[1:])],
    ),
    "stopping a pod stops its containers": (
        (*ALIVE, *went("StopPodSandbox", P), *went("StartContainer")),
        [
            (10, "StartContainer", "ok", "start-only-created"),
            (10, "started-once-stopped", "", "nothing-starts-once-stopped"),
        ],
    ),
    "removing a pod removes its containers": (
        (*ALIVE, *went("RemovePodSandbox", P), *went("StartContainer")),
        [(10, *REMOVED)],
    ),
    "removing a pod by a shortened id removes them too": (
        (*ALIVE, *went("RemovePodSandbox", P[:13]), *went("StartContainer")),
        [(10, *REMOVED)],
    ),
    "a container of no known pod may have been in any of them": (
        (BOOT, *failed("StartContainer", RUNS), *went("RemovePodSandbox", P), *failed("StopContainer", GONE)),
        [(7, "StopContainer", "NOT_FOUND", "stop-is-idempotent")],
    ),
    "a container that vanishes is found": (
        (BOOT, *failed("StartContainer", RUNS), *failed("StartContainer", GONE)),
        [(5, "StartContainer", "NOT_FOUND", "start-only-created")],
    ),
    "unless a pod of unknown containers was removed": (
        (BOOT, *failed("StartContainer", RUNS), *went("RemovePodSandbox", P), *failed("StartContainer", GONE)),
        [],
    ),
    "unless a pod that nobody has named was removed": (
        (BOOT, *failed("StartContainer", RUNS), *went("RemovePodSandbox", P[:3]), *failed("StartContainer", GONE)),
        [],
    ),
    "or its removal is in progress": (
        (BOOT, f'RemovePodSandbox for "{P[:3]}"', *failed("StartContainer", RUNS), *failed("StartContainer", GONE)),
        [],
    ),
    "or began before the pod was named": (
        (
            BOOT,
            f'RemovePodSandbox for "{P[:3]}"',
            *failed("StopPodSandbox", BROKEN, P),
            *failed("StartContainer", RUNS),
            f'RemovePodSandbox "{P[:3]}" returns successfully',
            *failed("StartContainer", GONE),
        ),
        [],
    ),
    "which is over once it has been answered": (
        (
            BOOT,
            *went("RemovePodSandbox", P[:3]),
            *failed("StartContainer", RUNS),
            *failed("StartContainer", GONE),
        ),
        [(7, "StartContainer", "NOT_FOUND", "start-only-created")],
    ),
    "a call that reached nobody is over": (
        (
            BOOT,
            *failed("StartContainer", RUNS),
            *failed("RemoveContainer", MULTIPLE, C[:3]),
            *failed("StartContainer", RUNS),
            *failed("StartContainer", GONE),
        ),
        [(9, "StartContainer", "NOT_FOUND", "start-only-created")],
    ),
    "unless its removal is in progress, though the container was seen later": (
        (BOOT, f'RemovePodSandbox for "{P}"', *failed("StartContainer", RUNS), *failed("StartContainer", GONE)),
        [],
    ),
    "unless its removal began before the log": ((*failed("StartContainer", RUNS), *failed("StartContainer", GONE)), []),
    "and whatever calls on pods ended since": (
        (
            *failed("StartContainer", RUNS),
            *went("StopPodSandbox", P),
            *failed("StartContainer", RUNS),
            *failed("StartContainer", GONE),
        ),
        [],
    ),
    "a container created while its pod is removed may be left": (
        (
            BOOT,
            ran(),
            f'RemovePodSandbox for "{P}"',
            *created(),
            f'RemovePodSandbox "{P}" returns successfully',
            *went("StartContainer"),
        ),
        [],
    ),
    "or be gone": (
        (
            BOOT,
            ran(),
            f'RemovePodSandbox for "{P}"',
            *created(),
            f'RemovePodSandbox "{P}" returns successfully',
            *failed("StartContainer", GONE),
        ),
        [],
    ),
    "and be gone before it is known": (
        (BOOT, ran(), created()[0], *went("RemovePodSandbox", P), created()[1], *failed("StartContainer", GONE)),
        [],
    ),
    "a creation that a crash cut short may have made a container": (
        (
            BOOT,
            ran(),
            created()[0],
            BOOT,
            *failed("StartContainer", RUNS),
            *went("RemovePodSandbox", P),
            *failed("StartContainer", GONE),
        ),
        [],
    ),
    "a refused call names the state it met": (
        (*ALIVE, *failed("StartContainer", RUNS.replace("RUNNING", "CREATED"))),
        [(8, "StartContainer", "UNKNOWN", "start-only-created")],
    ),
    "a failure whose request is not logged is judged": (
        (*ALIVE, f'ContainerStatus for "{C}" failed ! {GONE}'),
        [(7, "ContainerStatus", "NOT_FOUND", "status-reads")],
    ),
    "a failure whose request is logged at debug level is judged": (
        (
            *ALIVE,
            *went("RemoveContainer"),
            f'ExecSync for "{C}" with command [true] and timeout 0 (s)',
            f'ExecSync for "{C}" returns with exit code 0',
        ),
        [(10, "ExecSync", "ok", "absent-is-not-found")],
    ),
    "an error that is cut off says nothing": (
        (
            *ALIVE,
            f'StopContainer for "{C}"',
            f'-- time="T" level=error msg="StopContainer for \\"{C}\\" failed" error="rpc error: code = Unk',
        ),
        [],
    ),
    "a lost call may act late": (
        (
            *ALIVE,
            *failed("RemoveContainer", "rpc error: code = DeadlineExceeded desc = context deadline exceeded"),
            *failed("StartContainer", GONE),
        ),
        [],
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_lines_mean_what_containerd_means_by_them(case: str, tmp_path: Path) -> None:
    messages, expected = SAID[case]

    assert expected == found(tmp_path, messages)


def test_doubts_of_the_beginning_end(tmp_path: Path) -> None:
    """Calls from before the start of a log are assumed to have ended after ten minutes."""
    vanished = (*failed("StartContainer", RUNS), *failed("StartContainer", GONE))
    early = (*went("StopPodSandbox", P), *vanished)
    late = (*went("StopPodSandbox", P), "later", *vanished)
    asked = (f'StopPodSandbox for "{P}"', "later", *vanished)

    assert [] == found(tmp_path, early)
    assert [(6, "StartContainer", "NOT_FOUND", "start-only-created")] == found(tmp_path, late, minutes=11)
    assert [] == found(tmp_path, asked, minutes=11), "while a call is in progress nothing has ended"
    assert [(5, "StartContainer", "NOT_FOUND", "start-only-created")] == found(tmp_path, asked, minutes=21)


def test_calls_that_were_seen_to_begin_go_on_when_the_doubts_end(tmp_path: Path) -> None:
    """A call whose request is in the log may act even after ten minutes."""
    removal = f'RemovePodSandbox for "{P}"'
    runs = failed("StartContainer", RUNS)
    vanished = (*runs, "later", *runs, *failed("StartContainer", GONE))

    assert [] == found(tmp_path, (removal, *vanished), minutes=21)
    assert [(6, "StartContainer", "NOT_FOUND", "start-only-created")] == found(tmp_path, vanished, minutes=21)


def test_a_reply_to_what_was_forgotten_is_judged_by_itself(tmp_path: Path) -> None:
    """A reply without a request makes the effects of calls in progress unknown, so nothing is violated."""
    stirred = (
        f'StartContainer for "{C}"',
        f'UpdateContainerResources for "{C}" returns successfully',
        f'StartContainer for "{C}" failed ! {RUNS}',
        *failed("StartContainer", GONE),
    )

    assert [] == found(tmp_path, stirred)


@pytest.mark.parametrize(
    "metadata",
    [
        "&ContainerMetadata{Name:c,Attempt:0,}",
        "&ContainerMetadata{Name:kube-proxy,Attempt:1,}",
        'name:"c"',
        'name:"c"  attempt:1',
        'name:"returns container id"',
        '&ContainerMetadata{Name:for " failed,Attempt:0,}',
    ],
)
def test_metadata_is_written_in_two_ways(metadata: str, tmp_path: Path) -> None:
    """Both notations in which containerd writes the metadata of a container are read."""
    messages = (BOOT, ran(), *created(metadata=metadata), *went("StartContainer"), *went("StartContainer"))

    assert [TWICE] == found(tmp_path, messages)


@pytest.mark.parametrize(
    "run",
    [
        "&PodSandboxMetadata{Name:p,Uid:u,Namespace:d,Attempt:0,}",
        'name:"p"  uid:"u"  namespace:"d"',
        'name:"p" uid:"u" namespace:"d" attempt:1',
    ],
)
@pytest.mark.parametrize("call", ["RunPodSandbox", "RunPodsandbox"])
def test_pods_are_named_in_two_ways(call: str, run: str, tmp_path: Path) -> None:
    """The run of a pod is recognised in both notations. A pod that was run has no unknown containers."""
    messages = (
        BOOT,
        f'{call} for {run} returns sandbox id "{P}"',
        *failed("StartContainer", RUNS),
        *went("RemovePodSandbox", P),
        *failed("StartContainer", GONE),
    )

    assert [(8, "StartContainer", "NOT_FOUND", "start-only-created")] == found(tmp_path, messages)


EXITS = (
    "received exit event &TaskExit{ContainerID:%s,ID:%s,Pid:1,ExitStatus:0,ExitedAt:2023-09-06 07:44:42 +0000 UTC,}",
    'received exit event container_id:"%s" id:"%s" pid:1 exit_status:137 exited_at:{seconds:1 nanos:2}',
    'received exit event container_id:"%s"  id:"%s"  pid:1  exited_at:{seconds:1  nanos:2}',
    'received container exit event container_id:"%s"  id:"%s"  pid:1  exit_status:137',
    'TaskExit event container_id:"%s" id:"%s" pid:1 exit_status:137',
    "TaskExit event &TaskExit{ContainerID:%s,ID:%s,Pid:1,ExitStatus:0,}",
    'TaskExit event {container_id:"%s"  id:"%s"  pid:1}',
)


@pytest.mark.parametrize("form", EXITS)
def test_exits_are_written_in_many_ways(form: str, tmp_path: Path) -> None:
    """Every notation of an exit is recognised: the exit of a container that never started is reported as a violation.

    The exit of a process that was run with exec is not the exit of its container.
    """
    before = (BOOT, ran(), *created())

    assert [(5, "exit", "", "no-process-no-exit")] == found(tmp_path, (*before, form % (C, C)))
    assert [] == found(tmp_path, (*before, form % (C, "e" * 64)))


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ('received exit event sandbox_id:"%s"  exit_status:137', "pod"),
        ('received sandbox exit event container_id:"%s"  id:"%s"  exit_status:137', "pod"),
        ('received sandbox container exit event sandbox_id:"%s"  exit_status:137', "pod"),
        ('TaskExit event in podsandbox handler container_id:"%s" id:"%s" pid:1', "pod"),
        ('TaskOOM event container_id:"%s"', "container"),
        ("TaskOOM event &TaskOOM{ContainerID:%s,XXX_unrecognized:[],}", "container"),
    ],
)
def test_signals_tell_whose_they_are(form: str, kind: str) -> None:
    recording = Log()
    for line in log(BOOT, ran()).splitlines():
        recording.observations(line)

    (seen,) = recording.observations(log(form.replace("%s", P)))

    assert (P, kind, "noticed") == (seen.entity, seen.of, seen.phase)


@pytest.mark.parametrize(
    ("messages", "restarts"),
    [
        ((BOOT,), 1),
        ((BOOT, "Start recovering state"), 1),
        (("Start recovering state",), 1),
        ((BOOT, BOOT, "Start recovering state"), 2),
        (("-- -- Reboot --", BOOT, "Start recovering state"), 1),
        (("-- -- Boot 0123456789abcdef --", "Start recovering state", BOOT), 2),
        ((BOOT, "Start recovering state", "-- -- Reboot --", BOOT, BOOT), 3),
    ],
)
def test_restarts_are_counted_once(messages: tuple[str, ...], restarts: int) -> None:
    recording = Log()
    seen = [each for line in log(*messages).splitlines() for each in recording.observations(line)]

    assert (restarts, restarts) == (recording.notes["restarts"], sum(each.event == "restart" for each in seen))


LATE = f'failed to kill container "{C}"'
ERRORS = {
    "rpc error: code = DeadlineExceeded desc = context deadline exceeded": ("DEADLINE_EXCEEDED", "", ""),
    "rpc error: code = Canceled desc = context canceled": ("CANCELED", "", ""),
    f"rpc error: code = Unknown desc = {LATE}: context canceled": ("CANCELED", "", ""),
    f"{LATE}: context deadline exceeded: unknown": ("DEADLINE_EXCEEDED", "", ""),
    f"{LATE}: context canceled: unknown: and then its removal failed": ("CANCELED", "", ""),
    "failed to create containerd task: failed to start shim: context deadline exceeded: exit status 1: unknown": (
        "DEADLINE_EXCEEDED",
        "",
        "",
    ),
    "rpc error: code = NotFound desc = context canceled": ("NOT_FOUND", "", ""),
    "container is not running": ("UNKNOWN", "", ""),
    "container is in CONTAINER_EXITED state": ("UNKNOWN", "CONTAINER_EXITED", ""),
    "failed to exec in container: container is in CONTAINER_CREATED state: failed precondition": (
        "UNKNOWN",
        "CONTAINER_CREATED",
        "",
    ),
    f'failed to set starting state for container "{C}": container is in CONTAINER_RUNNING state: unknown': (
        "UNKNOWN",
        "CONTAINER_RUNNING",
        "",
    ),
    f'failed to set removing state for container "{C}": container is in starting state, can\'t be removed': (
        "UNKNOWN",
        "",
        "",
    ),
    GONE: ("NOT_FOUND", "absent", ""),
    f'failed to exec in container: failed to find container "{C}" in store: not found: unknown': (
        "UNKNOWN",
        "absent",
        "",
    ),
    f"rpc error: code = NotFound desc = failed to exec in container: failed to load task: no running task found: task {C} not found: not found": (
        "NOT_FOUND",
        "",
        "",
    ),
    f'rpc error: code = NotFound desc = an error occurred when try to find sandbox "{P}": not found': (
        "NOT_FOUND",
        "",
        "absent",
    ),
    f'failed to find sandbox id "{P}": not found: unknown': ("UNKNOWN", "", "absent"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_errors_tell_a_code_and_a_state(error: str) -> None:
    code, text = split(error)

    assert ERRORS[error] == (code, met(text, pod=False), met(text, pod=True))


@pytest.mark.parametrize(
    ("detail", "phase"), [(f"{LATE}: context canceled: unknown", "lost"), ("container is not running", "reply")]
)
def test_what_a_deadline_cut_short_may_act_yet(detail: str, phase: str) -> None:
    """A call that a deadline cut off may still act, even if only the text of its error shows the deadline."""
    recording = CriCallReader()
    call = {"op": "RemoveContainer", "id": C, "code": "UNKNOWN", "detail": detail}

    assert [] == list(recording.observations(json.dumps(call).encode(), 1))
    assert ["request", phase] == [seen.phase for _, seen in recording.rest()]


@pytest.mark.parametrize(
    ("end", "expected"), [(60, []), (25, ["create-makes-created"]), (None, ["create-makes-created"])]
)
def test_what_a_status_shows_was_so_while_it_was_asked(end: int | None, expected: list[str], tmp_path: Path) -> None:
    """The state in a status may have been reached at any time during the status call.

    A status call without an end is treated as if it took no time.
    """
    status = {
        "op": "status",
        "id": C,
        "start": 20,
        "state": "CONTAINER_EXITED",
        "exit_code": 128,
        "reason": "StartError",
    }
    status |= {"created_at": 5, "started_at": 0, "finished_at": 40}
    lines = [
        {"op": "CreateContainer", "id": C, "pod": P, "start": 1, "end": 10, "code": "OK"},
        status | ({} if end is None else {"end": end}),
        {"op": "StartContainer", "id": C, "start": 30, "end": 70, "code": "UNKNOWN", "detail": "not running"},
    ]

    found = judged("\n".join(map(json.dumps, lines)).encode(), tmp_path)

    assert expected == [each.clause for each in violations(found)]


def test_exits_of_unknown_entities_are_noted() -> None:
    """An exit of an unknown entity is only noted, because the entity may be a container or a pod."""
    recording = Log()

    assert [] == list(recording.observations(log(f'received exit event container_id:"{C}" id:"{C}" pid:1')))
    assert 1 == recording.notes["exits of unknown containers or pods"]


SPELLINGS = {
    "OK": "ok",
    "NOT_FOUND": "NotFound",
    "UNKNOWN": "Unknown",
    "DEADLINE_EXCEEDED": "DeadlineExceeded",
    "CANCELED": "CANCELLED",
}


@pytest.mark.parametrize(
    "name", ["cri-calls-1.6.20.jsonl", "1.6.20-deadlines.calls.jsonl.gz", "1.6.20-restart-graceful.calls.jsonl.gz"]
)
def test_codes_may_be_spelled_as_in_go(name: str, tmp_path: Path) -> None:
    data = content(name).decode()
    codes = set(re.findall('"code": "([A-Z_]+)"', data))
    respelled = tmp_path / "calls.jsonl"
    respelled.write_text(
        re.sub(
            '"code": "([A-Z_]+)"',
            lambda found: f'"code": "{SPELLINGS.get(found[1], found[1].title().replace("_", ""))}"',
            data,
        )
    )

    def found(file: str | Path) -> object:
        return [
            (each.verdict, each.covered, each.observations) for each in judge(file, profile="containerd-1.6").judgements
        ]

    original = tmp_path / "calls"
    original.write_text(data)
    assert len(codes) > 1
    assert found(original) == found(respelled)
