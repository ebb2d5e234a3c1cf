"""The conformance test finds every bug planted in the reference container with a shortest test."""

# ruff: noqa: SLF001  (a method is the bug that its class describes, and uses private names)

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.suite import conform
from fsm.language.library import load
from fsm.machine.findings import Cause
from fsm.runtimes.reference.container import Container
from fsm.runtimes.reference.container.record import Status, encode
from fsm.runtimes.reference.container.storage import StatusStorage
from fsm.runtimes.reference.container.sut import ContainerSUT
from fsm.runtimes.reference.driven import CallError, WorldError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from fsm.runtimes.reference.container.record import Resources
    from fsm.runtimes.reference.container.world import Exit, SimulatedWorld


class StopOfAbsentFails(Container):
    def begin(self, event: str, resources: Resources | None = None) -> bool:
        if event == "stop" and self.state == "absent":
            raise CallError(event, "NOT_FOUND", "no such container")
        return super().begin(event, resources)


class RemovalOfAbsentFails(Container):
    def begin(self, event: str, resources: Resources | None = None) -> bool:
        if event == "remove" and self.state == "absent":
            raise CallError(event, "NOT_FOUND", "no such container")
        return super().begin(event, resources)


class StopEndsCreated(Container):
    def begin(self, event: str, resources: Resources | None = None) -> bool:
        if event == "stop" and self.state == "created":
            self.write(finished_at=self.world.now())
            self.position = self.position._driver.position("exited")
            return False
        return super().begin(event, resources)


class StartsExited(Container):
    def begin(self, event: str, resources: Resources | None = None) -> bool:
        if event == "start" and self.state == "exited":
            self.write(started_at=self.world.now(), finished_at=0)
            self.position = self.position._driver.position("running")
            return False
        return super().begin(event, resources)


class ExecInCreated(Container):
    """A container that runs commands even before it has been started."""

    def begin(self, event: str, resources: Resources | None = None) -> bool:
        return False if event == "exec" and self.state == "created" else super().begin(event, resources)


class ExitRecreates(Container):
    """A container that is created again if its exit is reported after its removal."""

    def exited(self, exit: Exit) -> None:  # noqa: A002
        super().exited(exit)
        if self.state == "absent" and self.record() is None:
            self.root.mkdir(exist_ok=True)
            self.storage = StatusStorage(self.root, Status(created_at=1, finished_at=exit.at))
            self.position = self.position._driver.position("exited")


class RecordsTheLastExit(Container):
    def exited(self, exit: Exit) -> None:  # noqa: A002
        super().exited(exit)
        if self.record():
            self.write(finished_at=exit.at)


class NeverWrites(Container):
    def write(self, **fields: object) -> None:
        self._require_storage().update(lambda status: status.model_copy(update=fields))


class LosesThePid(Container):
    def write(self, **fields: object) -> None:
        storage = self._require_storage()
        storage.update_sync(lambda status: status.model_copy(update=fields | {"pid": 0}))
        storage.update(lambda status: status.model_copy(update=fields))


class UpdatesFirst(Container):
    """A container that writes new limits before it applies them."""

    def _update(self, names: set[str]) -> str:
        self.write(resources=self.resources)
        return super()._update(names)


class ForgetsFailures(Container):
    def _run(self) -> str:
        try:
            return super()._run()
        finally:
            if self._status().finished_at:
                self.write(finished_at=0, exit_code=0)


class StaysRunning(Container):
    def _record_exit(self, exit: Exit) -> None:  # noqa: A002
        super()._record_exit(exit)
        self.write(finished_at=0)


class PretendsToKill(Container):
    def _kill(self, *, exit_follows: bool = False) -> str:
        killed = super()._kill(exit_follows=exit_follows)
        if killed == "not-killed":
            self.write(pid=0, finished_at=self.world.now())
            return "killed"
        return killed


