"""Properties by name, of a machine as it was loaded, or as a profile has it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from machines import DOOR
from thorough import TIMES

from fsm.checker import check, examine
from fsm.errors import InputError
from fsm.library import claims, load, load_system, specified
from fsm.property.evidence import Proved, Refuted
from fsm.verdict import Unknown

if TYPE_CHECKING:
    from pathlib import Path

PROPERTIES = """\
machine = "door"

[property.gone-for-good]
says  = "What is gone stays gone."
MUST  = "handbook, section 5"
never = "gone then open"

[property.never-open]
says  = "The door is never open."
MAY   = "nowhere"
never = "open"
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The path of a model file, with a property file where it is looked for."""
    for folder, text in (("models", DOOR), ("properties", PROPERTIES)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "door.toml").write_text(text, encoding="utf-8")
    return str(tmp_path / "models" / "door.toml")


def test_properties_of_a_model_of_ones_own(model: str) -> None:
    """They stand beside it; each has its verdict."""
    found = {each.of.name: type(each.verdict) for each in check(load(model)).checked}

    assert {"gone-for-good": Proved, "never-open": Refuted} == found


def test_only_those_that_are_named(model: str) -> None:
    (found,) = check(load(model), "never-open").checked

    assert "never-open" == found.of.name


def test_a_name_that_no_property_has_is_refused(model: str) -> None:
    with pytest.raises(ValueError, match="door has no property 'ever'; it has gone-for-good, never-open"):
        check(load(model), "ever")


def test_a_machine_without_properties_is_refused(tmp_path: Path) -> None:
    (tmp_path / "door.toml").write_text(DOOR, encoding="utf-8")

    with pytest.raises(InputError, match="has no properties"):
        check(load(str(tmp_path / "door.toml")))


def test_a_limit_is_met_and_said(model: str) -> None:
    (found,) = check(load(model), "gone-for-good", limit=1).checked

    assert Unknown(why="the search has more than 1 states") == found.verdict


@pytest.mark.parametrize("name", [name for name in specified() if load(name).profiles][:4])
def test_a_machine_under_a_profile_is_checked_as_that(name: str) -> None:
    """Whether the machine or the question says which profile."""
    machine = load(name)
    for profile in [*machine.profiles][-1 if TIMES == 1 else 0 :]:
        expected = examine(claims(name), profile)

        assert expected.checked == check(machine, profile=profile).checked == check(machine.under(profile)).checked


def test_a_system_is_checked_as_a_machine_is() -> None:
    """In each of its profiles; the defects that one mends are not there under it."""
    system = load_system("plugin-sync")
    for profile in (None, *system.profiles):
        expected = examine(claims("plugin-sync"), profile)

        assert expected.checked == check(system, profile=profile).checked == check(system.under(profile)).checked


def test_it_is_the_machine_that_is_checked(model: str) -> None:
    """And not the file again: of one that begins open, it is true that it is open."""
    ajar = replace(load(model), initial="gone")

    (found,) = check(ajar, "never-open").checked

    assert isinstance(found.verdict, Proved | Unknown)
