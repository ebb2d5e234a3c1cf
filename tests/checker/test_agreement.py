"""The engines agree with a brute-force search, and the comparison catches bugs planted in the engines."""

from __future__ import annotations

import os
import secrets
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numba", reason="the extra 'fast' is not installed")

import brute_force_search
import planted_defects
from brute_force_search import ENGINES, KINDS, claims_agree, raised, system_case
from thorough import TIMES

if TYPE_CHECKING:
    from brute_force_search import Kind

SEED = os.environ.get("FSM_SEED") or ("every change" if TIMES == 1 else secrets.token_hex(4))
"""The seed of the random cases, fixed by day and random at night.

If the engines disagree, the message contains a command with the seed.
"""

TRIED = {"machine": 7_600, "data": 1_200, "system": 1_040, "follows": 400, "refines": 40, "trace": 960, "history": 400}
"""The number of random cases of each kind.

The nightly run tries a hundred times as many.
"""

PARTS = 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", list(TRIED))
def test_brute_force_comes_to_the_same(kind: str, part: int) -> None:
    count = TRIED[kind] * TIMES // PARTS
    found = list(islice(brute_force_search.search(kind, count, f"{SEED}/{part}"), 5))

    assert found == [], f"python tests/support/brute_force_search.py 1 {found[0].partition(',')[0]}"


FINDING: dict[str, tuple[Kind, str, int]] = {
    # The comparison that finds the defects, the kind of cases that it needs, and the maximum number of cases.
    "machine": (KINDS["machine"], "machine", 200),
    "data": (KINDS["data"], "data", 400),
    "system": (claims_agree(system_case, {"plain": ENGINES["plain"]}), "system", 400),
    "cones": (claims_agree(system_case, {"cones": ENGINES["cones"]}), "system", 150),
    "folded": (claims_agree(system_case, {"folded": ENGINES["folded"]}), "system", 150),
    "compiled": (claims_agree(system_case, {"compiled": ENGINES["compiled"]}), "system", 150),
    "leading": (
        claims_agree(partial(system_case, kinds=("leads-to",)), {"compiled": ENGINES["compiled"]}),
        "system",
        400,
    ),
    "refines": (KINDS["refines"], "refines", 60),
    "follows": (KINDS["follows"], "follows", 200),
    "trace": (KINDS["trace"], "trace", 100),
    "history": (KINDS["history"], "history", 100),
}
RARE = {
    # Few cases reveal these defects, so finding a defect takes at least seven seconds.  Those of data are also found in
    # `test_data`.
    "an error ends what goes on, and a joint signal",
    "a reset leaves calls in progress",
    "when is asked too early",
    "no claim is relaxed",
    "nothing steps elsewhere",
    "all neighbours can be exchanged",
    "steps that are exchanged may be in any order",
    "everything fair is taken",
    "updates are made one after another",
    "no value is beyond a scope",
    "no value saturates",
    "what leads beyond a scope is impossible",
    "the second call may have other arguments",
}
DEFECTS = [
    pytest.param(kind, defect, id=f"{kind}-{defect}", marks=pytest.mark.nightly if defect in RARE else pytest.mark.slow)
    for kind, defects in planted_defects.PLANTED.items()
    for defect in defects
]


@pytest.mark.parametrize(("kind", "defect"), DEFECTS)
def test_planted_defects_are_found(kind: str, defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each planted bug makes an engine disagree with the brute-force search in some case."""
    kind_of, name, most = FINDING[kind]
    tries = raised(kind_of)
    planted_defects.PLANTED[kind][defect](monkeypatch)
    found = next((origin for n in range(most) if tries(origin := f"{name}/planted/{n}").disagreements), None)
    monkeypatch.undo()

    assert found is not None
    assert tries(found).disagreements == ()
