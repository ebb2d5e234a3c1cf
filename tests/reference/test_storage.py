"""A record is stored atomically, even with failures, threads and crashes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import crashing
import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_parts import program

from fsm.runtimes.reference.container import durable_files
from fsm.runtimes.reference.container.durable_files import UnknownContentError
from fsm.runtimes.reference.container.record import CheckpointError, LinuxResources, Resources, Status, decode, encode
from fsm.runtimes.reference.container.storage import DeletedError, StatusStorage, load, store

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = Status(created_at=1, resources=Resources(linux=LinuxResources(unified={"memory.high": "1"})))
ROUNDS = int(os.environ.get("FSM_CRASHES", "6"))
"""The number of children that are killed at each system call."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "c1"
    folder.mkdir()
    return folder


def started(storage: StatusStorage | None, root: Path) -> None:
    if storage:
        storage.update_sync(running)
    else:
        store(root, FIRST)


def named(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def running(status: Status) -> Status:
    status.started_at = 2
    return status


def high(status: Status) -> Status:
    assert status.resources is not None
    assert status.resources.linux is not None
    status.resources.linux.unified["memory.high"] = "2"
    return status


def test_a_stored_record_can_be_loaded(root: Path) -> None:
    store(root, FIRST)

    assert FIRST == load(root).get()
    assert ["status"] == named(root)


def test_only_the_owner_can_read_it(root: Path) -> None:
    before = os.umask(0o777)
    try:
        storage = store(root, FIRST)
    finally:
        os.umask(before)

    assert 0o600 == stat.S_IMODE(storage.path.stat().st_mode)


def test_changing_a_copy_does_not_change_the_record(root: Path) -> None:
    given = FIRST.copied()
    storage = store(root, given)
    high(given)
    high(storage.get())

    assert FIRST == storage.get()


def test_changing_an_argument_afterwards_does_not_change_the_record(root: Path) -> None:
    storage = store(root, FIRST)
    held = []

    def holding(status: Status) -> Status:
        held.append(running(status))
        return status

    storage.update(holding)
    high(held[0])

    assert running(FIRST.copied()) == storage.get()


def test_an_update_stays_in_memory(root: Path) -> None:
    storage = store(root, FIRST)
    storage.update(running)

    assert running(FIRST.copied()) == storage.get()
    assert FIRST == load(root).get()


def test_an_update_with_checkpoint_is_in_memory_and_file(root: Path) -> None:
    storage = store(root, FIRST)
    storage.update_sync(running)

    assert running(FIRST.copied()) == storage.get() == load(root).get()


class TornError(Exception):
    """Raised by a change that fails halfway."""


def failing(status: Status) -> Status:
    running(high(status))
    raise TornError


def wrong(status: Status) -> Status:
    high(status)
    return status.model_copy(update={"pid": -1})


@pytest.mark.parametrize("change", [failing, wrong])
@pytest.mark.parametrize("how", [StatusStorage.update, StatusStorage.update_sync])
def test_a_change_that_fails_changes_nothing(
    root: Path, how: Callable[[StatusStorage, Callable[[Status], Status]], None], change: Callable[[Status], Status]
) -> None:
    storage = store(root, FIRST)

    with pytest.raises((TornError, ValueError)):
        how(storage, change)

    assert FIRST == storage.get() == load(root).get()
    assert ["status"] == named(root)
    how(storage, running)
    assert running(FIRST.copied()) == storage.get()


def refused(*_: object, **__: object) -> None:
    raise OSError(28, "no space left")


@pytest.mark.parametrize("call", ["fchmod", "fsync", "replace"])
@pytest.mark.parametrize("first", [True, False], ids=["stored", "changed"])
def test_a_write_that_fails_changes_nothing(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    first: bool,  # noqa: FBT001
) -> None:
    storage = None if first else store(root, FIRST)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refused)
        patch.setattr(Path, "replace", refused if call == "replace" else Path.replace)
        with pytest.raises(OSError, match="no space"):
            started(storage, root)

    assert ([] if first else ["status"]) == named(root)
    if storage:
        assert FIRST == storage.get() == load(root).get()


