"""Simulated commands with a duration, an output and an exit code.

Only a few commands are known, either alone or in a shell command line. Any other command is treated as missing.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from math import inf
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from fsm.runtimes.reference.driven import WorldError
from fsm.runtimes.reference.node.workloads import Command
from fsm.runtimes.sockets import cri_pb2 as cri

TERMINATED: Final = 143
NOT_FOUND: Final = 127
SHORTEST_ROUND: Final = 0.1

FOLDERS: Final = frozenset(map(PurePosixPath, ("/", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin")))
SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
FOREVER: Final = frozenset({"agnhost", "httpd", "nginx", "pause", "redis-server", "top"})
SHORT: Final = (
    ": [ cat cd date echo env exit false hostname id kill ls mkdir pgrep printf ps pwd rm set sleep sync tail test "
    "touch true uname wget whoami"
)
KNOWN: Final = SHELLS | FOREVER | frozenset(SHORT.split())
UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
SIGNALS: Final = {"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "TERM": 15}

VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
ERRORS: Final = re.compile(r"(?<!\S)2>(&1|\s*[^\s;&|]+)")

NOWHERE: Final = Command(config=cri.ContainerConfig())

Step: TypeAlias = tuple[str, list[str], str, str]
"""A command in a shell line, as a tuple of the preceding operator, the words, the input file and the output file.

