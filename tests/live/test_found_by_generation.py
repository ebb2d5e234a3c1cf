"""What generated tests find in real daemons, without being told where to look, as the shortest test that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import conform
from fsm.library import load

if TYPE_CHECKING:
    from containerds import Containerd

pytestmark = [pytest.mark.live, pytest.mark.slow]  # the comparison with the conformance matrix finds it too


def test_stops_of_the_removed_are_refused_by_1_6_20_only(containerd: Containerd) -> None:
    """One call shows it: nothing need be created for a container not to be there."""
    tested = conform(load("cri-container"), f"cri:unix://{containerd.endpoint}", examples=0)

    found = [
        ([str(step) for step in each.steps], each.violation.clause.name if each.violation else each.broken)
        for each in tested.failures
    ]
    assert ([(["stop"], "stop-is-idempotent")] if containerd.version == "1.6.20" else []) == found
