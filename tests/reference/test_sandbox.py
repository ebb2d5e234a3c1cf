"""The reference sandbox controller handles real processes, and planted bugs are found."""

# ruff: noqa: SLF001  (a method is the bug that its class describes, and uses private names)

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay
from fsm.language.library import load
from fsm.machine.driver import CannotHappenError
from fsm.runtimes.reference.clock import TurnedClock
from fsm.runtimes.reference.container.world import Exit, Processes
from fsm.runtimes.reference.driven import CallError, WorldError, driver, turns
from fsm.runtimes.reference.pods.sandbox_controller import MACHINE, Controller, Sandbox, UpstreamController
from fsm.runtimes.reference.pods.sut import PodSandboxSUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Place:
    """A controller with one sandbox, whose process is real and whose exit is noticed at once."""

    def __init__(self, root: Path, kind: type[Controller]) -> None:
        self.clock = TurnedClock(hurried=True)
        self.outputs: list[str] = []
        self.root = root
        self.worlds: list[Processes] = []
        self.controller = kind(self._make, self.clock, on_exit=lambda _: self.outputs.append("wake"))

    @property
    def world(self) -> Processes:
        return self.worlds[-1]

    @property
    def state(self) -> str:
        return self.controller.status("pod").state

    def start(self) -> None:
        self.controller.create("pod")
        self.controller.start("pod")

    async def die(self) -> None:
        sandbox = self.controller._store["pod"]
        self.world.die()
        await asyncio.wait([sandbox.watch] if sandbox.watch else [])

    async def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.time += 1
            await self.controller.retries.tick()

    def _make(self, name: str) -> Processes:
        if not self.worlds or name not in self.controller._store:
            self.worlds.append(Processes(self.root / str(len(self.worlds)), hook=lambda: self.outputs.append("hook")))
        return self.world


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[type[Controller]], Place]]:
    places: list[Place] = []

    def place(kind: type[Controller]) -> Place:
        places.append(Place(tmp_path, kind))
        return places[-1]

    yield place
    for each in places:
        for world in each.worlds:
            world.end()


@pytest.fixture
def place(make: Callable[[type[Controller]], Place]) -> Place:
    return make(Controller)


async def test_an_exit_is_seen(place: Place) -> None:
    """The controller notices an exit after a signal, and wakes both waiting callers."""
    place.start()
    waiting = [asyncio.create_task(place.controller.wait("pod")) for _ in range(2)]
    await asyncio.sleep(0)
    pid = place.controller.status("pod").pid
    os.kill(pid, 15)
    exits = await asyncio.gather(*waiting)

    record = place.controller.status("pod")
    assert [143, 143] == [each.code for each in exits]
    assert (0, exits[0], "SANDBOX_NOTREADY") == (record.pid, record.exit, record.state)
    assert exits[0] == await place.controller.wait("pod")
    assert ["wake", "hook"] == place.outputs
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_stop_cleans_up_and_can_be_repeated(place: Place) -> None:
    place.start()
    assert ["hosts"] == [each.name for each in place.world.root.iterdir()]
    await place.controller.stop("pod")
    await place.controller.stop("pod")
    assert ("SANDBOX_NOTREADY", []) == (place.state, list(place.world.root.iterdir()))
    await place.controller.shutdown("pod")
    await place.controller.shutdown("pod")
    assert not place.world.root.exists()
    with pytest.raises(CallError, match="NOT_FOUND"):
        place.controller.status("pod")


