"""A counterpart of containerd's own sandbox controller, driven by the machine ``sandbox-controller``."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Self

from fsm.machine.driver import Position
from fsm.runtimes.names import NOT_READY, READY
from fsm.runtimes.reference.clock import Clock, Tasks
from fsm.runtimes.reference.container.world import LOST_CODE, Exit, NoTaskError, Processes, WatchError
from fsm.runtimes.reference.driven import ABSENT, UNKNOWN, CallError, Driven, WorldError, driver, first_of, raise_reply
from fsm.runtimes.reference.events import Backoff, HandlerError

MACHINE: Final = "sandbox-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRecord:
    """The record of a sandbox. Times are in nanoseconds since the epoch, or 0 if unset."""

    pid: int = 0
    created_at: int = 0
    exit: Exit | None = None

    @property
    def state(self) -> str:
        if self.exit is not None:
            return NOT_READY
        return READY if self.pid else "SANDBOX_UNKNOWN"


class Sandbox(Driven):
    """A sandbox, which may be absent from the controller's store.

    ``exited`` is a future for the recorded exit. ``noticed`` is true once the exit was reported to the machine.
    """

    def __init__(self, name: str, world: Processes, position: Position) -> None:
        super().__init__(position)
        self.id = name
        self.world = world
        self.record = SandboxRecord()
        self.exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self.watch: asyncio.Task[None] | None = None
        self.noticed = False

    def last_exit(self) -> Exit:
        return self.world.ended() or Exit(LOST_CODE, self.world.now())


class Controller:
    """A controller of all sandboxes. It belongs to one event loop.

    *worlds* creates the environment of the sandbox with a given id. Retries use *clock*, and *on_exit* is called with
    the id of a sandbox whose exit was recorded.

    >>> import tempfile
    >>> from pathlib import Path
    >>> async def example(folder: str) -> None:
    ...     async with Controller(lambda name: Processes(Path(folder, name))) as controller:
    ...         controller.create("pod")
    ...         controller.start("pod")
    ...         waiting = asyncio.create_task(controller.wait("pod"))
    ...         print(controller.status("pod").state)
    ...         await controller.stop("pod")
    ...         print(controller.status("pod").state, (await waiting).code)
    ...         await controller.shutdown("pod")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(example(folder))
    SANDBOX_READY
    SANDBOX_NOTREADY 137
    """

    profile = ""

    def __init__(
        self,
        worlds: Callable[[str], Processes],
        clock: Clock | None = None,
        *,
        on_exit: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.retries: Backoff[tuple[Sandbox, Exit]] = Backoff(self._retry, clock)
        self._worlds = worlds
        self._on_exit = on_exit
        self._store: dict[str, Sandbox] = {}
        self._tasks = Tasks()

    async def __aenter__(self) -> Self:
        self._tasks.start(self.retries.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.retries.stop()
        await self._tasks.cancel()

    def status(self, name: str) -> SandboxRecord:
        return self._call(name, "status").record

    def platform(self, name: str) -> str:
        self._call(name, "platform")
        return "linux"

    def update(self, name: str) -> None:
        self._call(name, "update")

    async def wait(self, name: str) -> Exit:
        return await asyncio.shield(self._call(name, "wait").exited)

    def create(self, name: str) -> None:
        if (sandbox := self._begin(name, "create")) is None:
            return
        self._store[name] = sandbox
        try:
            sandbox.world.pretend("read")
        except WorldError as error:
            self._take(sandbox, "create", "failed", why=str(error))
        self._take(sandbox, "create", "created")

    def start(self, name: str) -> None:
        if (sandbox := self._begin(name, "start")) is None:
            return
        try:
            self._describe(sandbox, sandbox.world.run())
        except WorldError as error:
            self._fail_start(sandbox, str(error))
        else:
            self._take(sandbox, "start", "started")
            sandbox.watch = self._tasks.start(self._watch(sandbox))

    async def stop(self, name: str) -> None:
        if (sandbox := self._begin(name, "stop")) is None:
            return
        outcome, ended, why = "cleaned", None, ""
        if "cleaned" not in sandbox.offered("stop"):
            outcome, ended, why = await self._kill(sandbox)
        # The exit may have been handled in the meantime.
        outcome = first_of(sandbox.offered("stop"), outcome, "cleaned", "failed")
        if outcome != "failed":
            try:
                sandbox.world.clean()
            except WorldError as error:
                why = str(error)
                outcome = {"cleaned": "failed", "stopped": "uncleaned"}.get(outcome, f"{outcome}-uncleaned")
        try:
            self._take(sandbox, "stop", outcome, ended, why)
        finally:
            if outcome.startswith("kept"):
                self.retries.defer(name, (sandbox, ended or sandbox.last_exit()))

    async def shutdown(self, name: str) -> None:
        if (sandbox := self._begin(name, "shutdown")) is None:
            return
        outcome, why = "failed", ""
        try:
            sandbox.world.clear()
            with suppress(NoTaskError):
                sandbox.world.delete()
            outcome = first_of(sandbox.offered("shutdown"), "half", "failed")
            sandbox.world.pretend("forget")
            outcome = "removed"
        except WorldError as error:
            why = str(error)
        self._take(sandbox, "shutdown", outcome, sandbox.last_exit(), why)

    def recover(self, name: str) -> SandboxRecord:
        """Restore a sandbox after a restart, watch its process, and return its record."""
        world = self._worlds(name)
        sandbox = self._store[name] = Sandbox(name, world, driver(MACHINE).position(_state_after_restart(world)))
        if sandbox.state == "ready":
            sandbox.record = replace(sandbox.record, pid=sandbox.world.pid(), created_at=sandbox.world.now())
            sandbox.watch = self._tasks.start(self._watch(sandbox))
        elif sandbox.state == "notready":
            self._record_exit(sandbox, sandbox.last_exit())
        return sandbox.record

    async def _watch(self, sandbox: Sandbox) -> None:
        ended = None
        while ended is None:
            try:
                ended = await sandbox.world.exited()
            except WatchError:
                ended = self._lose_watch(sandbox)
        if not self.handle(sandbox, ended):
            self.retries.defer(sandbox.id, (sandbox, ended))

    def _lose_watch(self, sandbox: Sandbox) -> Exit | None:
        self._notice_exit(sandbox)
        self._take(sandbox, "unwatched")
        return None

    async def _retry(self, event: tuple[Sandbox, Exit]) -> None:
        if not self.handle(*event):
            raise HandlerError

    def handle(self, sandbox: Sandbox, ended: Exit) -> bool:
        self._notice_exit(sandbox)
        outcome = ""
        if not sandbox.is_noop("handle"):
            outcome, _ = self._delete_task(sandbox, "deleted")
        self._take(sandbox, "handle", outcome, ended)
        return outcome != "kept"

    def _notice_exit(self, sandbox: Sandbox) -> None:
        if sandbox.record.pid and not sandbox.noticed and sandbox.world.ended():
            sandbox.noticed = True
            sandbox.position.take("exit")

    def _describe(self, sandbox: Sandbox, pid: int) -> None:
        sandbox.world.pretend("describe")
        sandbox.record = replace(sandbox.record, pid=pid, created_at=sandbox.world.now())

    def _fail_start(self, sandbox: Sandbox, why: str) -> None:
        try:
            sandbox.world.undo()
        except WorldError:
            self._take(sandbox, "start", "left-over", why=why)
        self._take(sandbox, "start", "undone", sandbox.last_exit(), why)

    async def _kill(self, sandbox: Sandbox) -> tuple[str, Exit | None, str]:
        world = sandbox.world
        try:
            if not world.task():
                return "gone", sandbox.last_exit(), ""
            world.kill()
            ended = await world.dead()
        except WorldError as error:
            self._notice_exit(sandbox)  # the process may have ended despite the failure
            return "failed", None, str(error)
        if sandbox.exited.done():  # the exit was handled in the meantime
            return "cleaned", ended, ""
        outcome, why = self._delete_task(sandbox, "stopped")
        return outcome, ended, why

    def _delete_task(self, sandbox: Sandbox, success: str) -> tuple[str, str]:
        try:
            if not sandbox.world.task():
                return "gone", ""
            sandbox.world.delete()
        except WorldError as error:
            return "kept", str(error)
        return success, ""

    def find(self, name: str) -> Sandbox:
        return self._store.get(name) or Sandbox(name, self._worlds(name), driver(MACHINE, self.profile).position())

    def _call(self, name: str, event: str) -> Sandbox:
        sandbox = self.find(name)
        self._take(sandbox, event)
        return sandbox

    def _begin(self, name: str, event: str) -> Sandbox | None:
        sandbox = self.find(name)
        self._notice_exit(sandbox)
        if not sandbox.is_noop(event):
            return sandbox
        self._take(sandbox, event)
        return None

    def _take(
        self, sandbox: Sandbox, event: str, outcome: str = "", ended: Exit | None = None, why: str = "not in this state"
    ) -> None:
        way = sandbox.take(event, outcome)
        for output in way.emits:
            if output == "hook":
                sandbox.world.hook()
            else:
                self._record_exit(sandbox, ended or sandbox.last_exit())
        if way.to == ABSENT and self._store.get(sandbox.id) is sandbox:
            del self._store[sandbox.id]
            if sandbox.watch:
                sandbox.watch.cancel()
        raise_reply(event, way, why)

    def _record_exit(self, sandbox: Sandbox, ended: Exit) -> None:
        sandbox.record = replace(sandbox.record, pid=0, exit=ended)
        sandbox.exited.set_result(ended)
        self._on_exit(sandbox.id)


def _state_after_restart(world: Processes) -> str:
    try:
        if world.task():
            if world.ended() is None:
                return "ready"
            with suppress(NoTaskError):
                world.delete()
    except WorldError:
        return "unknown"
    return "notready"


class UpstreamController(Controller):
    """containerd's controller. A sandbox stays ready until its task is deleted, and waiting calls may be forgotten."""

    profile = "upstream"
    _silent = False  # true while an exit is recorded without notifying the waiting callers

    def create(self, name: str) -> None:
        known = self._store.pop(name, None)
        try:
            super().create(name)
        except CallError:
            if known:
                self._store[name] = known
            raise

    def _describe(self, sandbox: Sandbox, pid: int) -> None:
        sandbox.record = replace(sandbox.record, pid=pid, created_at=sandbox.world.now())
        super()._describe(sandbox, pid)

    def _fail_start(self, sandbox: Sandbox, why: str) -> None:
        with suppress(WorldError):
            sandbox.world.undo()
        if sandbox.record.pid:
            sandbox.position, sandbox.noticed = driver(MACHINE).position("ended"), True
        raise CallError("start", UNKNOWN, why)

    async def stop(self, name: str) -> None:
        known = self._store.get(name)
        if known and known.record.pid:
            self._notice_exit(known)
            if not known.world.task():
                return
        await super().stop(name)

    def _delete_task(self, sandbox: Sandbox, success: str) -> tuple[str, str]:
        outcome, why = super()._delete_task(sandbox, success)
        if outcome != "kept":
            return outcome, why
        self._notice_exit(sandbox)
        sandbox.world.hook()
        return "failed", why

    async def _retry(self, event: tuple[Sandbox, Exit]) -> None:
        if self._store.get(event[0].id) is event[0]:
            await super()._retry(event)

    def handle(self, sandbox: Sandbox, ended: Exit) -> bool:
        self._notice_exit(sandbox)
        if sandbox.record.exit is not None and self._store.get(sandbox.id) is sandbox:
            self._record_exit(sandbox, ended)
            return True
        if sandbox.is_noop("handle"):
            return super().handle(sandbox, ended)
        outcome, _ = self._delete_task(sandbox, "deleted")
        if outcome != "failed":
            self._take(sandbox, "handle", outcome, ended)
        return outcome != "failed"

    def _lose_watch(self, sandbox: Sandbox) -> Exit | None:
        """Treat the broken watch as an exit, so that a running process is killed."""
        if not sandbox.noticed and not sandbox.world.ended():
            sandbox.noticed = True
            sandbox.position.take("exit")
        return Exit(LOST_CODE, sandbox.world.now())

    def _take(
        self, sandbox: Sandbox, event: str, outcome: str = "", ended: Exit | None = None, why: str = "not in this state"
    ) -> None:
        self._silent = event == "shutdown" and outcome == "removed" and (sandbox.noticed or not sandbox.record.pid)
        super()._take(sandbox, event, outcome, ended, why)

    def _record_exit(self, sandbox: Sandbox, ended: Exit) -> None:
        """Record *ended*, even after an earlier exit. If ``_silent``, record nothing and notify no waiting caller."""
        if self._silent:
            return
        if sandbox.exited.done():
            sandbox.record = replace(sandbox.record, exit=ended)
            self._on_exit(sandbox.id)
        else:
            super()._record_exit(sandbox, ended)
