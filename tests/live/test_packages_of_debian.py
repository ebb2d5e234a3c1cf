"""Debian packages are looked up in several suites, and a message explains why a daemon cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import containerds
import packages_of_debian
import pytest
from packages_of_debian import PackageError, sources

if TYPE_CHECKING:
    from pathlib import Path

DEB822 = """\
# a comment
Types: deb
URIs: mirror://one
Suites: bookworm bookworm-updates
Components: main
Signed-By: /keys

Types: deb
URIs: mirror://two
Suites: bookworm-security
Components: main
"""


def test_other_suites_come_from_where_the_own_does() -> None:
    """Packages come from the archive of this machine's own suite, never from security archives."""
    found = sources(DEB822, "bookworm", "forky")

    assert "URIs: mirror://one\nSuites: forky\nComponents: main\nSigned-By: /keys" in found
    assert "two" not in found
    assert "" == sources(DEB822, "trixie", "forky")


def test_a_line_keeps_its_options() -> None:
    line = "deb [signed-by=/keys] mirror://one bookworm main"

    assert line.replace("bookworm", "forky") == sources(
        f"{line}\n# deb mirror://two bookworm main", "bookworm", "forky"
    )


@pytest.mark.parametrize(
    ("lacking", "why"),
    [
        ("root", "containerd needs root"),
        ("program", "no-such-program is missing; install it: apt-get install"),
        ("right", "mounts are not allowed here"),
        ("package", "containerd is missing; install it: bash .ci/live --install"),
        ("nothing", ""),
    ],
)
def test_what_is_lacking_is_said(lacking: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000 if lacking == "root" else 0)
    unshare = {"program": ("no-such-program",), "right": ("false",)}.get(lacking, ("true",))
    monkeypatch.setattr(containerds, "_UNSHARE", unshare)
    monkeypatch.setattr(containerds, "installed", lambda _: lacking != "package")

    assert containerds.lacks().startswith(why)
    assert bool(why) == bool(containerds.lacks())


@pytest.mark.parametrize(
    ("where", "there", "taken"),
    [
        ("its own suite", ["2.2.0-1", "2.1.9+ds1-5"], "containerd=2.1.9+ds1-5"),
        ("another", ["2.1.9~bpo13+1"], "containerd=2.1.9~bpo13+1"),
        ("none", ["2.1.90+ds1-1", "2.2.0-1"], ""),
    ],
)
def test_a_version_is_taken_from_whatever_suite_still_has_it(
    where: str, there: list[str], taken: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If no suite has the version, the error names the available versions and a remedy."""

    def indexed(apt: Path, *suites: str) -> list[str]:
        del apt
        return there if where == "its own suite" or "sid" in suites else ["2.2.0-1"]

    class Downloaded(Exception):  # noqa: N818  (it ends what is tested where packages would be unpacked)
        pass

    def run(command: list[str], cwd: object) -> str:
        del cwd
        raise Downloaded(command[-1])

    monkeypatch.setattr(packages_of_debian, "CACHE", tmp_path)
    monkeypatch.setattr(packages_of_debian, "VERSIONS", {"2.1.9": "forky"})
    monkeypatch.setattr(packages_of_debian, "_indexed", indexed)
    monkeypatch.setattr(packages_of_debian, "_run", run)

    with pytest.raises((Downloaded, PackageError)) as caught:
        packages_of_debian.install()

    if taken:
        assert (Downloaded, taken) == (caught.type, str(caught.value))
    else:
        assert "containerd 2.1.9 is wanted" in str(caught.value)
        assert "forky, sid, trixie-backports have 2.1.90+ds1-1, 2.2.0-1." in str(caught.value)
        assert "name in VERSIONS" in str(caught.value)


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(PackageError, match="no-such-program is missing"):
        packages_of_debian._run(["no-such-program"])  # noqa: SLF001