def fails_on_folders(real: Callable[[int], None]) -> Callable[[int], None]:
    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            refused()
        real(handle)

    return fsync


@pytest.mark.parametrize("first", [True, False], ids=["stored", "changed"])
def test_a_change_that_is_not_durable_is_undone(root: Path, monkeypatch: pytest.MonkeyPatch, first: bool) -> None:  # noqa: FBT001
    """A change is undone if the folder cannot be synced, although the new file is already in place."""
    storage = None if first else store(root, FIRST)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails_on_folders(os.fsync))
        with pytest.raises(OSError, match="no space"):
            started(storage, root)

    assert ([] if first else ["status"]) == named(root)
    if storage:
        assert FIRST == storage.get() == load(root).get()


def left_unknown(storage: StatusStorage | None, root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the error of a change that can be neither synced nor undone."""
    replace = Path.replace

    with monkeypatch.context() as patch:

        def once(path: Path, target: Path) -> Path:
            patch.setattr(Path, "replace", refused)
            return replace(path, target)

        patch.setattr(os, "fsync", fails_on_folders(os.fsync))
        patch.setattr(Path, "replace", once)
        patch.setattr(Path, "unlink", refused)
        with pytest.raises(UnknownContentError) as caught:
            started(storage, root)
    return str(caught.value)


def test_a_change_that_is_neither_durable_nor_undone_is_unknown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change that is neither durable nor undone, the content is unknown until the file is read again."""
    storage = store(root, FIRST)
    said = left_unknown(storage, root, monkeypatch)

    assert f"{root}/status: has the old or the new content: " in said
    assert 2 == said.count("no space left")
    assert not storage.known
    assert running(FIRST.copied()) == load(root).get() == storage.get()
    assert storage.known


@pytest.mark.parametrize("use", [StatusStorage.get, StatusStorage.state, lambda storage: storage.update(running)])
def test_what_is_unknown_is_what_the_file_holds_or_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[StatusStorage], object]
) -> None:
    storage = store(root, FIRST)
    left_unknown(storage, root, monkeypatch)
    storage.path.write_bytes(b"{")
    with pytest.raises(CheckpointError):
        use(storage)
    other = FIRST.copied()
    other.message = "from the file"
    storage.path.write_bytes(encode(other))
    use(storage)

    assert "from the file" == storage.get().message


def test_a_record_that_is_made_and_neither_durable_nor_removed_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "has the old or the new content" in left_unknown(None, root, monkeypatch)
    assert FIRST == load(root).get()