@pytest.mark.parametrize(
    ("kind", "states", "outputs"),
    [
        (Controller, ["SANDBOX_NOTREADY"] * 3, ["wake", "hook"]),
        (
            UpstreamController,
            ["SANDBOX_READY", "SANDBOX_READY", "SANDBOX_NOTREADY"],
            ["hook", "hook", "wake", "hook"],
        ),
    ],
)
async def test_a_task_that_cannot_be_deleted(
    make: Callable[[type[Controller]], Place], kind: type[Controller], states: list[str], outputs: list[str]
) -> None:
    """The deletion of a task is retried after one and two seconds.

    In containerd, the sandbox stays ready until the task is deleted.
    """
    place = make(kind)
    place.start()
    place.world.faults.add("delete")
    await place.die()
    seen = [place.state]
    await place.wait(1)
    place.world.faults.clear()
    await place.wait(1)
    seen.append(place.state)
    assert place.world.task()
    await place.wait(1)
    seen.append(place.state)
    assert not place.world.task()
    assert (states, outputs) == (seen, place.outputs)
    assert 143 == (await place.controller.wait("pod")).code


@pytest.mark.parametrize(("kind", "notified"), [(Controller, True), (UpstreamController, False)])
async def test_a_shutdown_during_retries(
    make: Callable[[type[Controller]], Place], kind: type[Controller], notified: object
) -> None:
    """A shutdown during the retries wakes the waiting caller.

    Containerd drops the event, so the caller hangs.
    """
    place = make(kind)
    place.start()
    waiting = asyncio.create_task(place.controller.wait("pod"))
    place.world.faults.add("delete")
    await place.die()
    place.world.faults.clear()
    await place.controller.shutdown("pod")
    await place.wait(400)
    await asyncio.sleep(0)
    assert ("idle", notified) == (place.controller.retries.shows("pod"), waiting.done())


@pytest.mark.parametrize(("kind", "notified"), [(Controller, True), (UpstreamController, False)])
async def test_waiting_for_a_sandbox_that_never_starts(
    make: Callable[[type[Controller]], Place], kind: type[Controller], notified: object
) -> None:
    place = make(kind)
    place.controller.create("pod")
    waiting = asyncio.create_task(place.controller.wait("pod"))
    await asyncio.sleep(0)
    await place.controller.shutdown("pod")
    await turns(4)
    assert waiting.done() == notified
    assert not notified or 255 == (await waiting).code


@pytest.mark.parametrize(("kind", "state"), [(Controller, "SANDBOX_NOTREADY"), (UpstreamController, "SANDBOX_READY")])
async def test_a_stop_that_finds_no_task(
    make: Callable[[type[Controller]], Place], kind: type[Controller], state: str
) -> None:
    """A stop may find no task, because the task was deleted by something else before its exit was noticed."""
    place = make(kind)
    place.start()
    place.world.gate.clear()
    await asyncio.sleep(0)
    place.world.delete()
    await place.controller.stop("pod")
    assert state == place.state


@pytest.mark.parametrize(("kind", "code"), [(Controller, 143), (UpstreamController, 9)])
async def test_an_exit_that_is_reported_again(
    make: Callable[[type[Controller]], Place], kind: type[Controller], code: int
) -> None:
    place = make(kind)
    place.start()
    await place.die()
    place.controller.handle(place.controller._store["pod"], Exit(9, 9))
    record = place.controller.status("pod")
    assert code == (record.exit and record.exit.code)


@pytest.mark.parametrize(("kind", "runs"), [(Controller, True), (UpstreamController, False)])
async def test_a_watch_that_breaks(
    make: Callable[[type[Controller]], Place], kind: type[Controller], runs: object
) -> None:
    """If a watch breaks, the process keeps running, and its exit is noticed later. Containerd kills it instead."""
    place = make(kind)
    place.start()
    place.world.breaks = True
    await turns(4)
    assert (runs, runs) == (place.world.task(), place.state == "SANDBOX_READY")
    place.world.gate.set()
    if runs:
        await place.die()
    assert (143 if runs else 255) == (await place.controller.wait("pod")).code


@pytest.mark.parametrize(("kind", "code"), [(Controller, "ALREADY_EXISTS"), (UpstreamController, "")])
async def test_an_id_that_exists(make: Callable[[type[Controller]], Place], kind: type[Controller], code: str) -> None:
    place = make(kind)
    place.start()
    reply = ""
    try:
        place.controller.create("pod")
    except CallError as error:
        reply = error.code
    assert (code, "SANDBOX_READY" if code else "SANDBOX_UNKNOWN") == (reply, place.state)