class KeepsContainerdsRecord(Container):
    """A container that does not delete containerd's own record when it is removed."""

    def _end_removal(self, _names: set[str]) -> str:
        with suppress(WorldError):
            self.clear()
            self.storage = None
        return "removed"


class ClearsFirst(Container):
    """A container that deletes its file before containerd's record, so that a crash may leave only the record."""

    def _end_removal(self, names: set[str]) -> str:
        self.clear()
        return super()._end_removal(names)


class OOMIsAnExit(Container):
    def write(self, **fields: object) -> None:
        super().write(**fields)
        if "OOMKilled" in fields.values() and self._status().started_at:
            super().write(finished_at=self.world.now())


class WritesInPlace(Container):
    def write(self, **fields: object) -> None:
        storage = self._require_storage()
        storage.update(lambda status: status.model_copy(update=fields))
        data = encode(storage.get())
        storage.path.write_bytes(data[:10])
        storage.path.write_bytes(data)


class WritesTwice(Container):
    """A container that writes its file twice more after an update of its limits, first with a wrong exit code."""

    def _update(self, names: set[str]) -> str:
        outcome = super()._update(names)
        if outcome == "updated":
            code = self._status().exit_code
            self.write(exit_code=7)
            self.write(exit_code=code)
        return outcome


class DatesTheEnd(Container):
    def _record_exit(self, exit: Exit) -> None:  # noqa: A002
        super()._record_exit(exit)
        self.write(finished_at=1)


class FailsWithOne(Container):
    def _run(self) -> str:
        try:
            return super()._run()
        finally:
            if self._status().reason:
                self.write(exit_code=1)


class ForgetsTheSkipped(Container):
    """A container that is forgotten at the second restart after its record became unreadable."""

    @classmethod
    def recovered(cls, root: Path, world: SimulatedWorld, profile: str = "") -> Self:
        self = super().recovered(root, world, profile)
        if self.state.startswith("skipped"):
            world.known = False
        return self


BUGS: dict[type[Container], str] = {
    StopOfAbsentFails: "stop",
    RemovalOfAbsentFails: "remove",
    StopEndsCreated: "create; stop",
    StartsExited: "create; start; start",
    ExecInCreated: "create; exec",
    ExitRecreates: "exit",
    RecordsTheLastExit: "create; start; exit",
    NeverWrites: "create; start",
    LosesThePid: "create; start; oom",
    UpdatesFirst: "create; update-resources",
    ForgetsFailures: "create; start",
    StaysRunning: "create; start; stop",
    PretendsToKill: "create; start; stop",
    KeepsContainerdsRecord: "create; remove",
    ClearsFirst: "create; remove; start",
    OOMIsAnExit: "create; start; oom",
    WritesInPlace: "create; start",
    WritesTwice: "create; update-resources",
    DatesTheEnd: "create; start; stop",
    FailsWithOne: "create; start",
    ForgetsTheSkipped: "create; restart; restart",
}


def sut(kind: type[Container]) -> ContainerSUT:
    return ContainerSUT(kind=kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[Container]) -> None:
    found = conform(load("container-status"), lambda: sut(kind), examples=0, most=1)

    assert ["; ".join(step.event for step in each.steps) for each in found.failures] == [BUGS[kind]], [
        ("; ".join(map(str, each.steps)), each.broken, each.violation and each.violation.illegal)
        for each in found.failures
    ]


@pytest.mark.parametrize(("kind", "clause"), [(DatesTheEnd, "exited-has-an-end"), (FailsWithOne, "start-error-is-128")])
def test_wrong_fields_are_found_by_their_clause(kind: type[Container], clause: str) -> None:
    """A wrong field breaks the same clause as in a recording."""
    (failure, *_) = conform(load("container-status"), lambda: sut(kind), examples=0, most=1).failures

    assert failure.violation is not None
    assert (Cause.FIELDS, clause) == (failure.violation.cause, failure.violation.clause.name)
