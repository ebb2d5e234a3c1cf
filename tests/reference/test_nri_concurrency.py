"""The reference NRI layer is linearizable with several threads, but without its lock it is not."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from thorough import TIMES

from fsm.conformance.concurrency import concurrently
from fsm.language.library import load
from fsm.linearizability import NotLinearizable
from fsm.runtimes.reference.nri import NRI
from fsm.runtimes.reference.nri.sut import NriContainerSUT, NriPodSUT

if TYPE_CHECKING:
    from collections.abc import Sequence

SYSTEMS = (NriContainerSUT, NriPodSUT)


class Unlocked(NRI):
    def __init__(self, *given: Any) -> None:  # noqa: ANN401 - the arguments of the layer
        super().__init__(*given)
        self._life.lock = nullcontext()  # type: ignore[assignment]


class FirstPluginOnly(NriContainerSUT):
    def outputs(self) -> Sequence[str]:
        sent = [each.event for each in self._sent if each.to == "10"]
        self._sent.clear()
        return sent


@pytest.mark.slow
@pytest.mark.parametrize("kind", SYSTEMS)
def test_the_reference_passes(kind: type[NriContainerSUT | NriPodSUT]) -> None:
    machine = load(kind.machine)

    assert concurrently(machine, kind, examples=15 * TIMES).race is None


@pytest.mark.slow
@pytest.mark.parametrize("chance", range(3))
@pytest.mark.parametrize("kind", SYSTEMS)
def test_without_its_lock_it_fails(kind: type[NriContainerSUT | NriPodSUT], chance: int) -> None:
    found = concurrently(load(kind.machine), lambda: kind(kind=Unlocked), chance=chance).race

    assert found is not None
    assert sum(map(len, found.programme.threads)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("chance", range(3))
def test_without_its_lock_the_machine_alone_finds_it(chance: int) -> None:
    """Without the lock, two concurrent calls are both relayed, or one of them is refused because of the other."""
    machine = load(FirstPluginOnly.machine)
    found = concurrently(
        machine,
        lambda: FirstPluginOnly(kind=Unlocked),
        events=["create-container", "stop-container", "remove-container"],
        chance=chance,
    ).race

    assert found is not None
    refused = "has no outcome" in found.broken or "cannot happen while" in found.broken
    assert isinstance(found.verdict, NotLinearizable) or refused
    assert (
        concurrently(machine, FirstPluginOnly, events=["create-container", "stop-container"], examples=10 * TIMES).race
        is None
    )
