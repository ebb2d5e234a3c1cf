"""An editor that uses taplo reports no errors in shipped files, and shows where other files have errors."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from commands import fsm
from real_parts import package, program

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parent.parent.parent
KINDS: Final = ("models", "systems", "properties", "forms")
PAGE: Final = (ROOT / "docs" / "how-to" / "editors.md").read_text(encoding="utf-8")


def lint(folder: Path, files: Sequence[str] = ()) -> tuple[int, list[tuple[str, int]]]:
    taplo = package("cli") / "dist" / "cli.js"
    command = [program("node"), str(taplo), "lint", "--colors", "never", *files]
    ran = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    found = re.findall(r"┌─ (\S+?):(\d+):\d+$", ran.stdout + ran.stderr, re.MULTILINE)
    return ran.returncode, [(str(Path(file).relative_to(folder)), int(line)) for file, line in found]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert fsm("init", "job", cwd=tmp_path).returncode == 0
    (tmp_path / "schemas").mkdir()
    (script,) = re.findall(r"^mkdir -p schemas\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    for command, file in re.findall(r"^fsm (.*) > (\S+)$", script, re.MULTILINE):
        (tmp_path / file).write_text(fsm(*command.split()).stdout, encoding="utf-8")
    (settings,) = re.findall(r"^```toml .taplo.toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / ".taplo.toml").write_text(settings, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_current(kind: str) -> None:
    assert fsm("schema", "--of", kind).stdout == (ROOT / "schemas" / f"{kind}.json").read_text(encoding="utf-8")


def test_the_page_says_what_is_set_here() -> None:
    (settings,) = re.findall(r"^```toml .taplo.toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    ours = tomllib.loads((ROOT / ".taplo.toml").read_text(encoding="utf-8"))

    assert tomllib.loads(settings)["rule"] == ours["rule"]


@pytest.mark.slow
def test_what_is_shipped_is_valid() -> None:
    assert (0, []) == lint(ROOT)


@pytest.mark.slow
def test_a_starter_is_valid(project: Path) -> None:
    assert (0, []) == lint(project)


MISTAKES: Final = (
    ("models", 'kind    = "signal"', 'kind    = "sigal"'),
    ("models", 'ignores = ["running"]', "ignores = 7"),
    ("models", "[event.fail]", "[event.fail"),
    ("properties", 'idempotent = "start"', "idempotent = true"),
    ("properties", 'always = "stopped"', "allways = 1"),
)


@pytest.mark.slow
def test_mistakes_are_found_where_they_are(project: Path) -> None:
    wanted = {}
    for number, (folder, right, wrong) in enumerate(MISTAKES):
        text = (project / folder / "job.toml").read_text(encoding="utf-8")
        assert text.count(right) == 1
        (project / folder / f"wrong{number}.toml").write_text(text.replace(right, wrong), encoding="utf-8")
        at = text.index(right) if "allways" not in wrong else text.rindex("\n[", 0, text.index(right)) + 1
        wanted[f"{folder}/wrong{number}.toml"] = text[:at].count("\n") + 1

    code, found = lint(project)

    assert code != 0
    assert {*wanted.items()} <= {*found}
    assert {*wanted} == {file for file, _ in found}


@pytest.mark.slow
def test_without_a_schema_nothing_would_be_found(project: Path) -> None:
    """Without the project's settings for taplo, no error is found, so the schema is what finds the errors."""
    path = project / "models" / "job.toml"
    path.write_text(path.read_text("utf-8").replace('kind    = "signal"', 'kind    = "sigal"'), encoding="utf-8")
    shutil.move(project / ".taplo.toml", project / "off.toml")

    assert (0, []) == lint(project, ["models/job.toml"])
