"""A command in a separate process stays within its limits of time and memory, whatever the input."""

from __future__ import annotations

import gzip
import os
import resource
import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from commands import FSM, HOLDING, PLAIN, fsm

from fsm.cli.output import progress
from fsm.interruption import Interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MEMORY: Final = 500 << 20
COMPUTING: Final = 60
"""The limits of a process in bytes and seconds.

The limits are generous, but too low for unbounded work.
"""

OUT_OF_TIME: Final = (
    "unknown: the command ran out of time; 'fsm --seconds N COMMAND ...' allows more seconds of computing"
)


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float


def bounded(*arguments: str, stdin: Iterable[bytes] = (), cwd: Path | None = None) -> Ended:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        ["prlimit", f"--as={MEMORY}", f"--cpu={COMPUTING}", FSM, *arguments],  # noqa: S607
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=cwd,
        env=PLAIN,
    ) as process:
        assert process.stdin is not None
        for piece in stdin:
            process.stdin.write(piece)
        out, err = process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ended(process.returncode, out.decode(), err.decode(), used)


def large(folder: Path, size: int, properties: int) -> str:
    states = "".join(f's{each} = {{ about = "" }}\n' for each in range(size))
    events = "".join(
        f'[event.e{each}]\nkind = "call"\nabout = ""\nmoves."*" = "s{each * 7 % size}"\n' for each in range(size)
    )
    head = '[machine]\nname = "large"\ntitle = ""\nabout = ""\nsource = ""\ninitial = "s0"\n[states]\n'
    claims = "".join(
        f'[property.p{each}]\nsays = ""\nMUST = ""\nnever = "s{each % size} and was s{each % size} and e1 replies NO"\n'
        for each in range(properties)
    )
    for name, text in {"models": head + states + events, "properties": f'machine = "large"\n{claims}'}.items():
        (folder / name).mkdir()
        (folder / name / "large.toml").write_text(text, encoding="utf-8")
    return str(folder / "properties" / "large.toml")


# -- seconds and memory of a command --------------------------------------------------------


def test_out_of_time_a_command_ends_as_unknown(tmp_path: Path) -> None:
    """The time limit applies to the whole command, although each property alone takes less time."""
    ended = bounded("--seconds", "1", "check", large(tmp_path, 100, 2_000))

    assert 3 == ended.code
    assert OUT_OF_TIME == ended.err.splitlines()[-1]
    # If the time is up while the files are still being read, there is no output.
    assert "out of time before the search began" in ended.out or not ended.out
    assert ended.seconds < COMPUTING / 4


@pytest.mark.parametrize("command", [("mutate", "container-status"), ("check",)], ids=" ".join)
def test_every_command_ends_in_time(command: tuple[str, ...]) -> None:
    ended = bounded("--seconds", "0.05", *command)

    assert (3, "", [OUT_OF_TIME]) == (ended.code, ended.out, ended.err.splitlines()[-1:])


def test_out_of_time_a_line_says_how_far_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    for why in ("", "out of time"):
        with pytest.raises(KeyboardInterrupt), progress("checking", 1_500) as bar:  # noqa: PT012  (it must pass through)
            bar.advance()
            raise KeyboardInterrupt(*filter(None, [why]))

    assert "checking: 1 of 1,500 done\n" == capsys.readouterr().err


def test_in_time_nothing_is_said() -> None:
    ended = bounded("--seconds", "50", "judge", HOLDING)

    assert (0, "") == (ended.code, ended.err)


def test_out_of_memory_a_command_ends_as_unknown(tmp_path: Path) -> None:
    ended = bounded("--memory", "110", "check", large(tmp_path, 700, 1))

    assert (3, "") == (ended.code, ended.out)
    assert (
        "unknown: the command ran out of memory; 'fsm --memory MIB COMMAND ...' allows more"
        == ended.err.splitlines()[-1]
    )
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(("over", "code"), [(OUT_OF_TIME, 3), ("", 0)])
def test_a_page_of_a_model_whose_claims_were_not_all_tried_is_unknown(
    over: str, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Interruption, "soft_limits", lambda _self: nullcontext(lambda: over))
    page = tmp_path / "page.html"

    ended = fsm("explore", "nri-pod", "-o", str(page))

    assert (code, "") == (ended.returncode, ended.stdout)
    assert over in ended.stderr
    assert page.read_text(encoding="utf-8").endswith("</html>\n")


# -- inputs ----------------------------------------------------------------------------------


