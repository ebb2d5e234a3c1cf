"""Call the command ``fsm`` quickly in this process, or run it in a separate process or on a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING
from unittest import mock

import pytest

from fsm.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FSM = str(Path(sys.executable).with_name("fsm"))
RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
FAILING = str(RECORDINGS / "containerd-1.6.20.log")
HOLDING = str(RECORDINGS / "containerd-1.7.24.log")
PLAIN = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "NO_COLOR", "TERM"}}


def fsm(
    *arguments: str | bytes, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Call the command in this process to save the start-up time.

    ``test_cli.py`` compares this function with :func:`process` for each command.
    """
    argv = [FSM, *map(os.fsdecode, arguments)]
    with (
        _text(tempfile.TemporaryFile()) as given,
        tempfile.NamedTemporaryFile() as out_file,
        tempfile.NamedTemporaryFile() as err_file,
        _text(out_file.file) as out,
        _text(err_file.file, errors="backslashreplace") as err,
        contextlib.chdir(cwd or Path.cwd()),
        left_as_it_was(cwd),
    ):
        given.buffer.write(stdin)
        given.seek(0)
        with (
            mock.patch("fsm.cli.output.REPORTING", 600.0),  # progress reports would appear on a slow machine
            mock.patch.multiple(sys, argv=argv, stdin=given, stdout=out, stderr=err, __stdout__=out),
            mock.patch.dict(os.environ, PLAIN | dict(env or {}), clear=True),
        ):
            code = _exit_code()
        out.flush()
        err.flush()
        # The files are read by name, because the command may have redirected the descriptors to discard its output.
        written = [Path(each.name).read_bytes().decode() for each in (out_file, err_file)]
    return subprocess.CompletedProcess(argv, code, *written)


def _text(file: IO[bytes], errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(file, encoding="utf-8", errors=errors, newline="")


def _exit_code() -> int:
    with pytest.raises(SystemExit) as ended:
        main()
    code = ended.value.code
    assert isinstance(code, int), code
    return code


@contextlib.contextmanager
def left_as_it_was(folder: Path | None) -> Iterator[None]:
    """Restore signal handlers, ``sys.path`` and the imported modules on exit."""
    path, modules, handler = [*sys.path], {*sys.modules}, signal.getsignal(signal.SIGPIPE)
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")  # the command reads its own name from here
    try:
        yield
    finally:
        sys.modules["__main__"] = program
        signal.signal(signal.SIGPIPE, handler)
        for name in {*sys.modules} - modules:
            file = Path(getattr(sys.modules[name], "__file__", None) or "/")
            # Installed modules are kept even if the folder is this repository; if reloaded, their classes would exist
            # twice.
            installed = name.partition(".")[0] == "fsm" or "site-packages" in file.parts
            if folder and file.is_relative_to(folder) and not installed:
                del sys.modules[name]
        sys.path[:] = path


def process(
    *arguments: str | bytes, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [FSM, *arguments],
        input=stdin,
        env=PLAIN | dict(env or {}),
        cwd=cwd,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def shell(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in bash, where ``fsm`` is the command under test."""
    return subprocess.run(
        ["/bin/bash", "-c", f'fsm() {{ "{FSM}" "$@"; }}\n{script}', "bash", *arguments],
        env=PLAIN, capture_output=True, check=False, timeout=30, text=True, encoding="utf-8",
    )  # fmt: skip


class Terminal:
    def __init__(self, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        environment = PLAIN | {"TERM": "xterm"} | dict(env or {})
        self.process = subprocess.Popen([FSM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.shown = ""

    def read_until(self, wanted: str) -> None:
        while not wanted or wanted not in self.shown:
            try:
                piece = os.read(self._ours, 65_536)
            except OSError:  # on Linux, this error marks the end of a terminal without writers
                return
            self.shown += piece.decode()

    def end(self) -> int:
        self.read_until("")
        os.close(self._ours)
        return self.process.wait(timeout=30)
