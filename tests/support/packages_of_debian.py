"""Programs out of Debian's packages, unpacked into ``.venv/containerd`` and not installed.

Other suites than this machine's are looked for where this machine takes its own packages from.  Their indexes are kept
apart from those of the system.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).resolve().parent.parent.parent / ".venv" / "containerd"

VERSIONS: Final = {"1.6.20": "bookworm", "1.7.24": "trixie", "2.1.9": "forky"}
"""The suite of Debian that has each version of containerd."""

INSTALL: Final = "bash .ci/live --install"

_TOOLS: Final = {"runc": "usr/sbin/runc", "busybox-static": "bin/busybox"}
"""What serves all versions, by its package in the oldest suite; the path of its program in there."""

_CONTAINERD: Final = ("containerd", "containerd-shim-runc-v2", "ctr")

_SOURCES: Final = Path("/etc/apt")


class PackageError(Exception):
    """A package that cannot be had here."""


def installed(version: str) -> bool:
    """Whether *version* can be started."""
    programs = [CACHE / version / "bin" / each for each in _CONTAINERD]
    return all(each.is_file() for each in [*programs, *(CACHE / "bin" / Path(tool).name for tool in _TOOLS.values())])


def install(version: str) -> str:
    """Unpack *version* of containerd, and what serves all versions, where that is not done yet; tells which it is."""
    oldest = next(iter(VERSIONS.values()))
    for package, program in _TOOLS.items():
        if not (CACHE / "bin" / Path(program).name).is_file():
            with tempfile.TemporaryDirectory() as folder:
                _unpack(package, oldest, Path(folder))
                _keep(Path(folder, program), CACHE / "bin")
    if not installed(version):
        with tempfile.TemporaryDirectory() as folder:
            _unpack("containerd", VERSIONS[version], Path(folder))
            programs = Path(folder, "usr", "bin")
            told = _run([str(programs / "containerd"), "--version"]).split()[2]
            if not re.match(rf"v?{re.escape(version)}(?!\d)", told):
                raise PackageError(
                    f"{VERSIONS[version]} has containerd {told}, not {version}; change VERSIONS in {Path(__file__).name}"
                )
            for each in _CONTAINERD:
                _keep(programs / each, CACHE / version / "bin")
    return _run([str(CACHE / version / "bin" / "containerd"), "--version"]).strip()


def sources(text: str, own: str, suite: str) -> str:
    """Of the entries of *text*, a file of apt's sources, those that are of the suite *own*, for *suite* instead.

    >>> print(sources("deb mirror://here bookworm main\\ndeb mirror://here bookworm-updates main", "bookworm", "trixie"))
    deb mirror://here trixie main
    >>> print(sources("Types: deb\\nURIs: mirror://here\\nSuites: sid sid-debug\\nComponents: main\\n", "sid", "trixie"))
    Types: deb
    URIs: mirror://here
    Suites: trixie
    Components: main
    """
    if re.search(r"^Suites:", text, re.MULTILINE):
        entries = [each.strip() for each in re.split(r"\n\s*\n", text)]
        taken = [each for each in entries if re.search(rf"^Suites:.*(?<=\s){own}(?!\S)", each, re.MULTILINE)]
        return "\n\n".join(re.sub(r"^Suites:.*$", f"Suites: {suite}", each, flags=re.MULTILINE) for each in taken)
    lines = [line for line in text.splitlines() if re.match(rf"deb\s.*\s{own}\s", line)]
    return "\n".join(re.sub(rf"(?<=\s){own}(?=\s)", suite, line) for line in lines)


def _unpack(package: str, suite: str, folder: Path) -> None:
    own = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    files = [each for each in sorted(_SOURCES.rglob("*")) if each.suffix in {".list", ".sources"}]
    texts: dict[str, list[str]] = {each.suffix: [] for each in files}
    for each in files:
        texts[each.suffix].append(sources(each.read_text(encoding="utf-8"), own, suite))
    with tempfile.TemporaryDirectory(prefix="container-fsm-apt-") as apt:
        Path(apt).chmod(0o755)  # apt downloads as a user of its own
        options = [
            "-oDir::Etc::SourceList=/dev/null",
            f"-oDir::Etc::SourceParts={apt}/parts",
            f"-oDir::State::Lists={apt}/lists",
            f"-oDir::Cache={apt}/cache",
            "-oAPT::Sandbox::User=root",
        ]
        for name in ("parts", "lists/partial", "cache/archives/partial"):
            Path(apt, name).mkdir(parents=True)
        for suffix, found in texts.items():
            (Path(apt, "parts") / f"suite{suffix}").write_text(
                "\n\n".join(filter(None, found)) + "\n", encoding="utf-8"
            )
        _run(["apt-get", *options, "-qq", "update"])
        _run(["apt-get", *options, "-qq", "download", package], cwd=apt)
        (packed,) = Path(apt).glob("*.deb")
        _run(["dpkg", "-x", str(packed), str(folder)])


def _keep(program: Path, folder: Path) -> None:
    """A file there is whole: it gets its name last."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{program.name}"
    shutil.copy2(program, part)
    part.rename(folder / program.name)


def _run(command: list[str], cwd: str | None = None) -> str:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    except FileNotFoundError:
        raise PackageError(f"{command[0]} is missing; the packages are Debian's, so a Debian is needed") from None
    if ran.returncode:
        raise PackageError(f"{' '.join(command[:1] + command[-2:])} failed: {ran.stderr.strip()}")
    return ran.stdout
