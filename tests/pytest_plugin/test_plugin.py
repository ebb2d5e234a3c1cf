"""The pytest plugin, as used in repositories of other people."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from commands import fsm, left_as_it_was
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
    """Create a repository that does not request the plugin."""
    for folder, text in (("models", DOOR), ("properties", TEXT)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "door.toml").write_text(text, encoding="utf-8")
    (tmp_path / "carpenter.py").write_text(IMPLEMENTATION, encoding="utf-8")
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n", encoding="utf-8")
    return tmp_path


OPTIONS = ("-p", "no:cacheprovider", "--color=no")


def ran(at: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in the repository in a separate process, which finds the plugin by its entry point."""
    command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments]
    return subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)


def called(at: Path, *arguments: str, inside: str = "") -> subprocess.CompletedProcess[str]:
    """Run pytest in this process, *inside* a folder of the repository, to avoid the start-up time of a process."""
    with (
        contextlib.chdir(at / inside),
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
        left_as_it_was(at),
    ):
        code = pytest.main([*OPTIONS, *arguments])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def asks(at: Path, text: str = "[tool.fsm]\n") -> None:
    """Make the repository request the plugin."""
    (at / "pyproject.toml").write_text(text, encoding="utf-8")


def test_does_nothing_unless_asked(repository: Path) -> None:
    """The repository's tests run as before, and the engines are not imported."""
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
    """Each file, each property and each profile becomes a test."""
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
    """The message is the command's, without a traceback."""
    asks(repository)
    (repository / "models" / "door.toml").write_text(DOOR.replace('to = "open"', 'to = "opne"'), encoding="utf-8")

    found = called(repository, "models", "properties")

    assert found.returncode == 1
    assert "did you mean 'open'" in found.stdout
    assert "Traceback" not in found.stdout
    assert "2 failed" in found.stdout


def test_a_property_that_fails_is_told_with_its_run(repository: Path) -> None:
    """The text of the failure is the command's."""
    asks(repository)
    text = TEXT + '\n[property.never]\nsays = "No."\nMUST  = "x"\nnever = "open"\n'
    (repository / "properties" / "door.toml").write_text(text, encoding="utf-8")

    found = called(repository, "properties")

    assert "properties/door.toml::never" in found.stdout
    assert "push replies ok emits Creak" in found.stdout
    assert "Traceback" not in found.stdout


