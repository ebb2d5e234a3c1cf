"""Packages can extend fsm, even if other packages are broken, conflicting or unwanted."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

import pytest
from commands import FAILING, HOLDING, PLAIN, fsm, process
from foreign_packages import FORM, ROOT, declare, fsm_with, install

from fsm.runtimes import ENTRY_POINTS

MODEL: Final = (ROOT / "examples" / "models" / "door.toml").read_text(encoding="utf-8")

BROKEN: Final = {
    "import": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "exit": ("raise SystemExit(4)", "SystemExit: 4"),
    "attribute": ("", "AttributeError: module 'broken' has no attribute 'DOMAIN'"),
    "kind": ("DOMAIN = 'jobs'", "TypeError: the object is a str, not a Domain"),
    "folder": (
        "from fsm.entry_points import Domain\nDOMAIN = Domain(name='a', about='b', models='email:models')",
        "FileNotFoundError",
    ),
}
"""The source code of domains that cannot be loaded, with the resulting errors."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_domain_is_one_warning(kind: str, tmp_path: Path) -> None:
    source, wrong = BROKEN[kind]
    install(tmp_path, "broken", source, {"fsm.domains": "jobs = broken:DOMAIN"}, version="2.5")

    listed = process("list", env={"PYTHONPATH": str(tmp_path)})

    assert 0 == listed.returncode
    assert fsm("list").stdout == listed.stdout
    (warning,) = listed.stderr.splitlines()
    assert warning.startswith(f"warning: fsm.domains 'jobs' of broken 2.5 cannot be loaded: {wrong}")


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [(None, "FileNotFoundError"), ("x =", "TOMLDecodeError"), ('[rules.A1]\nfinds = "x"', "TypeError")],
)
def test_unreadable_rules_of_a_package_are_one_warning(rules: str | None, wrong: str, tmp_path: Path) -> None:
    """The warning names the distribution, and the rules of fsm itself can still be explained."""
    source = "from fsm.entry_points import Domain\nDOMAIN = Domain(name='a', about='b', codes='broken:codes.toml')"
    (package := tmp_path / "broken").mkdir()
    (package / "__init__.py").write_text(source, encoding="utf-8")
    declare(tmp_path, "broken", {"fsm.domains": "jobs = broken:DOMAIN"}, version="2.5")
    if rules is not None:
        (package / "codes.toml").write_text(rules, encoding="utf-8")

    explained = process("explain", "FSM104", env={"PYTHONPATH": str(tmp_path)})

    assert (0, fsm("explain", "FSM104").stdout) == (explained.returncode, explained.stdout)
    (warning,) = explained.stderr.splitlines()
    assert warning.startswith(f"warning: fsm.domains 'jobs' of broken 2.5 cannot be loaded: {wrong}")


@pytest.mark.slow
def test_a_broken_form_is_one_warning_and_no_verdict(tmp_path: Path) -> None:
    install(tmp_path, "broken", "import no_such_module", {"fsm.recordings": "a = broken:FORM"})
    install(tmp_path, "raising", FORM.replace("assert", "assert not"), {"fsm.recordings": "b = raising:FORM"})
    environment = {"PYTHONPATH": str(tmp_path)}

    unknown, known = (
        process("judge", "-", stdin=b"hello\nworld, hello\n", env=environment),
        process("judge", HOLDING, env=environment),
    )

    assert 3 == unknown.returncode
    first, second = unknown.stderr.splitlines()
    assert first.startswith("warning: fsm.recordings 'a' of broken 1.0 cannot be loaded: ModuleNotFoundError")
    assert "warning: the form of recording 'NAME' failed and is skipped: AssertionError: 18 bytes" == second
    assert (0, "") == (known.returncode, known.stderr)


