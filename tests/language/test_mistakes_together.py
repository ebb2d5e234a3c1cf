"""All errors of a file are reported together, except those that only follow from others."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tomlkit
from door_project import PROPERTIES, repository
from machines import DOOR, JOB
from thorough import TIMES

from fsm.errors import InputError
from fsm.language.build import build
from fsm.language.library import claims, load
from fsm.language.machine_file import Written
from fsm.language.read import parse, with_meaning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toml_text import Value

    from fsm.errors import Problem

SEVERAL = """\
[machine]
name    = "door"
titel   = "A door"
title   = "A door"
about   = "Opens and shuts."
source  = "nobody"
initial = "shutt"

[states]
shut = { about = "Shut.", shows = "CLOSED" }
open = { about = "Open.", shows = 1 }

[event.push]
about   = "Open it."
kind    = "cal"
moves   = { shut = "opne" }
ignores = ["open"]

[event.pull]
kind    = "call"
moves   = { open = { to = "shut", reply = "fine" } }
ignores = ["shut"]

[event.slam]
about   = "The wind shuts it."
clause  = "wind"
ignores = ["opn"]
"""
FOUND = [
    (3, "FSM010"),
    (7, "FSM101"),
    (11, "FSM012"),
    (15, "FSM012"),
    (16, "FSM104"),
    (19, "FSM011"),
    (21, "FSM012"),
    (26, "FSM108"),
    (27, "FSM102"),
]


def problems(path: Path, text: str) -> tuple[Problem, ...]:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load(path)
    return caught.value.problems


def test_both_kinds_are_reported_in_one_step(tmp_path: Path) -> None:
    together = problems(tmp_path / "door.toml", SEVERAL)
    mended = SEVERAL.replace('titel   = "A door"', "").replace("shows = 1", 'shows = "OPEN"').replace('"cal"', '"call"')
    mended = mended.replace('"fine"', '"FINE"').replace("[event.pull]", '[event.pull]\nabout = ""')
    alone = problems(tmp_path / "door.toml", mended)

    assert [(each.line, each.code) for each in together] == FOUND
    meant = {(each.code, each.what) for each in together if each.code > "FSM1"}
    assert meant == {(each.code, each.what) for each in alone if each.code != "FSM103"}


def test_of_properties_too(tmp_path: Path) -> None:
    text = PROPERTIES.replace("says   =", "sayz   =").replace('under = "old"', 'under = "older"')
    at = repository(tmp_path, properties=text.replace('machine = "door"', 'machine = "doer"'))
    with pytest.raises(InputError) as machine:
        claims(str(at / "properties" / "door.toml"))
    (at / "properties" / "door.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as profile:
        claims(str(at / "properties" / "door.toml"))

    assert [each.code for each in machine.value.problems] == ["FSM304", "FSM011", "FSM010"]
    assert [each.code for each in profile.value.problems] == ["FSM011", "FSM010", "FSM305"]


@pytest.mark.parametrize("gone", ["machine", "states", "event"])
def test_where_too_little_is_left_only_the_form_is_reported(gone: str, tmp_path: Path) -> None:
    found = problems(tmp_path / "door.toml", SEVERAL.replace(f"[{gone}", f"[[{gone}").replace("]\n", "]]\n"))

    assert {each.code for each in found} <= {"FSM004", "FSM010", "FSM011", "FSM012"}


def places(document: Value, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


@pytest.mark.slow
@pytest.mark.parametrize("model", [DOOR, JOB], ids=["door", "job"])
@pytest.mark.parametrize("how", ["wrong", "renamed", "dropped"])
def test_one_mistake_of_form_makes_none_of_meaning(model: str, how: str) -> None:
    for number, at in enumerate(places(tomllib.loads(model))):
        if number % 5 and TIMES == 1:
            continue
        document = holder = copy.deepcopy(tomllib.loads(model))
        for key in at[:-1]:
            holder = holder[key]  # type: ignore[index]  # a place
        if how == "wrong":
            holder[at[-1]] = 7.5  # type: ignore[index]
        elif isinstance(holder, dict):
            value = holder.pop(str(at[-1]))
            holder |= {f"{at[-1]} zz": value} if how == "renamed" else {}
        data = tomlkit.dumps(document).encode()
        found = None
        try:
            parse(data, Written, path="x.toml")
        except InputError as error:
            found = error, with_meaning(error, data, Written, path="x.toml", make=build)
        assert found is None or found[0].problems == found[1].problems, at
