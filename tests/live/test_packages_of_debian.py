"""Where packages are looked for, and what is said where a daemon cannot run."""

from __future__ import annotations

import containerds
import packages_of_debian
import pytest
from packages_of_debian import PackageError, sources

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
    """What is kept beside it for security, or comes from elsewhere, is not looked at."""
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


def test_another_version_than_the_one_that_is_meant_is_no_success(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """A suite that moves on has another one some day."""
    monkeypatch.setattr(packages_of_debian, "CACHE", tmp_path)
    monkeypatch.setattr(packages_of_debian, "_TOOLS", {})
    monkeypatch.setattr(packages_of_debian, "_unpack", lambda *_: None)
    monkeypatch.setattr(packages_of_debian, "_run", lambda _: "containerd example/containerd 2.1.90 x")

    with pytest.raises(PackageError, match=r"forky has containerd 2\.1\.90, not 2\.1\.9"):
        packages_of_debian.install("2.1.9")


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(PackageError, match="no-such-program is missing"):
        packages_of_debian._run(["no-such-program"])  # noqa: SLF001
