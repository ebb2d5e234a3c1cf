"""Kill a process at each system call while it changes or deletes a record, and check the remaining files.

Usage: ``python tests/support/crashing.py ROUNDS changing|deleting``. The script prints the number of system calls and
the number of kills, and fails if a record was torn or lost. ``strace`` attaches to a waiting child and kills it, so
that Python's own system calls at start-up do not count.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fsm.runtimes.reference.container.record import LinuxResources, Resources, Status, encode
from fsm.runtimes.reference.container.storage import StatusStorage, load, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STRACE = shutil.which("strace")
MEMORY = next((each for each in ("/dev/shm",) if os.access(each, os.W_OK)), None)  # noqa: S108  (random names in it)
"""A file system in memory, where syncing costs nothing.

It survives the kill of a process as well as a disk does.
"""


class Call(NamedTuple):
    name: str
    nth: int


class Action(NamedTuple):
    """An action on a record, with the records that a kill may leave and the record after the action."""

    act: Callable[[StatusStorage], None]
    found: tuple[Status | None, ...]
    after: Status | None


class Ended(NamedTuple):
    killed: bool
    names: tuple[str, ...]
    record: Status | None


def watched(folder: Path, act: Callable[[StatusStorage], None], *options: str) -> Ended:
    kept = load(folder)
    ended = traced(lambda: act(kept), *options)
    if ended not in {0, -signal.SIGKILL}:
        message = f"the child failed: it ended as {ended}"
        raise AssertionError(message)
    names = tuple(sorted(path.name for path in folder.iterdir()))
    return Ended(ended != 0, names, load(folder).get() if "status" in names else None)


def _switches(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def traced(act: Callable[[], None], *options: str) -> int:
    waiting, go = os.pipe()
    child = os.fork()
    if child == 0:
        ended = 1
        try:
            os.read(waiting, 1)
            act()
            ended = 0
        finally:
            os._exit(ended)  # the child must never return into the code of the parent
    begun = _switches(child)
    with subprocess.Popen([str(STRACE), "-qqq", *options, "-p", str(child)]) as tracer:
        try:
            # The tracer may need some time to attach to the child. Once the child has slept three times, it must be
            # traced. Without the tracer, it sleeps at most once: in its read, if the read had only just begun. With the
            # tracer, it also sleeps when it is stopped, and at the start of a system call.
            while _switches(child) < begun + 3 and tracer.poll() is None:
                time.sleep(0.0005)
        finally:
            os.write(go, b".")
            _, ended = os.waitpid(child, 0)
            os.close(waiting)
            os.close(go)
    return os.waitstatus_to_exitcode(ended)


def calls(action: Action, old: Status) -> tuple[Call, ...]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder, "c1")
        root.mkdir()
        store(root, old)
        log = Path(folder, "log")
        watched(root, action.act, "-o", str(log))
        names = re.findall(r"^(\w+)\(", log.read_text(encoding="utf-8"), flags=re.MULTILINE)
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(Call(name, seen[name]))
    return tuple(found)


def crash(action: Action, old: Status, call: Call) -> bool:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder, "c1")
        root.mkdir()
        store(root, old)
        ended = watched(root, action.act, "-o", os.devnull, "-e", f"inject={call.name}:signal=KILL:when={call.nth}")
        allowed = action.found if ended.killed else (action.after,)
        assert ended.record in allowed, f"killed at {call}: {ended.record} is none of {allowed}"
        StatusStorage(root, old).delete()
        assert list(root.iterdir()) == [], f"killed at {call}: a deletion afterwards leaves something"
        return ended.killed


def records(chance: random.Random) -> Iterator[Status]:
    while True:
        limits = Resources(linux=LinuxResources(cpuset_cpus="1," * chance.randrange(2000)))
        yield Status(created_at=chance.randrange(1, 2**63), message="x" * chance.randrange(9), resources=limits)


def changing(old: Status, new: Status) -> Action:
    return Action(lambda kept: kept.update_sync(lambda _: new), (old, new), new)


def deleting(old: Status, _: Status) -> Action:
    return Action(lambda kept: kept.delete(), (old, None), None)


def crashes(rounds: int, action: Callable[[Status, Status], Action]) -> tuple[int, int]:
    some = records(random.Random(rounds))
    old, new = next(some), next(some)
    every = calls(action(old, new), old)
    killed = 0
    for _, call in itertools.product(range(rounds), every):
        old, new = next(some), next(some)
        killed += crash(action(old, new), old, call)
    return len(every), killed


def overwriting(old: Status, new: Status) -> Action:
    """Return an action that overwrites the record in place, which is not atomic and must be detected."""
    return Action(lambda kept: void(kept.path.write_bytes(encode(new))), (old, new), new)


def void(_: object) -> None: ...


if __name__ == "__main__":
    there, times = crashes(
        int(sys.argv[1]), {each.__name__: each for each in (changing, deleting, overwriting)}[sys.argv[2]]
    )
    sys.stdout.write(f"{there} {times}\n")
