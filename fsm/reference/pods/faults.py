"""The world in which the reference pods are tested: processes, addresses and containers that go wrong as is arranged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fsm.reference.pods.network import Leases
from fsm.reference.sandbox.sut import ArrangedWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from fsm.reference.fault_injection import Faults

FAULTS: Final[Mapping[tuple[str, str], Sequence[tuple[str, ...]]]] = {
    ("run", "ready"): [()],
    ("run", "undone"): [("setup",), ("read",), ("run",), ("describe",)],
    ("run", "left-over"): [("setup", "teardown"), ("read", "teardown"), ("run", "undo", "clear")],
    ("stop", "stopped"): [()],
    ("stop", "not-stopped"): [("stop containers",), ("kill",)],
    ("stop", "half-stopped"): [("teardown",)],
    ("stop", "failed"): [("stop containers",)],
    ("stop", "unmonitored"): [("stop containers",)],
    ("remove", "removed"): [()],
    ("remove", "failed"): [("stop containers",)],
    ("remove", "half-stopped"): [("teardown",)],
    ("remove", "stopped-only"): [("remove containers",)],
    ("create-container", "created"): [()],
    ("create-container", "failed"): [("create container",)],
    ("status", "read"): [()],
    ("status", "failed"): [("addresses",)],
    ("port-forward", "prepared"): [()],
    ("port-forward", "failed"): [("forward",)],
    ("update-resources", "updated"): [()],
    ("update-resources", "failed"): [("disk",)],
    ("restart", "ready"): [()],
    ("restart", "notready"): [("dead",)],
    ("restart", "unknown"): [("task",)],
    ("restart", "skipped"): [("damage",)],
}
"""What has to go wrong for an event to end in an outcome: one after the other of these."""


DAMAGE: Final[tuple[Callable[[bytes], bytes | None], ...]] = (
    lambda data: data[: len(data) // 2],
    lambda _: None,
    lambda _: b"[]",
    lambda data: data.replace(b'"state": "', b'"state": "un'),
    lambda data: data.replace(b'"id": "', b'"id": "0'),
)
"""What may become of metadata; ``None`` if they are gone."""


class PodWorld(ArrangedWorld):
    """The pause process of one pod; its time is what *clock* says."""

    def __init__(self, root: Path, faults: Faults, clock: Callable[[], int]) -> None:
        super().__init__(root, [], faults)
        self.gate.set()
        self._clock = clock

    def now(self) -> int:
        """The time."""
        return self._clock()

    def run(self) -> int:
        """It runs, and may fail all the same."""
        self.faults.meet("begin")
        return super().run()

    def task(self) -> bool:
        """Whether there is one, if that can be asked."""
        self.faults.meet("task", effect=False)
        return super().task()

    def runs(self) -> bool:
        """Whether there is a process, and it has not ended."""
        return super().task() and self.ended() is None


class ArrangedNetwork(Leases):
    """Addresses that cannot be had, or given back, while that is arranged."""

    def __init__(self, root: Path, faults: Faults) -> None:
        super().__init__(root)
        self._faults = faults

    def setup(self, pod: str) -> None:
        """Lease an address; a failure leaves it behind."""
        super().setup(pod)
        self._faults.meet("setup", effect=False)

    def teardown(self, pod: str) -> None:
        """Give it back."""
        self._faults.meet("teardown", effect=False)
        super().teardown(pod)

    def addresses(self, pod: str) -> tuple[str, ...]:
        """Ask for it."""
        self._faults.meet("addresses", effect=False)
        return super().addresses(pod)

    def forward(self, pod: str) -> None:
        """Ask for it."""
        self._faults.meet("forward", effect=False)
        super().forward(pod)


class CountedContainers:
    """As many containers in each pod as were made, and how many of them were stopped."""

    def __init__(self, faults: Faults) -> None:
        self.running: dict[str, int] = {}
        self._faults = faults

    def create(self, pod: str) -> None:
        """One more."""
        self._faults.meet("create container")
        self.running[pod] = self.running.get(pod, 0) + 1

    def stop(self, pod: str) -> None:
        """None runs."""
        self._faults.meet("stop containers")
        if pod in self.running:
            self.running[pod] = 0

    def remove(self, pod: str) -> None:
        """None is left."""
        self._faults.meet("remove containers")
        self.running.pop(pod, None)
