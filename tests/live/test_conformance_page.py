"""Each clause has a row in ``docs/reference/conformance-matrix.md``, each version has a column, and links are valid."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from conformance_matrix import MACHINES, PAGE, machine_of
from matrix_cells import clauses
from matrix_relays import RELAYING, TOLD
from packages_of_debian import VERSIONS

from fsm.language.library import load
from fsm.runtimes.node_model import NODE

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "versions"),
    [*((each, VERSIONS) for each in MACHINES), *((each, RELAYING) for each in (NODE, *TOLD))],
)
def test_every_clause_has_a_row(name: str, versions: Iterable[str]) -> None:
    """``python tests/support/conformance_matrix.py --write`` adds the missing rows."""
    machine = machine_of(name)
    _, _, section = TEXT.partition(f"## {machine.title}\n")
    table = section.partition("\n## ")[0]

    assert f"| clause | level | {' | '.join(versions)} |" in table
    assert list(clauses(machine)) == re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def test_every_trace_that_is_linked_is_there() -> None:
    linked = re.findall(r"\[trace\]\(#([^)]+)\)", TEXT)
    there = [each.replace(".", "").replace(" ", "-") for each in re.findall(r"^### (.+)$", TEXT, re.MULTILINE)]

    assert linked
    assert sorted(linked) == sorted(there)


def test_what_is_tolerated_is_a_deviation_of_its_version() -> None:
    tolerated = re.findall(r"\| tolerated: `([^`]+)`", TEXT)
    known = {
        override.name
        for name in (*MACHINES, *TOLD)
        for profile in load(name).profiles.values()
        for override in profile.overrides
        if override.deviation
    }

    assert tolerated
    assert set(tolerated) <= known