def test_in_ci_the_summary_has_a_line_for_each_failure(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest does not shorten lines in CI, so reports with whole runs would be printed twice."""
    asks(repository)
    (repository / "properties" / "door.toml").write_text(
        TEXT.replace("gone then not gone", "open then open"), encoding="utf-8"
    )
    monkeypatch.setenv("CI", "true")

    done = called(repository, "properties")

    report, _, summary = done.stdout.partition("short test summary info")
    assert "push replies ok" in report
    failed, failed_too, counts = summary.splitlines()[1:]
    assert (
        failed
        == "FAILED properties/door.toml::gone-for-good - does not hold: A door that was taken away does not come back."
    )
    assert failed_too.startswith("FAILED properties/door.toml::gone-for-good[old] - ")
    assert "2 failed, 1 passed" in counts


def conforms(found: subprocess.CompletedProcess[str], *, fails: bool = False) -> None:
    """Assert that the model is well formed, and that the SUT conforms to it, or does not if *fails*."""
    assert found.returncode == int(fails), found.stdout
    assert "Traceback" not in found.stdout
    assert ("1 failed, 1 passed" if fails else "2 passed") in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sut", "fails"), [("python:carpenter:Door", False), ("python:carpenter:Jammed", True), ("model:nope", True)]
)
def test_a_sut_is_tested(repository: Path, sut: str, *, fails: bool) -> None:
    """pyproject.toml names one SUT for all models; a missing SUT also fails."""
    asks(repository, f'[tool.fsm]\nagainst = "{sut}"\n')

    conforms(called(repository, "models"), fails=fails)


@pytest.mark.slow
def test_a_sut_is_named_for_one_model_or_by_an_option(repository: Path) -> None:
    """The SUT does not conform, so if it were not found the tests would pass."""
    sut = "python:carpenter:Jammed"
    asks(repository, f'[tool.fsm.against]\ndoor = "{sut}"\ncri-pod = "reference"\n')
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
    """One line is printed, and no test runs."""
    asks(repository, text)

    found = called(repository, "models")

    assert found.returncode != 0
    assert says in found.stdout + found.stderr
    assert "Traceback" not in found.stdout + found.stderr


MISSPELT = '[tool.fsm.against]\ndoro = "python:carpenter:Jammed"\n'


@pytest.mark.slow
@pytest.mark.parametrize("asked", [("models", "properties"), ("models/door.toml",), ("properties/door.toml",)])
def test_a_model_that_is_nowhere_is_refused(repository: Path, asked: tuple[str, ...]) -> None:
    """If a misspelt name were accepted, nothing would be tested and everything would pass."""
    asks(repository, MISSPELT)

    found = called(repository, *asked)

    assert found.returncode == pytest.ExitCode.INTERRUPTED, found.stdout
    assert f"{repository / 'pyproject.toml'}: [tool.fsm.against]: 'doro' is not the name of a model" in found.stdout
    assert "did you mean 'door'?" in found.stdout
    assert "1 error in" in found.stdout
    assert "Traceback" not in found.stdout


@pytest.mark.slow
def test_an_option_for_a_model_that_is_nowhere_is_refused(repository: Path) -> None:
    """The message names the model."""
    found = called(repository, "models", "--fsm-against", "doro=reference")

    assert found.returncode == pytest.ExitCode.INTERRUPTED, found.stdout
    assert "--fsm-against: 'doro' is not the name of a model" in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("where", ["models/gate.toml", "parts/yard/models/gate.toml", "lifecycles/gate.toml", "name"])
@pytest.mark.parametrize("asked", ["models/door.toml", "properties/door.toml"])
def test_a_model_that_is_not_collected_is_known(repository: Path, asked: str, where: str) -> None:
    """A model anywhere in the repository is known by its path, even behind a link.

    So a partial run raises no false alarm.
    """
    file = repository / ("models/other.toml" if where == "name" else where)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(DOOR.replace('name    = "door"', 'name    = "gate"'), encoding="utf-8")
    if where.startswith("lifecycles"):
        (repository / "parts").mkdir()
        (repository / "parts" / "models").symlink_to(file.parent)
        (repository / "parts" / "models" / "round").symlink_to(repository)
    asks(repository, '[tool.fsm.against]\ngate = "reference"\n"*" = "python:carpenter:Door"\n')

    found = called(repository, asked, "--collect-only", "-q")

    assert found.returncode == 0, found.stdout
    assert "[python:carpenter:Door]" in found.stdout


@pytest.mark.slow
def test_in_the_folder_of_the_models(repository: Path) -> None:
    """Pytest may run in that folder, as editors do.

    Modules of SUTs are searched beside pyproject.toml, and the error says so.
    """
    asks(repository, '[tool.fsm]\nagainst = "python:carpenter:Jammed"\n')
    assert "violation: " in called(repository, inside="models").stdout

    asks(repository, '[tool.fsm]\nagainst = "python:carpentry:Door"\n')
    found = called(repository, inside="models")

    conforms(found, fails=True)
    assert f"modules are looked for in {repository} and where Python is installed" in found.stdout


GHOST = """

class Ghost(Door):
    def do(self, event):
        self.at = "shut" if event == "push" else self.at
        return super().do(event)
"""


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["", "models"])
def test_the_command_that_repeats_a_failure_is_told(repository: Path, inside: str) -> None:
    """The command is printed for models and properties, relative to the folder in which pytest was called.

    It fails as the test does.
    """
    asks(repository, '[tool.fsm]\nagainst = "python:carpenter:Ghost"\n')
    with (repository / "carpenter.py").open("a", encoding="utf-8") as file:
        file.write(GHOST)
    found = called(repository, f"{repository}/models", f"{repository}/properties", inside=inside)
    commands = re.findall(r"^    again      (.*)$", found.stdout, re.MULTILINE)

    assert {"--replay", "--property"} == {*re.findall("--replay|--property", "".join(commands))}
    for each in commands:
        move, _, command = each.rpartition("cd .. && ")
        assert (move, "cd .. && " in each) == ("", bool(inside))
        again = fsm(*shlex.split(command)[1:], cwd=repository)
        surprise = "--replay" in each and "  surprise: " in again.stdout  # by itself not a failure
        assert (again.returncode, again.stderr) == (3 if surprise else 1, ""), again.stdout
