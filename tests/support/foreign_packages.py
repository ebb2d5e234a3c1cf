"""Install packages that extend fsm into a folder in PYTHONPATH, with the metadata that pip would write."""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commands import fsm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parent.parent.parent
EXAMPLE: Final = ROOT / "examples" / "domain"

FORM: Final = '''\
"""A form of recording: lines that begin with a bar."""

from fsm import Observation
from fsm.recordings.form import RecordingForm


def sniff(head):
    assert len(head) <= 1 << 16, f"{len(head)} bytes"
    return head.startswith(b"|")


FORM = RecordingForm(
    name="NAME",
    title="NAME",
    sniff=sniff,
    open=lambda opening: opening.by_line(lambda line: Observation(entity="c", of="container", event="restart")),
    machines=("container-status",),
)
'''


def install(site: Path, name: str, source: str, groups: Mapping[str, str], *, version: str = "1.0") -> None:
    """Install a module with metadata that declares its entry points.

    *groups* maps each group of entry points to a line such as ``jobs = queue:DOMAIN``.
    """
    (site / f"{name.replace('-', '_')}.py").write_text(source, encoding="utf-8")
    declare(site, name, groups, version=version)


def declare(site: Path, name: str, groups: Mapping[str, str], *, version: str = "1.0") -> None:
    metadata = site / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = "".join(f"[{group}]\n{line}\n" for group, line in groups.items())
    (metadata / "entry_points.txt").write_text(lines, encoding="utf-8")


def pip_target(site: Path) -> dict[str, str]:
    """Return environment variables that make ``pip install .`` work offline and install into *site*."""
    return {
        "PIP_TARGET": str(site),
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's name for "no build isolation"
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_QUIET": "1",
    }


def installing(site: Path, folder: Path) -> dict[str, str]:
    """Return environment variables that make ``pip install -e .`` install into *site*, from which Python imports."""
    return pip_target(site) | {"PYTHONPATH": f"{folder}{os.pathsep}{site}"}


def install_example(site: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", str(EXAMPLE)]
    subprocess.run(command, env=os.environ | pip_target(site), check=True, capture_output=True)


def fsm_with(
    site: Path, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    with importable(site):
        return fsm(*arguments, stdin=stdin, env=env, cwd=cwd)


@contextlib.contextmanager
def importable(site: Path) -> Iterator[None]:
    """Make everything in *site* importable, and unload it on exit."""
    modules = {*sys.modules}
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(site))
        for name in {*sys.modules} - modules:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(site)):
                del sys.modules[name]