@pytest.mark.parametrize(("kind", "shown"), [(Controller, "absent"), (UpstreamController, "SANDBOX_READY")])
async def test_a_start_that_fails_at_its_last_step(
    make: Callable[[type[Controller]], Place], kind: type[Controller], shown: str
) -> None:
    """A start that fails at its last step is undone. In containerd, the record says ready even after a stop."""
    place = make(kind)
    place.controller.create("pod")
    place.world.faults.add("describe")
    with pytest.raises(CallError, match="cannot describe"):
        place.controller.start("pod")
    assert not place.world.task()
    if shown == "absent":
        with pytest.raises(CallError, match="NOT_FOUND"):
            place.controller.status("pod")
        return
    await place.controller.stop("pod")
    assert shown == place.state


async def test_a_start_that_cannot_be_undone_can_be_stopped(place: Place) -> None:
    place.controller.create("pod")
    place.world.faults |= {"run", "undo"}
    with pytest.raises(CallError, match=r"^start: UNKNOWN: cannot run$"):
        place.controller.start("pod")
    place.world.faults.clear()
    assert ("SANDBOX_UNKNOWN", True) == (place.state, place.world.task())
    await place.controller.stop("pod")
    assert ("SANDBOX_NOTREADY", False) == (place.state, place.world.task())


async def test_a_stop_that_takes_too_long(place: Place) -> None:
    place.start()
    place.world.faults.add("late")
    place.world.gate.clear()
    await asyncio.sleep(0)
    with pytest.raises(CallError, match="stop: UNKNOWN"):
        await place.controller.stop("pod")
    place.world.gate.set()
    await place.die()
    assert "SANDBOX_NOTREADY" == place.state


async def test_a_wait_can_be_given_up(place: Place) -> None:
    place.start()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(place.controller.wait("pod"), 0)
    with pytest.raises(CannotHappenError):
        place.controller.start("pod")
    assert "SANDBOX_READY" == place.state


def test_a_directory_that_exists(tmp_path: Path) -> None:
    (tmp_path / "pod").touch()
    with pytest.raises(WorldError, match="File exists"):
        Processes(tmp_path / "pod").run()


DIES = """
import os, sys
from pathlib import Path
from fsm.runtimes.reference.container.world import Processes
print(Processes(Path(sys.argv[1], "pod")).run(), flush=True)
os.kill(os.getpid(), 9)
"""


