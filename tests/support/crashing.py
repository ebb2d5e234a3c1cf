"""A process killed at every system call of a change or a deletion of a record: what its successor finds.

Run as ``python tests/support/crashing.py ROUNDS changing|deleting``; says how many calls
there are and how often it was killed, and fails with what was torn or lost.  ``strace`` does the killing: it is let into
a child that waits, so that no call of Python's own start counts.
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

from fsm.reference.container.checkpoint import encode
from fsm.reference.container.record import LinuxResources, Resources, Status
from fsm.reference.container.storage import StatusStorage, load, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STRACE = shutil.which("strace")
MEMORY = next((each for each in ("/dev/shm",) if os.access(each, os.W_OK)), None)  # noqa: S108  (random names in it)
"""Where a thousand files are made to last in no time; to a process that is killed it is a disk as any other."""


class Call(NamedTuple):
    """A system call by name, and how many of that name there were with it."""

    name: str
    nth: int


class Deed(NamedTuple):
    """What a child does to a record, and what may be found of it when that did not come to its end."""

    act: Callable[[StatusStorage], None]
    found: tuple[Status | None, ...]
    after: Status | None


class Ended(NamedTuple):
    """How a child ended, and what of its folder was left: names, and the record."""

    killed: bool
    names: tuple[str, ...]
    record: Status | None


def watched(folder: Path, act: Callable[[StatusStorage], None], *options: str) -> Ended:
    """A child that does *act* to the record in *folder*, under ``strace`` with *options*."""
    kept = load(folder)
    waiting, go = os.pipe()
    child = os.fork()
    if child == 0:
        ended = 1
        try:
            os.read(waiting, 1)
            act(kept)
            ended = 0
        finally:
            os._exit(ended)  # never on into what the parent does
    with subprocess.Popen([str(STRACE), "-qqq", *options, "-p", str(child)]) as tracer:
        try:
            status = Path(f"/proc/{child}/status")
            while "TracerPid:\t0" in status.read_text(encoding="utf-8") and tracer.poll() is None:
                time.sleep(0.0005)
        finally:
            os.write(go, b".")
            _, ended = os.waitpid(child, 0)
            os.close(waiting)
            os.close(go)
    if os.waitstatus_to_exitcode(ended) not in {0, -signal.SIGKILL}:
        message = f"the child failed: it ended as {ended}"
        raise AssertionError(message)
    names = tuple(sorted(path.name for path in folder.iterdir()))
    return Ended(os.WIFSIGNALED(ended), names, load(folder).get() if "status" in names else None)


def calls(deed: Deed, old: Status) -> tuple[Call, ...]:
    """Every system call that *deed* needs, in order."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder, "c1")
        root.mkdir()
        store(root, old)
        log = Path(folder, "log")
        watched(root, deed.act, "-o", str(log))
        names = re.findall(r"^(\w+)\(", log.read_text(encoding="utf-8"), flags=re.MULTILINE)
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(Call(name, seen[name]))
    return tuple(found)


def crash(deed: Deed, old: Status, call: Call) -> bool:
    """Whether a child came to be killed at *call*; fails where it left something torn or lost."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder, "c1")
        root.mkdir()
        store(root, old)
        ended = watched(root, deed.act, "-o", os.devnull, "-e", f"inject={call.name}:signal=KILL:when={call.nth}")
        allowed = deed.found if ended.killed else (deed.after,)
        assert ended.record in allowed, f"killed at {call}: {ended.record} is none of {allowed}"
        StatusStorage(root, old).delete()
        assert list(root.iterdir()) == [], f"killed at {call}: a deletion afterwards leaves something"
        return ended.killed


def records(chance: random.Random) -> Iterator[Status]:
    """Records that differ, in length too."""
    while True:
        limits = Resources(linux=LinuxResources(cpuset_cpus="1," * chance.randrange(2000)))
        yield Status(created_at=chance.randrange(1, 2**63), message="x" * chance.randrange(9), resources=limits)


def changing(old: Status, new: Status) -> Deed:
    """The record changes from *old* to *new*."""
    return Deed(lambda kept: kept.update_sync(lambda _: new), (old, new), new)


def deleting(old: Status, _: Status) -> Deed:
    """The record, which is *old*, goes."""
    return Deed(lambda kept: kept.delete(), (old, None), None)


def crashes(rounds: int, deed: Callable[[Status, Status], Deed]) -> tuple[int, int]:
    """How many system calls *deed* needs, and how often a child was killed at one of them, each of them *rounds* times."""
    some = records(random.Random(rounds))
    old, new = next(some), next(some)
    every = calls(deed(old, new), old)
    killed = 0
    for _, call in itertools.product(range(rounds), every):
        old, new = next(some), next(some)
        killed += crash(deed(old, new), old, call)
    return len(every), killed


def overwriting(old: Status, new: Status) -> Deed:
    """The wrong way to change the record from *old* to *new*, which is found out."""
    return Deed(lambda kept: void(kept.path.write_bytes(encode(new))), (old, new), new)


def void(_: object) -> None:
    """Nothing."""


if __name__ == "__main__":
    there, times = crashes(
        int(sys.argv[1]), {each.__name__: each for each in (changing, deleting, overwriting)}[sys.argv[2]]
    )
    sys.stdout.write(f"{there} {times}\n")
