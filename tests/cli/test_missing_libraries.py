"""A command that needs a missing library names the extra that installs it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules[{!r}] = None; from fsm.__main__ import main; main()"
"""A program that runs the command as if a library were not installed."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "extra", "arguments"),
    [
        ("pyarrow", "fast", ["convert", "containerd.log", "-o", "containerd.parquet"]),
        ("pyarrow", "fast", ["judge", "s3://logs/node-7.parquet"]),
        ("google.protobuf", "live", ["record", "--nri", "unix:nri.sock"]),
        ("hpack", "live", ["proxy", "--listen", "unix:a.sock", "--to", "unix:b.sock"]),
        ("grpc", "live", ["serve", "--cri", "unix:fsm.sock"]),
        ("grpc", "live", ["test", "cri-pod", "--against", "cri:unix:fsm.sock"]),
    ],
)
def test_a_library_is_missing(library: str, extra: str, arguments: list[str]) -> None:
    command = [sys.executable, "-c", WITHOUT.format(library), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (2, "") == (done.returncode, done.stdout)
    assert re.search(rf"module {re.escape(library)}[\w.]* is needed, but is not installed \[FSM601\]", done.stderr)
    assert f"pip install 'container-fsm[{extra}]'" in done.stderr
