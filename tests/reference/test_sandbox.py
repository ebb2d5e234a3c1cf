"""The reference sandbox controller: processes that exit, those who wait for it, what is tried again, and what the kit notices."""

# ruff: noqa: D102, SLF001  (a method is the bug that its class tells of, and reaches for what it should not)

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import pytest

from fsm.conformance.plan import steps
from fsm.conformance.suite import conform, replay
from fsm.library import load
from fsm.machine.driver import CannotHappenError
from fsm.reference.clock import TurnedClock
from fsm.reference.container.world import Exit, WorldError
from fsm.reference.driven import CallError, driver
from fsm.reference.sandbox.controller import MACHINE, Controller, Sandbox
from fsm.reference.sandbox.faults import FaultyProcesses
from fsm.reference.sandbox.processes import Processes
from fsm.reference.sandbox.sut import PodSandboxSUT
from fsm.reference.sandbox.upstream import UpstreamController

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from fsm.machine import Outcome

    Test: TypeAlias = Callable[["Place"], Awaitable[None]]


class Place:
    """A controller, and the world of its only sandbox, in which processes are real and exits are seen at once."""

    def __init__(self, root: Path, kind: type[Controller]) -> None:
        self.clock = TurnedClock(hurried=True)
        self.outputs: list[str] = []
        self.root = root
        self.worlds: list[FaultyProcesses] = []
        self.controller = kind(self._make, self.clock, on_exit=lambda _: self.outputs.append("told"))

    @property
    def world(self) -> FaultyProcesses:
        return self.worlds[-1]

    @property
    def state(self) -> str:
        return self.controller.status("pod").state

    def started(self) -> None:
        self.controller.create("pod")
        self.controller.start("pod")

    async def dies(self) -> None:
        """The process ends, and that is seen."""
        sandbox = self.controller._store["pod"]
        self.world.die()
        await asyncio.wait([sandbox.watch] if sandbox.watch else [])

    async def later(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.time += 1
            await self.controller.retries.tick()

    def _make(self, name: str) -> FaultyProcesses:
        if not self.worlds or name not in self.controller._store:
            self.worlds.append(FaultyProcesses(self.root / str(len(self.worlds)), self.outputs))
            self.worlds[-1].gate.set()
        return self.world


def at(root: Path, test: Test, kind: type[Controller] = Controller) -> None:
    """Do *test*, and leave no process behind."""

    async def done() -> None:
        place = Place(root, kind)
        try:
            await test(place)
        finally:
            await place.controller.close()
            for world in place.worlds:
                world.end()

    asyncio.run(done())


def test_an_exit_is_seen(tmp_path: Path) -> None:
    """A signal from anywhere ends the process, which whoever waits is told."""

    async def test(place: Place) -> None:
        place.started()
        waiting = [asyncio.create_task(place.controller.wait("pod")) for _ in range(2)]
        await asyncio.sleep(0)
        pid = place.controller.status("pod").pid
        os.kill(pid, 15)
        told = await asyncio.gather(*waiting)

        record = place.controller.status("pod")
        assert [143, 143] == [each.code for each in told]
        assert (0, told[0], "SANDBOX_NOTREADY") == (record.pid, record.exit, record.state)
        assert told[0] == await place.controller.wait("pod")
        assert ["told", "hook"] == place.outputs
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    at(tmp_path, test)


def test_a_stop_cleans_up_and_can_be_repeated(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        place.started()
        assert ["hosts"] == [each.name for each in place.world.root.iterdir()]
        await place.controller.stop("pod")
        await place.controller.stop("pod")
        assert ("SANDBOX_NOTREADY", []) == (place.state, list(place.world.root.iterdir()))
        await place.controller.shutdown("pod")
        await place.controller.shutdown("pod")
        assert not place.world.root.exists()
        with pytest.raises(CallError, match="NOT_FOUND"):
            place.controller.status("pod")

    at(tmp_path, test)


@pytest.mark.parametrize(
    ("kind", "states", "hooks"),
    [
        (Controller, ["SANDBOX_NOTREADY"] * 3, ["told", "hook"]),
        (UpstreamController, ["SANDBOX_READY", "SANDBOX_READY", "SANDBOX_NOTREADY"], ["hook", "hook", "told", "hook"]),
    ],
)
def test_a_task_that_cannot_be_deleted(
    tmp_path: Path, kind: type[Controller], states: list[str], hooks: list[str]
) -> None:
    """It is tried again after one second and after two more; as containerd has it, the sandbox is ready all the time."""

    async def test(place: Place) -> None:
        place.started()
        place.world.faults.add("delete")
        await place.dies()
        seen = [place.state]
        await place.later(1)
        place.world.faults.clear()
        await place.later(1)
        seen.append(place.state)
        assert place.world.task()
        await place.later(1)
        seen.append(place.state)
        assert not place.world.task()
        assert (states, hooks) == (seen, place.outputs)
        assert 143 == (await place.controller.wait("pod")).code

    at(tmp_path, test, kind)


@pytest.mark.parametrize(("kind", "told"), [(Controller, True), (UpstreamController, False)])
def test_a_shutdown_while_it_is_tried_again(tmp_path: Path, kind: type[Controller], told: object) -> None:
    """Who waits is told; as containerd has it, the event is discarded, and he waits for ever."""

    async def test(place: Place) -> None:
        place.started()
        waiting = asyncio.create_task(place.controller.wait("pod"))
        place.world.faults.add("delete")
        await place.dies()
        place.world.faults.clear()
        await place.controller.shutdown("pod")
        await place.later(400)
        await asyncio.sleep(0)
        assert ([], told) == (place.controller.retries.pending("pod"), waiting.done())
        waiting.cancel()

    at(tmp_path, test, kind)


@pytest.mark.parametrize(("kind", "told"), [(Controller, True), (UpstreamController, False)])
def test_who_waits_for_what_never_starts(tmp_path: Path, kind: type[Controller], told: object) -> None:
    async def test(place: Place) -> None:
        place.controller.create("pod")
        waiting = asyncio.create_task(place.controller.wait("pod"))
        await asyncio.sleep(0)
        await place.controller.shutdown("pod")
        for _ in range(4):
            await asyncio.sleep(0)
        assert waiting.done() == told
        assert not told or 255 == (await waiting).code
        waiting.cancel()

    at(tmp_path, test, kind)


@pytest.mark.parametrize(("kind", "state"), [(Controller, "SANDBOX_NOTREADY"), (UpstreamController, "SANDBOX_READY")])
def test_a_stop_that_finds_no_task(tmp_path: Path, kind: type[Controller], state: str) -> None:
    """It was deleted behind the controller's back, which has not seen its exit yet."""

    async def test(place: Place) -> None:
        place.started()
        place.world.gate.clear()
        await asyncio.sleep(0)
        place.world.delete()
        await place.controller.stop("pod")
        assert state == place.state

    at(tmp_path, test, kind)


@pytest.mark.parametrize(("kind", "code"), [(Controller, 143), (UpstreamController, 9)])
def test_an_exit_that_is_told_again(tmp_path: Path, kind: type[Controller], code: int) -> None:
    async def test(place: Place) -> None:
        place.started()
        await place.dies()
        place.controller.handle(place.controller._store["pod"], Exit(9, 9))
        record = place.controller.status("pod")
        assert code == (record.exit and record.exit.code)

    at(tmp_path, test, kind)


@pytest.mark.parametrize(("kind", "runs"), [(Controller, True), (UpstreamController, False)])
def test_a_watch_that_breaks(tmp_path: Path, kind: type[Controller], runs: object) -> None:
    """What runs goes on, and its exit is seen later; as containerd has it, it is killed."""

    async def test(place: Place) -> None:
        place.started()
        place.world.breaks = True
        for _ in range(4):
            await asyncio.sleep(0)
        assert (runs, runs) == (place.world.task(), place.state == "SANDBOX_READY")
        place.world.gate.set()
        if runs:
            await place.dies()
        assert (143 if runs else 255) == (await place.controller.wait("pod")).code

    at(tmp_path, test, kind)


@pytest.mark.parametrize(("kind", "code"), [(Controller, "ALREADY_EXISTS"), (UpstreamController, "")])
def test_an_id_that_is_taken(tmp_path: Path, kind: type[Controller], code: str) -> None:
    async def test(place: Place) -> None:
        place.started()
        told = ""
        try:
            place.controller.create("pod")
        except CallError as error:
            told = error.code
        assert (code, "SANDBOX_READY" if code else "SANDBOX_UNKNOWN") == (told, place.state)

    at(tmp_path, test, kind)


@pytest.mark.parametrize(("kind", "shown"), [(Controller, "absent"), (UpstreamController, "SANDBOX_READY")])
def test_a_start_that_fails_late(tmp_path: Path, kind: type[Controller], shown: str) -> None:
    """All of it is undone; as containerd has it, the record says ready, and no stop changes that."""

    async def test(place: Place) -> None:
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

    at(tmp_path, test, kind)


def test_a_start_that_cannot_be_undone_can_be_stopped(tmp_path: Path) -> None:
    """Its process runs, of which nobody knows but the world."""

    async def test(place: Place) -> None:
        place.controller.create("pod")
        place.world.faults |= {"run", "undo"}
        with pytest.raises(CallError, match=r"^start: UNKNOWN: cannot run$"):
            place.controller.start("pod")
        place.world.faults.clear()
        assert ("SANDBOX_UNKNOWN", True) == (place.state, place.world.task())
        await place.controller.stop("pod")
        assert ("SANDBOX_NOTREADY", False) == (place.state, place.world.task())

    at(tmp_path, test)


def test_a_stop_that_takes_too_long(tmp_path: Path) -> None:
    """The caller gives up; the exit is handled when it is seen."""

    async def test(place: Place) -> None:
        place.started()
        place.world.faults.add("late")
        place.world.gate.clear()
        await asyncio.sleep(0)
        with pytest.raises(CallError, match="stop: UNKNOWN"):
            await place.controller.stop("pod", within=0)
        place.world.gate.set()
        await place.dies()
        assert "SANDBOX_NOTREADY" == place.state

    at(tmp_path, test)


def test_a_wait_may_be_given_up(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        place.started()
        with pytest.raises(CallError, match="DEADLINE_EXCEEDED"):
            await place.controller.wait("pod", within=0)
        with pytest.raises(CannotHappenError):
            place.controller.start("pod")
        assert "SANDBOX_READY" == place.state

    at(tmp_path, test)


def test_a_directory_that_is_taken(tmp_path: Path) -> None:
    """A world that cannot make what it needs says so."""
    (tmp_path / "pod").touch()
    with pytest.raises(WorldError, match="File exists"):
        Processes(tmp_path / "pod").run()


DIES = """
import os, sys
from pathlib import Path
from fsm.reference.sandbox.processes import Processes
print(Processes(Path(sys.argv[1], "pod")).run(), flush=True)
os.kill(os.getpid(), 9)
"""


def test_no_process_outlives_who_started_it(tmp_path: Path) -> None:
    """Even if that is killed."""
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


def test_it_takes_the_test_of_its_machine() -> None:
    """All that can be reached is covered, every way of it."""
    tested = conform(load("sandbox-controller"), PodSandboxSUT, examples=5, steps=20)

    assert () == tested.failures
    assert () == tested.missed
    assert set() == tested.cover.unarranged | tested.cover.unsupported


def test_as_written_is_as_its_profile_says() -> None:
    """Each of these is tolerated, and a violation without the profile."""
    life = steps("wait; create; create; shutdown; create; start; unwatched; handle; create; start; exit; handle")
    tested = replay(load("sandbox-controller"), lambda: PodSandboxSUT("as-written"), life, profile="as-written")

    assert () == tested.failures
    assert {"overwritten", "waiters-forgotten", "last-exit-wins", "a-broken-watch-kills", "wait-without-a-code"} == set(
        tested.cover.deviations
    )
    assert replay(load("sandbox-controller"), lambda: PodSandboxSUT("as-written"), life).failures


def moved(sandbox: Sandbox, state: str) -> None:
    """*sandbox* is elsewhere."""
    sandbox.position = driver(MACHINE).position(state)


class DeniesShutdowns(Controller):
    """Shutting down what is not there is an error."""

    async def shutdown(self, name: str) -> None:
        if name not in self._store:
            event = "shutdown"
            raise CallError(event, "NOT_FOUND", "no such sandbox")
        await super().shutdown(name)


class StopsWithoutATask(Controller):
    """Where there is no task the sandbox is left as it is."""

    async def stop(self, name: str, within: float | None = None) -> None:
        known = self._store.get(name)
        if known and known.record.pid and not known.world.task():
            return
        await super().stop(name, within)


class TellsNobody(Controller):
    """Who waits for what is shut down is forgotten."""

    def _record_exit(self, sandbox: Sandbox, ended: Exit) -> None:
        if sandbox.record.pid:
            super()._record_exit(sandbox, ended)


class ReadyUntilDeleted(Controller):
    """The exit is recorded when the task is deleted."""

    def _take(
        self, sandbox: Sandbox, event: str, outcome: str = "", ended: Exit | None = None, why: str = ""
    ) -> Outcome:
        if (event, outcome, sandbox.position.state) == ("handle", "kept", "ended"):
            return sandbox.position.outcomes("handle")[0]
        return super()._take(sandbox, event, outcome, ended, why)


class ForgetsToTryAgain(Controller):
    """A task that cannot be deleted is left."""

    async def _retry(self, event: tuple[Sandbox, Exit]) -> None:
        del event


class TellsAgain(Controller):
    """An exit that is told again is believed."""

    def handle(self, sandbox: Sandbox, ended: Exit) -> bool:
        handled = super().handle(sandbox, ended)
        if not sandbox.record.exit or sandbox.record.exit != ended:
            sandbox.record = replace(sandbox.record, exit=ended)
            self._on_exit(sandbox.id)
        return handled


class KillsTheUnwatched(Controller):
    """A watch that breaks is taken for an exit."""

    def _lose_watch(self, sandbox: Sandbox) -> None:
        sandbox.world.kill()
        sandbox.record = replace(sandbox.record, exit=Exit(255, 1))
        moved(sandbox, "notready")


class StartsAnyway(Controller):
    """What cannot be started is ready."""

    def _fail_start(self, sandbox: Sandbox, why: str) -> None:
        sandbox.record = replace(sandbox.record, pid=1)
        super()._fail_start(sandbox, why)
        self._store[sandbox.id] = sandbox


class KeepsTheRecord(Controller):
    """What failed to start stays in the store."""

    def _fail_start(self, sandbox: Sandbox, why: str) -> None:
        try:
            super()._fail_start(sandbox, why)
        finally:
            self._store[sandbox.id] = sandbox


class ForgetsHalf(Controller):
    """A shutdown that cannot delete the container is done."""

    async def shutdown(self, name: str) -> None:
        known = self._store.get(name)
        try:
            await super().shutdown(name)
        except CallError:
            if known and known.position.state == "notready":
                self._store.pop(name)
                return
            raise


class WaitsForNothing(Controller):
    """A wait for what has ended goes on."""

    async def wait(self, name: str, within: float | None = None) -> Exit:
        if name in self._store and self._store[name].record.exit:
            await asyncio.sleep(3600)
        return await super().wait(name, within)


BUGS: dict[type[Controller], str] = {
    DeniesShutdowns: "shutdown",
    StopsWithoutATask: "create=created; start=started; stop=cut-short; stop=gone",
    TellsNobody: "create=created; start=undone",
    ReadyUntilDeleted: "create=created; start=started; stop=cut-short; handle=kept",
    ForgetsToTryAgain: "create=created; start=left-over; stop=kept; handle=deleted",
    TellsAgain: "handle",
    KillsTheUnwatched: "create=created; start=started; unwatched",
    StartsAnyway: "create=created; start=left-over",
    KeepsTheRecord: "create=created; start=undone",
    ForgetsHalf: "create=created; start=started; shutdown=half",
    WaitsForNothing: "create=created; start=started; stop=stopped; wait",
}


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_bug_is_found_by_the_shortest_test(kind: type[Controller]) -> None:
    found = conform(load("sandbox-controller"), lambda: PodSandboxSUT(kind=kind), examples=0, most=1)

    assert ["; ".join(map(str, each.steps)) for each in found.failures] == [BUGS[kind]]
