"""A command with its surroundings: variables, folders of this machine, files that are made for its pod, and its log."""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

from fsm.errors import reason
from fsm.runtimes.reference.driven import WorldError

LONGEST_LINE: Final = 16_384
"""Bytes of a line of a log; a longer one is written in parts, as containerd does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """What is at the path ``own`` of this machine is at ``inside`` a container."""

    inside: str
    own: str
    readonly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command with its surroundings; ``folder`` and ``log`` are empty for the default one, and for none.

    ``files`` are texts by their paths in the container.  It ``listens`` if it has a standard input that stays open, and
    ``once`` if that ends with the first client that has attached to it.
    """

    words: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    folder: str = ""
    log: str = ""
    mounts: tuple[Mount, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    listens: bool = False
    once: bool = False
    terminal: bool = False

    @property
    def variables(self) -> Mapping[str, str]:
        return dict(self.environment)

    def here(self, inside: str) -> str:
        """The path of this machine that is *inside* the container, which may be within other text.

        >>> Command(mounts=(Mount(inside="/in", own="/tmp/out"),)).here("read a < /in/pipe")
        'read a < /tmp/out/pipe'
        """
        for each in self.mounts:
            if each.inside and each.own:
                pattern = rf"(?<![\w/.-]){re.escape(each.inside)}(?![\w.-])"
                inside = re.sub(pattern, lambda _, own=each.own: own, inside)  # type: ignore[misc]  # mypy loses the lambda's default
        return inside

    def text(self, path: str) -> bytes | None:
        """What is in the file at *path* of the container; ``None`` if there is none."""
        made = dict(self.files).get(path)
        if made is not None:
            return made.encode()
        with suppress(OSError, ValueError):
            if (own := self._mounted(path)) and own.is_file():
                return own.read_bytes()
        return None

    def names(self, path: str) -> Collection[str] | None:
        """What is in the folder at *path* of the container; ``None`` if there is none."""
        with suppress(OSError, ValueError):
            if (own := self._mounted(path)) and own.is_dir():
                return [each.name for each in own.iterdir()]
        return None

    def prepare(self) -> None:
        """Begin the log; raises :class:`~fsm.runtimes.reference.driven.WorldError` if that fails, or a mounted path is gone."""
        for each in self.mounts:
            if each.own and not Path(each.own).exists():
                raise WorldError(f"failed to create shim task: error mounting {each.own!r}: no such file or directory")
        self.begin_log()

    def begin_log(self) -> None:
        """Make the file of the log, if it is not there; raises :class:`~fsm.runtimes.reference.driven.WorldError`."""
        try:
            if self.log:
                with Path(self.log).open("ab"):
                    pass
        except OSError as error:
            raise WorldError(f"failed to open log file {self.log!r}: {reason(error)}") from error

    def write(self, data: bytes, *, error: bool) -> None:
        """Write whole lines to the log, if it can be written; the last one may have no end."""
        if not self.log:
            return
        stamp = f"{datetime.now(UTC).isoformat(timespec='microseconds')[:-6]}Z {'stderr' if error else 'stdout'} "
        lines = list[bytes]()
        for each in data.splitlines():
            parts = [each[at : at + LONGEST_LINE] for at in range(0, max(len(each), 1), LONGEST_LINE)]
            tags = [b"P"] * (len(parts) - 1) + [b"F"]
            lines += [stamp.encode() + tag + b" " + part + b"\n" for tag, part in zip(tags, parts, strict=True)]
        with suppress(OSError), Path(self.log).open("ab") as file:
            file.write(b"".join(lines))

    def _mounted(self, path: str) -> Path | None:
        """Where the *path* of the container is on this machine, if it is within a mounted folder."""
        wanted = PurePosixPath(path)
        for each in self.mounts:
            if each.own and each.inside and wanted.is_relative_to(each.inside):
                return Path(each.own, wanted.relative_to(each.inside))
        return None