def test_two_forms_that_claim_a_recording_are_an_error(tmp_path: Path) -> None:
    install(tmp_path, "ones", FORM.replace("NAME", "bar-log"), {"fsm.recordings": "bar-log = ones:FORM"})
    log = tmp_path / "bar.log"
    log.write_text("| restart\n", encoding="utf-8")
    alone = fsm_with(tmp_path, "judge", str(log))
    install(tmp_path, "others", FORM.replace("NAME", "pipe-log"), {"fsm.recordings": "pipe-log = others:FORM"})

    both = fsm_with(tmp_path, "judge", str(log))
    chosen = fsm_with(tmp_path, "judge", "--form", "pipe-log", str(log))
    misspelt = fsm_with(tmp_path, "judge", "--form", "pip-log", str(log))

    assert ("bar.log: bar-log", "") == (alone.stdout.splitlines()[0].rpartition("/")[2], alone.stderr)
    assert 2 == both.returncode
    assert (
        "several forms recognise the recording: bar-log and pipe-log [FSM220]\n    select one of them, as with --form bar-log\n"
        in both.stderr
    )
    assert ("bar.log: pipe-log", "") == (chosen.stdout.splitlines()[0].rpartition("/")[2], chosen.stderr)
    assert (2, True) == (misspelt.returncode, "did you mean 'pipe-log'?" in misspelt.stderr)


FOLDER: Final = """\
from pathlib import Path

from fsm import Observation
from fsm.recordings.form import RecordingForm, recorded
from fsm.trace import batch


def opened(opening):
    found = [(1, Observation(entity=each.stem, of="container", event="restart")) for each in Path(opening.name).iterdir()]
    return recorded(opening.form, opening.name, iter([batch(found)]), opening.notes)


FORM = RecordingForm(
    name="spool",
    title="spool",
    sniff=lambda _: False,
    claims=lambda name: any(Path(name).glob("*.job")),
    open=opened,
    machines=("container-status",),
)
"""


def test_a_form_may_claim_a_folder(tmp_path: Path) -> None:
    install(tmp_path, "spools", FOLDER, {"fsm.recordings": "spool = spools:FORM"})
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "a.job").touch()

    judged = fsm_with(tmp_path, "judge", "spool", cwd=tmp_path)

    assert ("spool: spool", "") == (judged.stdout.splitlines()[0], judged.stderr)
    assert 2 == fsm("judge", "spool", cwd=tmp_path).returncode


@pytest.mark.slow
@pytest.mark.parametrize("size", [1 << 16, 3 << 20])
def test_a_form_is_asked_about_64_kib(size: int, tmp_path: Path) -> None:
    install(tmp_path, "bars", FORM, {"fsm.recordings": "NAME = bars:FORM"})
    environment = {"PYTHONPATH": str(tmp_path)}

    long = process("judge", "-", stdin=b"x" * size, env=environment)
    many = process("judge", "-", stdin=b"short line\n" * 1000 + b"|\n" + b"y" * size + b"\n", env=environment)

    assert (3, "") == (long.returncode, long.stderr)
    assert "standard input: NAME" in many.stdout
    assert "" == many.stderr


TWICE: Final = {
    "fsm.recordings": ("jobs", "bars", FORM, ["judge", "--form", "jobs", HOLDING]),
    "fsm.suts": ("jobs", "suts", "", ["test", "cri-pod", "--against", "jobs:here"]),
    "fsm.commands": ("jobs", "commands", "", ["jobs"]),
}
"""For each group of entry points, a name that two packages add, and a command that uses the name."""


@pytest.mark.parametrize("group", TWICE)
def test_a_name_that_two_packages_add_is_refused(group: str, tmp_path: Path) -> None:
    """If two packages add the same name, the message names both packages."""
    name, module, source, words = TWICE[group]
    install(tmp_path, module, source, {group: f"{name} = {module}:FORM"})
    install(tmp_path, "the-other", source, {group: f"{name} = the_other:FORM"}, version="0.9")

    asked = fsm_with(tmp_path, *words)

    assert 2 == asked.returncode
    assert f"{name}: two packages add this name to {group}: {module} 1.0 and the-other 0.9 [FSM221]" in asked.stderr


def _with_models(site: Path, name: str, model: str) -> None:
    source = (
        f"from fsm.entry_points import Domain\nDOMAIN = Domain(name='{name}', about='', models='{name}_data:models')"
    )
    install(site, name, source, {"fsm.domains": f"{name} = {name}:DOMAIN"})
    (site / f"{name}_data" / "models").mkdir(parents=True)
    (site / f"{name}_data" / "models" / f"{model}.toml").write_text(MODEL, encoding="utf-8")


