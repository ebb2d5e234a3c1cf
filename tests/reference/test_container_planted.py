"""Bugs planted in the reference container: the kit finds each, with the shortest test, and knows of none.

Those of the NRI layer are in ``test_reference_nri``, those that need several
threads in ``test_concurrency_*``.
"""

# ruff: noqa: D102, SLF001  (a method is the bug that its class tells of, and reaches for what it should not)

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import run
from fsm.library import load
from fsm.reference.container.checkpoint import encode
from fsm.reference.container.container import CallError, Container
from fsm.reference.container.effects import Effects
from fsm.reference.container.record import Status
from fsm.reference.container.storage import StatusStorage
from fsm.reference.container.sut import ContainerSUT
from fsm.reference.container.world import WorldError

if TYPE_CHECKING:
    from fsm.reference.container.world import Exit


class DeniesStops(Container):
    """Stopping what is not there is an error: idempotence is forgotten."""

    def begin(self, event: str) -> bool:
        if event == "stop" and self.state == "absent":
            raise CallError(event, "NOT_FOUND", "no such container")
        return super().begin(event)


class DeniesRemovals(Container):
    """Removing what is not there is an error."""

    def begin(self, event: str) -> bool:
        if event == "remove" and self.state == "absent":
            raise CallError(event, "NOT_FOUND", "no such container")
        return super().begin(event)


class StopsTheCreated(Container):
    """Stopping what never ran ends it."""

    def begin(self, event: str) -> bool:
        if event == "stop" and self.state == "created":
            self._effects.write(finished_at=self.world.now())
            self._position = self._position._driver.position("exited")
            return False
        return super().begin(event)


class StartsAgain(Container):
    """What has exited runs once more."""

    def begin(self, event: str) -> bool:
        if event == "start" and self.state == "exited":
            self._effects.write(started_at=self.world.now(), finished_at=0)
            self._position = self._position._driver.position("running")
            return False
        return super().begin(event)


class ExecutesAnywhere(Container):
    """A command is run in what does not run."""

    def begin(self, event: str) -> bool:
        return False if event == "exec" and self.state == "created" else super().begin(event)


class ComesBack(Container):
    """An exit that is told after the removal brings it back."""

    def exited(self, exit: Exit) -> None:  # noqa: A002
        super().exited(exit)
        if self.state == "absent" and self.record() is None:
            self.root.mkdir(exist_ok=True)
            self._effects.kept = StatusStorage(self.root, Status(created_at=1, finished_at=exit.at))
            self._position = self._position._driver.position("exited")


class BelievesTheLast(Container):
    """An exit that comes later is written over the first."""

    def exited(self, exit: Exit) -> None:  # noqa: A002
        super().exited(exit)
        if self.record():
            self._effects.write(finished_at=exit.at)


class NeverWrites(Effects):
    """Changes are kept in memory only."""

    def write(self, **fields: object) -> None:
        self._storage().update(lambda status: status.model_copy(update=fields))


class LosesTheProcess(Effects):
    """The id of the process is not written down."""

    def write(self, **fields: object) -> None:
        kept = self._storage()
        kept.update_sync(lambda status: status.model_copy(update=fields | {"pid": 0}))
        kept.update(lambda status: status.model_copy(update=fields))


class UpdatesFirst(Effects):
    """Limits are new before it is known whether they can be had."""

    def _updated(self, event: str, names: set[str]) -> str:
        self.write(resources=self.resources)
        return super()._updated(event, names)


class ForgetsFailures(Effects):
    """A start that failed is not written down."""

    def _ran(self) -> str:
        try:
            return super()._ran()
        finally:
            if self.status().finished_at:
                self.write(finished_at=0, exit_code=0)


class KeepsRunning(Effects):
    """A stop succeeds, and the record goes on running."""

    def _ended(self, exit: Exit) -> None:  # noqa: A002
        super()._ended(exit)
        self.write(finished_at=0)


class KillsNobody(Effects):
    """A stop that could not kill says that it did."""

    def _killed(self, *, told: bool = False) -> str:
        killed = super()._killed(told=told)
        if killed == "not-killed":
            self.write(pid=0, finished_at=self.world.now())
            return "killed"
        return killed


class ForgetsToForget(Effects):
    """A removal leaves containerd's record behind."""

    def _removed(self, _event: str, _names: set[str]) -> str:
        with suppress(WorldError):
            self.clear()
            self.kept = None
        return "removed"


class ClearsFirst(Effects):
    """The file is removed before containerd's record: whoever dies in between has something that nobody can read."""

    def _removed(self, _event: str, names: set[str]) -> str:
        self.clear()
        return super()._removed(_event, names)


class MarksTheEnd(Effects):
    """Being short of memory is taken for the end."""

    def marked(self) -> None:
        super().marked()
        if self.kept and self.status().started_at:
            self.write(finished_at=self.world.now())


class WritesInPlace(Effects):
    """The file is written where it stands, in two parts."""

    def write(self, **fields: object) -> None:
        kept = self._storage()
        kept.update(lambda status: status.model_copy(update=fields))
        data = encode(kept.get())
        kept.path.write_bytes(data[:10])
        kept.path.write_bytes(data)


class WritesLate(Effects):
    """The limits are in the file first, and what was changed with them after that."""

    def _updated(self, event: str, names: set[str]) -> str:
        came = super()._updated(event, names)
        if came == "updated":
            self.write(exit_code=7)
            self.write(exit_code=0)
        return came


BUGS: dict[type[Container | Effects], str] = {
    DeniesStops: "stop",
    DeniesRemovals: "remove",
    StopsTheCreated: "create; stop",
    StartsAgain: "create; start; start",
    ExecutesAnywhere: "create; exec",
    ComesBack: "exit",
    BelievesTheLast: "create; start; exit",
    NeverWrites: "create; start",
    LosesTheProcess: "create; start; oom",
    UpdatesFirst: "create; update-resources",
    ForgetsFailures: "create; start",
    KeepsRunning: "create; start; stop",
    KillsNobody: "create; start; stop",
    ForgetsToForget: "create; remove",
    ClearsFirst: "create; remove; start",
    MarksTheEnd: "create; start; oom",
    WritesInPlace: "create; start",
    WritesLate: "create; update-resources",
}


def sut(kind: type[Container | Effects]) -> ContainerSUT:
    """The reference with a bug."""
    return ContainerSUT(kind=kind) if issubclass(kind, Container) else ContainerSUT(effects=kind)


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[Container | Effects]) -> None:
    found = run(load("container-status"), lambda: sut(kind), examples=0, most=1)

    assert ["; ".join(step.event for step in each.steps) for each in found.failures] == [BUGS[kind]], [
        ("; ".join(map(str, each.steps)), each.broken, each.violation and each.violation.said)
        for each in found.failures
    ]
