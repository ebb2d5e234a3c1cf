"""The recipe of the container image names files that exist, and its steps install a working command.

The tests execute the steps here, and ``.ci/image`` builds the image at night.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent.parent
RECIPE: Final = (ROOT / "Containerfile").read_text(encoding="utf-8")


def instructions(text: str) -> list[tuple[str, str]]:
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines) if word]


def followed(recipe: str, folder: Path, **arguments: str) -> dict[str, str]:
    """Follow a recipe with *folder* as the root, and return the environment variables of the image."""
    variables: dict[str, str] = {}
    for word, rest in instructions(recipe):
        match word:
            case "ARG":
                name, _, value = rest.partition("=")
                variables[name] = arguments.get(name, value)
            case "ENV":
                name, _, value = rest.partition("=")
                variables[name] = re.sub(r"(^|:)/opt", rf"\1{folder}/opt", value)
            case "COPY" if not rest.startswith("--from"):
                *sources, target = shlex.split(rest)
                to = folder / target.lstrip("/")
                for source in sources:
                    if (ROOT / source).is_dir():
                        shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
                    else:
                        to.mkdir(parents=True, exist_ok=True)
                        shutil.copy(ROOT / source, to)
            case "RUN":
                script = re.sub(r"(?<![\w.])/(opt|src)\b", rf"{folder}/\1", rest)
                subprocess.run(["/bin/sh", "-euc", script], env=os.environ | variables, check=True)
    return variables


def flaws(recipe: str) -> list[str]:
    found = instructions(recipe)
    copied = [word for kind, rest in found if kind == "COPY" and "--from" not in rest for word in rest.split()[:-1]]
    kept = re.findall(r"^!(\S+)$", (ROOT / ".containerignore").read_text(encoding="utf-8"), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = [rest.removeprefix("EXTRAS=") for kind, rest in found if kind == "ARG" and "EXTRAS" in rest]
    bases = [rest for kind, rest in found if kind == "FROM" or (kind == "ARG" and "BASE" in rest)]
    return [
        *(
            f"{each} is copied, and not kept or not there"
            for each in copied
            if each not in kept or not (ROOT / each).exists()
        ),
        *(f"{each} is kept, and not copied" for each in kept if each not in copied),
        *(f"there is no extra {each}" for each in extras.split(",") if each not in project["optional-dependencies"]),
        *(f"{each} names a host" for each in bases if "/" in each),
    ]


def test_it_names_what_is_there() -> None:
    assert [] == flaws(RECIPE)


@pytest.mark.parametrize(
    ("right", "wrong", "flaw"),
    [
        ("COPY models /src/models\n", "", "models is kept, and not copied"),
        ("COPY models /src/models\n", "COPY modles /src/models\n", "modles is copied, and not kept or not there"),
        ("EXTRAS=fast", "EXTRAS=fats", "there is no extra fats"),
        ("BASE=python", "BASE=example.org/python", "BASE=example.org/python:3.13-slim names a host"),
    ],
)
def test_a_flaw_would_be_noticed(right: str, wrong: str, flaw: str) -> None:
    assert RECIPE.count(right) == 1

    assert flaw in flaws(RECIPE.replace(right, wrong))


@pytest.mark.nightly
def test_its_steps_give_a_command_that_works(tmp_path: Path) -> None:
    environment = followed(RECIPE, tmp_path, EXTRAS="service")

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/usr/bin/env", "-i", f"PATH={environment['PATH']}", f"HOME={tmp_path}", *command],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
        )

    assert ("ENTRYPOINT", '["fsm"]') in instructions(RECIPE)
    shutil.rmtree(tmp_path / "src")
    assert run("fsm", "check", "cri-pod").returncode == 0
    assert run("fsm", "judge", str(ROOT / "tests" / "recordings" / "containerd-1.6.20.log")).returncode == 1
    assert str(tmp_path) in run("sh", "-c", "command -v fsm").stdout
