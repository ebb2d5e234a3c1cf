"""The lock that keeps plugins from joining, step by step, on real threads: containerd's, and the one of the reference."""

# ruff: noqa: D102  (a method is the bug that its class tells of)

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import conform
from fsm.library import load_system
from fsm.product.flatten import flatten
from fsm.reference.nri.sync_lock import PluginSyncBlock, SyncLock
from fsm.reference.nri.sync_sut import PluginSyncSUT
from fsm.reference.nri.upstream import UpstreamSyncLock
from fsm.sut import BrokenError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.machine import Machine


def machine(profile: str) -> Machine:
    """The calls and the plugin, as one machine."""
    system = load_system("plugin-sync")
    return flatten(system.under(profile))


@pytest.mark.parametrize("profile", ["", "calls-first", "mended"])
def test_passes_the_test_of_its_system(profile: str) -> None:
    """All cells are covered; where nothing is asked for twice containerd's lock is as good."""
    found = conform(machine(profile), lambda: PluginSyncSUT(profile), examples=2)

    assert ((), ()) == (found.failures, found.missed)


class Careless(UpstreamSyncLock):
    """Keeps nobody from joining."""

    def block(self) -> PluginSyncBlock:
        block = super().block()
        self._blocks -= 1
        return block

    def _release(self) -> None:
        self._blocks += 1
        super()._release()


class HeedsNobody(UpstreamSyncLock):
    """A call does not wait for a plugin that is at it."""

    def _may_block(self) -> bool:
        return not self._waiting


class ForgetsTheSecond(UpstreamSyncLock):
    """The first to unblock unblocks for all."""

    def _release(self) -> None:
        self._blocks = 1
        super()._release()


class NeverOver(UpstreamSyncLock):
    """Who has joined keeps all others out."""

    @contextmanager
    def joining(self, *, timeout: float) -> Iterator[None]:
        with super().joining(timeout=timeout):
            yield
        self._joining = True


class WaitsForGood(UpstreamSyncLock):
    """Who has waited to join counts as waiting ever after."""

    @contextmanager
    def joining(self, *, timeout: float) -> Iterator[None]:
        waits = self._blocks > 0
        with super().joining(timeout=timeout):
            self._waiting += waits
            yield


BUGS: dict[type[SyncLock], tuple[str, str]] = {
    SyncLock: ("", "begins; registers; begins"),
    UpstreamSyncLock: ("calls-first", "begins; registers; begins"),
    Careless: ("", "begins; registers"),
    HeedsNobody: ("", "registers; begins"),
    ForgetsTheSecond: ("", "begins; begins; ends; registers"),
    NeverOver: ("", "registers; begins; has-joined; begins"),
    WaitsForGood: ("", "begins; registers; ends; is-synchronised; has-joined; begins"),
}
"""By lock, where it is a bug, and what shows it, whichever of the calls it is."""


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_a_short_test(kind: type[SyncLock]) -> None:
    profile, steps = BUGS[kind]
    found = conform(machine(profile), lambda: PluginSyncSUT(kind=kind), examples=50)

    shortest = min(found.failures, key=lambda failure: len(failure.steps))
    assert steps == "; ".join(step.event.partition(".")[0] for step in shortest.steps)


def test_a_thread_that_cannot_go_on_says_so() -> None:
    """It is not waited for."""
    sut = PluginSyncSUT(kind=NeverOver)
    for event in ("registers", "begins.1", "has-joined"):
        sut.do(event)

    with pytest.raises(BrokenError, match=r"call\.1 goes on waiting"):
        sut.do("goes-on.1")
    sut.close()
