"""The sandbox controller of containerd 2.2, where it differs from what the machine intends."""

from contextlib import suppress
from dataclasses import replace

from fsm.runtimes.reference.container.world import LOST_CODE, Exit
from fsm.runtimes.reference.driven import UNKNOWN, CallError, WorldError, driver
from fsm.runtimes.reference.sandbox.controller import MACHINE, Controller, Sandbox
from fsm.runtimes.reference.sandbox.processes import WatchError


class UpstreamController(Controller):
    """A controller whose records stay ready until the task is deleted, and which can forget waiting callers."""

    profile = "upstream"
    _silent = False  # while an exit is recorded without notifying the callers that wait for it

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
        """Stop a sandbox. One that is ready but has no task stays ready."""
        known = self._store.get(name)
        if known and known.record.pid:
            self._notice_exit(known)
            if not known.world.task():
                return
        await super().stop(name)

    def _delete_task(self, sandbox: Sandbox, success: str) -> tuple[str, str]:
        """Delete the task. The hook also runs after each failed attempt."""
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
        outcome, _ = super()._delete_task(sandbox, "deleted")
        if outcome == "kept":
            sandbox.world.hook()
            return False
        self._take(sandbox, "handle", outcome, ended)
        return True

    async def _watch(self, sandbox: Sandbox) -> None:
        """Treat a broken watch as an exit, which kills a running process."""
        try:
            ended = await sandbox.world.exited()
        except WatchError:
            ended = Exit(LOST_CODE, sandbox.world.now())
            if not sandbox.noticed and not sandbox.world.ended():
                sandbox.noticed = True
                sandbox.position.take("exit")
        self._handle_or_defer(sandbox, ended)

    def _take(
        self, sandbox: Sandbox, event: str, outcome: str = "", ended: Exit | None = None, why: str = "not in this state"
    ) -> None:
        self._silent = event == "shutdown" and outcome == "removed" and (sandbox.noticed or not sandbox.record.pid)
        super()._take(sandbox, event, outcome, ended, why)

    def _record_exit(self, sandbox: Sandbox, ended: Exit) -> None:
        """Overwrite a recorded exit. Forget callers that wait for a sandbox that is shut down."""
        if self._silent:
            return
        if sandbox.exited.done():
            sandbox.record = replace(sandbox.record, exit=ended)
            self._on_exit(sandbox.id)
        else:
            super()._record_exit(sandbox, ended)
