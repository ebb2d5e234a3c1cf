"""The scripts in ``.ci`` install everything that tests need, and treat a skipped test as a failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from real_parts import PACKAGES, PROGRAMS, ROOT

TESTS = Path(__file__).resolve().parent.parent

SETUP = (ROOT / ".ci" / "setup").read_text(encoding="utf-8")

SKIPS = {
    "test_mark.py": "import pytest\n@pytest.mark.skipif(True, reason='no such thing')\ndef test_it(): pass\n",
    "test_call.py": "import pytest\ndef test_it(): pytest.skip('no such thing')\n",
    "test_fixture.py": (
        "import pytest\n@pytest.fixture\ndef it(): pytest.skip('no such thing')\ndef test_it(it): pass\n"
    ),
    "test_module.py": "import pytest\npytest.skip('no such thing', allow_module_level=True)\n",
    "test_import.py": "import pytest\npytest.importorskip('no_such_thing', reason='no such thing')\n",
    "doctests.py": '"""\n>>> 1  # doctest: +SKIP\n2\n"""\n',
}


@pytest.mark.parametrize(("program", "package"), PROGRAMS.items(), ids=PROGRAMS)
def test_programs_are_installed(program: str, package: str) -> None:
    assert re.search(rf"\b{program}\b", SETUP)
    assert re.search(rf"missing\+=\(([\w -]* )?{package}( [\w -]*)?\)", SETUP)


@pytest.mark.parametrize(("folder", "package"), PACKAGES.items(), ids=PACKAGES)
def test_packages_of_npm_are_installed(folder: str, package: str) -> None:
    assert re.search(rf"^    for package in .*{re.escape(package)}", SETUP, re.MULTILINE)
    assert folder == package.rpartition("/")[2].split("@")[0]


@pytest.mark.parametrize("forbidden", ["0", "1"])
def test_a_skip_is_a_failure_where_skips_are_forbidden(forbidden: str, tmp_path: Path) -> None:
    for name, text in SKIPS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "--doctest-modules"]
    ran = subprocess.run(
        [*command, "--continue-on-collection-errors", "-rfEs", *SKIPS],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS / 'support'}",
            "FSM_FORBID_SKIPS": forbidden,
            "COLUMNS": "200",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\w+\.py).* skips are forbidden", ran.stdout, re.MULTILINE))
    skipped = re.search(r" \d+ skipped in ", ran.stdout)

    assert ((set(SKIPS), False) if forbidden == "1" else (set(), True)) == (failed, bool(skipped)), ran.stdout


def test_ci_forbids_skips() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    (forbidden,) = (number for number, line in enumerate(lines) if line.startswith("export FSM_FORBID_SKIPS=1"))
    assert forbidden < next(number for number, line in enumerate(lines) if line.startswith("bash .ci/test "))


def test_what_one_script_leaves_out_the_next_runs() -> None:
    """Slow tests run before a change lands and at night.

    Tests that need a real containerd run after ``.ci/live`` has installed it.
    """
    test, run, nightly = ((ROOT / ".ci" / name).read_text(encoding="utf-8") for name in ("test", "run", "nightly"))

    assert re.findall(r' (-m "[^"]+")', test) == ['-m "not slow and not live and not nightly"']
    assert run.index('\nbash .ci/test -m "not live and not nightly"\n') < run.index("hatchling build")
    assert test.index('-m "not slow and not live and not nightly"') < test.index('"$@"'), (
        "the last -m is the one that counts"
    )
    assert "slow" not in nightly


def test_real_containerds_are_tested() -> None:
    live, nightly, make = (
        (ROOT / name).read_text(encoding="utf-8") for name in (".ci/live", ".ci/nightly", "Makefile")
    )

    assert 'marked="live and not slow"\n' in live
    assert "--all ]; then\n    marked=live\n" in live
    assert '-m "$marked" tests/live "$@" || exit 1\n' in live
    assert "conformance_matrix.py || exit 1\n" in live
    assert "containerds.py install || exit 3\n" in live
    assert "containerds.py check || exit 3\n" in live
    assert "\nbash .ci/live --all || tests=$?\n" in nightly
    assert "\tbash .ci/live\n" in make


@pytest.mark.parametrize(
    ("live", "code", "said"),
    [
        ("exit 0", 0, ""),
        ("exit 1", 1, ""),
        ("exit 3", 0, "NOT TESTED: no real containerd runs here; why is said above"),
        ("sleep 9", 1, ".ci/live took more than ten minutes\n"),
    ],
)
def test_before_a_change_lands_real_containerds_are_tested(live: str, code: int, said: str, tmp_path: Path) -> None:
    """Real containerds are tested for at most ten minutes before a change lands.

    If no real containerd can run, the last line says so, but this is not a failure.
    """
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    before, wheel, after = re.split(r"(?s)(\naway=.*-m installed[^\n]*\n)", run)
    assert " 600 bash .ci/live" in before
    limit = " 0.2 " if live.startswith("sleep") else " 60 "
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "test").write_text("", encoding="utf-8")
    (tmp_path / ".ci" / "live").write_text(live, encoding="utf-8")
    script = tmp_path / ".ci" / "run"
    script.write_text(f"{before.replace(' 600 ', limit)}\necho the wheel\n{after}", encoding="utf-8")

    ran = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False)  # noqa: S607

    assert "away=" in wheel
    assert (code, code == 0) == (ran.returncode, "the wheel" in ran.stdout)
    assert said in ran.stderr
    assert bool(said) == bool(ran.stderr)


def test_the_nightly_run_tries_more() -> None:
    script = (ROOT / ".ci" / "nightly").read_text(encoding="utf-8")

    assert "--hypothesis-profile thorough" in script
    assert "export FSM_SPIN=again" in script
    assert "export FSM_CRASHES=200" in script


def locked() -> dict[str, list[Version]]:
    """Return the versions of each library in the lock file, which may depend on the version of Python."""
    found: dict[str, list[Version]] = {}
    for line in (ROOT / ".ci" / "lock.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            (exact,) = requirement.specifier
            assert "==" == exact.operator, line
            found.setdefault(canonicalize_name(requirement.name), []).append(Version(exact.version))
    return found


def test_the_lock_has_every_dependency_within_its_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = [Requirement(each) for each in (*project["dependencies"], *(each for extra in extras for each in extra))]

    found = locked()

    for each in wanted:
        versions = found.get(canonicalize_name(each.name), [])
        assert versions, f"{each.name} is not in .ci/lock.txt: run the command in its head"
        assert all(each.specifier.contains(version) for version in versions), each
    lock = (ROOT / ".ci" / "lock.txt").read_text(encoding="utf-8")
    assert "#    uv pip compile --universal --python-version 3.11 --all-extras " in lock
    assert "://" not in lock


def test_the_lock_is_what_tests_run_with() -> None:
    """Tests run with the locked versions of libraries. Otherwise, they would run with the newest ones."""
    assert 'lock=(--constraint .ci/lock.txt)\n"${install[@]}" "${lock[@]}" --editable' in SETUP
    assert "pip-audit --requirement .ci/lock.txt" in (ROOT / ".ci" / "nightly").read_text(encoding="utf-8")


def test_no_test_asks_for_a_program_by_itself() -> None:
    asking = [
        path.name
        for path in TESTS.rglob("*.py")
        if "bench" not in path.parts and "shutil.which(" in path.read_text(encoding="utf-8")
    ]

    assert sorted(["real_parts.py", "crashing.py", "test_ci.py"]) == sorted(asking)
