"""Find programs and npm packages that tests require.

If a requirement is missing, the test is skipped with a message that contains the command to install it.
``.ci/setup test`` installs all requirements, and ``.ci/run`` allows no test to be skipped.
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

PACKAGES: Final = {
    "axe-core": "axe-core@4",
    "cli": "@taplo/cli@0.7.0",
    "mermaid": "mermaid@11",
    "jest-sarif": "@microsoft/jest-sarif@1.0.0-beta.0",
}
"""The folders of the npm packages in ``.venv/npm``."""

ROOT: Final = Path(__file__).resolve().parent.parent.parent


def program(name: str) -> str:
    return shutil.which(name) or missing(name, f"apt-get install {PROGRAMS[name]}")


def package(name: str) -> Path:
    folder = ROOT / ".venv" / "npm" / name
    return folder if folder.is_dir() else missing(PACKAGES[name], "bash .ci/setup test")


def headers_of_c() -> None:
    if not Path("/usr/include/stdlib.h").exists():
        missing("stdlib.h", "apt-get install libc6-dev")


def missing(what: str, install: str) -> NoReturn:
    """Skip the test with a message that contains the command to install the missing program."""
    pytest.skip(f"{what} is missing; install it: {install}")
