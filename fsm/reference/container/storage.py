"""Where the record of one container is kept: in memory, and as a checkpoint in a folder of its own.

Many threads may read while one writes.  The record that readers see is never
changed: a writer changes a copy, which then takes its place in one step.
Readers so need no lock and never wait, not even for a change that takes its
time; a readers-writer lock would hold them up, and protect nothing more.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from fsm.reference.container import files
from fsm.reference.container.checkpoint import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from fsm.reference.container.record import ContainerState, Status

    Change: TypeAlias = Callable[[Status], Status]

NAME: Final = "status"
"""What the file is called in the container's folder."""


class DeletedError(Exception):
    """The record was deleted; a change would bring it back."""

    def __init__(self, path: Path) -> None:
        """The record at *path* is gone."""
        super().__init__(f"{path}: the record was deleted, and cannot be changed any more")
        self.path = path


class StatusStorage:
    """The record of the container whose folder is *root*; made by :func:`store` and :func:`load`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from fsm.reference.container.record import Status
    >>> def started(status: Status) -> Status:
    ...     status.started_at = 2
    ...     return status
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = store(Path(folder), Status(created_at=1))
    ...     kept.update_sync(started)
    ...     print(kept.get().state().value, load(Path(folder)).get() == kept.get())
    ...     kept.delete()
    ...     print(list(Path(folder).iterdir()))
    CONTAINER_RUNNING True
    []
    """

    def __init__(self, root: Path, status: Status) -> None:
        self.path = root / NAME
        self._status = status.checked()
        self._lock = threading.Lock()
        self._writer: int | None = None
        self._deleted = False

    def get(self) -> Status:
        """A copy of the record; after its deletion of the last there was."""
        return self._status.copied()

    def state(self) -> ContainerState:
        """What the record shows."""
        return self._status.state()

    def update(self, change: Change) -> None:
        """Let what *change* makes of a copy of the record take its place, in memory only.

        One change at a time.  Where *change* raises, or what it returns is
        no record, all stays as it was.  Raises :class:`DeletedError`, and
        :class:`RuntimeError` for an update within an update.
        """
        self._change(change, checkpointed=False)

    def update_sync(self, change: Change) -> None:
        """As :meth:`update`; the checkpoint is written before anybody sees the new record.

        Raises :class:`OSError` too; record and file are then what they were.
        """
        self._change(change, checkpointed=True)

    def delete(self) -> None:
        """Remove the checkpoint, and what unfinished writes and deletions left of it.

        What is gone already is no error, so a deletion that failed, or
        during which the process ended, can be repeated.  Raises
        :class:`OSError`.
        """
        with self._lock:
            try:
                _remove(self.path)
            finally:
                self._deleted = not self.path.exists()

    def _change(self, change: Change, *, checkpointed: bool) -> None:
        if self._writer == threading.get_ident():
            message = f"{self.path}: an update within an update would be lost"
            raise RuntimeError(message)
        with self._lock:
            if self._deleted:
                raise DeletedError(self.path)
            self._writer = threading.get_ident()
            try:
                status = change(self._status.copied()).checked()
                if checkpointed:
                    files.write(self.path, encode(status))
                self._status = status
            finally:
                self._writer = None


def store(root: Path, status: Status) -> StatusStorage:
    """Keep *status* in the folder *root*, and write its checkpoint.

    Raises :class:`OSError`; a checkpoint that was there is then as it was.
    """
    kept = StatusStorage(root, status)
    kept.update_sync(lambda status: status)
    return kept


def load(root: Path) -> StatusStorage:
    """The record whose checkpoint is in the folder *root*; what unfinished writes left there is cleared away.

    Raises :class:`OSError`, and :class:`~fsm.reference.container.checkpoint.CheckpointError`
    where the file cannot be used.
    """
    path = root / NAME
    status = decode(path.read_bytes(), str(path))
    for each in files.leftovers(path):
        each.unlink(missing_ok=True)
    return StatusStorage(root, status)


def _remove(path: Path) -> None:
    # containerd moves the file beside its folder before it removes it, and may be stopped in between.
    files.remove(path, path.parent.with_name(f"{path.parent.name}.del-{path.name}"))
