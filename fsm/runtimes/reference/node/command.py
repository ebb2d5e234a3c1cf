"""A command and its environment: variables, host directories, files generated for its pod, and its log."""

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
"""Maximum number of bytes in a log line. Longer lines are written in parts, as containerd does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """The path ``own`` of this machine, mounted at ``inside`` in a container."""

    inside: str
    own: str
    readonly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command and its environment. An empty ``folder`` means the default one, an empty ``log`` means no log.

    ``files`` maps paths in the container to file contents. If ``listens``, the command has a standard input that stays
    open. If ``once``, its input ends with the first client that attaches to it.
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
        """Replace paths *inside* the container with paths of this machine. They may be within other text.

        >>> Command(mounts=(Mount(inside="/in", own="/tmp/out"),)).here("read a < /in/pipe")
        'read a < /tmp/out/pipe'
        """
        for each in self.mounts:
            if each.inside and each.own:
                pattern = rf"(?<![\w/.-]){re.escape(each.inside)}(?![\w.-])"
                inside = re.sub(pattern, lambda _, own=each.own: own, inside)  # type: ignore[misc]  # mypy loses own
        return inside

    def text(self, path: str) -> bytes | None:
        """Return the content of the file at *path* in the container, or ``None`` if there is no such file."""
        made = dict(self.files).get(path)
        if made is not None:
            return made.encode()
        with suppress(OSError, ValueError):
            if (own := self._mounted(path)) and own.is_file():
                return own.read_bytes()
        return None

    def names(self, path: str) -> Collection[str] | None:
        """Return the names in the directory at *path* in the container, or ``None`` if there is no such directory."""
        with suppress(OSError, ValueError):
            if (own := self._mounted(path)) and own.is_dir():
                return [each.name for each in own.iterdir()]
        return None

    def prepare(self) -> None:
        """Begin the log.

        Raise :class:`~fsm.runtimes.reference.driven.WorldError` if that fails, or if a mounted path does not exist.
        """
        for each in self.mounts:
            if each.own and not Path(each.own).exists():
                raise WorldError(f"failed to create shim task: error mounting {each.own!r}: no such file or directory")
        self.begin_log()

    def begin_log(self) -> None:
        """Create the log file if necessary. Raise :class:`~fsm.runtimes.reference.driven.WorldError` on failure."""
        try:
            if self.log:
                with Path(self.log).open("ab"):
                    pass
        except OSError as error:
            raise WorldError(f"failed to open log file {self.log!r}: {reason(error)}") from error

    def write(self, data: bytes, *, error: bool) -> None:
        """Write lines to the log, if possible. An unterminated last line counts as complete."""
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
        wanted = PurePosixPath(path)
        for each in self.mounts:
            if each.own and each.inside and wanted.is_relative_to(each.inside):
                return Path(each.own, wanted.relative_to(each.inside))
        return None
