"""The pytest plugin, in repositories of strangers."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from commands import left_as_it_was
from door_project import IMPLEMENTATION
from machines import DOOR

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
machine = "door"
expect  = { states = 4, transitions = 13, depth = 1 }

[property.gone-for-good]
says    = "A door that was taken away does not come back."
SHOULD  = "handbook, section 5"
never   = "gone then not gone"
catches = ["push in gone: to open"]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Somebody's repository, which does not ask for anything."""
    for folder, text in (("models", DOOR), ("properties", TEXT)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "door.toml").write_text(text, encoding="utf-8")
    (tmp_path / "carpenter.py").write_text(IMPLEMENTATION, encoding="utf-8")
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n", encoding="utf-8")
    return tmp_path


OPTIONS = ("-p", "no:cacheprovider", "--color=no")


def ran(at: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Pytest in that repository, which finds the plugin by its entry point, in a process of its own."""
    command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments]
    return subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)


def called(at: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same without the time that a process takes to start."""
    with (
        contextlib.chdir(at),
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
        left_as_it_was(at),
    ):
        code = pytest.main([*OPTIONS, *arguments])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def asks(at: Path, text: str = "[tool.fsm]\n") -> None:
    """Let the repository ask for it."""
    (at / "pyproject.toml").write_text(text, encoding="utf-8")


def test_does_nothing_unless_asked(repository: Path) -> None:
    """Its tests are what they were, and the engines are not even imported."""
    probe = "def pytest_sessionfinish(session):\n    import sys\n    print('imported', 'fsm.checker' in sys.modules)\n"
    (repository / "conftest.py").write_text(probe, encoding="utf-8")

    all_of_it = ran(repository)
    folders = ran(repository, "models", "properties")

    assert "1 passed" in all_of_it.stdout
    assert "imported False" in all_of_it.stdout
    assert "no tests ran" in folders.stdout


@pytest.mark.installed
@pytest.mark.parametrize("how", ["table", "option"])
def test_collects_models_and_properties(repository: Path, how: str) -> None:
    """Each file, each property, each profile."""
    if how == "table":
        asks(repository)
    found = ran(repository, "models", "properties", "-v", "-W", "error", *(["--fsm"] if how == "option" else []))

    assert "models/door.toml::well-formed PASSED" in found.stdout
    assert "properties/door.toml::gone-for-good PASSED" in found.stdout
    assert "properties/door.toml::gone-for-good[old] PASSED" in found.stdout
    assert "properties/door.toml::size PASSED" in found.stdout
    assert "warning" not in found.stdout
    assert found.returncode == 0


def test_a_model_that_is_not_well_formed_fails(repository: Path) -> None:
    """In our words, without a traceback."""
    asks(repository)
    (repository / "models" / "door.toml").write_text(DOOR.replace('to = "open"', 'to = "opne"'), encoding="utf-8")

    found = called(repository, "models", "properties")

    assert found.returncode == 1
    assert "did you mean 'open'" in found.stdout
    assert "Traceback" not in found.stdout
    assert "2 failed" in found.stdout


def test_a_property_that_fails_is_told_with_its_run(repository: Path) -> None:
    """As the command tells it."""
    asks(repository)
    text = TEXT + '\n[property.never]\nsays = "No."\nMUST  = "x"\nnever = "open"\n'
    (repository / "properties" / "door.toml").write_text(text, encoding="utf-8")

    found = called(repository, "properties")

    assert "properties/door.toml::never" in found.stdout
    assert "push replies ok emits Creak" in found.stdout
    assert "Traceback" not in found.stdout


def conforms(found: subprocess.CompletedProcess[str], *, fails: bool = False) -> None:
    """That the model is well formed, and whether the SUT conforms to it."""
    assert found.returncode == int(fails), found.stdout
    assert "Traceback" not in found.stdout
    assert ("1 failed, 1 passed" if fails else "2 passed") in found.stdout


@pytest.mark.parametrize(
    ("sut", "fails"), [("python:carpenter:Door", False), ("python:carpenter:Silent", True), ("model:nope", True)]
)
def test_a_sut_is_tested(repository: Path, sut: str, *, fails: bool) -> None:
    """As pyproject.toml names it for all models; one that is not there fails too."""
    asks(repository, f'[tool.fsm]\nagainst = "{sut}"\n')

    conforms(called(repository, "models"), fails=fails)


def test_a_sut_is_named_for_one_model_or_by_an_option(repository: Path) -> None:
    """One that does not conform, so that a way in which it was not found would pass."""
    sut = "python:carpenter:Silent"
    asks(repository, f'[tool.fsm.against]\ndoor = "{sut}"\ngate = "reference"\n')
    by_name = called(repository, "models")
    asks(repository)
    by_option = called(repository, "models", "--fsm-against", f"door={sut}")

    for found in (by_name, by_option):
        conforms(found, fails=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool]\nfsm = 3\n", "[tool.fsm] is a table"),
        ("[tool.fsm]\nsytem = 'reference'\n", "[tool.fsm] has an unknown key sytem; the only one is 'against'"),
        ("[tool.fsm]\nagainst = 3\n", "against = 3: it is a text SUT, or a table with MODEL = SUT"),
        ("[tool.fsm.against]\ndoor = 3\n", "against = {'door': 3}: it is a text SUT, or a table with MODEL = SUT"),
    ],
)
def test_a_wrong_table_is_refused(repository: Path, text: str, says: str) -> None:
    """Before anything runs, in a line."""
    asks(repository, text)

    found = called(repository, "models")

    assert found.returncode != 0
    assert says in found.stdout + found.stderr
    assert "Traceback" not in found.stdout + found.stderr
