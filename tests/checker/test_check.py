"""``fsm.check`` checks the named properties of a machine, with or without a profile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from machines import DOOR
from thorough import TIMES

from fsm.checker import check, examine
from fsm.errors import InputError
from fsm.language.library import claims, load, load_system, specified
from fsm.machine.evidence import Proved, Refuted
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
    for folder, text in (("models", DOOR), ("properties", PROPERTIES)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "door.toml").write_text(text, encoding="utf-8")
    return str(tmp_path / "models" / "door.toml")


def test_properties_of_a_model_of_ones_own(model: str) -> None:
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

    with pytest.raises(InputError, match="the model has no properties"):
        check(load(str(tmp_path / "door.toml")))


def test_a_limit_is_met_and_said(model: str) -> None:
    (found,) = check(load(model), "gone-for-good", limit=1).checked

    assert Unknown(why="the search has more than 1 states") == found.verdict


def test_what_is_larger_than_the_limit_is_not_counted_either(tmp_path: Path) -> None:
    """Twenty parts with five states each have 5^20 joint states, too many to check or to count."""
    head = 'title = ""\nabout = ""\nsource = ""\n'
    states = "".join(f's{each} = {{ about = "" }}\n' for each in range(5))
    moves = ", ".join(f's{each} = "s{(each + 1) % 5}"' for each in range(5))
    parts = "".join(f'p{each} = {{ machine = "five", about = "" }}\n' for each in range(20))
    events = "".join(
        f'[event.go{each}]\nkind = "call"\nabout = ""\nclause = "c"\nways.w = {{ steps = ["p{each}.go"] }}\n'
        for each in range(20)
    )
    for path, text in {
        "models/five.toml": f'[machine]\nname = "five"\n{head}initial = "s0"\n[states]\n{states}'
        f'[event.go]\nkind = "call"\nabout = ""\nmoves = {{ {moves} }}\n',
        "models/systems/big.toml": f'[system]\nname = "big"\n{head}level = "MUST"\n[part]\n{parts}'
        f'[clause.c]\nsays = ""\nMUST = ""\n{events}',
        "properties/systems/big.toml": 'machine = "big"\n[property.p]\nsays = ""\nMUST = ""\n'
        f'never = "{" and ".join(f"p{each} is s4" for each in range(20))}"\n',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    system = load_system(str(tmp_path / "models" / "systems" / "big.toml"))

    found = check(system, limit=1_000)

    assert Unknown(why="the search has more than 1,000 states") == found.checked[0].verdict
    assert found.counts is None


@pytest.mark.parametrize("name", [name for name in specified() if load(name).profiles][:4])
def test_a_machine_under_a_profile_is_checked_as_that(name: str) -> None:
    machine = load(name)
    for profile in [*machine.profiles][-1 if TIMES == 1 else 0 :]:
        expected = examine(claims(name), profile)

        assert expected.checked == check(machine, profile=profile).checked == check(machine.under(profile)).checked


def test_a_system_is_checked_as_a_machine_is() -> None:
    system = load_system("plugin-sync")
    for profile in (None, *system.profiles):
        expected = examine(claims("plugin-sync"), profile)

        assert expected.checked == check(system, profile=profile).checked == check(system.under(profile)).checked


def test_it_is_the_machine_that_is_checked(model: str) -> None:
    ajar = replace(load(model), initial="gone")

    (found,) = check(ajar, "never-open").checked

    assert isinstance(found.verdict, Proved | Unknown)
