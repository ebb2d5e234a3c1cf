"""The action and the hooks for other repositories are valid, can be run, and fail on errors."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from commands import fsm

ROOT: Final = Path(__file__).resolve().parent.parent.parent
BIN: Final = Path(sys.executable).parent
DRAWING: Final = """\
stateDiagram-v2
  [*] --> new
  new --> running: start
  new --> stopped: stop
  running --> stopped: stop
  running --> stopped: fail
"""
CLAIM: Final = 'never = "stopped then not stopped"'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    assert fsm("init", "job", cwd=folder).returncode == 0
    (folder / "job.md").write_text(f"```mermaid\n{DRAWING}```\n", encoding="utf-8")
    return folder


def spoilt(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


MISTAKES: Final = {
    "Check the models": ("properties/job.toml", CLAIM, 'never = "running then stopped"'),
    "Compare the drawings": ("job.md", "new --> running: start", "new --> stopped: start"),
    "Run models and properties as tests": ("properties/job.toml", CLAIM, 'never = "running then stopped"'),
}
"""For each step that can find an error: a file, a text in it, and a wrong text to replace it with."""


def valid(file: str, schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(ROOT / file)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout


# -- the action -----------------------------------------------------------------


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return found


def run_step(step: dict[str, Any], project: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a step in bash, with its environment variables, as GitHub does."""
    given = {f"inputs.{name}": each["default"] for name, each in action()["inputs"].items()}
    given |= {f"inputs.{name}": value for name, value in inputs.items()} | {"github.action_path": str(ROOT)}
    variables = {
        name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: given[found[1]], value) for name, value in step["env"].items()
    }
    temporary = project.parent / "temp"
    temporary.mkdir(exist_ok=True)
    path = (project.parent / "path").read_text("utf-8").split() if (project.parent / "path").exists() else [str(BIN)]
    environment = os.environ | variables | {"RUNNER_TEMP": str(temporary), "GITHUB_PATH": str(project.parent / "path")}
    environment["PATH"] = os.pathsep.join([*path, os.environ["PATH"]])
    return subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=project,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )


STEPS: Final = {step["name"]: step for step in action()["runs"]["steps"]}


def test_the_action_is_valid() -> None:
    valid("action.yml", "vendor.github-actions")

    page = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for name, each in action()["inputs"].items():
        assert f"${{{{ inputs.{name} }}}}" in text
        default = f"`{each['default']}`" if each["default"] else ""
        assert f"| `{name}` | {default} |".replace("  ", " ") in page


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_a_step_passes_and_fails(name: str, project: Path) -> None:
    inputs = {"drawings": "models/job.toml job.md\n", "sarif": "found.sarif"}
    passed = run_step(STEPS[name], project, **inputs)
    spoilt(project / MISTAKES[name][0], *MISTAKES[name][1:])
    failed = run_step(STEPS[name], project, **inputs)

    assert (0, 1) == (passed.returncode, failed.returncode), (passed, failed)
    if name == "Check the models":
        assert passed.stdout == "::notice title=fsm::holds\n"
        assert "::error file=properties/job.toml,line=" in failed.stdout
        assert '"version": "2.1.0"' in (project / "found.sarif").read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_drawing_is_compared(project: Path) -> None:
    wrong = "models/job.toml no-such.md\nmodels/job.toml job.md\n"

    ran = run_step(STEPS["Compare the drawings"], project, drawings=wrong)

    assert ran.returncode == 2
    assert "equal" in ran.stdout


@pytest.mark.nightly
def test_the_action_from_its_first_step(project: Path) -> None:
    """All steps of the action succeed. The first installs fsm from this checkout with pip."""
    for step in STEPS.values():
        ran = run_step(step, project, drawings="models/job.toml job.md")
        assert ran.returncode == 0, (step["name"], ran.stdout, ran.stderr)

    assert (project.parent / "temp" / "fsm" / "bin" / "fsm").exists()


# -- the hooks ------------------------------------------------------------------


def test_the_hooks_are_valid() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")]
    assert subprocess.run(command, check=False).returncode == 0


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.nightly
def test_the_hooks_run(project: Path, tmp_path: Path) -> None:
    source = tmp_path / "fsm"
    source.mkdir()
    for name in (".pre-commit-hooks.yaml", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("fsm", "models", "properties"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "fsm")
    revision = git(source, "rev-parse", "HEAD")
    hooks: list[dict[str, object]] = [
        {"id": "fsm-check"},
        {"id": "fsm-diff", "args": ["models/job.toml", "job.md"], "files": "job"},
        {"id": "fsm-pytest"},
    ]
    config = {"repos": [{"repo": str(source), "rev": revision, "hooks": hooks}]}
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    git(project, "init", "-q")
    git(project, "add", "-A")
    # The dependencies of fsm are taken from this environment, so nothing is downloaded.
    site = str(Path(pytest.__file__).parent.parent)
    environment = os.environ | {
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": site,
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this as "no build isolation"
        "PIP_NO_INDEX": "1",
    }

    def hook(name: str) -> int:
        command = [sys.executable, "-m", "pre_commit", "run", "--all-files", name]
        return subprocess.run(command, cwd=project, env=environment, check=False).returncode

    names = [str(each["id"]) for each in hooks]
    assert [0, 0, 0] == [hook(name) for name in names]
    for name, mistake in zip(names, MISTAKES.values(), strict=True):
        before = (project / mistake[0]).read_text(encoding="utf-8")
        spoilt(project / mistake[0], *mistake[1:])
        assert hook(str(name)) == 1, name
        (project / mistake[0]).write_text(before, encoding="utf-8")
