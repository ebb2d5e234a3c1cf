"""The sessions and examples in README and docs show real behaviour."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from foreign_packages import installing
from guide import PAGES, ROOT, Block, blocks, check, follow, run
from real_parts import PROGRAMS, program

LINK = re.compile(r"\]\((?!https?://)([^)#]+)")
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}

TUTORIAL = [page for page in PAGES if page.parent.name == "tutorial"]
FOLLOWED = [page for page in PAGES if page.parent.name == "how-to" and any(block.file for block in blocks(TEXTS[page]))]

EXAMPLE = TEXTS[ROOT / "README.md"].partition("## Test a class of your own")[2].partition("\n## ")[0]

SESSIONS = [
    pytest.param(block, id=block.text.splitlines()[0], marks=[pytest.mark.slow] * (page.name != "README.md"))
    for page in PAGES
    if page not in {*TUTORIAL, *FOLLOWED}
    for block in blocks(TEXTS[page].replace(EXAMPLE, ""))
    if block.kind == "console"
]


@pytest.mark.parametrize("session", SESSIONS)
def test_sessions_are_real(session: Block) -> None:
    check(session, ROOT)


def test_there_are_sessions() -> None:
    assert SESSIONS


def test_progress_is_no_part_of_a_session(tmp_path: Path) -> None:
    """Progress lines are removed from sessions, because slow machines print more of them. Other lines are kept."""
    said = r"printf 'testing: 1 of 1,007 after 10 s\ntested: 1 of 7\n' | cat"
    assert run(said, tmp_path) == "tested: 1 of 7\n"


@pytest.mark.slow
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    follow((TEXTS[page] for page in TUTORIAL), tmp_path)

    shown = {step[0] for page in TUTORIAL for block in blocks(TEXTS[page]) for step in block.steps}
    workflow = yaml.safe_load((tmp_path / ".github" / "workflows" / "lifecycle.yml").read_text(encoding="utf-8"))
    ran = [step["run"] for step in workflow["jobs"]["lifecycle"]["steps"] if "run" in step]
    assert ["pip install container-fsm pytest", "pytest models properties"] == ran
    assert any(command.startswith(ran[1]) for command in shown)


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.name)
def test_the_page_can_be_followed(page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for command, _ in (step for block in blocks(TEXTS[page]) for step in block.steps):
        for word in {*re.findall(r"\w+", command)} & {*PROGRAMS}:
            program(word)

    variables = installing(tmp_path_factory.mktemp("site"), tmp_path) if "$ pip " in TEXTS[page] else None
    follow([TEXTS[page]], tmp_path, variables)


@pytest.mark.parametrize("page", [*TUTORIAL, *FOLLOWED], ids=lambda page: page.name)
def test_files_are_named_in_the_text(page: Path) -> None:
    """The text before a code block names its file, because plain Markdown does not show the block's title."""
    text = TEXTS[page]
    for block in blocks(text):
        if block.file:
            before, text = text.split(f"```{block.kind} {block.file}\n{block.text}", 1)
            assert f"`{block.file}`" in before.rpartition("```")[2], f"{block.file} is not named before it"


def test_each_page_of_the_tutorial_leads_to_the_next() -> None:
    doors = [re.findall(r"^Next: .*\]\((.*)\)$", TEXTS[page], re.MULTILINE) for page in TUTORIAL]

    assert [*([page.name] for page in TUTORIAL[1:]), []] == doors


DOOR = """\
```toml door.toml
[machine]
name    = "door"
title   = "A door"
about   = "Opens."
source  = "the carpenter"
initial = "shut"

[states]
shut = { about = "Closed." }
open = { about = "Open." }

[event.push]
about = "Open the door."
moves = { shut = "open" }
```

```diff door.toml
 about = "Open the door."
+ignores = ["open"]
```

```console
$ cat door.toml | tail -n 2
ignores = ["open"]
moves = { shut = "open" }
$ fsm show door.toml | head -n 1
door: A door
```
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("door: A door", "door: A window"),
        ('\nignores = ["open"]\nmoves', "\nmoves"),
        (' about = "Open the door."', ' about = "Shut the door."'),
        ("$ fsm show door.toml | head -n 1\ndoor: A door\n", "$ fsm show door.toml | head -n 1\n"),
        ("```console\n", "```console\nHere:\n"),
        ("```toml door.toml", "```toml gate.toml"),
    ],
)
def test_a_page_that_cannot_be_followed_is_noticed(right: str, wrong: str, tmp_path: Path) -> None:
    follow([DOOR], tmp_path)
    (tmp_path / "again").mkdir()
    assert right in DOOR

    with pytest.raises((AssertionError, FileNotFoundError)):
        follow([DOOR.replace(right, wrong)], tmp_path / "again")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(TEXTS[page]):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize(("page", "most"), [("README.md", 130), ("ARCHITECTURE.md", 150)])
def test_the_first_pages_are_short(page: str, most: int) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= most


def test_the_example_of_the_readme_can_be_followed(tmp_path: Path) -> None:
    follow([EXAMPLE], tmp_path)

    assert 8 == len((tmp_path / "billing.toml").read_text(encoding="utf-8").splitlines())


def _commands() -> list[str]:
    return [block.text for block in blocks(TEXTS[ROOT / "README.md"]) if block.kind == "sh"]


def test_first_command_judges_three_logs() -> None:
    (first, *_) = _commands()
    judged = first.split("&&")[1].strip().replace(".venv/bin/fsm", "fsm")

    printed = run(f"{judged}; echo exit $?", ROOT)

    *verdicts, code = printed.splitlines()[-4:]
    assert (["fails", "holds", "holds"], "exit 1") == ([line.split()[0] for line in verdicts], code)


def test_ci_calls_the_test_command() -> None:
    (_, test, *_) = _commands()

    assert (
        f'{test.strip()} -m "not live and not nightly"'
        in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    )


def test_scripts_of_the_docs_are_there() -> None:
    for name in re.findall(r"bash (\.ci/\w+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert os.access(ROOT / name, os.X_OK), name
