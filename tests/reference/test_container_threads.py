"""The reference container is linearizable if several threads use it, but not if its lock is removed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from thorough import TIMES

from fsm.conformance.concurrency import concurrently
from fsm.language.library import load
from fsm.runtimes.reference.container import Container
from fsm.runtimes.reference.container.sut import ContainerSUT

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.runtimes.reference.container.world import SimulatedWorld


class Unlocked(Container):
    def __init__(self, root: Path, world: SimulatedWorld) -> None:
        super().__init__(root, world)
        self._lock = nullcontext()  # type: ignore[assignment]  # the planted bug


@pytest.mark.slow
@pytest.mark.parametrize("chance", range(2))
def test_the_reference_passes(chance: int) -> None:
    assert concurrently(load("container-status"), ContainerSUT, examples=15 * TIMES, chance=chance).race is None


@pytest.mark.parametrize("chance", range(3))
def test_without_its_lock_it_fails(chance: int) -> None:
    found = concurrently(load("container-status"), lambda: ContainerSUT(kind=Unlocked), chance=chance).race

    assert found is not None
    assert 2 == len(found.programme.threads)