def test_a_model_that_two_packages_add_is_refused(tmp_path: Path) -> None:
    _with_models(tmp_path, "first", "door")
    _with_models(tmp_path, "third", "container-status")
    alone, shipped = fsm_with(tmp_path, "show", "door"), fsm_with(tmp_path, "show", "container-status")
    _with_models(tmp_path, "second", "door")

    both = fsm_with(tmp_path, "show", "door")

    assert (0, "door:") == (alone.returncode, alone.stdout.split()[0])
    assert fsm("show", "container-status").stdout == shipped.stdout
    assert 2 == both.returncode
    assert "second_data/models/door.toml: the model has the same name as" in both.stderr
    assert "first_data/models/door.toml [FSM221]" in both.stderr


COMMANDS: Final = """\
import time

import click

from fsm.entry_points import DomainCommand


@click.command("count")
@click.argument("number", type=int)
def count(number):
    return number


@click.command("wait")
def wait():
    return {"limit": None}


COUNT = DomainCommand(about="Count.", target="counting:count")
WAIT = DomainCommand(about="Wait.", target="counting:wait", endless=True)
LOST = DomainCommand(about="Do nothing.", target="counting:lost")
JUDGE = DomainCommand(about="Judge differently.", target="counting:wait")
"""


def test_commands_of_packages(tmp_path: Path) -> None:
    lines = "count = counting:COUNT\nwait = counting:WAIT\nlost = counting:LOST\njudge = counting:JUDGE"
    install(tmp_path, "counting", COMMANDS, {"fsm.commands": lines})

    lost = fsm_with(tmp_path, "lost")

    assert (7, "") == (fsm_with(tmp_path, "count", "7").returncode, fsm_with(tmp_path, "count", "7").stdout)
    assert (0, "limit  None\n") == (fsm_with(tmp_path, "wait").returncode, fsm_with(tmp_path, "wait").stdout)
    assert 2 == lost.returncode
    assert (
        "counting:lost: the declared object cannot be loaded: AttributeError: module 'counting' has no attribute 'lost' [FSM223]"
        in lost.stderr
    )
    assert 0 == fsm_with(tmp_path, "judge", HOLDING).returncode
    assert "Other packages:\n  count " in fsm_with(tmp_path, "--help").stdout
    assert "Judge differently" not in fsm_with(tmp_path, "--help").stdout


def test_an_endless_command_has_no_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def limited(most: float, _memory: int) -> AbstractContextManager[None]:
        limits.append(most)
        return nullcontext()

    monkeypatch.setattr("fsm.cli.INTERRUPTION.limited", limited)
    install(tmp_path, "counting", COMMANDS, {"fsm.commands": "count = counting:COUNT\nwait = counting:WAIT"})

    fsm_with(tmp_path, "count", "7")
    fsm_with(tmp_path, "wait")

    assert [300, float("inf")] == limits


def test_the_table_of_the_runtimes_is_their_entry_points() -> None:
    """``fsm.runtimes`` declares the same entry points as ``pyproject.toml``, in the same order."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {group: names for group, names in project["entry-points"].items() if group.startswith("fsm.")}

    assert [*declared.items()] == [(group, dict(names)) for group, names in ENTRY_POINTS.items()]
    assert all([*declared[group]] == [*names] for group, names in ENTRY_POINTS.items())


SPY: Final = """\
import importlib.metadata, sys
asked = []
original = importlib.metadata.entry_points
def entry_points(**given):
    asked.append(given)
    return original(**given)
importlib.metadata.entry_points = entry_points
from fsm.__main__ import main
sys.argv = ["fsm", *sys.argv[1:]]
try:
    main()
finally:
    print([each for each in asked if str(each.get("group")).startswith("fsm.")], file=sys.stderr)
"""
"""A program that runs fsm, and then prints the groups of entry points that fsm has read."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["--version"], False),
        (["judge", FAILING], False),
        (["show", "cri-pod"], False),
        (["--help"], True),
        (["judge", str(ROOT / "LICENSE")], True),
    ],
)
def test_metadata_is_read_only_if_needed(words: list[str], read: bool) -> None:  # noqa: FBT001
    ran = subprocess.run([sys.executable, "-c", SPY, *words], capture_output=True, env=PLAIN, text=True, check=False)

    assert read == ("'group': 'fsm." in ran.stderr), ran.stderr
    assert ran.stderr.endswith("]\n")


FORM_OF: Final = "import sys; from fsm.recordings import open_recording; print(open_recording(sys.argv[1]).form.name)"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libraries")
    for each in Path(pytest.__file__).parent.parent.iterdir():
        if "container_fsm" not in each.name and each.suffix != ".pth":
            (folder / each.name).symlink_to(each)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("place", ["wheel", "folder", "zip"])
