"""What a simulated container does: how long its command runs, and how that ends.

A few commands, alone or in a line of a shell; what is not among them does not exist.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import PurePosixPath
from typing import Final

from fsm.reference.driven import WorldError

TERMINATED: Final = 143
"""The exit code of what SIGTERM has ended."""
NOT_FOUND: Final = 127
"""The code of a shell for a command that does not exist."""

FOLDERS: Final = frozenset(map(PurePosixPath, ("/", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin")))
SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
FOR_EVER: Final = frozenset({"agnhost", "httpd", "nginx", "pause", "redis-server", "top"})
AT_ONCE: Final = frozenset(
    {":", "[", "cat", "cd", "date", "env", "hostname", "id", "ls", "mkdir", "ps", "pwd", "rm", "set", "test", "touch"}
    | {"true", "uname", "wget", "whoami"}
)
OTHERS: Final = frozenset({"echo", "exit", "false", "kill", "printf", "sleep", "tail"})
UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
SIGNALS: Final = {"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "TERM": 15}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A command runs for ``seconds``, writes ``output`` and ends with ``code``.

    First it reads a line of the file ``reads``, if that is not empty, and ends with the number that it has read if it
    ends ``as_read``.  ``on_term`` is its code after SIGTERM, ``None`` if it ignores that; ``kills`` the signal that it
    sends to the first process of its container, 0 if it sends none.
    """

    seconds: float = 0.0
    code: int = 0
    output: str = ""
    on_term: int | None = TERMINATED
    kills: int = 0
    reads: str = ""
    as_read: bool = False


def script(command: Sequence[str]) -> Script:
    """What *command* does; an empty one is that of an image, and runs until it is stopped.

    Raises :class:`~fsm.reference.driven.WorldError` if there is no such command.

    >>> script(["sleep", "5"]).seconds, script(["/bin/sh", "-c", "sleep 1 && exit 3"]).code
    (5.0, 3)
    >>> script(["/no/such/command"])
    Traceback (most recent call last):
    fsm.reference.driven.WorldError: exec: "/no/such/command": stat /no/such/command: no such file or directory
    """
    if not command:
        return Script(seconds=inf)
    name = _program(command[0])
    if name not in SHELLS:
        return _simple(name, command[1:])
    if len(command) > 2 and command[1].startswith("-") and command[1].endswith("c"):  # noqa: PLR2004  (sh -c LINE)
        return _line(command[2])
    return Script()


def _program(path: str) -> str:
    """The name of the program at *path*."""
    name, folder = PurePosixPath(path).name, PurePosixPath(path).parent
    if "/" not in path and name not in SHELLS | FOR_EVER | AT_ONCE | OTHERS:
        raise WorldError(f'exec: "{path}": executable file not found in $PATH')
    if "/" in path and (folder not in FOLDERS or name not in SHELLS | FOR_EVER | AT_ONCE | OTHERS):
        raise WorldError(f'exec: "{path}": stat {path}: no such file or directory')
    return name


def _simple(name: str, words: Sequence[str]) -> Script:
    match name, [*words]:
        case "sleep", [*durations]:
            seconds = [_duration(each) for each in durations]
            return Script(code=1) if None in seconds or not seconds else Script(seconds=sum(filter(None, seconds)))
        case "false", _:
            return Script(code=1)
        case "exit", [code, *_]:
            return Script(code=exit_code(code))
        case "echo" | "printf", ["-n", *said]:
            return Script(output=" ".join(said))
        case "printf", said:
            return Script(output=" ".join(said))
        case "echo", said:
            return Script(output=" ".join(said) + "\n")
        case "tail", said if "-f" in said or "-F" in said:
            return Script(seconds=inf)
        case "kill", [*options, "1"]:
            return Script(kills=_signal(options))
        case _:
            return Script(seconds=inf if name in FOR_EVER else 0)


def _duration(word: str) -> float | None:
    unit = UNITS.get(word[-1:], 1)
    try:
        seconds = float(word.rstrip("".join(UNITS))) * unit
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def exit_code(word: str) -> int:
    """The code of a shell that is told to exit with *word*.

    >>> exit_code("3"), exit_code("259"), exit_code("three"), exit_code("")
    (3, 3, 2, 0)
    """
    if not word:
        return 0
    return int(word) & 255 if word.isdecimal() and len(word) < 10 else 2  # noqa: PLR2004  (no longer number is one to a shell)


def _signal(options: Sequence[str]) -> int:
    word = options[-1].lstrip("-").removeprefix("SIG") if options else "TERM"
    return int(word) if word.isdecimal() and len(word) < 3 else SIGNALS.get(word, SIGNALS["TERM"])  # noqa: PLR2004  (64 are the most)


def _line(text: str) -> Script:
    """What a shell does with *text*: commands one after the other, with ``&&``, ``||``, ``exec``, ``trap`` and ``while true``.

    One that reads a line ignores SIGTERM, as the first process of a container does.

    >>> waits = script(["sh", "-c", "read code < /shared/pipe; exit $code"])
    >>> waits.reads, waits.as_read, waits.on_term
    ('/shared/pipe', True, None)
    """
    done, variable = Script(), ""
    for joint, words, source in _commands(text):
        if (joint == "&&" and done.code) or (joint == "||" and not done.code):
            continue
        match words:
            case ["while", "true" | ":" | "sleep", *_] | ["until", "false", *_]:
                return replace(done, seconds=inf)
            case ["read", name] if source:
                done, variable = replace(done, reads=source, on_term=None), name
            case ["exit", word] if variable and word == f"${variable}":
                done = replace(done, as_read=True)
            case ["trap", "", *_]:
                done = replace(done, on_term=None)
            case ["trap", action, *_]:
                done = replace(done, on_term=_line(action).code)
            case ["exec", *rest] | rest if rest:
                done = _after(done, rest)
        if words[:1] in (["exit"], ["exec"]) or done.seconds == inf:
            break
    return done


def _after(done: Script, words: Sequence[str]) -> Script:
    try:
        then = script(words)
    except WorldError:
        then = Script(code=NOT_FOUND)
    return replace(
        done,
        seconds=done.seconds + then.seconds,
        code=then.code if len(words) > 1 or words[0] != "exit" else done.code,
        output=done.output + then.output,
        kills=done.kills or then.kills,
    )


def _commands(text: str) -> Iterator[tuple[str, list[str], str]]:
    """Each command of a line, with what joins it to the one before and the file that it reads; output goes nowhere else."""
    lexer = shlex.shlex(text.replace("\n", ";"), posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    joint, words, source, redirected = ";", list[str](), "", ""
    try:
        tokens = list(lexer)
    except ValueError:
        tokens = ["exit", "2"]
    for each in tokens:
        if redirected:
            source = each if redirected == "<" else source
            redirected = ""
        elif set(each) <= set("<>&") and set(each) & set("<>"):
            redirected = each
        elif each and set(each) <= set(";&|"):
            if words:
                yield joint, words, source
            joint, words, source = each, [], ""
        else:
            words.append(each)
    if words:
        yield joint, words, source
