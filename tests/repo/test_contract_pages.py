"""The contract pages contain what the models state, and their links work."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from contract_pages import BEGIN, CONTRACTS, DOCS, END, page

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_pages_are_up_to_date(name: str) -> None:
    """If a page is out of date, ``python tests/support/contract_pages.py --write`` updates it."""
    contract = CONTRACTS[name]
    renewed = page(contract)

    assert renewed == contract.page.read_text(encoding="utf-8"), "python tests/support/contract_pages.py --write"
    assert renewed.count(BEGIN) == renewed.count(END) == 1


def _anchors(of: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.*)$", of.read_text(encoding="utf-8"), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


@pytest.mark.parametrize("name", CONTRACTS)
def test_their_links_lead_to_headings(name: str) -> None:
    text = CONTRACTS[name].page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(((?!http)[^)]*)#([^)]+)\)", text)

    assert targets
    for path, anchor in targets:
        assert anchor in _anchors(DOCS / path if path else CONTRACTS[name].page), (path, anchor)


@pytest.mark.parametrize("name", CONTRACTS)
def test_each_clause_that_is_compared_is_one_of_the_page(name: str) -> None:
    before, _, beside = CONTRACTS[name].page.read_text(encoding="utf-8").partition(END)
    rows = [line.split("|") for line in beside.splitlines() if line.startswith("| ")]
    compared = {clause for row in rows for cell in row[1:3] for clause in re.findall(r"`([a-z-]+)`", cell)}

    assert compared - {"critest"}
    for clause in compared - {"critest"}:
        assert f"`{clause}`" in before, clause