The output file ``&2`` means standard error.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    data: bytes
    at: float = 0.0
    error: bool = False

    @classmethod
    def text(cls, text: str, *, error: bool = False) -> "Said":
        return cls(data=text.encode(errors="surrogateescape"), error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The behaviour of a command that runs for ``seconds``, writes ``said`` and exits with ``code``.

    If ``reads`` is not empty, the command first reads a line from that file. If ``as_read`` is also true, the number in
    the line is the exit code. ``on_term`` is the exit code after SIGTERM, or ``None`` if the command ignores SIGTERM.
    ``kills`` is the signal that the command sends to the first process of its container, or 0 if it sends none. After
    ``loop_at`` seconds, the command repeats ``loop`` forever. ``listens`` is ``shell`` or ``cat`` if the command reads
    its standard input like that program, and is empty otherwise.
    """

    seconds: float = 0.0
    code: int = 0
    said: tuple[Said, ...] = ()
    on_term: int | None = TERMINATED
    kills: int = 0
    reads: str = ""
    as_read: bool = False
    loop: "Script | None" = None
    loop_at: float = 0.0
    listens: str = ""

    def speech(self) -> Iterator[Said]:
        """Yield the output of the command in order. If the command writes in a loop, the output never ends.

        >>> spoken = script(["sh", "-c", "echo a; while true; do sleep 2; echo b; done"]).speech()
        >>> [(said.at, said.data) for said, _ in zip(spoken, range(3))]
        [(0.0, b'a\\n'), (2.0, b'b\\n'), (4.0, b'b\\n')]
        """
        yield from self.said
        if self.loop and self.loop.said:
            for turn in count():
                begin = self.loop_at + turn * max(self.loop.seconds, SHORTEST_ROUND)
                yield from (replace(said, at=begin + said.at) for said in self.loop.said)


def script(words: Sequence[str], inside: Command = NOWHERE) -> Script:
    """Return the behaviour of the command *words*. A command without words runs forever.

    Raise :class:`~fsm.runtimes.reference.driven.WorldError` if there is no such command.

    >>> script(["sleep", "5"]).seconds, script(["/bin/sh", "-c", "sleep 1 && exit 3"]).code
    (5.0, 3)
    >>> script(["/no/such/command"])
    Traceback (most recent call last):
    fsm.runtimes.reference.driven.WorldError: exec: "/no/such/command": stat /no/such/command: no such file or directory
    """
    if not words:
        return Script(seconds=inf)
    name, rest = _program(words[0]), words[1:]
    if name not in SHELLS:
        return _simple_command(name, rest, inside)
    if len(rest) > 1 and rest[0].startswith("-") and rest[0].endswith("c"):
        return _line(rest[1], inside)
    return Script(listens="shell")


def _program(path: str) -> str:
    file = PurePosixPath(path)
    if file.name not in KNOWN or ("/" in path and file.parent not in FOLDERS):
        why = f"stat {path}: no such file or directory" if "/" in path else "executable file not found in $PATH"
        raise WorldError(f'exec: "{path}": {why}')
    return file.name


def _simple_command(name: str, words: Sequence[str], inside: Command) -> Script:
    match name, [*words]:
        case "sleep", [*durations]:
            seconds = [_duration(duration) for duration in durations]
            return Script(code=1) if None in seconds or not seconds else Script(seconds=sum(filter(None, seconds)))
        case "false" | "pgrep", _:  # no other process runs in a simulated container
            return Script(code=1)
        case "exit", [code, *_]:
            return Script(code=exit_code(code))
        case "echo" | "printf", said:
            unterminated = said[:1] == ["-n"]
            end = "" if unterminated or name == "printf" else "\n"
            return Script(said=(Said.text(" ".join(said[unterminated:]) + end),))
        case "cat" | "ls", words:
            return _show_files(name, [word for word in words if not word.startswith("-")], inside)
        case "tail", options if "-f" in options or "-F" in options:
            return Script(seconds=inf)
        case "kill", [*options, "1"]:
            return Script(kills=_signal_number(options))
        case _ if name in FIXED:
            return Script(said=(Said.text(FIXED[name](inside) + "\n"),))
        case _:
            return Script(seconds=inf if name in FOREVER else 0)


FIXED: Final[Mapping[str, Callable[[Command], str]]] = {
    "env": lambda inside: "\n".join(f"{name}={value}" for name, value in inside.variables.items()),
    "hostname": lambda inside: inside.files["/etc/hostname"].strip(),
    "id": lambda _: "uid=0(root) gid=0(root) groups=0(root)",
    "pwd": lambda _: "/",
    "uname": lambda _: "Linux",
    "whoami": lambda _: "root",
}


def _show_files(name: str, paths: Sequence[str], inside: Command) -> Script:
    if name == "cat" and not paths:
        return Script(listens="cat")
    said, code = list[Said](), 0
    for path in paths or ["/"]:
        names = _list_names(path, inside) if name == "ls" else None
        if names is not None:
            said.append(Said.text("".join(f"{entry}\n" for entry in sorted(names))))
        elif (data := inside.text(path)) is not None:
            said.append(Said(data=data) if name == "cat" else Said.text(f"{path}\n"))
        else:
            code, what = 1, f"can't open '{path}'" if name == "cat" else path
            said.append(Said.text(f"{name}: {what}: No such file or directory\n", error=True))
    return Script(said=tuple(said), code=code)


def _list_names(path: str, inside: Command) -> Collection[str] | None:
    if (names := inside.names(path)) is not None:
        return names
    if path == "/":
        return {folder.parts[1] for folder in FOLDERS if len(folder.parts) > 1}
    return KNOWN if PurePosixPath(path) in FOLDERS else None


def _duration(word: str) -> float | None:
    try:
        seconds = float(word.rstrip("".join(UNITS))) * UNITS.get(word[-1:], 1)
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def exit_code(word: str) -> int:
    """Return the exit code of a shell that executes ``exit`` with the argument *word*.

    >>> exit_code("3"), exit_code("259"), exit_code("three"), exit_code("")
    (3, 3, 2, 0)
    """
    if not word:
        return 0
    return int(word) & 255 if word.isdecimal() and len(word) < 10 else 2  # noqa: PLR2004  (longer words are invalid)


def _signal_number(options: Sequence[str]) -> int:
    word = options[-1].lstrip("-").removeprefix("SIG") if options else "TERM"
    return int(word) if word.isdecimal() and len(word) < 3 else SIGNALS.get(word, SIGNALS["TERM"])  # noqa: PLR2004


def _line(text: str, inside: Command = NOWHERE) -> Script:
    """Return the behaviour of a shell that runs the command line *text*.

    The supported syntax includes ``&&``, ``||``, ``exec``, ``trap`` and loops. Like the first process of a container, a
    shell that is reading a line ignores SIGTERM.

    >>> waits = script(["sh", "-c", "read code < /shared/pipe; exit $code"])
    >>> waits.reads, waits.as_read, waits.on_term
    ('/shared/pipe', True, None)
    """
    return _script_of_steps(_steps(text), inside)


def _script_of_steps(steps: Iterator[Step], inside: Command) -> Script:
    done, variable = Script(), ""
    for operator, words, source, target in steps:
        if {"&&": bool(done.code), "||": not done.code}.get(operator):
            continue
        if words[0] == "done":
            break
        if (first := _loop(words)) is not None:
            body = _script_of_steps(chain(first, steps), inside)
            return replace(done, seconds=inf, loop=body, loop_at=done.seconds)
        match words:
            case ["read", name] if source:
                done, variable = replace(done, reads=source, on_term=None), name
            case ["exit", word] if variable and word == f"${variable}":
                done = replace(done, as_read=True)
            case ["trap", action, *_]:
                done = replace(done, on_term=_line(action).code if action else None)
            case ["do", *rest] | ["exec", *rest] | rest if rest:
                done = _append_command(done, rest, inside, target)
        if words[:1] in (["exit"], ["exec"]) or done.seconds == inf:
            break
    return done


def _loop(words: Sequence[str]) -> Sequence[Step] | None:
    match words:
        case ["while", "true" | ":"] | ["until", "false"]:
            return ()
        case ["while", "sleep", *rest]:
            return ((";", ["sleep", *rest], "", ""),)
        case _:
            return None


def _append_command(done: Script, words: Sequence[str], inside: Command, target: str) -> Script:
    words = [VARIABLE.sub(lambda name: inside.variables.get(name[1], ""), word) for word in words]
    try:
        then = script(words, inside)
    except WorldError:
        then = Script(code=NOT_FOUND, said=(Said.text(f"sh: {words[0]}: not found\n", error=True),))
    seen = (said for said in then.said if target in {"", "&2"} or said.error)
    moved = (replace(said, at=done.seconds + said.at, error=said.error or target == "&2") for said in seen)
    return replace(
        done,
        seconds=done.seconds + then.seconds,
        code=then.code if len(words) > 1 or words[0] != "exit" else done.code,
        said=(*done.said, *moved),
        kills=done.kills or then.kills,
        loop=then.loop,
        loop_at=done.seconds + then.loop_at,
    )


def _steps(text: str) -> Iterator[Step]:
    lexer = shlex.shlex(ERRORS.sub(" ", text.replace("\n", ";")), posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:
        tokens = ["exit", "2"]
    operator, words, source, target = ";", list[str](), "", ""
    rest = iter([*tokens, ";"])
    for word in rest:
        if word == "<":
            source = next(rest)
        elif set(word) <= set("<>&") and set(word) & set("<>"):
            target = ("&" if word == ">&" else "") + next(rest)
        elif word and set(word) <= set(";&|"):
            if words:
                yield operator, words, source, target
            operator, words, source, target = word, [], "", ""
        else:
            words.append(word)
