"""The reference container keeps correct records, recovers after a restart, and conforms to its machine."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from unittest import mock

import pytest

from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay
from fsm.language.library import load as machine
from fsm.machine.driver import CannotHappenError
from fsm.runtimes.reference.container import Container
from fsm.runtimes.reference.container.record import LinuxResources, Resources, Status, decode, encode
from fsm.runtimes.reference.container.sut import FAULTS, ContainerSUT
from fsm.runtimes.reference.container.world import Exit, SimulatedWorld, Task
from fsm.runtimes.reference.driven import CallError, Faults

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMITS = Resources(linux=LinuxResources(cpu_shares=512))


@pytest.fixture
def world(tmp_path: Path) -> SimulatedWorld:
    return SimulatedWorld(tmp_path / "c1", Faults(tmp_path))


@pytest.fixture
def container(world: SimulatedWorld) -> Container:
    return Container(world.root, world)


def written(container: Container) -> Status:
    return decode((container.root / "status").read_bytes())


def running(container: Container) -> Container:
    container.call("create", LIMITS)
    container.call("start")
    return container


def test_each_event_is_written_to_the_checkpoint(container: Container, world: SimulatedWorld) -> None:
    container.call("create", LIMITS)
    assert ("created", Status(created_at=1001, resources=LIMITS)) == (container.state, written(container))

    container.call("start")
    started = Status(created_at=1001, started_at=1002, pid=101, resources=LIMITS)
    assert ("running", started) == (container.state, written(container))

    container.exited(Exit(3, 7))
    ended = started.model_copy(update={"pid": 0, "finished_at": 7, "exit_code": 3})
    assert ("exited", ended, ended) == (container.state, written(container), container.status())

    container.call("remove")
    assert ("absent", False, False, None) == (container.state, container.root.exists(), world.known, container.record())


def test_a_failed_start_records_the_reason(container: Container, world: SimulatedWorld) -> None:
    container.call("create")
    world.faults.add("run")

    with pytest.raises(CallError, match=r"^start: UNKNOWN: cannot run$"):
        container.call("start")

    status = written(container)
    assert ("exited", 128, "StartError", "cannot run", 0) == (
        container.state,
        status.exit_code,
        status.reason,
        status.message,
        status.started_at,
    )
    assert not container.status().starting


def test_a_start_that_cannot_be_recorded_is_undone(container: Container, world: SimulatedWorld) -> None:
    container.call("create")
    before = written(container)
    world.faults.add("disk")

    with pytest.raises(CallError, match="No such file"):
        container.call("start")

    world.end_event()
    assert ("created", before, before, None) == (container.state, container.status(), written(container), world.process)
    container.call("start")
    assert "running" == container.state


def test_the_first_exit_counts(container: Container) -> None:
    running(container).exited(Exit(3, 7))
    container.exited(Exit(9, 9))

    assert (3, 7) == (container.status().exit_code, container.status().finished_at)


def test_an_exit_that_cannot_be_written_changes_nothing(container: Container, world: SimulatedWorld) -> None:
    """If an exit cannot be written, the record does not change, and the exit has to be reported again."""
    running(container)
    world.root.rename(world.root.with_name("away"))
    with pytest.raises(FileNotFoundError):
        container.exited(Exit(3, 7))
    assert ("running", 0) == (container.state, container.status().finished_at)

    world.end_event()
    container.exited(Exit(3, 7))
    assert ("exited", 3) == (container.state, written(container).exit_code)


@pytest.mark.parametrize("state", ["created", "running", "exited"])
def test_an_oom_kill_is_recorded_in_every_state(container: Container, state: str) -> None:
    container.call("create")
    if state != "created":
        container.call("start")
    if state == "exited":
        container.exited(Exit(0, 7))
    container.oom()

    assert (state, "OOMKilled") == (container.state, written(container).reason)


def test_flags_are_in_memory_only(container: Container) -> None:
    container.call("create")
    assert container.begin("start")
    assert ("starting", True, False) == (container.state, container.status().starting, written(container).starting)
    assert not container.end("start")
    container.exited(Exit(0, 7))
    assert container.begin("remove")
    assert ("exited-removing", True) == (container.state, container.status().removing)


def test_a_stop_finds_no_process(container: Container, world: SimulatedWorld) -> None:
    """Without a process, a running container waits for its exit, and an unknown container exits with 255."""
    running(container)
    world.process = None
    container.call("stop")
    assert "running" == container.state

    (container.root / "status").write_bytes(b"")
    after = Container.recovered(container.root, world)
    after.call("stop")
    assert ("exited", 255) == (after.state, written(after).exit_code)


def test_limits_are_written(container: Container) -> None:
    running(container)
    more = Resources(linux=LinuxResources(unified={"memory.high": "1"}))
    container.call("update-resources", more)
    assert more.linux
    more.linux.unified["memory.high"] = "2"

    resources = written(container).resources
    assert resources == container.status().resources
    assert resources is not None
    assert resources.linux == LinuxResources(unified={"memory.high": "1"})


def test_calls_on_an_absent_container(container: Container) -> None:
    container.call("stop")
    container.call("remove")
    for call in (lambda: container.call("start"), container.status, lambda: container.call("exec")):
        with pytest.raises(CallError, match="NOT_FOUND: a container in state absent"):
            call()
    container.call("create")
    with pytest.raises(CannotHappenError):
        container.exited(Exit(0, 1))


def test_a_removal_that_another_one_overtook_succeeds(container: Container, world: SimulatedWorld) -> None:
    container.call("create")
    assert container.begin("remove")
    world.known = False
    container.call("remove")

    assert not container.end("remove")
    assert "absent" == container.state


def test_a_removal_that_cannot_delete_the_file_can_be_repeated(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    container.call("create")

    def refused(_path: Path, *, missing_ok: bool = False) -> None:
        del missing_ok
        raise OSError(5, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        with pytest.raises(CallError, match="input/output"):
            container.call("remove")

    assert ("created", False) == (container.state, container.status().removing)
    container.call("remove")
    assert ("absent", False) == (container.state, container.root.exists())


def test_nothing_is_promised_of_what_is_absent() -> None:
    """The reference, unlike this profile, also removes a skipped container, so no restart can bring it back."""
    test = "create=created; restart=skipped; remove=left; restart=created"
    tested = replay(machine("container-status"), ContainerSUT, steps(test), profile="containerd-1.7")

    assert () == tested.failures


CREATED = Status(created_at=1)
RUNNING = Status(created_at=1, started_at=2, pid=7)
EXITED = Status(created_at=1, started_at=2, finished_at=3, exit_code=4)
NOTHING = Status(message="no times")
FOUND: TypeAlias = "Task | str | None"
MADE, RUNS, ENDED = Task(8, started=False), Task(8), Task(8, exit=Exit(5, 6))
LOST = {"unknown": True, "exit_code": 255, "reason": "Unknown"}
GONE = {"pid": 0, "finished_at": 1001, "exit_code": 255, "reason": "Unknown"}
UNKNOWN = {"unknown": True}
ENDS = {"pid": 0, "finished_at": 6, "exit_code": 5}

RECOVERY: list[tuple[Status | None, FOUND, str, Mapping[str, object]]] = [
    (CREATED, None, "created", {}),
    (CREATED, "no answer", "unknown-created", UNKNOWN),
    (CREATED, MADE, "created", {}),
    (CREATED, RUNS, "running", {"started_at": 1001, "pid": 8}),
    (CREATED, ENDED, "exited", ENDS),
    (RUNNING, None, "exited", GONE),
    (RUNNING, "no answer", "unknown-running", UNKNOWN),
    (RUNNING, MADE, "unknown-running", UNKNOWN),
    (RUNNING, RUNS, "running", {}),
    (RUNNING, ENDED, "exited", ENDS),
    (EXITED, None, "exited", {}),
    (EXITED, "no answer", "unknown-exited", UNKNOWN),
    (EXITED, MADE, "unknown-exited", UNKNOWN),
    (EXITED, RUNS, "unknown-exited", UNKNOWN),
    (EXITED, ENDED, "exited", {}),
    (NOTHING, None, "unknown-created", UNKNOWN),
    (NOTHING, RUNS, "unknown-running", UNKNOWN),
    (None, None, "unknown-created", LOST),
    (None, "no answer", "unknown-created", LOST),
    (None, MADE, "unknown-running", LOST),
    (None, RUNS, "unknown-running", LOST),
    (None, ENDED, "unknown-running", LOST),
]


@pytest.mark.parametrize(("status", "task", "state", "changed"), RECOVERY)
def test_recovery_from_checkpoint_and_process(
    world: SimulatedWorld, status: Status | None, task: FOUND, state: str, changed: Mapping[str, object]
) -> None:
    """The recovered state depends on the checkpoint and the process. An unreadable checkpoint is not changed."""
    world.root.mkdir()
    file = world.root / "status"
    file.write_bytes(encode(status) if status else b"damaged")
    world.known = True
    if isinstance(task, str):
        world.faults.add("task")
    else:
        world.process = task

    after = Container.recovered(world.root, world)

    expected = (status or Status()).model_copy(update=changed)
    assert (state, expected) == (after.state, after.status())
    if status is None:
        assert b"damaged" == file.read_bytes()
    else:
        assert expected.model_copy(update={"unknown": False}) == written(after)


@pytest.mark.parametrize("status", [CREATED, RUNNING, EXITED])
@pytest.mark.parametrize("task", [MADE, ENDED])
def test_a_process_that_cannot_be_dropped_leaves_it_unknown(world: SimulatedWorld, status: Status, task: Task) -> None:
    world.root.mkdir()
    (world.root / "status").write_bytes(encode(status))
    world.known, world.process = True, task
    world.faults.add("drop")

    assert "CONTAINER_UNKNOWN" == Container.recovered(world.root, world).shows


def test_without_containerds_record_the_file_is_removed(container: Container, world: SimulatedWorld) -> None:
    container.call("create")
    world.known = False

    assert "absent" == Container.recovered(container.root, world).state
    assert not container.root.exists()


def test_a_record_that_containerd_cannot_read_is_skipped(container: Container, world: SimulatedWorld) -> None:
    """A container whose record containerd cannot read is not found, but cannot be created again either.

    The next restart may find the container, unless it has been removed.
    """
    container.call("create")
    world.faults.add("look")
    skipped = Container.recovered(container.root, world)
    with pytest.raises(CallError):
        skipped.call("create")
    assert ("absent", "skipped-created") == (skipped.shows, skipped.state)

    world.end_event()
    assert "created" == Container.recovered(container.root, world).state
    skipped.call("remove")
    assert "absent" == skipped.state == Container.recovered(container.root, world).state


def test_of_many_starts_one_succeeds(container: Container) -> None:
    container.call("create")
    refused: list[str] = []

    def start() -> None:
        try:
            container.call("start")
        except CallError as error:
            refused.append(error.code)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ["UNKNOWN"] * 7 == refused
    assert ("running", 101) == (container.state, container.status().pid)


@pytest.mark.slow
def test_passes_the_test_of_its_machine() -> None:
    tested = conform(machine("container-status"), ContainerSUT, examples=3, steps=30)

    assert () == tested.failures
    assert () == tested.missed
    assert (set(), ()) == (tested.cover.unarranged, tested.left_out)


def test_conforms_without_the_deviations_of_a_profile() -> None:
    text = "create; start; exit; stop=stop-without-record; stop; remove; stop=stop-of-removed"
    tested = replay(
        machine("container-status"), lambda: ContainerSUT("containerd-1.6"), steps(text), profile="containerd-1.6"
    )

    assert () == tested.failures


def test_every_fault_leads_to_an_outcome_of_the_machine() -> None:
    sut = ContainerSUT()

    assert [pair for pair in FAULTS if not sut.arrange(*pair)] == []
    assert not sut.arrange("stop", "exploded")
    sut.close()


def test_nothing_is_left_on_the_disk() -> None:
    sut = ContainerSUT()
    home = sut.world.root.parent
    sut.do("create")
    assert home.exists()
    sut.close()

    assert not home.exists()


class RecordsTheLastExit(Container):
    def exited(self, exit: Exit) -> None:  # noqa: A002
        super().exited(exit)
        if self.record():
            self.write(finished_at=exit.at)


class LeaksItsRecord(Container):
    """A container that returns its actual record instead of a copy."""

    def record(self) -> Status | None:
        storage = self.storage
        return storage._status if storage else None  # noqa: SLF001


class ForgetsTheExit(Container):
    def _record_exit(self, exit: Exit) -> None:  # noqa: A002
        self._require_storage().update(
            lambda status: status.model_copy(update={"finished_at": exit.at, "unknown": False})
        )


class WritesAMessage(Container):
    """A container that writes a message when a start begins."""

    def _flag(self, **fields: bool) -> None:
        super()._flag(**fields)
        self.write(message="it fails" if fields.get("starting") else "")


def broken(kind: type[Container]) -> ContainerSUT:
    return ContainerSUT(kind=kind)


BROKEN: list[tuple[type[Container], str]] = [
    (RecordsTheLastExit, "create; start; exit; exit"),
    (ForgetsTheExit, "create; start; exit; restart=exited"),
    (LeaksItsRecord, "create"),
    (WritesAMessage, "create; start=begins,not-recorded"),
]


@pytest.mark.parametrize(("kind", "test"), BROKEN, ids=lambda each: getattr(each, "__name__", ""))
def test_a_planted_bug_fails_the_last_step(kind: type[Container], test: str) -> None:
    good = replay(machine("container-status"), ContainerSUT, steps(test))
    bad = replay(machine("container-status"), lambda: broken(kind), steps(test))

    assert () == good.failures
    assert [steps(test)] == [failure.steps for failure in bad.failures]


def test_a_crash_after_the_process_started_finds_it_running() -> None:
    sut = ContainerSUT()
    sut.do("create")
    found = []
    for point in range(20):
        sut.reset()
        sut.do("create")
        if not sut.crash("start", point):
            break
        found.append(sut.shows())

    assert ["CONTAINER_CREATED", "CONTAINER_RUNNING"] == list(dict.fromkeys(found))
    sut.close()


def test_effects_are_audited_by_one_hook() -> None:
    """All SUTs share one audit hook, because hooks slow everything down and cannot be removed."""

    def die() -> None:
        sut = ContainerSUT()
        assert sut.crash("create", 0)
        sut.close()

    die()
    with mock.patch.object(sys, "addaudithook") as added:
        die()

    assert not added.called


def test_steps_can_be_replayed_from_text() -> None:
    text = "create; start; restart=unknown; restart=running; stop; remove"
    tested = replay(machine("container-status"), ContainerSUT, steps(text))

    assert () == tested.failures
