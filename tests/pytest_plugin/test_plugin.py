"""The pytest plugin works in other people's repositories."""

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
    for folder, text in (("models", DOOR), ("properties", TEXT)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "door.toml").write_text(text, encoding="utf-8")
    (tmp_path / "carpenter.py").write_text(IMPLEMENTATION, encoding="utf-8")
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n", encoding="utf-8")
    return tmp_path


OPTIONS = ("-p", "no:cacheprovider", "--color=no")


def ran(at: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", *OPTIONS, *arguments]
    return subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)


def called(at: Path, *arguments: str, inside: str = "") -> subprocess.CompletedProcess[str]:
    """Run pytest in this process, which is faster than starting another."""
    with (
        contextlib.chdir(at / inside),
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
        left_as_it_was(at),
    ):
        code = pytest.main([*OPTIONS, *arguments])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def asks(at: Path, text: str = "[tool.fsm]\n") -> None:
    (at / "pyproject.toml").write_text(text, encoding="utf-8")


def test_does_nothing_unless_asked(repository: Path) -> None:
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
    asks(repository)
    (repository / "models" / "door.toml").write_text(DOOR.replace('to = "open"', 'to = "opne"'), encoding="utf-8")

    found = called(repository, "models", "properties")

    assert found.returncode == 1
    assert "did you mean 'open'" in found.stdout
    assert "Traceback" not in found.stdout
    assert "2 failed" in found.stdout


def test_a_property_that_fails_is_told_with_its_run(repository: Path) -> None:
    asks(repository)
    text = TEXT + '\n[property.never]\nsays = "No."\nMUST  = "x"\nnever = "open"\n'
    (repository / "properties" / "door.toml").write_text(text, encoding="utf-8")

    found = called(repository, "properties")

    assert "properties/door.toml::never" in found.stdout
    assert "push replies ok emits Creak" in found.stdout
    assert "Traceback" not in found.stdout


def test_in_ci_the_summary_has_a_line_for_each_failure(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failure has one line in the summary.

    In CI, pytest does not shorten lines, so a full report would be printed twice.
    """
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
    assert found.returncode == int(fails), found.stdout
    assert "Traceback" not in found.stdout
    assert ("1 failed, 1 passed" if fails else "2 passed") in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sut", "fails"), [("python:carpenter:Door", False), ("python:carpenter:Jammed", True), ("model:nope", True)]
)
def test_a_sut_is_tested(repository: Path, sut: str, *, fails: bool) -> None:
    asks(repository, f'[tool.fsm]\nagainst = "{sut}"\n')

    conforms(called(repository, "models"), fails=fails)


@pytest.mark.slow
def test_a_sut_is_named_for_one_model_or_by_an_option(repository: Path) -> None:
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
        ("[tool]\nfsm = 3\n", "[tool.fsm] must be a table"),
        ("[tool.fsm]\nsytem = 'reference'\n", "[tool.fsm] has an unknown key sytem; the only known key is 'against'"),
        ("[tool.fsm]\nagainst = 3\n", "against = 3 must be the text SUT, or a table with entries MODEL = SUT"),
        (
            "[tool.fsm.against]\ndoor = 3\n",
            "against = {'door': 3} must be the text SUT, or a table with entries MODEL = SUT",
        ),
    ],
)
def test_a_wrong_table_is_refused(repository: Path, text: str, says: str) -> None:
    asks(repository, text)

    found = called(repository, "models")

    assert found.returncode != 0
    assert says in found.stdout + found.stderr
    assert "Traceback" not in found.stdout + found.stderr


def test_forms_of_logs_do_not_ask_for_tests(repository: Path) -> None:
    """A table with forms is no error. Without another word in it, models are not collected."""
    form = "[tool.fsm.form.door]\nline = '(?P<event>.)(?P<entity>.)'\n"
    asks(repository, form)
    assert "no tests ran" in called(repository, "models").stdout
    asks(repository, f"{form}[tool.fsm.against]\n")
    assert "1 passed" in called(repository, "models").stdout


MISSPELT = '[tool.fsm.against]\ndoro = "python:carpenter:Jammed"\n'


@pytest.mark.slow
@pytest.mark.parametrize("asked", [("models", "properties"), ("models/door.toml",), ("properties/door.toml",)])
def test_a_model_that_is_nowhere_is_refused(repository: Path, asked: tuple[str, ...]) -> None:
    """A misspelt model is refused. Otherwise, nothing would be tested and everything would pass."""
    asks(repository, MISSPELT)

    found = called(repository, *asked)

    assert found.returncode == pytest.ExitCode.INTERRUPTED, found.stdout
    assert f"{repository / 'pyproject.toml'}: [tool.fsm.against]: 'doro' is not the name of a model" in found.stdout
    assert "did you mean 'door'?" in found.stdout
    assert "1 error in" in found.stdout
    assert "Traceback" not in found.stdout


@pytest.mark.slow
def test_an_option_for_a_model_that_is_nowhere_is_refused(repository: Path) -> None:
    found = called(repository, "models", "--fsm-against", "doro=reference")

    assert found.returncode == pytest.ExitCode.INTERRUPTED, found.stdout
    assert "--fsm-against: 'doro' is not the name of a model" in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("where", ["models/gate.toml", "parts/yard/models/gate.toml", "lifecycles/gate.toml", "name"])
@pytest.mark.parametrize("asked", ["models/door.toml", "properties/door.toml"])
def test_a_model_that_is_not_collected_is_known(repository: Path, asked: str, where: str) -> None:
    """A model anywhere in the repository is known, even behind a link and even if only other tests are run."""
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
    """Pytest may run in the folder of the models, as editors do.

    SUT modules are still looked up beside pyproject.toml, and the error for a missing module names that folder.
    """
    asks(repository, '[tool.fsm]\nagainst = "python:carpenter:Jammed"\n')
    assert "violation: " in called(repository, inside="models").stdout

    asks(repository, '[tool.fsm]\nagainst = "python:carpentry:Door"\n')
    found = called(repository, inside="models")

    conforms(found, fails=True)
    assert f"modules are searched for in {repository} and in the Python installation" in found.stdout


GHOST = """

class Ghost(Door):
    def do(self, event):
        self.at = "shut" if event == "push" else self.at
        return super().do(event)
"""


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["", "models"])
def test_the_command_that_repeats_a_failure_is_told(repository: Path, inside: str) -> None:
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
        surprise = "--replay" in each and "  surprise: " in again.stdout  # a surprise is not a failure
        assert (again.returncode, again.stderr) == (3 if surprise else 1, ""), again.stdout
