"""The locks of the reference and of containerd keep plugins from joining."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import conform
from fsm.language.library import load_system
from fsm.machine.product.flatten import flatten
from fsm.runtimes.reference.nri import PluginSyncBlock, SyncLock, UpstreamSyncLock
from fsm.runtimes.reference.nri.plugin_sut import PluginSyncSUT
from fsm.sut import BrokenError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fsm.machine import Machine


def machine(profile: str) -> Machine:
    system = load_system("plugin-sync")
    return flatten(system.under(profile))


@pytest.mark.parametrize("profile", ["", "calls-first", "mended"])
def test_passes_the_test_of_its_system(profile: str) -> None:
    """All locks pass the test of their system. Containerd's own lock passes only if blocks are not nested."""
    found = conform(machine(profile), lambda: PluginSyncSUT(profile), examples=2)

    assert ((), ()) == (found.failures, found.missed)


class NeverBlocks(UpstreamSyncLock):
    def block(self) -> PluginSyncBlock:
        block = super().block()
        self._blocks -= 1
        return block

    def _release(self) -> None:
        self._blocks += 1
        super()._release()


class BlocksWhileJoining(UpstreamSyncLock):
    def _may_block(self) -> bool:
        return not self._waiting


class ReleasesAll(UpstreamSyncLock):
    def _release(self) -> None:
        self._blocks = 1
        super()._release()


class JoinsForever(UpstreamSyncLock):
    @contextmanager
    def joining(self, *, timeout: float) -> Iterator[None]:
        with super().joining(timeout=timeout):
            yield
        self._joining = True


class WaitsForever(UpstreamSyncLock):
    """A lock that counts a plugin as waiting even after it has joined."""

    @contextmanager
    def joining(self, *, timeout: float) -> Iterator[None]:
        waits = self._blocks > 0
        with super().joining(timeout=timeout):
            self._waiting += waits
            yield


BUGS: dict[type[SyncLock], tuple[str, str]] = {
    SyncLock: ("", "begins; registers; begins"),
    UpstreamSyncLock: ("calls-first", "begins; registers; begins"),
    NeverBlocks: ("", "begins; registers"),
    BlocksWhileJoining: ("", "registers; begins"),
    ReleasesAll: ("", "begins; begins; ends; registers"),
    JoinsForever: ("", "registers; begins; has-joined; begins"),
    WaitsForever: ("", "begins; registers; ends; is-synchronised; has-joined; begins"),
}
"""For each buggy lock, the profile under which it fails and the shortest test without the numbers of calls."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_a_short_test(kind: type[SyncLock]) -> None:
    profile, steps = BUGS[kind]
    found = conform(machine(profile), lambda: PluginSyncSUT(kind=kind), examples=50)

    shortest = min(found.failures, key=lambda failure: len(failure.steps))
    assert steps == "; ".join(step.event.partition(".")[0] for step in shortest.steps)


@pytest.mark.parametrize("against", ["", "calls-first"])
def test_a_system_and_its_reference_have_one_profile(against: str) -> None:
    """A reference conforms only under its own profile, even if another one is named."""
    system = load_system("plugin-sync")
    named = conform(system, "reference", profile=against or None, examples=0)
    other = conform(system, PluginSyncSUT if against else lambda: PluginSyncSUT("calls-first"), profile=against or None)
    assert (True, False) == (not named.failures, not other.failures)


def test_a_thread_that_cannot_go_on_is_reported() -> None:
    sut = PluginSyncSUT(kind=JoinsForever)
    for event in ("registers", "begins.1", "has-joined"):
        sut.do(event)

    with pytest.raises(BrokenError, match=r"call\.1 continues to wait"):
        sut.do("goes-on.1")
    sut.close()