def test_no_process_outlives_its_parent(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", DIES, tmp_path], capture_output=True, text=True, check=False)
    assert -9 == ran.returncode, ran.stderr
    try:
        descriptor = os.pidfd_open(int(ran.stdout))
    except ProcessLookupError:
        return
    try:
        assert [descriptor] == select.select([descriptor], [], [], 10)[0]
    finally:
        os.close(descriptor)


def test_passes_the_test_of_its_machine() -> None:
    tested = conform(load("sandbox-controller"), PodSandboxSUT, examples=5, steps=20)

    assert () == tested.failures
    assert () == tested.missed
    assert (set(), ()) == (tested.cover.unarranged, tested.left_out)


def test_upstream_conforms_with_its_profile_only() -> None:
    life = steps("wait; create; create; shutdown; create; start; unwatched; handle; create; start; exit; handle")
    tested = replay(load("sandbox-controller"), lambda: PodSandboxSUT("upstream"), life, profile="upstream")

    assert () == tested.failures
    assert {"overwritten", "waiters-forgotten", "last-exit-wins", "a-broken-watch-kills", "wait-without-a-code"} == set(
        tested.cover.deviations
    )
    assert replay(load("sandbox-controller"), lambda: PodSandboxSUT("upstream"), life).failures


def move(sandbox: Sandbox, state: str) -> None:
    sandbox.position = driver(MACHINE).position(state)


class ShutdownOfAbsentFails(Controller):
    async def shutdown(self, name: str) -> None:
        if name not in self._store:
            event = "shutdown"
            raise CallError(event, "NOT_FOUND", "no such sandbox")
        await super().shutdown(name)


class IgnoresStopsWithoutTask(Controller):
    async def stop(self, name: str) -> None:
        known = self._store.get(name)
        if known and known.record.pid and not known.world.task():
            return
        await super().stop(name)


class ForgetsWaiters(Controller):
    """A controller that does not wake callers waiting for a sandbox that never ran."""

    def _record_exit(self, sandbox: Sandbox, ended: Exit) -> None:
        if sandbox.record.pid:
            super()._record_exit(sandbox, ended)


class ReadyUntilDeleted(Controller):
    """A controller that records the exit only when the task is deleted."""

    def _take(self, sandbox: Sandbox, event: str, outcome: str = "", ended: Exit | None = None, why: str = "") -> None:
        if (event, outcome, sandbox.state) != ("handle", "kept", "ended"):
            super()._take(sandbox, event, outcome, ended, why)


class NeverRetries(Controller):
    async def _retry(self, event: tuple[Sandbox, Exit]) -> None:
        del event


class RecordsTheLastExit(Controller):
    def handle(self, sandbox: Sandbox, ended: Exit) -> bool:
        handled = super().handle(sandbox, ended)
        if not sandbox.record.exit or sandbox.record.exit != ended:
            sandbox.record = replace(sandbox.record, exit=ended)
            self._on_exit(sandbox.id)
        return handled


class BrokenWatchIsExit(Controller):
    def _lose_watch(self, sandbox: Sandbox) -> None:
        sandbox.world.kill()
        sandbox.record = replace(sandbox.record, exit=Exit(255, 1))
        move(sandbox, "notready")


class FailedStartIsReady(Controller):
    def _fail_start(self, sandbox: Sandbox, why: str) -> None:
        sandbox.record = replace(sandbox.record, pid=1)
        super()._fail_start(sandbox, why)
        self._store[sandbox.id] = sandbox


class KeepsFailedStarts(Controller):
    def _fail_start(self, sandbox: Sandbox, why: str) -> None:
        try:
            super()._fail_start(sandbox, why)
        finally:
            self._store[sandbox.id] = sandbox


class ForgetsTheContainer(Controller):
    async def shutdown(self, name: str) -> None:
        known = self._store.get(name)
        try:
            await super().shutdown(name)
        except CallError:
            if known and known.position.state == "notready":
                self._store.pop(name)
                return
            raise


class WaitsForever(Controller):
    async def wait(self, name: str) -> Exit:
        if name in self._store and self._store[name].record.exit:
            await asyncio.sleep(3600)
        return await super().wait(name)


BUGS: dict[type[Controller], str] = {
    ShutdownOfAbsentFails: "shutdown",
    IgnoresStopsWithoutTask: "create=created; start=started; stop=cut-short; stop=gone",
    ForgetsWaiters: "create=created; start=undone",
    ReadyUntilDeleted: "create=created; start=started; stop=cut-short; handle=kept",
    NeverRetries: "create=created; start=left-over; stop=kept; handle=deleted",
    RecordsTheLastExit: "handle",
    BrokenWatchIsExit: "create=created; start=started; unwatched",
    FailedStartIsReady: "create=created; start=left-over",
    KeepsFailedStarts: "create=created; start=undone",
    ForgetsTheContainer: "create=created; start=started; shutdown=half",
    WaitsForever: "create=created; start=started; stop=stopped; wait",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[Controller]) -> None:
    found = conform(load("sandbox-controller"), lambda: PodSandboxSUT(kind=kind), examples=0, most=1)

    assert ["; ".join(map(str, each.steps)) for each in found.failures] == [BUGS[kind]]
