"""Check the files that a power failure may leave at any moment of a change (like ALICE: Pillai et al., OSDI 2014).

Usage: ``python tests/support/power_loss.py STORE [FAULT]``. The script records the system calls of a real change with
``strace``, and assumes that the power may fail after any of them. A file system may then have kept any part of the
data that was written to a file since the file was last synced. In the same way, it may have kept any of the names
that were created, moved or removed in a folder since the folder was last synced. Each such state is written to a
folder and read by the store, which must find either the last acknowledged content or the content of the change in
progress. The script prints the number of states, and fails at the first wrong state.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import stat
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from crashing import MEMORY, traced

from fsm.runtimes.reference.container import durable_files
from fsm.runtimes.reference.container.record import Status
from fsm.runtimes.reference.container.storage import load, store
from fsm.runtimes.reference.pods.surroundings import Metadata, MetadataStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

FOLDER = -1
"""The number that stands for a folder in place of a file."""

Tree: TypeAlias = "dict[str, bytes | None]"
"""The content of every file by its path. For folders, the content is ``None``."""


class Names(NamedTuple):
    folder: str
    names: Mapping[str, int | None]


class Written(NamedTuple):
    """Data that is appended to a file. ``None`` means that the file is emptied."""

    file: int
    data: bytes | None


class Synced(NamedTuple):
    what: int | str


class Acknowledged(NamedTuple):
    """Marks in the log that a step has returned. After that, the change of the step must not be lost."""


Operation: TypeAlias = Names | Written | Synced | Acknowledged


class Changes(NamedTuple):
    """The steps of a test, which are performed in a folder that ``prepare`` sets up.

    ``found`` lists the contents that ``read`` must return before the first step and after each step.
    """

    prepare: Callable[[Path], None]
    steps: Sequence[Callable[[Path], object]]
    found: Sequence[object]
    read: Callable[[Path], object]


# -- recording operations -------------------------------------------------------------


def recorded(changes: Changes, root: Path, before: Tree) -> Iterator[Operation]:
    def act() -> None:
        for step in changes.steps:
            step(root)
            os.access("/acknowledged", os.F_OK)  # this system call appears in the log

    with tempfile.NamedTemporaryFile(prefix="fsm-") as log:
        assert traced(act, "-y", "-s", "1000000", "-o", log.name) == 0
        lines = log.read().decode().splitlines()
    files = {path: number for number, (path, data) in enumerate(before.items()) if data is not None}
    numbers = itertools.count(len(before))
    for line in lines:
        if line.startswith("access("):
            yield Acknowledged()
        found = re.fullmatch(r"(\w+)\((.*)\)\s+= \d+.*", line)
        paths = re.findall(rf'[<"]({root}[^>"]*)[>"]', line)
        if found and paths:
            yield from operations(found[1], found[2], paths, files, numbers)


def operations(
    call: str, arguments: str, paths: list[str], files: dict[str, int], numbers: Iterator[int]
) -> Iterator[Operation]:
    path, folder = paths[0], str(Path(paths[0]).parent)
    match call:
        case "openat" if "O_CREAT" in arguments and path not in files:
            files[path] = next(numbers)
            yield Names(folder, {path: files[path]})
        case "openat" if "O_TRUNC" in arguments:
            yield Written(files[path], None)
        case "mkdir":
            yield Names(folder, {path: FOLDER})
        case "write":
            text = arguments[arguments.index('"') : arguments.rindex('"') + 1]
            yield Written(files[path], ast.literal_eval(f"b{text}"))
        case "fsync" | "fdatasync":
            yield Synced(files.get(path, path))
        case "rename":
            files[paths[1]] = files.pop(path)
            yield Names(folder, {path: None, paths[1]: files[paths[1]]})
        case "unlink" | "rmdir":
            files.pop(path, None)
            yield Names(folder, {path: None})


# -- possible states after a power failure ------------------------------------------


def contents(lasting: bytes, pending: Sequence[bytes | None]) -> Iterator[bytes]:
    yield lasting
    for data in pending:
        if data is None:
            lasting = b""
        else:
            yield lasting + data[: len(data) // 2]
            yield lasting + bytes(len(data))
            lasting += data
        yield lasting


class Disk:
    def __init__(self, before: Tree) -> None:
        self.files = {number: data for number, data in enumerate(before.values()) if data is not None}
        self.names = {path: number if number in self.files else FOLDER for number, path in enumerate(before)}
        self.moved: dict[str, list[Names]] = defaultdict(list)
        self.written: dict[int, list[bytes | None]] = defaultdict(list)

    def do(self, operation: Operation) -> None:
        match operation:
            case Names(folder):
                self.moved[folder].append(operation)
            case Written(file, data):
                self.written[file].append(data)
            case Synced(str(folder)):
                for change in self.moved.pop(folder, ()):
                    self.names = changed(self.names, change)
            case Synced(int(file)):
                *_, self.files[file] = self.contents(file)
                del self.written[file]

    def contents(self, file: int) -> Iterator[bytes]:
        """Yield the possible contents of a file.

        Any data that is not durable may be missing or read as zeros.
        """
        content = self.files.get(file, b"")
        yield content
        for data in self.written[file]:
            if data is not None:
                yield content + data[: len(data) // 2]
                yield content + bytes(len(data))
            content = b"" if data is None else content + data
            yield content

    def left(self) -> Iterator[Tree]:
        pending = list(itertools.chain.from_iterable(self.moved.values()))
        for kept in itertools.product([False, True], repeat=len(pending)):
            names = self.names
            for change in itertools.compress(pending, kept):
                names = changed(names, change)
            files = sorted({*names.values()} - {FOLDER})
            for contents in itertools.product(*(sorted({*self.contents(each)}) for each in files)):
                content: dict[int, bytes | None] = {FOLDER: None, **dict(zip(files, contents, strict=True))}
                yield {path: content[file] for path, file in names.items()}


def changed(names: Mapping[str, int], change: Names) -> dict[str, int]:
    return {path: file for path, file in {**names, **change.names}.items() if file is not None}


def left(before: Tree, done: Iterable[Operation]) -> Iterator[Tree]:
    disk = Disk(before)
    for each in done:
        disk.do(each)
    return disk.left()


def states(changes: Changes) -> int:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder, "root")
        root.mkdir()
        changes.prepare(root)
        before: Tree = {str(path): None if path.is_dir() else path.read_bytes() for path in root.rglob("*")}
        every = list(recorded(changes, root, before))
        seen = set()
        for end in range(len(every) + 1):
            done = every[:end]
            at = sum(isinstance(each, Acknowledged) for each in done)
            for tree in left(before, done):
                key = (at, *sorted(tree.items()))
                if key not in seen:
                    seen.add(key)
                    found = read(changes, root, tree)
                    allowed = changes.found[at : at + 2]
                    assert found in allowed, f"after {done[-3:]}: {found!r} is none of {allowed}"
    return len(seen)


def read(changes: Changes, root: Path, tree: Tree) -> object:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        for path in sorted(tree):
            here = Path(folder, Path(path).relative_to(root))
            if here.parent.is_dir():  # a folder that was not synced is lost with its files
                here.mkdir() if (data := tree[path]) is None else here.write_bytes(data)
        return changes.read(Path(folder))


# -- the stores -----------------------------------------------------------------------

OLD, NEW, NEXT = Status(created_at=1), Status(created_at=1, message="x" * 50), Status(created_at=1, pid=7)


def record() -> Changes:
    def make(root: Path) -> None:
        durable_files.make_folder(root / "c1")
        store(root / "c1", OLD)

    def found(root: Path) -> object:
        return load(root / "c1").get() if (root / "c1" / "status").exists() else None

    return Changes(
        prepare=lambda _: None,
        steps=(
            make,
            lambda root: load(root / "c1").update_sync(lambda _: NEW),
            lambda root: load(root / "c1").update_sync(lambda _: NEXT),
            lambda root: load(root / "c1").delete(),
        ),
        found=(None, OLD, NEW, NEXT, None),
        read=found,
    )


def metadata() -> Changes:
    new = Metadata(id="1", name="web")
    ready = replace(new, state="ready", limits={"memory": 2**40})

    def found(root: Path) -> object:
        kept = MetadataStore(root / "pods")
        assert kept.load("0").name == "other"
        return kept.load("1") if kept.path("1").exists() else None

    return Changes(
        prepare=lambda root: MetadataStore(root / "pods").create(Metadata(id="0", name="other")),
        steps=(
            lambda root: MetadataStore(root / "pods").create(new),
            lambda root: MetadataStore(root / "pods").save(ready),
            lambda root: MetadataStore(root / "pods").delete("1"),
        ),
        found=(None, new, ready, None),
        read=found,
    )


# -- faults that a store may have ---------------------------------------------------


def forgetting(kind: Callable[[int], bool]) -> None:
    sync = os.fsync

    def fsync(handle: int) -> None:
        if not kind(os.fstat(handle).st_mode):
            sync(handle)

    os.fsync = fsync  # type: ignore[assignment]


def in_place() -> None:
    def write(path: Path, data: bytes) -> None:
        with path.open("wb") as file, durable_files._folder(path) as folder:  # noqa: SLF001  (the planted fault)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.fsync(folder)

    durable_files.write = write


def made_only() -> None:
    durable_files.make_folder = lambda path, *, exist_ok=False: path.mkdir(parents=True, exist_ok=exist_ok)


FAULTS = {
    "files": lambda: forgetting(stat.S_ISREG),
    "folders": lambda: forgetting(stat.S_ISDIR),
    "in-place": in_place,
    "made-only": made_only,
}

if __name__ == "__main__":
    stores = {each.__name__: each for each in (record, metadata)}
    for fault in sys.argv[2:]:
        FAULTS[fault]()
    sys.stdout.write(f"{states(stores[sys.argv[1]]())}\n")
