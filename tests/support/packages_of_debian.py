"""Unpack programs from Debian's packages into ``.venv/containerd``, without installing them.

Packages of other Debian suites are fetched from the archive that this machine uses. The indexes of these suites are
kept apart from the system's indexes.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CACHE: Final = Path(__file__).resolve().parent.parent.parent / ".venv" / "containerd"

VERSIONS: Final = {"1.6.20": "bookworm", "1.7.24": "trixie", "2.1.9": "forky"}

INSTALL: Final = "bash .ci/live --install"

_TOOLS: Final = {"runc": "usr/sbin/runc", "busybox-static": "bin/busybox"}

_CONTAINERD: Final = ("containerd", "containerd-shim-runc-v2", "ctr")

_ELSEWHERE: Final = ("sid", "trixie-backports")
"""Suites that may still have a version that was dropped from its own suite."""

_SOURCES: Final = Path("/etc/apt")


class PackageError(Exception):
    """Raised if a package cannot be obtained on this machine."""


def installed(version: str) -> bool:
    programs = [CACHE / version / "bin" / each for each in _CONTAINERD]
    return all(each.is_file() for each in [*programs, *(CACHE / "bin" / Path(tool).name for tool in _TOOLS.values())])


def told(version: str) -> str:
    return _run([str(CACHE / version / "bin" / "containerd"), "--version"]).strip()


def install() -> None:
    oldest = next(iter(VERSIONS.values()))
    tools = [each for each, program in _TOOLS.items() if not (CACHE / "bin" / Path(program).name).is_file()]
    versions = [each for each in VERSIONS if not installed(each)]
    if not tools and not versions:
        return
    with tempfile.TemporaryDirectory(prefix="container-fsm-apt-") as name:
        apt = Path(name)
        apt.chmod(0o755)  # apt downloads as a separate user
        there = _indexed(apt, *VERSIONS.values())
        if not all(chosen(each, there) for each in versions):
            there = _indexed(apt, *VERSIONS.values(), *_ELSEWHERE)
        wanted = {f"{each}/{oldest}": Path() for each in tools}
        for each in versions:
            if not (exact := chosen(each, there)):
                raise PackageError(_gone(each, there))
            wanted[f"containerd={exact}"] = Path(each)
        _run(["apt-get", *_options(apt), "-qq", "download", *wanted], cwd=apt)
        for package, below in wanted.items():
            kind, _, exact = re.sub(r"/.*", "=*", package).partition("=")
            (packed,) = apt.glob(f"{kind}_{exact.replace(':', '%3a')}_*.deb")
            unpacked = apt / packed.stem
            _run(["dpkg", "-x", str(packed), str(unpacked)])
            programs = [f"usr/bin/{each}" for each in _CONTAINERD] if kind == "containerd" else [_TOOLS[kind]]
            for program in programs:
                _keep(unpacked / program, CACHE / below / "bin")


def unpack(packages: Sequence[str], suite: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="container-fsm-apt-") as name:
        apt = Path(name)
        apt.chmod(0o755)
        _indexed(apt, suite)
        _run(["apt-get", *_options(apt), "-qq", "download", *packages], cwd=apt)
        for each in sorted(apt.glob("*.deb")):
            _run(["dpkg", "-x", str(each), str(folder)])


def unpack_source(package: str, suite: str, part: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="container-fsm-apt-") as name:
        apt = Path(name)
        apt.chmod(0o755)
        _indexed(apt, suite, kind="deb-src")
        _run(["apt-get", *_options(apt), "-qq", "source", "--download-only", "--tar-only", package], cwd=apt)
        (packed,) = apt.glob("*.orig.tar.*")
        only = ["--strip-components=1", "--wildcards", f"*/{part}/*"]
        _run(["tar", "-x", "-f", str(packed), "-C", str(folder), *only])


def chosen(version: str, there: Sequence[str]) -> str:
    """Return the package version in *there* that matches *version*, or an empty string if none does.

    >>> chosen("2.1.9", ["2.1.90-1", "2.1.9+ds1-5"]), chosen("2.1.9", ["2.1.10~ds1-1"])
    ('2.1.9+ds1-5', '')
    """
    return next((each for each in there if re.match(rf"{re.escape(version)}(?![\d.])", each)), "")


def _gone(version: str, there: Sequence[str]) -> str:
    return f"""\
containerd {version} is wanted, and Debian has it no more: {", ".join((*VERSIONS.values(), *_ELSEWHERE))} have {", ".join(there)}.
What to do: in {Path(__file__).name}, name in VERSIONS the version that {VERSIONS[version]} has now, add to the profiles in models/ what
is new in it, and write the page: python tests/support/conformance_matrix.py --write.  Or take the programs of {version}
({", ".join(_CONTAINERD)}) from a machine that has them, into {CACHE / version / "bin"}."""


def sources(text: str, own: str, suite: str) -> str:
    """Return the entries for the suite *own* in *text*, an apt sources file, with *suite* in place of *own*.

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


def _indexed(apt: Path, *suites: str, kind: str = "deb") -> list[str]:
    """Download the indexes of *suites* into *apt*, and return the versions of containerd in them.

    *kind* is ``deb-src`` for source packages.
    """
    own = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    files = [each for each in sorted(_SOURCES.rglob("*")) if each.suffix in {".list", ".sources"}]
    for name in ("parts", "lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    for suffix in {each.suffix for each in files}:
        texts = [each.read_text(encoding="utf-8") for each in files if each.suffix == suffix]
        found = [sources(text, own, suite) for text in texts for suite in dict.fromkeys(suites)]
        found = [re.sub(r"^(Types: |)deb(?=\s)", rf"\1{kind}", each, flags=re.MULTILINE) for each in found]
        (apt / "parts" / f"suites{suffix}").write_text("\n\n".join(filter(None, found)) + "\n", encoding="utf-8")
    _run(["apt-get", *_options(apt), "-qq", "update"])
    lines = _run(["apt-cache", *_options(apt), "madison", "containerd"]).splitlines()
    return list(dict.fromkeys(line.split("|")[1].strip() for line in lines))


def _options(apt: Path) -> tuple[str, ...]:
    return (
        "-oDir::Etc::SourceList=/dev/null",
        f"-oDir::Etc::SourceParts={apt}/parts",
        f"-oDir::State::Lists={apt}/lists",
        f"-oDir::Cache={apt}/cache",
        "-oDir::Cache::pkgcache=pkgcache.bin",
        "-oAPT::Sandbox::User=root",
    )


def _keep(program: Path, folder: Path) -> None:
    """Copy a program to its final name atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{program.name}"
    shutil.copy2(program, part)
    part.rename(folder / program.name)


def _run(command: list[str], cwd: Path | None = None) -> str:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    except FileNotFoundError:
        raise PackageError(f"{command[0]} is missing; the packages are Debian's, so a Debian is needed") from None
    if ran.returncode:
        raise PackageError(f"{' '.join(command[:1] + command[-2:])} failed: {ran.stderr.strip()}")
    return ran.stdout