def test_container_runtimes_are_found_wherever_fsm_is(place: str, wheel: Path, libraries: Path, tmp_path: Path) -> None:
    where = tmp_path / place
    with zipfile.ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if place == "wheel" or name.startswith("fsm/")]
        if place == "zip":
            with zipfile.ZipFile(where, "w") as other:
                for name in names:
                    other.writestr(name, packed.read(name))
        else:
            packed.extractall(where, names)

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        """Run Python in an environment that contains only this copy of fsm."""
        environment = PLAIN | {"PYTHONPATH": f"{where}:{libraries}"}
        command = [sys.executable, "-S", *words]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    helped = python("-m", "fsm", "--help")
    assert ("containerd-log\n", "") == (python("-c", FORM_OF, FAILING).stdout, helped.stderr)
    assert all(f"\n  {name} " in helped.stdout for name in ("record", "proxy", "serve"))
    assert "Usage: python -m fsm serve" in python("-m", "fsm", "serve", "--help").stdout
    assert 1 == python("-m", "fsm", "judge", FAILING).returncode
    assert 0 == python("-m", "fsm", "check", "cri-container", "sandbox-record").returncode
    assert python("-m", "fsm", "explain", "FSM104").stdout.startswith("FSM104: ")


@pytest.mark.slow
def test_container_runtimes_are_found_in_an_editable_install(tmp_path: Path) -> None:
    """The checkout under test is an editable install.

    Without ``fsm.runtimes``, it lacks the runtimes' commands.
    """
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['fsm.runtimes'] = None\n", encoding="utf-8")
    without = {"PYTHONPATH": str(tmp_path), "FSM_NO_PLUGINS": "1"}

    assert 1 == process("judge", FAILING).returncode
    assert "\n  serve " in process("--help").stdout
    assert "\n  serve " not in process("--help", env=without).stdout


def test_a_broken_model_of_a_package_is_one_warning(tmp_path: Path) -> None:
    (package := tmp_path / "broken").mkdir()
    (package / "__init__.py").write_text(
        "from fsm.entry_points import Domain\nDOMAIN = Domain(name='a', about='b', models='broken:')", encoding="utf-8"
    )
    (package / "door.toml").write_text(MODEL, encoding="utf-8")
    (package / "hatch.toml").write_text(MODEL.replace('initial = "shut"', 'initial = "sut"'), encoding="utf-8")
    declare(tmp_path, "broken", {"fsm.domains": "jobs = broken:DOMAIN"}, version="2.5")

    listed = process("list", env={"PYTHONPATH": str(tmp_path)})

    assert 0 == listed.returncode
    assert fsm("list").stdout in listed.stdout
    assert "\n  door " in listed.stdout
    assert "hatch.toml" in listed.stderr
    assert "[FSM" in listed.stderr


def test_a_reference_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    (package := tmp_path / "jobs").mkdir()
    source = "DOMAIN = Domain(name='a', about='b', models='jobs:', references={'door': 'jobs:Dor'})"
    (package / "__init__.py").write_text(f"from fsm.entry_points import Domain\n{source}", encoding="utf-8")
    (package / "door.toml").write_text(MODEL, encoding="utf-8")
    declare(tmp_path, "jobs", {"fsm.domains": "jobs = jobs:DOMAIN"})

    tested = fsm_with(tmp_path, "test", "door", "--against", "reference")

    assert 2 == tested.returncode
    assert "has no attribute 'Dor'" in tested.stderr
    assert "[FSM223]" in tested.stderr


def test_an_option_that_fsm_test_has_is_left_out_of_a_scheme(tmp_path: Path) -> None:
    source = (
        "from fsm.conformance.scheme import Scheme, SchemeOption\n"
        "SCHEME = Scheme(name='jobs', rest='', about='', factory=None, options=(SchemeOption(name='--examples'),))"
    )
    install(tmp_path, "jobs", source, {"fsm.suts": "jobs = jobs:SCHEME"}, version="2.5")

    helped = process("test", "--help", env={"PYTHONPATH": str(tmp_path)})

    assert 0 == helped.returncode
    assert helped.stdout.count("--examples") == fsm("test", "--help").stdout.count("--examples")
    (warning,) = helped.stderr.splitlines()
    assert "jobs 2.5" in warning
    assert "fsm test already has an option --examples" in warning
