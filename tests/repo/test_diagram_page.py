"""``docs/how-to/from-a-diagram.md``: its models can be loaded, and mean what its diagrams and pictures show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import fsm
from guide import ROOT, blocks

from fsm.diagrams.draw.dot import digest
from fsm.language.library import load

PAGE = ROOT / "docs" / "how-to" / "from-a-diagram.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = {block.file: block.text for block in blocks(TEXT) if block.kind == "toml"}
PICTURES = dict(re.findall(r"^!\[.*\]\((diagram-(\w+)\.svg)\)$", TEXT, re.MULTILINE))
NESTED = {"engine", "doors", "stereo", "bus"}  # `fsm diff` reads neither histories nor regions


def _diagrams() -> dict[str, str]:
    """The diagram above the first model of each section, by the name of that model."""
    found: dict[str, str] = {}
    for section in TEXT.split("\n## "):
        diagrams = [block.text for block in blocks(section) if block.kind == "mermaid"]
        models = [Path(block.file).stem for block in blocks(section) if block.file.startswith("models/")]
        found.update(zip(models, diagrams, strict=False))
    return found


DIAGRAMS = _diagrams()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page."""
    folder = tmp_path_factory.mktemp("page")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _model(name: str) -> str:
    return next(file for file in FILES if Path(file).stem == name and file.startswith("models/"))


def test_every_example_is_a_file_and_has_a_picture() -> None:
    shown = {Path(name).stem for name in FILES if name.startswith("models/")} - {"engine", "doors"}

    assert set(PICTURES.values()) == shown
    assert {f"diagram-{name}.svg" for name in shown} == {path.name for path in PAGE.parent.glob("diagram-*.svg")}
    assert shown | {"engine"} == set(DIAGRAMS) | {"bus"}


@pytest.mark.parametrize("name", PICTURES.values())
def test_the_pictures_are_up_to_date(name: str, folder: Path) -> None:
    """To update a picture, save the model, and run ``fsm draw MODEL -o docs/how-to/diagram-NAME.svg``."""
    (made,) = re.findall(r'data-source="(.*?)"', (PAGE.parent / f"diagram-{name}.svg").read_text(encoding="utf-8"))

    assert made == digest(fsm("draw", _model(name), "--format", "dot", cwd=folder).stdout), name


@pytest.mark.parametrize("name", sorted(set(DIAGRAMS) - NESTED))
def test_the_model_means_what_the_diagram_shows(name: str, folder: Path) -> None:
    """``fsm diff`` finds no difference. If the last arrow has another event, it finds one."""
    for text, code in ((DIAGRAMS[name], 0), (re.sub(r" : (?!.* : )[^\n]*\n\Z", " : nothing\n", DIAGRAMS[name]), 1)):
        (folder / f"{name}.mmd").write_text(text, encoding="utf-8")
        compared = fsm("diff", "--complete", _model(name), f"{name}.mmd", cwd=folder)

        assert compared.returncode == code, compared.stdout + compared.stderr


@pytest.mark.parametrize("name", sorted(set(DIAGRAMS) - NESTED))
def test_guards_and_effects_of_the_diagram_are_those_of_the_model(name: str, folder: Path) -> None:
    machine = load(folder / _model(name))
    written = {way.when.text for event in machine.events.values() for way in event.outcomes() if way.when}
    updates = {
        f"{each.variable} := {each.text}"
        for event in machine.events.values()
        for way in event.outcomes()
        for each in way.updates
    }
    shown = set(re.findall(r"\[([^]*]+)\]", DIAGRAMS[name]))

    assert not shown or shown == written
    assert set(re.findall(r"[\w-]+ := [\w +-]+", DIAGRAMS[name])) == updates
