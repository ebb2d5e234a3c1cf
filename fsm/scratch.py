"""Manage temporary folders and the cache of machine code.

A temporary folder is deleted when its process ends. If the process is killed, a later process deletes the folder. The
cache can be deleted at any time.
"""

import hashlib
import os
import re
import shutil
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

_PREFIX: Final = "container-fsm-scratch-"
_OURS: Final = re.compile(f"{_PREFIX}[a-z0-9_]{{8}}")
_YOUNG: Final = 60.0  # age in seconds below which folders are kept, because their owners may not have locked them yet

_ENOUGH: Final = 1 << 24  # minimum free disk space, in bytes, for caching machine code; the code itself takes much less


class ScratchFolder(TemporaryDirectory[str]):
    """A temporary folder in the folder *where*, by default the system's temporary folder.

    Except on Windows, the process locks the folder. Folders of killed processes can then be recognized and deleted.

    >>> with ScratchFolder() as folder:
    ...    (Path(folder) / "state").touch()
    >>> Path(folder).exists()
    False
    """

    def __init__(self, where: str | None = None) -> None:
        if hasattr(os, "geteuid"):
            sweep(where or gettempdir())
        super().__init__(prefix=_PREFIX, dir=where, ignore_cleanup_errors=True)
        self._lock = _lock_folder(self.name, os.O_RDONLY)

    def cleanup(self) -> None:
        """Delete the folder and its contents. Further calls have no effect."""
        super().cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@cache
def sweep(where: str) -> None:
    """Delete abandoned folders in *where*. A process does this only once for each folder *where*."""
    with suppress(OSError), os.scandir(where) as entries:
        for entry in entries:
            with suppress(OSError):
                if _OURS.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    _delete_unused(Path(entry.path), entry.stat(follow_symlinks=False))


def _delete_unused(folder: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _YOUNG:
        return
    lock = _lock_folder(str(folder), os.O_RDONLY | os.O_NOFOLLOW)  # raises OSError if the folder is in use
    try:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _lock_folder(folder: str, how: int) -> int:
    """Lock a folder. Return the file descriptor that holds the lock, or -1 on Windows."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock  # noqa: PLC0415
    except ImportError:
        return -1
    lock = os.open(folder, how)
    try:
        flock(lock, LOCK_EX | LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def defines_compiled(text: bytes) -> bool:
    return any(b"\n" + mark in text for mark in (b"@compiled", b"@inner", b"@lean", b"# Compiled code uses"))


@cache
def code_folder(package: Path) -> str:
    """Return the folder for the machine code of *package*, or an empty string if the folder is not writable.

    The folder is named after a hash of the package's name and of the sources that affect the machine code. Code from
    another version is therefore never used, and identical packages share their code.
    """
    usual = os.path.expanduser("~/.cache")  # noqa: PTH111  (Path.expanduser raises if there is no home)
    caches = Path(os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or usual)
    if not caches.is_absolute():
        return ""
    here = Path(__file__)
    texts = (path.read_bytes() for path in [here.with_name("compiled.py"), *sorted(package.glob("*.py"))])
    name = os.path.relpath(package, here.parent).encode()  # machine code contains the names of its modules
    text = name + b"".join(text for text in texts if defines_compiled(text))
    folder = caches / "container-fsm" / hashlib.sha256(text).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    writable = os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free > _ENOUGH
    return str(folder) if writable else ""


def is_compiled(module: str, function: str) -> bool:
    package, _, name = module.rpartition(".")
    folder = code_folder(Path(__file__).parent.joinpath(*package.split(".")[1:]))
    return bool(folder) and any(Path(folder).glob(f"{name}.{function}-*.nbi"))