def test_the_order_of_syncing_and_renaming(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is synced before it is renamed, so that a power failure leaves the old or the new content."""
    storage, seen = store(root, FIRST), []
    fsync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        seen.append("folder lasts" if folder else f"{os.fstat(handle).st_size} bytes last")
        fsync(handle)

    def replaced(path: Path, target: Path) -> Path:
        seen.append("is named")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    storage.update_sync(running)

    assert [f"{storage.path.stat().st_size} bytes last", "is named", "folder lasts"] == seen


def test_an_unreadable_file_is_an_error_with_its_path(root: Path) -> None:
    (root / "status").write_bytes(b'{"Version":"v1"')

    with pytest.raises(CheckpointError, match=f"^{root}/status: no JSON at byte 15"):
        load(root)
    with pytest.raises(FileNotFoundError, match="c2/status"):
        load(root.parent / "c2")


def test_loading_deletes_leftovers(root: Path) -> None:
    store(root, FIRST)
    (root / ".tmp-status123").write_bytes(b"half")

    assert FIRST == load(root).get()
    assert ["status"] == named(root)


def test_a_deletion_leaves_nothing_and_can_be_repeated(root: Path) -> None:
    """A deletion can be repeated, and also removes files that containerd's own deletion leaves behind."""
    storage = store(root, FIRST)
    (root / ".tmp-status123").write_bytes(b"half")
    (root.parent / "c1.del-status").write_bytes(b"whole")
    storage.delete()
    storage.delete()

    assert ["c1"] == named(root.parent)
    assert FIRST == storage.get()


@pytest.mark.parametrize("how", [StatusStorage.update, StatusStorage.update_sync])
def test_a_deleted_record_cannot_be_changed(
    root: Path, how: Callable[[StatusStorage, Callable[[Status], Status]], None]
) -> None:
    storage = store(root, FIRST)
    storage.delete()

    with pytest.raises(DeletedError, match="c1/status: the record was deleted"):
        how(storage, running)

    assert [] == named(root)


@pytest.mark.parametrize("there", [True, False], ids=["before it goes", "after it went"])
def test_a_failed_deletion_can_be_repeated(root: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:  # noqa: FBT001
    storage = store(root, FIRST)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused if there else Path.unlink)
        patch.setattr(os, "fsync", refused)
        with pytest.raises(OSError, match="no space"):
            storage.delete()

    if there:
        storage.update_sync(running)
    else:
        with pytest.raises(DeletedError):
            storage.update_sync(running)
    storage.delete()
    assert [] == named(root)


class DeletesAtOnce(StatusStorage):
    def delete(self) -> None:
        self.path.unlink()


def deleted_meanwhile(storage: StatusStorage) -> list[str]:
    deletion = threading.Thread(target=storage.delete)

    def slow(status: Status) -> Status:
        deletion.start()
        deletion.join(timeout=0.2)
        return running(status)

    storage.update_sync(slow)
    deletion.join()
    return named(storage.path.parent)


def test_a_deletion_waits_for_the_current_change(root: Path) -> None:
    assert [] == deleted_meanwhile(store(root, FIRST))


def test_a_deletion_that_does_not_wait_is_undone(root: Path) -> None:
    """A deletion that does not wait is undone, which shows that the previous test can fail."""
    store(root, FIRST)

    assert ["status"] == deleted_meanwhile(DeletesAtOnce(root, FIRST))


def both(storage: StatusStorage, writes: int) -> set[tuple[int, str]]:
    """Return the pairs of values that three readers see while a thread changes both fields."""
    done, seen = threading.Event(), set[tuple[int, str]]()

    def read() -> None:
        while not done.is_set():
            status = storage.get()
            seen.add((status.pid, status.message))

    def counted(status: Status) -> Status:
        status.pid += 1
        time.sleep(1e-5)  # let readers run
        status.message = str(status.pid)
        return status

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for nth in range(writes):
        (storage.update if nth % 10 else storage.update_sync)(counted)
    done.set()
    for reader in readers:
        reader.join()
    return seen


@pytest.fixture
def _often() -> object:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("_often")
def test_many_read_while_one_writes(root: Path) -> None:
    seen = both(store(root, Status(created_at=1, message="0")), writes=300)

    assert {(number, str(number)) for number, _ in seen} == seen


class InPlace(StatusStorage):
    def update(self, change: Callable[[Status], Status], *, checkpointed: bool = False) -> None:
        del checkpointed
        change(self._status)


@pytest.mark.slow
@pytest.mark.usefixtures("_often")
def test_a_record_changed_in_place_is_seen_half_changed(root: Path) -> None:
    """Readers see a half-changed record if it is changed in place, so the previous test can fail."""
    seen = both(InPlace(root, Status(created_at=1, message="0")), writes=300)

    assert {(number, str(number)) for number, _ in seen} != seen


def added(storage: StatusStorage) -> int:
    def add(status: Status) -> Status:
        time.sleep(1e-5)  # let other threads run
        status.pid += 1
        return status

    def work() -> None:
        for _ in range(50):
            storage.update(add)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return storage.get().pid


@pytest.mark.usefixtures("_often")
def test_no_change_is_lost(root: Path) -> None:
    assert 200 == added(store(root, FIRST))


class Unlocked(StatusStorage):
    def update(self, change: Callable[[Status], Status], *, checkpointed: bool = False) -> None:
        self._lock = threading.RLock()
        super().update(change, checkpointed=checkpointed)


@pytest.mark.usefixtures("_often")
def test_without_its_lock_changes_are_lost(root: Path) -> None:
    """Without the lock, changes are lost, which shows that the previous test can fail."""
    assert 200 > added(Unlocked(root, FIRST))


def test_readers_do_not_wait_for_a_change(root: Path) -> None:
    storage = store(root, FIRST)
    seen = []

    def slow(status: Status) -> Status:
        reader = threading.Thread(target=lambda: seen.append(storage.get()))
        reader.start()
        reader.join()
        return running(status)

    storage.update_sync(slow)

    assert [FIRST] == seen


def test_an_update_within_an_update_is_refused(root: Path) -> None:
    """An update within an update is refused, because it would wait for itself. Later updates work."""
    storage = store(root, FIRST)

    def nested(status: Status) -> Status:
        storage.update(running)
        return status

    with pytest.raises(RuntimeError, match="an update within an update"):
        storage.update_sync(nested)
    storage.update(running)
    assert running(FIRST.copied()) == storage.get()


STEPS = st.lists(st.sampled_from(["update", "update_sync", "fails", "load", "delete"]), max_size=12)


@given(STEPS)
def test_memory_and_file_after_any_sequence(steps: list[str]) -> None:
    """After any sequence of steps, the records in memory and in the file match two variables that model them."""
    with tempfile.TemporaryDirectory(dir=crashing.MEMORY) as folder:
        take(Path(folder), steps)


def take(root: Path, steps: list[str]) -> None:
    storage = store(root, FIRST)
    memory, file = 0, 0

    def add(status: Status) -> Status:
        time.sleep(1e-5)  # let other threads run
        status.pid += 1
        return status

    for step in steps:
        match step:
            case "update":
                storage.update(add)
                memory += 1
            case "update_sync":
                storage.update_sync(add)
                memory = file = memory + 1
            case "fails":
                with pytest.raises(TornError):
                    storage.update_sync(failing)
            case "load":
                storage = load(root)
                memory = file
            case _:
                storage.delete()
                assert [] == named(root)
                storage = store(root, FIRST)
                memory = file = 0
        assert (memory, file) == (storage.get().pid, load(root).get().pid)


@pytest.fixture
def _strace() -> None:
    program("strace")


def crashed(what: str) -> tuple[int, int]:
    command = [sys.executable, crashing.__file__, str(ROUNDS), what]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert 0 == result.returncode, result.stderr
    system_calls, times = map(int, result.stdout.split())
    return system_calls, times


@pytest.mark.slow
@pytest.mark.usefixtures("_strace")
@pytest.mark.parametrize(("what", "least"), [("changing", 20), ("deleting", 8)])
def test_a_crash_leaves_the_old_or_the_new_record(what: str, least: int) -> None:
    system_calls, times = crashed(what)

    assert system_calls > least
    assert times > 0.9 * system_calls * ROUNDS


@pytest.mark.usefixtures("_strace")
def test_a_crash_finds_a_write_that_is_not_atomic() -> None:
    """A file that is overwritten in place may be torn, which shows that the previous test can fail."""
    with pytest.raises(AssertionError, match="no record in them"):
        crashed("overwriting")


def test_a_file_that_is_being_written_is_not_read(root: Path) -> None:
    """A half-written temporary file is not read as the record."""
    store(root, FIRST)
    (root / ".tmp-statusx").write_bytes(b'{"Version":"v1","Pid":1')

    assert (root / ".tmp-statusx",) == durable_files.leftovers(root / "status")
    with pytest.raises(CheckpointError):
        decode((root / ".tmp-statusx").read_bytes())
    assert FIRST == load(root).get()
