"""The reference NRI layer, used by several threads at once, passes; and is caught without its lock."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from fsm.conformance.concurrency import concurrently
from fsm.linearizability import NotLinearizable
from fsm.reference.nri.api import NRI
from fsm.reference.nri.sut import NriContainerSUT, NriPodSUT

if TYPE_CHECKING:
    from collections.abc import Sequence

SYSTEMS = (NriContainerSUT, NriPodSUT)


class Unlocked(NRI):
    """Calls are no longer one after the other."""

    def __init__(self, *given: Any) -> None:  # noqa: ANN401 - whatever the layer takes
        super().__init__(*given)
        self._life.lock = nullcontext()  # type: ignore[assignment]


class Overheard(NriContainerSUT):
    """Only what the first plugin is sent is looked at, so that nothing but the machine can object."""

    def outputs(self) -> Sequence[str]:
        """What the first plugin was sent."""
        sent = [each.event for each in self._heard if each.to == "10"]
        self._heard.clear()
        return sent


@pytest.mark.parametrize("kind", SYSTEMS)
def test_the_reference_passes(kind: type[NriContainerSUT | NriPodSUT]) -> None:
    machine = kind().machine

    assert concurrently(machine, kind, examples=40) is None


@pytest.mark.parametrize("chance", range(3))
@pytest.mark.parametrize("kind", SYSTEMS)
def test_without_its_lock_it_is_caught(kind: type[NriContainerSUT | NriPodSUT], chance: int) -> None:
    found = concurrently(kind().machine, lambda: kind(kind=Unlocked), chance=chance)

    assert found is not None
    assert sum(map(len, found.programme.threads)) == 2


@pytest.mark.parametrize("chance", range(3))
def test_without_its_lock_it_is_caught_by_the_machine_alone(chance: int) -> None:
    """Of two stops at once both tell the plugin; or one finds that it has decided on what is no longer so."""
    machine = Overheard().machine
    found = concurrently(
        machine,
        lambda: Overheard(kind=Unlocked),
        events=["create-container", "stop-container", "remove-container"],
        chance=chance,
    )

    assert found is not None
    assert isinstance(found.verdict, NotLinearizable) or "has no outcome" in found.broken
    assert concurrently(machine, Overheard, events=["create-container", "stop-container"], examples=20) is None
