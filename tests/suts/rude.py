"""A child process that misbehaves when it is asked to do the event ``it``: ``rude.py MANNERS [FILE]``.

The child stores in FILE the ids of the processes that it leaves behind, or the fact that it has run before.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LONG: Final = 1_000_000.0

FILE: Final = Path(sys.argv[2] if len(sys.argv) > 2 else os.devnull)


def say(text: str) -> None:
    sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
    sys.stdout.flush()


def fine(number: int, **more: object) -> None:
    say(json.dumps({"id": number, "reply": "ok", "shows": "SHUT", **more}) + "\n")


def crash(_number: int) -> None:
    sys.stderr.write("".join(f"line {each}\n" for each in range(9)) + "the door\x1b[2J fell\nno end of line")
    sys.exit(3)


def panic(_number: int) -> None:
    sys.stderr.write("panic: assignment to entry in nil map\n\n" + "".join(f"frame {each}\n" for each in range(40)))
    sys.exit(2)


def fault(_number: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)


def deaf(_number: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    FILE.write_text(str(os.getpid()))
    time.sleep(LONG)


def flood(_number: int) -> None:
    while True:
        say("x" * 65_536)


def lines(_number: int) -> None:
    while True:
        say('{"id":0}\n' * 1000)


def twice(number: int) -> None:
    fine(number)
    fine(number)


def partial(number: int) -> None:
    say(json.dumps({"id": number}))
    time.sleep(LONG)


def cut(_number: int) -> None:
    say('{"id":')
    sys.exit(0)


def complain(number: int) -> None:
    sys.stderr.write("it creaks\n" * 100_000)
    fine(number)


def mute(_number: int) -> None:
    os.close(1)
    time.sleep(LONG)


def heirs(number: int) -> None:
    """Leave processes behind: one in the same group, one in its own session, and one without a parent.

    Then stop answering.
    """
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1e6)"
    children = [
        subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, start_new_session=alone)
        for alone in (False, True)
    ]
    for each in children:
        assert each.stdout is not None
        each.stdout.readline()
    orphan = ["sh", "-c", 'sleep 1000000 >&2 & echo "$!"']
    found = subprocess.run(orphan, stdout=subprocess.PIPE, text=True, check=True, start_new_session=True)
    FILE.write_text(" ".join(map(str, [os.getpid(), *(each.pid for each in children), int(found.stdout)])))
    fine(number)
    time.sleep(LONG)


def murder(number: int) -> None:
    """Start a child in its own session, and kill the parent of this process."""
    child = subprocess.Popen(["/bin/sleep", "1000000"], start_new_session=True)
    FILE.write_text(f"{os.getpid()} {child.pid}")
    os.kill(os.getppid(), signal.SIGKILL)
    fine(number)
    time.sleep(LONG)


def once(number: int) -> None:
    if FILE.exists():
        fine(number)
        return
    FILE.touch()
    sys.exit(1)


MANNERS: Final[dict[str, Callable[[int], None]]] = {
    "fine": fine,
    "crash": crash,
    "panic": panic,
    "fault": fault,
    "quit": lambda _number: sys.exit(0),
    "hang": lambda _number: time.sleep(LONG),
    "deaf": deaf,
    "stopped": lambda _number: os.kill(os.getpid(), signal.SIGSTOP),
    "garbage": lambda _number: say("the door is open\n"),
    "bytes": lambda _number: say("\udcff\udcfe\0\n"),
    "empty": lambda _number: say("\n"),
    "array": lambda _number: say("[1]\n"),
    "odd-key": lambda number: fine(number, show="SHUT"),
    "odd-reply": lambda number: say(json.dumps({"id": number, "reply": 0}) + "\n"),
    "undeclared": lambda number: fine(number, outputs=["Creak"]),
    "without-id": lambda _number: say('{"reply":"ok"}\n'),
    "other-id": lambda number: fine(number + 1),
    "twice": twice,
    "partial": partial,
    "cut": cut,
    "flood": flood,
    "lines": lines,
    "complain": complain,
    "mute": mute,
    "heirs": heirs,
    "murder": murder,
    "once": once,
}

GREETINGS: Final = {
    "no-greeting": "",
    "quiet": None,
    "shell": "command not found\n",
    "old": '{"fsm":2}\n',
    "boast": '{"fsm":1,"can":["fly"]}\n',
}


def main(manners: str) -> None:
    greeting = GREETINGS.get(manners, '{"fsm":1}\n')
    if manners == "fickle":
        greeting = '{"fsm":1,"can":["outputs"]}\n' if FILE.exists() else '{"fsm":1}\n'
        FILE.touch()
    if greeting is None:
        time.sleep(LONG)
    say(greeting or "")
    if not greeting:
        sys.exit(4)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("do") == "it":
            MANNERS.get(manners, crash)(asked["id"])
        else:
            fine(asked["id"])


if __name__ == "__main__":
    main(sys.argv[1])
