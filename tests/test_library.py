"""Models and properties are found by name or path, and cached until their file changes."""

from __future__ import annotations

import zipfile
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from machines import DOOR, edited

import fsm
from fsm.errors import InputError
from fsm.language import library
from fsm.language.library import claims, load, names, specification, specified, systems

STATED = """\
machine = "door"

[property.gone-for-good]
says   = "A door that was taken away does not come back."
SHOULD = "handbook, section 5"
never  = "gone then not gone"
"""


@pytest.fixture
def door(tmp_path: Path) -> Path:
    for folder, text in (("models", DOOR), ("properties", STATED)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "door.toml").write_text(text, encoding="utf-8")
    return tmp_path / "models" / "door.toml"


def test_models_in_a_zip_file_are_unpacked(door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = door.parent.parent / "fsm.zip"
    with zipfile.ZipFile(file, "w") as packed:
        for path in (door, door.parent.parent / "properties" / "door.toml"):
            packed.write(path, f"fsm/_shipped/{path.parent.name}/{path.name}")
    library.home()  # is cached, and must not become the folder of this test
    monkeypatch.setattr(library, "files", lambda _: zipfile.Path(file, "fsm/"))

    home = library.home.__wrapped__()
    found = claims(str(home / "models" / "door.toml"))

    assert (("gone-for-good",), home) == (tuple(each.name for each in found.properties), Path(found.path).parent.parent)
    assert home != door.parent.parent


def test_the_same_file_is_the_same_machine(door: Path) -> None:
    """Loading an unchanged file again returns the same object, which lets engines cache results."""
    assert load(str(door)) is load(str(door))
    assert load("cri-pod") is load("cri-pod")
    assert specification(str(door)).machine is load(str(door))


def test_a_file_that_has_changed_is_read_anew(door: Path) -> None:
    before = specification(str(door))
    door.write_text(edited(DOOR, "A door that is pushed opens", "A door opens"), encoding="utf-8")
    stated = door.parent.parent / "properties" / "door.toml"
    stated.write_text(STATED.replace("gone-for-good", "never-back"), encoding="utf-8")

    after = specification(str(door))

    assert ["gone-for-good"] == [each.name for each in before.properties]
    assert ["never-back"] == [each.name for each in after.properties]
    assert "A door opens, or is open already." == after.machine.clauses["push-opens"].says


def test_the_same_text_elsewhere_is_another_machine(door: Path) -> None:
    other = door.with_name("other.toml")
    other.write_bytes(door.read_bytes())

    assert (str(door), str(other)) == (load(str(door)).path, load(str(other)).path)


def test_a_mistake_is_told_again_and_mended_at_once(door: Path) -> None:
    door.write_text(edited(DOOR, 'initial = "shut"', 'initial = "shutt"'), encoding="utf-8")
    for _ in range(2):
        with pytest.raises(InputError, match="did you mean 'shut'"):
            load(str(door))
    door.write_text(DOOR, encoding="utf-8")

    assert "shut" == load(str(door)).initial


@pytest.mark.installed
def test_all_that_is_shipped_is_found() -> None:
    assert names() == specified()
    assert [*names(), *systems()] == [claims(name).machine.name for name in (*names(), *systems())]


@pytest.mark.installed
@pytest.mark.parametrize("name", sorted(each.name for each in walk_packages(fsm.__path__, "fsm.")))
def test_every_module_can_be_imported(name: str) -> None:
    import_module(name)


def test_what_a_file_names_is_a_file(tmp_path: Path) -> None:
    """A model must be a regular file, because reading a pipe or a device may never end."""
    system = (
        '[system]\nname = "s"\ntitle = ""\nabout = ""\nsource = ""\n[part]\na = { machine = "/dev/null" }\n[event]\n'
    )
    stated = STATED.replace('"door"', '"/dev/null"')
    for read, text in ((fsm.load_system, system), (claims, stated)):
        (tmp_path / "naming.toml").write_text(text, encoding="utf-8")

        with pytest.raises(InputError, match="machine '/dev/null': this is not an ordinary file"):
            read(str(tmp_path / "naming.toml"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("door", "door: this is not the name of a model [FSM001]\n    did you mean models/door.toml?"),
        ("doors", "did you mean models/door.toml?"),
        ("gate", "did you mean gate.toml?"),
        ("cri-pods", "did you mean 'cri-pod'? 'fsm list' prints all names"),
        ("zebra", "models: container-events, "),
        (
            "models",
            "models: the file cannot be opened: is a directory [FSM001]\n    give a file in this folder, such as models/cri-pod.toml",
        ),
        ("./models/", "give a file in this folder, such as models/cri-pod.toml"),
        ("empty", "empty: the file cannot be opened: is a directory [FSM001]\n    give the path of a model file"),
    ],
)
def test_what_is_likely_meant_is_told(
    name: str, says: str, door: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "gate.toml").write_bytes(door.read_bytes())
    (tmp_path / "models" / "cri-pod.toml").write_bytes(door.read_bytes())
    monkeypatch.chdir(tmp_path)

    for read in (load, claims):
        with pytest.raises(InputError) as caught:
            read(name)
        assert says in str(caught.value)
        assert ("container-status" in str(caught.value)) == (name == "zebra")


@pytest.mark.parametrize("model", ["door.toml", "properties/door.toml", "models/door.toml"])
def test_the_model_of_a_property_file_is_found_beside_it(model: str, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "properties").mkdir()
    (tmp_path / model).write_text(DOOR, encoding="utf-8")
    (tmp_path / "properties" / "stated.toml").write_text(STATED, encoding="utf-8")

    assert Path(claims(str(tmp_path / "properties" / "stated.toml")).machine.path) == tmp_path / model


def test_a_property_file_with_the_name_of_its_machine_is_not_this_machine(tmp_path: Path) -> None:
    (tmp_path / "door.toml").write_text(DOOR, encoding="utf-8")
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "door.toml").write_text(STATED, encoding="utf-8")

    assert claims(str(tmp_path / "claims" / "door.toml")).machine.name == "door"