def test_a_billion_blank_lines_are_counted() -> None:
    last = b'{"entity": "a", "event": "nonsense"}\n'
    blank = [b"\n" * (1 << 20), b" \r\n" * (1 << 18)] * 32

    ended = bounded("judge", "--model", "cri-pod", "-", stdin=[*blank, last])

    number = sum(piece.count(b"\n") for piece in blank) + 1
    assert f"  cri-pod unknown, line {number}: cri-pod has no event 'nonsense'" in ended.out.splitlines()
    assert f"  {number:,} lines read" in ended.out.splitlines()


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _twice(path: Path) -> None:
    path.write_bytes(gzip.compress(gzip.compress(Path(HOLDING).read_bytes())))


def _one_line(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"x" * (1 << 20))


MODELS: Final[dict[str, Callable[[Path], object]]] = {
    "sparse": _sparse,
    "one line": _one_line,
    "directory": Path.mkdir,
    "a chain of profiles": lambda path: path.write_text(
        '[machine]\nname = "m"\ntitle = ""\nabout = ""\nsource = ""\ninitial = "s"\n[states]\ns = { about = "" }\n'
        '[event.e]\nkind = "call"\nabout = ""\nmoves."*" = "s"\n[profile.p0]\nabout = ""\n'
        + "".join(f'[profile.p{each}]\nabout = ""\nextends = "p{each - 1}"\n' for each in range(1, 20_000))
    ),
    "definitions that double": lambda path: path.write_text(
        'machine = "cri-pod"\n[define]\nd0 = "stays"\n'
        + "".join(f'd{each} = "(d{each - 1} or not d{each - 1})"\n' for each in range(1, 60))
        + '[property.p]\nsays = ""\nMUST = ""\nnever = "d59"\n'
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("made", MODELS.values(), ids=MODELS)
def test_a_file_that_is_no_model_is_refused(made: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    made(path)

    ended = bounded("--seconds", "1", "check", str(path))

    assert ended.code in {2, 3}, ended
    assert ended.err
    assert "Traceback" not in ended.err
    assert len(ended.err) < 100_000


@pytest.mark.parametrize(("source", "code"), [(Path("/bin/true"), 2), (Path(__file__), 3)], ids=["binary", "text"])
def test_a_binary_file_is_refused(source: Path, code: int, tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    path.write_bytes(source.read_bytes())

    ended = fsm("judge", str(path))

    assert (ended.returncode, "the file is binary data" in ended.stderr) == (code, code == 2), ended


@pytest.mark.slow
@pytest.mark.parametrize("made", [_twice, _one_line, Path.mkdir])
def test_a_file_that_is_no_recording_is_refused(made: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "recording.log"
    made(path)

    ended = bounded("judge", str(path))

    assert ended.code in {2, 3}, ended


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "/dev/zero"), ("import", "/dev/zero"), ("diff", "/dev/zero", "cri-pod"),
        ("show", "cri-pod", "--event", "x" * 100_000), ("judge", "x" * 5_000),
    ],
    ids=lambda each: "-".join(each)[:24],
)  # fmt: skip
def test_what_never_ends_or_is_huge_is_refused(arguments: tuple[str, ...]) -> None:
    ended = bounded("--seconds", "20", *arguments)

    assert 2 == ended.code
    assert 0 < len(ended.err) < 10_000


@pytest.mark.slow
def test_zeros_without_end_are_judged_until_time_is_over() -> None:
    """A stream of zeros is a single line without an end.

    The command keeps only a bounded part of the line, and stops at its time limit.
    """
    ended = bounded("--seconds", "1", "judge", "/dev/zero")

    assert (3, "", OUT_OF_TIME) == (ended.code, ended.out, ended.err.splitlines()[-1])


def test_a_full_disk_is_no_verdict() -> None:
    ended = bounded("export", "cri-pod", "--to", "dot", "-o", "/dev/full")

    assert (74, "") == (ended.code, ended.out)
    assert "no space left" in ended.err


def test_one_may_stop_waiting_for_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen([FSM, "judge", str(pipe)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN)

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)

    assert (130, b"") == (process.returncode, out)


@pytest.mark.slow
def test_names_and_entities_may_be_many_or_long() -> None:
    many = [f'{{"entity": "e{each}", "event": "run", "reply": "ok"}}\n'.encode() for each in range(100_000)]
    long = b'{"entity": "%s", "event": "run", "reply": "NOT_FOUND"}\n' % (b"x" * 1_000_000)

    ended = bounded("judge", "--model", "cri-pod", "--fresh", "-", stdin=[*many, long])

    assert ended.code in {0, 1, 3}
    assert "    100,001 pods, 100,001 observations" in ended.out.splitlines()
