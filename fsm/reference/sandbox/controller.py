"""The sandbox controller: its life is the machine ``sandbox-controller``, its data a record of each sandbox.

Whether a call may happen, what follows it, and whether those who wait are
told is the machine's.  What is done in the world, and which of the machine's
outcomes that was, is what the methods here add.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from fsm.library import load as machine
from fsm.machine import ANY_ERROR
from fsm.machine.driver import Driver
from fsm.reference.container.world import Exit, NoTaskError, WorldError
from fsm.reference.driven import UNKNOWN, CallError
from fsm.reference.events.backoff import EventMonitor, HandlerError
from fsm.reference.sandbox.world import WatchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from fsm.machine import Outcome
    from fsm.machine.driver import Position
    from fsm.reference.clock import Clock
    from fsm.reference.sandbox.world import World

ABSENT: Final = "absent"
LOST_CODE: Final = 255
"""Stands for the code of an exit that nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of a sandbox; times are nanoseconds since 1970, and 0 where there is none."""

    pid: int = 0
    created_at: int = 0
    exit: Exit | None = None

    @property
    def state(self) -> str:
        """What a client is told."""
        if self.exit is not None:
            return "SANDBOX_NOTREADY"
        return "SANDBOX_READY" if self.pid else "SANDBOX_UNKNOWN"


class Sandbox:
    """A sandbox in the store of the controller, or one that was there."""

    def __init__(self, name: str, world: World, position: Position) -> None:
        self.id = name
        self.world = world
        self.position = position
        self.record = Record()
        self.over: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self.watch: asyncio.Task[None] | None = None
        self.noticed = False

    def lost(self) -> Exit:
        """How its process ended, as far as anybody knows."""
        return self.world.ended() or Exit(LOST_CODE, self.world.now())


class Controller:
    """All sandboxes, each in a world that *worlds* makes for its id; what goes wrong is tried again by *clock*.

    Methods for calls raise :class:`~fsm.reference.driven.CallError` for an
    error reply, and :class:`~fsm.machine.driver.NoWayError` for what nobody says.
    For one event loop.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from fsm.reference.sandbox.processes import Processes
    >>> async def life(folder: str) -> None:
    ...     async with Controller(lambda name: Processes(Path(folder, name))) as controller:
    ...         controller.create("pod")
    ...         controller.start("pod")
    ...         waiting = asyncio.create_task(controller.wait("pod"))
    ...         print(controller.status("pod").state)
    ...         await controller.stop("pod")
    ...         print(controller.status("pod").state, (await waiting).code)
    ...         await controller.shutdown("pod")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(life(folder))
    SANDBOX_READY
    SANDBOX_NOTREADY 137
    """

    def __init__(
        self,
        worlds: Callable[[str], World],
        clock: Clock | None = None,
        *,
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.monitor: EventMonitor[tuple[Sandbox, Exit]] = EventMonitor(self._retried, clock)
        self._worlds = worlds
        self._told = told
        self._store: dict[str, Sandbox] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._kept(asyncio.create_task(self.monitor.run()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Nothing is watched or tried again any more; what runs goes on."""
        self.monitor.stop()
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- calls that change nothing -----------------------------------------

    def status(self, name: str) -> Record:
        """The record of a sandbox."""
        sandbox = self._of(name)
        self._take(sandbox, "status")
        return sandbox.record

    def platform(self, name: str) -> str:
        """For which system the containers of a sandbox are to be."""
        self._take(self._of(name), "platform")
        return "linux"

    def update(self, name: str) -> None:
        """Nothing is to be done for it."""
        self._take(self._of(name), "update")

    async def wait(self, name: str, patience: float | None = None) -> Exit:
        """How a sandbox ended, once it has; after *patience* seconds the caller gives up."""
        sandbox = self._of(name)
        self._take(sandbox, "wait")
        try:
            return await asyncio.wait_for(asyncio.shield(sandbox.over), patience)
        except TimeoutError:
            event = "wait"
            raise CallError(event, "DEADLINE_EXCEEDED", "it has not exited") from None

    # -- calls that change something ---------------------------------------

    def create(self, name: str) -> None:
        """Take a sandbox into the store."""
        sandbox = self._of(name)
        if self._idle(sandbox, "create"):
            self._take(sandbox, "create")
        self._store[name] = sandbox
        try:
            sandbox.world.read()
        except WorldError as error:
            self._take(sandbox, "create", "failed", why=str(error))
        self._take(sandbox, "create", "created")

    def start(self, name: str) -> None:
        """Make its container, and start its pause process."""
        sandbox = self._of(name)
        if self._idle(sandbox, "start"):
            self._take(sandbox, "start")
        try:
            pid = sandbox.world.run()
            self._describe(sandbox, pid)
        except WorldError as error:
            self._failed(sandbox, str(error))
            return
        self._take(sandbox, "start", "started")
        sandbox.watch = self._kept(asyncio.create_task(self._watch(sandbox)))

    async def stop(self, name: str, patience: float | None = None) -> None:
        """Kill the pause process, and clean up; after *patience* seconds the caller gives up."""
        sandbox = self._of(name)
        self._notice(sandbox)
        if self._idle(sandbox, "stop"):
            self._take(sandbox, "stop")
            return
        ended, exit_, why = "cleaned", None, ""
        if "cleaned" not in self._names(sandbox, "stop"):
            ended, exit_, why = await self._end(sandbox, patience)
        names = self._names(sandbox, "stop")  # it may have been handled meanwhile
        if ended not in names:
            ended = "cleaned" if "cleaned" in names else "failed"
        if ended != "failed":
            try:
                sandbox.world.clean()
            except WorldError as error:
                why = str(error)
                ended = _uncleaned(ended)
        try:
            self._take(sandbox, "stop", ended, exit_, why)
        finally:
            if ended.startswith("kept"):
                self.monitor.backoff(name, (sandbox, exit_ or sandbox.lost()))

    async def shutdown(self, name: str) -> None:
        """Delete all of it: directories, task, container and record."""
        sandbox = self._of(name)
        self._notice(sandbox)
        if self._idle(sandbox, "shutdown"):
            self._take(sandbox, "shutdown")
            return
        removed, why = "failed", ""
        try:
            sandbox.world.clear()
            with suppress(NoTaskError):
                sandbox.world.delete()
            removed = "half" if "half" in self._names(sandbox, "shutdown") else "failed"
            sandbox.world.forget()
            removed = "removed"
        except WorldError as error:
            why = str(error)
        self._take(sandbox, "shutdown", removed, sandbox.lost(), why)

    def recover(self, name: str) -> Record:
        """Take a sandbox into the store as a restart finds it, and watch what runs; its record."""
        sandbox = Sandbox(name, self._worlds(name), driver().position(_found(self._worlds(name))))
        self._store[name] = sandbox
        if sandbox.position.state == "ready":
            sandbox.record = replace(sandbox.record, pid=sandbox.world.pid(), created_at=sandbox.world.now())
            sandbox.watch = self._kept(asyncio.create_task(self._watch(sandbox)))
        elif sandbox.position.state == "notready":
            self._tell(sandbox, sandbox.lost())
        return sandbox.record

    # -- what happens ------------------------------------------------------

    async def _watch(self, sandbox: Sandbox) -> None:
        """Wait for the exit of *sandbox*, and handle it."""
        while True:
            try:
                ended = await sandbox.world.exited()
            except WatchError:
                self._unwatched(sandbox)
                continue
            break
        if not self.handle(sandbox, ended):
            self.monitor.backoff(sandbox.id, (sandbox, ended))

    def _unwatched(self, sandbox: Sandbox) -> None:
        """The watch broke: that says nothing of the process, which is watched anew."""
        self._notice(sandbox)
        self._take(sandbox, "unwatched")

    async def _retried(self, event: tuple[Sandbox, Exit]) -> None:
        if not self.handle(*event):
            raise HandlerError

    def handle(self, sandbox: Sandbox, ended: Exit) -> bool:
        """The process of *sandbox* has *ended*; false if its task could not be deleted, and that is to be tried again."""
        self._notice(sandbox)
        handled = ""
        if not self._idle(sandbox, "handle"):
            handled, _ = self._deleted(sandbox, "deleted")
        self._take(sandbox, "handle", handled, ended)
        return handled != "kept"

    def _notice(self, sandbox: Sandbox) -> None:
        """That the process has ended, if it has: nobody need have been told."""
        if sandbox.record.pid and not sandbox.noticed and sandbox.world.ended():
            sandbox.noticed = True
            sandbox.position.take("exit")

    def _kept(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- effects -----------------------------------------------------------

    def _describe(self, sandbox: Sandbox, pid: int) -> None:
        """Record that process *pid* runs, once nothing can fail any more."""
        sandbox.world.describe()
        sandbox.record = replace(sandbox.record, pid=pid, created_at=sandbox.world.now())

    def _failed(self, sandbox: Sandbox, why: str) -> None:
        """Undo the start of *sandbox*, as far as that can be."""
        try:
            sandbox.world.undo()
        except WorldError:
            self._take(sandbox, "start", "left-over", why=why)
        self._take(sandbox, "start", "undone", sandbox.lost(), why)

    async def _end(self, sandbox: Sandbox, patience: float | None) -> tuple[str, Exit | None, str]:
        """Kill the process of *sandbox* and delete its task; what came of it, and why not all."""
        world = sandbox.world
        try:
            if not world.task():
                return "gone", sandbox.lost(), ""
            world.kill()
            async with asyncio.timeout(patience):
                ended = await world.dead()
        except (WorldError, TimeoutError) as error:
            self._notice(sandbox)  # it may have ended all the same
            return "failed", None, str(error)
        if sandbox.over.done():  # somebody else has handled it
            return "cleaned", ended, ""
        came, why = self._deleted(sandbox, "stopped")
        return came, ended, why

    def _deleted(self, sandbox: Sandbox, well: str) -> tuple[str, str]:
        """Delete the task of *sandbox*: *well*, gone already, or kept for now, and why."""
        try:
            if not sandbox.world.task():
                return "gone", ""
            sandbox.world.delete()
        except NoTaskError:
            return "gone", ""
        except WorldError as error:
            return "kept", str(error)
        return well, ""

    # -- the machine -------------------------------------------------------

    def _of(self, name: str) -> Sandbox:
        """The sandbox with this id; one that is not in the store, if none is."""
        return self._store.get(name) or Sandbox(name, self._worlds(name), driver().position())

    def _names(self, sandbox: Sandbox, event: str) -> set[str]:
        return {way.name for way in sandbox.position.ways(event)}

    def _idle(self, sandbox: Sandbox, event: str) -> bool:
        """Whether *event* can only leave *sandbox* as it is, so that nothing need be done for it."""
        ways = sandbox.position.ways(event)
        return len(ways) == 1 and ways[0].to == sandbox.position.state

    def _take(
        self, sandbox: Sandbox, event: str, outcome: str = "", ended: Exit | None = None, why: str = "not in this state"
    ) -> Outcome:
        """Go the way that *outcome* names: do what it puts out, and raise what it replies if that is an error."""
        way = sandbox.position.take(event, outcome)
        for output in way.emits:
            if output == "told":
                self._tell(sandbox, ended or sandbox.lost())
            else:
                sandbox.world.hook()
        if way.to == ABSENT and self._store.get(sandbox.id) is sandbox:
            del self._store[sandbox.id]
            if sandbox.watch:
                sandbox.watch.cancel()
        if not way.begins and way.reply and not way.replies("ok"):
            raise CallError(event, UNKNOWN if way.reply[0] == ANY_ERROR else way.reply[0], why)
        return way

    def _tell(self, sandbox: Sandbox, ended: Exit) -> None:
        """Record how *sandbox* ended, and tell those who wait."""
        sandbox.record = replace(sandbox.record, pid=0, exit=ended)
        sandbox.over.set_result(ended)
        self._told(sandbox.id)


def _found(world: World) -> str:
    """The state in which a restart finds the sandbox of *world*; what is left of a task that has ended goes."""
    try:
        if not world.task():
            return "notready"
        if world.ended() is None:
            return "ready"
        world.delete()
    except NoTaskError:
        return "notready"
    except WorldError:
        return "unknown"
    return "notready"


def _uncleaned(ended: str) -> str:
    """What *ended* is called where files are left."""
    return {"cleaned": "failed", "stopped": "uncleaned"}.get(ended, f"{ended}-uncleaned")


@cache
def driver() -> Driver:
    """The machine as it is executed."""
    return Driver(machine("sandbox-controller"))