@pytest.mark.parametrize("name", ["door", "dor"])
def test_a_property_file_is_told_how_to_name_a_model_elsewhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint is a path from the folder of the property file, and following it finds the model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "door.toml").write_text(DOOR, encoding="utf-8")
    stated = tmp_path / "tests" / "properties" / "door.toml"
    stated.parent.mkdir(parents=True)
    stated.write_text(STATED.replace('"door"', f'"{name}"'), encoding="utf-8")

    with pytest.raises(InputError) as caught:
        claims(str(stated))
    assert caught.value.problems[0].hint == f"did you mean {Path('..', '..', 'door.toml')}?"
    stated.write_text(STATED.replace('"door"', '"../../door.toml"'), encoding="utf-8")
    assert claims(str(stated)).machine.name == "door"


def test_a_shipped_name_is_that_also_where_a_folder_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cri-pod").mkdir()
    monkeypatch.chdir(tmp_path)

    assert "cri-pod" == load("cri-pod").name


HOUSE = "examples/models/systems/house.toml"


def test_the_wrong_kind_of_model_is_refused_with_the_call_that_loads_it(door: Path) -> None:
    for name in ("node", HOUSE):
        with pytest.raises(InputError, match="a system, but a machine is needed") as refused:
            fsm.load(name)
        assert f"in Python, fsm.load_system({name!r}) loads" in refused.value.problems[0].hint
        assert fsm.load_system(name).parts
    for name in ("cri-pod", str(door)):
        with pytest.raises(InputError, match="a machine, but a system is needed") as refused:
            fsm.load_system(name)
        assert f"in Python, fsm.load({name!r}) loads" in refused.value.problems[0].hint
        assert fsm.load(name).states


def test_a_broken_system_is_still_refused_for_its_own_errors(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("", encoding="utf-8")

    with pytest.raises(InputError, match="'system' is missing"):
        fsm.load_system(tmp_path / "empty.toml")
