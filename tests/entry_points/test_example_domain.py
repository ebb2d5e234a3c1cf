"""The example package in ``examples/domain`` can be installed and used."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from commands import FSM, PLAIN, fsm, process
from foreign_packages import EXAMPLE, ROOT, fsm_with, importable, install, install_example
from guide import blocks

from fsm.machine.findings import Illegal
from fsm.monitor.judgement import judge
from fsm.verdict import Holds

pytestmark = pytest.mark.slow

LOG = str(EXAMPLE / "queue.log")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    install_example(folder)
    return folder


def test_its_model_is_listed_and_checked(site: Path) -> None:
    listed, checked = fsm_with(site, "list"), fsm_with(site, "check", "job")

    assert "Models of other packages\n  job " in listed.stdout
    assert (0, "") == (checked.returncode, checked.stderr)
    assert "holds: 2 properties hold" in checked.stdout
    assert "other packages" not in fsm("list").stdout
    assert 2 == fsm("check", "job").returncode


def test_its_model_is_explored_and_compared_by_name(site: Path, tmp_path: Path) -> None:
    explored = fsm_with(site, "explore", "job", "-o", str(tmp_path / "job.html"))
    compared = fsm_with(site, "diff", "job", "examples/models/door.toml", cwd=ROOT)

    assert (0, "") == (explored.returncode, explored.stderr)
    assert (1, "") == (compared.returncode, compared.stderr)
    assert "FSM001" in fsm("explore", "job").stderr
    assert "FSM401" in fsm("diff", "job", "door.toml").stderr


def test_its_log_is_recognised_and_its_violation_found(site: Path) -> None:
    judged = fsm_with(site, "judge", "--properties", LOG)
    legal = fsm_with(site, "judge", "-", stdin=b"".join(Path(LOG).read_bytes().splitlines(keepends=True)[:-1]))

    assert (1, "") == (judged.returncode, judged.stderr)
    assert "queue.log: job log\n" in judged.stdout
    assert "violation: take replied ok" in judged.stdout
    assert "queue.log:9 " in judged.stdout
    assert "runs-once (MUST)" in judged.stdout
    assert "properties: " in judged.stdout
    assert (0, "") == (legal.returncode, legal.stderr)
    assert 3 == fsm("judge", LOG).returncode


def test_foreign_lines_are_counted(site: Path) -> None:
    judged = fsm_with(site, "judge", "-", stdin=Path(LOG).read_bytes() + b"\nqueue is full\n")

    assert "1 foreign or damaged line" in judged.stdout


def test_rotated_logs_are_put_in_order(site: Path, tmp_path: Path) -> None:
    lines = Path(LOG).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "a.log").write_text("".join(lines[5:8]), encoding="utf-8")
    (tmp_path / "b.log").write_text("".join(lines[:5]), encoding="utf-8")

    judged = fsm_with(site, "judge", "--rotated", "a.log", "b.log", cwd=tmp_path)

    assert 0 == judged.returncode, judged.stdout
    assert "2 jobs, 8 observations" in judged.stdout


@pytest.mark.parametrize(("bug", "code"), [([], 0), (["--bug"], 1)])
def test_the_queue_is_tested_over_tcp(bug: list[str], code: int, site: Path) -> None:
    test = [FSM, "test", "job", "--against", "jobs:{address}", "--queue", "mail", "--examples", "5"]
    tested = subprocess.run(
        [sys.executable, str(EXAMPLE / "queue_server.py"), *bug, *test],
        env=PLAIN | {"PYTHONPATH": str(site)},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )

    assert (code, "") == (tested.returncode, tested.stderr.replace("testing", "").partition(":")[0])
    assert "reached 13 of 13 reachable (event, state) pairs" in tested.stdout
    assert bool(bug) == ("runs-once (MUST)" in tested.stdout)
    assert bool(bug) == ("--queue mail --replay 'submit; take; finish; take'" in tested.stdout)


def test_an_address_that_cannot_be_used_is_wrong_input(site: Path) -> None:
    no_port = fsm_with(site, "test", "job", "--against", "jobs:localhost")
    nobody = fsm_with(site, "test", "job", "--against", "jobs:127.0.0.1:1")

    assert (2, "use jobs:HOST:PORT") == (no_port.returncode, no_port.stderr.split("\n")[1].strip())
    assert (2, "check that the system is running at this address") == (
        nobody.returncode,
        nobody.stderr.split("\n")[1].strip(),
    )


def test_the_option_belongs_to_its_scheme(site: Path) -> None:
    described = fsm_with(site, "test", "--help")
    other = fsm_with(site, "test", "job", "--against", "model:job", "--queue", "mail")

    assert "jobs:HOST:PORT" in described.stdout
    assert "--queue NAME" in described.stdout
    assert "--queue" not in fsm("test", "--help").stdout
    assert (2, True) == (other.returncode, "No such option '--queue'" in other.stderr)


def test_its_command_prints_the_data_that_it_returns(site: Path) -> None:
    ran = fsm_with(site, "jobs", LOG)

    assert (0, "job     attempts\nmail-1  1\nmail-2  3\n", "") == (ran.returncode, ran.stdout, ran.stderr)
    assert "Job queues:\n  jobs " in fsm_with(site, "--help").stdout
    assert "Usage: fsm jobs [OPTIONS] LOG" in fsm_with(site, "help", "jobs").stdout
    assert "no command 'jobs'" in fsm("jobs", LOG).stderr


@pytest.mark.parametrize(("option", "variables"), [(["--no-plugins"], {}), ([], {"FSM_NO_PLUGINS": ""})])
def test_packages_can_be_left_out(option: list[str], variables: dict[str, str], site: Path) -> None:
    """An option or a variable turns off everything that packages add."""
    assert "job" not in fsm_with(site, *option, "list", env=variables).stdout.split()
    assert "Job queues" not in fsm_with(site, *option, "--help", env=variables).stdout
    assert 2 == fsm_with(site, *option, "jobs", LOG, env=variables).returncode
    assert 3 == fsm_with(site, *option, "judge", LOG, env=variables).returncode
    assert 2 == fsm_with(site, *option, "test", "job", "--against", "jobs:127.0.0.1:1", env=variables).returncode


@pytest.mark.parametrize("words", ["fsm ", "fsm check ", "fsm test cri-pod --against "])
def test_completion_is_as_without_it(words: str, site: Path) -> None:
    """Completion ignores packages, because reading their metadata at each key press is slow."""
    typed = {"_FSM_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}

    offered = fsm_with(site, env=typed)

    assert fsm(env=typed).stdout == offered.stdout
    assert offered.stdout


def test_the_page_has_the_files_of_the_example() -> None:
    page = (ROOT / "docs" / "how-to" / "domain.md").read_text(encoding="utf-8")
    shown = {each.file: each.text for each in blocks(page) if each.file}
    files = [each for each in EXAMPLE.rglob("*.*") if each.is_file() and "__pycache__" not in each.parts]
    written = {str(each.relative_to(EXAMPLE)): each.read_text(encoding="utf-8") for each in files}

    readme = written.pop("README.md")
    assert written == shown
    assert len(readme.splitlines()) <= 12
    assert (
        sum(text.count("\n") for name, text in written.items() if name.startswith("fsm_jobs/") and name.endswith(".py"))
        <= 150
    )


def test_the_page_shows_the_warning(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "domain.md").read_text(encoding="utf-8")
    install(tmp_path, "fsm-jobs", "import redis", {"fsm.domains": "jobs = fsm_jobs:DOMAIN"}, version="0.1.0")

    listed = process("list", env={"PYTHONPATH": str(tmp_path)})

    assert listed.stderr in [each.text for each in blocks(page)]


def test_the_rule_on_the_page_accuses(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "how-to" / "domain.md").read_text(encoding="utf-8")
    (rule,) = [
        code
        for code in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "class FewAtATime" in code
    ]
    (tmp_path / "page_rules.py").write_text(rule, encoding="utf-8")
    words = [f"{event} mail-{job}" for event in ("submit", "take") for job in "123"]
    log = tmp_path / "queue.log"
    log.write_text("".join(f"2026-11-26T10:00:0{at}.004Z queue: {each} -> ok\n" for at, each in enumerate(words)))

    with importable(site), importable(tmp_path):
        module = importlib.import_module("fsm_jobs.job_log")
        monkeypatch.setattr(module, "JOB_LOG", replace(module.JOB_LOG, judge="page_rules:FewAtATime"))
        three = judge(log)
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
        two = judge(log)

    [found] = three.judgements
    assert isinstance(found.verdict, Illegal)
    assert [(each.first[0].clause.name, each.first[0].line) for each in found.verdict.findings] == [
        ("few-at-a-time", 6)
    ]
    assert [type(each.verdict) for each in two.judgements] == [Holds]
