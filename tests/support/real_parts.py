"""Requirements of tests besides Python: programs of this machine, and packages of npm.

If one is missing, the test is skipped with the command that installs it. ``.ci/setup test`` installs them all, and
``.ci/run`` allows no skip.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, NoReturn

import pytest

PROGRAMS: Final = {
    "chromium": "chromium",
    "dot": "graphviz",
    "gcc": "gcc",
    "go": "golang-go",
    "java": "openjdk-17-jre-headless",
    "node": "npm",
    "plantuml": "plantuml",
    "runc": "runc",
    "rustc": "rustc",
    "setpriv": "util-linux",
    "spin": "spin",
    "strace": "strace",
    "systemd-analyze": "systemd",
}
"""Each program, and the Debian package that contains it."""

PACKAGES: Final = {
    "axe-core": "axe-core@4",
    "cli": "@taplo/cli@0.7.0",
    "mermaid": "mermaid@11",
    "jest-sarif": "@microsoft/jest-sarif@1.0.0-beta.0",
}
"""Each npm package, by its folder in ``.venv/npm``."""

ROOT: Final = Path(__file__).resolve().parent.parent.parent


def program(name: str) -> str:
    """Return the path of one of :data:`PROGRAMS`."""
    return shutil.which(name) or missing(name, f"apt-get install {PROGRAMS[name]}")


def package(name: str) -> Path:
    """Return the folder of one of :data:`PACKAGES`, unpacked."""
    folder = ROOT / ".venv" / "npm" / name
    return folder if folder.is_dir() else missing(PACKAGES[name], "bash .ci/setup test")


def headers_of_c() -> None:
    """Require the headers that a C program includes."""
    if not Path("/usr/include/stdlib.h").exists():
        missing("stdlib.h", "apt-get install libc6-dev")


def missing(what: str, install: str) -> NoReturn:
    """Skip the test; *install* is the command after which it runs."""
    pytest.skip(f"{what} is missing; install it: {install}")
