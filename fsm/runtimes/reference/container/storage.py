"""The record of one container in memory, and its checkpoint in the container's directory.

A writer changes a copy, which then atomically replaces the record, so readers need no lock and never wait.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from fsm.runtimes.reference.container import durable_files
from fsm.runtimes.reference.container.record import ContainerState, Status, decode, encode

StatusChange: TypeAlias = Callable[[Status], Status]

NAME: Final = "status"


class DeletedError(Exception):
    """The record was deleted, so it can no longer be changed."""


class StatusStorage:
    """The record of the container whose directory is *root*, created by :func:`store` or :func:`load`.

    >>> import tempfile
    >>> def started(status: Status) -> Status:
    ...     status.started_at = 2
    ...     return status
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     storage = store(Path(folder), Status(created_at=1))
    ...     storage.update_sync(started)
    ...     print(storage.get().state().value, load(Path(folder)).get() == storage.get())
    ...     storage.delete()
    ...     print(list(Path(folder).iterdir()))
    CONTAINER_RUNNING True
    []
    """

    def __init__(self, root: Path, status: Status) -> None:
        self.path = root / NAME
        self._status = status.copied()
        self._lock = threading.RLock()
        self._writer: int | None = None
        self._deleted = False
        self.known = True
        """False after a failed write that was not undone: the file may then be newer than the record."""

    def get(self) -> Status:
        """Return a copy of the record, or of the last record after a deletion."""
        return self.peek().copied()

    def state(self) -> ContainerState:
        return self.peek().state()

    def peek(self) -> Status:
        """Return the record itself, which callers must not change. An update replaces the object."""
        if not self.known:
            with self._lock:
                if not self.known:  # no other reader has read the file in the meantime
                    self._status, self.known = decode(self.path.read_bytes(), str(self.path)), True
        return self._status

    def update(self, change: StatusChange, *, checkpointed: bool = False) -> None:
        """Replace the record with the result of *change*, which is called with a copy of it.

        If *checkpointed* is true, write the file first. If *change* raises an error or returns an invalid record,
        nothing changes. Raise :class:`DeletedError` if the record was deleted, :class:`RuntimeError` for an update
        within an update, and :class:`OSError` for a failed write.
        """
        if self._writer == threading.get_ident():
            raise RuntimeError(f"{self.path}: an update within an update would be lost")
        with self._lock:
            if self._deleted:
                raise DeletedError(f"{self.path}: the record was deleted, and can no longer be changed")
            self._writer = threading.get_ident()
            try:
                status = change(self.peek().copied()).copied()
                if checkpointed:
                    durable_files.write(self.path, encode(status))
                self._status = status
            except durable_files.UnknownContentError:
                self.known = False
                raise
            finally:
                self._writer = None

    def update_sync(self, change: StatusChange) -> None:
        """Write the file and update the record. After an :class:`OSError`, both are unchanged if ``known`` is true."""
        self.update(change, checkpointed=True)

    def delete(self) -> None:
        """Delete the checkpoint and the remains of failed deletions. After an :class:`OSError`, call this again."""
        with self._lock:
            try:
                # containerd moves the file out of its directory before deleting it, and may be stopped in between.
                durable_files.remove(self.path, self.path.parent.with_name(f"{self.path.parent.name}.del-{NAME}"))
            finally:
                self._deleted = not self.path.exists()


def store(root: Path, status: Status) -> StatusStorage:
    """Write *status* to *root*, and return its storage. After an :class:`OSError`, an older checkpoint remains."""
    storage = StatusStorage(root, status)
    storage.update_sync(lambda status: status)
    return storage


def load(root: Path) -> StatusStorage:
    """Return a storage for the checkpoint in *root*. Delete temporary files of unfinished writes.

    Raise :class:`OSError`, or :class:`~fsm.runtimes.reference.container.record.CheckpointError` for an invalid file.
    """
    path = root / NAME
    status = decode(path.read_bytes(), str(path))
    for leftover in durable_files.leftovers(path):
        leftover.unlink(missing_ok=True)
    return StatusStorage(root, status)
